"""Constrained best trees: integer search over trees against trying all of them."""

from __future__ import annotations

import numpy as np
import pytest
from structures.tree_twin import TreeCase

from trellis.constraints import arcs, column, compile_constraints
from trellis.data.batch import Batch, Column
from trellis.data.ragged import offsets_of
from trellis.data.vocabulary import Vocabulary
from trellis.search import decode

TAGS = [["D", "N", "V", "N"], ["N", "V", "D"]]
tag = column("upos")


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_the_best_tree_under_rules_is_found_and_proved(projective, seed):
    rng = np.random.default_rng(seed)
    lengths = tuple(map(len, TAGS))
    n_arcs = sum(n * n for n in lengths)
    arguments = {"arc": rng.normal(size=n_arcs), "single_root": bool(seed % 2)}
    if projective:
        arguments["nearest"] = rng.normal(size=n_arcs)
    case = TreeCase(lengths, projective, arguments)
    n = sum(lengths)
    upos = Column.of([t for own in TAGS for t in own])
    batch = Batch(offsets_of(lengths), np.full(n, -1, np.int32), np.ones(2), {"upos": upos})
    scores = case.structure()
    rules = [
        arcs(direction="left") <= 1,
        arcs(head=tag == "V", child=tag == "N") >= 1,
        (arcs(distance=1) >= 3).penalty(0.7),
    ]
    rows = compile_constraints(rules, batch, Vocabulary([]), scores.parts)
    found = decode(scores, rows)
    listed = case.listed()
    for i, own in enumerate(TAGS):
        best = -np.inf
        for heads, score in zip(case.trees(i), listed.score[i], strict=True):
            made = list(enumerate(heads, start=1))
            left = sum(0 < c < h for c, h in made)
            verbs = sum(h > 0 and own[h - 1] == "V" and own[c - 1] == "N" for c, h in made)
            near = sum(h > 0 and abs(h - c) == 1 for c, h in made)
            if left <= 1 and verbs >= 1:
                best = max(best, score - 0.7 * max(0, 3 - near))
        assert abs(found.value[i] - best) < 1e-6
        assert found.proved[i]
