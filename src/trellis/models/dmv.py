"""DMV: the dependency model with valence, a generative model of tags (Klein & Manning 2004; Ganchev et al. 2010, eq.
57).

    p(x, y) = root(r) · Π_{(h, c) in y} (1 − stop(h, side, v)) child(c | h, side) · Π_{w, side} stop(w, side, v)

A head makes its dependents of either side from the nearest outwards; v says whether it has one on that side yet.
Written over arcs, with everything that does not depend on the tree in a base score,

    base     = Σ_w Σ_side log stop(w, side, none yet)
    arc      = log child(c | h, side) + log (1 − stop(h, side, some))
    nearest  = log (1 − stop(h, side, none yet)) − log (1 − stop(h, side, some))
             + log stop(h, side, some) − log stop(h, side, none yet)

which is what :class:`trellis.structures.Trees` sums over. Tags are all that it sees of a sentence. M-steps are those of
:mod:`trellis.models.dirichlet`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, as_parameters
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Additive, Engine
from trellis.errors import DataError
from trellis.models import dirichlet
from trellis.models.documentation import documented
from trellis.models.inference import BestOutputs
from trellis.models.state import vocabulary
from trellis.models.tree_model import Heads, TreeModel
from trellis.structures import TreePosterior, Trees

DECODINGS = ("viterbi", "posterior")
LEFT, RIGHT = 0, 1
NONE_YET, SOME = 0, 1
FLOOR = -100.0
"""No logarithm of a probability is below this: what was never seen stays possible, if barely."""


@dataclass(frozen=True)
class DMVStatistics(Additive):
    """Expected counts, a distribution in each column.

    root : (T, 1);  child : (T, 2 T), columns (head, side);  stop : (2, 4 T), rows (go on, stop), columns (head, side,
    v)
    """

    root: FloatArray
    child: FloatArray
    stop: FloatArray


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class DMV(TreeModel):
    """Dependency model with valence over part-of-speech tags (Klein & Manning 2004).

    Parameters
    ----------
    root_prior : float, default=1.0
        Dirichlet parameter α of roots.
    child_prior : float, default=1.0
        Dirichlet parameter α of children.
    stop_prior : float, default=1.0
        Dirichlet parameter α of stop decisions.
    variational : bool, default=False
        Use variational Bayes in place of the posterior mode; priors below 1 are then allowed.
    harmonic : float or None, default=1.0
        The harmonic start weights arcs by 1 / (harmonic + distance). None gives all trees the same weight.
    smoothing : float, default=4.5399929762484854e-05
        Added to every probability before prediction (Ganchev et al. 2010, sec. 7.3.2).
    decoding : {"viterbi", "posterior"}, default="viterbi"
        Predict the most probable tree, or the tree with the most correct heads in expectation.

    Attributes
    ----------
    root_ : ndarray of shape (T, 1)
        Root probabilities.
    child_ : ndarray of shape (T, 2 T)
        Child probabilities.
    stop_ : ndarray of shape (2, 4 T)
        Stop probabilities.
    tag_names_ : Vocabulary
        Tags.

    Examples
    --------
    >>> from trellis.learn import UEM
    >>> text = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("dog", "N"), ("barks", "V")]]
    >>> learner = UEM(DMV(), start="uniform", max_iter=3, tol=0).fit(text)
    >>> learner.history_.objective == sorted(learner.history_.objective)
    True
    """

    root_prior: float = 1.0
    child_prior: float = 1.0
    stop_prior: float = 1.0
    variational: bool = False
    harmonic: float | None = 1.0
    smoothing: float = float(np.exp(-10.0))
    decoding: str = "viterbi"
    n_jobs: int | None = None

    discriminative = False
    projective = True
    single_root = True
    saved: ClassVar = {"tags": vocabulary("tag_names_", may_be_empty=False)}
    ARRAYS: ClassVar = {
        "root": ArrayOf(np.float64, ("tags", 1), low=0.0),
        "child": ArrayOf(np.float64, ("tags", "columns"), low=0.0),
        "stop": ArrayOf(np.float64, (2, "events"), low=0.0),
    }

    def _learn(self, batch: Batch) -> None:
        self.reset()

    def _check_settings(self) -> None:
        for name in ("root_prior", "child_prior", "stop_prior"):
            dirichlet.check_prior(name, getattr(self, name), variational=self.variational)
        self._check_within(harmonic=(0.0, 1e9), smoothing=(0.0, 1.0))
        self._check_names(decoding=DECODINGS)

    # the four verbs

    def scores(self, batch: Batch) -> Trees:
        """log p(x, y) over the arcs of the batch."""
        return self._scores(batch, *self._logs)

    def _scores(self, batch: Batch, root: FloatArray, child: FloatArray, stop: FloatArray) -> Trees:
        parts, tags, n_tags = self.parts(batch), batch.column("upos").codes.astype(np.int64), len(self.tag_names_)
        is_root, column, of_child = self._events(batch)
        go_on, end = stop.reshape(2, 2 * n_tags, 2)
        more = go_on[:, NONE_YET] - go_on[:, SOME] + end[:, SOME] - end[:, NONE_YET]
        arc = child[of_child, column] + go_on[column, SOME]
        arc[is_root] = root[tags, 0]
        nearest = np.where(is_root, 0.0, more[column])
        alone = end[:, NONE_YET].reshape(n_tags, 2).sum(axis=1)[tags]
        base = np.diff(np.concatenate(([0.0], np.cumsum(alone)))[batch.offsets])
        return Trees(parts.offsets, arc, nearest=nearest, base=base, first=batch.first)

    def uniform(self, batch: Batch) -> Trees:
        """Where EM usually starts: Klein and Manning's harmonic arcs, or equal weights of all trees."""
        parts = self.parts(batch)
        arc = np.zeros(parts.n_parts)
        if self.harmonic is not None:
            head, child = parts.arc_words()
            arc = np.where(head < 0, 0.0, -np.log(self.harmonic + np.abs(head - child)))
        return Trees(parts.offsets, arc, nearest=np.zeros(len(arc)), first=batch.first)

    def collect(self, batch: Batch, q: TreePosterior) -> DMVStatistics:
        """Expected counts of roots, children, and decisions to continue or stop."""
        if q.near is None:
            raise DataError(
                "the posterior of a DMV must know nearest dependents: ask its own scores, or a change of them"
            )
        tags, n_tags = batch.column("upos").codes.astype(np.int64), len(self.tag_names_)
        is_root, column, of_child = self._events(batch)
        weight = np.repeat(batch.weights, self.parts(batch).sizes())
        used, near = weight * q.marginal, np.where(is_root, 0.0, weight * q.near)
        root = np.bincount(of_child[is_root], used[is_root], minlength=n_tags)
        used = np.where(is_root, 0.0, used)
        child = np.bincount(of_child * 2 * n_tags + column, used, minlength=2 * n_tags * n_tags)
        arcs = np.bincount(column, used, minlength=2 * n_tags)
        first = np.bincount(column, near, minlength=2 * n_tags)
        words = np.repeat(np.bincount(tags, np.repeat(batch.weights, batch.lengths), minlength=n_tags), 2)
        # A side has a nearest dependent, or stops at once; with one it goes on for each further, and stops in the end.
        stop = np.array([[first, arcs - first], [words - first, first]]).transpose(0, 2, 1).reshape(2, -1)
        return DMVStatistics(
            root.reshape(-1, 1).astype(np.float64), child.reshape(n_tags, -1).astype(np.float64), np.maximum(stop, 0.0)
        )

    def update(
        self, statistics: DMVStatistics, *, shards: Sequence[Batch] | None = None, engine: Engine | None = None
    ) -> None:
        """M-step: counts are all it needs."""
        counts = (statistics.root, statistics.child, statistics.stop)
        pairs = zip(counts, self._priors, strict=True)
        self._set(*(dirichlet.fitted(own, prior, variational=self.variational) for own, prior in pairs))

    def log_prior(self) -> float:
        """Log-density of the Dirichlet priors up to a constant; with ``variational`` −KL(q(θ) ‖ p(θ))."""
        return dirichlet.log_prior(self._tables, self._priors, variational=self.variational)

    def _events(self, batch: Batch) -> tuple[NDArray[np.bool_], IntArray, IntArray]:
        """Of each arc: whether it comes from the root, the column of its head and side, and the tag of its child."""
        head, child = self.parts(batch).arc_words()
        tags = batch.column("upos").codes.astype(np.int64)
        column = 2 * tags[np.maximum(head, 0)] + np.where(child < head, LEFT, RIGHT)
        return head < 0, column, tags[child]

    # parameters

    @property
    def _priors(self) -> tuple[float, float, float]:
        return self.root_prior, self.child_prior, self.stop_prior

    @property
    def _sizes(self) -> dict[str, int]:
        n = len(self.tag_names_)
        return {"tags": n, "columns": 2 * n, "events": 4 * n}

    def _set(self, *tables: FloatArray) -> None:
        """Probabilities, or with ``variational`` Dirichlet parameters."""
        self._tables = tables
        (self.root_, self.child_, self.stop_), logs = dirichlet.means_and_logs(tables, variational=self.variational)
        self._logs = tuple(np.maximum(own, FLOOR) for own in logs)

    def reset(self) -> None:
        """Uniform parameters."""
        self.update(self._constant(np.zeros))

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Parameters from pseudo-counts 1 + scale · U(0, 1)."""
        self.update(self._constant(lambda shape: 1.0 + scale * rng.random(shape)))

    def _constant(self, make: Any) -> DMVStatistics:
        n = len(self.tag_names_)
        return DMVStatistics(make((n, 1)), make((n, 2 * n)), make((2, 4 * n)))

    def parameters(self) -> dict[str, FloatArray]:
        """The probabilities, or with ``variational`` the Dirichlet parameters: "root", "child", "stop"."""
        self._check_fitted()
        return dict(zip(("root", "child", "stop"), self._tables, strict=True))

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take parameters of the form that :meth:`parameters` gives."""
        tables = as_parameters(self.ARRAYS, parameters, **self._sizes)
        for name, table in tables.items() if not self.variational else ():
            dirichlet.check_sums(name, table)
        self._set(*tables.values())

    # alone, as an estimator

    def fit(self, X: Any, y: Heads | None = None, sample_weight: Any = None) -> Self:
        """Supervised: count in the sentences whose trees are known, and projective."""
        self._check_types()
        batch = self.encode(X, y, sample_weight, fit=True)
        whole = batch.take(np.flatnonzero(batch.complete))
        kept = whole.take(np.flatnonzero(self.uniform(whole).score(whole.labels) > -np.inf))
        if not len(kept):
            raise DataError("no sentence has a complete tree; to learn without trees, use a learner of trellis.learn")
        self.update(self.collect(kept, self.uniform(kept).certain(kept.labels)))
        return self

    def best_trees(self, batch: Batch) -> BestOutputs:
        """The best trees under smoothed probabilities."""
        with np.errstate(divide="ignore"):
            smooth = [np.maximum(np.log(t + self.smoothing), FLOOR) for t in (self.root_, self.child_, self.stop_)]
        scores = self._scores(batch, *smooth)
        heads = scores.argmax().outputs if self.decoding == "viterbi" else scores.marginal_argmax(scores.infer())
        return BestOutputs(heads, scores.score(heads), np.full(len(batch), self.decoding == "viterbi"))

    # one file

    def _array_sizes(self) -> dict[str, int]:
        return self._sizes

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self.label_names_ = Vocabulary([], kind="label")
        super()._take_arrays(arrays)
