"""Field extraction, whole: rules, a few labelled texts and many unlabelled ones in, fields with their places out.

>>> from dataclasses import replace
>>> from trellis.data.tokens import tokenise
>>> from trellis.tasks.extract import Extractor
>>> rules = '''
... labels = ["NAME", "YEAR"]
... [[rule]]
... name = "years"
... if_word_matches = '^(19|20)\\\\d\\\\d$'
... then_label = "YEAR"
... strength = "hard"
... '''
>>> few = tokenise("Ann Lee 1999")
>>> few = replace(few, sentence=replace(few.sentence, labels=("NAME", "NAME", "YEAR")))
>>> many = [tokenise(line) for line in ("Bob Ray 2001", "Cy Fox 1987")]
>>> extractor = Extractor(rules, rounds=2).fit([few], many)
>>> [(f.label, text.text[f.start : f.end]) for text, fields in extractor.extract(many[1:]) for f in fields]
[('NAME', 'Cy Fox'), ('YEAR', '1987')]
"""

from __future__ import annotations

import os
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, RulesFile, parse_rules
from trellis.data.archive import read_archive, write_archive
from trellis.data.corpus import Corpus, corpus_of
from trellis.data.files import FilePath, numbered_lines
from trellis.data.tokens import Field, Text, fields_of
from trellis.data.vocabulary import Vocabulary
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError, InfeasibleError, ModelFileError, UnknownNameError
from trellis.learn.ccm import CCM
from trellis.learn.decoding import Labelling
from trellis.learn.history import History
from trellis.models import HMM
from trellis.models.estimator import Estimator
from trellis.models.saving import from_archive, to_archive
from trellis.tasks.word_classes import OTHER, WordClasses

SEEN = "seen"
"""The column that the model emits; rules look at the words themselves."""

_NOT_SAVED = ("threads", "show_progress")


