"""Fields beside others of their label: learned from BIO columns and JSON spans, predicted, written and judged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from structures.segment_twin import all_segmentations

from tests.extract.test_cli import run
from trellis.apps.extract.confidence import field_probabilities
from trellis.apps.extract.extractor import Extractor
from trellis.data.bio import everywhere, runs, where_needed
from trellis.data.document import fields_of
from trellis.data.text_files import read_labelled
from trellis.errors import DataError
from trellis.metrics.fields import score_fields
from trellis.models import load_model

RULES = """
labels = ["NAME", "YEAR"]

[[rule]]
name = "years"
if_word_matches = '^[0-9]+$'
then_label = "YEAR"

[[rule]]
name = "three names at most"
field = "NAME"
appears_at_most = 3
strength = "learned"
"""
FIRST = ["Ann", "Bob", "Cy", "Dan", "Eve", "Fay", "Gus", "Hal"]
LAST = ["Lee", "Ray", "Fox", "Poe", "Orr", "Ash", "Kay", "Low"]


def written(seed: int, n: int = 12) -> str:
    """Columns of people, two words each and nothing between them, and a year."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n):
        for _ in range(rng.integers(1, 4)):
            lines += [f"{rng.choice(FIRST)}\tB-NAME", f"{rng.choice(LAST)}\tI-NAME"]
        lines += [f"{rng.integers(1950, 2020)}\tB-YEAR", ""]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("people")
    (path / "rules.toml").write_text(RULES)
    (path / "few.tsv").write_text(written(0))
    (path / "gold.tsv").write_text(written(1))
    arguments = ("-l", path / "few.tsv", "--save", path / "m.trellis", "--model-kind", "semi-crf", "-q")
    assert run("extract", "train", path / "rules.toml", *arguments) == 0
    return path


def test_fields_beside_their_like_survive_from_columns_to_columns(folder, capfd):
    assert (
        run("extract", "predict", "-m", folder / "m.trellis", folder / "gold.tsv", "-o", folder / "out.tsv", "--bio")
        == 0
    )
    capfd.readouterr()
    assert run("evaluate", folder / "gold.tsv", folder / "out.tsv") == 0
    assert float(capfd.readouterr().out.splitlines()[1].split()[2]) > 95
    labels = [line.split("\t")[1] for line in (folder / "out.tsv").read_text().splitlines() if line]
    assert set(labels) <= {"B-NAME", "I-NAME", "B-YEAR", "I-YEAR", "O"}
    gold, out = (read_labelled(folder / name) for name in ("gold.tsv", "out.tsv"))
    scores = score_fields([t.labels for t in gold], [t.labels for t in out])
    assert scores.fields["NAME"].f1 > 0.9
    assert scores.fields["NAME"].n_gold > len(gold), "several in a text"


def test_fields_beside_their_like_survive_as_json_spans(folder, capfd):
    assert run("extract", "predict", "-m", folder / "m.trellis", folder / "gold.tsv", "-o", folder / "out.jsonl") == 0
    accepted = folder / "accepted.jsonl"
    assert run("extract", "convert", folder / "out.jsonl", "--accept", "--json", "-o", accepted) == 0
    assert run("extract", "train", folder / "rules.toml", "-l", accepted,
               "--save", folder / "again.trellis",
               "--model-kind", "semi-crf", "-q") == 0  # fmt: skip
    records = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    for record, text in zip(records, read_labelled(folder / "out.jsonl", predictions=True), strict=True):
        spans = [(f["label"], f["start"], f["end"]) for f in record["fields"]]
        assert [(f.label, f.start, f.end) for f in fields_of(text, text.labels)] == spans
    # the same from text and spans alone
    bare = folder / "bare.jsonl"
    bare.write_text("\n".join(json.dumps({k: r[k] for k in ("text", "fields")}) for r in records) + "\n")
    for text, record in zip(read_labelled(bare), records, strict=True):
        assert list(text.labels) == record["labels"]


def test_probabilities_are_sums_over_segmentations_that_have_the_field(folder):
    made = load_model(folder / "m.trellis")
    [text] = made.texts(["Ann Lee Bob Ray 1999"])
    [labels] = made.predict([text], constrained=False)
    assert list(runs(labels)) == [("NAME", 0, 2), ("NAME", 2, 4), ("YEAR", 4, 5)]
    [found] = field_probabilities(made, [text], [labels], constrained=False)
    scores = made.ccm_.model_.scores(made.batch([text], labels=False))
    listing, value = all_segmentations(5, 2), []
    for pieces in listing:
        codes, before = [], None
        for label, size in pieces:
            codes += [label + 2 * (label == before), *[label] * (size - 1)]
            before = label
        value.append(scores.score(np.array(codes, dtype=np.int32))[0])
    share = np.exp(np.array(value) - np.logaddexp.reduce(value))
    for probability, (name, first, last) in zip(found, runs(labels), strict=True):
        wanted = 0.0
        for pieces, p in zip(listing, share, strict=True):
            at = np.cumsum([0, *(size for _, size in pieces)])
            wanted += p * any(
                (["NAME", "YEAR"][k], at[j], at[j + 1]) == (name, first, last) for j, (k, _) in enumerate(pieces)
            )
        assert probability == pytest.approx(wanted, abs=1e-6)


