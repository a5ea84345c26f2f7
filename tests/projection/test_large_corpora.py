"""Bounds that are large because the corpus is: a price must be felt there as it is in a small one."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.constraints import compile_constraints, count
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.projection import project
from trellis.structures import Categorical

NAMES = Vocabulary(["A", "B"], kind="label")


@pytest.mark.parametrize("n", [20, 20_000])
@pytest.mark.parametrize("price", [0.5, 10.0])
def test_a_price_moves_the_posteriors_of_a_large_corpus(n, price):
    """Every instance prefers A by 1 nat; half of them may have it. By symmetry λ is 1, or the price if that is less."""
    scores = Categorical(np.tile([1.0, 0.0], (n, 1)))
    batch = Batch(np.arange(n + 1), np.full(n, -1, np.int32), np.ones(n))
    rule = (count("A").per("corpus") <= 0.5 * n).penalty(price)
    rows = compile_constraints([rule], batch, NAMES, scores.parts)
    found = project(scores, rows)
    assert found.duals.row[-1] == pytest.approx(min(1.0, price), abs=0.05)
    assert found.posterior.node[:, 0] == pytest.approx(1 / (1 + np.exp(-max(0.0, 1.0 - price))), abs=0.02)
