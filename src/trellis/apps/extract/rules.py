"""The rules of an extractor in each of their forms: the path of a rules file, its text, or a list of constraints."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from trellis.constraints import Constraint, RulesFile, parse_rules, starts
from trellis.constraints.compilation import named
from trellis.constraints.expression import Written, read_constraints, write_constraints
from trellis.data.bio import unmarked
from trellis.data.checks import check_names
from trellis.data.document import Document
from trellis.data.files import text_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, check_name

RulesLike = str | os.PathLike[str] | Sequence[Any]


@dataclass(frozen=True)
class ExtractionRules:
    """Rules that have been read.

    text : text of the rules file, None for constraints written in Python
    path : the name of the rules file in messages; its dictionaries are in the same folder
    """

    parsed: RulesFile
    text: str | None
    path: str

    @classmethod
    def read(cls, rules: RulesLike, path: str, files: Mapping[str, str] | None) -> Self:
        """Read rules in any form; ``path`` and ``files`` as in :func:`~trellis.constraints.parse_rules`."""
        if not isinstance(rules, str | os.PathLike):
            return cls._of_constraints(rules, path)
        if is_path(rules):
            return cls._of_text(text_of(rules), os.fspath(rules), files)
        return cls._of_text(str(rules), path, files)

    @classmethod
    def _of_text(cls, text: str, path: str, files: Mapping[str, str] | None) -> Self:
        # A model file must not be able to name a path: text with a line end is never taken for one.
        return cls(parse_rules(text, path, files), text if "\n" in text else f"{text}\n", path)

    @classmethod
    def _of_constraints(cls, constraints: Sequence[Any], path: str) -> Self:
        return cls(RulesFile(tuple(named(list(constraints))), None, {}, {}), None, path)

    @property
    def given(self) -> RulesLike:
        """The text, or the constraints: with it an extractor learns under the same rules."""
        return list(self.parsed) if self.text is None else self.text

    def to_json(self, labels: Sequence[str]) -> str | list[Written]:
        """The rules as a model file holds them."""
        return write_constraints(list(self.parsed), labels) if self.text is None else self.text

    @classmethod
    def from_json(cls, saved: str | list[Written], path: str, files: Mapping[str, str]) -> Self:
        """The inverse of :meth:`to_json`; opens no file."""
        if isinstance(saved, str):
            return cls._of_text(saved, path, files)
        return cls._of_constraints(read_constraints(saved), path)

    def chosen(self, usual: Mapping[str, float], without: Sequence[str]) -> list[Constraint]:
        """The constraints, and those of the usual fields with their prices, except the ones named in ``without``."""
        known = {c.name: c for c in self.parsed}
        for label, price in usual.items():
            known.setdefault(f"has {label}", (starts(label) >= 1).penalty(price).named(f"has {label}"))
        for name in without:
            check_name("rule", name, known)
        return [c for name, c in known.items() if name not in without]


def is_path(rules: str | os.PathLike[str]) -> bool:
    """Whether rules are given by their path: a string that names a file, or that cannot be the text of one.

    >>> is_path("rules.toml"), is_path('labels = ["NAME"]'), is_path("")
    (True, False, False)
    """
    if not isinstance(rules, str):
        return True
    if "\n" in rules or not rules.strip():
        return False
    return rules.endswith(".toml") or os.path.isfile(rules) or not any(sign in rules for sign in "=[#")


def label_names(rules: RulesFile, labelled: Sequence[Document], labels: Sequence[str] | None = None) -> Vocabulary:
    """The labels of the setting ``labels`` or of the rules file, otherwise those of the labelled texts."""
    if labels is not None and rules.labels is not None:
        raise DataError("the rules file already declares the labels: leave out labels=[...]")
    declared = rules.labels if labels is None else check_names(labels, "labels")
    if declared is not None:
        return Vocabulary(declared, kind="label")
    found = {label for t in labelled for label in unmarked(t.labels or ()) if label is not None}
    if not found:
        raise DataError(
            'the labels are not known: declare them in the rules file, labels = ["AUTHOR", ...], or in Python, '
            'Extractor(rules, labels=["AUTHOR", ...]), or give labelled texts (--labelled)'
        )
    return Vocabulary(sorted(found), kind="label")
