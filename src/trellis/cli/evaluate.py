"""``trellis evaluate``: outputs against gold. One option a kind of output; ``MODES`` says which function serves it.

Without an option fields are compared, as ``trellis predict`` writes them.

To add a kind: an option of :func:`evaluate` that names it, and an entry in ``MODES``: a function from the paths of gold
and output to rows (name, value).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from trellis.cli.console import visible
from trellis.errors import DataError

Rows = list[tuple[str, str]]


def evaluate(
    gold: Annotated[str, typer.Argument(help="File with the truth.")],
    output: Annotated[str, typer.Argument(help="File to be judged, line by line beside it.")],
    alignment: Annotated[
        bool, typer.Option("--alignment", help="Word alignments: `i-j` sure and `i?j` possible links.")
    ] = False,
    fields: Annotated[
        bool, typer.Option("--fields", help="Labelled tokens, .tsv or .jsonl; so without any option.")
    ] = False,
    induction: Annotated[
        bool, typer.Option("--induction", help="Induced states beside gold tags: word TAB tag, blank lines between.")
    ] = False,
    trees: Annotated[bool, typer.Option("--trees", help="Dependency trees, CoNLL-U.")] = False,
) -> None:
    """Compare an output with gold and print its scores.

    Of fields: token accuracy, precision, recall and F1 of whole fields, and which label was taken for which.
    """
    asked = {"alignment": alignment, "fields": fields, "induction": induction, "trees": trees}
    wanted = [name for name in asked if asked[name]] or ["fields"]
    if len(wanted) != 1:
        raise DataError("say what is compared, with one of: " + ", ".join(f"--{name}" for name in MODES))
    for name, value in MODES[wanted[0]](gold, output):
        typer.echo(visible(f"{name:<12}{value}"))


def _alignment(gold: str, output: str) -> Rows:
    from trellis.metrics.alignment import read_links, score_links

    truth, links = read_links(gold), read_links(output)
    if len(links) != len(truth):
        raise DataError(f"{output} has {len(links)} lines but {gold} has {len(truth)}")
    scores = score_links((row.possible for row in links), truth)
    return [
        ("precision", f"{100 * scores.precision:.2f}"),
        ("recall", f"{100 * scores.recall:.2f}"),
        ("AER", f"{100 * scores.aer:.2f}"),
        ("F", f"{100 * scores.f:.2f}"),
        ("links", f"{scores.n_links} ({scores.n_sure} sure in gold)"),
    ]


def _fields(gold: str, output: str) -> Rows:
    from trellis.metrics.fields import score_fields
    from trellis.tasks.extract_files import read_labelled

    truth, found = ([t for t in read_labelled(path) if len(t)] for path in (gold, output))
    for number, (one, other) in enumerate(zip(truth, found, strict=False)):
        if one.sentence.words != other.sentence.words:
            raise DataError(
                f"text {number + 1} is not the same in both: {one.text[:40]!r} ({gold}, line {one.sentence.line}) and "
                f"{other.text[:40]!r} ({output}, line {other.sentence.line}). Predict from the tokens of {gold} itself"
            )
    scores = score_fields(*([t.sentence.labels or [None] * len(t) for t in texts] for texts in (truth, found)))
    rows = [
        ("accuracy", f"{100 * scores.accuracy:.2f} of {scores.n_tokens} tokens"),
        ("field F1", f"{100 * scores.total.f1:.2f} of {scores.total.n_gold} fields"),
        ("", ""),
        ("field", f"{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}{'found':>8}"),
    ]
    for label, s in scores.fields.items():
        figures = "".join(f"{100 * figure:>10.2f}" for figure in (s.precision, s.recall, s.f1))
        rows.append((label, f"{figures}{s.n_gold:>8}{s.n_found:>8}"))
    width = max(7, *(len(label) + 2 for label in scores.labels))
    rows += [("", ""), ("gold \\ found", "".join(f"{label:>{width}}" for label in scores.labels))]
    for label, counts in zip(scores.labels, scores.confusion.tolist(), strict=True):
        rows.append((label, "".join(f"{n or '.':>{width}}" for n in counts)))
    return rows


def _induction(gold: str, output: str) -> Rows:
    from trellis.data.columns import read_columns
    from trellis.metrics.induction import labels_a_word_of_tagging, score_induction

    truth, found = list(read_columns(gold)), list(read_columns(output))
    if len(truth) != len(found):
        raise DataError(f"{output} has {len(found)} sentences but {gold} has {len(truth)}")
    states: list[str] = []
    tags: list[str] = []
    for one, other in zip(truth, found, strict=True):
        if one.words != other.words:
            raise DataError(
                f"the sentence at line {other.line} of {output} is not the one at line {one.line} of {gold}: induce "
                f"from the words of {gold} itself"
            )
        for tag, state in zip(one.labels or (), other.labels or (), strict=True):
            if tag is not None and state is not None:
                tags.append(tag)
                states.append(state)
    scores = score_induction(states, tags)
    words = [s.words for s in found]
    given = [[label or "" for label in s.labels or ()] for s in found]
    labels = labels_a_word_of_tagging(words, given)
    return [
        ("1-Many", f"{100 * scores.many_to_one:.2f} of {scores.n_tokens} tokens"),
        ("1-1", f"{100 * scores.one_to_one:.2f}"),
        ("MI", f"{scores.mutual_information:.4f} bits"),
        ("VI", f"{scores.variation_of_information:.4f} bits"),
        ("V-measure", f"{100 * scores.v_measure:.2f}"),
        ("l1/linf", "no word occurs more than ten times" if labels is None else f"{labels:.2f} states a frequent word"),
        ("states", " ".join(map(str, scores.state_sizes.tolist()))),
        ("tags", " ".join(map(str, scores.tag_sizes.tolist()))),
    ]


def _trees(gold: str, output: str) -> Rows:
    from trellis.data.conllu import read_conllu
    from trellis.tasks.parse import COLUMNS, compare

    truth, found = (list(read_conllu(path, columns=COLUMNS)) for path in (gold, output))
    if len(truth) != len(found):
        raise DataError(f"{output} has {len(found)} sentences but {gold} has {len(truth)}")
    for one, other in zip(truth, found, strict=True):
        if one.words != other.words:
            raise DataError(
                f"the sentence at line {other.line} of {output} is not the one at line {one.line} of {gold}: parse "
                f"{gold} itself"
            )
    scores = compare(truth, found)
    shown = [("no punct.", scores.plain), ("all words", scores.total)]
    shown += [(f"up to {n}", own) for n, own in scores.up_to.items()]
    rows = [("", f"{'UAS':>8}{'LAS':>8}{'words':>10}")]
    rows += [(name, f"{100 * own.uas:>8.2f}{100 * own.las:>8.2f}{own.n_words:>10}") for name, own in shown]
    return [*rows, ("whole trees", f"{100 * scores.whole:>8.2f} of {scores.n_sentences} sentences")]


MODES: dict[str, Callable[[str, str], Rows]] = {
    "alignment": _alignment,
    "fields": _fields,
    "induction": _induction,
    "trees": _trees,
}
