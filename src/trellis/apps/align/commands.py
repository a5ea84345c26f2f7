"""``trellis align``: word alignments of a parallel text, trained on it or with a saved model.

As many lines come out as went in. Results do not depend on the number of threads, and a saved model aligns its training
text exactly as training did.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trellis.apps.align import fast_align
from trellis.apps.align.link_lines import LinkFormat, LinkLines
from trellis.apps.align.map_command import map_
from trellis.apps.align.options import (
    BackwardLinks,
    Format,
    ForwardLinks,
    Hints,
    Interactive,
    Joined,
    Mean,
    PairScores,
    Prefix,
    Priors,
    Probabilities,
    Scores,
    Source,
    StemsOnly,
    Target,
    Tune,
)
from trellis.apps.align.phrase_table import phrases
from trellis.cli.bitext import ParallelText
from trellis.cli.checks import check_files, refuse_beside, was_typed
from trellis.cli.commands import add_command
from trellis.cli.options import History, Json, Output, Quiet, Save, SomeModel, wants_json
from trellis.cli.settings import FieldOptions
from trellis.data.files import writing
from trellis.errors import DataError, counted

if TYPE_CHECKING:
    from trellis.apps.align.aligner import Aligner
    from trellis.apps.align.decoding import Links
    from trellis.apps.align.hints import Hint
    from trellis.metrics.alignment import GoldLinks

SETTINGS = FieldOptions(
    "trellis.apps.align.aligner:Aligner",
    decoding="symmetrize threshold decode_constraint",
    learning="constraint gamma max_iter model1_iter concentration diagonal_scale",
    knowledge="same_spelling reliability",
    run="n_jobs engine memory",
)
DECODING_ALONE = ("symmetrize", "threshold", "decode_constraint", "reliability", "n_jobs", "engine")
"""Settings that count for a trained model too."""
TRAINING = (
    "save",
    "prefix",
    "stems_only",
    "mean",
    "priors",
    "same_spelling",
    "history",
    "memory",
    *SETTINGS.learning.split(),
)
"""Options that training alone reads."""
NOT_INTERACTIVE = (
    "source", "target", "joined", "tune", "hints", "reliability", "forward_links", "backward_links", "probabilities",
    "pair_scores", "n_jobs", "engine",
)  # fmt: skip
"""Options of whole texts."""


def align(
    context: typer.Context,
    source: Source = None,
    target: Target = None,
    joined: Joined = None,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    tune: Tune = None,
    prefix: Prefix = 5,
    stems_only: StemsOnly = False,
    mean: Mean = False,
    priors: Priors = None,
    hints: Hints = None,
    format: Format = LinkFormat.PHARAOH,
    scores: Scores = False,
    json: Json = False,
    forward_links: ForwardLinks = None,
    backward_links: BackwardLinks = None,
    probabilities: Probabilities = None,
    pair_scores: PairScores = None,
    interactive: Interactive = False,
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

    form = LinkLines(format, scores, json)
    _check_model_name(model)
    own = {name: settings[name] for name in DECODING_ALONE}
    changed = {k: v for k, v in own.items() if v is not None or k == "n_jobs"}
    if model is not None:
        hint = {"constraint": "at decoding it is --decode-constraint"}
        refuse_beside(context, "--model", "aligns without training", TRAINING, hint)
    if interactive:
        _answer_lines(context, model, output, changed, form)
        return
    text = ParallelText(source, target, joined)
    targets = {"--output": output, "--forward-links": forward_links, "--backward-links": backward_links}
    if output == "-" and not was_typed(context, "output") and (forward_links or backward_links):
        targets["--output"] = None  # eflomal's habit: these two files are all that is wanted
    check_files(
        {"--source": text.source, "--target": text.target, "--input": text.joined, "--tune": tune, "--model": model,
         "--priors": priors, "--hints": hints},
        {**targets, "--save": save, "--probabilities": probabilities, "--pair-scores": pair_scores,
         "--history": history},
    )  # fmt: skip
    for option in ("--forward-links", "--backward-links"):
        _check_holds_links(option, targets[option], format)
    if model is not None:
        aligner = Aligner.load(model, **changed)
    else:
        aligner = Aligner(
            prefix=prefix or None, whole_words=not stems_only, variational=not mean,
            priors=None if priors is None else read_priors(priors), verbose=not quiet, **settings,
        )  # fmt: skip
    aligner.check_settings()
    gold = read_links(tune) if tune is not None else []
    known = read_hints(hints) if hints is not None else None
    reads = sum(path is not None for path in (*targets.values(), probabilities, pair_scores))
    if reads > 1 or format is LinkFormat.WORDS or (gold and model is not None):
        text.hold()
    with ExitStack() as files:
        _write_links(files, aligner, text, targets, form, known, gold, trains=model is None)
        if save is not None:
            aligner.save(save)
        if history is not None:
            aligner.history_.save(history)
        _write_tables(aligner, text, probabilities, pair_scores)
    text.warn()


def _write_links(
    files: ExitStack,
    aligner: Aligner,
    text: ParallelText,
    targets: dict[str, str | None],
    form: LinkLines,
    known: Sequence[Sequence[Hint]] | None,
    gold: Sequence[GoldLinks],
    *,
    trains: bool,
) -> None:
    """The links of the whole text into each of the files that are wanted."""
    combined = aligner.symmetrize
    ways = {"--output": combined, "--forward-links": "forward", "--backward-links": "backward"}
    wanted = [(path, ways[option]) for option, path in targets.items() if path is not None]
    # Opened before the work: a place that cannot be written to is noticed now.
    opened = [(files.enter_context(writing(path)), path, way) for path, way in wanted]
    for number, (out, path, way) in enumerate(opened):
        aligner.symmetrize = way
        if number == 0:
            links = _first_links(aligner, text, known, gold, trains=trains)
        else:
            links = aligner.align_stream(text.again(), hints=known)
        pairs = text.beside() if form.format is LinkFormat.WORDS else repeat(None)
        out.writelines(replace(form, json=wants_json(path, form.json)).lines(links, pairs))
    aligner.symmetrize = combined


def _answer_lines(
    context: typer.Context, model: str | None, output: str, changed: dict[str, Any], form: LinkLines
) -> None:
    """--interactive, with a model."""
    from trellis.apps.align.aligner import Aligner
    from trellis.apps.align.interactive import answer
    from trellis.data.files import lines_or_errors

    if model is None:
        raise DataError("--interactive needs a trained model: name it with --model")
    refuse_beside(context, "--interactive", "reads standard input line by line", NOT_INTERACTIVE)
    check_files({"--interactive": "-", "--model": model}, {"--output": output})
    aligner = Aligner.load(model, **{**changed, "n_jobs": 1})
    aligner.check_settings()
    with writing(output) as out:
        answer(aligner, lines_or_errors("-"), out, replace(form, json=wants_json(output, form.json)))


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
                raise DataError("--tune chooses the threshold of --symmetrize posterior; other methods have none")
            aligner.tune_threshold([pair for _, pair in zip(gold, text.pairs(), strict=False)], gold)
        links = aligner.align_stream(text.again(), hints=known)
    if gold:
        typer.echo(f"threshold {aligner.threshold_:g}, chosen on {counted(len(gold), 'pair')}", err=True)
    return links


def _check_model_name(model: str | None) -> None:
    """eflomal's ``-m 3`` names one of its three models."""
    if model in ("1", "2", "3") and not Path(model).exists():
        raise DataError(f"-m {model}: in eflomal, -m selects a model type; here it reads a saved model: leave it out")


