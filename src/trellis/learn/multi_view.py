"""MultiView: models on different views of the same instances, trained to agree on unlabelled instances.

    min_θ  Σ_i L_i(θ_i) + c E_U[ B(p_1, p_2, ...) ]                                 (Ganchev et al. 2010, eq. 47, 53)

L_i is the mean loss of view i on labelled instances, E_U[B] the mean Bhattacharyya distance  −log Σ_y Π_i p_i(y)^{1/n}
of the n views on unlabelled ones, and c = n · ``weight``: an instance that the views disagree on costs Σ_i KL(q ‖ p_i),
which is n times its distance. In the one loop: the E-step is agreement, q ∝ Π_i p_i^{1/n} (prop. 6.1, 6.2, in closed
form), or through maps of labels onto common classes (prop. 6.3, eq. 54); the M-step fits every view to q and to its
labels.

Views agree best where all say the same of everything, so what labels there are tell more than what each instance is:

    p_k − shares · s_k  ≤  E_q[ label k ] / tokens  ≤  p_k + shares · s_k          over all that is not labelled

where p and s are mean and standard deviation of the labels' shares given the labelled ones (a Dirichlet posterior).
With them to hold it, q can be as sure as views are that do not repeat each other: their product (γ = 1/n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule, count
from trellis.constraints.expression import Written, read_constraints, write_constraints
from trellis.data.batch import ViewBatch
from trellis.data.files import FilePath
from trellis.engine import engine_for, place_batch, threads_for
from trellis.errors import DataError, check_name
from trellis.learn.agreement import AgreedInference, AgreementStep, AgreeShard
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.learner import DECODINGS, ProjectedLearner
from trellis.learn.training import Training, count_known
from trellis.loop.history import History
from trellis.models.documentation import documented
from trellis.models.inference import Inference
from trellis.models.model import bare, own_model
from trellis.models.saving import SavedEstimator
from trellis.models.state import InnerHeader
from trellis.models.views import Views, check_outputs

AGREEMENT = "agreement"
PRICE = 10.0
"""Of each expected instance, or token, that labels are too common or too rare by."""


class _MultiViewHeader(TypedDict):
    """What a file keeps beside the arrays."""

    views: list[InnerHeader]
    constraints: list[Written]
    history: list[dict[str, Any]]


@documented
@dataclass(eq=False, repr=False)
class MultiView(ProjectedLearner):
    """Train several models that see the same instances through different features, and make them agree.

    Minimises the losses on labelled instances plus the Bhattacharyya distance of the views on unlabelled ones (Ganchev
    et al. 2010, eq. 47).

    Parameters
    ----------
    models : list of estimators
        Two or more models with the same kind of output: classifiers (MaxEnt, NaiveBayes), taggers (CRF, HMM) or
        SemiCRFs. Copies are trained and stored as ``models_``.
    constraints : list of Constraint, default=()
        Constraints on the agreed posterior of instances that are not fully labelled. With ``maps`` they are about
        the labels of the first view and about single instances.
    maps : list of dict or None, default=None
        For views with different label sets, or taggers and SemiCRFs together: a mapping from label to class for each
        view, or None. Views then agree on classes, and ``y`` is one list of labels per view.
    edges : bool, default=True
        With ``maps`` and taggers, whether the classes of neighbouring tokens agree as well.
    shares : float or None, default=2.0
        Label proportions on unlabelled instances lie within this many standard deviations of the labelled ones, with a
        penalty of 10 per instance beyond. None switches this off.
    gamma : float or None, default=None
        Temperature γ of the agreed posterior, q ∝ Π_i p_i^{1/nγ}. 1 is the geometric mean and 1/n the product of the n
        views. The default is 1/n, or 1 if ``shares`` is None.
    weight : float, default=1.0
        Total weight of all unlabelled instances, relative to 1 for all labelled ones.
    random_state : int or None, default=None
        Seed of the random numbers.

    Attributes
    ----------
    model_ : Views
        The trained models together, as one model.
    models_ : list
        The trained copies of the models.
    gamma_ : float
        The temperature used.
    history_ : History
        One entry per round; ``kl`` is the distance of the views.

    Examples
    --------
    >>> from trellis.models import MaxEnt
    >>> words, shapes = np.eye(4)[[0, 1, 2, 2, 3, 3]], np.eye(2)[[0, 1, 0, 0, 1, 1]]
    >>> both = MultiView([MaxEnt(l2=0.1), MaxEnt(l2=0.1)]).fit([words, shapes], ["a", "b", None, None, None, None])
    >>> both.predict([words, shapes]).tolist(), both.predict([words, shapes], by=0).tolist()
    (['a', 'b', 'a', 'a', 'b', 'b'], ['a', 'b', 'a', 'a', 'b', 'b'])
    """

    models: Sequence[Any]
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    maps: Sequence[Mapping[str, str] | None] | None = None
    edges: bool = True
    shares: float | None = 2.0
    gamma: float | None = None
    weight: float = 1.0
    max_iter: int = 100
    tol: float = 1e-5
    projection_tol: float = 1e-3
    max_evaluations: int = 200
    random_state: int | None = None
    n_jobs: int | None = None
    engine: Any = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 10
    verbose: bool = False

    not_saved = (*SavedEstimator.not_saved, "models", "constraints")
    learned_names = _MultiViewHeader

    @property
    def models_(self) -> list[Any]:
        """The trained models, one a view."""
        found: list[Any] = self.model_.members
        return found

    @property
    def gamma_(self) -> float:
        """γ, where none is given that of the default."""
        if self.gamma is not None:
            return float(self.gamma)
        return 1.0 if self.shares is None or self.maps is not None else 1.0 / len(self.models)

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, resume: bool = False) -> Self:
        """Train models like the ones given.

        X : a list of the instances as each view sees them (the same text for two taggers with different features)
        y : labels, None where unknown; with ``maps`` a list of such labels for each view
        """
        self._check_types()
        self._check_settings()
        model: Any = Views([own_model(one, learned=False) for one in self.models], self.maps)
        batch = self._weighted(model.encode(*model.labelled(X, y), sample_weight, fit=True))
        training = Training(model, batch, engine_for(self.n_jobs, self.engine))
        training.check(needs_labels=False)
        start = "random" if self.maps is None and training.supervised is None else "model"
        if start == "model":
            self._begin(model, batch, training)
        step: ProjectedStep | AgreementStep
        if self.maps is None:
            constraints = [*self.constraints, *self._shares_of(model, batch)]
            solving = SolverSettings(self.projection_tol, self.max_evaluations, memory=self._memory)
            step = ProjectedStep(training, constraints, solving)
        else:
            step = AgreementStep(training, self._agree_shard(model))
        loop = self._projection_loop(training, step, gamma=self.gamma_ * model.copies, start=start)
        self._take_run(loop.run(resume=resume))
        return self

    def _shares_of(self, model: Views, batch: ViewBatch) -> list[Constraint]:
        """How common labels are where they are not known."""
        names, labels = list(model.label_names_), batch.members[0].labels
        if self.shares is None or self.maps is not None or len(names) < 2:
            return []
        known, weight = labels >= 0, np.repeat(batch.weights, batch.lengths)
        # of segments a code above the labels stands for a label too
        n = np.bincount(labels[known] % len(names), weight[known], minlength=len(names))
        if not n.any():
            return []
        mean = (n + 1.0) / (n.sum() + len(names))
        beside = self.shares * np.sqrt(mean * (1.0 - mean) / (n.sum() + len(names) + 1.0))
        every = count().per("corpus")
        found: list[Constraint] = []
        for name, low, high in zip(names, np.maximum(mean - beside, 0.0), np.minimum(mean + beside, 1.0), strict=True):
            row = count(name).per("corpus").between(float(low) * every, float(high) * every)
            found.append(row.penalty(PRICE).named(f"share of {name}"))
        return found

    def _weighted(self, batch: ViewBatch) -> ViewBatch:
        """Unlabelled instances so weighted that all of them weigh c times as much as the others together."""
        known = np.zeros(len(batch), dtype=np.bool_)
        for member in batch.members:
            slots = np.repeat(np.arange(len(batch)), member.lengths)
            known[slots[member.labels >= 0]] = True
        labelled, free = float(batch.weights[known].sum()), float(batch.weights[~known].sum())
        scale = self.weight * (labelled / free if labelled and free else 1.0)
        return batch.with_weights(np.where(known, batch.weights, scale * batch.weights))

    def _begin(self, model: Views, batch: ViewBatch, training: Training) -> None:
        """Every view starts from its own labels, where it has any."""
        for member, own in zip(model.members, batch.members, strict=True):
            member.reset()
            labelled = own.take(np.flatnonzero(own.complete & (own.weights > 0)))
            if len(labelled):
                placed = place_batch(training.engine, labelled)
                member.update(placed.total(count_known, bare(member)), shards=[placed], engine=training.engine)

    # prediction

    def infer(
        self, X: Any, *, by: int | str = AGREEMENT, constrained: bool = True, transductive: bool = False
    ) -> Inference:
        """Inference by agreement of the views, or by one of them: labels, marginals, violations, ...

        by : "agreement", or the number of a view;  constrained, transductive : as for other learners
        """
        view = self._view(by)
        if view is None:
            return super().infer(X, constrained=constrained, transductive=transductive)
        found: Inference = self.models_[view].infer(self.model_.one_a_view(X, "X")[view])
        return found

    def predict(
        self,
        X: Any,
        *,
        by: int | str = AGREEMENT,
        constrained: bool = True,
        decoding: str = "viterbi",
        transductive: bool = False,
    ) -> Any:
        """Labels that the views agree on (with ``maps``, a list for each view), or those of one view.

        by : "agreement", or the number of a view
        """
        check_name("decoding", decoding, DECODINGS)
        found = self.infer(X, by=by, constrained=constrained, transductive=transductive)
        return found.labels if decoding == "viterbi" else found.marginal_labels

    def predict_proba(
        self, X: Any, *, by: int | str = AGREEMENT, constrained: bool = True, transductive: bool = False
    ) -> Any:
        """Posteriors of labels, as the models' own ``predict_proba`` gives them; ``by`` as in :meth:`predict`."""
        return self.infer(X, by=by, constrained=constrained, transductive=transductive).marginals

    def score(
        self, X: Any, y: Any = None, *, by: int | str = AGREEMENT, constrained: bool = True, decoding: str = "viterbi"
    ) -> float:
        """Accuracy of :meth:`predict` over the known labels; with ``maps``, over all views."""
        view = self._view(by)
        if view is None:
            return super().score(X, y, constrained=constrained, decoding=decoding)
        given = self.model_.one_a_view(y, "y")[view] if self.maps is not None else y
        return float(self.models_[view].score(self.model_.one_a_view(X, "X")[view], given))

    def _encoded(self, X: Any, y: Any = None, *, scored: bool = False) -> Any:
        self._check_fitted()
        return super()._encoded(*self.model_.labelled(X, y) if scored and isinstance(X, list | tuple) else (X, y))

    def _view(self, by: int | str) -> int | None:
        self._check_fitted()
        n = len(self.models_)
        if by == AGREEMENT:
            return None
        if isinstance(by, int) and not isinstance(by, bool) and 0 <= by < n:
            return by
        raise DataError(f"by must be {AGREEMENT!r} or the number of a view, 0 to {n - 1}, got {by!r}")

    def _agree_shard(self, model: Views, constrained: bool = True) -> AgreeShard:
        constraints = self.constraints if constrained else ()
        return AgreeShard(
            model.classes, self.gamma_, self.edges, self.projection_tol, self.max_evaluations, constraints,
            model.label_names_,
        )  # fmt: skip

    def _inference(self, batch: Any, constrained: bool, transductive: bool) -> Inference:
        if self.maps is None:
            return super()._inference(batch, constrained, transductive)
        return AgreedInference(
            self.model_, batch, threads_for(self.n_jobs), self._agree_shard(self.model_, constrained)
        )

    def _gamma(self, constrained: bool) -> float:
        """Agreement is projection at n times γ, with constraints or without."""
        return float(self.gamma_ * self.model_.copies)

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        headers, arrays = self.model_.learned()
        names = {
            "views": headers,
            "constraints": write_constraints(self.constraints, self.model_.label_names_.names),
            "history": [{**entry, "seconds": 0.0} for entry in self.history_.to_json()],
        }
        return names, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_numbers()
        self.model_ = Views.restored(names["views"], arrays, self.maps)
        self.models = [own_model(one, learned=False) for one in self.models_]
        self.constraints = read_constraints(names["constraints"])
        self.history_ = History.from_json(names["history"])

    # checks

    def _check_settings(self, dev: Any = None) -> None:
        models: Any = self.models
        if not isinstance(models, list | tuple) or len(models) < 2:
            raise DataError(f"models must be a list of two models or more, one for each view, got {models!r}")
        for self.model in models:
            self._check_learner(None)
        del self.model
        check_outputs(models, self.maps)
        self._check_numbers()

    def _check_numbers(self) -> None:
        self._check_whole(max_iter=1, max_evaluations=1, checkpoint_every=1, random_state=0)
        self._check_within(weight=(0.0, np.inf), tol=(0.0, np.inf), projection_tol=(1e-15, np.inf))
        self._check_within(gamma=(1e-6, np.inf), shares=(0.0, np.inf))
