"""Tables of what parts are worth: one row that the others are compared with, and what each change adds to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from _panel.common import Score

from trellis.data.ragged import FloatArray


@contextmanager
def constant(owner: Any, name: str, value: Any) -> Iterator[None]:
    """With another value of a constant or a function."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def rows_table(found: Sequence[Score], base: str, title: str) -> str:
    """Rows by corpora: means over draws of the row ``base``, and differences of the others to it on the same draws."""
    values: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for one in found:
        values.setdefault((one.system, one.corpus), []).append((one.value, one.other or 0.0))
    corpora = list(dict.fromkeys(corpus for _, corpus in values))
    lines = [f"| {title} | {' | '.join(corpora)} | mean |", "| --- " * (len(corpora) + 2) + "|"]
    for row in dict.fromkeys(row for row, _ in values):
        own = [np.array(values[row, corpus]) for corpus in corpora]
        if row == base:
            means = [one.mean(axis=0) for one in own]
            cells = [f"{value:.1f} ({other:.1f})" for value, other in [*means, np.mean(means, axis=0)]]
        else:
            cells = _differences(own, [np.array(values[base, corpus]) for corpus in corpora])
        lines.append(f"| {row} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _differences(own: Sequence[FloatArray], base: Sequence[FloatArray]) -> list[str]:
    """Of (n_draws, 2) scores of each corpus, and their mean over corpora, with standard errors over draws."""
    less = [one - other for one, other in zip(own, base, strict=True)]
    error = [float(d[:, 0].std(ddof=1) / len(d) ** 0.5) if len(d) > 1 else 0.0 for d in less]
    means = [d.mean(axis=0) for d in less]
    rows = zip([*means, np.mean(means, axis=0)], [*error, float(np.hypot.reduce(error)) / len(error)], strict=True)
    return [f"{value:+.1f} ±{e:.1f} ({other:+.1f})" for (value, other), e in rows]
