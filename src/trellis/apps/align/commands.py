"""``trellis align``: word alignments of a parallel text, trained on it or with a saved model.

As many lines come out as went in. Results do not depend on the number of threads, and a saved model aligns its training
text exactly as training did.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from enum import StrEnum
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.apps.align import fast_align
from trellis.apps.align.phrase_table import phrases
from trellis.cli.bitext import ParallelText
from trellis.cli.checks import check_files, refuse_beside, was_typed
from trellis.cli.commands import add_command
from trellis.cli.options import (
    DECODING,
    FORMAT,
    KNOWLEDGE,
    LEARNING,
    RUN,
    History,
    Json,
    Output,
    Quiet,
    Save,
    SomeModel,
    file_option,
    flag,
    name_option,
    number_option,
    wants_json,
)
from trellis.cli.settings import FieldOptions
from trellis.data.files import writing
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.apps.align.aligner import Aligner
    from trellis.apps.align.decoding import Links
    from trellis.apps.align.hints import Hint
    from trellis.data.bitext import Pair
    from trellis.metrics.alignment import GoldLinks

SETTINGS = FieldOptions(
    "trellis.apps.align.aligner:Aligner",
    decoding="symmetrize threshold decode_constraint",
    learning="constraint gamma max_iter model1_iter",
    knowledge="alike reliability",
    run="n_jobs engine memory",
)
DECODING_ALONE = ("symmetrize", "threshold", "decode_constraint", "reliability", "n_jobs", "engine")
"""Settings that count for a trained model too."""
TRAINING = ("save", "prefix", "stems_only", "mean", "priors", "alike", "history", "memory", *SETTINGS.learning.split())
"""Options that training alone reads."""


class LinkFormat(StrEnum):
    """How a line of links is written."""

    PHARAOH = "pharaoh"
    ONE_BASED = "one-based"
    WORDS = "words"


def align(
    context: typer.Context,
    source: Annotated[str | None, file_option("--source", "-s", help="Source sentences. One per line.")] = None,
    target: Annotated[
        str | None, file_option("--target", "-t", help="Target sentences. One per line, in the same order.")
    ] = None,
    joined: Annotated[
        str | None, file_option("--input", "-i", help="Both in one: `source ||| target` or tab; `-`: stdin.")
    ] = None,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    tune: Annotated[
        str | None,
        file_option("--tune", help="Gold links of the first lines; the threshold is chosen on them.", panel=DECODING),
    ] = None,
    prefix: Annotated[
        int,
        number_option(
            "--prefix", min=0, help="Letters of a stem, beside the whole word; 0: whole words alone.", panel=LEARNING
        ),
    ] = 5,
    stems_only: Annotated[
        bool, flag("--stems-only", help="Describe words by their stems alone, not as whole words too.", panel=LEARNING)
    ] = False,
    mean: Annotated[
        bool,
        flag("--no-variational", help="Estimate the tables by plain EM, without variational Bayes.", panel=LEARNING),
    ] = False,
    priors: Annotated[
        str | None,
        file_option("--priors", help="Dictionary: source TAB target [TAB weight]; below 0: never.", panel=KNOWLEDGE),
    ] = None,
    hints: Annotated[
        str | None, file_option("--hints", help="Known links, one line per pair; an empty line: none.", panel=KNOWLEDGE)
    ] = None,
    format: Annotated[
        LinkFormat,
        name_option("--format", help=f"{FORMAT} One of: pharaoh (from 0), one-based, words (`the:le`)", panel=RUN),
    ] = LinkFormat.PHARAOH,
    scores: Annotated[bool, flag("--scores", help="Write `i-j:0.93`, with each link's posterior.", panel=RUN)] = False,
    json: Json = False,
    forward_links: Annotated[
        str | None,
        file_option("--forward-links", "-f", help="Write the links of the forward direction to this file.", panel=RUN),
    ] = None,
    reverse_links: Annotated[
        str | None,
        file_option(
            "--reverse-links", help="Write the links of the reverse direction to this file. Also: `-r FILE`.", panel=RUN
        ),
    ] = None,
    probabilities: Annotated[
        str | None, file_option("--probabilities", help="Write log t(target | source) of whole words here.", panel=RUN)
    ] = None,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Align the words of a parallel text.

    `trellis align -s text.en -t text.fr -o links` trains on the text and aligns it; with `--save m` it keeps the model,
    and `trellis align -m m -s new.en -t new.fr` aligns new text without training.
    """
    from trellis.apps.align.aligner import Aligner
    from trellis.apps.align.hints import read_hints, read_priors
    from trellis.metrics.alignment import read_links

    text = ParallelText(source, target, joined)
    targets = {"--output": output, "--forward-links": forward_links, "--reverse-links": reverse_links}
    if output == "-" and not was_typed(context, "output") and (forward_links or reverse_links):
        targets["--output"] = None  # eflomal's habit: these two files are all that is wanted
    _check_model_name(model)
    if model is not None:
        hint = {"constraint": "at decoding it is --decode-constraint"}
        refuse_beside(context, "--model", "aligns without training", TRAINING, hint)
    check_files(
        {"--source": source, "--target": target, "--input": joined, "--tune": tune, "--model": model,
         "--priors": priors, "--hints": hints},
        {**targets, "--save": save, "--probabilities": probabilities, "--history": history},
    )  # fmt: skip
    for option in ("--forward-links", "--reverse-links"):
        _check_holds_links(option, targets[option])
    if model is not None:
        own = {name: settings[name] for name in DECODING_ALONE}
        aligner = Aligner.load(model, **{k: v for k, v in own.items() if v is not None or k == "n_jobs"})
    else:
        aligner = Aligner(
            prefix=prefix or None, whole_words=not stems_only, variational=not mean,
            priors=None if priors is None else read_priors(priors), verbose=not quiet, **settings,
        )  # fmt: skip
    aligner.check_settings()
    gold = read_links(tune) if tune is not None else []
    known = read_hints(hints) if hints is not None else None
    ways = {"--output": aligner.symmetrize, "--forward-links": "forward", "--reverse-links": "backward"}
    wanted = [(path, ways[option]) for option, path in targets.items() if path is not None]
    if len(wanted) > 1 or (gold and model is not None) or format is LinkFormat.WORDS or probabilities is not None:
        text.hold()
    with ExitStack() as files:
        # Opened before the work: a place that cannot be written to is noticed now.
        opened = [(files.enter_context(writing(path)), path, way) for path, way in wanted]
        for number, (out, path, way) in enumerate(opened):
            aligner.symmetrize = way
            if number == 0:
                links = _first_links(aligner, text, known, gold, trains=model is None)
            else:
                links = aligner.align_stream(text.again(), hints=known)
            pairs = text.beside() if format is LinkFormat.WORDS else repeat(None)
            for line in _lines(links, pairs, format, scores, wants_json(path, json)):
                out.write(line)
                out.write("\n")
        aligner.symmetrize = ways["--output"]
        if save is not None:
            aligner.save(save)
        if history is not None:
            aligner.history_.save(history)
        if probabilities is not None:
            _write_probabilities(aligner, text, probabilities)
    text.warn()