def test_models_of_labels_alone_take_the_same_columns(folder):
    made = Extractor.from_file(folder / "rules.toml", model_kind="hmm").fit(read_labelled(folder / "few.tsv"))
    assert made.label_names_.names == ("NAME", "YEAR")
    assert {label for own in made.predict(read_labelled(folder / "gold.tsv")) for label in own} == {"NAME", "YEAR"}


def test_labels_of_ones_own_may_look_like_marks():
    rules = 'labels = ["B-NAME", "I-NAME", "O"]\n'
    few = [(["Ann", "Lee", "ran"], ["B-NAME", "I-NAME", "O"]), (["Bob", "ran"], ["B-NAME", "O"])]
    made = Extractor(rules, method="supervised", model_kind="crf").fit(*map(list, zip(*few, strict=True)))
    [text] = made.extract([["Bob", "ran"]])
    assert [(f.label, f.first, f.last) for f in text.spans] == [("NAME", 0, 1)]
    assert field_probabilities(made, [text], [["B-NAME", "O"]]) == [[]]


def test_bio_goes_with_columns(folder, capfd):
    assert (
        run("extract", "predict", "-m", folder / "m.trellis", folder / "gold.tsv", "-o", folder / "x.jsonl", "--bio")
        == 2
    )
    assert "--bio needs columns" in capfd.readouterr().err


@pytest.mark.parametrize("seed", range(5))
def test_what_is_needed_and_what_stands_everywhere_tell_the_same_fields(seed):
    rng = np.random.default_rng(seed)
    labels = [str(x) for x in rng.choice(["A", "B-A", "I-A", "B", "B-B", "O"], 12)]
    needed, full = where_needed(labels), everywhere(labels)
    assert list(runs(needed)) == list(runs(full)) == list(runs(labels))
    assert where_needed(full) == where_needed(needed) == needed
    assert everywhere(needed) == full


def test_word_lists_patterns_and_phrases_are_features(tmp_path):
    rules = RULES + '\n[lists]\ntitles = ["Dr", "Prof"]\n\n[features]\ndigits = "[0-9]{4}"\n'
    rules += 'people = ["Ann Lee", "Bob Ray"]\nplaces = { file = "places.txt" }\n'
    (tmp_path / "places.txt").write_text("New York\nParis\n")
    (tmp_path / "rules.toml").write_text(rules)
    few = ["Dr Ann Lee New York 1999", "Bob Ray Paris 2001"]
    y = [["NAME"] * 3 + ["YEAR"] * 3, ["NAME", "NAME", "YEAR", "YEAR"]]
    made = Extractor.from_file(tmp_path / "rules.toml", method="supervised", model_kind="semi-crf").fit(few, y)
    names = list(made.ccm_.model_.feature_names_)
    for wanted in (
        "told titles", "told digits", "told people", "told people, word 2", "told places, word 1",
        "2 tokens: people", "2 tokens: places", "1 tokens: places", "1 tokens: titles",
    ):  # fmt: skip
        assert wanted in names
    made.save(tmp_path / "m")
    (tmp_path / "places.txt").unlink()
    assert load_model(tmp_path / "m").predict(made.texts(few)) == made.predict(made.texts(few))


@pytest.mark.parametrize(
    "text, message",
    [
        ("[features]\nx = '('\n", "line 2: '(' is not a valid regular expression"),
        ("[features]\nx = 3\n", "line 2: x must be a string or a list of strings"),
        ("[features]\nx = { files = 'a' }\n", "line 2: unknown key 'files'; did you mean 'file'"),
        ("[lists]\nx = ['a']\n[features]\nx = ['b']\n", "line 4: 'x' is already a word list"),
        ("tokens = 'letters'\n", "line 1: unknown value of tokens 'letters'"),
        ("token_pattern = '['\n", "line 1: '[' is not a valid regular expression"),
        ("tokens = 'words'\ntoken_pattern = 'a'\n", "line 2: set either"),
    ],
)
def test_mistakes_in_features_and_tokens_are_told_with_their_line(text, message):
    with pytest.raises(DataError) as caught:
        Extractor(text).fit(["a b"], [["A", "B"]])
    assert message in str(caught.value)


def test_check_explain_and_errors_take_bio_columns(folder, capfd):
    assert (
        run("extract", "predict", "-m", folder / "m.trellis", folder / "gold.tsv", "-o", folder / "found.tsv", "--bio")
        == 0
    )
    for arguments in (
        ("check", folder / "rules.toml", folder / "gold.tsv"), ("errors", folder / "gold.tsv", folder / "found.tsv"),
        ("explain", "-m", folder / "m.trellis", folder / "gold.tsv"),
    ):  # fmt: skip
        capfd.readouterr()
        assert run(*arguments) == 0
        assert "Warning" not in capfd.readouterr().err
