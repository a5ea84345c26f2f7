"""Weak labels, whole: texts with the guesses of several labelling functions in, one labelling with probabilities out.

A chain of true labels emits the functions' votes (:class:`~trellis.models.vote_hmm.VoteHMM`). Plain EM on it drifts
away from what the functions mean: it finds two kinds of tokens that explain the votes better than "entity" and "O" do.
Constraints on each function, and one on silence, hold it to their meaning (posterior regularization, Ganchev et al.
2010, γ = 1):

    E_q[ votes of j for k that are right ]  ≥  accuracy · votes of j for k           over the corpus, at a price each
    E_q[ entities where nobody votes ]  ≤  most missed · tokens where nobody votes         likewise

where a vote is right if it allows the label, and only votes for something other than "O" are meant: over all types k
together, EM would give up one type of a function that is right about the others. A chain has no
invalid BIO sequences. Then words speak: where no function votes short forms are what their long forms are
(:mod:`trellis.tasks.short_forms`), and the company and form of a word are evidence for it
(:mod:`trellis.tasks.word_evidence`). How many entities functions miss is told by the words as well, between bounds:

    E_q[ entities of type k among words without votes ]  =  share of k · words and compounds without votes

>>> texts = [
...     {"tokens": ["aspirin", "helps"], "spans": {"dictionary": [[0, 1, "DRUG"]]}},
...     {"tokens": ["take", "aspirin"], "spans": {"dictionary": [[1, 2, "DRUG"]], "suffix": [[1, 2, "DRUG"]]}},
... ]
>>> Aggregator().fit(texts).labels_
[['B-DRUG', 'O'], ['O', 'B-DRUG']]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import reduce
from operator import or_
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, RulesFile, column, count, label, parse_rules
from trellis.data.batch import Column
from trellis.data.checks import check_label_lists, check_list
from trellis.data.ragged import FloatArray
from trellis.data.tokens import TextLike, as_sentences
from trellis.data.vocabulary import Vocabulary
from trellis.data.voted import ANY, OUTSIDE, VotedText, bio_labels, is_bio, kinds_of
from trellis.data.voted_files import voted_of
from trellis.engine import engine_for
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM, History
from trellis.learn.training import Training
from trellis.models.model import rows_of
from trellis.models.saving import SavedEstimator, from_archive, to_archive
from trellis.models.vote_hmm import VOTERS, VoteHMM
from trellis.projection import project
from trellis.tasks.short_forms import short_form_evidence
from trellis.tasks.word_evidence import WordEvidence
from trellis.tasks.word_units import heard_of

OPEN = "open"
"""Column of a batch: words that nobody votes on and that are labelled "O"."""
MOST_LIFT = 10.0
"""What is added to the evidence for a type at most, however few words seem to be of it."""
MISSED = "missed entities"
"""Name of the constraint on tokens that no function votes on."""


@dataclass(frozen=True)
class FunctionAccuracy:
    """What is estimated of one labelling function.

    accuracy : share of its votes for an entity (for any label, where there is no "O") that are right, in expectation;
        None where it has none
    votes : how many such votes it has;  coverage : share of all tokens that it votes on
    """

    accuracy: float | None
    votes: int
    coverage: float


class _Names(TypedDict):
    """What a file keeps beside the constructor's arguments and the arrays."""

    kinds: list[str]
    bio: bool
    files: dict[str, str]
    functions: list[str]
    accuracies: list[list[float | None]]
    model: dict[str, Any]
    words: dict[str, Any] | None


