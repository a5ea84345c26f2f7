"""ArcParser: a discriminative, edge-factored dependency parser (McDonald et al. 2005; Ganchev et al. 2010, eq. 56).

    p(y | x) ∝ exp Σ_{(h, c) in y} θ · f(h, c, x)

Features are those of table 7 and a few more (:mod:`kernels.arc_features`), hashed to 2^bits places. Trees are
projective, or not. The M-step on soft trees q maximises  Σ_i weight_i E_q[log p(y | x_i)] − (l2 / 2) ‖θ‖²  by L-BFGS;
with trees given there are passes of stochastic steps, which average the weights after each step:

    g_f = Σ_arcs with f  (p − q)                        on the likelihood, of a mini-batch; q is 1 on the arcs given
    g_f = Σ_arcs with f  [wrong arc] − [right arc]      on a margin, of the tree that is best with a point a wrong arc

    w_f ← w_f − rate · g_f / √(Σ g_f²)                  (AdaGrad, Duchi et al. 2011)

Steps on a margin are quicker, and better for a parser that only predicts best trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Additive
from trellis.errors import DataError
from trellis.loop import ArrayState, Step, StepResult
from trellis.models.arc_keys import text_of
from trellis.models.documentation import documented
from trellis.models.kernels import arc_features
from trellis.models.log_linear import Dev, LogLinearModel
from trellis.models.state import table_of_rows, used_rows, vocabulary
from trellis.models.tree_model import MOST_WORDS, Heads, TreeModel
from trellis.structures import Arcs, TreePosterior
from trellis.structures.kernels import tree_check

SOLVERS = ("margin", "adagrad", "lbfgs")


@dataclass(frozen=True)
class ArcStatistics(Additive):
    """Expected counts of features (n_weights,), and log_partition : Σ_i weight_i log Z_i."""

    counts: FloatArray
    log_partition: float


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class ArcParser(TreeModel, LogLinearModel):
    """Edge-factored log-linear dependency parser.

    Parameters
    ----------
    single_root : bool, default=True
        Exactly one word is attached to the root.
    projective : bool, default=True
        Arcs must not cross.
    lexical : bool, default=True
        Use features of words; otherwise only of tags.
    bits : int, default=22
        Size of the feature table, as a power of 2.
    min_count : int, default=2
        Words that occur less often are represented by their suffix.
    l2 : float, default=0.1
        Strength of the Gaussian prior on the weights, 1 / σ². Not used by "margin".
    solver : {"margin", "adagrad", "lbfgs"}, default="margin"
        Optimiser: stochastic margin steps, stochastic likelihood steps, or L-BFGS.
    max_iter : int, default=5
        Passes over the data, or rounds of L-BFGS.
    batch_size : int, default=16
        Number of sentences per step of "adagrad".
    average : bool, default=True
        Average the weights of all passes but the first.

    Attributes
    ----------
    weights_ : ndarray of shape (2^bits,)
        Feature weights.
    tag_names_ : Vocabulary
        Tags.
    word_names_ : Vocabulary
        Words.

    Examples
    --------
    >>> trees = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("dog", "N"), ("barks", "V")]]
    >>> parser = ArcParser(bits=12, min_count=1, max_iter=3).fit(trees, [[2, 0], [2, 3, 0]])
    >>> parser.predict([[("the", "D"), ("cat", "N"), ("sleeps", "V")]])
    [[2, 3, 0]]
    """

    single_root: bool = True
    projective: bool = True
    lexical: bool = True
    bits: int = 22
    min_count: int = 2
    l2: float = 0.1
    solver: str = "margin"
    max_iter: int = 5
    learning_rate: float = 0.02
    batch_size: int = 16
    average: bool = True
    tol: float = 1e-4
    random_state: int | None = 0
    patience: int | None = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 1
    verbose: bool = False
    n_jobs: int | None = None
    engine: Any = None

    title = "learning arcs"
    saved: ClassVar = {"tags": vocabulary("tag_names_"), "words": vocabulary("word_names_")}
    ARRAYS: ClassVar = {"places": ArrayOf(np.int64, ("used",), low=0), "values": ArrayOf(np.float64, ("used",))}

    # text in

    def _learn(self, batch: Batch) -> None:
        counts = Counter(word.lower() for word in batch.column("word").strings())
        self.word_names_ = Vocabulary((w for w, n in counts.items() if n >= self.min_count), kind="word")
        self.reset()

    # the four verbs

    def scores(self, batch: Batch) -> Arcs:
        """Log-potentials of p(y | x) over the arcs of the batch."""
        flat = self.uniform(batch)
        arc = np.zeros(flat.parts.n_parts)
        arc_features.score_arcs(self._text(batch), self.weights_, arc)
        return flat.apply(arc)

    def _text(self, batch: Batch) -> Any:
        """What kernels read of a batch."""
        return text_of(batch, self.parts(batch), self.word_names_, self.bits, lexical=self.lexical)

    def collect(self, batch: Batch, q: TreePosterior) -> ArcStatistics:
        """Expected counts of features."""
        parts, counts = self.parts(batch), np.zeros(self._n_weights())
        weighted = q.marginal * np.repeat(batch.weights, parts.sizes())
        arc_features.add_arcs(self._text(batch), weighted, counts)
        return ArcStatistics(counts, float(batch.weights @ q.log_partition))

    def _vector(self, statistics: ArcStatistics) -> FloatArray:
        return statistics.counts

    def phi(self, batch: Batch, outputs: LabelArray) -> Any:
        """Counts of the features of each tree's arcs: a sparse row per sentence."""
        one = np.zeros(self._n_weights())
        used, value = [], []
        for i, (low, high) in enumerate(pairwise(batch.offsets.tolist())):
            sentence = replace(batch.instances(i, i + 1), labels=outputs[low:high])
            arc_features.add_arcs(self._text(sentence), self._given(sentence).marginal, one)
            used.append(np.flatnonzero(one))
            value.append(one[used[-1]])
            one[used[-1]] = 0.0
        start = np.cumsum([0, *map(len, used)])
        none = [np.zeros(0, np.int64)]
        entries = (np.concatenate([np.zeros(0), *value]), np.concatenate([*none, *used]), start)
        return sparse.csr_matrix(entries, shape=(len(batch), len(one)))

    def given_counts(self, batch: Batch) -> FloatArray:
        return self.collect(batch, self._given(batch)).counts

    def _given(self, batch: Batch) -> TreePosterior:
        """The posterior of trees that are all known."""
        given: TreePosterior = self.uniform(batch).certain(batch.labels, weights=batch.weights)
        return given

    # weights

    def _n_weights(self) -> int:
        return 1 << int(self.bits)

    # alone, as an estimator

    def fit(
        self, X: Any, y: Heads | None = None, sample_weight: Any = None, *, dev: Dev = None, resume: bool = False
    ) -> Self:
        """Supervised training on the sentences whose trees are known, and have no crossing arcs if trees may have none.

        dev : (X, y) whose score decides which round is kept

        Sentences of more than 2,000 words are left out. ``n_left_out_`` counts all that are.
        To learn from known heads and from sentences without trees as well, give the model to a learner.
        """
        self._check_types()
        batch = TreeModel.encode(self, X, y, sample_weight, fit=True)
        kept = self._usable(batch)
        kept = kept[batch.lengths[kept] <= MOST_WORDS]
        self.n_left_out_ = int(np.count_nonzero(batch.complete)) - len(kept)
        if not len(kept):
            raise DataError(
                "no sentence has a complete tree of this kind, and fit uses only such sentences; to learn from known "
                "heads, train this model with a learner of trellis.learn"
            )
        return self._trained(self._loop(batch.take(kept), dev).run(resume=resume))

    def _step(self, batch: Batch) -> Step[Any]:
        if self.solver == "margin" and not self.projective:
            raise DataError("margin steps require projective trees: use solver='adagrad' or 'lbfgs'")
        return super()._step(batch) if self.solver == "lbfgs" else ArcPass(self, batch)

    def encode(self, X: Any, y: Heads | None = None, weights: Any = None, fit: bool = False) -> Batch:
        batch = super().encode(X, y, weights, fit)
        crossing = np.setdiff1d(np.flatnonzero(batch.complete), self._usable(batch))
        if len(crossing):
            raise DataError(
                f"the tree of sentence {int(crossing[0])} (and {len(crossing) - 1} more) is not possible in this "
                "model: its arcs cross or form a cycle, or there are several roots. Leave it out, or some of its "
                "heads, or set projective=False or single_root=False"
            )
        return batch

    def _usable(self, batch: Batch) -> IntArray:
        """Numbers of the sentences whose whole tree is known and one that the model has."""
        whole = np.flatnonzero(batch.complete)
        some, is_tree = batch.take(whole), np.zeros(len(whole), dtype=np.bool_)
        tree_check.check_trees(some.offsets, some.labels, self.single_root, self.projective, is_tree)
        usable: IntArray = whole[is_tree]
        return usable

    # one file

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        return used_rows(self.weights_, "values")

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.label_names_ = Vocabulary([], kind="label")
        checked = check_arrays(self.ARRAYS, arrays)
        self._set_weights(table_of_rows(checked["places"], checked["values"], self._n_weights()))

    def _check_settings(self) -> None:
        self._check_whole(bits=4, min_count=1, max_iter=1, batch_size=1, random_state=0, patience=1, checkpoint_every=1)
        if self.bits > 26:
            raise DataError(f"bits must be at most 26, got {self.bits}")
        self._check_within(l2=(0.0, np.inf), tol=(0.0, np.inf), learning_rate=(1e-300, 1e300))
        self._check_names(solver=SOLVERS)


