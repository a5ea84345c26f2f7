"""Inference with a model of relations under its rules, and what the rules change.

Variables of mentions and pairs are tied by factors where rules make it necessary: for an argmax in sentences of any
size, for sums in those of few mentions; elsewhere sums keep to the rules in expectation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from trellis.constraints import Constraint
from trellis.constraints.rows import Rows
from trellis.data.batch import Batch
from trellis.data.document import Document
from trellis.data.ragged import IntArray, LabelArray
from trellis.engine import Engine
from trellis.models.inference import OUTPUTS, POSTERIORS, BestOutputs, Inference
from trellis.models.model import rows_of
from trellis.models.relation_model import MOST_SUMMED
from trellis.projection import project
from trellis.search import decode

ANY_NUMBER = 2**30
"""Of mentions: an argmax is exact whatever their number."""


def rows_inside(model: Any, batch: Batch, constraints: Sequence[Constraint]) -> Rows:
    """The rows that concern single sentences."""
    return rows_of(model, batch, constraints).canonical().local()


class RelationInference(Inference):
    """Inference over sentences with mentions; constraints : None: the model alone."""

    def __init__(self, model: Any, batch: Batch, engine: Engine, constraints: Sequence[Constraint] | None) -> None:
        super().__init__(model, batch, engine)
        self.constraints = constraints

    @cached_property
    def posterior(self) -> Any:
        """The posterior of all slots: sums within the rules, in expectation for sentences of many mentions."""
        return self._shards(POSTERIORS)[0]

    def _run(self, kinds: tuple[str, ...]) -> dict[str, list[Any]]:
        own = {OUTPUTS: self._best, POSTERIORS: self._posterior}
        rest = tuple(kind for kind in kinds if kind not in own)
        return {**(super()._run(rest) if rest else {}), **{kind: [own[kind]()] for kind in kinds if kind in own}}

    def _best(self) -> BestOutputs:
        if self.constraints is None:
            best = self.model.scores(self.batch).members().argmax()
            return BestOutputs(np.asarray(best.outputs), best.score, np.ones(len(self.batch), np.bool_))
        model = self.model.with_ties(ANY_NUMBER)
        found = decode(model.scores(self.batch), rows_inside(model, self.batch, self.constraints))
        return BestOutputs(np.asarray(found.outputs), found.value, found.proved)

    def _posterior(self) -> Any:
        model = self.model.with_ties(0 if self.constraints is None else MOST_SUMMED)
        scores = model.scores(self.batch)
        if self.constraints is None:
            return scores.infer()
        return project(scores, rows_inside(model, self.batch, self.constraints)).posterior


@dataclass(frozen=True)
class Change:
    """What rules changed in a sentence.

    what : a mention's place, or those of two;  before, after : its type or their relation
    rules : names of the rules that the model alone breaks there; none: a consequence of others
    """

    sentence: int
    what: tuple[int, ...]
    before: str
    after: str
    rules: tuple[str, ...]


def changes_of_whole(changes: Sequence[Change], pieces: Sequence[Document], owner: Sequence[int]) -> list[Change]:
    """Changes in sentences from those in their runs of mentions."""
    firsts, n_mentions = [], dict.fromkeys(owner, 0)
    for piece, number in zip(pieces, owner, strict=True):
        firsts.append(n_mentions[number])
        n_mentions[number] += len(piece.spans or ())
    return [
        replace(c, sentence=owner[c.sentence], what=tuple(firsts[c.sentence] + place for place in c.what))
        for c in changes
    ]


def changes(found: RelationInference, plain: LabelArray) -> list[Change]:
    """Labels that differ, with the rules that the first output breaks where it is changed."""
    model, batch, best = found.model.with_ties(ANY_NUMBER), found.batch, found.outputs
    broken = _broken(model, batch, rows_inside(model, batch, found.constraints or ()), plain)
    names = [np.array(own) for own in model.types_]
    owner = np.repeat(np.arange(len(batch)), batch.lengths)
    first, second = batch.column("first").codes, batch.column("second").codes
    made = []
    for slot in np.flatnonzero(plain != best).tolist():
        is_pair, i = bool(first[slot] >= 0), int(owner[slot])
        start = int(batch.offsets[i])
        what = (int(first[slot]), int(second[slot])) if is_pair else (slot - start,)
        guilty = broken.get(slot, ())
        kind = names[1] if is_pair else names[0]
        made.append(Change(i, what, str(kind[plain[slot]]), str(kind[best[slot]]), tuple(sorted(set(guilty)))))
    return made


def _broken(model: Any, batch: Batch, rows: Rows, outputs: LabelArray) -> dict[int, list[str]]:
    """Names of the rules that an output breaks, by every slot that they see there."""
    used = model.parts(batch).of(outputs)
    found: dict[int, list[str]] = {}

    def blame(name: str, guilty: IntArray) -> None:
        for slot in model.slots_seen(batch, guilty).tolist():
            found.setdefault(slot, []).append(name)

    for number, some in zip(rows.forbidden.by, rows.forbidden.sets, strict=True):
        blame(rows.names[number], used[some.contains(used)])
    over = np.flatnonzero(rows.excess(rows.evaluate(outputs)) > 1e-9)
    for r in over.tolist():
        own = rows.part[rows.start[r] : rows.start[r + 1]]
        blame(rows.names[int(rows.constraint[r])], own[np.isin(own, used)])
    return found
