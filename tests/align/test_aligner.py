"""The aligner in memory: what it learns, what it is told, saving, long and empty pairs."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

from tests.align.toy import WORD, toy_text
from trellis.apps.align.aligner import Aligner
from trellis.apps.align.decoding import SYMMETRIZE
from trellis.data.bitext import LONGEST, WordCodes, code_pairs, cut_long_pairs
from trellis.errors import DataError, ModelFileError, NotFittedError, UnknownNameError
from trellis.metrics.alignment import GoldLinks, score_links
from trellis.models.alignment import AlignmentModel, PairTable, SentencePairs
from trellis.models.alignment.translation import alike_cells, extra_counts
from trellis.structures.kernels.align_work import ALIKE

pytestmark = pytest.mark.slow


def error(aligner, pairs, links):
    gold = [GoldLinks(frozenset(row), frozenset(row)) for row in links]
    return score_links([set(row) for row in aligner.align(pairs)], gold).aer


@pytest.fixture(scope="module")
def toy():
    return toy_text(300)


@pytest.mark.parametrize("constraint", ["agreement", "bijective", "both", "none"])
def test_a_one_to_one_language_is_learned(toy, constraint):
    assert error(Aligner(constraint, n_jobs=1).fit(toy[0]), *toy) < 0.02


def test_the_objective_in_its_history_includes_the_prior(toy, monkeypatch):
    told, log_prior = [], AlignmentModel.log_prior
    monkeypatch.setattr(AlignmentModel, "log_prior", lambda self: told.append(log_prior(self)) or told[-1])
    whole = Aligner(n_jobs=1).fit(toy[0][:50]).history_
    assert told[0] == 0.0  # before the first M-step
    assert max(told[1:]) < -10.0
    monkeypatch.setattr(AlignmentModel, "log_prior", lambda self: 0.0)
    without = Aligner(n_jobs=1).fit(toy[0][:50]).history_
    for one, other, prior in zip(whole, without, told, strict=True):
        assert one.objective == pytest.approx(other.objective + prior, rel=1e-12)


@pytest.mark.parametrize("gamma", [0.05, 0.3, 1.0])
def test_every_temperature_learns_it(toy, gamma):
    assert error(Aligner(gamma=gamma, n_jobs=1).fit(toy[0]), *toy) < 0.03


@pytest.mark.parametrize("method", sorted(SYMMETRIZE))
def test_every_symmetrisation_finds_the_links(toy, method):
    aligner = Aligner(symmetrize=method, n_jobs=1).fit(toy[0])
    assert error(aligner, *toy) < 0.03


def test_new_text_with_unknown_words_is_aligned(toy):
    aligner = Aligner(n_jobs=1).fit(toy[0])
    source = ["the", "old", "cat", "sees", "zanzibar"]
    target = [WORD["the"], WORD["cat"], WORD["old"], WORD["sees"], "zanzibaro"]
    links = set(aligner.align([(source, target)])[0])
    assert {(0, 0), (1, 2), (2, 1), (3, 3)} <= links


def test_training_aligning_and_loading_give_the_same_links(toy, tmp_path):
    path = tmp_path / "toy.trellis"
    aligner = Aligner(n_jobs=2)
    trained = [row.pharaoh(scores=True) for row in aligner.fit_align(toy[0])]
    assert trained == [row.pharaoh(scores=True) for row in aligner.align(toy[0])]
    aligner.save(path)
    loaded = Aligner.load(path, n_jobs=1)
    assert trained == [row.pharaoh(scores=True) for row in loaded.align(toy[0])]
    again = tmp_path / "again.trellis"
    loaded.save(again)
    assert path.read_bytes() == again.read_bytes()


def test_chunks_of_a_stream_change_nothing(toy, monkeypatch):
    aligner = Aligner(n_jobs=1).fit(toy[0])
    whole = [row.pharaoh(scores=True) for row in aligner.align(toy[0])]
    monkeypatch.setattr("trellis.apps.align.pairs.CHUNK", 7)
    assert [row.pharaoh(scores=True) for row in aligner.align(toy[0])] == whole
    monkeypatch.setattr("trellis.apps.align.pairs.CHUNK_CELLS", 50)
    assert [row.pharaoh(scores=True) for row in aligner.align(toy[0])] == whole


def test_posteriors_of_both_directions_agree_under_agreement(toy):
    aligner = Aligner(n_jobs=1, projection_tol=1e-3, max_evaluations=100).fit(toy[0])
    for (forward, backward), (source, target) in zip(aligner.posteriors(toy[0][:20]), toy[0], strict=False):
        assert forward.shape == (len(source), len(target))
        np.testing.assert_allclose(forward, backward, atol=2e-3)


def test_a_forbidden_pair_is_never_linked(toy):
    aligner = Aligner(n_jobs=1, priors={("cat", WORD["cat"]): -1.0}).fit(toy[0])
    for (source, target), row in zip(toy[0], aligner.align(toy[0]), strict=True):
        assert not any(source[i] == "cat" and target[j] == WORD["cat"] for i, j in row)


def test_a_dictionary_decides_what_the_text_cannot():
    # Two words that always occur together on both sides: only the dictionary tells which is which.
    pairs = [(["alpha", "beta"], ["uno", "due"]) for _ in range(20)]
    straight = Aligner(n_jobs=1, priors={("alpha", "uno"): 20.0, ("beta", "due"): 20.0}).fit(pairs)
    crossed = Aligner(n_jobs=1, priors={("alpha", "due"): 20.0, ("beta", "uno"): 20.0}).fit(pairs)
    assert set(straight.align(pairs[:1])[0]) == {(0, 0), (1, 1)}
    assert set(crossed.align(pairs[:1])[0]) == {(0, 1), (1, 0)}


def test_words_spelled_alike_decide_what_the_text_cannot():
    pairs = [(["alpha", "beta"], ["beta", "alpha"]) for _ in range(20)]
    assert set(Aligner(n_jobs=1).fit(pairs).align(pairs[:1])[0]) == {(0, 1), (1, 0)}
    assert set(Aligner(n_jobs=1, same_spelling=0.0).fit(pairs).align(pairs[:1])[0]) == {(0, 0), (1, 1)}


def test_what_a_dictionary_says_is_added_to_like_spelling_and_can_forbid_it():
    table, _, source, target = _coded([(["same", "other"], ["same", "else"])])
    extra = extra_counts(table, source, target, {("same", "same"): 2.0, ("other", "else"): 1.0, ("no", "no"): 1.0}, 0.5)
    assert dict(zip(extra.at.tolist(), extra.amount.tolist(), strict=True)) == {0: 2.5, 3: 1.0}
    assert np.all(np.diff(extra.at) > 0)
    forbidden = extra_counts(table, source, target, {("same", "same"): -1.0}, 0.5)
    assert forbidden.amount.tolist() == [-1.0]


def test_names_that_training_never_saw_are_linked_in_new_text(toy):
    new = [("the red Oslo sees the Bergen Bergen", "la olsO Oslo der Bergen la Bergen")]
    source, target = (line.split() for line in new[0])
    aligner = Aligner(n_jobs=1).fit(toy[0])
    aligner.max_evaluations = 5  # few evaluations leave two equal names with two links each
    links = set(aligner.align(new)[0])
    assert (2, 2) in links
    assert all(source[i] == target[j] for i, j in links if source[i] in ("Oslo", "Bergen"))
    assert len([1 for i, _ in links if source[i] == "Bergen"]) == 2
    without = set(Aligner(n_jobs=1, same_spelling=0.0).fit(toy[0]).align(new)[0])
    assert (2, 2) not in without


def test_a_rare_word_does_not_collect_a_name_that_training_never_saw(toy):
    aligner = Aligner(n_jobs=1).fit([*toy[0], ("quux the cat", "la taco")])
    assert (1, 1) in set(aligner.align([("quux Oslo cat", "taco Oslo")])[0])


def test_equal_words_are_marked_only_where_the_table_lacks_them_and_within_their_piece():
    table, _, source, target = _coded([(["a", "b"], ["a", "x"])])
    source.freeze()
    target.freeze()
    words = [(["a", "n"], ["n", "a"]), (["b"], ["a"])]
    place = table.place(source["b"], target["a"])
    assert _cells(table, words, source, target) == [-1, 0, ALIKE, -1, place]
    assert _cells(table, words, source, target, 1, 2) == [place]
    left, right = ["x1"] * 300 + ["n"], ["n"] + ["y1"] * 300
    assert ALIKE not in _cells(table, [(left, right)], source, target)


def _cells(table, words, source, target, *some):
    """The table's entry of every cell, below 0 where it has none."""
    bitext = code_pairs(words, source, target)
    pairs = SentencePairs.of(bitext)
    pairs = replace(pairs, alike=alike_cells(words, bitext, pairs.offsets))
    entries, cells = table.number(pairs.instances(*some) if some else pairs)
    return [int(k if k < 0 else entries[k]) for k in cells]


