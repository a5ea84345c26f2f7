"""``trellis extract check``: where the rules of a file apply in texts, without training."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.apps.extract.commands.token_checks import warn_of_labels, warn_of_tokens
from trellis.cli.checks import check_files
from trellis.cli.console import console_for, need_text, print_lines, visible
from trellis.cli.options import RULES, Examples, Json, LabelColumn, Output, Quiet, WordColumn, wants_json
from trellis.errors import counted

if TYPE_CHECKING:
    from rich.console import Console

    from trellis.apps.extract.check import RuleCheck

SHOWN = 4
"""At most this many words of a rule are shown."""
PLACES = "places: tokens, fields or texts that the rule is about."
TESTS = "tests: how often the labels could violate it; violations: how often they do."


def check(
    rules: Annotated[str, typer.Argument(help=RULES)],
    text: Annotated[str, typer.Argument(help="Texts: raw, .tsv or .jsonl, with labels or without; `-`: stdin.")] = "-",
    output: Output = "-",
    examples: Examples = 3,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show where each rule applies, which rules never apply, and where labels violate them.

    `trellis extract check rules.toml text.txt` needs no model.
    """
    from json import dumps

    from trellis.apps.extract.check import check_rules
    from trellis.apps.extract.rules import label_names
    from trellis.constraints import parse_rules
    from trellis.data.files import text_of
    from trellis.data.text_files import read_either

    check_files({"rules": rules, "text": text}, {"--output": output})
    parsed = parse_rules(text_of(rules), rules)
    columns = {"word_column": word_column, "label_column": label_column}
    texts = read_either(text, **columns, tokeniser=parsed.tokeniser, predictions=True)
    need_text(text, texts)
    warn_of_tokens(texts, parsed.tokeniser, rules)
    warn_of_labels(texts, parsed)
    found = check_rules(parsed, texts, label_names(parsed, texts), examples=examples)
    if wants_json(output, json):
        print_lines(output, (dumps(_record(one), ensure_ascii=False) for one in found))
        return
    with console_for(output) as console:
        _print(console, found, len(texts))


def _record(one: RuleCheck) -> dict[str, Any]:
    """A rule as JSON; texts are numbered from 1."""
    at = [{**vars(place), "text": None if place.text is None else place.text + 1} for place in one.broken_at]
    first = None if one.first is None else one.first + 1
    return {**vars(one), "words": dict(one.words), "first": first, "broken_at": at}


def _print(console: Console, found: list[RuleCheck], n_texts: int) -> None:
    from rich.table import Table

    console.print(f"{counted(len(found), 'rule')} in {counted(n_texts, 'text')}. {PLACES}", soft_wrap=True)
    is_tested = any(one.broken is not None for one in found)
    if is_tested:
        console.print(TESTS, soft_wrap=True)
    table = Table()
    for name in ("rule", "places", "texts", *["tests", "violations"] * is_tested, "words"):
        table.add_column(name, justify="left" if name in ("rule", "words") else "right")
    for one in found:
        words = [f"{word} ({n})" if n > 1 else word for word, n in one.words[:SHOWN]]
        more = ["..."] if len(one.words) > SHOWN else []
        numbers = [one.places, one.texts, *([one.tested, one.broken or 0] if is_tested else [])]
        table.add_row(visible(one.name), *map(str, numbers), visible("  ".join([*words, *more])))
    console.print(table)
    for one in found:
        if one.broken:
            console.print(
                visible(f"{one.name}: the labels violate it in {counted(one.broken, 'place')}"), soft_wrap=True
            )
        for place in one.broken_at:
            console.print(visible(f"  {place}"), soft_wrap=True)
        if one.broken is not None and one.broken > len(one.broken_at):
            console.print(f"  ... and {one.broken - len(one.broken_at)} more")
    never = [one.name for one in found if not one.places]
    if never:
        console.print(visible(f"Never applies: {', '.join(never)}"), soft_wrap=True)
