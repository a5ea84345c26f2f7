"""VoteHMM: a chain of true labels, each of which makes the labelling functions vote.

    p(v, y) ∝ start[y_1] Π_{t>1} transition[y_{t−1}, y_t] Π_t Π_j emission_j[v_tj, y_t]^weight_j  exp Σ_t offset[y_t]

Abstaining is a vote like any other. Near-duplicate functions share one weight, so that they count once. Parameters are
MAP estimates. By maximum likelihood alone EM drifts: it finds two kinds of tokens that explain the votes better than
"entity" and "O" do. So every function has a Dirichlet prior that stands for ``strength`` times its own votes, of which
a share ``accuracy`` is right:

    pseudo-counts[j, v, y] = strength · weight_j · n_jv · P₀(y | v)         P₀(the label voted for | v) = accuracy_j
    pseudo-transitions = strength · expected transitions under the prior's emissions
    emission_j[v, y] ∝ weight_j · E_q[count of v with y] + pseudo-counts[j, v, y] + α − 1

P₀(y | abstaining) follows from how many tokens of each label there seem to be. The penalised log-likelihood rises with
every round. ``offset`` is 0 while the model learns; afterwards it raises the scores of labels where somebody votes.

The expected transitions and P₀ are counts as if each function were right as often as assumed:

    c[j, v, y] = n_jv · P₀(y | v)       P₀ = accuracy_j for the labels that v allows; of the rest four fifths are "O",
                                        one fifth is shared by the other types
    c[j, abstains, y] = N_y − Σ_v c[j, v, y]         N_y : mean accuracy · tokens on which somebody votes for y
                                                     N_O : all tokens − mean accuracy · those with votes for entities

An explicit vote for "O" is treated as abstaining is, in proportion to how often the function does either.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, as_parameters, check_arrays
from trellis.data.batch import Batch, Column
from trellis.data.bio import BEGINS, split_bio
from trellis.data.document import Document
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.data.voted import OUTSIDE, follows, is_bio
from trellis.engine import Additive, Engine, Placed
from trellis.errors import DataError, UnknownNameError
from trellis.models import dirichlet
from trellis.models.sequence import Labels, SequenceModel
from trellis.structures import Chain, ChainTables, LabelPosterior

NEAR_DUPLICATE = 0.6
"""Functions whose spans have at least this Jaccard index count as one."""
WRONG_TYPE = 0.2
"""Share of wrong votes for an entity that name the wrong type; the others stand on "O"."""
LEAST_SILENT = 0.05
"""Least share of the tokens of a label on which a function abstains."""


def duplicate_weights(votes: IntArray, size: FloatArray) -> FloatArray:
    """(n_functions,) weights, 1 / the number of functions in the same group of near-duplicates.

    votes : (n_patterns, n_functions), 0 where there is none;  size : (n_patterns,) how often each pattern occurs

    >>> duplicate_weights(np.array([[1, 1, 0], [2, 2, 1], [1, 0, 0]]), np.array([5.0, 5.0, 1.0]))
    array([0.5, 0.5, 1. ])
    """
    group = np.arange(votes.shape[1])
    for i in range(len(group)):
        for j in range(i):
            either = size[(votes[:, i] > 0) | (votes[:, j] > 0)].sum()
            both = size[(votes[:, i] > 0) & (votes[:, i] == votes[:, j])].sum()
            if both > 0.0 and both >= NEAR_DUPLICATE * either:
                group[group == group[j]] = group[i]
    return np.array([1.0 / np.count_nonzero(group == own) for own in group])


def assumed_counts(
    patterns: IntArray, size: FloatArray, allows: BoolArray, labels: Sequence[str], accuracy: FloatArray
) -> FloatArray:
    """(n_functions, n_votes, n_labels) counts c; each function's sum over labels is its number of votes.

    patterns : (n_patterns, n_functions) votes, 0: abstains;  size : (n_patterns,) how often each pattern occurs
    allows : (n_votes, n_labels) which labels a vote may mean;  accuracy : (n_functions,)
    """
    meant = allows / allows.sum(axis=1, keepdims=True)
    meant[0] = 0.0
    o = labels.index(OUTSIDE) if OUTSIDE in labels else None
    exact = np.where(allows.sum(axis=1, keepdims=True) == 1, meant, 0.0)
    voted, coarsely = (np.max([table[own] for own in patterns.T], axis=0) for table in (exact, meant))
    voted = np.where(voted.any(axis=1, keepdims=True), voted, coarsely)
    tokens = float(accuracy.mean()) * size @ voted
    if o is None:
        tokens *= size.sum() / max(tokens.sum(), 1e-300)
    else:
        entity = np.delete(voted, o, axis=1).any(axis=1)
        tokens[o] = max(size.sum() - float(accuracy.mean()) * size[entity].sum(), LEAST_SILENT * size.sum())
    begins = np.array([split_bio(label)[0] for label in labels])
    others = ~allows & (begins == (allows & begins).any(axis=1, keepdims=True))
    silent = np.arange(len(allows)) == 0
    if o is not None:
        silent, others[:, o] = silent | allows[:, o], False
    wrong = others / np.maximum(others.sum(axis=1, keepdims=True), 1)
    if o is not None:
        wrong *= WRONG_TYPE
        wrong[:, o] = 1.0 - wrong.sum(axis=1)
    found = np.zeros((patterns.shape[1], *allows.shape))
    for j, right in enumerate(accuracy):
        votes = np.bincount(patterns[:, j], size, minlength=len(allows))
        found[j] = votes[:, None] * (right * meant + (1.0 - right) * wrong)
        rest = np.maximum(tokens - found[j, ~silent].sum(axis=0), LEAST_SILENT * tokens)
        found[j, silent] = np.outer(votes[silent], rest / max(rest.sum(), 1e-300))
    return found


ABSTAIN = ""
"""The vote of a function that says nothing, in columns of a batch."""
VOTERS = "voters"
"""Column of a batch with the number of functions that vote on a token."""


@dataclass(frozen=True)
class VoteStatistics(Additive):
    """Expected counts.

    start : (K,);  transition : (K, K);  emission : (n_functions, n_votes, K) of votes with labels
    """

    start: FloatArray
    transition: FloatArray
    emission: FloatArray


@dataclass(eq=False, repr=False)
class VoteHMM(SequenceModel):
    """Hidden Markov model over the votes of labelling functions.

    labels : names of the true labels
    functions : names of the labelling functions; a batch has a column for each
    meanings : vote -> the labels that it allows, one or (of a function that knows coarse labels) several
    accuracy : prior share of right votes, for all functions or function -> share
    strength : weight of that prior, in multiples of each function's own votes; 0: plain EM
    prior : Dirichlet α of every table, 1: maximum likelihood
    n_jobs : threads of ``predict``; None: one, −1: every core

    Learned: ``start_`` (K,), ``transition_`` (K, K), ``emission_`` (n_functions, n_votes, K), which sums to 1
    over votes; ``weight_`` (n_functions,), ``offset_`` (K,); ``label_names_`` and ``votes_``, the vocabularies.
    ``pseudo_counts_`` and ``pseudo_transitions_`` are the prior; files do not hold them.

    >>> hmm = VoteHMM(["O", "X"], ["f"], {"X": ["X"], "O": ["O"]})
    >>> text = Document(("a", "b"), votes={"f": ("X", None)})
    >>> batch = hmm.encode([text], fit=True)
    >>> hmm.begin(batch)
    >>> hmm.predict([text])
    [['X', 'O']]
    """

    labels: Sequence[str]
    functions: Sequence[str]
    meanings: Mapping[str, Sequence[str]]
    _: KW_ONLY
    accuracy: float | Mapping[str, float] = 0.9
    strength: float = 10.0
    prior: float = 1.1
    n_jobs: int | None = None

    discriminative = False
    ARRAYS: ClassVar = {
        "start": ArrayOf(np.float64, ("labels",), low=0.0, high=1.0),
        "transition": ArrayOf(np.float64, ("labels", "labels"), low=0.0, high=1.0),
        "emission": ArrayOf(np.float64, ("functions", "votes", "labels"), low=0.0, high=1.0),
        "weight": ArrayOf(np.float64, ("functions",), low=0.0, high=1.0),
        "offset": ArrayOf(np.float64, ("labels",), low=-1e3, high=1e3),
    }

    # texts in

    def encode(self, X: Any, y: Labels | None = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with the columns "word" and "voters", and one for each function.

        X : documents with votes;  y : labels, None where unknown;  weights : (n_texts,)
        fit : reset the parameters to uniform ones
        """
        if fit:
            self._learn_names()
            self.reset()
        self._check_fitted()
        texts = _checked(X)
        tokens = [list(text.tokens) for text in texts]
        batch = Batch.from_sentences(tokens, y, label_names=self.label_names_, weights=weights)
        columns = {name: Column(self._codes(texts, name), self.votes_) for name in self.functions}
        voters = np.stack([column.codes > 0 for column in columns.values()], axis=1).sum(axis=1).astype(np.int32)
        columns[VOTERS] = Column(voters, Vocabulary(map(str, range(len(self.functions) + 1)), kind="number of voters"))
        return replace(batch, columns={**batch.columns, **columns})

    def _learn_names(self) -> None:
        dirichlet.check_prior("prior", self.prior, variational=False)
        self.label_names_ = Vocabulary(self.labels, kind="label")
        self.votes_ = Vocabulary([ABSTAIN, *self.meanings], kind="vote")
        if not self.functions:
            raise DataError("there is no labelling function: give at least one")
        name, n = Counter(("word", VOTERS, "", *self.functions)).most_common(1)[0]
        if n > 1:
            raise DataError(f"a labelling function cannot be called {name!r}: that name is taken. Give it another one")
        self.allows_: BoolArray = np.ones((len(self.votes_), len(self.label_names_)), np.bool_)
        for code, names in enumerate(self.meanings.values(), 1):
            self.allows_[code] = False
            self.allows_[code, [self.label_names_.number(name) for name in names]] = True
            if not self.allows_[code].any():
                raise DataError(f"the vote {self.votes_[code]!r} allows no label at all: say which ones it means")
        self._follows = follows(self.label_names_.names)

    def _codes(self, texts: Sequence[Document], function: str) -> NDArray[np.int32]:
        number: dict[str | None, int] = {None: 0, **{name: code for code, name in enumerate(self.votes_.names)}}
        codes: list[int] = []
        for text in texts:
            own = text.votes.get(function, (None,) * len(text))
            unknown = next((vote for vote in own if vote not in number), None)
            if unknown is not None:
                made = UnknownNameError("label", unknown, self.meanings, path=text.path, line=text.line)
                made.add_note(f"(it is a vote of function {function!r}; declare it by labels, or as a coarse label)")
                raise made
            codes += [number[vote] for vote in own]
        return np.array(codes, dtype=np.int32)

    # the four verbs

    def scores(self, batch: Batch) -> Chain:
        """The scores above over the parts of the batch."""
        patterns, index = self._patterns(batch)
        with np.errstate(divide="ignore"):
            table = np.log(self.emission_)
            ends = np.log(self.transition_), np.log(self.start_)
        node = np.outer((patterns > 0).any(axis=1), self.offset_)
        for j in range(len(self.functions)):
            node += self.weight_[j] * table[j][patterns[:, j]]
        if batch.features is not None:
            node, index = node[index] + batch.features, np.arange(batch.n_slots)
        return Chain.over(ChainTables.of(node, *ends), batch.offsets, node_index=index, first=batch.first)

    def collect(self, batch: Batch, q: LabelPosterior) -> VoteStatistics:
        """Expected counts of a posterior whose edge counts are weighted already."""
        if q.edge_counts is None:
            raise DataError("the posterior of a chain must come with edge counts")
        patterns, index = self._patterns(batch)
        k, weights = len(self.label_names_), np.repeat(batch.weights, batch.lengths)
        of_pattern = np.empty((len(patterns), k))
        for label in range(k):
            of_pattern[:, label] = np.bincount(index, weights * q.node[:, label], minlength=len(patterns))
        emission = np.zeros((len(self.functions), len(self.votes_), k))
        for j in range(len(self.functions)):
            np.add.at(emission[j], patterns[:, j], of_pattern)
        filled = np.flatnonzero(batch.lengths > 0)
        start = (batch.weights[filled, None] * q.node[batch.offsets[filled]]).sum(axis=0)
        return VoteStatistics(start, q.edge_counts.sum(axis=0), emission)

    def update(
        self, statistics: VoteStatistics, *, shards: Sequence[Placed[Any]] | None = None, engine: Engine | None = None
    ) -> None:
        """M-step: the modes of all tables."""
        after = np.ascontiguousarray((statistics.transition + self.pseudo_transitions_).T)
        may_start, may_follow = self._follows[-1][:, None], np.ascontiguousarray(self._follows[:-1].T)
        self.start_ = dirichlet.mode(statistics.start[:, None], self.prior, may_start)[:, 0]
        self.transition_ = np.ascontiguousarray(dirichlet.mode(after, self.prior, may_follow).T)
        votes = self.weight_[:, None, None] * statistics.emission + self.pseudo_counts_
        by_vote = np.ascontiguousarray(np.moveaxis(votes, 1, 0))
        mode = dirichlet.mode(by_vote.reshape(len(by_vote), -1), self.prior).reshape(by_vote.shape)
        self.emission_ = np.ascontiguousarray(np.moveaxis(mode, 0, 1))

    def uniform(self, batch: Batch) -> Chain:
        """Scores under which all valid label sequences are equally likely."""
        k = len(self.label_names_)
        may = np.where(self._follows, 0.0, -np.inf)
        tables = ChainTables.of(np.zeros((1, k)), may[:-1], may[-1])
        index = np.zeros(batch.n_slots, np.int64)
        return Chain.over(tables, batch.offsets, node_index=index, first=batch.first)

    def log_prior(self) -> float:
        """Log-density of the Dirichlet priors up to a constant."""
        may, held, follow = self._follows, self.pseudo_counts_ > 0.0, self.pseudo_transitions_ > 0.0
        return (
            dirichlet.log_density(self.start_, self.prior, may[-1])
            + dirichlet.log_density(self.transition_, self.prior, may[:-1])
            + dirichlet.log_density(self.emission_, self.prior)
            + float(self.pseudo_counts_[held] @ np.log(self.emission_[held]))
            + float(self.pseudo_transitions_[follow] @ np.log(self.transition_[follow]))
        )

    # parameters

    def begin(self, batch: Batch) -> None:
        """Weights, pseudo-counts and first parameters from the votes of a batch.

        Emissions are what the assumed accuracies imply, transitions those of the posterior under them.
        """
        patterns, index = self._patterns(batch)
        size = np.bincount(index, np.repeat(batch.weights, batch.lengths), minlength=len(patterns)).astype(np.float64)
        if is_bio(self.meanings):
            begins = np.array([name.startswith(BEGINS) for name in self.votes_.names])
            self.weight_ = duplicate_weights(np.where(begins[patterns], patterns, 0), size)
        accuracy = self.accuracy
        own = np.array([accuracy[name] if isinstance(accuracy, Mapping) else accuracy for name in self.functions])
        assumed = assumed_counts(patterns, size, self.allows_, self.label_names_.names, own)
        tokens = assumed.sum(axis=1).mean(axis=0)
        assumed *= self.weight_[:, None, None]
        self.update(VoteStatistics(tokens * self._follows[-1], tokens * self._follows[:-1], assumed))
        found = self.collect(batch, self.scores(batch).infer(weights=batch.weights))
        self.pseudo_counts_, self.pseudo_transitions_ = self.strength * assumed, self.strength * found.transition
        self.update(VoteStatistics(found.start, found.transition, assumed))

    def reset(self) -> None:
        """Uniform parameters over what is valid; no prior on votes, no offset."""
        k, shape = len(self.label_names_), (len(self.functions), len(self.votes_), len(self.label_names_))
        self.weight_, self.offset_ = np.ones(len(self.functions)), np.zeros(k)
        self.pseudo_counts_, self.pseudo_transitions_ = np.zeros(shape), np.zeros((k, k))
        self.update(VoteStatistics(np.zeros(k), np.zeros((k, k)), np.zeros(shape)))

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Parameters from pseudo-counts 1 + scale · U(0, 1) of what is valid."""
        k = len(self.label_names_)
        drawn = [1.0 + scale * rng.random(s) for s in ((k,), (k, k), (len(self.functions), len(self.votes_), k))]
        self.update(VoteStatistics(drawn[0] * self._follows[-1], drawn[1] * self._follows[:-1], drawn[2]))

    def parameters(self) -> dict[str, FloatArray]:
        """ "start" (K,), "transition" (K, K), "emission" (n_functions, n_votes, K), "weight" and "offset"""
        self._check_fitted()
        return {name: getattr(self, f"{name}_") for name in self.ARRAYS}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take parameters of the form that :meth:`parameters` gives."""
        sizes = {"functions": len(self.functions), "votes": len(self.votes_), "labels": len(self.label_names_)}
        tables = as_parameters(self.ARRAYS, parameters, **sizes)
        if np.any(tables["transition"][~self._follows[:-1]]) or np.any(tables["start"][~self._follows[-1]]):
            raise DataError("transition or start gives probability to an I- label that continues nothing")
        for name, axis in (("start", 0), ("transition", 1), ("emission", 1)):
            dirichlet.check_sums(name, np.moveaxis(tables[name], axis, 0))
        for name, table in tables.items():
            setattr(self, f"{name}_", table)

    def _patterns(self, batch: Batch) -> tuple[IntArray, IntArray]:
        """The distinct rows of votes (n_patterns, n_functions), and which one each slot has."""

        def find() -> tuple[IntArray, IntArray]:
            for name in self.functions:
                if batch.column(name).vocabulary != self.votes_:
                    raise DataError(
                        "the batch was encoded with other votes than this model's: create it with this model's encode"
                    )
            votes = np.stack([batch.column(name).codes for name in self.functions], axis=1)
            found, index = np.unique(votes, axis=0, return_inverse=True)
            return found.astype(np.int64), index.reshape(-1).astype(np.int64)

        return batch.remembered(("patterns", *self.functions), find)

    # one file

    def _array_sizes(self) -> dict[str, int]:
        return {"functions": len(self.functions), "votes": len(self.meanings) + 1, "labels": len(self.labels)}

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        # checked before tables of the size that names claim are made
        checked = check_arrays(self.ARRAYS, arrays, **self._array_sizes())
        self._learn_names()
        self.reset()
        self.set_parameters(checked)


def _checked(X: Any) -> Sequence[Document]:
    if isinstance(X, Document) or not isinstance(X, Sequence):
        raise DataError(f"expected a list of documents with votes, but got {type(X).__name__}")
    for i, text in enumerate(X):
        if not isinstance(text, Document):
            raise DataError(f"text {i} is of type {type(text).__name__}: expected a Document, tokens and their votes")
    return X
