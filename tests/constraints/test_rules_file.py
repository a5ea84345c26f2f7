"""Rules files say what the same constraints in Python say, and mistakes are answered with their line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import constraints as tc
from trellis.constraints import parse_rules, read_rules
from trellis.constraints.expression import read_constraint
from trellis.data.batch import Batch, Column
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, TrellisError, UnknownNameError

from .plain import compile_over_chains

DOCUMENT = Path(__file__).parents[2] / "docs" / "rules.md"
LABELS = Vocabulary(["A", "B", "C"], kind="label")


def batch() -> Batch:
    words = [["pp.", "12", ",", "x"], ["May", "pp.", "x"], ["x"], ["y", ",", "Pp."]]
    made = Batch.from_sentences(words)
    pos = Column.of(["N", "V", "N", "V", "N", "N", "V", "N", "V", "N", "N"], kind="pos")
    guess = Column.of(["A", "_", "B", "", "C", "A", "-", "?", "A", "B", "C"], kind="guess")
    return Batch(made.offsets, made.labels, made.weights, {**made.columns, "pos": pos, "guess": guess})


word, label = tc.word, tc.label
SAME = [
    ('if_word = "pp."\nthen_label = "A"', word.isin("pp.").implies(label("A"))),
    ('if_word = ["pp.", "x"]\nthen_label = ["A", "B"]', word.isin("pp.", "x").implies(label("A", "B"))),
    ('if_word = "pp."\nignore_case = true\nthen_not_label = "A"',
     word.isin("pp.", ignore_case=True).implies(~label("A"))),
    ('if_word_in = "few"\nunless_token = "first"\nthen_label = "A"',
     (word.isin("x", "y") & ~tc.position.first).implies(label("A"))),
    ('if_previous_word_matches = "^p"\nthen_label = "B"', tc.preceding(word.matches("^p")).implies(label("B"))),
    ('if_next_word = ","\nthen_label = "B"', tc.following(word == ",").implies(label("B"))),
    ('if_column = { pos = ["N"] }\nif_previous_label = "A"\nthen_label = "B"',
     ((tc.column("pos") == "N") & tc.previous("A")).implies(label("B"))),
    ('if_label = "B"\nthen_previous_label = "A"', label("B").implies(tc.previous("A"))),
    ('then_not_label = "C"', ~label("C")),
    ('count = "A"\nat_least = 1\npenalty = 3', (tc.count("A") >= 1).penalty(3)),
    ('count = ["A", "B"]\nat_most = 2\nslack = 0.5\nnorm = "l2"', (tc.count("A", "B") <= 2).slack(0.5, "l2")),
    ('count = "A"\nif_word = "x"\nexactly = 1\nper = "corpus"',
     tc.count("A", where=word == "x").per("corpus") == 1),
    ('count = "A"\nat_least = 1\nat_most = 2\nslack = 3', tc.count("A").between(1, 2).slack(3)),
    ('count = "A"\nat_most = 0.7\nper = "word"', tc.count("A").per(word) <= 0.7),
    ('count = "A"\nat_most = 3.5\nper_column = "pos"', tc.count("A").per(tc.column("pos")) <= 3.5),
    ('count = "A"\nat_most = 0.5\nper = "token"', tc.count("A").per("token") <= 0.5),
    ('count = "A"\nat_most = { times = 0.5, count = "B" }\nper = "corpus"',
     tc.count("A").per("corpus") <= 0.5 * tc.count("B")),
    ('count = "A"\nat_least = { times = 0.1, count = "*" }\nper = "sentence"',
     tc.count("A").per("instance") >= 0.1 * tc.count()),
    ('share = "A"\nbetween = [0.1, 0.2]\nper = "corpus"', tc.share("A").per("corpus").between(0.1, 0.2)),
    ('share = "A"\nif_word = "x"\nat_least = 0.5\npenalty = 2\nnorm = "squared"',
     (tc.share("A", where=word == "x") >= 0.5).penalty(2, "squared")),
    ("appears_at_most = 1", tc.each_label(lambda L: tc.starts(L) <= 1)),  # of labels that the file declares, no "O"
    ('field = "*"\nappears_at_most = 1\nstrength = "learned"', tc.each_label(lambda L: tc.starts(L) <= 1).learned()),
    ('field = "A"\nappears_at_least = 1\npenalty = 1', (tc.starts("A") >= 1).penalty(1)),
    ('field = ["A", "B"]\nappears_exactly = 0', tc.each_label(lambda L: tc.starts(L) == 0, "A", "B")),
    ('field = "A"\nlength_at_least = 2', tc.length("A", at_least=2)),
    ('length_at_most = 1\npenalty = 2', tc.each_label(lambda L: tc.length(L, at_most=1)).penalty(2)),
    ('field = ["A", "B"]\nlength_at_least = 1\nlength_at_most = 2\nslack = 1',
     tc.each_label(lambda L: tc.length(L, at_least=1, at_most=2), "A", "B").slack(1)),
    ('field_order = ["A", "B"]', tc.ordered("A", "B")),
    ('field_order = ["C", "A", "B"]\nstrength = "learned"', tc.ordered("C", "A", "B").learned()),
    ("transitions = true\nunless_word_matches = '^[.,;:()]$'\nat_most = 0",
     tc.transitions(where=~word.matches("^[.,;:()]$")) <= 0),
    ('transitions = true\nfrom_label = "A"\nto_label = ["B", "C"]\nat_most = 1\nstrength = "hard"',
     tc.transitions(from_="A", to=["B", "C"]) <= 1),
    ('dictionary = { x = "A", "pp." = ["A", "B"] }', tc.dictionary({"x": "A", "pp.": ["A", "B"]})),
    ('few_labels_per = "word"\npenalty = 32\nmin_count = 2', tc.few_labels_per(word, strength=32, min_count=2)),
    ('few_labels_per = "pos"\npenalty = 1', tc.few_labels_per(tc.column("pos"), strength=1)),
    ('given_column = "guess"', tc.given(tc.column("guess"))),
    ('trust_column = "guess"\nat_least = 0.9\nslack = 0.1',
     tc.trusted(tc.column("guess"), at_least=0.9).slack(0.1)),
    ('trust_column = "guess"\nat_least = 0.9\nper = "sentence"\npenalty = 1',
     tc.trusted(tc.column("guess"), at_least=0.9, per="instance").penalty(1)),
    ('if_some_label = "A"\nthen_some_label = "B"', tc.exists("A").implies(tc.exists("B"))),
    ('if_all_labels = ["A", "B"]\nthen_some_label = "C"', (tc.exists("A") & tc.exists("B")).implies(tc.exists("C"))),
    ('if_some_word = "x"\nif_some_label = "A"\nif_no_label = ["B", "C"]\nthen_no_label = "C"\npenalty = 1',
     (tc.exists("A") & ~tc.exists(label("B", "C")) & tc.exists(word == "x")).implies(~tc.exists("C")).penalty(1)),
    ('if_no_label = "A"\nthen_no_label = "B"', (~tc.exists("A")).implies(~tc.exists("B"))),
    ('if_some_word = "May"\nthen_some_label = "B"', tc.exists(word == "May").implies(tc.exists("B"))),
    ('if_some_word_in = "few"\nthen_no_label = "B"', tc.exists(word.isin("x", "y")).implies(~tc.exists("B"))),
]  # fmt: skip


@pytest.mark.parametrize("text, constraint", SAME, ids=[text.split("\n")[0] for text, _ in SAME])
def test_a_rule_means_what_the_same_expression_means(text: str, constraint: Any) -> None:
    head = 'labels = ["A", "B", "C"]\n[lists]\nfew = ["x", "y"]\n[[rule]]\nname = "it"\n'
    (rule,) = parse_rules(head + text)
    constraint = constraint.named("it")
    assert rule.describe() == constraint.describe()
    one, two = (compile_over_chains([c], batch(), LABELS) for c in (rule, constraint))
    assert one.names == two.names == ("it",)
    for field in ("start", "part", "coefficient", "bound", "equality", "instance", "group"):
        assert np.array_equal(getattr(one, field), getattr(two, field)), field
    assert np.array_equal(one.forbidden.listed(), two.forbidden.listed())
    for field in ("kind", "norm", "amount"):
        assert np.array_equal(getattr(one.groups, field), getattr(two.groups, field)), field
    assert [vars(block).keys() for block in one.sparsity] == [vars(block).keys() for block in two.sparsity]
    for a, b in zip(one.sparsity, two.sparsity, strict=True):
        assert a.strength == b.strength
        assert np.array_equal(a.parts, b.parts)
        assert np.array_equal(a.key, b.key)


@pytest.mark.parametrize("head", ['labels = ["A", "B", "O"]\n', ""])
def test_tokens_outside_of_fields_are_no_field(head: str) -> None:
    (rule,) = parse_rules(f"{head}[[rule]]\nappears_at_most = 1")
    assert rule.code() == "each_label(lambda L: starts(L) <= 1, but=['O'])"
    assert read_constraint(rule.code()).describe() == rule.describe()
    assert rule.describe().startswith("For every label L except O, in every sentence")
    labels = Vocabulary(["A", "B", "O"], kind="label")
    rows = compile_over_chains([rule], Batch.from_sentences([["x"] * 5]), labels)
    excess = [rows.excess(rows.evaluate(labels.encode(list(y)))).max(initial=0) for y in ("OAOBO", "OAOAO")]
    assert excess == [0, 1]


def test_words_in_the_place_of_a_list_are_answered_with_the_key_that_takes_them() -> None:
    with pytest.raises(UnknownNameError) as told:
        parse_rules('[[rule]]\nif_next_word_in = ["May"]\nthen_label = "A"')
    assert told.value.__notes__ == ["(if_next_word_in takes names of [lists]; use if_next_word for words)"]


def toml_blocks() -> list[str]:
    return re.findall(r"```toml\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("text", toml_blocks(), ids=lambda text: text.split("\n")[1][:30])
def test_every_example_of_the_documentation_is_read(text: str) -> None:
    files = {"targets.tsv": "word\tcount\tA\nx\t1\t0.5", "journals.txt": "Nature\nAnnals of Trees"}
    parse_rules(text, files=files)


def test_the_documented_citation_rules_are_the_twelve_of_the_table() -> None:
    text = (DOCUMENT.parents[1] / "examples" / "citations" / "rules.toml").read_text(encoding="utf-8")
    rules = parse_rules(text.replace('strength = "learned"', 'strength = "hard"'))
    assert [rule.name for rule in rules] == [
        "Start", "AppearsOnce", "Punctuation", "BookJournal", "Date", "Editors", "Journal", "Note", "Pages",
        "TechReport", "Title", "Location",
    ]  # fmt: skip
    assert rules.labels is not None
    words = [["Smith", ".", "On", "proc", ".", "1994", "."]]
    rows = compile_over_chains(list(rules), Batch.from_sentences(words), Vocabulary(rules.labels, kind="label"))
    labels = Vocabulary(rules.labels)

    def forbidden(*names: str) -> bool:
        return bool(rows.forbidden.contains(rows.parts.of(labels.encode(names))).any())

    good = ("AUTHOR", "AUTHOR", "BOOKTITLE", "BOOKTITLE", "BOOKTITLE", "DATE", "DATE")
    assert not forbidden(*good)
    assert rows.excess(rows.evaluate(labels.encode(good))).max(initial=0) == 0
    assert forbidden("TITLE", *good[1:])  # starts wrongly
    assert forbidden(*good[:2], "DATE", *good[3:])  # changes within words
    assert forbidden(*good[:5], "NOTE", "NOTE")  # a year is a date
    again = ("AUTHOR", "AUTHOR", "BOOKTITLE", "BOOKTITLE", "BOOKTITLE", "DATE", "BOOKTITLE")
    assert rows.excess(rows.evaluate(labels.encode(again))).max(initial=0) == 1


HEAD = 'labels = ["AUTHOR", "TITLE"]\n\n[lists]\nmonths = ["May"]\n\n'
MISTAKES = [
    ('[[rule]]\nif_wrod = "x"\nthen_label = "TITLE"', 7, "unknown key 'if_wrod'; did you mean 'if_word'"),
    ('[[rule]]\nif_word = "x"\nthen_label = "TITEL"', 8, "unknown label 'TITEL'; did you mean 'TITLE'?"),
    ('[[rule]]\nif_word = "x"\nthen_label = [\n  "AUTHOR",\n  "TITEL",\n]', 10, "unknown label 'TITEL'"),
    ('[[rule]]\nif_word_in = "month"\nthen_label = "TITLE"', 7, "unknown word list 'month'; did you mean 'months'"),
    ('[[rule]]\nif_word_matches = "(["\nthen_label = "TITLE"', 6, "not a valid regular expression"),
    ('[[rule]]\ncount = "TITLE"\nat_least = "one"', 8, "at_least must be a number, got 'one'"),
    ('[[rule]]\ncount = "TITLE"\nat_least = nan', 8, "at_least must be a number, finite, got nan"),
    ('[[rule]]\ncount = "TITLE"', 6, "needs one of at_least, at_most, exactly, between"),
    ('[[rule]]\ncount = "TITLE"\nat_least = 1\nexactly = 2', 6, "but has at_least and exactly"),
    ('[[rule]]\ncount = "TITLE"\nat_least = 3\nat_most = 2', 6, "cannot lie between 3 and 2"),
    ('[[rule]]\ncount = "TITLE"\nbetween = 3', 8, "between must be two numbers"),
    ('[[rule]]\ncount = "TITLE"\nat_least = 1\nper = "sentance"', 9, "did you mean 'sentence'"),
    ('[[rule]]\ncount = "TITLE"\nat_least = 1\nper = "word"\nper_column = "x"', 10, "per or per_column, not both"),
    ('[[rule]]\ncount = "TITLE"\nshare = "TITLE"\nat_least = 1', 8, "cannot be combined in one rule"),
    ('[[rule]]\nname = "empty"', 6, "the kind of the rule is not clear"),
    ('[[rule]]\nthen_label = "TITLE"\nat_least = 1', 8, "at_least is not allowed in a rule with then_label"),
    ('[[rule]]\nthen_label = "TITLE"\nstrength = "hrad"', 8, "unknown value of strength 'hrad'; did you mean 'hard'?"),
    ('[[rule]]\nthen_label = "TITLE"\npenalty = -1', 8, "penalty must be a number, at least 0, got -1"),
    ('[[rule]]\nthen_label = "TITLE"\npenalty = 1\nslack = 2', 8, "has slack and penalty"),
    ('[[rule]]\nthen_label = "TITLE"\nnorm = "l1"', 8, "norm requires slack or penalty"),
    ('[[rule]]\nthen_label = "TITLE"\npenalty = 0\nnorm = "squared"', 8, "squared penalty of strength 0"),
    ('[[rule]]\nappears_at_most = 1.5', 7, "must be a whole number, at least 0, got 1.5"),
    ('[[rule]]\nappears_at_most = 1\nfield = "TITEL"', 8, "unknown label 'TITEL'"),
    ('[[rule]]\nlength_at_least = 0', 7, "must be a whole number, at least 1, got 0"),
    ('[[rule]]\nlength_at_least = 3\nlength_at_most = 2', 8, "cannot lie between 3 and 2"),
    ('[[rule]]\nlength_at_most = 1\nfield = "TITEL"', 8, "unknown label 'TITEL'"),
    ('[[rule]]\nlength_at_most = 1\nappears_at_most = 1', 7, "cannot be combined in one rule"),
    ('[[rule]]\nfield_order = ["TITLE", "TITEL"]', 7, "unknown label 'TITEL'"),
    ('[[rule]]\nfield_order = "TITLE"', 6, "takes two labels or more"),
    ('[[rule]]\nfield_order = ["TITLE", "AUTHOR"]\nfield = "TITLE"', 8, "is not allowed in a rule with field_order"),
    ('[[rule]]\ntransitions = 3\nat_most = 0', 7, "transitions must be true or false, got 3"),
    ('[[rule]]\nfew_labels_per = "word"', 7, "set penalty"),
    ('[[rule]]\ntrust_column = "x"\nat_least = 90', 8, "at_least must be a number, from 0 to 1, got 90"),
    ('[[rule]]\nif_some_label = "TITLE"\nthen_some_label = ["TITEL"]', 8, "unknown label 'TITEL'"),
    ('[[rule]]\nthen_some_label = "TITLE"', 6, "needs one or more of if_some_label, if_all_labels"),
    ('[[rule]]\nif_all_labels = ["TITLE", "TITEL"]\nthen_no_label = "AUTHOR"', 7, "unknown label 'TITEL'"),
    ('[[rule]]\nname = "x"\n[rule.dictionary]\nthe = "TITEL"', 9, "unknown label 'TITEL'"),
    ('[[rule]]\ndictionary = "missing.tsv"', None, "missing.tsv: cannot be read"),
    ('[[rule]]\nname = "x"\nthen_label = "TITLE"\n[[rule]]\nname = "x"\nthen_label = "TITLE"',
     10, "line 7 is also called 'x'"),
    ('[rule]\nthen_label = "TITLE"', 6, "[[rule]], with two brackets"),
    ('[[rules]]\nthen_label = "TITLE"', 6, "unknown key 'rules'; did you mean 'rule'"),
    ('[[rule]\nthen_label = "TITLE"', 6, "not valid TOML"),
    ('[[rule]]\nthen_label = TITLE', 7, "Invalid value in `then_label = TITLE`: put strings in quotes"),
    ('[[rule]]\nif_word_matches = "\\d"', 7, "put regular expressions in single quotes"),
    ('[[rule]]\nname = "a"\nname = "b"', 8, "a key can be given only once"),
    ('[[rule]]\nif_word = "a', 7, "a string has to end with a quote on the same line"),
    ('[[rule]]\nthen_label = ["TITLE"', 7, "a list that begins with [ there or above has no ]"),
    ('[[rule]]\nthen_label: TITLE', 7, "expected key = value"),
    ('[[rule]]\nname = """a\nb"""\nthen_label = "TITEL"', 9, "unknown label 'TITEL'"),
    ('# [[rule]]\n[[rule]] # a "quote\nname = "a # no comment"\nthen_label = "TITEL"', 9, "unknown label 'TITEL'"),
]  # fmt: skip


@pytest.mark.parametrize("text, line, message", MISTAKES, ids=[message for _, _, message in MISTAKES])
def test_a_mistake_is_told_with_its_line(tmp_path: Path, text: str, line: int | None, message: str) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(HEAD + text + "\n", encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_rules(path)
    assert message in str(caught.value)
    assert caught.value.line == line
    if line is not None:
        assert str(caught.value).startswith(f"{path}, line {line}: ")


def test_a_label_that_only_the_data_knows_is_told_with_its_line_when_compiled(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text('\n[[rule]]\nthen_label = "D"\n\n[[rule]]\nfew_labels_per = "tag"\npenalty = 1\n')
    first, second = read_rules(path)
    with pytest.raises(UnknownNameError, match="rules.toml, line 2: unknown label 'D'"):
        compile_over_chains([first], batch(), LABELS)
    with pytest.raises(UnknownNameError, match="rules.toml, line 5: unknown column 'tag'"):
        compile_over_chains([second], batch(), LABELS)


def test_a_dictionary_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "tags.tsv").write_text("x\tA\n\npp.\tA B\nx\tC\n", encoding="utf-8")
    (tmp_path / "rules.toml").write_text('labels = ["A", "B", "C"]\n[[rule]]\ndictionary = "tags.tsv"\n')
    (rule,) = read_rules(tmp_path / "rules.toml")
    same = tc.dictionary({"x": ["A", "C"], "pp.": ["A", "B"]})
    one, two = (compile_over_chains([c], batch(), LABELS) for c in (rule, same))
    assert np.array_equal(one.forbidden.listed(), two.forbidden.listed())
    for wrong, message in (("x A", "a word, a tab"), ("x\tQ", "unknown label 'Q'")):
        (tmp_path / "tags.tsv").write_text(f"y\tA\n{wrong}\n")
        with pytest.raises(DataError, match=message) as caught:
            read_rules(tmp_path / "rules.toml")
        assert caught.value.line == 2
        assert str(caught.value.path).endswith("tags.tsv")


def test_defaults_give_the_strength_of_rules_that_have_none() -> None:
    rules = parse_rules(
        '[defaults]\nstrength = "learned"\n[[rule]]\nthen_label = "A"\n[[rule]]\nthen_label = "A"\npenalty = 2\n'
    )
    assert [rule.strength for rule in rules] == [tc.learned(), tc.penalty(2)]


@given(st.binary(max_size=200))
@settings(max_examples=100)
def test_random_bytes_give_only_our_errors(tmp_path_factory: pytest.TempPathFactory, raw: bytes) -> None:
    path = tmp_path_factory.mktemp("rules", numbered=True) / "rules.toml"
    path.write_bytes(raw)
    try:
        read_rules(path)
    except TrellisError:
        return


WHOLE = toml_blocks()[-1]
PIECES = st.sampled_from(
    ["[", "]", '"', "'", "=", "\n", "{", "}", "\\", "#", ".", "[[rule]]\n", "labels", "at_least = 1\n", "9" * 5000,
     "1e999", "1979-05-27", "true", '"""', "[" * 3000, "\x00", "\ufeff", "é"]
)  # fmt: skip


@given(st.lists(st.tuples(st.integers(0, len(WHOLE)), st.integers(0, 30), PIECES), min_size=1, max_size=4))
@settings(max_examples=150)
def test_damaged_rules_give_only_our_errors(damage: list[tuple[int, int, str]]) -> None:
    text = WHOLE
    for place, length, piece in damage:
        text = text[:place] + piece + text[place + length :]
    try:
        rules = parse_rules(text)
    except TrellisError:
        return
    for rule in rules:
        assert rule.describe().endswith(".")
