"""History of a run: a record of each round, which can be plotted and saved as JSON lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from trellis.data.display import line_svg
from trellis.data.files import FilePath, numbered_lines, writing
from trellis.data.hints import check_hints
from trellis.errors import DataError


@dataclass(frozen=True)
class Round:
    """One round: its E-step at the parameters it found, before its M-step.

    objective : what this setting claims to increase, with the parameters the round began with
    log_likelihood : Σ_i w_i log p(x_i) (of known labels too); of a discriminative model, of the known labels alone
    kl : KL(q ‖ p(y | x)) summed over instances; None where q is an average of several outputs (γ = 0)
    violation : constraint name -> mean excess of its rows under q
    kkt_residual : of the projection;  seconds : of the whole round
    dev : the development metric, where there is one
    gap : by at most how much a better q would have raised the objective (few_dual_steps)
    """

    number: int
    gamma: float
    objective: float
    log_likelihood: float | None = None
    kl: float | None = None
    violation: dict[str, float] = field(default_factory=dict)
    kkt_residual: float = 0.0
    evaluations: int = 0
    seconds: float = 0.0
    dev: float | None = None
    gap: float = 0.0


class History:
    """The rounds of one run, in order."""

    def __init__(self, rounds: list[Round] | None = None) -> None:
        self.rounds: list[Round] = [] if rounds is None else rounds

    def with_round(self, entry: Round) -> History:
        """This history with one round more."""
        return History([*self.rounds, entry])

    def __len__(self) -> int:
        return len(self.rounds)

    def __repr__(self) -> str:
        if not self.rounds:
            return "History(no rounds)"
        first, last = self.objective[0], self.objective[-1]
        rounds = "1 round" if len(self) == 1 else f"{len(self)} rounds"
        return f"History({rounds}, objective {first:.6g} → {last:.6g}, {sum(r.seconds for r in self):.3g} s)"

    def _repr_html_(self) -> str | None:
        about = f"objective over {len(self)} rounds, from {self.objective[0]:.6g}" if self.rounds else ""
        return line_svg(self.objective, about) if self.rounds else None

    def __iter__(self) -> Iterator[Round]:
        return iter(self.rounds)

    def __getitem__(self, number: int) -> Round:
        return self.rounds[number]

    @property
    def objective(self) -> list[float]:
        return [entry.objective for entry in self.rounds]

    def to_json(self) -> list[dict[str, object]]:
        return [asdict(entry) for entry in self.rounds]

    @classmethod
    def from_json(cls, entries: list[dict[str, Any]]) -> History:
        return cls([Round(**check_hints(Round, entry, "figure")) for entry in entries])

    def save(self, path: FilePath) -> None:
        """One JSON object a line."""
        with writing(path) as out:
            for entry in self.to_json():
                out.write(json.dumps(entry) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> History:
        """Read what ``save`` wrote."""
        history = cls()
        for number, line in numbered_lines(path):
            try:
                history.rounds.extend(cls.from_json([json.loads(line)]))
            except (TypeError, ValueError) as error:
                raise DataError(f"not a round of a history: {error}", path=path, line=number) from None
        return history
