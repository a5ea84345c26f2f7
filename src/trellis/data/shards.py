"""Cutting a corpus into shards by a rule that looks at the corpus alone.

The number of workers never enters, so sums taken in shard order have the same bits for any number of them.
Shards hold about equally many slots: enough that the fixed cost of one (its statistics are arrays as large as
the model) is small beside its work, few enough that two or twenty workers all find something to do.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import IntArray

SMALLEST = 32_768
"""A corpus of fewer slots than this is one shard. Smaller ones cost more to hand around than they gain."""
USUAL_COUNT = 32
"""Shards of a corpus of middling size."""
LARGEST = 131_072
"""No shard holds more slots than this, one long instance aside."""


def shard_bounds(offsets: IntArray) -> IntArray:
    """First instances of the shards and, last, the number of instances: (n_shards + 1,).

    >>> shard_bounds(np.arange(0, 60_001, 20)).tolist()
    [0, 1500, 3000]
    """
    n_slots, n_instances = int(offsets[-1]), len(offsets) - 1
    if n_instances == 0:
        return np.zeros(1, dtype=np.int64)
    count = max(min(n_slots // SMALLEST, USUAL_COUNT), -(-n_slots // LARGEST))
    # An even number: two workers, the usual case, then end together.
    count = count + count % 2 if n_slots >= SMALLEST else 1
    ideal = np.arange(1, count) * (n_slots / count)
    cuts = np.searchsorted(offsets, ideal)
    return np.unique(np.concatenate(([0], cuts, [n_instances]))).astype(np.int64)
