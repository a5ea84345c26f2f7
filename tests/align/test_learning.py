"""Training through UEM: the objective, the tables, the constraints' effect, independence of threads."""

import pickle
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import gammaln, psi

from tests.align.toy import toy_text
from trellis.apps.align.aligner import Aligner
from trellis.apps.align.constraint_sets import CONSTRAINTS
from trellis.data.bitext import each_pair
from trellis.errors import DataError, UnknownNameError
from trellis.learn.uem import UEM
from trellis.models import load_model
from trellis.models.alignment import AlignmentModel, SentencePairs, places
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.kernels.update import FEW, exp_digamma, log_gamma
from trellis.models.alignment.translation import ExtraCounts, Prior, masses, prior_tables

pytestmark = pytest.mark.slow


def encoded(n=60, seed=0, **settings):
    model = AlignmentModel(**{"prefix": None, **settings})
    return model, model.encode(toy_text(n, seed)[0], fit=True)


def counts_of(model, batch):
    return model.collect(batch, model.scores(batch).infer(weights=batch.weights)).total()


@pytest.mark.parametrize("variational", [True, False])
@pytest.mark.parametrize("prefix", [None, 1])
@pytest.mark.parametrize(
    "kind, gamma", [("none", 1.0), ("agreement", 1.0), ("bijective", 1.0), ("both", 1.0), ("agreement", 0.5)]
)
def test_the_objective_rises_at_every_round(kind, gamma, prefix, variational):
    model, batch = encoded(variational=variational, concentration=0.1, prefix=prefix)
    settings = {"gamma": gamma, "start": "model", "tol": 0.0, "projection_tol": 1e-5, "max_evaluations": 3000}
    for stage in ("model1", "hmm"):
        model.kind = stage
        # The mean of the prior, where tables start, is no variational posterior: the first round is before the bound.
        model = UEM(model, CONSTRAINTS[kind], max_iter=1, **settings).fit(batch).model_
        learner = UEM(model, CONSTRAINTS[kind], max_iter=4, **settings).fit(batch)
        model, values = learner.model_, learner.history_.objective
        # Tables are kept in single precision: what that rounds away is allowed, and no more.
        assert np.diff(values).min() >= -2e-6 * abs(values[-1]), np.diff(values)
        assert values[-1] > values[0]


def test_likelihood_violation_and_divergence_are_told_where_asked_for():
    model, batch = encoded(30)
    model.update(counts_of(model, batch))
    learner = UEM(
        model, CONSTRAINTS["both"], start="model", max_iter=2, tol=0.0, projection_tol=1e-5, max_evaluations=2000
    ).fit(batch)  # fmt: skip
    last = learner.history_[-1]
    assert set(last.violation) == {c.code() for c in CONSTRAINTS["both"]}
    assert max(last.violation.values()) <= 1e-4
    assert last.kl >= 0.0
    assert last.log_likelihood is not None


def test_variational_update_is_the_digamma_of_counts():
    for x in (0.01, 0.1, 1.0, 7.5, 300.0):
        np.testing.assert_allclose(exp_digamma(x), np.exp(psi(x)), rtol=1e-9)
    model, batch = encoded(20, concentration=0.1, same_spelling=0.0)
    statistics = counts_of(model, batch)
    model.update(statistics)
    row = slice(model.words_.table.row_offsets[0], model.words_.table.row_offsets[1])
    counts = statistics.pairs[0][row, 0]
    want = np.exp(psi(counts + 0.1) - psi((counts + 0.1).sum()))
    np.testing.assert_allclose(model.words_.tables.pair[row, 0], want, rtol=1e-6)


@pytest.mark.parametrize("extra", [{}, {0: 2.0, 3: 0.5, 11: 1.0}])
def test_log_prior_of_the_variational_tables_is_minus_the_kl_divergence(extra):
    model, batch = encoded(20, concentration=0.1, same_spelling=0.0)
    model.words_.extra = ExtraCounts(np.array(list(extra), np.int64), np.array(list(extra.values())))
    model.reset()
    statistics, table = counts_of(model, batch), model.words_.table
    model.update(statistics)

    alphas = np.full(len(table), 0.1)
    alphas[list(extra)] += list(extra.values())

    def minus_kl(counts, alpha=None):
        alpha = np.full(len(counts), 0.1) if alpha is None else alpha
        full = counts + alpha
        kl = gammaln(full.sum()) - gammaln(full).sum() - gammaln(alpha.sum()) + gammaln(alpha).sum()
        return -(kl + (counts * (psi(full) - psi(full.sum()))).sum())

    want = minus_kl(statistics.null1) + minus_kl(statistics.null2)
    for e in range(table.n_sources):
        row = slice(table.row_offsets[e], table.row_offsets[e + 1])
        want += minus_kl(statistics.pairs[0][row, 0], alphas[row])
    for f in range(table.n_targets):
        want += minus_kl(statistics.pairs[0][table.row_targets == f, 1], alphas[table.row_targets == f])
    want += sum(places.log_prior(model.jump_pseudo_count) for places in model.places_)
    np.testing.assert_allclose(model.log_prior(), want, rtol=1e-6)


