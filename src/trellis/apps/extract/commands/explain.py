"""``trellis extract explain``: the rules of a trained model in words, with their penalties and effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import console_for, need_text, print_lines, visible
from trellis.cli.options import (
    LABELLED,
    UNLABELLED,
    Json,
    LabelColumn,
    Model,
    Output,
    Quiet,
    Threads,
    WordColumn,
    jobs,
    wants_json,
)
from trellis.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from trellis.apps.extract.explain import RuleReport, Utility


VIOLATIONS = """\
How often each rule could be violated (tests), and how often it is: by the best
labels of the model alone, by those under the rules, and by the labels given."""
UTILITY = """\
Token accuracy in percent with this rule only, and with all rules except it.
A rule helps if accuracy without it is lower than with (all)."""
WHERE = {"in prediction": "Rules left out in prediction", "supervised": "Trained again on labels only"}
"""What the rules are left out of -> the title of the table."""


def explain(
    model: Model,
    text: Annotated[
        str, typer.Argument(help="Texts: raw, .tsv or .jsonl; if labelled, accuracy is shown; `-`: stdin.")
    ] = "-",
    output: Output = "-",
    labelled: Annotated[list[str] | None, LABELLED] = None,
    unlabelled: Annotated[list[str] | None, UNLABELLED] = None,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    json: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show each rule of a model in words, with its penalty and its effect.

    `trellis extract explain -m fields.trellis text.txt` shows how often each rule is violated, its penalty and its
    dual. For labelled texts, it also shows the token accuracy with this rule alone and with all rules but this one. By
    default, the rules are left out in prediction only; with `--labelled` (and `--unlabelled`), the model is also
    trained again without them.
    """
    from trellis.apps.extract.explain import explain as report
    from trellis.apps.extract.explain import trained_utility, utility
    from trellis.apps.extract.extractor import Extractor
    from trellis.data.text_files import read_either, read_labelled, read_texts

    read = {"--model": model, "text": text, "--labelled": labelled, "--unlabelled": unlabelled}
    check_files(read, {"--output": output})
    extractor = Extractor.load(model, n_jobs=jobs(threads))
    columns: dict[str, Any] = {"word_column": word_column, "tokeniser": extractor.tokeniser_}
    texts = read_either(text, label_column=label_column, **columns)
    need_text(text, texts)
    has_labels = any(t.labels is not None and None not in t.labels for t in texts if len(t))
    if (labelled or unlabelled) and not has_labels:
        raise DataError(f"--labelled and --unlabelled need labels in {text} to measure accuracy, but it has none")
    if unlabelled and not labelled:
        raise DataError("--unlabelled needs --labelled: give the examples that the model was trained on")
    rules = report(extractor, texts)
    tables: dict[str, list[Utility]] = {}
    if has_labels:
        tables["in prediction"] = utility(extractor, texts)
    if labelled:
        few = [t for path in labelled for t in read_labelled(path, label_column=label_column, **columns)]
        many = [t for path in unlabelled or () for t in read_texts(path, **columns)]
        tables["supervised"] = trained_utility(extractor, few, many, texts, method="supervised")
        if many:
            if not quiet:
                typer.echo(f"training {2 * len(rules) + 2} times ...", err=True)
            tables[extractor.method_] = trained_utility(extractor, few, many, texts)
    if wants_json(output, json):
        print_lines(output, _json_lines(rules, tables))
    else:
        with console_for(output) as console:
            _print(console, rules, tables)


def _print(console: Console, rules: list[RuleReport], tables: dict[str, list[Utility]]) -> None:
    from rich.table import Table
    from rich.text import Text

    for rule in rules:
        said = Text.assemble((visible(rule.name), "bold"), "  ", visible(rule.sentence))
        console.print(said, soft_wrap=True)
    table = Table()
    shows_duals = any(rule.dual is not None for rule in rules)
    for name in ("rule", "tests", "model alone", "under the rules", "labels", "strength", *["dual"] * shows_duals):
        table.add_column(name, justify="left" if name == "rule" else "right")
    for rule in rules:
        table.add_row(
            visible(rule.name),
            str(rule.tested),
            str(rule.by_model),
            str(rule.by_output),
            "" if rule.by_gold is None else str(rule.by_gold),
            _strength(rule),
            *["" if rule.dual is None else f"{rule.dual:.2g}"] * shows_duals,
        )
    console.print()
    console.print(VIOLATIONS, soft_wrap=True)
    console.print(table)
    if tables:
        console.print()
        console.print(UTILITY, soft_wrap=True)
        for name, rows in tables.items():
            console.print(_utility_table(WHERE.get(name, f"Trained again by {name}"), rows))


def _strength(rule: RuleReport) -> str:
    """The strength of a rule, with its penalty or slack: "hard", "slack 0.5", "learned 2.3"."""
    from trellis.constraints.penalties import INFINITE

    amount = rule.slack if rule.penalty is None else rule.penalty
    if amount is None:
        return rule.strength
    return f"{rule.strength} {'∞' if amount >= INFINITE else f'{amount:.3g}'}"


def _utility_table(title: str, rows: list[Utility]) -> Any:
    from rich.table import Table

    table = Table(title=title, title_justify="left")
    for name in ("rule", "only this rule", "without it"):
        table.add_column(name, justify="left" if name == "rule" else "right")
    for row in rows:
        table.add_row(visible(row.name), f"{100 * row.alone:.2f}", f"{100 * row.without:.2f}")
    return table


def _json_lines(rules: list[RuleReport], tables: dict[str, list[Utility]]) -> Iterator[str]:
    import json
    from dataclasses import asdict

    by_name = {
        name: {
            kind: {"alone": row.alone, "without": row.without}
            for kind, t in tables.items()
            for row in t
            if row.name == name
        }
        for name in [*(rule.name for rule in rules), "(none)", "(all)"]
    }
    for rule in rules:
        yield json.dumps({**asdict(rule), "accuracy": by_name[rule.name]}, ensure_ascii=False)
    if tables:
        for name in ("(none)", "(all)"):
            yield json.dumps({"name": name, "accuracy": by_name[name]}, ensure_ascii=False)
