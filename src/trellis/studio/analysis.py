"""Where rules apply in texts and are violated, which of them conflict, and rules that a selection suggests.

These run in a process of their own, since they compile constraints: the page stays quick meanwhile. What they take and
give are plain values.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from trellis.errors import InfeasibleError, TrellisError

if TYPE_CHECKING:
    from trellis.constraints import RulesFile

Given = tuple[str, tuple[str, ...], tuple[tuple[int, int], ...], tuple[str | None, ...] | None]
"""Text, words, their places, and labels."""
EXAMPLES = 60
"""Places of a rule that are listed."""


@dataclass(frozen=True)
class RuleFound:
    """One rule in some texts.

    places : where it applies;  texts : numbers of the texts it applies in
    at : (text, token or None) of the first places;  broken : numbers of the texts whose labels violate it
    tested : at how many places labels test it;  n_broken : at how many of these they violate it
    """

    name: str
    sentence: str
    strength: str
    places: int
    texts: tuple[int, ...]
    at: tuple[tuple[int, int | None], ...]
    broken: tuple[int, ...]
    tested: int
    n_broken: int


@dataclass(frozen=True)
class Analysed:
    """What a rules file does; error : why it cannot be read, with the line where that is known."""

    rules: tuple[RuleFound, ...] = ()
    labels: tuple[str, ...] = ()
    error: str | None = None
    line: int | None = None
    conflict: str | None = None
    conflict_at: tuple[int, ...] = field(default=())


def watch_parent(parent: int) -> None:
    """End this process when the one that started it is gone."""

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(0)

    threading.Thread(target=look, daemon=True).start()


def read(rules: str, folder: str) -> RulesFile:
    """Read rules of a project, which may name files of its folder only."""
    from trellis.constraints.rules import files_beside_rules_only, parse_rules

    with files_beside_rules_only():
        return parse_rules(rules, os.path.join(folder, "rules.toml"))


def fault_of(rules: str, folder: str) -> str | None:
    """Why rules cannot be read; None if they can."""
    try:
        read(rules, folder)
    except TrellisError as error:
        return _plain(error, folder)
    return None


def analyse(rules: str, folder: str, given: Sequence[Given], conflicts: bool = True) -> Analysed:
    """Read rules and look where they apply in texts, and where labels violate them."""
    from trellis.apps.extract.rules import label_names
    from trellis.data.document import Document

    try:
        parsed = read(rules, folder)
        texts = [Document(words, labels, text=text, offsets=spans) for text, words, spans, labels in given if words]
        numbers = [number for number, one in enumerate(given) if one[1]]
        names = label_names(parsed, texts)
    except TrellisError as error:
        return Analysed(error=_plain(error, folder), line=getattr(error, "line", None))
    if not texts or not len(names):
        return Analysed(labels=tuple(names))
    constraints = list(parsed)
    try:
        found = _places(constraints, texts, names, numbers)
        conflict = _conflict(constraints, texts, names) if conflicts else None
    except TrellisError as error:
        return Analysed(labels=tuple(names), error=_plain(error, folder), line=getattr(error, "line", None))
    if conflict is None:
        return Analysed(tuple(found), tuple(names))
    said = str(conflict)
    for instance in conflict.instances:
        said = said.replace(f"instance {instance}", f"text {numbers[instance] + 1}")
    return Analysed(
        tuple(found), tuple(names), conflict=said, conflict_at=tuple(numbers[i] for i in conflict.instances)
    )


def _plain(error: TrellisError, folder: str) -> str:
    """The message, with paths as they are in the folder."""
    return str(error).replace(folder + os.sep, "")


def _places(constraints: list[Any], texts: list[Any], names: Any, numbers: list[int]) -> list[RuleFound]:
    import numpy as np

    from trellis.apps.extract.rule_places import RulePlaces
    from trellis.constraints.strength import Kind
    from trellis.data.bio import unmarked
    from trellis.data.corpus import corpus_of
    from trellis.models import HMM

    known = set(names)
    plain = [replace(t, labels=_kept(unmarked(t.labels or (None,) * len(t), names), known)) for t in texts]
    model = HMM(list(names), min_count=1)
    batch = model.encode(corpus_of(plain, label_names=names), fit=True)
    every = RulePlaces(constraints, batch, model.label_names_, model.parts(batch))
    complete = np.flatnonzero(batch.complete & (np.diff(batch.offsets) > 0))
    tests = None
    if len(complete):
        whole = batch.take(complete)
        tests = RulePlaces(constraints, whole, model.label_names_, model.parts(whole)).tested(whole.labels)
    found = []
    for number, constraint in enumerate(constraints):
        about = every.about(number)
        at: list[tuple[int, int | None]] = []
        for slot in about[:EXAMPLES].tolist():
            own = int(np.searchsorted(batch.offsets, slot, side="right")) - 1
            at.append((numbers[own], slot - int(batch.offsets[own])))
        instances = every.instances(number).tolist()
        if not at:
            at = [(numbers[i], None) for i in instances[:EXAMPLES]]
        broken: list[int] = []
        tested = n_broken = 0
        if tests is not None:
            test = tests[number]
            own_broken = test.instance[(test.broken > 0) & (test.instance >= 0)]
            broken = [numbers[int(complete[i])] for i in np.unique(own_broken).tolist()]
            tested, n_broken = round(float(test.places.sum())), round(float(test.broken.sum()))
        strength = {Kind.HARD: "hard", Kind.SLACK: "slack", Kind.LEARNED: "learned"}.get(
            constraint.strength.kind, "penalty"
        )
        if constraint.strength.kind not in (Kind.HARD, Kind.LEARNED):
            strength += f" {constraint.strength.amount:g}"
        found.append(
            RuleFound(
                constraint.name, constraint.describe(), strength, int(every.n[number]),
                tuple(numbers[i] for i in instances), tuple(at), tuple(broken), tested, n_broken,
            )
        )  # fmt: skip
    return found


def _kept(labels: tuple[str | None, ...], known: set[str]) -> tuple[str | None, ...]:
    return tuple(label if label in known else None for label in labels)


def _conflict(constraints: list[Any], texts: list[Any], names: Any) -> InfeasibleError | None:
    """Why the strict rules alone cannot hold in some text, whatever the model."""

    from trellis.constraints import compile_constraints
    from trellis.constraints.strength import Kind
    from trellis.data.corpus import corpus_of
    from trellis.models import HMM
    from trellis.projection.diagnosis import explain_all

    strict = [one for one in constraints if one.strength.kind in (Kind.HARD, Kind.SLACK)]
    if not strict:
        return None
    plain = (replace(t, labels=None, columns={}) for t in texts)
    model = HMM(list(names), min_count=1)
    batch = model.encode(corpus_of(plain, label_names=names), fit=True)
    free = model.uniform(batch)
    try:
        explain_all([free], compile_constraints(strict, batch, names, free.parts).local())
    except InfeasibleError as error:
        return error
    return None