def _check_holds_links(option: str, path: str | None, form: LinkFormat) -> None:
    """Refuse to replace a file that contains anything but links: fast_align reads parameters with ``-f``."""
    if path is None or not Path(path).is_file():
        return
    with gzip.open(path) if path.endswith(".gz") else open(path, "rb") as file:
        try:
            first = file.readline(1000)
        except (OSError, EOFError):
            first = b"not compressed"
    words = rb"|\S+:\S+" if form is LinkFormat.WORDS else b""
    if first.strip() and not re.match(rb"\s*(\d+[-?]\d+|\{" + words + rb")", first):
        raise DataError(f"{option} {path} would overwrite a file that does not contain links: choose another name")


def _write_tables(aligner: Aligner, text: ParallelText, probabilities: str | None, pair_scores: str | None) -> None:
    """What is asked for beside links."""
    import math

    from trellis.apps.align.pairs import chunks_of

    if probabilities is not None:
        with writing(probabilities) as out:
            for left, right, forward, _ in aligner.translations(text.beside()):
                if forward > 0.0:
                    out.write(f"{left}\t{right}\t{math.log(forward):.6g}\n")
    if pair_scores is not None:
        with writing(pair_scores) as out:
            for chunk in chunks_of(text.beside()):
                out.writelines(f"{a:.5g}\t{b:.5g}\n" for a, b in aligner.score_pairs(chunk))


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    add_command(
        program, align, fast_align.ANSWERS, settings=SETTINGS, translate=fast_align.in_our_words, bare=fast_align.BARE,
        inner=[phrases, map_],
    )  # fmt: skip
