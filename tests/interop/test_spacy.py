from __future__ import annotations

import pytest

from trellis import (
    Aggregator,
    DataError,
    Document,
    Extractor,
    Parser,
    Relater,
    Relation,
    Span,
    Tagger,
    list_function,
    load_model,
    pattern_function,
)

spacy = pytest.importorskip("spacy", reason="spaCy is not installed: pip install 'trellis-learn[spacy]'")

from trellis.interop.spacy import apply_to_docs, from_doc, to_doc, write_votes  # noqa: E402

VOCAB = spacy.Vocab()


def test_trees_become_heads_and_come_back():
    columns = {"head": ("2", "0", "2"), "deprel": ("nsubj", "root", "punct")}
    document = Document(("dogs", "bark", "!"), columns=columns, text="dogs  bark !")
    doc = to_doc(document, VOCAB)
    assert [token.head.text for token in doc if not token.text.isspace()] == ["bark", "bark", "bark"]
    assert from_doc(doc) == document
    doc._.trellis_columns = None  # as other parsers leave it
    assert from_doc(doc).columns == columns


def test_tokens_of_a_pipeline_are_kept():
    doc = spacy.blank("en")("Don't  stop, Ann!")
    document = from_doc(doc)
    assert document.tokens == ("Do", "n't", "stop", ",", "Ann", "!")
    assert [document.text[a:b] for a, b in document.offsets] == list(document.tokens)


RULES = 'labels = ["NAME", "O"]\n'
FEW = (["Ann ran .", "Bob sat .", "then Ann left"], [["NAME", "O", "O"], ["NAME", "O", "O"], ["O", "NAME", "O"]])


def test_extraction_is_a_component_that_is_saved_with_its_pipeline(tmp_path):
    extractor = Extractor(RULES, method="supervised").fit(*FEW)
    extractor.save(tmp_path / "m.trellis")
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_extract", config={"path": str(tmp_path / "m.trellis")})
    texts = ["Ann sat .", "", "then  Bob\nran ."]
    docs = list(nlp.pipe(texts))
    assert [[(e.text, e.label_) for e in doc.ents] for doc in docs] == [[("Ann", "NAME")], [], [("Bob", "NAME")]]
    [found] = extractor.extract([list(from_doc(docs[2]).tokens)])
    assert docs[2].spans["trellis"].attrs["probabilities"] == [s.probability for s in found.spans]
    nlp.to_disk(tmp_path / "pipeline")
    (tmp_path / "m.trellis").unlink()
    again = spacy.load(tmp_path / "pipeline")
    assert [[e.text for e in doc.ents] for doc in again.pipe(texts)] == [["Ann"], [], ["Bob"]]


def test_attributes_of_a_component_are_looked_at_without_its_model():
    """As spaCy does, in any order, when a pipeline is put together."""
    component = spacy.blank("en").add_pipe("trellis_extract", config={"path": "missing.trellis"})
    assert all(hasattr(component, name) for name in dir(component))


def test_tags_and_trees_are_components_that_take_sentences_apart(tmp_path):
    trees = [
        Document(("dogs", "bark"), ("NOUN", "VERB"), {"head": ("2", "0"), "deprel": ("nsubj", "root")}),
        Document(("cats", "sleep"), ("NOUN", "VERB"), {"head": ("2", "0"), "deprel": ("nsubj", "root")}),
    ]
    Tagger(min_count=1).fit(trees).save(tmp_path / "t.trellis")
    Parser(bits=10).fit(trees).save(tmp_path / "p.trellis")
    nlp = spacy.blank("en")
    for name in ("tag", "parse"):
        nlp.add_pipe(f"trellis_{name}", config={"path": str(tmp_path / f"{name[0]}.trellis")})
    doc = nlp.make_doc("dogs bark cats sleep")
    for token, start in zip(doc, (True, False, True, False), strict=True):
        token.is_sent_start = start
    doc = nlp(doc)
    assert [t.pos_ for t in doc] == ["NOUN", "VERB", "NOUN", "VERB"]
    assert [(t.head.i, t.dep_) for t in doc] == [(1, "nsubj"), (1, "root"), (3, "nsubj"), (3, "root")]
    bare = spacy.blank("en")
    bare.add_pipe("trellis_parse", config={"path": str(tmp_path / "p.trellis")})
    with pytest.raises(DataError, match="put trellis_tag"):
        bare("dogs bark")


