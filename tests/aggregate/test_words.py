"""What words say beside votes: short forms, and words as random effects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import optimize, stats

from trellis.tasks import word_vectors as vectors_of
from trellis.tasks.compounds import Compounds
from trellis.tasks.random_effects import TAIL, THOUGHT, UNLIKE, Spread, doubted, share_of, share_right, told
from trellis.tasks.short_forms import short_forms
from trellis.tasks.word_evidence import WordEvidence, _records
from trellis.tasks.word_units import HeardToken, Unit, head, spellings_of, units_of, words_of
from trellis.tasks.word_vectors import word_vectors
from trellis.tasks.word_views import DESCRIBE


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
    of_found = stats.t(TAIL, 0.0, np.sqrt(0.5 + 1.5 / n)).logpdf(mean)
    of_others = stats.t(TAIL, -3.0, np.sqrt(1.0 + 2.0 / n)).logpdf(mean)
    np.testing.assert_allclose(told(mean, n, found, others), of_found - of_others, atol=1e-12)
    beyond = told(np.array([-9.0, -3.0, 0.0, 4.0]), np.full(4, 2.0), found, others)
    assert np.all(np.diff(beyond) > 0)
    assert not np.any(told(mean, n, others, found))  # a view by which entities look less like entities tells nothing


def test_a_chosen_word_is_doubted_so_far_and_no_further():
    ratio = np.array([-30.0, -2.0, 0.0, 3.0])
    np.testing.assert_allclose(np.exp(doubted(ratio)), (1.0 - UNLIKE) * np.exp(ratio) + UNLIKE, rtol=1e-12)
    assert doubted(np.array([-1e9]))[0] == pytest.approx(np.log(UNLIKE))


def test_the_share_of_right_votes_is_the_likeliest_one():
    """Against a search for the largest posterior; κ occurrences stand for what was thought."""
    rng = np.random.default_rng(3)
    right = rng.random(500) < 0.7
    ratio = doubted(rng.normal(np.where(right, 2.0, -2.0), 2.0))

    def against(p: float, thought: float) -> float:
        prior = THOUGHT * (thought * np.log(p) + (1.0 - thought) * np.log1p(-p))
        return -float(np.log(p * np.exp(ratio) + 1.0 - p).sum() + prior)

    for thought in (0.95, 0.5):
        best = optimize.minimize_scalar(against, bounds=(1e-6, 1 - 1e-6), args=(thought,), method="bounded").x
        assert share_right(ratio, thought) == pytest.approx(best, abs=1e-3)


def test_the_share_of_entities_is_the_likeliest_one():
    rng = np.random.default_rng(4)
    entity = rng.random(4000) < 0.08
    told = stats.norm.logpdf(x := rng.normal(np.where(entity, 3.0, 0.0)), 3.0) - stats.norm.logpdf(x)
    best = optimize.minimize_scalar(
        lambda p: -np.log(p * np.exp(told) + 1.0 - p).sum(), bounds=(1e-6, 1 - 1e-6), method="bounded"
    ).x
    assert share_of(told) == pytest.approx(best, abs=1e-4)
    assert share_of(told) == pytest.approx(0.08, abs=0.02)


def test_a_compound_is_one_whole_or_its_last_word_or_nothing(monkeypatch):
    """All labellings of three open words, by the evidence alone: what parts get besides is as good as never."""
    words = WordEvidence(["O", "B-T", "I-T"])
    heard = [[HeardToken(token) for token in ("deep", "vein", "clot")]]
    bonds = {("deep", "vein"): 1.0, ("vein", "clot"): 0.5}
    alone = {(0, 1): 2.5, (1, 2): 1.5, (2, 3): 0.7, (0, 3): 1.2}
    monkeypatch.setattr(words.compounds, "together", lambda a, b: bonds[a, b])
    monkeypatch.setattr(words, "_said", lambda texts, units: units)
    monkeypatch.setattr(words, "_open", lambda texts, units, said: np.array([[alone[u.first, u.end]] for u in units]))
    inside = np.array([[0.0, 0.0, -0.3], [0.0, 0.0, -0.4]])
    [found] = words.evidence(heard, [["O"] * 3], inside)
    number, score = {"O": 0, "B": 1, "I": 2}, {}
    for labels in itertools.product("OBI", repeat=3):
        if all(b != "I" or a != "O" for a, b in itertools.pairwise(("O", *labels))):
            score["".join(labels)] = found[np.arange(3), [number[k] for k in labels]].sum()
    whole = 1.2 + np.log(stats.logistic.cdf([1.0, 0.5])).sum() - 0.3 - 0.4
    last = 0.7 + np.log(stats.logistic.cdf(-0.5))
    expected = {"OOO": 0.0, "BII": whole, "OOB": last}
    assert {k: score[k] for k in expected} == pytest.approx(expected)
    assert all(value < -15.0 for labels, value in score.items() if labels not in expected)


def test_open_words_that_do_not_belong_together_are_not_one(monkeypatch):
    """Going on over words without votes is no likelier than to end there, and has the odds of belonging together."""
    words = WordEvidence(["O", "B-T", "I-T"])
    heard = [[HeardToken("Ann"), HeardToken("said"), HeardToken("."), HeardToken("Bob", "B-T"), HeardToken("left")]]
    bonds = {("Ann", "said"): -2.0, ("said", "."): -3.0, ("left", "."): -9.0}
    monkeypatch.setattr(words.compounds, "together", lambda a, b: bonds[a, b])
    monkeypatch.setattr(words, "_said", lambda texts, units: units)
    monkeypatch.setattr(words, "_open", lambda texts, units, said: np.ones((len(units), 1)))
    for inside, cost in ((0.7, 0.0), (-0.7, -0.7)):
        [found] = words.evidence(heard, [["O", "O", "O", "B-T", "O"]], np.array([[0.0, 0.0, inside]] * 2))
        # after a vote, the votes decide
        np.testing.assert_allclose(found[:, 2], [0.0, cost - 2.0, cost - 3.0, 0.0, 0.0])


def test_capitals_count_but_not_those_of_a_sentence():
    texts = [[HeardToken(token) for token in ["Apple", "grows", ".", "Apple", "fell", "on", "Apple", "and", "apple"]]]
    units = [unit for unit in units_of(texts, [["O"] * 9], bio=True) if head(texts, unit) == "apple"]
    shapes = [next(name for name in DESCRIBE["form"](texts, unit) if name.startswith("s=")) for unit in units]
    assert shapes == ["s=^Xxx", "s=^Xxx", "s=Xxx", "s=xx"]
    first, of = spellings_of(texts, units)
    assert first == [0, 2, 3]
    assert of.tolist() == [0, 0, 1, 2]
    assert words_of(texts, units)[0] == ["apple"]


def test_a_word_has_a_record():
    units = [Unit(i, 1, 2, "O", False) for i in range(3)] + [Unit(3, 0, 1, "T", True), Unit(4, 0, 2, "T", True)]
    units += [Unit(0, 2, 3, "O", False), Unit(0, 4, 5, "O", False), Unit(3, 1, 2, "O", True)]
    found = _records(units, ["fan"] * 5 + ["hums", "hums", "off"])
    assert {word: round(float(np.exp(log)), 3) for word, log in found.items()} == {"fan": 0.75, "hums": 0.5}


def test_vectors_are_singular_vectors_of_the_mutual_information(monkeypatch):
    """Against a dense computation, word by word; signs of singular vectors are free, products of vectors are not."""
    rng = np.random.default_rng(0)
    texts = [[f"W{w}" for w in rng.zipf(1.5, size=12) % 9] for _ in range(30)]
    monkeypatch.setattr(vectors_of, "SIZE", 4)
    words, found = word_vectors(texts, min_count=20, always=["w7"])
    times = {w: sum(word.lower() == w for text in texts for word in text) for w in {f"w{n}" for n in range(9)}}
    assert set(words) == {w for w, n in times.items() if n >= 20 or (w == "w7" and n)}
    names = sorted(times)
    counts = np.zeros((len(words), 4 * len(names)))
    for text in texts:
        for t, word in enumerate(text):
            for d, step in enumerate((-2, -1, 1, 2)):
                if 0 <= t + step < len(text) and word.lower() in words:
                    counts[words.index(word.lower()), d * len(names) + names.index(text[t + step].lower())] += 1
    share = counts.sum(axis=0) ** 0.75 / (counts.sum(axis=0) ** 0.75).sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        table = np.nan_to_num(np.maximum(np.log(counts / (counts.sum(axis=1, keepdims=True) * share)), 0.0))
    left, values, _ = np.linalg.svd(table)
    kept = left[:, :4] * np.sqrt(values[:4])
    kept /= np.linalg.norm(kept, axis=1, keepdims=True)
    np.testing.assert_allclose(found @ found.T, kept @ kept.T, atol=1e-8)


def test_compounds_are_learned_from_spans_and_kept_in_a_file():
    texts = [["the", f"mod{i % 4}", f"noun{i % 5}", "is", "Fine"] for i in range(60)]
    words, vectors = word_vectors([*texts, ["a", "modern", "noun2"], ["the", "modern", "noun3"]] * 3)
    made = Compounds()
    assert made.together("mod1", "noun1") < 0
    made.fit(texts, [[(1, 3, "T")]] * 60, words, vectors)
    assert made.together("mod9", "noun1") > 0  # never seen: by its form
    assert made.together("the", "mod1") < 0
    assert made.together("noun1", "is") < 0
    again = Compounds()
    again.restore(*made.learned())
    pairs = [("mod1", "noun9"), ("The", "modern"), ("what", "is")]
    assert [again.together(*pair) for pair in pairs] == [made.together(*pair) for pair in pairs]
