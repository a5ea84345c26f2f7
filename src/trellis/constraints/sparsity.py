"""Posterior sparsity: a price on how many labels each word (or any other key) is ever given.

    penalty  σ Σ_{w, k} max_{slots t with key w} q(y_t = k)            (l1/linf; Graça et al. 2009, eq. 5-6)

In the form of rows: q(y_t = k) ≤ ξ_{wk} for every slot t of w, penalty σ ‖(ξ_wk)‖ with an L∞ norm inside each group
(w, k), whose dual variables are λ_tk ≥ 0 with Σ_{t of w} λ_tk ≤ σ. The rows are one entry each and as many as slots
times labels, so they stay implicit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trellis.data.ragged import FloatArray, IntArray


@dataclass(frozen=True)
class Sparsity:
    """One l1/linf block.

    slots : (n,) the slots it concerns, increasing
    key : (n,) the key of each, 0..n_keys − 1
    strength : σ
    """

    name: str
    slots: IntArray
    key: IntArray
    n_keys: int
    strength: float

    def statistic(self, node: FloatArray) -> FloatArray:
        """(n_keys, K): max over the slots of each key of the marginals node (n_slots, K)."""
        largest = np.zeros((self.n_keys, node.shape[1]))
        np.maximum.at(largest, self.key, node[self.slots])
        return largest

    def shard(self, low: int, high: int) -> Sparsity:
        """The part of it that lies in slots low..high−1, renumbered; keys keep their numbers."""
        first, last = np.searchsorted(self.slots, [low, high])
        return replace(self, slots=self.slots[first:last] - low, key=self.key[first:last])
