"""Forbidden parts as patterns forbid what they would forbid as lists, whole and cut into shards."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.constraints import changed, compile_constraints, label, previous, transitions, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import InfeasibleError
from trellis.structures import Chain, ChainParts
from trellis.structures.part_set import PartSet

LABELS = Vocabulary(["A", "B", "C", "D"], kind="label")
WHERE = [None, ~word.isin(","), word.isin("x", ","), word.isin("nowhere")]


@st.composite
def rules(draw: st.DrawFn):
    some = st.lists(st.sampled_from(list(LABELS)), min_size=1, max_size=3, unique=True)
    kind = draw(st.sampled_from(["none", "from", "pair", "rule", "label"]))
    where = draw(st.sampled_from(WHERE))
    if kind == "none":
        return transitions(where=where) == 0
    if kind == "from":
        return transitions(where=where, from_=draw(some), to=draw(some)) <= 0
    if kind == "pair":
        return (previous(*draw(some)) & label(*draw(some))).implies(word.isin(",")).constraint()
    if kind == "rule":
        return (changed & word.isin("x")).implies(label(*draw(some)) | previous(*draw(some))).constraint()
    return word.isin("x", "y").implies(label(*draw(some))).constraint()


@pytest.mark.slow
@given(st.data())
def test_patterns_forbid_what_lists_would(data: st.DataObject) -> None:
    text = data.draw(st.lists(st.lists(st.sampled_from(["x", "y", ","]), max_size=6), min_size=1, max_size=4))
    batch = Batch.from_sentences(text)
    parts = ChainParts(batch.offsets, len(LABELS))
    try:
        rows = compile_constraints(data.draw(st.lists(rules(), min_size=1, max_size=3)), batch, LABELS, parts)
    except InfeasibleError:
        return
    rng = np.random.default_rng(0)
    chain = Chain(batch.offsets, rng.normal(size=(batch.n_slots, 4)), rng.normal(size=(4, 4)))
    listed, by = rows.forbidden.listed()
    assert len(listed) == len(rows.forbidden)
    pairs = set(zip(listed.tolist(), by.tolist(), strict=True))
    assert len(pairs) == len(listed)
    assert (
        rows.forbidden.contains(np.arange(parts.n_parts)).tolist() == np.isin(np.arange(parts.n_parts), listed).tolist()
    )
    cut = data.draw(st.integers(0, len(text)))
    for first, last in ((0, len(text)), (0, cut), (cut, len(text))):
        shard, mine = rows.shard(first, last), parts.within(listed, first, last)[1]
        assert shard.forbidden.listed()[0].tolist() == sorted(mine.tolist())
        scores = chain.instances(first, last)
        masked, forbidden = scores.apply(shard.mask), scores.forbid(mine)
        try:
            expected = forbidden.infer(at=np.arange(shard.parts.n_parts))
        except InfeasibleError:
            continue
        found = masked.infer(at=np.arange(shard.parts.n_parts))
        assert found.log_partition.tobytes() == expected.log_partition.tobytes()
        assert np.array_equal(found.node, expected.node)
        assert np.array_equal(found.edge, expected.edge)
        assert np.allclose(found.edge_counts, expected.edge_counts, rtol=0, atol=1e-12)
        assert masked.argmax().outputs.tolist() == forbidden.argmax().outputs.tolist()


def test_a_rule_for_all_boundaries_is_one_pattern() -> None:
    batch, many = (
        Batch.from_sentences([["x", ",", "y"] * 50] * 3),
        Vocabulary([f"L{k}" for k in range(30)], kind="label"),
    )
    rows = compile_constraints([transitions(where=~word.isin(",")) == 0], batch, many, ChainParts(batch.offsets, 30))
    (some,) = rows.forbidden.sets
    assert (len(some.at), len(some.start) - 1) == (3 * 99, 1)
    assert len(rows.forbidden) == 3 * 99 * 30 * 29
    assert len(rows) == 0
    assert rows.mask.patterns.shape == (2, 30, 30)


def test_pieces_that_share_parts_are_listed() -> None:
    pattern = np.array([0, 2]), np.array([0, 3])
    one = PartSet(np.array([4, 20]), np.zeros(2, np.int32), *pattern)
    other = PartSet(np.array([5, 30]), np.zeros(2, np.int32), *pattern)
    both = PartSet.union([one, other, PartSet.of(np.array([7, 40]))])
    assert both.listed().tolist() == [4, 5, 7, 8, 20, 23, 30, 33, 40]
    assert len(both) == 9
    assert both.contains(np.array([[4, 6], [33, 41]])).tolist() == [[True, False], [True, False]]
