from __future__ import annotations

import pytest

from tests.hostile.command import run
from trellis import (
    CRF,
    HMM,
    Aggregator,
    Aligner,
    DataError,
    Document,
    Extractor,
    Matcher,
    MaxEnt,
    Span,
    UnknownNameError,
    majority_vote,
    span_vote,
    vote_summary,
    votes_to_matrix,
)  # fmt: skip
from trellis.data.bitext import read_joined_file
from trellis.data.pair_files import read_pairs
from trellis.data.text_files import read_labelled, read_texts
from trellis.data.voted_files import read_voted

pandas = pytest.importorskip("pandas", reason="pandas is not installed: pip install pandas")
polars = pytest.importorskip("polars", reason="polars is not installed: pip install polars")
pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'trellis-learn[frames]'")

from trellis.interop.frames import (  # noqa: E402
    LIBRARIES,
    feature_weights,
    from_dataset,
    from_frame,
    spans_frame,
    to_dataset,
    to_frame,
    tokens_frame,
)

RULES = 'labels = ["NAME", "O"]\n'
TEXTS = ["Ann ran", "then Bob sat", "Cy left"]
LABELS = [["NAME", "O"], ["O", "NAME", "O"], ["NAME", "O"]]


def columns_of(rows):
    table = pyarrow.table(rows)
    return {
        "pandas": pandas.DataFrame(rows), "polars": polars.DataFrame(rows), "arrow": table,
        "lazy": polars.LazyFrame(rows), "arrow to pandas": table.to_pandas(),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["pandas", "polars", "arrow", "lazy", "arrow to pandas"])
def test_estimators_take_frames_and_their_columns(name):
    given = columns_of({"text": TEXTS, "labels": LABELS})[name]
    plain = Extractor(RULES, method="supervised").fit(TEXTS, LABELS)
    framed = Extractor(RULES, method="supervised").fit(given)
    assert framed.predict(given) == plain.predict(TEXTS)
    if name != "lazy":
        by_column = Extractor(RULES, method="supervised").fit(given["text"], given["labels"])
        assert by_column.predict(given["text"]) == plain.predict(TEXTS)


def test_missing_texts_and_columns_are_named():
    for rows, message in (
        ({"text": ["a", None]}, "text 1: expected a string in 'text' but found None"),
        ({"txt": ["a"]}, "text 0 has neither 'text' nor 'tokens'; did you mean 'txt'"),
        ({"text": ["Ann ran"], "labels": ["NAME O"]}, "text 0: labels must be a list with a string for each token"),
        ({"text": ["Ann ran"], "labels": [["NAME"]]}, "text 0: found 2 tokens but 1 labels"),
        ({"text": ["Bob sat"], "tokens": [["Ann"]]}, "text 0: token 'Ann' is not in the text"),
    ):
        with pytest.raises(DataError, match=message):
            Extractor(RULES).fit(pandas.DataFrame(rows))
    for nothing in ([1], {"text": ["a"]}):
        with pytest.raises(DataError, match="expected a frame of pandas, polars or Arrow"):
            from_frame(nothing)
    with pytest.raises(UnknownNameError, match="unknown library 'numpy'"):
        to_frame([], "numpy")
    with pytest.raises(UnknownNameError, match="lfs"):
        from_frame(pandas.DataFrame({"text": ["a"]}), votes=["lfs"])
    with pytest.raises(DataError, match="neither a text in 'text' nor tokens"):
        from_frame(pandas.DataFrame({"body": ["a"]}))


KINDS = ["pandas", "polars", "arrow"]


