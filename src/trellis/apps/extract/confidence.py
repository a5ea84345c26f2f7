"""Probabilities of extracted fields: those under the model's posterior, projected onto the rules.

    q = argmin_q  Σ q log q − q·scores + Σ ρ E_q[violations]                      (unified EM's E-step at γ = 1)
    P(tokens a..b−1 are a field L)  =  q(a..b−1 all L, a−1 and b not L)
                                    =  Q(a, b) − Q(a−1, b) − Q(a, b+1) + Q(a−1, b+1),    Q(a, b) = q(a..b−1 all L)

A chain is Markov under q, so one inference is enough for all fields of a text:

    Q(a, b) = q(y_a = L) Π_{a < t < b} q(y_{t−1} = L, y_t = L) / q(y_{t−1} = L)

For segments, "all L" means that they are one segment, and every Q needs its own inference.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.apps.extract.extractor import Extractor
from trellis.data.document import fields_of
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.tokens import TextLike
from trellis.engine import shards_of
from trellis.models.inference import Inference
from trellis.projection import ProjectionItem, ShardAnswer

AGAINST = 60.0
"""Subtracted from the scores of labels that are excluded; e^−60 is practically 0."""
COPIED = 32_768
"""Maximum number of tokens in copies of texts, per thread."""


@dataclass(frozen=True)
class Runs:
    """Runs of tokens in the texts of a shard, each with one label.

    instance, first, last, label : (n,)
    """

    instance: IntArray
    first: IntArray
    last: IntArray
    label: IntArray


@dataclass(frozen=True)
class _OfShard:
    """Q(a, b) of the runs of every shard, found by its first instance; a run that leaves its text has none."""

    runs: dict[int, Runs]

    def __call__(self, item: ProjectionItem, answer: ShardAnswer) -> FloatArray:
        runs, offsets = self.runs[item.data.first], item.data.offsets
        q = item.rows.q_scores(answer)
        found = np.zeros(len(runs.instance))
        lengths = np.diff(offsets)[runs.instance]
        inside = np.flatnonzero((runs.first >= 0) & (runs.last <= lengths))
        if not len(inside):
            return found
        if q.kind == "chain":
            found[inside] = _along_chains(q, runs, inside)
            return found
        free = q.infer().log_partition
        # every run takes a copy of its text
        cuts = np.flatnonzero(np.diff(np.cumsum(lengths[inside]) // COPIED)) + 1
        for some in np.split(inside, cuts):
            found[some] = np.exp(self._given(q, runs, some, lengths[some]) - free[runs.instance[some]])
        return found

    def _given(self, q: Any, runs: Runs, some: IntArray, lengths: IntArray) -> FloatArray:
        """log Σ over the outputs that give these runs their labels."""
        own = q.take(runs.instance[some])
        at = np.concatenate([[0], np.cumsum(lengths)])
        run = np.repeat(np.arange(len(some)), (runs.last - runs.first)[some])
        within = np.arange(len(run)) - np.searchsorted(run, run)
        slot = at[run] + runs.first[some][run] + within
        grid = own.parts.grid()
        others = np.arange(grid.shape[1]) != runs.label[some][run][:, None]
        parts = grid[slot][others]
        if own.parts.has_again:
            # and of one field: no other begins inside the run
            inner = within > 0
            parts = np.concatenate([parts, own.parts.again(slot[inner], runs.label[some][run][inner])])
        # and not −inf: a run that the strict rules do not allow has an answer too, which is nearly 0
        found: FloatArray = own.add(parts, np.full(len(parts), -AGAINST)).infer().log_partition
        return found


def _along_chains(q: Any, runs: Runs, some: IntArray) -> FloatArray:
    """Q of some runs on chains, from the marginals of labels and transitions."""
    length = (runs.last - runs.first)[some]
    run = np.repeat(np.arange(len(some)), length)
    within = np.arange(len(run)) - np.repeat(np.cumsum(length) - length, length)
    slot = (q.offsets[runs.instance[some]] + runs.first[some])[run] + within
    label, inner = runs.label[some][run], within > 0
    pair = q.parts.transition(slot[inner], label[inner], label[inner])
    posterior = q.infer(at=pair)
    factor = posterior.at(q.parts.label(slot, label))
    # q(y_t = L | y_{t-1} = L), 0 where the label before is impossible
    before = posterior.at(q.parts.label(slot[inner] - 1, label[inner]))
    factor[inner] = np.where(before > 0.0, posterior.at(pair) / np.where(before > 0.0, before, 1.0), 0.0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.exp(np.bincount(run, np.log(factor), minlength=len(some))))


def field_probabilities(
    extractor: Extractor,
    texts: Iterable[TextLike],
    labels: Sequence[Sequence[str]],
    *,
    constrained: bool = True,
    inference: Inference | None = None,
) -> list[list[float]]:
    """The probability of every field that labels give each text, in the order of :func:`fields_of`.

    The texts must be able to satisfy the hard rules. A text has no probabilities if the model's labels themselves
    begin with B- and I-. constrained : whether the rules apply;  inference : of the extractor on these texts
    """
    texts, numbers = extractor.texts(texts), extractor.label_names_
    if not any(map(len, texts)):
        return [[] for _ in texts]
    fields = [fields_of(t, y) for t, y in zip(texts, labels, strict=True)]
    # labels with B- and I- are not the labels of fields
    fields = [own if all(f.label in numbers for f in own) else [] for own in fields]
    given: Any = inference
    if given is None:
        given = extractor.ccm_.infer(extractor.batch(texts, labels=False), constrained=constrained)
    flat = [
        (i, f.first - before, f.last + after, numbers.number(str(f.label)))
        for i, own in enumerate(fields) for f in own for before in (0, 1) for after in (0, 1)
    ]  # fmt: skip
    table = np.array(flat, dtype=np.int64).reshape(len(flat), 4)
    runs = {}
    for shard in shards_of(given.batch):
        low, high = shard.instances.start, shard.instances.stop
        mine = table[(table[:, 0] >= low) & (table[:, 0] < high)]
        runs[low] = Runs(mine[:, 0] - low, mine[:, 1], mine[:, 2], mine[:, 3])
    q = np.concatenate([np.zeros(0), *given.project(_OfShard(runs))]).reshape(-1, 4)
    found = iter(np.clip(q[:, 0] - q[:, 1] - q[:, 2] + q[:, 3], 0.0, 1.0).tolist())
    return [[next(found) for _ in own] for own in fields]
