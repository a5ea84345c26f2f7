"""The layout of rows: order, norm groups, shards."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import few_labels_per, word
from trellis.constraints.rows import COUPLING, Rows
from trellis.errors import InfeasibleError
from trellis.structures import CategoricalParts, ChainParts, PartPosterior, Parts

from .plain import any_constraints, cases

pytestmark = pytest.mark.slow


@given(st.data())
@settings(max_examples=30)
def test_shards_add_up_to_the_whole(data: st.DataObject) -> None:
    case = data.draw(cases())
    drawn = [data.draw(any_constraints(case)).constraint for _ in range(data.draw(st.integers(1, 3)))]
    soft = [c.penalty(1) if data.draw(st.booleans()) else c for c in drawn]
    try:
        rows = case.compile(*soft, few_labels_per(word, strength=1))
    except InfeasibleError:
        return
    q = any_posterior(rows.parts)
    weights = np.random.default_rng(1).random(len(case.sentences))
    whole, weighted = rows.expect(q), rows.expect(q, weights)
    cut = data.draw(st.integers(0, len(case.sentences)))
    total, weighted_total, n_forbidden = np.zeros(len(rows)), np.zeros(len(rows)), 0
    (block,) = rows.sparsity
    largest = np.zeros((block.n_keys, block.width))
    for first, last in ((0, cut), (cut, len(case.sentences))):
        shard = rows.shard(first, last)
        mine = in_shard(q, rows.parts, first, last)
        total[shard.row_number] += shard.expect(mine)
        weighted_total[shard.row_number] += shard.expect(mine, weights[first:last])
        n_forbidden += len(shard.forbidden)
        part, by = shard.forbidden.listed()
        assert np.all(np.diff(part * (1 + len(drawn)) + by) > 0)  # increasing, and once for each constraint
        assert np.array_equal(shard.bound, rows.bound[shard.row_number])
        assert np.array_equal(shard.largest[: shard.n_local], rows.largest[shard.row_number[: shard.n_local]])
        assert shard.parts.n_parts == ChainParts(case.batch.instances(first, last).offsets, len(case.labels)).n_parts
        largest = np.maximum(largest, shard.sparsity[0].statistic(mine.at(shard.sparsity[0].parts)))
    assert total == pytest.approx(whole)
    assert weighted_total == pytest.approx(weighted)
    assert n_forbidden == len(rows.forbidden)
    assert largest == pytest.approx(block.statistic(q.at(block.parts)))


def any_posterior(parts: Parts) -> PartPosterior:
    """A number for every part, which need not be those of any distribution."""
    return PartPosterior(np.random.default_rng(0).random(parts.n_parts), np.zeros(parts.n_instances))


def in_shard(q: PartPosterior, parts: Parts, first: int, last: int) -> PartPosterior:
    kept, numbers = parts.within(np.arange(parts.n_parts), first, last)
    return PartPosterior(q.marginal[kept][np.argsort(numbers)], q.log_partition[first:last])


@given(st.data())
@settings(max_examples=30)
def test_products_with_rows_are_those_with_their_matrix(data: st.DataObject) -> None:
    case = data.draw(cases())
    rows = case.compile(*(data.draw(any_constraints(case)).constraint.penalty(1) for _ in range(3)))
    matrix = np.zeros((len(rows), rows.parts.n_parts))
    matrix[rows.entry_row, rows.part] = rows.coefficient
    q = any_posterior(rows.parts)
    assert rows.expect(q) == pytest.approx(matrix @ q.marginal)
    weights = np.random.default_rng(1).random(len(case.sentences))
    each = weights[rows.parts.instance_of(np.arange(rows.parts.n_parts))]
    assert rows.expect(q, weights) == pytest.approx(matrix @ (each * q.marginal))
    dual = np.random.default_rng(2).normal(size=len(rows))
    pulled = np.bincount(rows.part, rows.pull(dual), minlength=rows.parts.n_parts)
    assert pulled == pytest.approx(-matrix.T @ dual)
    assert rows.largest == pytest.approx(np.abs(matrix).max(axis=1, initial=0.0))
    output = data.draw(st.sampled_from(list(case.outputs())))
    used = np.bincount(rows.parts.of(case.encode(output)), minlength=rows.parts.n_parts)
    assert rows.evaluate(case.encode(output)) == pytest.approx(matrix @ used)


@given(st.data())
@settings(max_examples=30)
def test_rows_of_taken_instances_say_of_them_what_they_said(data: st.DataObject) -> None:
    case = data.draw(cases())
    rows = case.compile(*(data.draw(any_constraints(case)).constraint.penalty(1) for _ in range(3)))
    local = rows.select(rows.instance != COUPLING)
    numbers = np.array(
        data.draw(st.lists(st.sampled_from(range(len(case.sentences))), unique=True).map(sorted)), dtype=np.int64
    )
    taken = local.take(numbers, rows.parts.zeros().take(numbers).parts)
    assert taken.parts.n_instances == len(numbers)
    q = any_posterior(rows.parts)
    instance, own = taken.parts.split(np.arange(taken.parts.n_parts))
    some = PartPosterior(q.at(rows.parts.join(numbers[instance], own)), q.log_partition[numbers])
    chosen = np.isin(local.instance, numbers)
    assert taken.expect(some) == pytest.approx(local.expect(q)[chosen])
    assert np.array_equal(numbers[taken.instance], local.instance[chosen])


@given(st.data())
@settings(max_examples=30)
def test_the_mask_leaves_the_outputs_that_use_no_forbidden_part(data: st.DataObject) -> None:
    case = data.draw(cases())
    try:
        rows = case.compile(*(data.draw(any_constraints(case)).constraint for _ in range(2)))
    except InfeasibleError:
        return
    masked = rows.parts.zeros().apply(rows.mask)
    for output in case.outputs():
        labels = case.encode(output)
        free = not rows.forbidden.contains(rows.parts.of(labels)).any()
        assert masked.score(labels).sum() == (0.0 if free else -np.inf)


@given(st.data())
@settings(max_examples=30)
def test_rows_are_laid_out_as_promised(data: st.DataObject) -> None:
    case = data.draw(cases())
    drawn = [data.draw(any_constraints(case)).constraint.penalty(i + 1) for i in range(3)]
    rows = case.compile(*drawn)
    local = rows.instance[: rows.n_local]
    assert np.all(np.diff(local) >= 0)
    assert np.all(local >= 0)
    assert np.all(rows.instance[rows.n_local :] == COUPLING)
    for r in range(len(rows)):
        parts = rows.part[rows.start[r] : rows.start[r + 1]]
        assert np.all(np.diff(parts) > 0)
        if rows.instance[r] != COUPLING:
            assert np.all(rows.parts.instance_of(parts) == rows.instance[r])
    # one group for every constraint and instance, or for every constraint whose rows couple instances
    assert np.array_equal(rows.groups.amount[rows.group], rows.constraint + 1.0)
    pairs = {(int(c), int(i)) for c, i in zip(rows.constraint, rows.instance, strict=True)}
    assert len(pairs) == len(rows.groups) == len(set(rows.group.tolist()))
    holes = np.flatnonzero(~rows.parts.has_boundary())
    edges = rows.part[rows.part >= rows.parts.n_node_parts] - rows.parts.n_node_parts
    assert not np.isin(edges // rows.parts.n_labels**2, holes).any()


def test_values_of_rows_are_the_same_by_table_and_by_search() -> None:
    """Few entries over many parts are looked up in another way."""
    rng = np.random.default_rng(0)
    parts, few = CategoricalParts(200, 5), np.array([3, 7, 500, 996])
    for part in (few, np.sort(rng.choice(1000, 400, replace=False))):
        starts = np.array([0, 2, 2, len(part)])
        base = Rows.none(parts)
        made = Rows(
            **{
                **vars(base),
                "start": starts,
                "part": part,
                "coefficient": rng.normal(size=len(part)),
                "bound": np.zeros(3),
            }
        )
        assert (parts.n_parts <= 8 * len(part)) == (part is not few)
        labels = rng.integers(0, 5, 200)
        labels[[0, 100]] = 3, 0
        used = np.isin(part, np.arange(200) * 5 + labels)
        expected = [(made.coefficient * used)[a:b].sum() for a, b in pairwise(starts)]
        np.testing.assert_allclose(made.evaluate(labels), expected, rtol=1e-12)
        assert used.any()