class Extractor(Estimator):
    """Extracts fields from texts: an HMM over word classes, constraints from a rules file, learned by a CCM's methods.

    rules : text of a rules file (docs/rules.md); :meth:`from_file` reads one
    rules_path : what messages call it, and the folder in which it looks for dictionaries
    method, gamma, beta, rounds, hard, k_best, smoothing, beam : as in :class:`~trellis.learn.CCM`
    min_count : words seen less often are known by their class; None: by the amount of text, see word_classes
    transition_prior, emission_prior : of the HMM

    Learned: ``ccm_`` (with ``model``, ``penalties_``, ``history_``), ``classes_of_words_``, ``label_names_``.
    """

    def __init__(
        self,
        rules: str,
        *,
        rules_path: str = "rules",
        method: str = "codl",
        gamma: float | None = None,
        beta: float | None = 0.7,
        rounds: int = 5,
        hard: bool = False,
        k_best: int = 1,
        smoothing: float = 0.5,
        beam: int = 50,
        min_count: int | None = None,
        transition_prior: float = 1.01,
        emission_prior: float = 1.001,
        random_state: int | None = 0,
        threads: int | None = 1,
        show_progress: bool = False,
    ) -> None:
        self.rules = rules
        self.rules_path = rules_path
        self.method = method
        self.gamma = gamma
        self.beta = beta
        self.rounds = rounds
        self.hard = hard
        self.k_best = k_best
        self.smoothing = smoothing
        self.beam = beam
        self.min_count = min_count
        self.transition_prior = transition_prior
        self.emission_prior = emission_prior
        self.random_state = random_state
        self.threads = threads
        self.show_progress = show_progress

    @classmethod
    def from_file(cls, path: FilePath, **settings: Any) -> Self:
        """An extractor with the rules of a file."""
        text = "\n".join(line for _, line in numbered_lines(path)) + "\n"
        return cls(text, rules_path=os.fspath(path), **settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ccm_")

    # learning

    def fit(
        self,
        labelled: Sequence[Text],
        unlabelled: Sequence[Text] = (),
        *,
        dev: Sequence[Text] | None = None,
        without: Sequence[str] = (),
    ) -> Self:
        """Learn. Texts of ``labelled`` may lack labels in part; accuracy on ``dev`` goes into the history.

        without : names of rules that are left out
        """
        rules = parse_rules(self.rules, self.rules_path)
        self.files_ = _dictionaries(self.rules, self.rules_path)
        self.constraints_, self.without_ = _chosen(rules, without), list(without)
        texts = [text for text in (*labelled, *unlabelled) if len(text)]
        if not texts:
            raise DataError("there is no text to learn from: give labelled or unlabelled texts")
        self.label_names_ = _label_names(rules, labelled)
        self.classes_of_words_ = WordClasses.learn((t.sentence.words for t in texts), self.min_count)
        model = HMM(
            list(self.label_names_),
            min_count=1,
            unknown=OTHER,
            emits=SEEN,
            transition_prior=self.transition_prior,
            emission_prior=self.emission_prior,
        )
        ccm = CCM(
            model,
            self.constraints_,
            method=self.method,
            gamma=self.gamma,
            beta=self.beta,
            rounds=self.rounds,
            hard=self.hard,
            k_best=self.k_best,
            smoothing=self.smoothing,
            beam=self.beam,
            random_state=self.random_state,
            threads=self.threads,
            show_progress=self.show_progress,
        )
        free = [t for t in texts if t.sentence.labels is None or None in t.sentence.labels]
        with _naming(free):
            self.ccm_ = ccm.fit(self.corpus(texts), dev=None if dev is None else (self.corpus(dev), None))
        return self

    def corpus(self, texts: Sequence[Text], *, labels: bool = True) -> Corpus:
        """Texts as the model takes them, with the labels they have unless told otherwise."""
        sentences = (self.classes_of_words_.add_to(t.sentence) for t in texts)
        if not labels:
            sentences = (replace(s, labels=None) for s in sentences)
        try:
            return corpus_of(sentences, label_names=self.label_names_)
        except UnknownNameError as error:
            raise _hinted(error, texts, self.label_names_) from None

    # prediction

    def predict(self, texts: Sequence[Text], *, constrained: bool = True) -> list[list[str]]:
        """A label for every token of every text."""
        if not texts:
            return []
        labels = self.label_names_.decode(self.decode(texts, constrained=constrained).labels.tolist())
        ends = np.concatenate(([0], np.cumsum([len(t) for t in texts], dtype=np.int64))).tolist()
        return [labels[low:high] for low, high in pairwise(ends)]

    def decode(self, texts: Sequence[Text], *, constrained: bool = True) -> Labelling:
        """Labels as numbers, with what is known about the search."""
        self._check_fitted()
        compile_ahead("predict" if constrained else "predict-alone")
        with _naming(texts):
            batch = self.ccm_.model.encode(self.corpus(texts, labels=False))
            return self.ccm_.decode(batch, constrained=constrained)

    def extract(self, texts: Sequence[Text], *, constrained: bool = True) -> Iterator[tuple[Text, list[Field]]]:
        """Each text with its fields."""
        for text, labels in zip(texts, self.predict(texts, constrained=constrained), strict=True):
            yield text, fields_of(text, labels)

    def score(self, texts: Sequence[Text], *, constrained: bool = True) -> float:
        """Share of the tokens with a known label that ``predict`` labels so; labels it never heard of are missed."""
        found = self.predict(texts, constrained=constrained)
        right = [
            a == b
            for t, labels in zip(texts, found, strict=True)
            for a, b in zip(t.sentence.labels or (), labels, strict=False)
            if a is not None
        ]
        if not right:
            raise DataError("no label is known, so there is no accuracy")
        return float(np.mean(right))

    # one file

    def save(self, path: FilePath) -> None:
        """Rules, settings and all that was learned as one file, for :meth:`load`."""
        self._check_fitted()
        header, arrays = to_archive(self.ccm_.model)
        write_archive(
            path,
            {
                "class": "Extractor",
                "settings": {k: v for k, v in self.get_params(deep=False).items() if k not in _NOT_SAVED},
                "without": self.without_,
                "files": self.files_,
                "labels": list(self.label_names_),
                "common": sorted(self.classes_of_words_.common),
                "penalties": self.ccm_.penalties_,
                "duals": self.ccm_.duals_,
                # without times: the same data gives the same file
                "history": [{**entry, "seconds": 0.0} for entry in self.ccm_.history_.to_json()],
                "model": header,
            },
            arrays,
        )

    @classmethod
    def load(cls, path: FilePath, **overrides: Any) -> Self:
        """An extractor that predicts the same bits; ``overrides`` are settings of prediction (beam, threads)."""
        archive = read_archive(path)
        header = archive.header
        if header.get("class") != "Extractor":
            raise ModelFileError(f"{path}: holds a {header.get('class')!r}, not an extractor of `trellis train`")
        try:
            made = cls(**{**header["settings"], **overrides})
            made.files_, made.without_ = dict(header["files"]), list(header["without"])
            with _restored(made.files_, made.rules_path) as place:
                made.constraints_ = _chosen(parse_rules(made.rules, place), made.without_)
            made.label_names_ = Vocabulary(header["labels"], kind="label")
            made.classes_of_words_ = WordClasses(frozenset(header["common"]))
            model = from_archive(header["model"], archive.arrays, where=str(path))
            made.ccm_ = CCM(model, made.constraints_, method=made.method, beam=made.beam, threads=made.threads)
            made.ccm_.penalties_ = dict(header["penalties"])
            made.ccm_.duals_ = dict(header["duals"])
            made.ccm_.history_ = History.from_json(header["history"])
        except (KeyError, TypeError, IndexError) as error:
            raise ModelFileError(f"{path}: damaged or written by another version of Trellis ({error!r})") from error
        return made


def _chosen(rules: RulesFile, without: Sequence[str]) -> list[Constraint]:
    known = {c.name for c in rules}
    for name in without:
        if name not in known:
            raise UnknownNameError("rule", name, known)
    return [c for c in rules if c.name not in without]


def _label_names(rules: RulesFile, labelled: Sequence[Text]) -> Vocabulary:
    """Those the rules declare, else those of the labelled texts."""
    if rules.labels is not None:
        return Vocabulary(rules.labels, kind="label")
    found = {label for t in labelled for label in t.sentence.labels or () if label is not None}
    if not found:
        raise DataError(
            'nothing says which labels there are: declare them in the rules file, labels = ["AUTHOR", ...], or give '
            "labelled texts (--labelled)"
        )
    return Vocabulary(sorted(found), kind="label")


def _hinted(error: UnknownNameError, texts: Sequence[Text], names: Vocabulary) -> UnknownNameError:
    """An unknown label is sometimes a word: then the columns are swapped."""
    swapped = any(word in names for t in texts if t.sentence.labels is not None for word in t.sentence.words)
    made = UnknownNameError(error.kind, error.name, names, path=error.path, line=error.line)
    if swapped and error.kind == "label":
        made.add_note(
            "(there are labels in the column of the tokens: are the columns swapped? Try --word-column 1 "
            "--label-column 0)"
        )
    else:
        made.add_note("(labels are declared in the rules file, labels = [...]; add it there if it is meant)")
    return made


@contextmanager
def _naming(texts: Sequence[Text]) -> Iterator[None]:
    """Say of an instance without an output where its text stands and how it begins."""
    try:
        yield
    except InfeasibleError as error:
        if error.instances and error.instances[0] < len(texts):
            text = texts[error.instances[0]]
            place = f"{text.sentence.path}, line {text.sentence.line}: " if text.sentence.path else ""
            error.add_note(f"(instance {error.instances[0]} is {place}{text.text[:60]!r})")
            error.add_note('(in a rules file: strength = "learned", or penalty = 5, makes a rule soft)')
        raise


def _dictionaries(rules: str, rules_path: str) -> dict[str, str]:
    """Contents of the dictionary files that rules name, so that a model file needs nothing beside it."""
    found = {}
    for rule in tomllib.loads(rules).get("rule", []):
        name = rule.get("dictionary")
        if isinstance(name, str):
            path = os.path.join(os.path.dirname(rules_path), name)
            found[name] = "\n".join(line for _, line in numbered_lines(path)) + "\n"
    return found


@contextmanager
def _restored(files: dict[str, str], rules_path: str) -> Iterator[str]:
    """A path for the rules beside which their dictionaries are."""
    if not files:
        yield rules_path
        return
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, content) in enumerate(files.items()):
            target = os.path.normpath(os.path.join(folder, "a", name)) if not os.path.isabs(name) else None
            if target is None or not target.startswith(folder):
                raise ModelFileError(f"dictionary {number} of the rules stands outside their folder: {name}")
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target, "w", encoding="utf-8") as out:
                out.write(content)
        yield os.path.join(folder, "a", os.path.basename(rules_path))