@pytest.mark.parametrize("name", KINDS)
def test_a_frame_of_votes_has_a_column_for_each_function(name):
    rows = {"text": ["late", "so quick"] * 5, "f": ["BAD", "GOOD"] * 5, "g": ["BAD", None] * 5}
    documents = [Document((text,), votes={"f": (f,), "g": (g,)}) for text, f, g in zip(*rows.values(), strict=True)]
    table = columns_of(rows | {"label": ["BAD", "BAD"] * 5})[name]
    assert Aggregator().fit(table).labels_ == Aggregator().fit(documents).labels_
    assert Aggregator().fit(documents).predict(table) == Aggregator().fit(documents).predict(documents)
    assert [one.accuracy for one in vote_summary(table).functions] == [0.5, 1.0]
    assert majority_vote(table, ["GOOD", "BAD"])[:2] == [["BAD"], ["GOOD"]]
    assert span_vote(columns_of({"tokens": [["a", "b"]], "f": [[None, "B-X"]]})[name]) == [["O", "B-X"]]
    assert votes_to_matrix(to_frame(documents, LIBRARIES[KINDS.index(name)]))[2] == ["f", "g"]
    with pytest.raises(DataError, match="text 0: expected a list of labels and nulls from function 'id'"):
        Aggregator().fit(columns_of(rows | {"id": [3] * 10})[name])


@pytest.mark.parametrize("name", KINDS)
def test_a_frame_of_pairs_has_a_column_for_each_side(name):
    sides, pairs = {"source": ["a b", "b"] * 3, "target": ["x y", "y"] * 3}, [("a b", "x y"), ("b", "y")] * 3
    aligned = Aligner(max_iter=1).fit(columns_of(sides)[name])
    assert list(map(repr, aligned.align(columns_of(sides)[name]))) == list(map(repr, aligned.align(pairs)))
    answers, pairs = [1, -1] * 3, [("smith", "smyth"), ("jones", "xu")] * 3
    sides = {"id": [1, 2] * 3, "left": [left for left, _ in pairs], "right": [right for _, right in pairs]}
    matched = Matcher(max_iter=1).fit(columns_of(sides)[name], answers)
    assert matched.predict(columns_of(sides)[name]).tolist() == matched.predict(pairs).tolist()
    with pytest.raises(DataError, match="pair 0: expected two texts, got {'one'"):
        matched.predict(columns_of({"one": ["a"], "two": ["b"]})[name])


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("model", [CRF(), HMM()], ids=repr)
def test_a_frame_of_tokens_and_labels_trains_a_tagger(name, model):
    rows = {"tokens": [["a", "b"], ["b", "a"]] * 3, "labels": [["X", "Y"], ["Y", "X"]] * 3}
    model.fit(columns_of(rows)[name])
    assert model.predict(columns_of(rows)[name]) == rows["labels"]
    model.fit([Document(tuple(t), tuple(y)) for t, y in zip(rows["tokens"], rows["labels"], strict=True)])
    assert model.predict(rows["tokens"]) == rows["labels"]


@pytest.mark.parametrize("name", KINDS)
def test_votes_of_a_frame_are_aggregated(name):
    table = columns_of({"text": ["late", "quick"] * 5, "f": ["BAD", "GOOD"] * 5, "g": ["BAD", None] * 5})[name]
    found = from_frame(table, votes=["f", "g"])
    assert found[1].votes == {"f": ("GOOD",), "g": (None,)}
    assert Aggregator().fit(found).labels_[:2] == [["BAD"], ["GOOD"]]


@pytest.mark.parametrize("library", LIBRARIES)
def test_results_are_frames(library):
    one = Document(
        ("Ann", "ran"), ("NAME", "O"), spans=[Span("NAME", 0, 1, probability=0.5)], votes={"f": ("NAME", None)}
    )
    spans, tokens = spans_frame([one, one], library), tokens_frame([one], library)
    rows = spans.to_pylist() if library == "pyarrow" else getattr(spans, "to_dicts", lambda: spans.to_dict("records"))()
    assert rows[1] == {
        "document": 1, "label": "NAME", "text": "Ann", "start": 0, "end": 3, "first": 0, "last": 1, "probability": 0.5
    }  # fmt: skip
    columns = tokens.column_names if library == "pyarrow" else list(tokens.columns)
    assert columns == ["document", "token", "start", "end", "label", "f"]