@pytest.mark.parametrize(
    "settings", [{}, {"same_spelling": 0.03, "variational": False}, {"same_spelling": 1e-4}, {"gamma": 0.05}]
)
def test_a_loaded_aligner_gives_what_training_gave_where_words_are_shared(toy, tmp_path, settings):
    shared = [
        ("a cat a cat 1998 Oslo", "a taco Oslo 1998 un"),
        ("Oslo Oslo", "Oslo Oslo Oslo"),
        (["on", "a"] * 150, ["a", "on"] * 150),
    ]
    pairs = [*shared, *toy[0][:150]]
    aligner = Aligner(n_jobs=1, diagonal_scale=float("inf"), **settings)
    trained = [row.pharaoh(scores=True) for row in aligner.fit_align(pairs)]
    aligner.save(tmp_path / "m")
    loaded = Aligner.load(tmp_path / "m")
    assert [row.pharaoh(scores=True) for row in loaded.align(pairs)] == trained
    assert loaded.model_.diagonal_scale == float("inf")


def test_a_short_reach_keeps_links_of_model_1_near_the_diagonal():
    rng = np.random.default_rng(0)
    pairs = [
        ([f"s{k}" for k in rng.integers(5, size=30)], [f"t{k}" for k in rng.integers(5, size=30)]) for _ in range(5)
    ]
    distance = []
    for reach in (2.0, float("inf")):
        aligner = Aligner("none", n_jobs=1, diagonal_scale=reach, model1_iter=1, max_iter=0).fit(pairs)
        forward = aligner.posteriors(pairs)[0][0]
        away = np.abs(np.arange(30)[:, None] - np.arange(30))
        distance.append((forward * away).sum() / forward.sum())
    assert distance[0] < 3.0
    assert distance[1] > 7.0


