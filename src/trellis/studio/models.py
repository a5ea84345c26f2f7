"""Models of a project, and what the newest one predicts.

models/N.trellis          the model
models/N.json             settings, commands, times, numbers of texts, scores
models/N.jsonl            ``trellis extract predict`` of text.txt
models/N.labels.jsonl     the same of labels.jsonl
models/N.cv.jsonl         of each wholly labelled text the prediction of a model that was trained without it
models/N.cv-gold.jsonl    the labels of these texts
models/N.rules.jsonl      ``trellis extract explain``
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from sys import intern
from typing import Any

from trellis.data.bio import runs, unmarked
from trellis.data.files import lies_in, numbered_lines
from trellis.data.jsonlines import parse_json
from trellis.errors import TrellisError
from trellis.studio.project import digest

NAME = re.compile(r"[1-9][0-9]{0,5}")


@dataclass(frozen=True, slots=True)
class Predicted:
    """Labels of the tokens of a text, the probability of each field, and the rules that were relaxed."""

    labels: tuple[str, ...]
    probabilities: tuple[float, ...]
    relaxed: tuple[str, ...] = ()

    @property
    def doubt(self) -> float:
        """How unsure the least sure field is, from 0 to 1."""
        if self.relaxed:
            return 1.0
        return 1.0 - min(self.probabilities, default=1.0)

    def fields(self) -> list[tuple[str, int, int, float | None]]:
        """Label, first token, the one after the last, and probability of each field."""
        found = list(runs(self.labels))
        sure: list[float | None] = [*self.probabilities, *[None] * len(found)]
        return [(label, first, last, p) for (label, first, last), p in zip(found, sure, strict=False)]


@dataclass
class Predictions:
    """What a model predicts, by text.

    changed : texts that the model before it labels otherwise
    """

    model: str | None = None
    of: dict[str, Predicted] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)


def models_in(folder: Path) -> list[dict[str, Any]]:
    """What is known of every model, oldest first; those with a file that is a link out of the project are left out."""
    found = []
    for path in folder.glob("*.json"):
        own = NAME.fullmatch(path.stem) and folder.glob(f"{path.stem}.*")
        if own and all(lies_in(file, folder.parent) for file in own):
            with suppress(OSError, ValueError):
                about = json.loads(path.read_text(encoding="utf-8"))
                if isinstance(about, dict) and (folder / f"{path.stem}.trellis").exists():
                    found.append({**about, "name": path.stem})
    return sorted(found, key=lambda about: int(about["name"]))


def next_name(folder: Path) -> str:
    """The number of the next model."""
    used = [int(path.name.split(".")[0]) for path in folder.glob("*") if NAME.fullmatch(path.name.split(".")[0])]
    return str(max(used, default=0) + 1)


def predictions_of(folder: Path, name: str) -> dict[str, Predicted]:
    """Predictions of a model by text, those of ``text.txt`` and of labelled texts."""
    found: dict[str, Predicted] = {}
    for path in (folder / f"{name}.jsonl", folder / f"{name}.labels.jsonl"):
        if path.exists():
            found.update(_read(path))
    return found


def out_of_fold(folder: Path, name: str) -> dict[str, Predicted]:
    """Predictions of labelled texts by models that have not seen them; of all of them, where there are none."""
    path = folder / f"{name}.cv.jsonl"
    return dict(_read(path if path.exists() else folder / f"{name}.labels.jsonl"))


def _read(path: Path) -> Iterator[tuple[str, Predicted]]:
    if not path.exists():
        return
    for number, line in numbered_lines(path):
        record = parse_json(line, path.name, number)
        labels = tuple(map(intern, record["labels"]))
        probabilities = tuple(float(one.get("probability", 0.0)) for one in record["fields"])
        if "relaxed" in record:
            probabilities = ()
        yield digest(record["text"]), Predicted(labels, probabilities, tuple(map(str, record.get("relaxed", ()))))


def load(folder: Path, name: str) -> Predictions:
    """What a model predicts, and where the one before it predicts something else."""
    of = predictions_of(folder, name)
    before = [about["name"] for about in models_in(folder) if int(about["name"]) < int(name)]
    changed: set[str] = set()
    if before:
        with suppress(TrellisError, KeyError, TypeError, ValueError):
            earlier = predictions_of(folder, before[-1])
            changed = {key for key, one in of.items() if key in earlier and earlier[key].labels != one.labels}
    return Predictions(name, of, changed)


def rule_reports(folder: Path, name: str) -> dict[str, dict[str, Any]]:
    """What ``trellis extract explain`` says of each rule, by its name."""
    path, found = folder / f"{name}.rules.jsonl", {}
    if path.exists():
        with suppress(TrellisError, KeyError, TypeError):
            for number, line in numbered_lines(path):
                record = parse_json(line, path.name, number)
                found[str(record["name"])] = record
    return found


def disagree(labels: tuple[str | None, ...], predicted: Predicted | None) -> bool:
    """Whether a known label is predicted otherwise."""
    if predicted is None or len(labels) != len(predicted.labels):
        return False
    pairs = zip(unmarked(labels), unmarked(predicted.labels), strict=True)
    return any(a is not None and a != b for a, b in pairs)


def changes_of(before: Mapping[str, Predicted], after: Mapping[str, Predicted]) -> dict[str, list[int]]:
    """Label -> number of its fields before and after."""
    counts: dict[str, list[int]] = {}
    for at, found in enumerate((before, after)):
        for one in found.values():
            for label, _, _, _ in one.fields():
                counts.setdefault(label, [0, 0])[at] += 1
    return counts