def test_relations_are_a_component(tmp_path):
    rules = 'entities = ["Peop", "Loc"]\nrelations = ["In"]\n'
    few = [
        Document((who, "in", where), spans=[Span("Peop", 0, 1), Span("Loc", 2, 3)], relations=[Relation(0, 1, "In")])
        for who, where in (("Ann", "Ely"), ("Bob", "Hull"), ("Cy", "Ware"))
    ]
    Relater(rules, min_count=1, method="supervised").fit(few).save(tmp_path / "r.trellis")
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_relate", config={"path": str(tmp_path / "r.trellis"), "use_ents": True})
    doc = nlp.make_doc("Ann in Ely")
    doc.ents = [spacy.tokens.Span(doc, 0, 1, "X"), spacy.tokens.Span(doc, 2, 3, "X")]
    doc = nlp(doc)
    assert [(s.text, s.label_) for s in doc.spans["trellis"]] == [("Ann", "Peop"), ("Ely", "Loc")]
    assert [row[:3] for row in doc._.trellis_relations] == [[0, 1, "In"]]
    [given] = load_model(tmp_path / "r.trellis").predict(
        [Document(("Ann", "in", "Ely"), spans=[Span(None, 0, 1), Span(None, 2, 3)])]
    )
    assert from_doc(doc).relations == given.relations


def test_span_groups_are_votes_and_the_result_is_written_back():
    nlp = spacy.blank("en")
    docs = list(nlp.pipe(["take aspirin now", "aspirin helps", "no zocor"]))
    for doc in docs:
        drugs = [t for t in doc if t.text in ("aspirin", "zocor")]
        doc.spans["list"] = [spacy.tokens.Span(doc, t.i, t.i + 1, "DRUG") for t in drugs]
        doc.spans["cue"] = [spacy.tokens.Span(doc, t.i, t.i + 1, "DRUG") for t in drugs if t.i]
    write_votes(docs, Aggregator())
    assert [[e.text for e in doc.ents] for doc in docs] == [["aspirin"], ["aspirin"], ["zocor"]]
    assert all(0.5 < p <= 1 for doc in docs for p in doc.spans["trellis"].attrs["probabilities"])


def test_functions_of_docs_and_labelling_functions_write_span_groups():
    docs = list(spacy.blank("en").pipe(["take  aspirin", "zocor"]))

    def after_take(doc):
        return [(t.i + 2, t.i + 3, "DRUG") for t in doc if t.text == "take"]

    def whole(doc):
        return [spacy.tokens.Span(doc, 0, 1, label="DRUG")] if len(doc) == 1 else None

    apply_to_docs([after_take, whole, list_function("DRUG", ["aspirin", "zocor"], "list")], docs)
    assert [{name: [s.text for s in doc.spans[name]] for name in doc.spans} for doc in docs] == [
        {"after_take": ["aspirin"], "whole": [], "list": ["aspirin"]},
        {"after_take": [], "whole": ["zocor"], "list": ["zocor"]},
    ]
    apply_to_docs([], docs)
    with pytest.raises(DataError, match="labels whole texts: use apply_functions"):
        apply_to_docs([pattern_function("X", "a", on="text")], docs)
    with pytest.raises(DataError, match="3 is neither a labelling function nor a function of a Doc"):
        apply_to_docs([3], docs)
    with pytest.raises(DataError, match="expected a list of functions"):
        apply_to_docs(whole, docs)


def test_what_cannot_be_done_is_said(tmp_path):
    with pytest.raises(DataError, match="no span group 'f'"):
        from_doc(spacy.blank("en")("a"), votes=["f"])
    Tagger(min_count=1).fit([Document(("a",), ("X",)), Document(("b",), ("Y",))]).save(tmp_path / "t.trellis")
    nlp = spacy.blank("en")
    nlp.add_pipe("trellis_extract", config={"path": str(tmp_path / "t.trellis")})
    with pytest.raises(DataError, match="holds a Tagger, which trellis_extract cannot use"):
        nlp("a")
    other = spacy.blank("en")
    other.add_pipe("trellis_tag")
    with pytest.raises(DataError, match="needs a model file"):
        other("a")


@pytest.mark.parametrize(
    "returned, message",
    [
        (1, "expected a list of spans"), ("ab", "expected a list of spans"), ([None], r"a span is a Span of spaCy, or"),
        ([(0, 1)], r"a span is a Span of spaCy, or"), ([(0, 1, "")], r"a span is a Span of spaCy, or"),
        ([(0, 9, "X")], "but the Doc has 2 tokens"), ([(1, 1, "X")], "but the Doc has 2 tokens"),
        ([(-1, 1, "X")], "but the Doc has 2 tokens"),
    ],
)  # fmt: skip
def test_what_a_function_of_a_doc_returns_is_checked(returned, message):
    def odd(doc):
        return returned

    with pytest.raises(DataError, match=f"labelling function 'odd', Doc 0: returned .*{message}"):
        apply_to_docs([odd], [spacy.blank("en")("a b")])
    with pytest.raises(DataError, match="expected a list of Docs, got NoneType"):
        apply_to_docs([odd], None)
    with pytest.raises(DataError, match=r"vocab must be the vocabulary of a pipeline, nlp\.vocab, got 'en'"):
        to_doc(Document(("a",)), "en")
