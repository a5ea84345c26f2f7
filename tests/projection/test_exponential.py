"""exp and log of many numbers: as good as the library's."""

import numpy as np
import pytest

from trellis.projection.kernels.exponential import exponentiate, logarithms


@pytest.mark.parametrize("n", [0, 1, 7, 33, 1000])
def test_exp_and_log_are_those_of_the_library(n):
    rng = np.random.default_rng(n)
    x = 700 * rng.uniform(-1, 1, n)
    scratch, out = np.empty(n), np.empty(n)
    exponentiate(x, scratch, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=5e-16)
    # Near 1, where all digits of log come from the difference, and far from it.
    for y in (out.copy(), 1.0 + 0.5 * rng.uniform(-1, 1, n) ** 3):
        found = np.empty(n)
        logarithms(y.copy(), found)
        np.testing.assert_allclose(found, np.log(y), rtol=5e-16, atol=1e-18)