def test_tables_are_files_of_texts(tmp_path, capfd):
    pandas.DataFrame({"text": ["Ann, ran", 'Bob "sat"\nthen']}).to_csv(tmp_path / "a.csv", index=False)
    assert [text.text for text in read_texts(tmp_path / "a.csv")] == ["Ann, ran", 'Bob "sat"\nthen']
    rows = {"tokens": [text.split() for text in TEXTS], "labels": LABELS}
    pandas.DataFrame(rows).to_parquet(tmp_path / "few.parquet")
    assert [list(text.labels) for text in read_labelled(tmp_path / "few.parquet")] == LABELS
    (tmp_path / "rules.toml").write_text(RULES)
    assert (
        run("extract", "train", tmp_path / "rules.toml", "-l", tmp_path / "few.parquet", "--save", tmp_path / "m") == 0
    )
    assert run("extract", "predict", "-m", tmp_path / "m", tmp_path / "a.csv", "-o", tmp_path / "out.jsonl") == 0
    (tmp_path / "b.csv").write_text("body\na\n")
    assert run("extract", "predict", "-m", tmp_path / "m", tmp_path / "b.csv", "-o", tmp_path / "b.jsonl") == 2
    assert "expected a column 'text' or 'tokens' but found ['body']" in capfd.readouterr().err


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_tables_are_files_of_votes_and_pairs(ending, tmp_path, capfd):
    votes = pandas.DataFrame({"text": ["late, so", "quick"], "f": ["BAD", None], "label": ["BAD", "GOOD"]})
    tokens = [Document(("no", "aspirin"), votes={"f": (None, "B-DRUG")})]
    pairs = pandas.DataFrame({"left": ["smith", "a,b"], "right": ["smyth", "a"], "answer": ["yes", "no"]})
    bitext = pandas.DataFrame({"source": ["a b"], "target": ["x y"]})
    path = tmp_path / f"t.{ending}"

    def write(table):
        table.to_csv(path, index=False) if ending == "csv" else table.to_parquet(path)

    write(votes)
    found = list(read_voted(path))
    assert [(one.tokens, one.labels, one.votes) for one in found] == [
        (("late, so",), ("BAD",), {"f": ("BAD",)}), (("quick",), ("GOOD",), {"f": (None,)})
    ]  # fmt: skip
    lists = {"tokens": [["no", "aspirin"]], "f": [[None, "B-DRUG"]]}  # which CSV has not
    write(pandas.DataFrame({"tokens": ["no aspirin"], "f": ["_ B-DRUG"]} if ending == "csv" else lists))
    assert list(read_voted(path)) == tokens
    write(pairs)
    assert [(one.left, one.right, one.answer) for one in read_pairs(path)] == [
        ("smith", "smyth", 1),
        ("a,b", "a", -1),
    ]
    write(bitext)
    assert list(read_joined_file(path)) == [(["a", "b"], ["x", "y"])]
    assert run("align", "--input", path, "--json") == 0
    assert run("match", "train", path, "--save", tmp_path / "m") == 2
    assert "expected the columns 'left' and 'right' but found ['source', 'target']" in capfd.readouterr().err


def test_class_labels_of_datasets_come_back():
    pytest.importorskip("datasets", reason="datasets is not installed: pip install 'trellis-learn[datasets]'")
    given = [Document(("Ann", "ran"), ("NAME", "O")), Document(("x",), (None,))]
    dataset = to_dataset(given)
    assert dataset.features["labels"].feature.names == ["NAME", "O"]
    assert dataset["labels"][0] == [0, 1]
    assert from_dataset(dataset, text="text") == given


