"""``trellis align phrases``: a phrase table from a parallel text and its links."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated

import typer

from trellis.cli.bitext import ParallelText
from trellis.cli.checks import check_files, refuse_beside
from trellis.cli.options import DECODING, KNOWLEDGE, RUN, Output, Quiet, file_option, flag, number_option
from trellis.data.files import numbered_lines, shown, writing
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.apps.align.phrases import PhraseTable


def phrases(
    context: typer.Context,
    links: Annotated[str, file_option("--links", help="Word links, `i-j` from 0, of tokenised text.")],
    source: Annotated[str | None, file_option("--source", "-s", help="Source sentences. One per line.")] = None,
    target: Annotated[
        str | None, file_option("--target", "-t", help="Target sentences. One per line, in the same order.")
    ] = None,
    joined: Annotated[
        str | None, file_option("--input", "-i", help="Both sides: `source ||| target` or tab; `-`: stdin.")
    ] = None,
    output: Output = "-",
    max_phrase_length: Annotated[
        int, number_option("--max-phrase-length", min=1, help="Maximum number of words in a phrase.", panel=DECODING)
    ] = 7,
    weighted: Annotated[
        bool, flag("--weighted", help="Weight phrase pairs by the posteriors of their links.", panel=KNOWLEDGE)
    ] = False,
    min_probability: Annotated[
        float,
        number_option(
            "--min-probability",
            min=1e-6,
            max=1.0,
            help="Minimum probability of a phrase pair, with `--weighted`.",
            panel=KNOWLEDGE,
        ),
    ] = 0.1,
    lexicon: Annotated[
        str | None, file_option("--lexicon", help="Write word translation probabilities to this file.", panel=RUN)
    ] = None,
    reordering: Annotated[
        str | None, file_option("--reordering", help="Write orientation probabilities to this file.", panel=RUN)
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Write the phrase table of an aligned parallel text, in the format of Moses.

    `trellis align phrases -s text.en -t text.fr --links links -o phrases.gz`

    Each line has a source and a target phrase, four scores (inverse and direct phrase probabilities, each followed by
    its lexical weight), the links inside, and counts. Lines are sorted; memory does not grow with the text.
    """
    from trellis.apps.align.phrases import PhraseTable
    from trellis.engine.progress import Progress

    if not weighted:
        refuse_beside(context, "without --weighted links", "have no probabilities", ["min_probability"])
    text = ParallelText(source, target, joined)
    check_files(
        {"--source": source, "--target": target, "--input": joined, "--links": links},
        {"--output": output, "--lexicon": lexicon, "--reordering": reordering},
    )
    with ExitStack() as files:
        out = files.enter_context(writing(output))
        words = None if lexicon is None else files.enter_context(writing(lexicon))
        orders = None if reordering is None else files.enter_context(writing(reordering))
        table = files.enter_context(
            PhraseTable(max_length=max_phrase_length, min_weight=min_probability if weighted else 0.5)
        )
        with Progress("extracting phrases", None, not quiet, "sentence pairs") as progress:
            for _ in progress.over(_added(table, text, links, weighted)):
                pass
        if words is not None:
            for left, right, forward, backward in table.word_translations():
                words.write(f"{left}\t{right}\t{forward:.6g}\t{backward:.6g}\n")
        with Progress("writing", None, not quiet, "phrase pairs") as progress:
            for entry in progress.over(table.entries()):
                out.write(entry.moses() + "\n")
                if orders is not None:
                    orders.write(entry.reordering() + "\n")


def _added(table: PhraseTable, text: ParallelText, path: str, weighted: bool) -> Iterator[None]:
    """Add the phrase pairs of every sentence pair."""
    from trellis.metrics.alignment import parse_probabilities

    for count, (pair, line) in enumerate(zip_longest(text.pairs(), numbered_lines(path)), 1):
        if pair is None or line is None:
            ended = "the text ends" if pair is None else "the links end"
            raise DataError(
                f"{ended} before line {count}: there must be a line of links for each pair", path=shown(path)
            )
        number, links = line
        found = parse_probabilities(links, path=shown(path), number=number)
        if weighted and None in found.values():
            raise DataError(
                "a link has no probability: write links with `trellis align --scores`", path=shown(path), line=number
            )
        try:
            source, target = ([word.replace("|", "&#124;") for word in side] for side in pair)  # as in Moses' tokeniser
            table.add(source, target, {link: p or 0.0 for link, p in found.items()} if weighted else list(found))
        except DataError as error:
            raise DataError(
                f"{error}: are these links of {' and '.join(text.names)}?", path=shown(path), line=number
            ) from None
        yield
