"""Small random pairs in both directions, whose projections can be found by listing all alignments."""

import cvxpy
import numpy as np

from tests.align.twin import SPAN, Twin
from trellis.constraints import compile_constraints
from trellis.data.vocabulary import Vocabulary
from trellis.structures import Joint

P_NULL = 0.2


class Pairs:
    """What compiling asks of a batch."""

    def __init__(self, n, n_slots=0):
        self.n, self.first, self.n_slots, self.weights = n, 0, n_slots, np.ones(n)

    def __len__(self):
        return self.n


class Problem:
    """Two random directions of some pairs."""

    def __init__(self, seed, sharpness=2.0, shapes=((3, 3),), hmm=True):
        rng = np.random.default_rng(seed)
        n_source, n_target = [list(side) for side in zip(*shapes, strict=True)]
        n_links = sum(i * j for i, j in shapes)
        self.twins = [
            Twin(
                n_source, n_target, sharpness * rng.standard_normal(n_links),
                rng.standard_normal(sum(n_target if forward else n_source)),
                rng.random(2 * SPAN + 1) + 0.1 if hmm else None, rng.random(SPAN + 1) + 0.1 if hmm else None,
                P_NULL, forward,
            )
            for forward in (True, False)
        ]  # fmt: skip
        self.joint = Joint(*(twin.structure() for twin in self.twins))

    def rows(self, constraints):
        return compile_constraints(list(constraints), Pairs(len(self.twins[0])), Vocabulary([]), self.joint.parts)

    def by_cvxpy(self, rows, gamma):
        """The projection of one pair as a convex program over all alignments: (marginals of parts, least value)."""
        rows = rows.written_out()
        log_p = [twin.scores(0) for twin in self.twins]
        q = [cvxpy.Variable(len(p), nonneg=True) for p in log_p]
        objective = -sum(p @ v for p, v in zip(log_p, q, strict=True))
        if gamma > 0:
            objective -= gamma * sum(cvxpy.sum(cvxpy.entr(v)) for v in q)
        use = []
        for k, twin in enumerate(self.twins):
            matrix = np.zeros((self.joint.members[k].parts.n_parts, len(log_p[k])))
            for column, y in enumerate(twin.outputs(0)):
                matrix[twin.parts_of(0, y), column] = 1
            use.append(matrix)
        marginal = cvxpy.hstack([m @ v for m, v in zip(use, q, strict=True)])
        rules = [cvxpy.sum(v) == 1 for v in q]
        for r in range(len(rows)):
            entries = slice(rows.start[r], rows.start[r + 1])
            over = rows.coefficient[entries] @ marginal[rows.part[entries]] - rows.bound[r]
            amount = rows.groups.amount[rows.group[r]]
            if amount > 0:
                violation = cvxpy.Variable(nonneg=True)
                rules += [over <= violation] + ([-over <= violation] if rows.equality[r] else [])
                objective += amount * violation
            else:
                rules.append(over == 0 if rows.equality[r] else over <= 0)
        problem = cvxpy.Problem(cvxpy.Minimize(objective), rules)
        if gamma > 0:
            problem.solve(solver="CLARABEL", tol_gap_abs=1e-9, tol_gap_rel=1e-9, tol_feas=1e-9)
        else:
            # The simplex method: interior points stop short where optima are not unique.
            problem.solve(solver="SCIPY", scipy_options={"method": "highs-ds"})
        return marginal.value, problem.value
