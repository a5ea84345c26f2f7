"""Regular expressions of rules end: with an answer, or with an error that names pattern, token and rule."""

from __future__ import annotations

import random
import re
import subprocess
import time
import warnings

import pytest

from tests.hostile.command import RULES, run, start, train
from trellis.apps.extract.word_classes import word_class
from trellis.constraints import compile_constraints, label, word
from trellis.constraints.condition import Matches
from trellis.data.batch import Batch
from trellis.data.tokens import tokenise
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError
from trellis.structures import ChainParts

EXPLODING = [
    (r"(a+)+$", "a" * 40 + "b"),
    (r"(a|aa)+$", "a" * 60 + "b"),
    (r"(a*)*b", "a" * 40),
    (r"(x+x+)+y", "x" * 60),
    (r"^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 60),
    (r"(?=(a+)+$)b", "a" * 40 + "b"),
    (r"(a{1,100}){1,100}b", "a" * 5000),
    (r"(a|a|a|a)+$", "a" * 40 + "b"),
]


@pytest.mark.slow
@pytest.mark.parametrize("pattern, token", EXPLODING)
def test_a_pattern_that_explodes_ends_in_seconds(pattern, token, monkeypatch):
    monkeypatch.setattr("trellis.constraints.condition.SECONDS_PER_STRING", 0.2)
    began = time.monotonic()
    try:
        assert not Matches(word, pattern).accepts(token)
    except ConstraintError as error:
        said = str(error)
        assert repr(pattern) in said
        assert repr(token)[:50] in said
    assert time.monotonic() - began < 10


def compiled(pattern, text):
    batch, names = Batch.from_sentences(text), Vocabulary(["X", "Y"], kind="label")
    rule = word.matches(pattern).implies(label("X")).constraint().named("slow one")
    return compile_constraints([rule], batch, names, ChainParts(batch.offsets, 2))


def test_the_error_names_the_rule(monkeypatch):
    monkeypatch.setattr("trellis.constraints.condition.SECONDS_PER_STRING", 0.2)
    with pytest.raises(ConstraintError, match="takes too long on 'aaaa.*which has 61 characters") as refusal:
        compiled(r"(a|aa)+$", [["fine", "a" * 60 + "b"]])
    assert refusal.value.__notes__ == ["(in the rule 'slow one')"]


@pytest.mark.slow
def test_many_slow_tokens_end_too(monkeypatch):
    """Each stays under the limit of a token; all together do not under that of the rule."""
    monkeypatch.setattr("trellis.constraints.condition.SECONDS_PER_RULE", 0.5)
    began = time.monotonic()
    with pytest.raises(ConstraintError, match="takes too long"):
        compiled(r"(a|aa)+$", [["a" * n + f"b{i}" for n in (26, 27, 28) for i in range(1000)]])
    assert time.monotonic() - began < 20


@pytest.mark.slow
def test_a_slow_rule_of_a_model_is_told_with_its_file_and_line_and_left_out_where_it_is_slow(tmp_path):
    slow = "[[rule]]\nname = 'slow one'\nif_word_matches = '(a|aa)+$'\nthen_label = 'NAME'\nstrength = 'hard'\n"
    model = train(tmp_path, RULES + slow)
    (tmp_path / "long.txt").write_text("Ann " + "a" * 60 + "b 1999\nCy 1987\n")
    ended = start("extract", "predict", "-m", model, tmp_path / "long.txt", "--threads", 1, stdout=subprocess.PIPE)
    told = ended.stderr.decode()
    assert ended.returncode == 0
    assert "1 of 2 texts cannot satisfy these rules" in told
    assert "'(a|aa)+$' takes too long on 'aaaa" in told
    assert f"in the rule 'slow one' of {tmp_path / 'rules.toml'}, line 8" in told
    assert ended.stdout.decode().endswith("1987\tYEAR\n\n")  # the other line is not lost
    assert (
        run(
            "extract",
            "predict",
            "-m",
            model,
            tmp_path / "long.txt",
            "--no-rules",
            "--threads",
            1,
            "-o",
            tmp_path / "out.tsv",
        )
        == 0
    )


ATOMS = [
    *"abcAB01_-. ", r"\d", r"\w", r"\s", r"\b", r"\D", r"\W", "^", "$", r"\A", r"\Z", "[a-c]", "[^a]", r"[\w-]",
    "[A-Z]", r"\.", "(?i:a)", r"[^\W\d_]", "(?!a)", "(?=b)", "(?<=a)", "(?<!b)", r"\1", "[[]", "{", "}", "a{,2}", "&",
    "~", "#", "[]a]", "[^]]", "(?:", ")", "(", "|", "*", "+", "?", "{2}", "{1,3}", "*?", "+?", "++", "*+", "(?>a+)",
    "(?P<x>a)",
]  # fmt: skip


def test_ordinary_patterns_decide_as_pythons_own():
    draw, seen = random.Random(0), 0
    while seen < 2000:
        pattern, fold = "".join(draw.choices(ATOMS, k=draw.randint(1, 6))), draw.random() < 0.3
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                python = re.compile(pattern, re.IGNORECASE if fold else 0)
            except re.error:
                with pytest.raises(ConstraintError):
                    Matches(word, pattern)
                continue
        seen += 1
        ours = Matches(word, pattern, ignore_case=fold)
        for token in ("".join(draw.choices("abcABC01_-. ", k=draw.randint(1, 8))) for _ in range(5)):
            assert ours.accepts(token) == (python.search(token) is not None), (pattern, fold, token)


@pytest.mark.parametrize("pattern", [r"\p{L}", r"\L<x>", r"\X", "a{e<=1}(", "(?r)a", r"\K", "(?V1)a", "(?e)a"])
def test_what_python_does_not_read_is_refused(pattern):
    with pytest.raises(ConstraintError, match="is not a valid regular expression"):
        word.matches(pattern)


def test_words_in_scripts_with_vowel_signs_are_words():
    assert Matches(word, r"^\w+$").accepts("हिन्दी")


@pytest.mark.parametrize("token", ["@." * 2000 + "\n", ".@" * 2000 + "\n", "@" * 4000, "1-" * 2000, "\n"])
def test_long_tokens_have_a_class_at_once(token):
    began = time.monotonic()
    assert word_class(token)
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("part", ["-", "a.", "a@", "http://", "1-", "@", "a@b.", "a@b-"])
def test_long_lines_of_marks_are_cut_into_tokens_at_once(part):
    text, began = part * 50_000, time.monotonic()
    cut = tokenise(text)
    assert "".join(cut.tokens) == text
    assert time.monotonic() - began < 5