@pytest.mark.parametrize("variational", [True, False])
def test_the_log_prior_of_small_counts_is_that_of_large_ones_taken_to_the_limit(variational):
    """Counts below a thousandth of α go by a series: just above and just below it, the sum has no step."""
    model, batch = encoded(20, concentration=0.1, same_spelling=0.0, variational=variational)
    statistics, values = counts_of(model, batch), []
    for share in (0.0, FEW * 0.999, FEW * 1.001):
        pairs = np.full(statistics.pairs[0].shape, 0.1 * share)
        model.update(replace(statistics, pairs=(pairs,), places=None))
        values.append(model.log_prior())
    slope = (values[2] - values[0]) / (FEW * 1.001)
    assert values[1] == pytest.approx(values[0] + slope * FEW * 0.999, rel=1e-9)


@pytest.mark.parametrize("x", [1e-9, 0.01, 0.1, 1.0, 7.5, 300.0, 1e8])
def test_the_log_of_the_gamma_function(x):
    assert log_gamma(x) == pytest.approx(gammaln(x), rel=1e-9, abs=1e-10)


def test_tables_start_at_the_mean_of_the_prior():
    table = encoded(20)[0].words_.table
    extra = ExtraCounts(np.array([0, 4]), np.array([1.5, -1.0]), alike=0.7)
    prior = Prior(0.5, True, extra)
    tables = prior_tables(table, prior, masses(table, prior, table.opposite()))
    row = table.row_offsets[1] - table.row_offsets[0]
    np.testing.assert_allclose(tables.pair[0, 0], 2.0 / (0.5 * row + 1.5), rtol=1e-6)
    np.testing.assert_allclose(tables.pair[1, 0], 0.5 / (0.5 * row + 1.5), rtol=1e-6)
    np.testing.assert_allclose(tables.alike1[0], 1.2 / (0.5 * row + 1.5), rtol=1e-6)
    assert tables.pair[4].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("variational", [True, False])
@pytest.mark.parametrize("concentration", [1e-6, 1e-3, 0.012, 1.0, 1e3])
def test_unseen_and_alike_pairs_have_probabilities_at_any_concentration(concentration, variational):
    model, batch = encoded(20, concentration=concentration, variational=variational)
    for _ in range(2):
        tables = model.words_.tables
        for unseen, alike in ((tables.unseen1, tables.alike1), (tables.unseen2, tables.alike2)):
            assert unseen.min() > 0.0
            assert np.all(alike >= unseen)
            assert alike.max() <= 1.0
        model.update(counts_of(model, batch))


@pytest.mark.parametrize("kind", ["model1", "hmm"])
def test_expected_counts_are_a_link_or_a_null_for_every_word_and_sum_over_shards(kind):
    model, batch = encoded(30, kind=kind)
    whole = counts_of(model, batch)
    np.testing.assert_allclose(whole.pairs[0][:, 0].sum() + whole.null1.sum(), len(batch.target), rtol=1e-5)
    np.testing.assert_allclose(whole.pairs[0][:, 1].sum() + whole.null2.sum(), len(batch.source), rtol=1e-5)
    total = None
    for part in (batch.instances(0, 10), batch.instances(10, 30)):
        found = model.collect(part, model.scores(part).infer())
        if total is None:
            total = found
        else:
            total += found
    np.testing.assert_allclose(total.pairs[0], whole.pairs[0], atol=1e-6)
    if kind == "hmm":
        np.testing.assert_allclose(total.places[1].jumps, whole.places[1].jumps, atol=1e-9)
    np.testing.assert_allclose((whole * 0.5).null1, whole.null1 * 0.5)


