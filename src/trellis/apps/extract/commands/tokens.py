"""``trellis extract tokens``: raw text tokenised into columns, ready for labelling."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import print_lines
from trellis.cli.options import RULES, Force, Json, Output, file_option, flag, name_option, number_option, wants_json
from trellis.data.files import shown
from trellis.errors import DataError


def tokens(
    text: Annotated[str, typer.Argument(help="Texts, one per line; `-`: stdin.")] = "-",
    output: Output = "-",
    lines: Annotated[int | None, number_option("--lines", "-n", min=1, help="Tokenise only the first N texts.")] = None,
    rules: Annotated[
        str | None,
        file_option(
            "--rules",
            help=f"{RULES} Texts are tokenised as the rules declare.",
        ),
    ] = None,
    by: Annotated[
        str | None,
        name_option(
            "--by",
            help="How texts are tokenised: `words` (default), `whitespace`, `characters`, or a regular expression.",
        ),
    ] = None,
    plain: Annotated[
        bool, flag("--plain", help="Write one text per line, tokens separated by spaces, as input of `align`.")
    ] = False,
    json: Json = False,
    force: Force = False,
) -> None:
    """Tokenise texts for labelling: one token per line, with `_` in place of its label.

    `trellis extract tokens text.txt -n 5 -o few.tsv` starts a file of labelled examples. If you choose a tokenisation
    with `--by`, set it in the rules file too (`tokens` or `token_pattern`), since `train` and `predict` tokenise raw
    text as the rules file says.
    """
    from dataclasses import replace
    from itertools import chain, islice

    from trellis.data.columns import write_columns
    from trellis.data.records import write_documents
    from trellis.data.text_files import stream_texts
    from trellis.data.tokens import TOKENISERS, WORDS, Tokeniser

    check_files({"text": text, "--rules": rules}, {"--output": output}, labels=("--output",), force=force)
    if rules is not None and by is not None:
        raise DataError("--rules and --by both define how texts are tokenised: give only one of them")
    tokeniser = WORDS
    if rules is not None:
        from trellis.constraints import read_rules  # with the compiler, a second

        tokeniser = read_rules(rules).tokeniser
    if by is not None:
        tokeniser = Tokeniser(by) if by in TOKENISERS else Tokeniser("pattern", by)
    texts, blank = stream_texts(text, tokeniser=tokeniser), []
    for first in texts:
        blank.append(first)
        if len(first):
            break
    else:
        raise DataError("there is no text in it", path=shown(text))
    every = chain(blank, texts)
    some = islice((t for t in every if len(t)), lines)
    if plain:
        print_lines(output, (" ".join(t.tokens) for t in islice(every, lines)))
    elif wants_json(output, json):
        write_documents(output, (replace(s, labels=(None,) * len(s), columns={}) for s in some))
    else:
        write_columns(output, (replace(s, labels=None, columns={}) for s in some))