def _coded(pairs):
    source, target = WordCodes(5), WordCodes(5)
    bitext = code_pairs(pairs, source, target)
    table, _ = PairTable.build(bitext, len(source.names), len(target.names))
    return table, bitext, source, target


def test_hints_are_followed():
    pairs = [(["alpha", "beta"], ["uno", "due"]) for _ in range(20)]
    hints = [[(0, 1), (1, 0)]] * 20
    aligner = Aligner(n_jobs=1)
    rows = list(aligner.fit_align(pairs, hints=hints))
    assert set(rows[0]) == {(0, 1), (1, 0)}
    with pytest.raises(DataError, match="pair 1 has 2 and 2 words, so it has no link 2-0"):
        Aligner(n_jobs=1).fit(pairs, hints=[[(2, 0)]] * 20)


def test_threshold_is_tuned_on_gold(toy):
    gold = [GoldLinks(frozenset(row), frozenset(row)) for row in toy[1][:10]]
    aligner = Aligner(n_jobs=1, threshold=0.99)
    list(aligner.fit_align(toy[0], tune=gold))
    assert 0.1 <= aligner.threshold_ <= 0.9


def test_empty_sides_give_no_links_and_keep_their_place(toy):
    pairs = [*toy[0][:50], ([], ["la"]), (["the"], []), ([], []), *toy[0][50:100]]
    rows = list(Aligner(n_jobs=1).fit_align(pairs))
    assert len(rows) == len(pairs)
    assert [len(row) for row in rows[50:53]] == [0, 0, 0]
    assert len(rows[53]) > 0