def test_weights_count_pairs_more_often_and_empty_sides_count_nothing():
    model = AlignmentModel("hmm", prefix=None)
    pairs = [("a b", "x y"), ("a", "x"), ("", "x x"), ("b", "")]
    batch = model.encode(pairs, fit=True, weights=[2.0, 1.0, 1.0, 1.0])
    twice = model.encode([pairs[0], *pairs])
    one, other = counts_of(model, batch), counts_of(model, twice)
    np.testing.assert_allclose(one.pairs[0], other.pairs[0], atol=1e-6)
    np.testing.assert_allclose(one.null1, other.null1, atol=1e-6)
    np.testing.assert_allclose(one.places[0].jumps, other.places[0].jumps, atol=1e-9)


@pytest.mark.filterwarnings("ignore:the projection was not solved")
@pytest.mark.parametrize("gamma, prefix", [(1.0, None), (0.5, None), (1.0, 1)])
def test_one_and_four_threads_give_the_same_bits(gamma, prefix):
    found = []
    for threads in (1, 4):
        model, batch = encoded(1500, with_prior=False, prefix=prefix)
        for kind in ("model1", "hmm"):
            model.kind = kind
            learner = UEM(
                model, CONSTRAINTS["both"], gamma=gamma if kind == "hmm" else 1.0, start="model", max_iter=2, tol=0.0,
                projection_tol=0.05, max_evaluations=3, n_jobs=threads, track_likelihood=False,
            ).fit(batch)  # fmt: skip
            model = learner.model_
        found.append((model.words_.tables.pair.tobytes(), model.places_[0].jump.tobytes()))
    assert found[0] == found[1]


def test_pruning_keeps_what_was_learned():
    left, right = toy_text(300)[0][0]
    [(source, target)] = each_pair([(left, right)])
    told = {(e, f): 1e-9 for e in source for f in target}
    model, batch = encoded(300, priors=told)
    for _ in range(4):
        model.update(counts_of(model, batch))
    before, extra = by_words(model), {named(model, int(k)) for k in model.words_.extra.at}
    small = model.trimmed()
    assert extra
    assert by_words(model) == before, "the model itself stays as it is"
    assert len(small.words_.table) < len(model.words_.table) / 2
    assert by_words(small).items() <= before.items()
    assert extra <= by_words(small).keys()
    unseen1, unseen2 = model.words_.tables.unseen1, model.words_.tables.unseen2
    for (e, f), (t1, t2) in before.items():
        if (e, f) not in by_words(small):
            assert t1 <= 1.25 * unseen1[e]
            assert t2 <= 1.25 * unseen2[f]
    model.prune(least=0.01)
    assert by_words(model) == before, "nothing is dropped where most would stay"
    model.prune()
    assert by_words(model) == by_words(small)
    assert {named(model, int(k)) for k in model.words_.extra.at} == extra
    model.update(counts_of(model, batch))
    assert model.words_.tables.unseen1[0] == pytest.approx(unseen1[0], rel=0.05), "norms count the pairs that went"


def by_words(model):
    return {named(model, k): tuple(model.words_.tables.pair[k].tolist()) for k in range(len(model.words_.table))}


def named(model, k):
    return int(model.words_.table.sources()[k]), int(model.words_.table.row_targets[k])


def test_counts_of_a_new_text_leave_out_pairs_that_the_table_lacks():
    model = AlignmentModel("model1", prefix=None)
    model.encode([("a", "x"), ("b", "y")], fit=True)
    assert counts_of(model, model.encode([("a", "y")])).pairs[0].sum() == 0.0


@pytest.mark.parametrize("settings", [{}, {"prefix": 2}, {"prefix": 2, "whole_words": False}])
def test_a_saved_model_scores_the_same_bits(tmp_path, settings):
    model, batch = encoded(50, **settings)
    model.update(counts_of(model, batch))
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    new = [*toy_text(20)[0], (["cattle", "xx", "7"], ["taco", "tacs", "7"])]
    one, other = (m.scores(m.encode(new)).infer() for m in (model, loaded))
    assert one.members[0].link.tobytes() == other.members[0].link.tobytes()
    assert one.log_partition.tobytes() == other.log_partition.tobytes()


def test_rows_of_a_file_may_have_any_order():
    """Files of before rows were rising."""
    model, batch = encoded(50)
    model.update(counts_of(model, batch))
    names, arrays = model.learned()
    order = np.concatenate(
        [np.arange(low, high)[::-1] for low, high in pairwise(model.words_.table.row_offsets.tolist())]
    )
    other = AlignmentModel(prefix=None)
    other.restore(names, {**arrays, "row_targets": arrays["row_targets"][order], "pair": arrays["pair"][order]})
    assert by_words(other) == by_words(model)
    assert other.words_.table.row_targets.tolist() == model.words_.table.row_targets.tolist()


