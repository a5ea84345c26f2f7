"""What it means for a structure to agree with its twin, query by query.

Probabilities agree to 1e-10 absolutely, logarithms to 1e-10 * max(1, |value|).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy import stats

from trellis.errors import InfeasibleError

from .twins import Output, Twin

TOLERANCE = 1e-10

# A correct sampler fails a chi-square test at this level once in ten thousand seeds, and the seeds are fixed. A coin
# at each slot of a backtrace, the likeliest mistake in breaking ties, has an expected p-value below 1e-200 here.
SIGNIFICANCE = 1e-4


def assert_logs_agree(actual: Any, expected: Any) -> None:
    """Equal infinities, and finite values within 1e-10 * max(1, |value|)."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    finite = np.isfinite(expected)
    np.testing.assert_array_equal(actual[~finite], expected[~finite])
    np.testing.assert_array_less(
        np.abs(actual[finite] - expected[finite]), TOLERANCE * np.maximum(1.0, np.abs(expected[finite]))
    )


def assert_probabilities_agree(actual: Any, expected: Any, tolerance: float = TOLERANCE) -> None:
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape
    np.testing.assert_allclose(actual, expected, rtol=0.0, atol=tolerance)


def with_edges(structure: Any, weights: np.ndarray | None = None) -> Any:
    """The posterior with marginals of all parts."""
    return structure.infer(weights=weights, at=np.arange(structure.parts.n_parts))


def assert_infer_agrees(structure: Any, twin: Twin, *, edges: bool = True, counts: bool = True) -> None:
    """Log-partitions, node marginals and, for a chain, edge marginals and expected edge counts."""
    posterior = with_edges(structure) if edges else structure.infer()
    assert_logs_agree(posterior.log_partition, twin.log_partition)
    assert_probabilities_agree(posterior.node, twin.node_marginals)
    assert_probabilities_agree(np.sum(posterior.node, axis=1), np.ones(twin.n_slots))
    assert np.all(posterior.node >= 0.0)
    if edges and twin.n_slots:
        assert_probabilities_agree(posterior.edge, twin.edge_marginals)
    else:
        assert posterior.edge is None
    if counts:
        assert_probabilities_agree(posterior.edge_counts, twin.edge_counts())


def assert_argmax_agrees(structure: Any, twin: Twin, *, exact: bool, rng: np.random.Generator | None = None) -> None:
    """The best score and an output that has it: by the tie rule, or any tied one with a generator.

    Where sums round, outputs that tie in one order of adding need not tie in another: any output within the
    tolerance of the best is then right.
    """
    result = structure.argmax() if rng is None else structure.argmax(rng)
    assert result.outputs.dtype == np.int32
    assert result.outputs.shape == (twin.n_slots,)
    assert_logs_agree(result.score, twin.best_score)
    if exact and rng is None:
        np.testing.assert_array_equal(result.outputs, twin.argmax)
    for i, listing in enumerate(twin.listings):
        output = output_of(twin, i, result.outputs)
        margin = 0.0 if exact else TOLERANCE * max(1.0, abs(listing.best_score))
        assert output in listing.within(margin)


def assert_kbest_agrees(structure: Any, twin: Twin, k: int) -> None:
    """The enumeration's best scores in order, distinct outputs that have them, then -1 and -inf."""
    result = structure.kbest(k)
    assert result.labels.dtype == np.int32
    assert result.labels.shape == (k, twin.n_slots)
    assert result.score.shape == (k, twin.n_instances)
    for i, listing in enumerate(twin.listings):
        assert_logs_agree(result.score[:, i], listing.best_scores(k))
        assert np.all(result.score[:-1, i] >= result.score[1:, i])
        own_score = {tuple(map(int, y)): float(s) for y, s in zip(listing.labels, listing.score, strict=True)}
        found = [output_of(twin, i, row) for row in result.labels]
        present = min(k, listing.n_possible)
        assert len(set(found[:present])) == present
        for rank, output in enumerate(found):
            if rank < present:
                assert_logs_agree(result.score[rank, i], own_score[output])
            else:
                assert output == (-1,) * len(twin.slots(i))
                assert result.score[rank, i] == -math.inf


def assert_score_agrees(structure: Any, twin: Twin, labels: np.ndarray) -> None:
    """Scores and log-probabilities of an output; log-probabilities are never positive."""
    expected = twin.score(labels)
    assert_logs_agree(structure.score(labels), expected)
    log_prob = structure.log_prob(labels)
    assert np.all(log_prob <= 0.0)
    forbidden = expected == -math.inf
    np.testing.assert_array_equal(log_prob == -math.inf, forbidden)
    # A log-probability is a difference of two logs, each known to its own magnitude.
    magnitude = np.maximum(1.0, np.maximum(np.abs(expected), np.abs(twin.log_partition)))[~forbidden]
    difference = log_prob[~forbidden] - (expected - twin.log_partition)[~forbidden]
    np.testing.assert_array_less(np.abs(difference), TOLERANCE * magnitude)


def assert_samples_possible(structure: Any, twin: Twin, n: int, seed: int) -> None:
    """Every sample is an output of positive probability, and the seed decides the samples."""
    samples = structure.sample(n, np.random.default_rng(seed))
    assert samples.dtype == np.int32
    assert samples.shape == (n, twin.n_slots)
    for labels in samples:
        assert np.all(twin.score(labels) > -math.inf)
    np.testing.assert_array_equal(samples, structure.sample(n, np.random.default_rng(seed)))


def assert_every_query_names(structure: Any, twin: Twin) -> None:
    """Each query of a batch with an impossible instance raises, and names the first such instance."""
    some_output = np.zeros(twin.n_slots, dtype=np.int64)
    queries = {
        "infer": lambda: structure.infer(),
        "argmax": lambda: structure.argmax(),
        "argmax at random": lambda: structure.argmax(np.random.default_rng(0)),
        "kbest": lambda: structure.kbest(2),
        "sample": lambda: structure.sample(2, np.random.default_rng(0)),
        "entropy": lambda: structure.entropy(),
        "log_prob": lambda: structure.log_prob(some_output),
    }
    for name, query in queries.items():
        with pytest.raises(InfeasibleError) as caught:
            query()
        assert twin.infeasible[0] in caught.value.instances, name
        assert set(caught.value.instances) <= set(twin.infeasible), name
        assert re.search(rf"\b{twin.infeasible[0]}\b", str(caught.value).replace(",", "")), name


def output_of(twin: Twin, instance: int, labels: np.ndarray) -> Output:
    """The labels of one instance, as a tuple."""
    return tuple(int(labels[t]) for t in twin.slots(instance))


def assert_frequencies(observed: list[Any], distribution: dict[Any, float]) -> None:
    """Chi-square: the observed outcomes were drawn from the distribution."""
    counts = Counter(observed)
    assert set(counts) <= set(distribution)
    total = sum(distribution.values())
    expected = np.array([len(observed) * p / total for p in distribution.values()])
    seen = np.array([counts[y] for y in distribution])
    if len(expected) > 1:
        assert np.min(expected) >= 5.0, "too few draws for a chi-square test"
        assert stats.chisquare(seen, expected).pvalue > SIGNIFICANCE
