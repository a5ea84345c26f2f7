"""A smallest set of constraints in conflict, whatever it is that says what can hold, and the words for it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from trellis.constraints.conflict import Conflict, find_conflict, forbidden_as_rows, strict_rows
from trellis.constraints.implicit import Forbidden
from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.structures import CategoricalParts

NAMES = ("a", "b", "c", "d", "soft")
KINDS = (Kind.HARD, Kind.SLACK, Kind.HARD, Kind.HARD, Kind.PENALTY)


def rows(n_instances: int = 1) -> Rows:
    """A row for each of four constraints; "d" has no row of its own but forbids parts 1 and 3, "a" forbids 1 too."""
    n = len(NAMES) - 1
    of = [0, 1, 2, 4]
    return Rows(
        parts=CategoricalParts(n_instances, 4),
        names=NAMES,
        start=np.arange(n + 1),
        part=np.arange(n),
        coefficient=np.ones(n),
        bound=np.zeros(n),
        equality=np.zeros(n, dtype=np.bool_),
        instance=np.zeros(n, dtype=np.int64),
        group=np.arange(n),
        constraint=np.array(of),
        row_number=np.arange(n),
        groups=Groups(
            np.array([KINDS[c] for c in of], np.int8), np.full(n, Norm.LINF, np.int8), np.array([0.0, 1.0, 0.0, 1.0])
        ),
        forbidden=Forbidden.of(np.array([1, 1, 3]), np.array([0, 3, 3])),
    )


def constraints_in(some: Rows) -> set[str]:
    return {some.names[c] for c in (*some.constraint.tolist(), *some.forbidden.by)}


@pytest.mark.parametrize("names", ["".join(some) for n in (1, 2, 3) for some in combinations("abcd", n)])
def test_the_constraints_that_are_needed_for_a_conflict_are_found(names: str) -> None:
    asked, guilty = [], set(names)

    def feasible(some: Rows) -> bool:
        asked.append(constraints_in(some))
        return not guilty <= constraints_in(some)

    found = find_conflict(rows(), feasible, lambda some, elastic: 0.5)
    assert set(found.names) == guilty
    assert found.slack == 0.5
    assert found.further == ("b" in guilty)
    assert all("soft" not in some for some in asked)


def test_of_two_conflicts_one_is_found_and_resolved_by_itself_where_the_other_is_left() -> None:
    def feasible(some: Rows) -> bool:
        return not ({"a", "b"} <= constraints_in(some) or "c" in constraints_in(some))

    def least(some: Rows, elastic: np.ndarray) -> float | None:
        held = {some.names[c] for c in some.constraint[~elastic].tolist()}
        return None if "c" in held or {"a", "b"} <= held else 2.0

    found = find_conflict(rows(), feasible, least)
    assert found.names in (("a", "b"), ("c",))
    assert found.slack == 2.0


def test_where_nothing_can_hold_no_constraint_is_blamed() -> None:
    assert find_conflict(rows(), lambda some: False, lambda some, elastic: 1.0) == Conflict((), None)


def test_what_the_guilty_forbid_is_relaxed_and_what_others_forbid_is_not() -> None:
    asked: list[tuple[Rows, np.ndarray]] = []

    def least(some: Rows, elastic: np.ndarray) -> float | None:
        asked.append((some, elastic))
        return None if len(asked) == 1 else 1.0

    found = find_conflict(rows(), lambda some: "d" not in constraints_in(some), least)
    assert found == Conflict(("d",), 1.0)
    beside, alone = asked
    assert beside[0].forbidden.by == (0,)
    assert beside[0].constraint[beside[1]].tolist() == [3]
    assert set(beside[0].constraint.tolist()) == {0, 1, 2, 3}
    assert constraints_in(alone[0]) == {"d"}
    assert len(alone[0].forbidden) == 0


def test_forbidden_parts_as_rows_are_used_no_time() -> None:
    strict = strict_rows(rows())
    written = forbidden_as_rows(strict, [0, 3])
    assert len(strict) == 3
    assert len(written) == 5
    assert len(written.forbidden) == 0
    assert written.constraint[3:].tolist() == [0, 3]
    for label, used in ((1, [1.0, 1.0]), (3, [0.0, 1.0]), (0, [0.0, 0.0])):
        assert written.evaluate(np.array([label]))[3:].tolist() == used
    assert written.excess(np.ones(5))[3:].tolist() == [1.0, 1.0]
    assert written.instance[3:].tolist() == [0, 0]
    assert forbidden_as_rows(strict_rows(rows(2)), [0, 3]).instance[3:].tolist() == [COUPLING, COUPLING]
    assert forbidden_as_rows(strict, [0]).forbidden.listed()[0].tolist() == [1, 3]


def test_the_error_says_what_where_and_what_would_help() -> None:
    error = Conflict(("two verbs", "one verb"), 0.5).error("instance 0", (0,))
    assert str(error).startswith(
        "instance 0: constraints 'two verbs' and 'one verb' cannot hold together; a slack of 0.5 (L∞) would resolve it"
    )
    assert (error.instances, error.constraints, error.slack) == ((0,), ("two verbs", "one verb"), 0.5)
    alone = str(Conflict(("one verb",), None).error("over the corpus"))
    assert alone.startswith("over the corpus: constraint 'one verb' cannot hold; together with the model's own zeros")
