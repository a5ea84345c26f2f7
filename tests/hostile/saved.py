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
from tests.relate import sample
from trellis.constraints import count, few_labels_per, label, word
from trellis.data.sentence import Sentence
from trellis.data.tokens import tokenise
from trellis.data.voted_files import voted_of
from trellis.learn import CCM, UEM, CoDL
from trellis.models import CRF, DMV, HMM, ArcLabeller, ArcParser, MaxEnt, NaiveBayes, RelationModel, load_model
from trellis.models.alignment import AlignmentModel
from trellis.models.vote_hmm import VoteHMM
from trellis.tasks.aggregate import Aggregator
from trellis.tasks.align import Aligner
from trellis.tasks.extract import Extractor
from trellis.tasks.extract_files import read_labelled
from trellis.tasks.induce import Inducer, tag_text
from trellis.tasks.induce_trees import TreeInducer
from trellis.tasks.parse import Parser
from trellis.tasks.relate import Relater
from trellis.tasks.transfer import Transfer

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
        # not as an array, which would take the last NUL of a label away
        own, node = own if isinstance(own, list) else [own], np.atleast_2d(node)
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
    Extractor(RULES_OF_ALL_KINDS, files=files, max_iter=1).fit(few, unlabelled=[tokenise("Cy Fox 1987")]).save(path)


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
    Aggregator(rules='[[rule]]\nname = "few"\ncount = "B-DRUG"\nat_most = 2\n', folds=2, max_iter=3, tol=0).fit(
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
    Inducer(3, max_iter=3, em_iter=1, frequent=2, random_state=0, method="vb").fit(TEXT[:4]).save(path)


LEARNERS: dict[str, dict[str, Any]] = {
    "rows": {"constraints": [count("V") >= 1, count("N").per("corpus") <= 4.0], "beta": 0.5},
    "sparse": {"constraints": [few_labels_per(word, strength=2.0)], "few_dual_steps": 2},
    "online": {"constraints": [count("V") >= 1], "online": 2},
}


def learner(kind: str, path: str, rounds: int) -> UEM:
    model = HMM(["D", "N", "V"], min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    settings = {"tol": 0.0, "random_state": 0, "n_init": 2, "max_iter": rounds, "max_evaluations": 20}
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


PAIRS = [("the dog", "le chien"), ("the cat", "le chat"), ("a dog sleeps", "un chien dort"), ("a cat", "un chat")] * 2


def aligned(aligner: Any) -> str:
    new = [("the cat sleeps", "le chat dort"), ("unheard dog", "chien")]
    links = aligner.align(new)
    for (left, right), found in zip(new, links, strict=True):
        shape = len(left.split()), len(right.split())
        assert np.all((found.pairs >= 0) & (found.pairs < shape)), found.pairs
    for grid in (grid for both in aligner.posteriors(new) for grid in both):
        assert np.all((grid >= 0) & (grid <= 1 + 1e-4)), grid
    return f"{[row.pharaoh(scores=True) for row in links]}"


def make_alignment(path: str) -> None:
    model = AlignmentModel("model1")
    model.encode(PAIRS, fit=True)
    model.save(path)


def linked(model: Any) -> str:
    posteriors = model.scores(model.encode(PAIRS)).infer().members
    assert all(np.all((q.link >= 0) & (q.link <= 1 + 1e-4)) for q in posteriors)
    return str([q.link.tobytes() for q in posteriors])


def suffixes(sentence: Any, at: int) -> dict[str, Any]:
    return {"word": sentence[at], "end": sentence[at][-1], "length": len(sentence[at])}


# trees

TREES = [
    Sentence(("the", "dog", "barks", "."), ("D", "N", "VERB", "PUNCT"),
             {"head": ("2", "3", "0", "3"), "deprel": ("det", "nsubj", "root", "punct")}),
    Sentence(("cats", "sleep"), ("N", "VERB"), {"head": ("2", "0"), "deprel": ("nsubj", "root")}),
]  # fmt: skip
PARSED = [list(zip(s.words, s.labels or (), strict=True)) for s in TREES]
HEADS = [[int(h) for h in s.columns["head"]] for s in TREES]
SMALL = {"bits": 8, "min_count": 1}


def parsed(model: Any) -> str:
    """Heads and their probabilities, of a model of trees."""
    heads, probabilities = model.predict(PARSED), model.predict_proba(PARSED)
    largest = np.abs(getattr(model, "weights_", np.zeros(1))).max()
    for own, node in zip(heads, probabilities, strict=True):
        assert all(0 <= h <= len(own) and h != c for c, h in enumerate(own, start=1)), own
        assert np.all((node >= 0) & (node <= 1 + 1e-6)), node
        if largest < 1e6:
            np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-6)
    return f"{heads} {[node.tobytes() for node in probabilities]}"


def whole_trees(model: Any) -> str:
    """Sentences with heads and relations."""
    found = model.predict(TREES)
    for s in found:
        assert all(0 <= int(h) <= len(s) for h in s.columns["head"]), s
    return str([dict(s.columns) for s in found])


def make_labeller(path: str) -> None:
    parser = ArcParser(**SMALL)
    batch = parser.encode(PARSED, HEADS, fit=True)
    ArcLabeller(bits=6).fit(batch, [list(s.columns["deprel"]) for s in TREES], parser.word_names_).save(path)


def labelled(labeller: Any) -> str:
    parser = ArcParser(**SMALL)
    batch = parser.encode(PARSED, HEADS, fit=True)
    found = labeller.predict(batch, batch.labels)
    assert set(found) <= set(labeller.relation_names_.names)
    return str(found)


def make_transfer(path: str) -> None:
    links = [[(i, i) for i in range(len(s))] for s in TREES]
    Transfer(**SMALL, n_jobs=1).fit(TREES, TREES, links).save(path)


RULED = [
    (count("V") >= 1).penalty(2.0).named("a verb"),
    word.isin("the", "a").implies(label("D")).constraint().named("determiners").learned(),
]


def make_uem(path: str) -> None:
    rules = [RULED[0], few_labels_per(word, strength=2.0)]
    UEM(HMM(["D", "N", "V"], min_count=1), rules, max_iter=2, tol=0.0, random_state=0).fit(TEXT, TAGS).save(path)


def make_ccm(kind: Any) -> Any:
    return lambda path: kind(HMM(["D", "N", "V"], min_count=1), RULED, max_iter=1).fit(TEXT, TAGS).save(path)


def obeyed(learner: Any) -> str:
    both = [learner.predict(TEXT, constrained=constrained) for constrained in (True, False)]
    for labels in both:
        assert {one for own in labels for one in own} <= set(learner.model_.label_names_.names)
    return f"{both} {[c.describe() for c in learner.constraints]} {learner.penalties_}"


RELATED = sample.sentences(6)


def make_relater(path: str) -> None:
    many = [sample.bare(text) for text in sample.sentences(3, 6)]
    Relater(sample.RULES, min_count=1, max_iter=1).fit(RELATED, many).save(path)


def related(relater: Any) -> str:
    texts = [sample.bare(text) for text in RELATED[:3]]
    if hasattr(relater, "finder_"):
        found = relater.predict(texts) + relater.predict([type(texts[0])(texts[0].tokens)])
        for text in found:
            for item in (*text.mentions, *text.relations):
                assert item.type in relater.model_.types_[0] + relater.model_.types_[1]
                assert -1e-9 <= item.probability <= 1 + 1e-6
        return str([(t, [m.probability for m in t.mentions]) for t in found])
    batch = relater.encode(texts)
    scores = relater.scores(batch)
    marginal = scores.infer().marginal
    assert np.all((marginal >= 0) & (marginal <= 1 + 1e-9))
    return f"{relater.decode(batch, scores.argmax().outputs)} {marginal.tobytes()}"


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
    "Aligner": Saved(lambda path: Aligner(n_jobs=1).fit(PAIRS).save(path), Aligner.load, aligned),
    "AlignmentModel": Saved(make_alignment, load_model, linked),
    "ArcParser": Saved(lambda path: ArcParser(**SMALL).fit(PARSED, HEADS).save(path), load_model, parsed),
    "ArcLabeller": Saved(make_labeller, load_model, labelled),
    "DMV": Saved(lambda path: DMV().fit(PARSED, HEADS).save(path), load_model, parsed),
    "DMV variational": Saved(lambda path: DMV(variational=True).fit(PARSED, HEADS).save(path), load_model, parsed),
    "Parser": Saved(lambda path: Parser(**SMALL).fit(TREES).save(path), load_model, whole_trees),
    "TreeInducer": Saved(lambda path: TreeInducer(max_iter=2).fit(TREES).save(path), load_model, whole_trees),
    "Transfer": Saved(make_transfer, load_model, whole_trees),
    "Relater": Saved(make_relater, load_model, related),
    "RelationModel": Saved(
        lambda path: RelationModel(min_count=1, max_iter=10).fit(RELATED).save(path), load_model, related
    ),
    "UEM": Saved(make_uem, load_model, obeyed),
    "CoDL": Saved(make_ccm(CoDL), load_model, obeyed),
    "CCM": Saved(make_ccm(CCM), load_model, obeyed),
    **{f"checkpoint of {kind}": checkpoint(kind) for kind in LEARNERS},
}
