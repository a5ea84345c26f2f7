"""``trellis extract errors``: differences between predictions and gold in context, most frequent confusions first."""

from __future__ import annotations

from collections.abc import Iterator
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import print_lines, visible
from trellis.cli.options import Examples, Json, LabelColumn, Output, WordColumn, wants_json
from trellis.data.document import excerpt
from trellis.errors import counted

if TYPE_CHECKING:
    from trellis.apps.extract.field_errors import Confusion, Mistake
    from trellis.data.document import Document


def errors(
    gold: Annotated[str, typer.Argument(help="Labelled texts, .tsv or .jsonl.")],
    found: Annotated[str, typer.Argument(help="Predictions for the same texts.")],
    output: Output = "-",
    examples: Examples = 3,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    json: Json = False,
) -> None:
    """Show which fields were confused with which, and where.

    `trellis extract errors gold.tsv out.tsv`
    """
    from trellis.apps.extract.field_errors import confusions
    from trellis.data.text_files import read_beside

    check_files({"gold": gold, "found": found}, {"--output": output})
    truth, answers = read_beside(gold, found, word_column=word_column, label_column=label_column)
    wrong = confusions(truth, answers)
    if wants_json(output, json):
        print_lines(output, (dumps(_record(one, truth, examples), ensure_ascii=False) for one in wrong))
    else:
        print_lines(output, _lines(wrong, truth, examples))


def _lines(wrong: list[Confusion], truth: list[Document], examples: int) -> Iterator[str]:
    if not wrong:
        yield "no difference"
    for one in wrong:
        tokens, places = len(one.mistakes), one.tokens
        yield visible(f"{one.gold} taken for {one.found}: {counted(places, 'token')} in {counted(tokens, 'place')}")
        for mistake in one.mistakes[:examples]:
            yield visible(
                f"  {_place(truth[mistake.text], mistake)}  {excerpt(truth[mistake.text], mistake.first, mistake.last)}"
            )


def _record(one: Confusion, truth: list[Document], examples: int) -> dict[str, Any]:
    shown = [
        {"text": m.text + 1, "line": truth[m.text].line, "first": m.first, "last": m.last,
         "context": excerpt(truth[m.text], m.first, m.last)}
        for m in one.mistakes[:examples]
    ]  # fmt: skip
    return {"gold": one.gold, "found": one.found, "tokens": one.tokens, "places": len(one.mistakes), "examples": shown}


def _place(text: Document, mistake: Mistake) -> str:
    return f"text {mistake.text + 1}" if text.line is None else f"line {text.line}"
