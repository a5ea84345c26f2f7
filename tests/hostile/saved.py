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
from trellis.apps.aggregate.aggregator import Aggregator
from trellis.apps.align.aligner import Aligner
from trellis.apps.extract.extractor import Extractor
from trellis.apps.induce.inducer import Inducer, tag_text
from trellis.apps.match.matcher import Matcher
from trellis.apps.parse.parser import Parser
from trellis.apps.parse.tagger import Tagger
from trellis.apps.parse.transfer import Transfer
from trellis.apps.parse.tree_inducer import TreeInducer
from trellis.apps.relate.relater import Relater
from trellis.constraints import arcs, column, count, few_labels_per, label, shares, word
from trellis.data.document import Document
from trellis.data.text_files import read_labelled
from trellis.data.tokens import tokenise
from trellis.data.voted_files import voted_of
from trellis.learn import CCM, GE, UEM, CoDL, MultiView
from trellis.learn.contrastive import ContrastiveEstimation
from trellis.learn.margin import JLIS, LCLR, MIRA, SSVM, LatentSSVM, Perceptron
from trellis.models import CRF, DMV, HMM, ArcLabeller, ArcParser, MaxEnt, NaiveBayes, RelationModel, SemiCRF, load_model
from trellis.models.alignment import AlignmentModel
from trellis.models.matching import GraphPairs, StringPairs
from trellis.models.vote_hmm import VoteHMM

TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "sees", "a", "dog"], ["dogs"], []]
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V", "D", "N"], ["N"], []]
NEW = [["the", "dog", "sees", "the", "cat"], ["unheard", "words"], ["barks"]]
ROWS = np.array([[3.0, 0.0, 1.0], [2.0, 1.0, 0.0], [0.0, 4.0, 1.0], [1.0, 1.0, 1.0]])


@dataclass(frozen=True)
class Saved:
    make: Callable[[str], None]
    read: Callable[[str], Any]
    use: Callable[[Any], str]


def _check(labels: Any, probabilities: Any, names: Any, largest: float = 0.0, beside: str = "") -> None:
    for own, node in zip(labels, probabilities, strict=True):
        # not as an array, which would take the last NUL of a label away
        own, node = own if isinstance(own, list) else [own], np.atleast_2d(node)
        assert {label.removeprefix(beside) if isinstance(label, str) else label for label in own} <= set(names), own
        assert node.shape == (len(own), len(names)), node.shape
        assert np.all((node >= 0) & (node <= 1 + 1e-9)), node
        if largest < 1e8:  # scores beyond have too few digits left for probabilities that add up
            np.testing.assert_allclose(node.sum(axis=1), 1.0, atol=1e-6)


def _largest(model: Any) -> float:
    """The largest weight, without a copy of them all."""
    weights = getattr(model, "weights_", np.zeros(1))
    return float(max(weights.max(), -weights.min()))


def tagged(model: Any) -> str:
    labels, probabilities = model.predict(NEW), model.predict_proba(NEW)
    largest = _largest(model)
    # a field beside another one of its label begins with B-
    _check(labels, probabilities, model.label_names_.names, largest, "B-" if isinstance(model, SemiCRF) else "")
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


def make_extractor_of_constraints(path: str) -> None:
    rules = [
        word.matches("^[12][0-9]+$").implies(label("YEAR")).named("years"),
        (count("YEAR") <= 1).penalty(2.0),
        (count("NAME") >= 1).learned(),
    ]
    few = ["Ann Lee 1999", "Bob 2001"], [["NAME", "NAME", "YEAR"], ["NAME", "YEAR"]]
    Extractor(rules, labels=["NAME", "YEAR"], model_kind="hmm", max_iter=1).fit(*few).save(path)


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
    Aggregator(rules='[[rule]]\nname = "few"\ncount = "B-DRUG"\nat_most = 2\n', max_iter=3, tol=0).fit(VOTED).save(path)


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


