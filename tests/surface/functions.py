"""Public functions, called with something wrong in place of each argument, as in misuse.py."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import trellis
from tests.surface.examples import TAGS, TEXT, fitted, hmm
from trellis import Document, count
from trellis.data import annotations, wrench
from trellis.data.tokens import Tokeniser
from trellis.interop import frames, tokenizers

FOLDER = tempfile.mkdtemp()
DOCUMENTS = [Document(("Ann", "left"), ("NAME", "O"))]
VOTED = [Document(("a", "b"), votes={"f": ("X", None), "g": ("Y", None)})]
CALLED: Any = trellis.labelling_function("X", name="called")


LEARNER = trellis.UEM(hmm(), [count("V") >= 1], max_iter=1)


def file(name: str) -> str:
    return os.path.join(FOLDER, name)


def returned(on: str, label: str | None = None) -> Callable[[Any], Any]:
    """Texts on which a labelling function gives this."""
    new = trellis.labelling_function(label, on=on, name="f")
    return lambda v: trellis.apply_functions([new(lambda _: v)], ["a b"])


def compiled(**changed: Any) -> None:
    model = hmm()
    batch = model.encode(TEXT, fit=True)
    given = {"constraints": [count("V") >= 1], "batch": batch, "label_names": model.label_names_}
    trellis.compile_constraints(**{**given, "parts": model.parts(batch), **changed})


def scores() -> Any:
    model = fitted("HMM")
    return model.scores(model.encode(TEXT))


def tuned(**changed: Any) -> None:
    given = {"X": TEXT, "y": TAGS, "dev": (TEXT, TAGS), "gammas": [1.0]}
    trellis.tune(**{"learner": LEARNER, **given, **changed})


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "read_rules(_)": trellis.read_rules,
    "read_targets(_)": trellis.read_targets,
    "read_documents(_)": trellis.read_documents,
    "load_model(_)": trellis.load_model,
    "write_documents(path, _)": lambda v: trellis.write_documents(file("documents.jsonl"), v),
    "write_targets(path, _)": lambda v: trellis.write_targets(file("targets.tsv"), v, ["A"]),
    "write_targets(path, [], _)": lambda v: trellis.write_targets(file("targets.tsv"), [], v),
    "write_annotations(path, _)": lambda v: annotations.write_annotations(file("tasks.jsonl"), v),
    "write_annotations(path, documents, _)": lambda v: annotations.write_annotations(file("tasks"), DOCUMENTS, v),
    "write_wrench(path, _)": lambda v: wrench.write_wrench(file("train.json"), v),
    "from_brackets(_)": annotations.from_brackets,
    "to_brackets(_)": annotations.to_brackets,
    # what texts and constraints are made of
    "tokenise(_)": trellis.tokenise,
    "Tokeniser(_)": lambda v: Tokeniser(v).cut("a b"),
    "Tokeniser('pattern', _)": lambda v: Tokeniser("pattern", v).cut("a b"),
    "Vocabulary(_)": trellis.Vocabulary,
    "Document(_)": lambda v: Document(v),
    "Document(labels=_)": lambda v: Document(("a",), v),
    "Document(columns=_)": lambda v: Document(("a",), columns=v),
    "Document(columns={'x': _})": lambda v: Document(("a",), columns={"x": v}),
    "Document(text=_)": lambda v: Document(("a",), text=v),
    "Document(offsets=_)": lambda v: Document(("a",), text="a", offsets=v),
    "Document(probabilities=_)": lambda v: Document(("a",), probabilities=v),
    "Document(spans=_)": lambda v: Document(("a",), spans=v),
    "Document(relations=_)": lambda v: Document(("a",), spans=[], relations=v),
    "Document(votes=_)": lambda v: Document(("a",), votes=v),
    "Document.span(_, 1)": lambda v: Document(("a",)).span(v, 1),
    "Batch.from_sentences(_)": trellis.Batch.from_sentences,
    "compile_constraints(_)": lambda v: compiled(constraints=v),
    "project(_, rows)": lambda v: trellis.project(v, v) and None,
    "project(scores, _)": lambda v: trellis.project(scores(), v) and None,
    "decode(scores, _)": lambda v: trellis.decode(scores(), v) and None,
    "agree(_)": trellis.agree,
    "tune(_)": lambda v: tuned(learner=v),
    "tune(X=_)": lambda v: tuned(X=v),
    "tune(y=_)": lambda v: tuned(y=v),
    "tune(dev=_)": lambda v: tuned(dev=v),
    "tune(gammas=_)": lambda v: tuned(gammas=v),
    "tune(strengths=_)": lambda v: tuned(strengths=v),
    "tune(parameters=_)": lambda v: tuned(parameters=v),
    "propose_targets(_)": lambda v: trellis.propose_targets(v, words={"the": "D", "dog": "N"}),
    "propose_targets(labels=_)": lambda v: trellis.propose_targets(TEXT, v),
    "propose_features(_)": lambda v: trellis.propose_features(v, ["a", "b", "a"]),
    "propose_features(y=_)": lambda v: trellis.propose_features([[1.0, 0.0]] * 3, v),
    # labelling functions
    "apply_functions(_)": lambda v: trellis.apply_functions(v, ["a b"]),
    "apply_functions(functions, _)": lambda v: trellis.apply_functions([CALLED(str.isupper)], v),
    "apply_functions(n_jobs=_)": lambda v: trellis.apply_functions([CALLED(str.isupper)], ["a"], n_jobs=v),
    "apply_functions(tokeniser=_)": lambda v: trellis.apply_functions([CALLED(str.isupper)], ["a"], tokeniser=v),
    "labelling_function(label=_)": lambda v: trellis.labelling_function(None if callable(v) else v, name="f")(bool),
    "labelling_function(on=_)": lambda v: trellis.labelling_function("X", on=v)(bool),
    "labelling_function(name=_)": lambda v: trellis.labelling_function("X", name=v)(bool),
    "labelling_function(bio=_)": lambda v: trellis.labelling_function("X", bio=v)(bool),
    "labelling_function()(_)": lambda v: trellis.labelling_function("X")(v),
    "a function on tokens that returns _": returned("tokens"),
    "a function on tokens with a label that returns _": returned("tokens", "X"),
    "a function on spans that returns _": returned("spans", "X"),
    "a function on texts that returns _": returned("text", "X"),
    "a function on documents that returns _": returned("documents"),
    "pattern_function(_)": lambda v: trellis.apply_functions([trellis.pattern_function(v, "a")], ["a b"]),
    "pattern_function('X', _)": lambda v: trellis.apply_functions([trellis.pattern_function("X", v)], ["a b"]),
    "pattern_function(on=_)": lambda v: trellis.apply_functions([trellis.pattern_function("X", "a", on=v)], ["a b"]),
    "list_function(_)": lambda v: trellis.apply_functions([trellis.list_function(v, ["a"])], ["a b"]),
    "list_function('X', _)": lambda v: trellis.apply_functions([trellis.list_function("X", v)], ["a b"]),
    "model_function(_)": lambda v: trellis.model_function(v, "m"),
    "model_function(name=_)": lambda v: trellis.model_function(fitted("Extractor"), v),
    "model_function(threshold=_)": lambda v: trellis.model_function(fitted("Extractor"), "m", threshold=v),
    "answers_function(_)": lambda v: trellis.answers_function(v),
    "vote_summary(_)": lambda v: str(trellis.vote_summary(v)),
    "vote_summary(aggregator=_)": lambda v: str(trellis.vote_summary(VOTED, v)),
    "vote_summary(gold=_)": lambda v: str(trellis.vote_summary(VOTED, gold=v)),
    "votes_to_matrix(_)": trellis.votes_to_matrix,
    "votes_to_matrix(labels=_)": lambda v: trellis.votes_to_matrix(VOTED, v),
    "matrix_to_documents(_)": lambda v: trellis.matrix_to_documents(v, ["A"], ["a"]),
    "matrix_to_documents(labels=_)": lambda v: trellis.matrix_to_documents([[0]], v, ["a"]),
    "matrix_to_documents(texts=_)": lambda v: trellis.matrix_to_documents([[0]], ["A"], v),
    "matrix_to_documents(functions=_)": lambda v: trellis.matrix_to_documents([[0]], ["A"], ["a"], v),
    "majority_vote(_)": lambda v: trellis.majority_vote(v, ["A"]),
    "majority_vote(labels=_)": lambda v: trellis.majority_vote(VOTED, v),
    "span_vote(_)": trellis.span_vote,
    # other libraries
    "align_subwords(_)": lambda v: tokenizers.align_subwords(v, [(0, 1)]),
    "align_subwords(document, _)": lambda v: tokenizers.align_subwords(DOCUMENTS[0], v),
    "subword_labels(document, _)": lambda v: tokenizers.subword_labels(DOCUMENTS[0], v),
    "token_labels(document, offsets, _)": lambda v: tokenizers.token_labels(DOCUMENTS[0], [(0, 1)], v),
    "cut_with(_)": lambda v: tokenizers.cut_with(v, "a b"),
    "from_dataset(_)": frames.from_dataset,
    "feature_weights(_)": frames.feature_weights,
}
if find_spec("pandas") is not None:
    FUNCTIONS |= {
        "to_frame(_)": lambda v: frames.to_frame(v) is None,
        "to_frame(documents, _)": lambda v: frames.to_frame(DOCUMENTS, v) is None,
        "from_frame(_)": frames.from_frame,
        "spans_frame(_)": lambda v: frames.spans_frame(v) is None,
        "tokens_frame(_)": lambda v: frames.tokens_frame(v) is None,
    }
if find_spec("datasets") is not None:
    FUNCTIONS |= {
        "to_dataset(_)": lambda v: frames.to_dataset(v) is None,
        "to_dataset(labels=_)": lambda v: frames.to_dataset(DOCUMENTS, v) is None,
    }
if find_spec("spacy") is not None:
    import spacy

    from trellis.interop import spacy as with_spacy

    FUNCTIONS |= {
        "to_doc(_)": lambda v: with_spacy.to_doc(v) is None,
        "from_doc(_)": with_spacy.from_doc,
        "from_doc(key=_)": lambda v: with_spacy.from_doc(spacy.blank("en")("a b"), key=v),
        "from_doc(votes=_)": lambda v: with_spacy.from_doc(spacy.blank("en")("a b"), votes=v),
        "to_docbin(_)": lambda v: with_spacy.to_docbin(v) is None,
        "from_docbin(_)": with_spacy.from_docbin,
        "write_votes(_)": lambda v: with_spacy.write_votes(v, trellis.Aggregator()),
        "write_votes(docs, _)": lambda v: with_spacy.write_votes([spacy.blank("en")("a")], v),
    }
