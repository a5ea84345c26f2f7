"""Training: the objective, the tables, the constraints' effect, independence of threads."""

import numpy as np
import pytest
from scipy.special import gammaln, psi

from tests.align.toy import toy_text
from trellis.data.bitext import WordCodes, code_pairs
from trellis.engine import engine_for
from trellis.errors import DataError, UnknownNameError
from trellis.learn.align_em import train_alignment
from trellis.models.alignment import AlignmentConstraints, AlignmentModel, AlignmentStatistics, ExtraCounts, PairTable
from trellis.structures.kernels.align_update import exp_digamma

ENGINE = engine_for(1)


def coded(n=60, seed=0):
    pairs, _ = toy_text(n, seed)
    source, target = WordCodes(None), WordCodes(None)
    return PairTable.build(code_pairs(pairs, source, target), len(source.names), len(target.names))


@pytest.mark.parametrize("variational", [True, False])
@pytest.mark.parametrize(
    "kind, gamma", [("none", 1.0), ("agreement", 1.0), ("bijective", 1.0), ("both", 1.0), ("agreement", 0.5)]
)
def test_the_objective_never_falls(kind, gamma, variational):
    table, pairs = coded()
    model = AlignmentModel(table, variational=variational, concentration=0.1, beam=0.0)
    constraints = AlignmentConstraints(kind, gamma, tolerance=1e-5, max_evaluations=3000)
    for stage in ("model1", "hmm"):
        model.kind = stage
        values = []
        for number in range(6):
            statistics = model.collect(pairs, constraints, ENGINE)
            if number or stage == "hmm":
                values.append(statistics.value + model.log_prior())
            model.update(statistics, ENGINE, score=True)
        gains = np.diff(values)
        # Tables are kept in single precision: what that rounds away is allowed, and no more.
        assert gains.min() >= -2e-6 * abs(values[-1]), gains
        assert values[-1] > values[0]


def test_variational_update_is_the_digamma_of_counts():
    for x in (0.01, 0.1, 1.0, 7.5, 300.0):
        np.testing.assert_allclose(exp_digamma(x), np.exp(psi(x)), rtol=1e-9)
    table, pairs = coded(20)
    model = AlignmentModel(table, concentration=0.1)
    statistics = model.collect(pairs, AlignmentConstraints("none"), ENGINE)
    model.update(statistics, ENGINE, score=True)
    row = slice(table.row_offsets[0], table.row_offsets[1])
    counts = statistics.pairs[row, 0]
    want = np.exp(psi(counts + 0.1) - psi((counts + 0.1).sum()))
    np.testing.assert_allclose(model.tables.pair[row, 0], want, rtol=1e-6)


@pytest.mark.parametrize("extra", [{}, {0: 2.0, 3: 0.5, 11: 1.0}])
def test_log_prior_of_the_variational_tables_is_minus_the_kl_divergence(extra):
    table, pairs = coded(20)
    counts_before = ExtraCounts(np.array(list(extra), np.int64), np.array(list(extra.values())))
    model = AlignmentModel(table, concentration=0.1, extra=counts_before)
    statistics = model.collect(pairs, AlignmentConstraints("none"), ENGINE)
    model.update(statistics, ENGINE, score=True)

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
        want += minus_kl(statistics.pairs[row, 0], alphas[row])
    for f in range(table.n_targets):
        want += minus_kl(statistics.pairs[table.row_targets == f, 1], alphas[table.row_targets == f])
    want += sum(places.log_prior(model.jump_pseudo_count) for places in model.places)
    np.testing.assert_allclose(model.log_prior(), want, rtol=1e-6)


def test_tables_start_at_the_mean_of_the_prior():
    table, _ = coded(20)
    extra = ExtraCounts(np.array([0, 4]), np.array([1.5, -1.0]), alike=0.7)
    tables = AlignmentModel(table, concentration=0.5, extra=extra).tables
    row = table.row_offsets[1] - table.row_offsets[0]
    np.testing.assert_allclose(tables.pair[0, 0], 2.0 / (0.5 * row + 1.5), rtol=1e-6)
    np.testing.assert_allclose(tables.pair[1, 0], 0.5 / (0.5 * row + 1.5), rtol=1e-6)
    np.testing.assert_allclose(tables.alike1[0], 1.2 / (0.5 * row + 1.5), rtol=1e-6)
    assert tables.pair[4].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("variational", [True, False])