def make_tagger_with_states(path: str) -> None:
    states = HMM(["A", "B"], min_count=1).fit([["the", "dog"], ["a", "dog"]], [["A", "B"], ["A", "B"]])
    Tagger(min_count=1, induced=states).fit(TREES).save(path)


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
    Document(("the", "dog", "barks", "."), ("D", "N", "VERB", "PUNCT"),
             {"head": ("2", "3", "0", "3"), "deprel": ("det", "nsubj", "root", "punct")}),
    Document(("cats", "sleep"), ("N", "VERB"), {"head": ("2", "0"), "deprel": ("nsubj", "root")}),
]  # fmt: skip
PARSED = [list(zip(s.tokens, s.labels or (), strict=True)) for s in TREES]
HEADS = [[int(h) for h in s.columns["head"]] for s in TREES]
SMALL = {"bits": 8, "min_count": 1}


def parsed(model: Any) -> str:
    """Heads and their probabilities, of a model of trees."""
    heads, probabilities = model.predict(PARSED), model.predict_proba(PARSED)
    largest = _largest(model)
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


def word_tags(model: Any) -> str:
    return str([s.labels for s in model.predict(TREES)])


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
    Transfer(**SMALL, n_jobs=1).fit([(s, s) for s in TREES], links).save(path)


NAMES = [("ana", "xyx"), ("nan", "yxy"), ("ann", "xyy"), ("nana", "yxyx")]
SENTENCES = [("the dog barks", "a dog barked"), ("the cat sleeps", "dogs bark"), ("a cat", "the cat 7")]
ANSWERS = [1, -1, 1]


def make_pairs(model: Any, pairs: Any) -> Any:
    def make(path: str) -> None:
        model.guess(model.encode(pairs, fit=True))
        model.save(path)

    return make


def side_by_side(pairs: Any) -> Any:
    def use(model: Any) -> str:
        batch = model.encode(pairs)
        best = model.scores(batch).argmax()
        np.testing.assert_allclose(model.phi(batch, best.outputs) @ model.weights_, best.score, rtol=1e-6, atol=1e-6)
        return f"{model.decode(batch, best.outputs)} {best.score.tobytes()}"

    return use


def matched(pairs: Any) -> Any:
    return lambda model: str(model.match(pairs))


RULED = [
    (count("V") >= 1).penalty(2.0).named("a verb"),
    word.isin("the", "a").implies(label("D")).constraint().named("determiners").learned(),
]


def make_uem(path: str) -> None:
    rules = [RULED[0], few_labels_per(word, strength=2.0)]
    UEM(HMM(["D", "N", "V"], min_count=1), rules, max_iter=2, tol=0.0, random_state=0).fit(TEXT, TAGS).save(path)


def make_ccm(kind: Any) -> Any:
    return lambda path: kind(HMM(["D", "N", "V"], min_count=1), RULED, max_iter=1).fit(TEXT, TAGS).save(path)


def codl(path: str, rounds: int, resume: bool) -> CoDL:
    model = HMM(["D", "N", "V"], min_count=1)
    learner = CoDL(model, RULED, max_iter=rounds, checkpoint=path, checkpoint_every=1)
    return learner.fit(TEXT[:4], [*TAGS[:3], None], resume=resume)


def grown(path: str, rounds: int, resume: bool) -> UEM:
    """A grammar of trees under a rule, which a checkpoint holds with its multipliers."""
    tag = column("upos")
    rule = (arcs(head=tag == "VERB", child=tag == "N") >= 0.9).named("a noun under the verb")
    learner = UEM(DMV(), [rule], max_iter=rounds, tol=0.0, random_state=0, checkpoint=path, checkpoint_every=1)
    return learner.fit(PARSED, resume=resume)


def make_views(path: str) -> None:
    models = [CRF(["D", "N", "V"], max_iter=10, tol=1e-3), HMM(["D", "N", "V"], min_count=1)]
    MultiView(models, RULED[:1], max_iter=1, tol=0.0).fit([TEXT, TEXT], [*TAGS[:3], None, []]).save(path)


def make_mapped(path: str) -> None:
    learner = MultiView([MaxEnt(), MaxEnt()], maps=[{"cc": "a"}, None], max_iter=1, tol=0.0)
    learner.fit([ROWS, ROWS], [["a", "a", "b", "cc"], ["a", None, "b", "a"]]).save(path)


def agreed_rows(learner: Any) -> str:
    found = learner.predict([ROWS, ROWS])
    for model, own in zip(learner.models_, found, strict=True):
        assert set(own) <= set(model.classes_.tolist())
    return f"{[own.tolist() for own in found]}"


