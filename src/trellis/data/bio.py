"""BIO labels: B-X and I-X mark where fields begin, and are reduced to X where this is unambiguous.

every token        B-X begins a field of X, I-X goes on with it, O is in none                 "BIO" columns
where needed       X, and B-X for a token that begins a field right after another one of X    what is worked with
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

NO_FIELD = "O"
"""The label of tokens that belong to no field."""
BEGINS, GOES_ON = "B-", "I-"

Labels = Sequence[str | None]


def split_bio(label: str | None) -> tuple[bool, str | None]:
    """Whether a label says that a field begins, and the label of the field.

    >>> split_bio("B-DATE"), split_bio("I-DATE"), split_bio("DATE"), split_bio(None)
    ((True, 'DATE'), (False, 'DATE'), (False, 'DATE'), (False, None))
    """
    if label is not None and len(label) > 2 and label.startswith((BEGINS, GOES_ON)):
        return label.startswith(BEGINS), label[2:]
    return False, label


def runs(labels: Labels) -> Iterator[tuple[str, int, int]]:
    """Label, first token and one after the last of every field.

    >>> list(runs(["A", "A", "B-A", "O", "B"]))
    [('A', 0, 2), ('A', 2, 3), ('B', 4, 5)]
    """
    first, name = 0, None
    for t, label in enumerate([*labels, None]):
        begins, here = split_bio(label)
        if t and (begins or here != name):
            if name is not None and name != NO_FIELD:
                yield name, first, t
            first = t
        name = here


def where_needed(labels: Labels, own: Collection[str] = ()) -> tuple[str | None, ...]:
    """B- only where a field begins right after another one of its label; labels of one's ``own`` stay as they are.

    >>> where_needed(["B-A", "I-A", "B-A", "O", "B-B", None])
    ('A', 'A', 'B-A', 'O', 'B', None)
    """
    found: list[str | None] = []
    before: str | None = None
    for label in labels:
        begins, name = (False, label) if label in own else split_bio(label)
        found.append(BEGINS + name if begins and name is not None and name == before else name)
        before = name
    return tuple(found)


def unmarked(labels: Labels, own: Collection[str] = ()) -> tuple[str | None, ...]:
    """Labels of fields, which do not say where these begin.

    >>> unmarked(["B-A", "I-A", "B-A", "O", None]), unmarked(["B-A", "A"], own=["B-A"])
    (('A', 'A', 'A', 'O', None), ('B-A', 'A'))
    """
    return tuple(label if label in own else split_bio(label)[1] for label in labels)


def everywhere(labels: Labels) -> tuple[str | None, ...]:
    """BIO: B- and I- at every token of a field.

    >>> everywhere(["A", "A", "B-A", "O", None])
    ('B-A', 'I-A', 'B-A', 'O', None)
    """
    found: list[str | None] = [None if label is None else NO_FIELD for label in labels]
    for name, first, last in runs(labels):
        found[first:last] = [BEGINS + name, *[GOES_ON + name] * (last - first - 1)]
    return tuple(found)
