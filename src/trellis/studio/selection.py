"""Which texts are shown, in which order, and what is shown of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from trellis.data.bio import runs
from trellis.errors import UnknownNameError, check_name
from trellis.studio.models import Predictions, disagree
from trellis.studio.project import Project

MOST = 200
"""Texts of an answer at most."""
LONGEST_SEARCH = 200


@dataclass(frozen=True)
class TextQuery:
    """What is asked for: a filter, the rule that it is about, a search and an order."""

    filter: str = "all"
    rule: str = ""
    search: str = ""
    order: str = "file"


@dataclass
class RuleMatches:
    """Where rules apply and are violated: rule -> texts, by what was looked at."""

    labels: Mapping[str, frozenset[str]] = field(default_factory=dict)
    predictions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    applies: Mapping[str, frozenset[str]] = field(default_factory=dict)


class Selection:
    """Answers questions about the texts of a project; the last answer is kept until something changes."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.predictions = Predictions()
        self.found = RuleMatches()
        self.version = self.model_version = 0
        self._lower: tuple[int, list[str]] = (-1, [])
        self._kept: tuple[Any, list[int]] | None = None

    def show(self, predictions: Predictions) -> None:
        """Show the predictions of a model."""
        self.predictions = predictions
        self.version += 1
        self.model_version += 1

    def take(self, found: RuleMatches) -> None:
        """Take what rules do in the texts."""
        if found != self.found:
            self.found = found
            self.version += 1

    def numbers(self, asked: TextQuery) -> list[int]:
        """The places of the texts that are asked for, in order."""
        key = (asked, self.project.version, self.version)
        if self._kept is not None and self._kept[0] == key:
            return self._kept[1]
        passes = self._filter(asked)
        ids = self.project.ids
        numbers = [number for number, own in enumerate(ids) if passes(own)]
        search = asked.search.strip().casefold()
        if search:
            lower = self._lowered()
            numbers = [number for number in numbers if search in lower[number]]
        if asked.order == "doubt":
            of = self.predictions.of
            doubt = [-of[own].doubt if own in of else 0.0 for own in ids]
            numbers.sort(key=lambda number: (doubt[number], number))
        elif asked.order == "length":
            numbers.sort(key=lambda number: (len(self.project.texts[number]), number))
        elif asked.order != "file":
            raise UnknownNameError("order", asked.order, ("file", "doubt", "length"))
        self._kept = (key, numbers)
        return numbers

    def _lowered(self) -> list[str]:
        if self._lower[0] != self.project.version or len(self._lower[1]) != len(self.project.texts):
            self._lower = (self.project.version, [text.casefold() for text in self.project.texts])
        return self._lower[1]

    def _filter(self, asked: TextQuery) -> Callable[[str], bool]:
        labels, of, found = self.project.labels, self.predictions.of, self.found
        broken = found.labels.get(asked.rule, frozenset()), found.predictions.get(asked.rule, frozenset())
        applies = found.applies.get(asked.rule, frozenset())
        filters: dict[str, Callable[[str], bool]] = {
            "all": lambda own: True,
            "unlabelled": lambda own: own not in labels,
            "labelled": lambda own: own in labels,
            "partly": lambda own: own in labels and not labels[own].complete,
            "changed": lambda own: own in self.predictions.changed,
            "disagree": lambda own: own in labels and disagree(labels[own].labels, of.get(own)),
            "relaxed": lambda own: own in of and bool(of[own].relaxed),
            "broken": lambda own: own in broken[0] or own in broken[1],
            "broken-labels": lambda own: own in broken[0],
            "broken-predictions": lambda own: own in broken[1],
            "applies": lambda own: own in applies,
        }
        check_name("filter", asked.filter, filters)
        return filters[asked.filter]

    def rows(self, asked: TextQuery, first: int, n: int) -> dict[str, Any]:
        """A window of the texts that are asked for, and how many there are."""
        numbers = self.numbers(asked)
        first = max(first, 0)
        shown = numbers[first : first + min(max(n, 0), MOST)]
        return {"total": len(numbers), "first": first, "texts": [self.row(number) for number in shown]}

    def row(self, number: int) -> dict[str, Any]:
        """What is shown of a text."""
        project = self.project
        key = project.ids[number]
        text, known, predicted = project.text(key), project.labels.get(key), self.predictions.of.get(key)
        if predicted is not None and len(predicted.labels) != len(text):
            predicted = None  # the rules cut it otherwise now
        return {
            "id": key,
            "number": number + 1,
            "text": text.text,
            "spans": text.offsets,
            "labels": None if known is None else known.labels,
            "version": project.version_of(key),
            "predicted": None if predicted is None else predicted.fields(),
            "outside": None if predicted is None else [i for i, label in enumerate(predicted.labels) if label == "O"],
            "doubt": None if predicted is None else round(predicted.doubt, 4),
            "relaxed": [] if predicted is None else list(predicted.relaxed),
            "changed": key in self.predictions.changed,
            "disagrees": known is not None and disagree(known.labels, predicted),
            "broken": self.broken(key),
        }

    def broken(self, key: str) -> dict[str, list[str]]:
        """The rules that the labels of a text violate, and those that its prediction violates."""
        return {
            name: [rule for rule, texts in table.items() if key in texts]
            for name, table in (("labels", self.found.labels), ("predictions", self.found.predictions))
        }

    def next(self, after: str | None = None) -> str | None:
        """The text to label next: the one without labels that the model is least sure of, or the next of the file."""
        project, of = self.project, self.predictions.of
        free = [key for key in project.ids if key not in project.labels and key != after]
        if not free:
            return None
        known = {label for one in project.labels.values() for label, _, _ in runs(one.labels)}

        def worth(key: str) -> tuple[bool, float]:
            predicted = of.get(key)
            if predicted is None:
                return False, 0.0
            new = any(label not in known for label, _, _, _ in predicted.fields())  # a field that nobody has shown yet
            return new, predicted.doubt

        return max(free, key=worth)

    def counts(self) -> dict[str, int]:
        """How many texts there are of each kind."""
        project = self.project
        disagreeing = sum(disagree(one.labels, self.predictions.of.get(key)) for key, one in project.labels.items())
        return {
            "all": len(project.ids),
            "labelled": len(project.labels),
            "partly": sum(not one.complete for one in project.labels.values()),
            "unlabelled": len(project.ids) - len(project.labels),
            "changed": len(self.predictions.changed),
            "disagree": disagreeing,
            "relaxed": sum(bool(one.relaxed) for one in self.predictions.of.values()),
        }
