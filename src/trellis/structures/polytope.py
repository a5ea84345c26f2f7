"""The outputs of a structure as a 0/1 program: what integer search reads.

    outputs = { x : matrix · x = bound,  x ∈ {0, 1} },      part p is used by x if  (use · x)_p = 1

Variables may be finer than parts (the anchors of an alignment HMM, say): ``use`` says which variables use a part, and
scores are those of variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray


@dataclass(frozen=True)
class Polytope:
    """Equations and scores.

    matrix : scipy sparse (n_equations, n_variables);  bound : (n_equations,)
    use : scipy sparse CSR (n_parts, n_variables)
    score : (n_variables,)
    whole : (n_variables,) bool: where these are 0 or 1, so are the others
    outputs : a 0/1 vector (or one near to it) -> outputs in the structure's own form
    """

    matrix: Any
    bound: FloatArray
    use: Any
    score: FloatArray
    whole: BoolArray
    outputs: Callable[[FloatArray], Any]


def side_by_side(members: Sequence[Polytope]) -> Polytope:
    """Several polytopes over variables of their own, as one; its outputs are one of each."""
    from scipy.sparse import block_diag

    cuts = np.cumsum([0, *(len(member.score) for member in members)])
    nothing, empty = np.zeros((0, 0)), np.zeros(0)  # of no members at all

    def outputs(x: FloatArray) -> tuple[Any, ...]:
        return tuple(m.outputs(x[a:b]) for m, a, b in zip(members, cuts[:-1], cuts[1:], strict=True))

    return Polytope(
        matrix=block_diag([nothing, *(member.matrix for member in members)], format="csr"),
        bound=np.concatenate([empty, *(member.bound for member in members)]),
        use=block_diag([nothing, *(member.use for member in members)], format="csr"),
        score=np.concatenate([empty, *(member.score for member in members)]),
        whole=np.concatenate([empty.astype(np.bool_), *(member.whole for member in members)]),
        outputs=outputs,
    )
