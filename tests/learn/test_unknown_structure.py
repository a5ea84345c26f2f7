"""A structure that src has never heard of is learned, constrained, diagnosed and decoded like the others.

Model: every element of an instance is chosen or not, and shows a symbol: p(z = 1) = share, p(x | z) = emission[z, x].
An output is the subset of chosen elements (tests/structures/subsets.py), so the posterior is exact and EM must rise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from structures.subsets import SubsetParts, Subsets

from trellis.constraints import Constraint
from trellis.constraints.context import Context, RowBlock
from trellis.constraints.rows import COUPLING
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, InfeasibleError
from trellis.learn import UEM

TEXT = [list("abba"), list("ab"), list("ccab"), list("b"), list("acca"), list("aaab")]
SYMBOLS = Vocabulary(["a", "b", "c"])


@dataclass(frozen=True)
class Counts:
    """(2, 3): how often each symbol was shown by elements that were not chosen, and by those that were."""

    table: np.ndarray

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.table + other.table)

    def __mul__(self, factor: float) -> Counts:
        return Counts(self.table * factor)


class Choice:
    """The four verbs over subsets. The score of a subset is that of its elements over their not being chosen."""

    discriminative = False
    label_names_ = Vocabulary([], kind="label")

    def __init__(self) -> None:
        self.reset()

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Batch:
        return Batch.from_sentences(X, words=SYMBOLS)

    def parts(self, batch: Batch) -> SubsetParts:
        return SubsetParts(batch.offsets, np.zeros(len(batch), np.int64), batch.lengths)

    def scores(self, batch: Batch) -> Subsets:
        x = batch.column("word").codes
        joint = np.log(np.array([1.0 - self.share, self.share])[:, None] * self.emission)
        self.seen = float(joint[0, x].sum())
        return Subsets(batch.offsets, joint[1, x] - joint[0, x], first=batch.first)

    def collect(self, batch: Batch, q: Any) -> Counts:
        chosen = q.at(np.arange(batch.n_slots)) * np.repeat(batch.weights, batch.lengths)
        x, table = batch.column("word").codes, np.zeros((2, 3))
        np.add.at(table[1], x, chosen)
        np.add.at(table[0], x, np.repeat(batch.weights, batch.lengths) - chosen)
        return Counts(table)

    def update(self, statistics: Counts, *, shards: Any = None, engine: Any = None) -> None:
        table = statistics.table + 0.1
        self.share = float(table[1].sum() / table.sum())
        self.emission = table / table.sum(axis=1, keepdims=True)

    def log_prior(self) -> float:
        """The prior, and the part of log p(x) that no subset changes."""
        smoothing = 0.1 * np.log(np.array([1.0 - self.share, self.share])[:, None] * self.emission).sum()
        return float(smoothing + self.seen)

    def reset(self) -> None:
        self.share, self.emission = 0.4, np.array([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]])

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        self.update(Counts(1.0 + scale * rng.random((2, 3))))

    def parameters(self) -> dict[str, np.ndarray]:
        return {"share": np.array([self.share]), "emission": self.emission}

    def set_parameters(self, parameters: dict[str, np.ndarray]) -> None:
        self.share, self.emission = float(parameters["share"][0]), parameters["emission"]

    def decode(self, batch: Batch, outputs: np.ndarray) -> list[list[bool]]:
        return [outputs[a:b].tolist() for a, b in zip(batch.offsets, batch.offsets[1:], strict=False)]

    def score(self, X: Any, y: Any) -> float:
        return 0.0


@dataclass(frozen=True, eq=False, repr=False)
class HowMany(Constraint):
    """The expected number of chosen elements: at most, or with sign −1 at least, ``bound``."""

    bound: float
    sign: int = 1
    corpus: bool = False

    def code(self) -> str:
        return f"chosen() {'<=' if self.sign > 0 else '>='} {self.bound:g}"

    def statement(self) -> str:
        return f"the number of chosen elements is {'at most' if self.sign > 0 else 'at least'} {self.bound:g}"

    def blocks(self, context: Context) -> Sequence[RowBlock]:
        part = np.arange(context.parts.n_parts, dtype=np.int64)
        instance = context.parts.instance_of(part)
        n = 1 if self.corpus else context.parts.n_instances
        return [
            RowBlock(
                row=np.zeros(len(part), np.int64) if self.corpus else instance,
                part=part,
                coefficient=np.full(len(part), float(self.sign)),
                bound=np.full(n, self.sign * self.bound),
                equality=False,
                instance=np.full(1, COUPLING) if self.corpus else np.arange(n),
                sign=self.sign,
                offset=np.zeros(n),
                subject="the number of chosen elements",
                where=lambda row: f"instance {row}",
            )
        ]


def strengths(constraint: Constraint) -> list[Constraint]:
    return [
        constraint,
        constraint.slack(0.1),
        constraint.slack(0.1, "l1"),
        constraint.penalty(2.0),
        constraint.penalty(2.0, "linf"),
        constraint.penalty(2.0, "squared"),
        constraint.penalty(2.0, "l2"),
    ]


CASES = [
    *[[c] for c in strengths(HowMany(0.9, 1))],
    *[[c] for c in strengths(HowMany(7.0, -1, corpus=True))],
    [HowMany(0.4, -1).penalty(5.0), HowMany(5.0, 1, corpus=True)],
]


def is_round(constraints: list[Constraint]) -> bool:
    return any(c.strength.describe().endswith(("(L2)", "squared violation")) for c in constraints)


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0, 2.0])
@pytest.mark.parametrize("constraints", CASES, ids=lambda case: " and ".join(c.describe() for c in case))
def test_every_round_of_uem_rises_over_an_unknown_structure(constraints, gamma):
    learner = UEM(
        Choice(), constraints, gamma=gamma, start="random", random_state=3, max_iter=6, tol=0.0, projection_tol=1e-6
    )
    if gamma == 0.0 and is_round(constraints):
        with pytest.raises(ConstraintError, match="has an L2 or KL strength"):
            learner.fit(TEXT)
        return
    learner.fit(TEXT)
    objective = np.array(learner.history_.objective)
    assert np.all(np.diff(objective) >= -1e-5 * (1.0 + np.abs(objective[:-1])))
    hard = [c for c in constraints if c.strength.describe() == "as a hard constraint"]
    for constraint in hard:
        assert learner.history_[-1].violation[constraint.name] <= 1e-5


def test_without_constraints_it_is_plain_em():
    """The objective is then the log-likelihood of the mixture, written down here by hand."""
    learner = UEM(Choice(), gamma=1.0, start="random", random_state=1, max_iter=3, tol=0.0).fit(TEXT)
    model = Choice()
    model.randomize(np.random.default_rng([1, 0]))
    mixture = np.array([1.0 - model.share, model.share]) @ model.emission
    codes = [SYMBOLS.number(c) for sentence in TEXT for c in sentence]
    likelihood = float(np.log(mixture[codes]).sum())
    smoothing = 0.1 * np.log(np.array([1.0 - model.share, model.share])[:, None] * model.emission).sum()
    assert learner.history_[0].objective == pytest.approx(likelihood + smoothing, rel=1e-9)


def test_a_conflict_over_an_unknown_structure_is_diagnosed():
    conflict = [HowMany(1.5, -1).named("many"), HowMany(1.0, 1).named("few"), HowMany(3.5, 1).named("harmless")]
    with pytest.raises(InfeasibleError, match="'many' and 'few' cannot hold together") as caught:
        UEM(Choice(), conflict, start="random", random_state=0, max_iter=2).fit([list("abc"), list("bc")])
    assert set(caught.value.constraints) == {"many", "few"}
    assert caught.value.slack == pytest.approx(0.25, abs=1e-6)


def test_rows_that_no_output_can_meet_are_refused_before_any_score_is_known():
    with pytest.raises(InfeasibleError, match=r"cannot hold.*at most 1"):
        UEM(Choice(), [HowMany(2.0, -1).named("two")], max_iter=2).fit([list("abc"), list("b")])


def test_tight_rows_become_forbidden_parts():
    """At most none: every element is forbidden, and the posterior says so exactly."""
    learner = UEM(Choice(), [HowMany(0.0, 1)], start="random", random_state=0, max_iter=2, tol=0.0).fit(TEXT)
    assert learner.model_.share < 0.05
