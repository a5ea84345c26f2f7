"""Everything that is saved to a file: how a small one is made, how it is read back, and what using it gives.

``read`` may end in a ModelFileError and in nothing else; ``use`` in any error of ours, or in a line of text by which
two models are told apart. It raises AssertionError where what a model says cannot be: other labels than its own, or
probabilities that are none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.hostile.command import FEW, RULES
from trellis.constraints import count, few_labels_per, word
from trellis.data.tokens import tokenise
from trellis.data.voted_files import voted_of
from trellis.learn import UEM
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes, load_model
from trellis.models.vote_hmm import VoteHMM
from trellis.tasks.aggregate import Aggregator
from trellis.tasks.extract import Extractor
from trellis.tasks.extract_files import read_labelled
from trellis.tasks.induce import Inducer, tag_text

TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "sees", "a", "dog"], ["dogs"], []]
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V", "D", "N"], ["N"], []]
NEW = [["the", "dog", "sees", "the", "cat"], ["unheard", "words"], ["barks"]]
ROWS = np.array([[3.0, 0.0, 1.0], [2.0, 1.0, 0.0], [0.0, 4.0, 1.0], [1.0, 1.0, 1.0]])


@dataclass(frozen=True)
class Saved:
    make: Callable[[str], None]
    read: Callable[[str], Any]
    use: Callable[[Any], str]


def _check(labels: Any, probabilities: Any, names: Any, largest: float = 0.0) -> None:
    for own, node in zip(labels, probabilities, strict=True):
        own, node = np.atleast_1d(own), np.atleast_2d(node)
        assert set(own) <= set(names), (own, names)
        assert node.shape == (len(own), len(names)), node.shape
        assert np.all((node >= 0) & (node <= 1 + 1e-9)), node
        if largest < 1e8:  # scores beyond have too few digits left for probabilities that add up
            np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-6)


def tagged(model: Any) -> str:
    labels, probabilities = model.predict(NEW), model.predict_proba(NEW)
    largest = np.abs(getattr(model, "weights_", np.zeros(1))).max()
    _check(labels, probabilities, model.label_names_.names, largest)
    return f"{labels} {[node.tobytes() for node in probabilities]}"


def classified(model: Any) -> str:
    labels, probabilities = model.predict(ROWS), model.predict_proba(ROWS)
    _check(labels, probabilities, model.classes_.tolist())
    return f"{labels.tolist()} {probabilities.tobytes()}"


def tagger(model: Any) -> Saved:
    return Saved(lambda path: model.fit(TEXT, TAGS).save(path), load_model, tagged)


def classifier(model: Any, labels: Any) -> Saved:
    return Saved(lambda path: model.fit(ROWS, labels).save(path), load_model, classified)


RULES_OF_ALL_KINDS = (
    RULES
    + """
