"""``trellis errors``: where an output differs from gold, in context, the commonest confusions first."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import print_lines, visible
from trellis.cli.options import Json, LabelColumn, Output, WordColumn, number_option, wants_json

if TYPE_CHECKING:
    from trellis.data.tokens import Text
    from trellis.tasks.field_errors import Confusion, Mistake

AROUND = 40
"""Characters of the text before and after a mistake."""


def errors(
    gold: Annotated[str, typer.Argument(help="Labelled texts, .tsv or .jsonl: the truth.")],
    found: Annotated[str, typer.Argument(help="What `trellis predict` made of the same texts.")],
    output: Output = "-",
    examples: Annotated[int, number_option("--examples", min=0, help="Places that are shown of each confusion.")] = 3,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    json: Json = False,
) -> None:
    """Show which fields were taken for which, and where.

    `trellis errors gold.tsv out.tsv`
    """
    from trellis.tasks.extract_files import read_beside
    from trellis.tasks.field_errors import confusions

    check_files({"gold": gold, "found": found}, {"--output": output})
    truth, answers = read_beside(gold, found, word_column=word_column, label_column=label_column)
    wrong = confusions(truth, answers)
    if wants_json(output, json):
        print_lines(output, (dumps(_record(one, truth, examples), ensure_ascii=False) for one in wrong))
    else:
        print_lines(output, _lines(wrong, truth, examples))


def _lines(wrong: list[Confusion], truth: list[Text], examples: int) -> Iterator[str]:
    if not wrong:
        yield "no difference"
    for one in wrong:
        tokens, places = len(one.mistakes), one.tokens
        yield visible(f"{one.gold} taken for {one.found}: {places} tokens in {tokens} places")
        for mistake in one.mistakes[:examples]:
            yield visible(f"  {_place(truth[mistake.text], mistake)}  {_context(truth[mistake.text], mistake)}")


def _record(one: Confusion, truth: list[Text], examples: int) -> dict[str, Any]:
    shown = [
        {"text": m.text + 1, "line": truth[m.text].sentence.line, "first": m.first, "last": m.last,
         "context": _context(truth[m.text], m)}
        for m in one.mistakes[:examples]
    ]  # fmt: skip
    return {"gold": one.gold, "found": one.found, "tokens": one.tokens, "places": len(one.mistakes), "examples": shown}


def _place(text: Text, mistake: Mistake) -> str:
    return f"text {mistake.text + 1}" if text.sentence.line is None else f"line {text.sentence.line}"


def _context(text: Text, mistake: Mistake) -> str:
    """The characters around, the mistake in square brackets."""
    start, end = text.spans[mistake.first][0], text.spans[mistake.last - 1][1]
    before, after = text.text[max(start - AROUND, 0) : start], text.text[end : end + AROUND]
    cut = ("..." if start > AROUND else "", "..." if end + AROUND < len(text.text) else "")
    return f"{cut[0]}{before}[{text.text[start:end]}]{after}{cut[1]}"