def _first_links(
    aligner: Aligner,
    text: ParallelText,
    known: Sequence[Sequence[Hint]] | None,
    gold: Sequence[GoldLinks],
    *,
    trains: bool,
) -> Iterable[Links]:
    """Links of the whole text, after training on it or with a model that was read."""
    if trains:
        links = aligner.fit_align(text.pairs(), hints=known, tune=gold)
    else:
        text.check_lengths()
        if gold:
            if aligner.symmetrize != "posterior":
                raise DataError("--tune chooses the threshold of --symmetrize posterior, and no other has one")
            aligner.tune_threshold([pair for _, pair in zip(gold, text.pairs(), strict=False)], gold)
        links = aligner.align_stream(text.again(), hints=known)
    if gold:
        typer.echo(f"threshold {aligner.threshold_:g}, chosen on {len(gold)} pairs", err=True)
    return links


def _check_model_name(model: str | None) -> None:
    """eflomal's ``-m 3`` names one of its three models."""
    if model in ("1", "2", "3") and not Path(model).exists():
        raise DataError(f"-m {model}: eflomal's -m chooses one of its models; here it reads a saved one: leave it out")


def _check_holds_links(option: str, path: str | None) -> None:
    """fast_align's ``-f`` reads parameters: a file that holds anything but links is not ours to replace."""
    if path is None or not Path(path).is_file():
        return
    with open(path, "rb") as file:
        first = file.readline(1000)
    if first.strip() and not re.match(rb"\s*(\d+[-?]\d+|\{)", first):
        raise DataError(f"{option} {path} would overwrite a file that holds no links: choose another name")


def _lines(
    links: Iterable[Links], pairs: Iterable[Pair | None], format: LinkFormat, scores: bool, json: bool
) -> Iterator[str]:
    """A line of links for each pair, whose words are given where they are written."""
    from json import dumps

    for given, pair in zip(links, pairs, strict=False):
        row = given.shifted(1) if format is LinkFormat.ONE_BASED else given
        shares = [f"{p:.4g}" for p in row.scores] if scores else []
        words = None if pair is None else [[pair[0][i], pair[1][j]] for i, j in row]
        if json:
            record = row.record(scores=scores)
            if words is not None:
                record = {"links": record.pop("links"), "words": words, **record}
            yield dumps(record, ensure_ascii=False)
        elif words is not None:
            yield " ".join(":".join([*two, *shares[n : n + 1]]) for n, two in enumerate(words))
        else:
            yield row.pharaoh(scores=scores)


def _write_probabilities(aligner: Aligner, text: ParallelText, path: str) -> None:
    import math

    with writing(path) as out:
        for left, right, forward, _ in aligner.translations(text.beside()):
            if forward > 0.0:
                out.write(f"{left}\t{right}\t{math.log(forward):.6g}\n")


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    add_command(
        program, align, fast_align.ANSWERS, settings=SETTINGS, translate=fast_align.in_our_words, bare=fast_align.BARE,
        inner=[phrases],
    )  # fmt: skip
