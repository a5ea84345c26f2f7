"""``trellis extract propose``: discriminative words with target expectations, as a table to edit."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import need_text
from trellis.cli.options import (
    KNOWLEDGE,
    LABELLED,
    Force,
    Json,
    LabelColumn,
    Output,
    WordColumn,
    file_option,
    number_option,
    wants_json,
)
from trellis.errors import DataError


def propose(
    text: Annotated[str, typer.Argument(help="Texts, labelled or not; `-`: stdin.")],
    labelled: Annotated[list[str] | None, LABELLED] = None,
    usual: Annotated[
        str | None,
        file_option("--usual", help="Words and their usual labels, lines `word TAB label`.", panel=KNOWLEDGE),
    ] = None,
    output: Output = "-",
    per_label: Annotated[int, number_option("--per-label", min=1, help="Number of words to propose per label.")] = 10,
    min_occurrences: Annotated[
        int, number_option("--min-occurrences", min=1, help="Propose only words that occur at least this often.")
    ] = 5,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    json: Json = False,
    force: Force = False,
) -> None:
    """Propose target expectations: words, and the expected share of each label among their occurrences.

    `trellis extract propose text.txt -l few.tsv -o targets.tsv`

    Edit the table, then use it in a rule with `targets = "targets.tsv"` and a `penalty`.
    """
    from json import dumps

    from trellis.apps.extract.propose import propose_targets
    from trellis.constraints.shares import write_targets
    from trellis.data.files import numbered_lines, writing
    from trellis.data.text_files import read_labelled, read_texts

    read = {"text": text, "--labelled": labelled, "--usual": usual}
    check_files(read, {"--output": output}, labels=("--output",), force=force)
    if not labelled and usual is None:
        raise DataError(
            "there are no labelled words to start from: give --labelled few.tsv, --usual words.tsv, or both"
        )
    many = read_texts(text, word_column=word_column)
    need_text(text, many)
    few = [
        t
        for path in labelled or ()
        for t in read_labelled(path, word_column=word_column, label_column=label_column)
    ]  # fmt: skip
    if labelled:
        need_text(", ".join(labelled), few)
    words: dict[str, list[str]] = {}
    for number, line in numbered_lines(usual) if usual is not None else ():
        if line.strip():
            entry, tab, names = line.partition("\t")
            if not tab or not entry or not names.split():
                message = "a line is a word, a tab, and labels with spaces between them"
                raise DataError(message, path=usual, line=number)
            words.setdefault(entry, []).extend(names.split())
    texts = [t.tokens for t in (*many, *few)]
    labels = [None] * len(many) + [t.labels for t in few]
    found = propose_targets(texts, labels, words=words, per_label=per_label, min_count=min_occurrences)
    if not found:
        raise DataError(
            f"no labelled word occurs {min_occurrences} times: lower --min-occurrences, or label more texts"
        )
    if wants_json(output, json):
        with writing(output) as out:
            for one in found:
                out.write(dumps({"word": one.name, "count": one.count, "shares": dict(one.shares)}) + "\n")
        return
    write_targets(output, found, list(found[0].shares))
