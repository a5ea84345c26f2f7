"""A constraint of your own: verbs come late in a sentence.

    E_q[ Σ_t (t/T − after) · [y_t = label] ] ≥ 0          t/T: relative position of token t, from 0 to 1

Any statement that is linear in the parts of an output can be a constraint. It describes itself (``code``,
``statement``) and returns its rows (``blocks``): part numbers, their coefficients, and an upper bound of the sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis import HMM, UEM, count
from trellis.constraints import Constraint
from trellis.constraints.context import Context, RowBlock


@dataclass(frozen=True, eq=False, repr=False)
class Late(Constraint):
    """The expected relative position of a label in its sentence is at least ``after``."""

    label: str
    after: float = 0.5

    def code(self) -> str:
        return f"Late({self.label!r}, {self.after:g})"

    def statement(self) -> str:
        return f"in every sentence the expected position of {self.label} is at least {self.after:g} of its length"

    def blocks(self, context: Context) -> Sequence[RowBlock]:
        slot = np.arange(context.n_slots)
        place = context.from_start / np.maximum(context.from_start + context.from_end, 1)
        n = len(context.batch)
        return [
            RowBlock(
                row=context.instance,  # one row per sentence
                part=context.parts.label(slot, context.labels.number(self.label)),
                coefficient=self.after - place,  # Σ (after − place) q ≤ 0
                bound=np.zeros(n),
                equality=False,
                instance=np.arange(n),
                sign=1,
                offset=np.zeros(n),
                subject=f"missing position of {self.label}",
                where=lambda row: f"sentence {row}",
            )
        ]


def main() -> list[str]:
    text = [s.split() for s in ("in the garden roses grow", "on old walls cats sleep", "under green trees birds sing")]
    rules = [(count("VERB") == 1).named("one verb"), Late("VERB", 0.9).named("verbs come late")]
    learner = UEM(HMM(["OTHER", "VERB"], min_count=1), rules, max_iter=10, tol=0, random_state=0).fit(text)
    likely = learner.predict_proba(text)
    return [words[int(p[:, 1].argmax())] for words, p in zip(text, likely, strict=True)]


if __name__ == "__main__":
    print("verbs:", *main())