@dataclass(eq=False, repr=False)
class Aggregator(SavedEstimator):
    """Puts the guesses of labelling functions together.

    labels : the types of entities (of BIO votes), or the labels; None: those that functions vote for
    coarse : name -> the types or labels that a vote of this name may mean; ``*`` means any of them
    accuracy : least expected share of right votes of each function for each type, a number or function -> number
        (functions that are not named have no bound); None: no bounds, which is plain EM
    strength : price of each expected wrong vote beyond that, so that functions may contradict each other
    missed : (least, most) expected share of entities among what functions leave out: at most among all tokens on which
        no function votes, at the same price; and, once words speak, bounds of the share that they tell, among words and
        compounds without votes that are labelled "O" (least 0: as the votes have it); None: any
    share : (least, most) expected share of tokens that are not "O"; None: not bounded
    rules : text of a rules file (docs/rules.md), in which every function is a column
    rules_path : what messages call it, and the folder in which it looks for dictionaries
    files : contents of the dictionary files that the rules name; None: they are read when it learns
    words : whether words speak where no function votes
    doubt : whether the company of words speaks about what functions vote on, too
    word_weight : what that evidence is multiplied by (:mod:`trellis.tasks.word_evidence`)
    gamma : temperature of the posteriors, 1: posterior regularization
    max_iter, tol : rounds of EM: at most so many, or until the objective changes by less than this share
    transition_prior, emission_prior : Dirichlet α of the HMM;  random_state : of its start

    Learned: ``model_`` (the HMM), ``labels_`` and ``probabilities_`` of the training texts, ``accuracies_``,
    ``history_``, ``label_names_``, ``functions_``.
    """

    labels: Sequence[str] | None = None
    _: KW_ONLY
    coarse: Mapping[str, Sequence[str]] | None = None
    accuracy: float | Mapping[str, float] | None = 0.9
    strength: float = 10.0
    missed: Sequence[float] | None = (0.0025, 0.05)
    share: Sequence[float] | None = None
    rules: str | None = None
    rules_path: str = "rules"
    files: Mapping[str, str] | None = None
    words: bool = True
    doubt: bool = False
    word_weight: float = 1.0
    gamma: float = 1.0
    max_iter: int = 100
    tol: float = 1e-5
    transition_prior: float = 1.1
    emission_prior: float = 2.0
    random_state: int | None = 0
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    learned_names = _Names

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    # learning

    def fit(self, X: Iterable[Any], y: object = None, *, text: Iterable[TextLike] = ()) -> Self:
        """Learn from texts with votes: VotedTexts, or mappings with the keys of docs/aggregation.md.

        text : more text, without votes, as lists of tokens: from it too is learned which words are alike
        """
        self._check_settings()
        texts, more = _texts(X), [s.words for s in as_sentences(text)]
        if not any(len(text) for text in texts):
            raise DataError("there is no text: every one is empty" if texts else "there is no text: the list is empty")
        self._learn_names(texts)
        compile_ahead("aggregate")
        model = self._model()
        batch = model.encode(texts, fit=True)
        model.begin(batch)
        learner = UEM(
            model, self.constraints(), gamma=self.gamma, start="model", max_iter=self.max_iter, tol=self.tol,
            n_jobs=self.n_jobs, projection_tol=self._tolerance(texts), track_likelihood=False,
            verbose=self.verbose,
        )  # fmt: skip
        self.learner_ = learner.train(Training(model, batch, engine_for(self.n_jobs, self.engine)))
        for j, function in enumerate(self.functions_):
            for code, vote in enumerate(model.votes_.names):
                model.trust_[j, code] = learner.pulls_.get(self._name(function, vote), 0.0)
        model.silence_[0] = learner.pulls_.get(MISSED, 0.0)
        self.model_, self.history_ = model, learner.history_
        # Prediction is under the user's own rules, solved as a loaded model solves them.
        self.learner_.set_params(constraints=self._own_constraints(), projection_tol=UEM(None).projection_tol)
        found = self.learner_.predict_proba(texts)
        self.accuracies_ = self._accuracies(texts, found)
        self.words_: WordEvidence | None = None
        labels = self.learner_.predict(texts)
        if self.words:
            texts, labels = self._with_short_forms(texts, labels, found)
            words = self._word_evidence()
            if words.fit([heard_of(one) for one in texts], labels, found, more):
                self.words_ = words
                words.lift = self._lift(self._with_words(texts, labels), labels)
            texts = self._with_words(texts, labels)
            labels, found = self.learner_.predict(texts), self.learner_.predict_proba(texts)
        self.labels_, self.probabilities_ = labels, found
        return self

    def _tolerance(self, texts: Sequence[VotedText]) -> float:
        """KKT residual of the projections, relative to the largest bound: a hundredth of the price of a wrong vote.

        What a row with a price lacks is measured by how far its dual variable would move, which is never more than the
        price: a residual that may be as large is no demand at all. With a tenth, rounds went to and fro for ever.
        """
        votes = [sum(v is not None for text in texts for v in text.votes.get(f, ())) for f in self.functions_]
        return min(1e-3, max(0.01 * self.strength / max(*votes, 1), 1e-9))

    def constraints(self) -> list[Constraint]:
        """All that is known: the accuracies of functions, the share of entities, and the rules."""
        bounds = self.accuracy if isinstance(self.accuracy, Mapping) else dict.fromkeys(self.functions_, self.accuracy)
        for function in bounds:
            if function not in self.functions_:
                raise UnknownNameError("labelling function", function, self.functions_)
        found: list[Constraint] = []
        for function, least in bounds.items():
            for name, votes in self._votes_for(function).items() if least is not None else ():
                right = reduce(or_, ((column(function) == v) & label(*self.meanings_[v]) for v in votes))
                all_votes = count(where=column(function).isin(*votes)).per("corpus")
                row = count(where=right).per("corpus") >= least * all_votes
                found.append(row.penalty(self.strength).named(name))
        entities = [name for name in self.label_names_ if name != OUTSIDE]
        if self.missed is not None and self.bio_:
            silent, all_silent = column(VOTERS) == "0", count(where=column(VOTERS) == "0").per("corpus")
            row = count(*entities, where=silent).per("corpus") <= self.missed[1] * all_silent
            found.append(row.penalty(self.strength).named(MISSED))
        if self.share is not None:
            low, high = (bound * count().per("corpus") for bound in self.share)
            found.append(count(*entities).per("corpus").between(low, high).named("share of entities"))
        return [*found, *self._own_constraints()]

    def _votes_for(self, function: str) -> dict[str, list[str]]:
        """The votes of a function for each type, by the name of the constraint on them."""
        found: dict[str, list[str]] = {}
        for vote in self.votes_of_[function]:
            if vote != OUTSIDE:
                found.setdefault(self._name(function, vote), []).append(vote)
        return found

    def _name(self, function: str, vote: str) -> str:
        return f"accuracy of {function} on {vote[2:] if self.bio_ else vote}"

    def _own_constraints(self) -> list[Constraint]:
        return [] if self._rules is None else list(self._rules)

    @staticmethod
    def texts(X: Iterable[Any]) -> list[VotedText]:
        """Texts with votes in the one form that everything here takes."""
        return _texts(X)

    # prediction

    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """A label for every token of texts with votes, new ones as a rule; those of training are in ``labels_``."""
        seen = self._seen(X)
        found: list[list[str]] = self.learner_.predict(seen)
        return found

    def predict_proba(self, X: Iterable[Any]) -> list[FloatArray]:
        """P(label) of every token, (n_tokens, n_labels) for each text, columns as in ``label_names_``."""
        seen = self._seen(X)
        found: list[FloatArray] = self.learner_.predict_proba(seen)
        return found

    def score(self, X: Iterable[Any], y: Sequence[Sequence[str]]) -> float:
        """Share of the tokens that get the label they have in ``y``."""
        found, gold = self.predict(X), check_label_lists(y) or []
        if list(map(len, found)) != [len(own or ()) for own in gold]:
            raise DataError(f"y must have a list of labels for each of {len(found)} texts, one label for each token")
        pairs = [pair for own, labels in zip(found, gold, strict=True) for pair in zip(own, labels or (), strict=True)]
        if not pairs:
            raise DataError("there are no tokens, so there is no accuracy")
        return sum(one == other for one, other in pairs) / len(pairs)

    def _seen(self, X: Iterable[Any]) -> list[VotedText]:
        self._check_fitted()
        texts = _texts(X)
        if not self.words:
            return texts
        given = self.learner_.predict(texts), self.learner_.predict_proba(texts)
        return self._with_words(*self._with_short_forms(texts, *given))

    def _with_short_forms(
        self, texts: Sequence[VotedText], labels: list[list[str]], found: Sequence[FloatArray]
    ) -> tuple[list[VotedText], list[list[str]]]:
        """Texts in which a short form is what its long form is, where no function votes on it, and their labels."""
        if not self.bio_:
            return list(texts), labels
        made = [
            replace(text, evidence=short_form_evidence(text, own, node, self.label_names_))
            for text, own, node in zip(texts, labels, found, strict=True)
        ]
        changed = [i for i, text in enumerate(made) if np.any(text.evidence)]
        again = self.learner_.predict([made[i] for i in changed])
        labels = list(labels)
        for i, own in zip(changed, again, strict=True):
            labels[i] = own
        return made, labels

    def _with_words(self, texts: Sequence[VotedText], labels: Sequence[Sequence[str]]) -> list[VotedText]:
        """Texts with what the company and form of their words say, beside the evidence they have."""
        if self.words_ is None:
            return list(texts)
        said = self.words_.evidence([heard_of(text) for text in texts], labels, self._inside())
        given = [own if text.evidence is None else text.evidence + own for text, own in zip(texts, said, strict=True)]
        return [replace(text, evidence=evidence) for text, evidence in zip(texts, given, strict=True)]

    def _lift(self, texts: list[VotedText], labels: Sequence[Sequence[str]]) -> FloatArray:
        """What to add to the evidence of open words, so that as many are entities of each type as words say.

        They are the dual variables of these constraints: texts are projected once more, with what words say. There is a
        price: of a type that functions find wherever it is, there may be none among the others.
        """
        lift = np.zeros(0 if self.words_ is None else len(self.words_.kinds))
        if self.words_ is None or not self.bio_ or not self.missed or not self.missed[0] or not self.word_weight:
            return lift
        batch = self.model_.encode(texts)
        words, missed = self.words_.open_words([heard_of(text) for text in texts], labels, *self.missed)
        codes = np.zeros(batch.n_slots, np.int32)
        codes[[batch.offsets[i] + t for i, t in words]] = 1
        told = replace(batch, columns={OPEN: Column(codes, Vocabulary(["", OPEN], kind="kind of word"))})
        among = column(OPEN) == OPEN
        rows = [
            (count(f"B-{kind}", where=among).per("corpus") == number).penalty(MOST_LIFT).named(kind)
            for kind, number in zip(self.kinds_, missed.tolist(), strict=True)
            if number > 0.0
        ]
        if rows:
            tolerance = 1e-3 / max(1.0, float(missed.max()))  # of one word, not of the commonest type
            found = project(
                self.model_.scores(batch), rows_of(self.model_, told, rows), self.gamma, tolerance=tolerance
            )
            for kind, dual in found.pulls().items():
                lift[self.kinds_.index(kind)] = -dual.sum()
        return lift

    def _inside(self) -> FloatArray:
        """(2, n_labels) what going on costs where nobody votes, against ending, after the first word and after others.

        A span is silent as a whole, not word by word.
        """
        cost = np.zeros((2, len(self.label_names_)))
        if self.bio_:
            number = {name: k for k, name in enumerate(self.label_names_)}
            silent, o = np.log(self.model_.emission_[:, 0, :]).sum(axis=0), number[OUTSIDE]
            follow = np.log(np.maximum(self.model_.transition_, 1e-300))
            for kind in self.kinds_:
                i = number[f"I-{kind}"]
                for place, before in enumerate((number[f"B-{kind}"], i)):
                    goes_on = silent[i] - self.model_.silence_[0] + follow[before, i]
                    cost[place, i] = silent[o] + follow[before, o] - goes_on
        return cost

    # names

    def _learn_names(self, texts: Sequence[VotedText]) -> None:
        self._rules: RulesFile | None = None
        if self.rules is not None:
            self._rules = parse_rules(self.rules, self.rules_path, self.files)
        self.files_ = {} if self._rules is None else dict(self._rules.files)
        self.functions_ = list(dict.fromkeys(name for text in texts for name in text.votes))
        seen = {name: _votes(text.votes[name] for text in texts if name in text.votes) for name in self.functions_}
        self.votes_of_ = seen
        votes = _votes(seen.values())
        if not votes:
            raise DataError(
                "no function votes on any token, so there is nothing to put together: is it the right key or column?"
            )
        self.bio_ = is_bio(votes)
        self._name_labels(kinds_of(votes, self.coarse or {}) if self.labels is None else list(self.labels))
        for text in texts:
            for name, own in text.votes.items():
                for vote in own:
                    if vote is not None and vote not in self.meanings_:
                        raise self._unknown(vote, name, text)

    def _name_labels(self, kinds: list[str]) -> None:
        """Labels from types, and what every possible vote means."""
        self.kinds_ = kinds
        if not kinds:
            raise DataError("every vote is a coarse one or O: name the types that there are, labels=[...] or --labels")
        self.label_names_ = bio_labels(kinds) if self.bio_ else kinds
        coarse = {ANY: list(kinds), **{name: list(parts) for name, parts in (self.coarse or {}).items()}}
        for name, parts in coarse.items():
            for part in parts:
                if part not in kinds:
                    made = UnknownNameError("label", part, kinds)
                    made.add_note(f"(the coarse label {name!r} is said to mean it)")
                    raise made
        of_kind = {**{kind: [kind] for kind in kinds}, **coarse}
        if not self.bio_:
            self.meanings_ = of_kind
            return
        self.meanings_ = {OUTSIDE: [OUTSIDE]}
        for name, parts in of_kind.items():
            self.meanings_ |= {f"{prefix}-{name}": [f"{prefix}-{part}" for part in parts] for prefix in "BI"}

    def _unknown(self, vote: str, function: str, text: VotedText) -> UnknownNameError:
        made = UnknownNameError("label", vote, list(self.meanings_), path=text.path, line=text.line)
        made.add_note(f"(it is a vote of function {function!r}; declare it by labels, or as a coarse label)")
        return made

    def _accuracies(self, texts: Sequence[VotedText], found: Sequence[FloatArray]) -> dict[str, FunctionAccuracy]:
        number = {name: k for k, name in enumerate(self.label_names_)}
        allowed = {vote: [number[name] for name in names] for vote, names in self.meanings_.items()}
        n_tokens = sum(map(len, texts))
        table = {}
        for function in self.functions_:
            right, votes, said = 0.0, 0, 0
            for text, node in zip(texts, found, strict=True):
                for t, vote in enumerate(text.votes.get(function, ())):
                    said += vote is not None
                    if vote is not None and vote != OUTSIDE:
                        votes += 1
                        right += float(node[t, allowed[vote]].sum())
            table[function] = FunctionAccuracy(right / votes if votes else None, votes, said / max(n_tokens, 1))
        return table

    def _model(self) -> VoteHMM:
        return VoteHMM(
            self.label_names_, self.functions_, self.meanings_, transition_prior=self.transition_prior,
            emission_prior=self.emission_prior, n_jobs=self.n_jobs,
        )  # fmt: skip

    def _word_evidence(self) -> WordEvidence:
        return WordEvidence(self.label_names_, weight=self.word_weight, doubt=self.doubt, n_jobs=self.n_jobs)

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        header, arrays = to_archive(self.model_)
        words = None
        if self.words_ is not None:
            words, own = self.words_.learned()
            arrays = {**arrays, **{f"words/{key}": array for key, array in own.items()}}
        names = _Names(
            kinds=self.kinds_,
            bio=self.bio_,
            files=self.files_,
            functions=self.functions_,
            accuracies=[[a.accuracy, a.votes, a.coverage] for a in self.accuracies_.values()],
            model=header,
            words=words,
        )
        return {**names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.files = self.files_ = dict(names["files"])
        self._rules = None if self.rules is None else parse_rules(self.rules, self.rules_path, self.files)
        self.bio_, self.functions_ = bool(names["bio"]), list(names["functions"])
        self._name_labels(list(names["kinds"]))
        own = {key: array for key, array in arrays.items() if not key.startswith("words/")}
        model = from_archive(names["model"], own, VoteHMM, n_jobs=self.n_jobs)
        if list(model.label_names_) != self.label_names_:
            raise DataError(f"the model in it must be a VoteHMM over {self.label_names_}, and is not")
        if list(model.functions) != self.functions_ or dict(model.meanings) != self.meanings_:
            raise DataError("the model in it must be one of the same functions and votes, and is not")
        if len(names["accuracies"]) != len(self.functions_) or any(len(row) != 3 for row in names["accuracies"]):
            raise DataError("expected accuracy, votes and coverage of every function")
        rows = zip(self.functions_, names["accuracies"], strict=True)
        self.accuracies_ = {f: FunctionAccuracy(a, int(n or 0), float(c or 0.0)) for f, (a, n, c) in rows}
        self.words_ = None
        if names["words"] is not None:
            self.words_ = self._word_evidence()
            mine = {key.removeprefix("words/"): a for key, a in arrays.items() if key.startswith("words/")}
            self.words_.restore(names["words"], mine)
        self.model_ = model
        self.learner_ = UEM(
            model, self._own_constraints(), gamma=self.gamma, max_iter=self.max_iter, n_jobs=self.n_jobs
        )
        self.learner_.model_ = model
        self.history_ = History([])

    def _check_settings(self) -> None:
        self._check_whole(max_iter=1, random_state=0)
        self._check_within(strength=(0.0, np.inf), word_weight=(0.0, 1e9))
        self._check_within(tol=(0.0, np.inf), gamma=(1e-6, np.inf))
        given: list[Any] = [*self.accuracy.values()] if isinstance(self.accuracy, Mapping) else [self.accuracy]
        for least in given:
            if least is not None and not (isinstance(least, int | float) and 0.0 <= least <= 1.0):
                raise DataError(f"accuracy is a share of right votes, from 0 to 1, but there is {least!r}")
        for name, pair in (("share", self.share), ("missed", self.missed)):
            if pair is not None and not _are_shares(pair):
                raise DataError(f"{name} is (least, most), two shares of the tokens from 0 to 1, but is {pair!r}")
        if isinstance(self.labels, str):
            raise DataError(f"labels must be a list of names, got {self.labels!r}")


def _are_shares(pair: Any) -> bool:
    return isinstance(pair, list | tuple) and len(pair) == 2 and 0.0 <= pair[0] <= pair[1] <= 1.0


def _votes(columns: Iterable[Iterable[Any]]) -> list[str]:
    """All votes that are cast, each once."""
    return list(dict.fromkeys(vote for own in columns for vote in own if vote is not None))


def _texts(X: Iterable[Any]) -> list[VotedText]:
    if isinstance(X, VotedText):
        raise DataError("expected a list of texts with votes, got a single one: put it in brackets, [text]")
    given = check_list(X, "texts with votes")
    return [x if isinstance(x, VotedText) else voted_of(x, what=f"text {i}") for i, x in enumerate(given)]