def agreed(learner: Any) -> str:
    found = [learner.predict([NEW, NEW], by=by) for by in ("agreement", 0, 1)]
    names = {name for model in learner.models_ for name in model.label_names_.names}
    assert {tag for text in found[1] for tag in text} <= names
    return f"{found}"


def make_ge(path: str) -> None:
    targets = [shares({"D": 0.5, "N": 0.3}, where=word == "the").penalty(1.0, "squared")]
    GE(CRF(["D", "N", "V"], l2=0.1), targets, max_iter=1, tol=0.0).fit(TEXT, TAGS).save(path)


def make_contrastive(path: str) -> None:
    known = [(word == "the").implies(label("D"))]
    ContrastiveEstimation(CRF(["D", "N", "V"], l2=0.1), known, max_iter=1).fit(TEXT).save(path)


def obeyed(learner: Any) -> str:
    both = [learner.predict(TEXT, constrained=constrained) for constrained in (True, False)]
    for labels in both:
        assert {one for own in labels for one in own} <= set(learner.model_.label_names_.names)
    return f"{both} {[c.describe() for c in learner.constraints]} {learner.penalties_}"


BINARY = (TEXT[:4] + [words[::-1] for words in TEXT[:4]], [1] * 4 + [-1] * 4)
MARGINS: dict[str, Any] = {
    "Perceptron": lambda **s: Perceptron(CRF(), max_iter=2, **s).fit(TEXT[:4], TAGS[:4]),
    "MIRA": lambda **s: MIRA(CRF(), k_best=2, max_iter=2, **s).fit(TEXT[:4], TAGS[:4]),
    "SSVM": lambda **s: SSVM(CRF(), [count("V") >= 1], tol=1.0, **s).fit(TEXT[:4], TAGS[:4]),
    "LatentSSVM": lambda **s: LatentSSVM(CRF(), tol=1.0, **s).fit(TEXT[:4], [*TAGS[:3], None]),
    "LCLR": lambda **s: LCLR(CRF(["D", "N", "V"]), tol=1.0, **s).fit(*BINARY),
    "JLIS": lambda **s: JLIS(CRF(), tol=1.0, **s).fit(TEXT[:2], TAGS[:2], binary=BINARY),
}


def by_margin(learner: Any) -> str:
    values, structures = learner.decision_function(TEXT[:4]), learner.best_structures(TEXT[:4])
    assert np.all(np.isfinite(values))
    assert {one for own in structures for one in own} <= set(learner.model_.label_names_.names)
    return f"{values.tobytes()} {structures} {learner.history_.objective}"


def stopped(kind: str, path: str, rounds: int, resume: bool) -> Any:
    """A run of steps or of cutting planes, with a checkpoint."""
    made = {
        "steps": Perceptron(CRF(), max_iter=rounds, checkpoint=path),
        "cuts": SSVM(CRF(), loss="hinge", tol=0.0, max_iter=rounds, checkpoint=path),
    }[kind]
    return made.fit(TEXT[:4], TAGS[:4], resume=resume)


def margin_checkpoint(kind: str) -> Saved:
    return Saved(
        lambda path: stopped(kind, path, 2, False),
        lambda path: path,
        lambda path: by_margin(stopped(kind, path, 3, True)),
    )


RELATED = sample.sentences(6)


def make_relater(path: str) -> None:
    many = [sample.bare(text) for text in sample.sentences(3, 6)]
    Relater(sample.RULES, min_count=1, max_iter=1).fit(RELATED, unlabelled=many).save(path)