@pytest.mark.parametrize("concentration", [1e-6, 1e-3, 0.012, 1.0, 1e3])
def test_unseen_and_alike_pairs_have_probabilities_at_any_concentration(concentration, variational):
    table, pairs = coded(20)
    extra = ExtraCounts(alike=1.0)
    model = AlignmentModel(table, concentration=concentration, variational=variational, extra=extra)
    for _ in range(2):
        tables = model.tables
        for unseen, alike in ((tables.unseen1, tables.alike1), (tables.unseen2, tables.alike2)):
            assert unseen.min() > 0.0
            assert np.all(alike >= unseen)
            assert alike.max() <= 1.0
        model.update(model.collect(pairs, AlignmentConstraints("none"), ENGINE), ENGINE)


def test_expected_counts_are_a_link_or_a_null_for_every_word():
    table, pairs = coded(30)
    statistics = AlignmentModel(table).collect(pairs, AlignmentConstraints("agreement"), ENGINE)
    np.testing.assert_allclose(statistics.pairs[:, 0].sum() + statistics.null1.sum(), len(pairs.target), rtol=1e-5)
    np.testing.assert_allclose(statistics.pairs[:, 1].sum() + statistics.null2.sum(), len(pairs.source), rtol=1e-5)


@pytest.mark.parametrize("gamma", [1.0, 0.5, 0.0])
def test_one_and_three_threads_give_the_same_bits(gamma):
    table, pairs = coded(1500)
    found = []
    for threads in (1, 3):
        model = AlignmentModel(table)
        train_alignment(
            model, pairs, AlignmentConstraints(gamma=gamma), engine_for(threads), model1_rounds=2, hmm_rounds=2
        )
        found.append((model.tables.pair.tobytes(), model.places[0].jump.tobytes()))
    assert found[0] == found[1]


def test_warm_started_duals_need_no_more_evaluations():
    table, pairs = coded(200)
    spent = []
    for warm in (False, True):
        model = AlignmentModel(table)
        constraints = AlignmentConstraints(tolerance=1e-2, max_evaluations=200)
        history = train_alignment(model, pairs, constraints, ENGINE, model1_rounds=2, hmm_rounds=4, warm_start=warm)
        spent.append(history[-1].evaluations)
    assert spent[1] <= spent[0]


def test_pruning_keeps_what_was_learned():
    table, pairs = coded(300)
    model = AlignmentModel(table)
    train_alignment(model, pairs, AlignmentConstraints(), ENGINE)
    small, moved = model.pruned()
    assert len(small.table) < len(table) / 2
    kept = moved >= 0
    np.testing.assert_array_equal(small.tables.pair[moved[kept]], model.tables.pair[kept])


def test_counts_of_a_new_text_leave_out_pairs_that_the_table_lacks():
    source, target = WordCodes(None), WordCodes(None)
    table, _ = PairTable.build(code_pairs([(["a"], ["x"]), (["b"], ["y"])], source, target), 2, 2)
    source.frozen = target.frozen = True
    new = table.look_up(code_pairs([(["a"], ["y"])], source, target))
    assert AlignmentModel(table).collect(new, AlignmentConstraints("none"), ENGINE).pairs.sum() == 0.0


def test_gamma_zero_may_evaluate_eight_times_as_often():
    assert AlignmentConstraints(gamma=0.0, max_evaluations=3).budget == 24
    assert AlignmentConstraints(gamma=0.1, max_evaluations=3).budget == 3


def test_mistakes_in_parameters_are_named():
    table, _ = coded(5)
    with pytest.raises(UnknownNameError, match="did you mean 'agreement'"):
        AlignmentConstraints("agrement")
    with pytest.raises(DataError, match="gamma must be 0 or between"):
        AlignmentConstraints(gamma=-1.0)
    with pytest.raises(DataError, match="probability of null"):
        AlignmentModel(table, p_null=1.0)
    with pytest.raises(UnknownNameError, match="model1"):
        AlignmentModel(table, kind="model2")


def test_statistics_start_at_zero():
    table, _ = coded(5)
    assert AlignmentStatistics.zeros(table).pairs.sum() == 0.0
