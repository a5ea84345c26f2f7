"""Posterior sparsity: a price on how many labels each word (or any other key) is ever given.

    penalty  σ Σ_{w, k} max_{occurrences t of w} q(y_t = k)            (l1/linf; Graça et al. 2009, eq. 5-6)

In the form of rows: q(y_t = k) ≤ ξ_{wk} for every occurrence t of w, penalty σ ‖(ξ_wk)‖ with an L∞ norm inside each
group (w, k), whose dual variables are λ_tk ≥ 0 with Σ_{t of w} λ_tk ≤ σ. The rows are one entry each and as many as
occurrences times labels, so they stay implicit: an occurrence is a run of ``width`` consecutive parts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from trellis.data.ragged import FloatArray, IntArray
from trellis.structures.parts import Parts


@dataclass(frozen=True)
class Sparsity:
    """One l1/linf block.

    first : (n,) the first part of each occurrence, increasing;  width : parts of an occurrence
    key : (n,) the key of each, 0..n_keys − 1
    strength : σ
    """

    name: str
    first: IntArray
    width: int
    key: IntArray
    n_keys: int
    strength: float

    def __len__(self) -> int:
        return len(self.first)

    @property
    def parts(self) -> IntArray:
        """(n, width): the parts of each occurrence."""
        return self.first[:, None] + np.arange(self.width, dtype=np.int64)

    def statistic(self, marginals: FloatArray) -> FloatArray:
        """(n_keys, width): max over the occurrences of each key of the marginals (n, width)."""
        largest = np.zeros((self.n_keys, self.width))
        np.maximum.at(largest, self.key, marginals)
        return largest

    def shard(self, parts: Parts, first: int, last: int) -> Sparsity:
        """What of it lies in instances first..last−1, in the part numbers of that shard; keys keep their numbers."""
        kept, numbers = parts.within(self.first, first, last)
        return replace(self, first=numbers, key=self.key[kept])
