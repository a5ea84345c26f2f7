"""``trellis transfer``: a parser for a language without a treebank, from a parser of another and a bitext."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.quiet import Quiet
from trellis.errors import DataError


class Kind(StrEnum):
    """The model that is learned."""

    MARGIN = "margin"
    LIKELIHOOD = "likelihood"
    DMV = "dmv"


def transfer(
    source_parser: Annotated[str, typer.Option(help="Parser of the source language (`trellis parse train`).")],
    source: Annotated[str, typer.Option("--source", "-s", help="Source sentences, CoNLL-U with tags in UPOS.")],
    target: Annotated[str, typer.Option("--target", "-t", help="Their translations, one by one, CoNLL-U with tags.")],
    save: Annotated[str, typer.Option(help="Write the target parser here.")],
    links: Annotated[
        str | None, typer.Option(help="Word links, `i-j` from 0, a line per pair. Default: words are aligned first.")
    ] = None,
    kind: Annotated[
        Kind, typer.Option(help="Edge-factored, by margin or likelihood; or the generative model with valence.")
    ] = Kind.MARGIN,
    eta: Annotated[float, typer.Option(min=0.0, max=1.0, help="Least expected share of projected heads kept.")] = 0.95,
    gamma: Annotated[float, typer.Option(min=0.0, help="1: posterior regularization; 0: best trees.")] = 1.0,
    rounds: Annotated[
        int | None, typer.Option("--rounds", "-I", min=1, help="Of likelihood (default 1) and dmv (default 3).")
    ] = None,
    longest: Annotated[int, typer.Option(min=2, help="Longer target sentences are left out.")] = 20,
    parse: Annotated[str | None, typer.Option(help="Then parse these target sentences, CoNLL-U.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Where their trees go; `-`: stdout.")] = "-",
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: every core. The output does not depend on it.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Carry a parser over to another language.

    `trellis transfer --source-parser en.trellis -s en.conllu -t es.conllu --links links.txt --save es.trellis`
    """
    from trellis.data.conllu import read_conllu, write_conllu
    from trellis.metrics.alignment import read_links
    from trellis.models import load_model
    from trellis.tasks.align import Aligner
    from trellis.tasks.parse import Parser
    from trellis.tasks.transfer import Transfer

    check_files(
        {"--source-parser": source_parser, "--source": source, "--target": target, "--links": links, "--parse": parse},
        {"--save": save, "--output": output if parse is not None else None},
    )
    known = load_model(source_parser, threads=threads)
    if not isinstance(known, Parser):
        raise DataError(
            f"{source_parser} holds a {type(known).__name__}, not a parser that `trellis parse train` saved"
        )
    one, other = list(read_conllu(source)), list(read_conllu(target))
    if len(one) != len(other):
        raise DataError(f"{source} has {len(one)} sentences but {target} has {len(other)}")
    if links is not None:
        linked = [sorted(row.possible) for row in read_links(links)]
        if len(linked) != len(one):
            raise DataError(f"{links} has {len(linked)} lines but there are {len(one)} sentence pairs")
    else:
        aligner = Aligner(threads=threads, verbose=not quiet)
        pairs = [([w.lower() for w in s.words], [w.lower() for w in t.words]) for s, t in zip(one, other, strict=True)]
        linked = [list(found) for found in aligner.fit_align(pairs)]
    learner = Transfer(
        model=kind.value, eta=eta, gamma=gamma, rounds=rounds, longest=longest, threads=threads,
        show_progress=not quiet,
    ).fit(known.predict(one), other, linked)  # fmt: skip
    learner.save(save)
    typer.echo(f"{learner.n_pairs_} pairs; {100 * learner.conserved_:.1f} % of projected heads are kept", err=True)
    if parse is not None:
        write_conllu(output, learner.predict(list(read_conllu(parse))))
