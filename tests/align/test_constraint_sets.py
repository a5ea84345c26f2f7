"""Constraints of an aligner as a list: each with its strength, in training and decoding, and in files."""

import numpy as np
import pytest

from tests.align.toy import toy_text
from trellis.apps.align.aligner import Aligner
from trellis.apps.align.constraint_sets import CONSTRAINTS, constraints_of, read_links
from trellis.constraints import backward, count, each, forward, links
from trellis.errors import ConstraintError, TrellisError

AGREEMENT = forward.links == backward.links
SOURCE, TARGET = forward.links(source=each) <= 1, backward.links(target=each) <= 1


@pytest.fixture(scope="module")
def toy():
    return toy_text(60)[0]


@pytest.fixture(scope="module")
def noise():
    """Pairs of random words, on whose links nothing agrees."""
    rng = np.random.default_rng(0)
    sides = [[f"{name}{word}" for word in rng.integers(0, 6, rng.integers(3, 7))] for _ in range(40) for name in "ab"]
    return list(zip(sides[::2], sides[1::2], strict=True))


@pytest.fixture(scope="module")
def trained(noise):
    """An aligner whose directions disagree, and whose source words have more than one link."""
    return Aligner("none", max_iter=1, n_jobs=1, max_evaluations=300, projection_tol=1e-4).fit(noise)


def worst(aligner, pairs, constraint):
    """Largest disagreement, and largest expected number of links of a source word beyond 1."""
    aligner.decode_constraint = constraint
    grids = aligner.posteriors(pairs)
    apart = max(np.abs(ahead.astype(float) - back).max() for ahead, back in grids)
    return apart, max(ahead.astype(float).sum(axis=1).max() for ahead, _ in grids) - 1.0


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_a_list_of_constraints_is_the_named_one(toy, name):
    one, other = (Aligner(given, n_jobs=1).fit(toy[:20]) for given in (name, constraints_of(name)))
    assert one.history_.objective == other.history_.objective


def test_slack_bounds_disagreement_and_fertility(trained, noise):
    apart, beyond = worst(trained, noise, "none")
    assert apart > 0.3
    assert beyond > 0.1
    for slack in (0.2, 0.05):
        found = worst(trained, noise, [AGREEMENT.slack(slack)])[0]
        assert slack - 0.02 < found < slack + 0.002
    assert worst(trained, noise, [SOURCE.slack(0.05)])[1] == pytest.approx(0.05, abs=0.002)


def test_a_larger_penalty_leaves_less_violation(trained, noise):
    found = [worst(trained, noise, [AGREEMENT.penalty(price)])[0] for price in (0.1, 0.5, 2.0)]
    assert found[0] > found[1] + 0.02 > found[2] + 0.04
    squared = [worst(trained, noise, [SOURCE.penalty(price, "squared")])[1] for price in (0.1, 1.0, 10.0)]
    assert squared[0] > squared[1] > squared[2]
    assert worst(trained, noise, [AGREEMENT.penalty(1e3)])[0] < 2e-3


def test_links_of_a_whole_pair_can_be_bounded(trained, noise):
    trained.decode_constraint = [forward.links() <= 1]
    assert all(ahead.sum() < 1.01 for ahead, _ in trained.posteriors(noise))


def test_constraints_are_saved_with_their_strengths(toy, tmp_path):
    given = [AGREEMENT.penalty(2.5), SOURCE.slack(0.1, "l2"), TARGET]
    aligner = Aligner(given, decode_constraint=[AGREEMENT], n_jobs=1).fit(toy[:20])
    aligner.save(tmp_path / "a")
    loaded = Aligner.load(tmp_path / "a", n_jobs=1)
    assert list(map(repr, constraints_of(loaded.constraint))) == list(map(repr, given))
    assert [row.pharaoh() for row in loaded.align(toy)] == [row.pharaoh() for row in aligner.align(toy)]
    loaded.save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("side", ["forward.", "backward.", ""])
@pytest.mark.parametrize("scope", ["", "(source=each)", "(target=each)", "()", "().per('corpus')"])
@pytest.mark.parametrize("rest", ["<= 1", ">= 0.25", "== 1e-05"])
def test_what_is_written_is_read(side, scope, rest):
    code = f"{side}links{scope} {rest}"
    assert repr(read_links(code)) == code
    for strength in (".penalty(2)", ".penalty(0.5, 'squared')", ".slack(0.1)", ".slack(1, 'l2')"):
        assert repr(read_links(f"({code}){strength}")) == f"({code}){strength}"
    assert repr(read_links(f"forward.links{scope} == backward.links{scope}")) == (
        f"forward.links{scope} == backward.links{scope}"
    )


@pytest.mark.parametrize(
    "code", ["", "links", "forward.links <= x", "(links <= 1).penalty(-1)", "links <= 1e", "1 <= 2"]
)
def test_what_cannot_be_read_is_refused(code):
    with pytest.raises(ConstraintError):
        read_links(code)


@pytest.mark.parametrize(
    "given",
    ["bijectiv", [count("A") >= 1], [links <= 1], [forward.links().per("corpus") <= 1], [AGREEMENT.learned()], [3], 3,
     ["no"]],
    ids=repr,
)  # fmt: skip
def test_other_constraints_are_refused_before_training(toy, given):
    with pytest.raises(TrellisError):
        Aligner(given).fit(toy)
    with pytest.raises(TrellisError):
        Aligner(decode_constraint=given).fit(toy)
