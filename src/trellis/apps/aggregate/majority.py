"""Majority votes: the baseline without learning for the aggregation of labelling functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from trellis.data.checks import check_names
from trellis.data.voted import OUTSIDE, spans_of_labels, votes_of_spans
from trellis.data.voted_files import as_voted
from trellis.errors import DataError


def majority_vote(texts: Iterable[Any], labels: Sequence[str]) -> list[list[str]]:
    """Label with most votes at each token; ties go to the first label, and tokens without votes get "O".

    Coarse votes are left out.

    >>> votes = {"f": ["X", None], "g": ["X", None], "h": ["O", None]}
    >>> majority_vote([{"tokens": ["a", "b"], "votes": votes}], ["O", "X"])
    [['X', 'O']]
    """
    labels = check_names(labels, "labels")
    if not labels:
        raise DataError("labels must name at least one label")
    nobody = OUTSIDE if OUTSIDE in labels else labels[0]
    found = []
    for text in as_voted(texts):
        tallies = [Counter(own[t] for own in text.votes.values() if own[t] in labels) for t in range(len(text))]
        found.append([max(labels, key=lambda label: tally[label]) if tally else nobody for tally in tallies])
    return found


def span_vote(texts: Iterable[Any]) -> list[list[str]]:
    """BIO labels of the spans with most votes, best first, without overlaps; of equals the longest, then the first.

    >>> votes = {"f": ["B-X", "I-X"], "g": ["B-X", "I-X"], "h": ["B-X", None]}
    >>> span_vote([{"tokens": ["a", "b"], "votes": votes}])
    [['B-X', 'I-X']]
    """
    found = []
    for text in as_voted(texts):
        given = ([vote or OUTSIDE for vote in own] for own in text.votes.values())
        votes = Counter(span for own in given for span in spans_of_labels(own))
        best = sorted(votes, key=lambda span: (-votes[span], span[0] - span[1], span))
        found.append([vote or OUTSIDE for vote in votes_of_spans(len(text), best)])
    return found