def test_a_batch_is_cut_and_taken_apart():
    _, batch = encoded(6)
    assert batch.take(np.arange(6)) is batch
    some = batch.take(np.array([4, 1]))
    assert isinstance(some, SentencePairs)
    assert some.source.tolist() == [*batch.instances(4, 5).source, *batch.instances(1, 2).source]
    assert some.offsets.tolist() == [0, batch.instances(4, 5).n_slots, some.n_slots]
    assert not batch.complete.any()
    assert not batch.known


def test_parameters_come_back():
    model, batch = encoded(10)
    before = model.parameters()
    model.update(counts_of(model, batch))
    assert not np.array_equal(before["pair"], model.words_.tables.pair)
    model.set_parameters(before)
    np.testing.assert_array_equal(model.words_.tables.pair, before["pair"])
    model.randomize(np.random.default_rng(0))
    assert model.uniform(batch).infer().members[0].link.max() <= 0.5


def test_mistakes_in_parameters_are_named():
    pairs = toy_text(5)[0]
    with pytest.raises(DataError, match="probability of null"):
        AlignmentModel(p_null=1.0).encode(pairs, fit=True)
    with pytest.raises(UnknownNameError, match="model1"):
        AlignmentModel("model2").encode(pairs, fit=True)
    with pytest.raises(DataError, match="trusted"):
        AlignmentModel().encode(pairs, [[(0, 0)]], fit=True)


@pytest.mark.parametrize("long_row", [24, 0])
def test_cells_have_the_entries_of_their_words(monkeypatch, long_row):
    """Stamped rows and searched ones, whole batches and cuts of them, against a dictionary of the table."""
    monkeypatch.setattr(kernel, "LONG_ROW", long_row)
    if long_row == 0:  # in Python, where the constant is looked up
        monkeypatch.setattr(kernel, "number_cells", kernel.number_cells.py_func)
    model, batch = encoded(60)
    for _ in range(3):
        model.update(counts_of(model, batch))
    model.prune()
    place = {named(model, k): k for k in range(len(model.words_.table))}
    for start, stop in ((0, 60), (3, 17), (59, 60), (5, 5)):
        part = batch.instances(start, stop)
        entries, cells = model.words_.table.number(part)
        expected = []
        for s in range(len(part)):
            source = part.source[part.source_offsets[s] : part.source_offsets[s + 1]].tolist()
            target = part.target[part.target_offsets[s] : part.target_offsets[s + 1]].tolist()
            expected += [place.get((e, f), -1) for e in source for f in target]
        assert np.append(entries, -1)[cells].tolist() == expected
        assert len(set(entries.tolist())) == len(entries)
        if stop - start == 60:
            assert -1 in expected


def test_cells_are_remembered_only_while_somebody_holds_them():
    model, batch = encoded(20)
    scores = model.scores(batch)
    assert model.words_.table.number(batch)[1] is scores.members[0].words.cells
    assert pickle.loads(pickle.dumps(batch)).cells_in(model.words_.table) is None
    other = encoded(20)[0]
    assert batch.cells_in(other.words_.table) is None
    del scores
    assert batch.cells_in(model.words_.table) is None


def test_a_frequent_word_has_jumps_of_its_own():
    """One word is translated by two words in a row, all others by one."""
    rng, words = np.random.default_rng(3), [f"w{k}" for k in range(12)]
    pairs = []
    for _ in range(150):
        source = rng.choice(["two", *words], 6, replace=False).tolist()
        pairs.append(
            (source, [part for word in source for part in (["deux", "fois"] if word == "two" else [f"v{word}"])])
        )
    model = Aligner(constraint="none", n_jobs=1).fit(pairs).model_
    row = model._rows[0][model.stems_.source.find("two")]
    stay = model.places_[0].factors[:, places.NEAR]
    assert stay[row] > 2.0
    assert np.delete(stay, row).max() < 1.2
    np.testing.assert_array_equal(model.places_[0].factors[0], 1.0)


def test_only_the_most_frequent_words_have_jumps_of_their_own(monkeypatch):
    monkeypatch.setattr(places, "FREQUENT", 2)
    assert places.rows_of_words(np.array([3, 9, 1, 9])).tolist() == [0, 1, 0, 2, 0]
    assert places.rows_of_words(np.array([], np.int64)).tolist() == [0]
