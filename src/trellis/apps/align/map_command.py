"""``trellis align map``: links of words as links of subwords, or the other way round."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import Annotated

from trellis.cli.checks import check_files
from trellis.cli.console import print_lines
from trellis.cli.options import KNOWLEDGE, Output, Quiet, file_option
from trellis.data.files import numbered_lines, shown
from trellis.data.text import words_of
from trellis.errors import DataError


def map_(
    links: Annotated[str, file_option("--links", help="Word links, `i-j` from 0, of tokenised text.", panel=KNOWLEDGE)],
    source: Annotated[
        str | None, file_option("--source", "-s", help="Source sentences. Tokenised as for the links.")
    ] = None,
    target: Annotated[
        str | None, file_option("--target", "-t", help="Target sentences. Tokenised as for the links.")
    ] = None,
    new_source: Annotated[
        str | None, file_option("--new-source", help="Source sentences in the new tokenisation.")
    ] = None,
    new_target: Annotated[
        str | None, file_option("--new-target", help="Target sentences in the new tokenisation.")
    ] = None,
    output: Output = "-",
    quiet: Quiet = False,
) -> None:
    """Map links to other tokens of the same text.

    `trellis align map --links links -s text.en --new-source text.bpe.en -o new.links`

    Tokens that share characters correspond. A side whose tokens stay the same is left out. Markers of SentencePiece,
    subword-nmt, WordPiece and Moses are understood.
    """
    sides = {"--source": source, "--target": target, "--new-source": new_source, "--new-target": new_target}
    check_files({**sides, "--links": links}, {"--output": output})
    for old, new in (("--source", "--new-source"), ("--target", "--new-target")):
        if (sides[old] is None) != (sides[new] is None):
            raise DataError(f"{old} and {new} must be given together: the same sentences in two tokenisations")
    if source is None and target is None:
        raise DataError("give --source with --new-source, --target with --new-target, or all four")
    print_lines(output, list(_mapped(links, sides)))  # all or nothing, on standard output too


def _mapped(path: str, sides: dict[str, str | None]) -> Iterator[str]:
    from trellis.apps.align.mapping import corresponding, map_links
    from trellis.metrics.alignment import parse_links

    used = {option: name for option, name in sides.items() if name is not None}
    every = [numbered_lines(path), *(numbered_lines(name) for name in used.values())]
    for number, lines in enumerate(zip_longest(*every), 1):
        if None in lines:
            short = [name for name, line in zip([path, *used.values()], lines, strict=True) if line is None]
            raise DataError(f"ends before line {number}, but another file has more lines", path=shown(short[0]))
        words = {option: words_of(line[1]) for option, line in zip(used, lines[1:], strict=True)}
        found = parse_links(lines[0][1], path=shown(path), number=number).possible
        try:
            places = [
                corresponding(words[f"--{side}"], words[f"--new-{side}"]) if f"--{side}" in words else None
                for side in ("source", "target")
            ]
            mapped = map_links(found, *places)
        except DataError as error:
            raise DataError(f"{error} ({', '.join(used.values())})", path=shown(path), line=number) from None
        yield " ".join(f"{i}-{j}" for i, j in mapped)
