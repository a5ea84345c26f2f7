"""Expressions of saved constraints: what is refused, and that reading one takes memory in proportion to its text."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trellis.constraints import arcs, column, root
from trellis.constraints.expression import DEEPEST, LONGEST, read_constraint
from trellis.errors import ConstraintError


@pytest.mark.parametrize(
    "code",
    [
        "count('a' * 2000000000) >= 1",
        "count(['a'] * 2000000000) >= 1",
        "count(['a'] + ['b']) >= 1",
        "count('a' + 'b') >= 1",
        "count('V').per(lambda L: 'a' * 2000000000) >= 1",
        "count('V').per(lambda L: L) >= 1",
        "few_labels_per(lambda L: 'a', strength=1)",
        "each_label(lambda L: each_label(lambda L: count(L) >= 1))",
        "each_label(lambda L: count(L * 2000000000) >= 1)",
        "count('V') >= 2 * 3",
        "count('V') >= 10 ** 9",
        "count('V') >= 1e400",
        "count('V') >= 1" + "0" * 400,
        "count('V') * 1e14 * 1e14 >= 1",
        "count('V') / 1e-300 >= 1",
        "position == 1e3",
        "position == 1" + "0" * 30,
        "'a'.lower()",
        "'{:>2000000000}'.format(1)",
        "'%2000000000d' % 1",
        "count('V') >= 1 if 1 else 2",
        "count('V') >= [1 for x in word]",
        "count('a' 'b') >= 1",
        "count(b'a') >= 1",
        "count(r'a') >= 1",
        "count('V', where=(word == 'a'), where=(word == 'b')) >= 1",
        "count('V') <= 1 <= 2",
        "(" * 100_000,
        "[" * 100_000,
        "-" * 100_000 + "count('V')",
        "label('V')" + " | label('V')" * 5_000,
        "count('V')" + " + count('V')" * 5_000 + " >= 1",
        "'" + "a" * 1_000_000,
    ],
    ids=lambda code: code[:40],
)
def test_what_is_no_constraint_is_refused(code):
    with pytest.raises(ConstraintError):
        read_constraint(code)


def test_a_condition_is_not_copied_for_thousands_of_labels():
    labels = ", ".join(f"'{i}'" for i in range(20_000))
    words = ", ".join(["'a'"] * 20_000)
    with pytest.raises(ConstraintError, match="too many labels"):
        read_constraint(f"starts({labels}, where=word.isin({words})) <= 1")


def test_text_that_is_too_long_is_refused():
    with pytest.raises(ConstraintError, match="at most 10000000 characters"):
        read_constraint("word.isin('" + "a" * LONGEST + "')")


@pytest.mark.parametrize(
    "code",
    [
        "word.isin('it\\'s', \"o'clock\", 'a\\nb', '\\ud800', 'é').implies(label('V'))",
        "dictionary({'the': ['D'], 'a b': ['D', 'N']}, key=column('pos'), ignore_case=True)",
        "count('V') - 2 * count('N', where=preceding((word == 'a'))) >= -1.5",
        "each_label(lambda L: starts(L) <= 1, but=['O'])",
        "each_label(lambda L: length(L, at_least=2, at_most=9), but=['O'])",
        "ordered('A', 'B', 'C')",
        "(~exists(label('A'))).implies(count('V') >= 1)",
        "(exists(label('A')) & ~exists(label('B'))).implies(count('V') >= 1)",
        "exists((word == 'a') & ~(label('V') | previous('N'))).implies(count('V') >= 1)",
        " | ".join(["label('V')"] * DEEPEST),
    ],
)
def test_what_constraints_need_is_read(code):
    assert read_constraint(code).code()


def test_constraints_on_arcs_are_read_again():
    tag = column("upos")
    for one in (
        arcs(head=root, child=tag == "VERB") >= 0.9,
        arcs(head=tag == "VERB", child=tag == "NOUN", direction="left", distance=(1, 3)) >= 1,
        arcs(head=tag == "VERB", share=True).per("corpus") >= 0.8,
    ):
        assert read_constraint(one.code()).code() == one.code()


MEASURED = """
import resource, sys
from trellis.constraints.expression import read_constraint
from trellis.errors import ConstraintError
read_constraint("count('V') >= 1")
code = sys.stdin.read()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    read_constraint(code)
except ConstraintError:
    pass
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / len(code))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes on Linux alone")
@pytest.mark.parametrize(
    "code",
    [
        "word.isin(" + ",".join(["'ab'"] * 60_000) + ").implies(label('V'))",
        "dictionary({" + ",".join(f"'{i}':['V']" for i in range(40_000)) + "})",
        "count([" + "[]," * 60_000 + "]) >= 1",
        "count([" + "0," * 100_000 + "]) >= 1",
        "count('" + "\\\\n" * 200_000 + "') >= 1",
        "'" + "\\\\n" * 1_000_000,
    ],
    ids=lambda code: code[:12],
)
def test_reading_takes_at_most_fifty_times_the_text(code):
    ended = subprocess.run([sys.executable, "-c", MEASURED], input=code, capture_output=True, text=True, check=True)
    assert float(ended.stdout) < 50