def related(relater: Any) -> str:
    texts = [sample.bare(text) for text in RELATED[:3]]
    if hasattr(relater, "finder_"):
        found = relater.predict(texts) + relater.predict([type(texts[0])(texts[0].tokens)])
        for text in found:
            for item in (*text.spans, *text.relations):
                assert item.label in relater.model_.types_[0] + relater.model_.types_[1]
                assert -1e-9 <= item.probability <= 1 + 1e-6
        return str([(t, [m.probability for m in t.spans]) for t in found])
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
    "SemiCRF": tagger(
        SemiCRF(l2=0.1, max_iter=20, tol=1e-3, longest=3, dictionaries={"dogs": [["the", "dog"], ["dog"]]})
    ),
    "CRF with a function": Saved(
        lambda path: CRF(features=suffixes, max_iter=20, tol=1e-3).fit(TEXT, TAGS).save(path),
        lambda path: load_model(path, features=suffixes),
        tagged,
    ),
    "NaiveBayes": classifier(NaiveBayes(), ["a", "a", "b", "c"]),
    "NaiveBayes variational": classifier(NaiveBayes(variational=True), [1, 1, 2, 3]),
    "MaxEnt": classifier(MaxEnt(l2=0.1), ["a", "a", "b", "cc"]),
    "MultiView": Saved(make_views, load_model, agreed),
    "MultiView with maps": Saved(make_mapped, load_model, agreed_rows),
    "GE": Saved(make_ge, load_model, lambda learner: tagged(learner.model_) + str(learner.predict(NEW))),
    "ContrastiveEstimation": Saved(
        make_contrastive, load_model, lambda learner: tagged(learner.model_) + str(learner.predict(NEW))
    ),
    "Aggregator": Saved(make_aggregator, load_model, aggregated),
    "VoteHMM": Saved(make_voters, load_model, aggregated),
    "Extractor": Saved(make_extractor, Extractor.load, extracted),
    "Extractor with constraints": Saved(make_extractor_of_constraints, load_model, extracted),
    "Inducer": Saved(make_induced, load_model, lambda model: tagged(model) + str(tag_text(model, NEW))),
    "Aligner": Saved(lambda path: Aligner(n_jobs=1).fit(PAIRS).save(path), Aligner.load, aligned),
    "AlignmentModel": Saved(make_alignment, load_model, linked),
    "ArcParser": Saved(lambda path: ArcParser(**SMALL).fit(PARSED, HEADS).save(path), load_model, parsed),
    "ArcLabeller": Saved(make_labeller, load_model, labelled),
    "DMV": Saved(lambda path: DMV().fit(PARSED, HEADS).save(path), load_model, parsed),
    "DMV variational": Saved(lambda path: DMV(variational=True).fit(PARSED, HEADS).save(path), load_model, parsed),
    "Parser": Saved(lambda path: Parser(**SMALL).fit(TREES).save(path), load_model, whole_trees),
    "Tagger": Saved(lambda path: Tagger(min_count=1).fit(TREES).save(path), load_model, word_tags),
    "Tagger with states": Saved(make_tagger_with_states, load_model, word_tags),
    "TreeInducer": Saved(lambda path: TreeInducer(max_iter=2).fit(TREES).save(path), load_model, whole_trees),
    "Transfer": Saved(make_transfer, load_model, whole_trees),
    "StringPairs": Saved(make_pairs(StringPairs(bits=6), NAMES), load_model, side_by_side(NAMES)),
    "GraphPairs": Saved(
        make_pairs(GraphPairs(min_count=1, wordnet="none"), SENTENCES), load_model, side_by_side(SENTENCES)
    ),
    "Matcher": Saved(lambda path: Matcher(negatives=2, n_jobs=1).fit(NAMES).save(path), load_model, matched(NAMES)),
    "Matcher of sentences": Saved(
        lambda path: Matcher("sentences", wordnet="none", n_jobs=1).fit(SENTENCES, ANSWERS).save(path),
        load_model,
        matched(SENTENCES),
    ),
    "Relater": Saved(make_relater, load_model, related),
    "RelationModel": Saved(
        lambda path: RelationModel(min_count=1, max_iter=10).fit(RELATED).save(path), load_model, related
    ),
    "UEM": Saved(make_uem, load_model, obeyed),
    "CoDL": Saved(make_ccm(CoDL), load_model, obeyed),
    "CCM": Saved(make_ccm(CCM), load_model, obeyed),
    **{kind: Saved(lambda path, make=make: make().save(path), load_model, by_margin) for kind, make in MARGINS.items()},
    **{f"checkpoint of {kind}": checkpoint(kind) for kind in LEARNERS},
    "checkpoint of CoDL": Saved(
        lambda path: codl(path, 1, False), lambda path: path, lambda path: obeyed(codl(path, 2, True))
    ),
    "checkpoint of trees": Saved(
        lambda path: grown(path, 2, False), lambda path: path, lambda path: parsed(grown(path, 3, True).model_)
    ),
    **{f"checkpoint of {kind}": margin_checkpoint(kind) for kind in ("steps", "cuts")},
}