LEAST = 1e-3
"""Steps on the likelihood leave out arcs whose probability is this near to what it should be."""
FIRST_SQUARE = {"margin": 1e-8, "adagrad": 1e-3}
"""What the squared gradients of a weight begin with, so that a first step is not endless."""


@dataclass(frozen=True)
class PassesState(ArrayState):
    """Where a pass ended.

    weights : (n_weights,), not averaged;  steps : (3, n_weights) squared gradients; Σ_s s · change in step s; the
        number of steps
    early : (n_weights,) the sum of the weights after each step of the first pass, of which there were ``early_steps``
    passed : share of a pass since the prior last pulled
    """

    weights: FloatArray
    steps: FloatArray
    early: FloatArray
    early_steps: float
    passed: float

    ARRAYS: ClassVar = {
        "weights": ArrayOf(np.float64, ("weights",)),
        "steps": ArrayOf(np.float64, (3, "weights")),
        "early": ArrayOf(np.float64, ("weights",)),
        "early_steps": ArrayOf(np.float64, (), low=0.0),
        "passed": ArrayOf(np.float64, (), low=0.0),
    }


class ArcPass(Step[PassesState]):
    """A pass over sentences whose trees are all known, in another order each time.

    The weights of the model are then the average over the steps of all passes but the first (after the first, of that
    one), where it averages.
    """

    def __init__(self, model: ArcParser, batch: Batch) -> None:
        self.model, self.batch, self.text = model, batch, model._text(batch)

    def initial_state(self, gamma: float, rng: np.random.Generator) -> PassesState:
        n = len(self.model.weights_)
        steps = np.zeros((3, n))
        steps[0] = FIRST_SQUARE[self.model.solver]
        return PassesState(self.model.weights_.copy(), steps, np.zeros(n), 0.0, 0.0)

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> PassesState:
        return PassesState.read(arrays, weights=len(self.model.weights_))

    def run(self, gamma: float, state: PassesState, rng: np.random.Generator) -> StepResult:
        model, batch = self.model, self.batch
        weights, steps, passed = state.weights, state.steps, float(state.passed)
        if model.checkpoint is not None:  # which may be written in the middle of this pass, from the state before it
            weights, steps = weights.copy(), steps.copy()
        model.weights_ = weights
        order = rng.permutation(len(batch))
        if model.solver == "margin":
            lost = float(
                arc_features.margin_pass(
                    self.text, order, batch.labels, model.single_root, weights, model.learning_rate, steps
                )
            )
        else:
            lost = 0.0
            for first in range(0, len(order), model.batch_size):
                some = batch.take(order[first : first + model.batch_size])
                lost += step_towards(model, some, model._given(some), steps)
                passed += len(some) / len(batch)
                if passed >= 1.0:
                    passed -= 1.0
                    before = weights.copy()
                    weights /= 1.0 + model.learning_rate * model.l2 / np.sqrt(steps[0])
                    steps[1] += steps[2, 0] * (weights - before)
        early, early_steps = state.early, float(state.early_steps)
        if model.average:
            n = float(steps[2, 0])
            total = n * weights - steps[1]  # the sum of the weights after each step so far
            model.weights_ = (total - early) / (n - early_steps) if early_steps else total / n
            if not early_steps:
                early, early_steps = total, n
        else:
            model.weights_ = weights.copy()
        left = PassesState(weights, steps, early, early_steps, passed)
        return StepResult(None, -lost, left, evaluations=len(batch))


def step_towards(model: ArcParser, batch: Batch, q: TreePosterior, steps: FloatArray) -> float:
    """One step of the model's weights, in place, towards a posterior of a mini-batch; returns −Σ_i w_i E_q[log p]."""
    scores, parts = model.scores(batch), model.parts(batch)
    p = scores.infer()
    gradient = (p.marginal - q.marginal) * np.repeat(batch.weights, parts.sizes())
    lost = float(batch.weights @ p.log_partition) - scores.expected_score(q, batch.weights)
    arc_features.step_arcs(model._text(batch), gradient, LEAST, model.weights_, model.learning_rate, steps)
    return lost
