"""Summary of the votes of labelling functions: coverage, overlaps, conflicts, accuracy; and votes as a matrix.

coverage(j)    share of items that function j votes on          items: tokens, or whole texts of one token each
overlaps(j)    share on which another function votes too
conflicts(j)   share on which another function votes differently                  (Ratner et al. 2017, Snorkel)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.bio import everywhere
from trellis.data.checks import check_label_lists, check_list, check_names
from trellis.data.display import table_html
from trellis.data.document import Document
from trellis.data.voted import OUTSIDE, is_bio
from trellis.data.voted_files import as_voted
from trellis.errors import DataError, UnknownNameError

NEAR = 0.005
"""Estimated accuracies this close to 0 or 1 are marked as on the bound."""


@dataclass(frozen=True)
class FunctionSummary:
    """One labelling function.

    labels : that it votes for;  votes : number of its votes
    coverage, overlaps, conflicts : shares of all items
    estimated : accuracy estimated by an aggregator;  on_bound : whether it is 0 or 1 up to rounding
    accuracy : share of its votes that are gold
    """

    name: str
    labels: tuple[str, ...]
    votes: int
    coverage: float
    overlaps: float
    conflicts: float
    estimated: float | None = None
    on_bound: bool = False
    accuracy: float | None = None


@dataclass(frozen=True)
class VoteSummary:
    """Every labelling function, as text, HTML or records."""

    functions: tuple[FunctionSummary, ...]

    def records(self) -> list[dict[str, Any]]:
        """A dictionary for each function; ``pandas.DataFrame`` turns the list into a table."""
        return [asdict(one) for one in self.functions]

    def _rows(self) -> list[list[str]]:
        def percent(share: float | None, mark: str = "") -> str:
            return "" if share is None else f"{100 * share:.1f}{mark}"

        head = ["function", "labels", "votes", "coverage", "overlaps", "conflicts", "estimated", "accuracy"]
        return [head] + [
            [one.name, ", ".join(one.labels), str(one.votes), percent(one.coverage), percent(one.overlaps),
             percent(one.conflicts), percent(one.estimated, "*" if one.on_bound else ""), percent(one.accuracy)]
            for one in self.functions
        ]  # fmt: skip

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
        lines = [
            "  ".join(
                cell.ljust(w) if k < 2 else cell.rjust(w) for k, (cell, w) in enumerate(zip(row, widths, strict=True))
            )
            for row in rows
        ]
        if any(one.on_bound for one in self.functions):
            lines.append("* close to 0 or 1, because no other function contradicts this one")
        return "\n".join(line.rstrip() for line in lines)

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        return table_html(head, rows)


def vote_summary(documents: Iterable[Any], aggregator: Any = None, gold: Any = None) -> VoteSummary:
    """Coverage, overlaps, conflicts and accuracy of every labelling function.

    Parameters
    ----------
    documents : list of Document or data frame
        Texts with votes.
    aggregator : Aggregator or None, default=None
        Trained on the votes; its estimates of accuracy are shown.
    gold : list of labels or None, default=None
        Labels of the tokens of each document. By default those that the documents have, if all have some.

    Examples
    --------
    >>> votes = [Document(("a", "b"), votes={"f": ("X", None), "g": ("Y", None)})]
    >>> print(vote_summary(votes, gold=[["X", "Y"]]))
    function  labels  votes  coverage  overlaps  conflicts  estimated  accuracy
    f         X           1      50.0      50.0       50.0                100.0
    g         Y           1      50.0      50.0       50.0                  0.0
    """
    documents = as_voted(documents)
    if aggregator is not None:
        check_aggregator(aggregator)
        aggregator._check_fitted()
    matrix, labels, names = votes_to_matrix(documents)
    truth = _gold(documents, gold, labels)
    voted = matrix >= 0
    n, others = max(len(matrix), 1), voted.sum(axis=1)
    found = []
    for j, name in enumerate(names):
        own, mine = matrix[:, j], voted[:, j]
        differs = ((matrix != own[:, None]) & voted).any(axis=1) & mine
        estimate = getattr(aggregator, "accuracies_", {}).get(name)
        estimated = None if estimate is None else estimate.accuracy
        known = mine & (truth >= 0)
        found.append(
            FunctionSummary(
                name,
                tuple(labels[k] for k in np.unique(own[mine])),
                int(mine.sum()),
                float(mine.sum() / n),
                float((mine & (others > 1)).sum() / n),
                float(differs.sum() / n),
                estimated,
                estimated is not None and not NEAR <= estimated <= 1.0 - NEAR,
                float((own == truth)[known].mean()) if known.any() else None,
            )
        )
    return VoteSummary(tuple(found))


def check_aggregator(aggregator: Any) -> None:
    """Refuse what is no :class:`~trellis.Aggregator`."""
    from trellis.apps.aggregate.aggregator import Aggregator

    if not isinstance(aggregator, Aggregator):
        raise DataError(f"expected an Aggregator, got {aggregator!r:.60}")


def _gold(documents: Sequence[Document], gold: Any, labels: Sequence[str]) -> NDArray[np.int64]:
    """Code of the gold label of every item: −1 unknown, −2 a label that no function votes for."""
    if gold is None:
        gold = [text.labels or (None,) * len(text) for text in documents]
    listed = [[own] if own is None or isinstance(own, str) else own for own in check_list(gold, "labels")]
    given = [tuple(own or ()) for own in check_label_lists(listed) or ()]
    if is_bio(labels):
        given = [tuple(everywhere(own)) for own in given]
    if len(given) != len(documents) or any(len(own) != len(text) for own, text in zip(given, documents, strict=True)):
        raise DataError("expected gold labels for every token of every document")
    code = {label: k for k, label in enumerate(labels)}
    return np.array([-1 if label is None else code.get(label, len(labels)) for own in given for label in own], np.int64)


def votes_to_matrix(
    documents: Iterable[Any], labels: Sequence[str] | None = None
) -> tuple[NDArray[np.int64], list[str], list[str]]:
    """Votes as Snorkel's ``L``: (n_items, n_functions), a number for each label, −1 where a function abstains.

    labels : names of the numbers; by default those voted for, sorted, "O" first

    >>> L, labels, functions = votes_to_matrix([Document(("late",), votes={"f": ("BAD",), "g": (None,)})])
    >>> L.tolist(), labels, functions
    ([[0, -1]], ['BAD'], ['f', 'g'])
    """
    documents = as_voted(documents)
    names = list(dict.fromkeys(name for text in documents for name in text.votes))
    every = {vote for text in documents for own in text.votes.values() for vote in own if vote is not None}
    known = sorted(every, key=lambda vote: (vote != OUTSIDE, vote)) if labels is None else check_names(labels, "labels")
    code = {label: k for k, label in enumerate(known)}
    for vote in every:
        if vote not in code:
            raise UnknownNameError("label", vote, known)
    rows = [
        [-1 if own is None or own[t] is None else code[str(own[t])] for own in map(text.votes.get, names)]
        for text in documents for t in range(len(text))
    ]  # fmt: skip
    return np.array(rows, np.int64).reshape(len(rows), len(names)), known, names


def matrix_to_documents(
    L: Any, labels: Sequence[str], texts: Iterable[str | Sequence[str]], functions: Sequence[str] | None = None
) -> list[Document]:
    """Documents with the votes of Snorkel's ``L``; texts : a string for each row, or lists of tokens with a row each.

    >>> [one, other] = matrix_to_documents([[0, -1], [1, 1]], ["BAD", "GOOD"], ["late", "quick"])
    >>> one.votes, other.votes
    ({'0': ('BAD',), '1': (None,)}, {'0': ('GOOD',), '1': ('GOOD',)})
    """
    labels = check_names(labels, "labels")
    try:
        matrix = np.asarray(L)
    except ValueError:  # rows of several lengths
        matrix = np.zeros(0)
    if (
        matrix.ndim != 2
        or matrix.dtype.kind not in "iu"
        or (matrix.size and not -1 <= matrix.min() <= matrix.max() < len(labels))
    ):
        raise DataError(f"L must be whole numbers from −1 to {len(labels) - 1}, with one row for each item")
    given = [
        (text,) if isinstance(text, str) else tuple(check_names(text, f"the tokens of text {number}"))
        for number, text in enumerate(check_list(texts, "texts"))
    ]
    names = [str(j) for j in range(matrix.shape[1])] if functions is None else check_names(functions, "functions")
    if sum(map(len, given)) != len(matrix) or len(names) != matrix.shape[1]:
        raise DataError(
            f"L has shape {matrix.shape}, but there are {sum(map(len, given))} items and {len(names)} functions"
        )
    found, at = [], 0
    for tokens in given:
        rows = matrix[at : at + len(tokens)]
        at += len(tokens)
        own = {name: tuple([None if k < 0 else labels[k] for k in rows[:, j].tolist()]) for j, name in enumerate(names)}
        found.append(Document(tokens, votes=own))
    return found
