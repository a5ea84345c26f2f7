"""The layout of rows: order, norm groups, shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import COUPLING, compile_constraints, few_labels_per, word
from trellis.errors import InfeasibleError

from .plain import any_constraints, cases


@given(st.data())
@settings(max_examples=60)
def test_shards_add_up_to_the_whole(data: st.DataObject) -> None:
    case = data.draw(cases())
    drawn = [data.draw(any_constraints(case)).constraint for _ in range(data.draw(st.integers(1, 3)))]
    soft = [c.penalty(1) if data.draw(st.booleans()) else c for c in drawn]
    try:
        rows = compile_constraints([*soft, few_labels_per(word, strength=1)], case.batch, case.vocabulary)
    except InfeasibleError:
        return
    n, k = rows.parts.n_slots, rows.parts.n_labels
    rng = np.random.default_rng(0)
    node, edge = rng.random((n, k)), rng.random((n, k, k))
    whole = rows.expect(node, edge)
    cut = data.draw(st.integers(0, len(case.sentences)))
    total = np.zeros(len(rows))
    n_forbidden = 0
    largest = np.zeros((rows.sparsity[0].n_keys, k))
    for first, last in ((0, cut), (cut, len(case.sentences))):
        low, high = int(rows.parts.offsets[first]), int(rows.parts.offsets[last])
        shard = rows.shard(first, last)
        total[shard.row_number] += shard.expect(node[low:high], edge[low:high])
        n_forbidden += len(shard.forbidden)
        assert np.all(np.diff(shard.forbidden) > 0)
        assert np.array_equal(shard.bound, rows.bound[shard.row_number])
        alone = compile_constraints([], case.batch.instances(first, last), case.vocabulary).parts
        assert shard.parts.n_parts == alone.n_parts
        largest = np.maximum(largest, shard.sparsity[0].statistic(node[low:high]))
    assert total == pytest.approx(whole)
    assert n_forbidden == len(rows.forbidden)
    assert largest == pytest.approx(rows.sparsity[0].statistic(node))


@given(st.data())
@settings(max_examples=60)
def test_rows_are_laid_out_as_promised(data: st.DataObject) -> None:
    case = data.draw(cases())
    drawn = [data.draw(any_constraints(case)).constraint.penalty(i + 1) for i in range(3)]
    rows = compile_constraints(drawn, case.batch, case.vocabulary)
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