[[rule]]
name = "names"
dictionary = "names.tsv"
penalty = 2
[[rule]]
if_word_matches = "^[A-Z]"
if_token = "first"
then_label = "NAME"
strength = "learned"
[[rule]]
field = "YEAR"
appears_at_most = 1
strength = "learned"
[[rule]]
count = "NAME"
at_least = 1
slack = 0.1
"""
)


def make_extractor(path: str) -> None:
    with open(path + ".tsv", "w") as out:
        out.write(FEW)
    files = {"names.tsv": "Cy\tNAME\nFox\tNAME YEAR\n"}
    few = read_labelled(path + ".tsv")
    Extractor(RULES_OF_ALL_KINDS, files=files, rounds=1).fit(few, [tokenise("Cy Fox 1987")]).save(path)


def extracted(extractor: Any) -> str:
    texts = [tokenise("Cy Fox 1987"), tokenise("2001 Ann")]
    both = [extractor.predict(texts, constrained=constrained) for constrained in (True, False)]
    for labels in both:
        assert {label for own in labels for label in own} <= set(extractor.label_names_)
    return f"{both} {[c.describe() for c in extractor.constraints_]}"


VOTED = [
    {"tokens": ["take", "aspirin", "now"], "spans": {"f": [[1, 2, "DRUG"]], "g": []}},
    {"tokens": ["no", "zocor"], "spans": {"f": [[1, 2, "DRUG"]], "g": [[1, 2, "DRUG"]]}},
] * 15


def make_aggregator(path: str) -> None:
    Aggregator(rules='[[rule]]\nname = "few"\ncount = "B-DRUG"\nat_most = 2\n', folds=2, rounds=3, tol=0).fit(
        VOTED
    ).save(path)


def make_voters(path: str) -> None:
    texts = [voted_of(one) for one in VOTED]
    model = VoteHMM(["O", "B-DRUG", "I-DRUG"], ["f", "g"], {k: [k] for k in ("O", "B-DRUG", "I-DRUG")})
    model.begin(model.encode(texts, fit=True))
    model.save(path)


def aggregated(model: Any) -> str:
    texts = [voted_of(one) for one in VOTED[:2]]
    labels, probabilities = model.predict(texts), model.predict_proba(texts)
    _check(labels, probabilities, list(model.label_names_))
    return f"{labels} {[node.tobytes() for node in probabilities]} {getattr(model, 'accuracies_', None)}"


def make_induced(path: str) -> None:
    Inducer(3, rounds=3, em_rounds=1, frequent=2, random_state=0, method="vb").fit(TEXT[:4]).save(path)


LEARNERS: dict[str, dict[str, Any]] = {
    "rows": {"constraints": [count("V") >= 1, count("N").per("corpus") <= 4.0], "beta": 0.5},
    "sparse": {"constraints": [few_labels_per(word, strength=2.0)], "few_dual_steps": 2},
    "online": {"constraints": [count("V") >= 1], "online": 2},
}


def learner(kind: str, path: str, rounds: int) -> UEM:
    model = HMM(["D", "N", "V"], min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    settings = {"tol": 0.0, "random_state": 0, "n_init": 2, "max_rounds": rounds, "evaluations": 20}
    return UEM(model, **{**settings, **LEARNERS[kind]}, checkpoint=path, checkpoint_every=1)


def learn(kind: str, path: str, rounds: int, resume: bool) -> UEM:
    labels = None if kind == "sparse" else [TAGS[0], None, None, None]
    return learner(kind, path, rounds).fit(TEXT[:4], labels, resume=resume)


def checkpoint(kind: str) -> Saved:
    """A run goes on from the file, which is read inside."""
    return Saved(lambda path: learn(kind, path, 2, False), lambda path: path, lambda path: gone_on(kind, path))


def gone_on(kind: str, path: str) -> str:
    learned = learn(kind, path, 3, True)
    known = [sentence[:3] for sentence in TEXT[:4]]
    labels, probabilities = learned.predict(known), learned.predict_proba(known)
    _check(labels, probabilities, learned.model_.label_names_.names)
    return f"{labels} {[node.tobytes() for node in probabilities]} {learned.history_.objective}"


def suffixes(sentence: Any, at: int) -> dict[str, Any]:
    return {"word": sentence[at], "end": sentence[at][-1], "length": len(sentence[at])}


SMOOTH = {"emission_prior": 1.1, "transition_prior": 1.1}
SAVED: dict[str, Saved] = {
    "HMM": tagger(HMM(min_count=1, **SMOOTH)),
    "HMM with a dictionary": tagger(HMM(min_count=1, tag_dictionary={"the": ["D"], "dog": ["N", "V"]}, **SMOOTH)),
    "HMM variational": tagger(HMM(min_count=2, variational=True)),
    "CRF": tagger(CRF(l2=0.1, max_iter=20, tol=1e-3)),
    "CRF with all pairs": tagger(CRF(l2=0.1, max_iter=20, tol=1e-3, all_pairs=True, ends=False)),
    "CRF with a function": Saved(
        lambda path: CRF(features=suffixes, max_iter=20, tol=1e-3).fit(TEXT, TAGS).save(path),
        lambda path: load_model(path, features=suffixes),
        tagged,
    ),
    "NaiveBayes": classifier(NaiveBayes(), ["a", "a", "b", "c"]),
    "NaiveBayes variational": classifier(NaiveBayes(variational=True), [1, 1, 2, 3]),
    "MaxEnt": classifier(MaxEnt(l2=0.1), ["a", "a", "b", "cc"]),
    "Aggregator": Saved(make_aggregator, load_model, aggregated),
    "VoteHMM": Saved(make_voters, load_model, aggregated),
    "Extractor": Saved(make_extractor, Extractor.load, extracted),
    "Inducer": Saved(make_induced, load_model, lambda model: tagged(model) + str(tag_text(model, NEW))),
    **{f"checkpoint of {kind}": checkpoint(kind) for kind in LEARNERS},
}
NOT_YET = {"AlignmentModel", "Aligner"}
"""Classes of ``trellis.models.saving`` that are not here: their arrays have no table yet."""
