"""``trellis transfer``: a parser for a language without a treebank, from a parser of another and a bitext."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.options import (
    KNOWLEDGE,
    LEARNING,
    RUN,
    SAVE,
    TOKENISED,
    Output,
    Quiet,
    file_option,
    number_option,
)
from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.document import Document


SETTINGS = FieldOptions(
    "trellis.apps.parse.transfer:Transfer",
    learning="model gamma max_iter longest max_pairs",
    run="n_jobs engine",
    flags={"model": "--kind"},
)


def transfer(
    source_parser: Annotated[
        str, file_option("--source-parser", help="Parser of the source language (`trellis parse train`).")
    ],
    source: Annotated[
        str,
        file_option("--source", "-s", help="Source sentences. CoNLL-U (.conllu), or text with one sentence per line."),
    ],
    target: Annotated[
        str, file_option("--target", "-t", help="Target sentences. Their translations, in the same order.")
    ],
    save: Annotated[str, SAVE],
    source_tagger: Annotated[
        str | None,
        file_option(
            "--source-tagger", help="Tagger of the source (`trellis tag train`), which also tokenises.", panel=KNOWLEDGE
        ),
    ] = None,
    target_tagger: Annotated[
        str | None,
        file_option("--target-tagger", help="Tagger of the target, which also tokenises.", panel=KNOWLEDGE),
    ] = None,
    links: Annotated[
        str | None,
        file_option(
            "--links",
            help="Word links, `i-j` from 0, of tokenised text. Default: the words are aligned first.",
            panel=KNOWLEDGE,
        ),
    ] = None,
    tokenised: Annotated[bool, TOKENISED] = False,
    eta: Annotated[
        str | None,
        number_option(
            "--eta",
            help="Least expected share of projected heads kept. `auto`: found without trees. Default: 0.95; 1 of dmv.",
            panel=LEARNING,
        ),
    ] = None,
    parse: Annotated[str | None, file_option("--parse", help="Then parse these target sentences.", panel=RUN)] = None,
    output: Output = "-",
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Carry a parser over to another language.

    `trellis transfer --source-parser en.trellis -s en.conllu -t es.conllu --links links.txt --save es.trellis`

    Both sides have tags in UPOS, or get them from a tagger, which tokenises raw text as its treebank is tokenised.
    """
    from trellis.apps.align.aligner import Aligner
    from trellis.apps.parse.parser import Parser
    from trellis.apps.parse.transfer import Transfer
    from trellis.data.conllu import write_conllu
    from trellis.metrics.alignment import read_links

    share = _share(eta)
    check_files(
        {
            "--source-parser": source_parser,
            "--source": source,
            "--target": target,
            "--links": links,
            "--parse": parse,
            "--source-tagger": source_tagger,
            "--target-tagger": target_tagger,
        },
        {"--save": save, "--output": output if parse is not None else None},
    )
    learner = Transfer(eta=share, verbose=not quiet, **settings)
    learner.check_settings()
    n_jobs, engine = settings["n_jobs"], settings["engine"]
    known = Parser.load(source_parser, n_jobs=n_jobs)
    raw = links is None and not tokenised
    one = _tagged(source, source_tagger, "--source-tagger", n_jobs, raw=raw)
    other = _tagged(target, target_tagger, "--target-tagger", n_jobs, raw=raw)
    if len(one) != len(other):
        raise DataError(f"{source} has {len(one)} sentences but {target} has {len(other)}")
    new = [] if parse is None else _tagged(parse, target_tagger, "--target-tagger", n_jobs, raw=not tokenised)
    if links is not None:
        linked = [sorted(row.possible) for row in read_links(links)]
        if len(linked) != len(one):
            raise DataError(f"{links} has {len(linked)} lines but there are {len(one)} sentence pairs")
    else:
        aligner = Aligner(n_jobs=n_jobs, engine=engine, verbose=not quiet)
        pairs = [
            ([w.lower() for w in s.tokens], [w.lower() for w in t.tokens]) for s, t in zip(one, other, strict=True)
        ]
        linked = [list(found) for found in aligner.fit_align(pairs)]
    learner.fit(zip(known.predict(one), other, strict=True), linked)
    learner.save(save)
    found = f"eta {learner.eta_:g}; " if share == "auto" else ""
    typer.echo(
        f"{found}{learner.n_pairs_} pairs; {100 * learner.conserved_:.1f} % of projected heads are kept", err=True
    )
    if parse is not None:
        write_conllu(output, learner.predict([s for s in new if len(s)]))


def _share(eta: str | None) -> float | str | None:
    """The value of --eta: a share, or how to find it."""
    if eta is None or eta == "auto":
        return eta
    try:
        share = float(eta)
    except ValueError:
        share = -1.0
    if not 0.0 <= share <= 1.0:
        raise DataError(f"--eta is a number from 0 to 1, or auto, but got {eta!r}")
    return share


def _tagged(path: str, tagger: str | None, option: str, n_jobs: int | None, *, raw: bool) -> list[Document]:
    """The sentences of a file, tagged where there is a tagger for them; ``raw`` : bare text is tokenised."""
    from trellis.apps.parse.tagger import Tagger
    from trellis.data.conllu import is_conllu, read_text

    sentences = list(read_text(path))
    if tagger is not None:
        known = Tagger.load(tagger, n_jobs=n_jobs)
        if raw and not is_conllu(path):
            sentences = [known.tokenise(s) for s in sentences]
        return known.predict(sentences)
    if any(len(s) and (s.labels is None or None in s.labels) for s in sentences):
        raise DataError(f"{path} has words without tags (UPOS): give a tagger of its language, {option}")
    return sentences
