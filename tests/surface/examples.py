"""Every public estimator, fitted on a few instances: what it takes, in which forms, and what it answers.

``EXAMPLES`` has an entry for each exported class with ``fit``; the tests of this folder draw from it, and one of them
fails where an exported estimator, or a public method of one, is missing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

import trellis.neural
from tests.relate import sample
from trellis import count, label, shares, word
from trellis.data.document import Document
from trellis.data.tokens import tokenise
from trellis.data.voted_files import voted_of
from trellis.metrics.alignment import GoldLinks

Make = Callable[[Sequence[Any]], Any]


@dataclass(frozen=True)
class Example:
    """An estimator and what it is used on.

    new : an estimator that has not been fitted;  data : the positional arguments of ``fit``;  more : the others
    instances : some of what it predicts on;  empty : an instance without tokens, None where there is no such thing
    forms : name -> the same instances in another form that is accepted
    each : methods with one result per instance, name -> call
    whole : methods with one result for all instances together
    none : whether an empty batch has an (empty) result; scikit-learn wants an error of classifiers of rows
    rounding : relative difference of results that are the same; networks compute in single precision
    """

    new: Callable[[], Any]
    data: tuple[Any, ...]
    instances: Sequence[Any]
    empty: Any
    forms: Mapping[str, Make]
    each: dict[str, Callable[[Any, Any], Any]]
    whole: dict[str, Callable[[Any, Any], Any]] = field(default_factory=dict)
    none: bool = True
    rounding: float = 1e-7
    more: dict[str, Any] = field(default_factory=dict)


def method(name: str, **arguments: Any) -> Callable[[Any, Any], Any]:
    return lambda estimator, X: getattr(estimator, name)(X, **arguments)


def inferred(estimator: Any, X: Any) -> Any:
    """Labels and certificates of one inference, by instance."""
    found = estimator.infer(X)
    return list(zip(plain(found.labels), found.certificate.tolist(), strict=True))


def aligned(estimator: Any, X: Any) -> Any:
    """Values and certificates of one inference, by instance."""
    found = estimator.infer(X)
    return list(zip(found.values.tolist(), found.certificate.tolist(), strict=True))


def methods(*names: str) -> dict[str, Callable[[Any, Any], Any]]:
    return {name: method(name) for name in names}


# what holds instances

OUTER: dict[str, Make] = {
    "a tuple": tuple,
    "an iterator": iter,
    "a generator": lambda items: (item for item in items),
    "an array": lambda items: array_of(items),
}


def array_of(items: Sequence[Any]) -> Any:
    """A NumPy array of objects, one for each item."""
    made = np.empty(len(items), dtype=object)
    for i, item in enumerate(items):
        made[i] = item
    return made


# sentences of words

TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "sees", "a", "dog"], ["dogs"]]
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V", "D", "N"], ["N"]]
NEW = [["the", "dog", "sees", "the", "cat"], ["unheard", "words"], ["barks"]]
NAMES = ["D", "N", "V"]
TOKENS: dict[str, Make] = {
    **OUTER,
    "tuples": lambda items: [tuple(item) for item in items],
    "arrays of tokens": lambda items: [np.array(item, dtype=object) for item in items],
    "arrays of NumPy strings": lambda items: [np.array(item, dtype=str) for item in items],
}
CHARACTERS: dict[str, Make] = {"strings": lambda items: [" ".join(item) for item in items]}
RULES = [(count("V") <= 2).penalty(2.0).named("few verbs"), word.isin("the").implies(label("D")).constraint()]


def tagger(
    new: Callable[[], Any],
    *names: str,
    whole: Any,
    data: tuple[Any, ...] = (TEXT, TAGS),
    forms: Any = TOKENS,
    **more: Any,
) -> Example:
    each = methods("predict", *names) | {"infer": inferred}
    return Example(new, data, NEW, [], forms, each, whole, more=more)


def scored(estimator: Any, X: Any) -> float:
    return float(estimator.score(X, [["D", "N", "V", "D", "N"], ["N", "V"], ["V"]]))


def likelihood(estimator: Any, X: Any) -> float:
    return float(estimator.log_likelihood(X))


def likelihood_of_labels(estimator: Any, X: Any) -> float:
    return float(estimator.log_likelihood(X, [["D", "N", "V", "D", "N"], ["N", None], None]))


def violated(estimator: Any, X: Any) -> Any:
    return estimator.violations(X)


def hmm(**more: Any) -> Any:
    return trellis.HMM(NAMES, min_count=2, **{"emission_prior": 1.1, "transition_prior": 1.1, **more})


def learner(kind: Any, *names: str, **more: Any) -> Example:
    whole = {"score": scored, "violations": violated}
    return tagger(lambda: kind(hmm(), RULES, max_iter=1, **more), *names, whole=whole, data=(TEXT, [*TAGS[:3], None]))


def margin(new: Callable[[], Any], **more: Any) -> Example:
    whole = {"score": scored, "violations": violated}
    return tagger(new, "best_structures", "decision_function", **{"whole": whole, **more})


def binary() -> tuple[list[Any], list[int]]:
    return [*TEXT, *(words[::-1] for words in TEXT[:3]), ["cat", "the"]], [1] * 4 + [-1] * 4


# texts

FIELDS = """
labels = ["AUTHOR", "TITLE", "DATE"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)\\d\\d$'
then_label = "DATE"
strength = "hard"
"""
FEW = ["Ann Lee . Old roses . 2001 .", "Cy Fox . Trees . 1987 ."]
FEW_LABELS = [["AUTHOR"] * 3 + ["TITLE"] * 3 + ["DATE"] * 2, ["AUTHOR"] * 3 + ["TITLE"] * 2 + ["DATE"] * 2]
CITED = ["Ann Lee . Old roses . 2001 .", "Bo Day . Walls . 1999 .", "Cy Day . Old trees ."]
TEXTS: dict[str, Make] = {
    **OUTER,
    "tokens": lambda items: [item.split() for item in items],
    "tuples": lambda items: [tuple(item.split()) for item in items],
    "arrays of tokens": lambda items: [np.array(item.split(), dtype=object) for item in items],
    "texts": lambda items: [tokenise(item) for item in items],
    "sentences": lambda items: [Document(tuple(item.split())) for item in items],
}


def fields(estimator: Any, X: Any) -> Any:
    return [[(f.label, f.first, f.last) for f in found.spans] for found in estimator.extract(X)]


def cited_score(estimator: Any, X: Any) -> float:
    given = [["AUTHOR"] * len(tokenise(text)) for text in CITED]
    return float(estimator.score(X, given))


# trees

TREES = [
    Document(("the", "dog", "barks", "."), ("D", "N", "VERB", "PUNCT"),
             {"head": ("2", "3", "0", "3"), "deprel": ("det", "nsubj", "root", "punct")}),
    Document(("cats", "sleep"), ("N", "VERB"), {"head": ("2", "0"), "deprel": ("nsubj", "root")}),
    Document(("a", "cat", "sees", "dogs"), ("D", "N", "VERB", "N"),
             {"head": ("2", "3", "0", "3"), "deprel": ("det", "nsubj", "root", "obj")}),
]  # fmt: skip
PARSED = [list(zip(s.tokens, s.labels or (), strict=True)) for s in TREES]
HEADS = [[int(h) for h in s.columns["head"]] for s in TREES]
EMPTY_TREE = Document((), (), {"head": (), "deprel": ()})
SMALL = {"bits": 8, "min_count": 1}
PAIRS_OF_TAGS: dict[str, Make] = {
    **OUTER,
    "tuples": lambda items: [tuple(item) for item in items],
    "lists of lists": lambda items: [[list(token) for token in item] for item in items],
    "arrays of tokens": lambda items: [array_of(item) for item in items],
}
WORDS: dict[str, Make] = {
    **OUTER,
    "tokens": lambda items: [list(item.tokens) for item in items],
    "strings": lambda items: [" ".join(item.tokens) for item in items],
}


def heads_and_relations(estimator: Any, X: Any) -> Any:
    return [(s.tokens, s.columns["head"], s.columns["deprel"]) for s in estimator.predict(X)]


def tags(estimator: Any, X: Any) -> Any:
    return [(s.tokens, s.labels) for s in estimator.predict(X)]


def attached(estimator: Any, X: Any) -> Any:
    return estimator.attachment(X)


LINKS = [[(i, i) for i in range(len(s))] for s in TREES]


# pairs

BITEXT = [("the dog", "le chien"), ("the cat", "le chat"), ("a dog sleeps", "un chien dort"), ("a cat", "un chat")]
GOLD_LINKS = [GoldLinks(own, own) for own in map(frozenset, ([(0, 0), (1, 1)], [(1, 0)], [(0, 0)]))]
NEW_PAIRS = [("the cat sleeps", "le chat dort"), ("unheard dog", "chien"), ("a", "un")]
TWO_SIDES: dict[str, Make] = {
    **OUTER,
    "lists": lambda items: [list(item) for item in items],
    "tokens": lambda items: [(a.split(), b.split()) for a, b in items],
    "arrays of tokens": lambda items: [(np.array(a.split(), dtype=object), b.split()) for a, b in items],
    "a table": lambda items: np.array(items, dtype=object).reshape(len(items), 2),
}
TWO_TEXTS = {name: form for name, form in TWO_SIDES.items() if "tokens" not in name}
NAME_PAIRS = [("ana", "xyx"), ("nan", "yxy"), ("ann", "xyy"), ("nana", "yxyx")]
NEW_NAMES = [*NAME_PAIRS[:3], ("anna", "yyyyxxx")]
TEXT_PAIRS = [("the dog barks", "a dog barked"), ("the cat sleeps", "dogs bark"), ("a cat", "the cat 7")]


def linked(name: str) -> Callable[[Any, Any], Any]:
    return lambda estimator, X: [links.pharaoh() for links in getattr(estimator, name)(X)]


def ranked(estimator: Any, X: Any) -> Any:
    return estimator.score_ranking(X)


# votes and relations

VOTED = [
    {"tokens": ["take", "aspirin", "now"], "spans": {"f": [[1, 2, "DRUG"]], "g": []}},
    {"tokens": ["no", "zocor"], "spans": {"f": [[1, 2, "DRUG"]], "g": [[1, 2, "DRUG"]]}},
]
NEW_VOTED = [*VOTED, {"tokens": ["unheard"], "votes": {"f": ["B-DRUG"]}}]
RECORDS: dict[str, Make] = {**OUTER, "voted texts": lambda items: [voted_of(item) for item in items]}
RELATED = sample.sentences(6)
BARE = [sample.bare(text) for text in RELATED[:3]]
RELATED_FORMS: dict[str, Make] = {
    **OUTER,
    "records": lambda items: [related_record(item) for item in items],
}


def related_record(text: Any) -> dict[str, Any]:
    mentions = [{"start": m.first, "end": m.last} for m in text.spans]
    return {"tokens": list(text.tokens), "mentions": mentions}


def related(estimator: Any, X: Any) -> Any:
    return [
        (t.tokens, [(m.first, m.label, m.probability) for m in t.spans], [(r.first, r.label) for r in t.relations])
        for t in estimator.predict(X)
    ]


def with_mentions(estimator: Any, X: Any) -> Any:
    return [(t.tokens, t.spans) for t in estimator.with_mentions(X)]


def types_and_relations(estimator: Any, X: Any) -> Any:
    batch = estimator.encode(X)
    return estimator.decode(batch, estimator.scores(batch).argmax().outputs)


# rows

ROWS = np.array([[3.0, 0.0, 1.0], [2.0, 1.0, 0.0], [0.0, 4.0, 1.0], [1.0, 1.0, 1.0]])
CLASSES = ["a", "a", "b", "cc"]
MATRIX: dict[str, Make] = {
    "lists": lambda rows: [list(row) for row in rows],
    "tuples": lambda rows: tuple(tuple(row) for row in rows),
    "whole numbers": lambda rows: np.array(rows).astype(np.int64),
    "an array of objects": lambda rows: np.array(rows).astype(object),
    "a sparse matrix": lambda rows: sparse.csr_matrix(np.array(rows)),
    "a sparse array": lambda rows: sparse.coo_array(np.array(rows)),
}


def rows(new: Callable[[], Any]) -> Example:
    each = methods("predict", "predict_proba", "predict_log_proba") | {"infer": inferred}
    whole = {"score": lambda estimator, X: estimator.score(X, CLASSES)}
    return Example(new, (ROWS, CLASSES), list(ROWS), None, MATRIX, each, whole, none=False)


# views

VIEWS: dict[str, Make] = {name: lambda items, form=form: [form(items), form(items)] for name, form in TOKENS.items()}


def views() -> Any:
    models = [trellis.CRF(NAMES, max_iter=10, tol=1e-3), hmm()]
    return trellis.MultiView(models, RULES[:1], max_iter=1, tol=0.0)


def ge() -> Any:
    target = shares({"D": 0.5, "N": 0.3}, where=word == "the").penalty(1.0, "squared")
    return trellis.GE(trellis.CRF(NAMES, l2=0.1), [target], max_iter=1, tol=0.0)


def of_heads(new: Callable[[], Any]) -> Example:
    return Example(
        new, (PARSED, HEADS), PARSED, [], PAIRS_OF_TAGS, methods("predict", "predict_proba") | {"infer": inferred},
        {"score": lambda estimator, X: estimator.score(X, HEADS)},
    )  # fmt: skip


def of_trees(new: Callable[[], Any], *data: Any) -> Example:
    whole = {"attachment": attached, "score": lambda estimator, X: estimator.score(X)}
    return Example(new, data, TREES, EMPTY_TREE, OUTER, {"predict": heads_and_relations, "infer": inferred}, whole)


CRF_SCORES = {"score": scored, "log_likelihood": likelihood_of_labels}
ONE_RULE = RULES[:1]
EXAMPLES: dict[str, Example] = {
    "HMM": tagger(hmm, "predict_proba", whole={"score": scored, "log_likelihood": likelihood}),
    "CRF": tagger(lambda: trellis.CRF(max_iter=20, tol=1e-3), "predict_proba", whole=CRF_SCORES),
    "SemiCRF": tagger(lambda: trellis.SemiCRF(max_iter=20, tol=1e-3, longest=3), "predict_proba", whole=CRF_SCORES),
    "UEM": learner(trellis.UEM, "predict_proba", random_state=0, tol=0.0),
    "CoDL": learner(trellis.CoDL, "predict_proba"),
    "CCM": learner(trellis.CCM, "predict_proba"),
    "GE": tagger(ge, "predict_proba", whole={"score": scored, "violations": violated}),
    "MultiView": Example(
        views, ([TEXT, TEXT], [*TAGS[:3], None]), NEW, [], VIEWS,
        methods("predict", "predict_proba") | {"infer": inferred},
        {"score": scored, "violations": violated, "predict by one view": method("predict", by=0)},
    ),
    "Perceptron": margin(lambda: trellis.Perceptron(trellis.CRF(NAMES), ONE_RULE, max_iter=2)),
    "MIRA": margin(lambda: trellis.MIRA(trellis.CRF(NAMES), ONE_RULE, max_iter=2)),
    "SSVM": margin(lambda: trellis.SSVM(trellis.CRF(NAMES), ONE_RULE, max_iter=2, tol=1.0)),
    "LatentSSVM": margin(lambda: trellis.LatentSSVM(trellis.CRF(NAMES), ONE_RULE, max_iter=2, tol=1.0)),
    "JLIS": margin(lambda: trellis.JLIS(trellis.CRF(), tol=1.0), data=(TEXT[:2], TAGS[:2]), binary=binary()),
    "LCLR": margin(
        lambda: trellis.LCLR(trellis.CRF(NAMES), tol=1.0), data=binary(),
        whole={"score": lambda estimator, X: estimator.score(X, [1, -1, 1]), "violations": violated},
    ),
    "Inducer": tagger(
        lambda: trellis.Inducer(3, max_iter=3, em_iter=1, frequent=2, random_state=0), data=(TEXT,),
        whole={"score": scored}, forms={**TOKENS, **CHARACTERS},
    ),
    "Extractor": Example(
        lambda: trellis.Extractor(FIELDS, max_iter=1), (FEW, FEW_LABELS), CITED, "", TEXTS,
        {"predict": method("predict"), "extract": fields, "infer": inferred}, {"score": cited_score},
    ),
    "Tagger": Example(
        lambda: trellis.Tagger(min_count=1), (TREES,), TREES, Document(()), WORDS, {"predict": tags, "infer": inferred},
        {"score": lambda estimator, X: estimator.score(X, [s.labels for s in TREES])},
    ),
    "Parser": of_trees(lambda: trellis.Parser(**SMALL), TREES),
    "TreeInducer": of_trees(lambda: trellis.TreeInducer(max_iter=2), TREES),
    "Transfer": of_trees(lambda: trellis.Transfer(**SMALL, n_jobs=1), [(s, s) for s in TREES], LINKS),
    "ArcParser": of_heads(lambda: trellis.ArcParser(**SMALL)),
    "DMV": of_heads(lambda: trellis.DMV()),
    "Aligner": Example(
        lambda: trellis.Aligner(n_jobs=1), (BITEXT * 2,), NEW_PAIRS, ("", ""), TWO_SIDES,
        {
            **{name: linked(name) for name in ("align", "align_stream", "predict")},
            **methods("posteriors", "score_pairs"),
        },
        {"score": lambda estimator, X: estimator.score(X, GOLD_LINKS)},
    ),
    "Matcher": Example(
        lambda: trellis.Matcher(negatives=2, n_jobs=1), (NAME_PAIRS,), NEW_NAMES, ("", ""), TWO_TEXTS,
        methods("predict", "decision_function", "match") | {"infer": aligned},
        {"score": lambda estimator, X: estimator.score(X, [1, 1, 1, -1]), "score_ranking": ranked},
    ),
    "Aggregator": Example(
        lambda: trellis.Aggregator(max_iter=3, tol=0), (VOTED * 15,), NEW_VOTED, {"tokens": [], "votes": {}}, RECORDS,
        methods("predict", "predict_proba") | {"infer": inferred},
        {"score": lambda estimator, X: estimator.score(X, [["O", "B-DRUG", "O"], ["O", "O"], ["O"]])},
    ),
    "Relater": Example(
        lambda: trellis.Relater(sample.RULES, min_count=1, max_iter=1),
        (RELATED,), BARE, trellis.Document(()), RELATED_FORMS,
        {"predict": related, "with_mentions": with_mentions, "infer": inferred},
        {"explain": method("explain"), "score": method("score")},
    ),
    "RelationModel": Example(
        lambda: trellis.RelationModel(min_count=1, max_iter=10), (RELATED,), BARE,
        trellis.Document((), spans=(), relations=()), OUTER, {"encode and decode": types_and_relations},
    ),
    "MaxEnt": rows(lambda: trellis.MaxEnt(l2=0.1)),
    "NaiveBayes": rows(lambda: trellis.NaiveBayes()),
}  # fmt: skip
EXPORTED: dict[str, Any] = {name: getattr(trellis, name) for name in trellis._EXPORTS}
if find_spec("torch") is not None:
    from tests.surface import networks

    EXAMPLES |= {
        "NeuralCRF": replace(tagger(networks.crf, "predict_proba", whole=CRF_SCORES), rounding=1e-5),
        "NeuralClassifier": replace(rows(networks.classifier), rounding=1e-5),
        "NeuralParts": replace(tagger(networks.parts, "predict_proba", whole={"score": scored}), rounding=1e-5),
        "NeuralRelations": Example(
            networks.relations,
            (RELATED,),
            BARE,
            trellis.Document((), spans=(), relations=()),
            OUTER,
            methods("predict") | {"infer": inferred},
            {"predict_proba": method("predict_proba"), "score": lambda estimator, X: estimator.score(RELATED)},
        ),
        "NeuralParser": replace(of_heads(networks.parser), rounding=1e-5),
    }
    EXPORTED |= {name: getattr(trellis.neural, name) for name in trellis.neural.__all__}


@cache
def fitted(name: str) -> Any:
    """The estimator of an example, fitted once; no test may change it."""
    return fit(name)


def fit(name: str, **settings: Any) -> Any:
    """A newly fitted estimator of an example, with these settings changed."""
    example = EXAMPLES[name]
    return example.new().set_params(**settings).fit(*example.data, **example.more)


def plain(result: Any) -> Any:
    """A result as nested lists, so that two can be compared."""
    if isinstance(result, np.ndarray):
        return result.tolist()
    if isinstance(result, np.generic):
        return result.item()
    if isinstance(result, Mapping):
        return {key: plain(value) for key, value in result.items()}
    if isinstance(result, list | tuple):
        return [plain(one) for one in result]
    if hasattr(result, "__dataclass_fields__"):
        return {name: plain(getattr(result, name)) for name in result.__dataclass_fields__}
    return result


def same(one: Any, other: Any, rounding: float = 1e-7) -> bool:
    """Whether two plain results are equal, numbers within rounding."""
    if isinstance(one, float) and isinstance(other, float):
        return bool(np.isclose(one, other, rtol=rounding, atol=rounding / 100, equal_nan=True))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key], rounding) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same(*pair, rounding) for pair in zip(one, other, strict=True))
    return bool(one == other)
