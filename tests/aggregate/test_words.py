"""What words say beside votes: short forms, and words as random effects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from trellis.tasks.short_forms import short_forms
from trellis.tasks.word_evidence import Spread, told


@pytest.mark.parametrize(
    "text, found",
    [
        ("nitric oxide ( NO )", [(0, 2, "NO")]),
        ("of the central nervous system [ CNS ; see", [(2, 5, "CNS")]),
        ("nitroglycerin ( NTG )", [(0, 1, "NTG")]),
        ("a beta-blocker ( BB )", [(1, 2, "BB")]),
        ("rats ( UK )", []),  # its letters are not there
        ("some oxide ( NO )", []),  # the first letter does not begin a word
        ("NO ( NO )", []),  # nothing is explained
        ("in all ( see below )", []),
        ("nitric oxide ( no )", []),  # no capital: an aside
        ("( NO )", []),
        ("", []),
    ],
)
def test_short_forms_are_found_by_their_letters(text, found):
    assert list(short_forms(text.split())) == found
    assert list(short_forms(tuple(text.split()))) == found


def test_the_spread_of_words_is_that_they_were_drawn_with():
    rng = np.random.default_rng(0)
    n = rng.integers(1, 12, 4000)
    word = np.repeat(np.arange(4000), n)
    odds = np.repeat(rng.normal(-2.0, 0.7, 4000), n) + rng.normal(0.0, 1.3, n.sum())
    found = Spread.of(odds, word)
    assert found.mean == pytest.approx(-2.0, abs=0.06)
    assert found.between == pytest.approx(0.49, abs=0.08)
    assert found.within == pytest.approx(1.69, abs=0.06)


def test_what_a_word_tells_is_the_ratio_of_densities_between_the_means():
    found, others = Spread(0.0, 0.5, 1.5), Spread(-3.0, 1.0, 2.0)
    mean, n = np.array([-3.0, -2.0, -0.5, 0.0]), np.array([1.0, 3.0, 20.0, 2.0])
    of_found = stats.norm(0.0, np.sqrt(0.5 + 1.5 / n)).logpdf(mean)
    of_others = stats.norm(-3.0, np.sqrt(1.0 + 2.0 / n)).logpdf(mean)
    np.testing.assert_allclose(told(mean, n, found, others), of_found - of_others, atol=1e-12)
    beyond = told(np.array([-9.0, -3.0, 0.0, 4.0]), np.full(4, 2.0), found, others)
    assert np.all(np.diff(beyond) > 0)
    assert not np.any(told(mean, n, others, found))  # a view by which entities look less like entities tells nothing
