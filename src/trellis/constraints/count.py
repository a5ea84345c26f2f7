"""Counts of parts: the functions that make them.

    count(...) = Σ_t [rule holds at t]

    count("VERB")                     tokens labelled VERB            count("A", "B")   labelled A or B
    count()                           all tokens                      count("A", where=word == "x")
    starts("TITLE")                   segments of TITLE: tokens labelled so whose token before is not
    transitions(from_="A", to="B")    label changes, all or of a kind
    share("VERB")                     count("VERB") as a share of all tokens of the scope

A count is taken in every sentence unless ``.per("token" | "corpus" | key)`` says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from trellis.constraints.amounts import any_of
from trellis.constraints.condition import preceding
from trellis.constraints.labels import GoesOn, Label, Previous, changed, label_names
from trellis.constraints.linear_count import Count, Term
from trellis.constraints.rule import Always, Rule
from trellis.errors import ConstraintError


def _where(where: Rule | None) -> Rule:
    if where is None:
        return Always()
    if not isinstance(where, Rule):
        raise ConstraintError(f"where= takes a condition such as word.isin('a', 'b'), got {where!r}")
    return where


def count(*labels: str | Iterable[str] | Rule, where: Rule | None = None) -> Count:
    """Number of tokens with one of the labels.

    Compare it with a number, or with another count, to make a constraint.

    Parameters
    ----------
    *labels : str or list of str
        Labels to count. Without labels, all tokens are counted.
    where : Rule or None, default=None
        Count only tokens at which this condition holds.

    Returns
    -------
    Count
        Expression with ``per(...)``, ``between(...)`` and the comparisons ``<=``, ``>=`` and ``==``.

    Examples
    --------
    >>> (count("VERB") >= 1).describe()
    'In every sentence the expected count of VERB is at least 1, as a hard constraint.'
    """
    if len(labels) == 1 and isinstance(labels[0], Rule):
        return count(where=labels[0] if where is None else labels[0] & _where(where))
    if not labels and isinstance(where, Label):
        return count(*where.names)
    names = label_names(tuple(item for item in labels if not isinstance(item, Rule)), "count")
    if labels and not names:
        raise ConstraintError("count got an empty list of labels; count() counts all tokens")
    shown = ", ".join(map(repr, names))
    condition = _where(where)
    code = f"count({', '.join(filter(None, [shown, '' if where is None else f'where={condition.code()}']))})"
    if not names:
        kind = "number" if condition.observed else "expected number"
        phrase = f"the {kind} of tokens" + ("" if where is None else f" where {condition.english()}")
        return Count((Term(1.0, condition, None, code, phrase),))
    phrase = f"the expected count of {any_of(list(names))}" + ("" if where is None else f" where {condition.english()}")
    rule: Rule = Label(names) if where is None else Label(names) & condition
    return Count((Term(1.0, rule, None, code, phrase),))


def share(*labels: str | Iterable[str] | Rule, where: Rule | None = None) -> Count:
    """Proportion of tokens with one of the labels.

    Violations are proportions too: a slack of 0.05 is five per cent of the tokens of the scope.

    Parameters
    ----------
    *labels : str or list of str
        Labels to count.
    where : Rule or None, default=None
        Condition that selects the tokens, of which the proportion is taken.

    Returns
    -------
    Count
        Expression with ``per(...)``, ``between(...)`` and the comparisons ``<=``, ``>=`` and ``==``.

    Examples
    --------
    >>> share("VERB").per("corpus").between(0.1, 0.2).describe()
    'Over the corpus the expected share of VERB among tokens is between 0.1 and 0.2, as a hard constraint.'
    """
    over = _where(where)
    if not over.observed:
        raise ConstraintError(
            f"share(where={over.code()}): the condition must not depend on labels; compare counts instead: count('A') "
            "<= 0.2 * count('A', 'B')"
        )
    if not labels:
        raise ConstraintError("share() needs at least one label")
    top = count(*labels, where=where).terms[0]
    whole = "tokens" if where is None else f"tokens where {over.english()}"
    of = count(*labels).terms[0].phrase.removeprefix("the expected count of ")
    code = "share" + top.code.removeprefix("count")
    return Count((replace(top, over=over, code=code, phrase=f"the expected share of {of} among {whole}"),))


def starts(*labels: str | Iterable[str], where: Rule | None = None) -> Count:
    """Number of segments of a label: tokens that have it while the previous token has not.

    Parameters
    ----------
    *labels : str or list of str
        Labels; the segments of all of them are added.
    where : Rule or None, default=None
        Condition on the first token of the segment.

    Returns
    -------
    Count
        Expression to compare with a number.

    Examples
    --------
    >>> (starts("TITLE") <= 1).describe()
    'In every sentence the expected number of TITLE segments is at most 1, as a hard constraint.'
    """
    names = label_names(labels, "starts")
    if not names:
        raise ConstraintError("starts() needs at least one label")
    condition = _where(where)
    tail = "" if where is None else f", where={condition.code()}"
    begins = "" if where is None else f" that begin where {condition.english()}"
    terms = [
        Term(
            1.0,
            Label((name,)) & ~GoesOn((name,)) if where is None else Label((name,)) & ~GoesOn((name,)) & condition,
            None,
            f"starts({name!r}{tail})",
            f"the expected number of {name} segments{begins}",
        )
        for name in names
    ]
    return Count(tuple(terms))


def transitions(
    *, where: Rule | None = None, from_: str | Iterable[str] | None = None, to: str | Iterable[str] | None = None
) -> Count:
    """Number of label changes.

    Parameters
    ----------
    where : Rule or None, default=None
        Condition on the last token before the change; use ``following(...)`` for the first token after it.
    from_ : str, list of str or None, default=None
        Count only changes from these labels.
    to : str, list of str or None, default=None
        Count only changes to these labels.

    Returns
    -------
    Count
        Expression to compare with a number.

    Examples
    --------
    >>> (transitions(from_="TITLE", to="DATE") <= 0).describe()
    'In every sentence the expected number of label changes from TITLE to DATE is at most 0, as a hard constraint.'
    """
    rule = changed
    if from_ is not None:
        rule = rule & Previous(label_names((from_,), "transitions(from_=)"))
    if to is not None:
        rule = rule & Label(label_names((to,), "transitions(to=)"))
    condition = _where(where)
    if where is not None:
        rule = rule & preceding(condition)
    arguments = [("from_", from_), ("to", to), ("where", where)]
    code = f"transitions({', '.join(f'{name}={value!r}' for name, value in arguments if value is not None)})"
    phrase = "the expected number of label changes"
    if from_ is not None:
        phrase += f" from {any_of(list(label_names((from_,), 'transitions')))}"
    if to is not None:
        phrase += f" to {any_of(list(label_names((to,), 'transitions')))}"
    if where is not None:
        phrase += f" after a token where {condition.english()}"
    return Count((Term(1.0, rule, None, code, phrase),))