def test_subwords_are_aligned_by_characters():
    tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed: pip install tokenizers")
    from trellis.interop.tokenizers import align_subwords, cut_with, offsets_of, subword_labels, token_labels

    vocabulary = {word: k for k, word in enumerate(["[UNK]", "An", "##n", "le", "##ft", ",", "é"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    document = Document(("Ann,", "left"), ("NAME", "O"))
    offsets = offsets_of(tokenizer, document.text)
    assert offsets == [(0, 2), (2, 3), (3, 4), (5, 7), (7, 9)]
    assert align_subwords(document, offsets) == [0, 0, 0, 1, 1]
    labels = subword_labels(document, offsets)
    assert labels == ("NAME", None, None, "O", None)
    assert token_labels(document, offsets, labels) == document.labels
    assert cut_with(tokenizer, document.text).tokens == ("An", "n", ",", "le", "ft")


def test_weights_of_features_are_a_frame():
    sentences, labels = [["a", "b"], ["b", "a"]] * 3, [["X", "Y"], ["Y", "X"]] * 3
    crf = CRF().fit(sentences, labels)
    table = feature_weights(crf)
    assert list(table.columns) == ["feature", "label", "weight"]
    assert list(abs(table["weight"])) == sorted(abs(table["weight"]), reverse=True)
    for row in table.to_dict("records"):
        assert crf.feature_weight(row["feature"], row["label"]) == row["weight"]
    extractor = Extractor(RULES, method="supervised").fit(TEXTS, LABELS)
    assert len(feature_weights(extractor, "polars")) > 0
    rows = MaxEnt().fit([[1.0, 0.0], [0.0, 1.0]], ["X", "Y"])
    assert feature_weights(rows)["weight"].abs().max() == abs(rows.feature_weights_).max()
    with pytest.raises(DataError, match="Aggregator has no weights of features"):
        feature_weights(Aggregator())


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_results_are_files_of_tables(ending, tmp_path, capfd):
    path, model = tmp_path / f"out.{ending}", tmp_path / "m"

    def rows():
        found = pandas.read_csv(path) if ending == "csv" else pandas.read_parquet(path)
        return found.to_dict("records")

    Extractor(RULES, method="supervised").fit(TEXTS, LABELS).save(model)
    (tmp_path / "t.txt").write_text("Ann ran\n\nthen Bob sat\n")
    assert run("extract", "predict", "-m", model, tmp_path / "t.txt", "-o", path) == 0
    assert [0 < row.pop("probability") <= 1 for row in rows()] == [True, True]
    assert [{**row, "probability": 0} for row in rows()] == [
        {"text": 1, "label": "NAME", "start": 0, "end": 3, "field": "Ann", "probability": 0},
        {"text": 3, "label": "NAME", "start": 5, "end": 8, "field": "Bob", "probability": 0},
    ]
    (tmp_path / "v.jsonl").write_text('{"tokens": ["take", "aspirin"], "votes": {"f": [null, "B-DRUG"]}}\n')
    assert run("aggregate", tmp_path / "v.jsonl", "-o", path, "--force", "-q") == 0
    [row] = rows()
    assert row["tokens"] == "take aspirin" if ending == "csv" else list(row["tokens"]) == ["take", "aspirin"]
    assert list(read_labelled(path)[0].labels) == ["O", "B-DRUG"]
    assert run("info", "-m", model, "-o", path) == 2
    assert "not written as a table; name a file with another ending" in " ".join(capfd.readouterr().err.split())
    (tmp_path / "few.jsonl").write_text('{"tokens": ["New York"], "labels": ["NAME"]}\n')
    found = run("extract", "convert", tmp_path / "few.jsonl", "-o", path, "--force")
    assert found == (2 if ending == "csv" else 0)
    assert ending == "parquet" or "token with white space, 'New York': write .parquet" in capfd.readouterr().err


@pytest.mark.parametrize("cell", [3, 1.5, "up", [1], [{"name": "f"}], {"f": 1}])
@pytest.mark.parametrize("name", ["votes", "columns"])
def test_columns_of_a_frame_that_are_named_like_layers_are_left_alone(name, cell):
    frame = pandas.DataFrame({"text": ["a b"], name: pandas.Series([cell], dtype=object)})
    assert from_frame(frame) == [Document(("a", "b"))]