def test_long_pairs_are_cut_and_not_dropped(toy):
    source = [word for pair in toy[0] for word in pair[0]]
    target = [word for pair in toy[0] for word in pair[1]]
    assert len(source) > 5 * LONGEST
    aligner = Aligner(n_jobs=1).fit(toy[0])
    row = aligner.align([(source, target)])[0]
    right = [WORD[source[i]] == target[j] for i, j in row]
    assert len(row) > 0.8 * len(source)
    assert np.mean(right) > 0.95
    assert max(i for i, _ in row) > len(source) - 20


def test_pieces_tile_a_long_pair():
    source, target = np.array([0, 1000, 1010]), np.array([0, 30, 40])
    new_source, new_target, pieces = cut_long_pairs(source, target, longest=300)
    assert pieces.tolist() == [0, 4, 5]
    assert np.diff(new_source).max() <= 300
    assert new_source[[0, 4, 5]].tolist() == source.tolist()
    assert new_target[[0, 4, 5]].tolist() == target.tolist()


def test_words_are_told_apart_by_their_first_letters_in_lower_case():
    codes = WordCodes(5)
    bitext = code_pairs(
        [(["nationale", "Nationaux", "1234567", "1234568", "B2BABC", "b2bABC"], ["x"])], codes, WordCodes(5)
    )
    assert bitext.source.tolist() == [0, 0, 1, 2, 3, 3]
    assert all(codes._start(name) == name for name in codes.names)
    whole = WordCodes(None)
    assert [whole[word] for word in ("A", "a")] == [0, 1]


def test_a_word_that_training_has_in_lower_case_is_aligned_at_the_start_of_a_sentence():
    pairs = [("old houses stand", "alte haeuser stehen"), ("houses", "haeuser"), ("stand", "stehen"), ("old", "alte")]
    aligner = Aligner(n_jobs=1).fit(pairs * 5)
    assert aligner.align([("Houses stand", "Haeuser Stehen")])[0].pharaoh() == "0-0 1-1"


def test_mistakes_are_named(toy, tmp_path):
    with pytest.raises(NotFittedError, match="call fit first"):
        Aligner().align(toy[0])
    for settings, message in (
        ({"diagonal_scale": 0.5}, "diagonal_scale must be at least one word"),
        ({"diagonal_scale": float("nan")}, "diagonal_scale must be at least one word"),
        ({"same_spelling": -1.0}, "same_spelling must be 0 or more"),
        ({"same_spelling": float("inf")}, "same_spelling must be 0 or more"),
    ):
        with pytest.raises(DataError, match=message):
            Aligner(**settings).fit(toy[0])
    with pytest.raises(UnknownNameError, match="did you mean 'grow-diag'"):
        Aligner(symmetrize="grow-dig").fit(toy[0])
    with pytest.raises(DataError, match="none of the 2 pairs has words on both sides"):
        Aligner().fit([("", "x"), ("y", "")])
    with pytest.raises(DataError, match="there are no pairs"):
        Aligner().fit([])
    (tmp_path / "no").write_text("nothing")
    with pytest.raises(ModelFileError):
        Aligner.load(tmp_path / "no")


def test_parameters_can_be_cloned():
    assert clone(Aligner("both", gamma=0.5)).get_params()["gamma"] == 0.5


@pytest.mark.parametrize("evaluations", [0, 10**30])
def test_evaluations_that_no_kernel_can_count_are_refused(toy, evaluations):
    with pytest.raises(DataError, match="max_evaluations must be between 1 and a billion"):
        Aligner(max_evaluations=evaluations, n_jobs=1).fit(toy[0][:2])
