"""``trellis align``: word alignments of a parallel text, trained on it or with a saved model.

As many lines come out as went in. Results do not depend on the number of threads, and a saved model aligns its training
text exactly as training did.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.quiet import Quiet
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.bitext import Pair
    from trellis.tasks.align import Aligner, Links


class Constraint(StrEnum):
    """What the two directions' expected links must obey."""

    AGREEMENT = "agreement"
    BIJECTIVE = "bijective"
    BOTH = "both"
    NONE = "none"


class Symmetrize(StrEnum):
    """How the two directions become one set of links."""

    POSTERIOR = "posterior"
    INTERSECTION = "intersection"
    UNION = "union"
    GROW_DIAG = "grow-diag"
    GROW_DIAG_FINAL = "grow-diag-final"
    GROW_DIAG_FINAL_AND = "grow-diag-final-and"
    FORWARD = "forward"
    BACKWARD = "backward"


class Format(StrEnum):
    """How a line of links is written."""

    PHARAOH = "pharaoh"
    ONE_BASED = "one-based"
    JSON = "json"


def align(
    context: typer.Context,
    source: Annotated[str | None, typer.Option("--source", "-s", help="Source sentences, one a line.")] = None,
    target: Annotated[str | None, typer.Option("--target", "-t", help="Target sentences, line by line beside.")] = None,
    joined: Annotated[
        str | None, typer.Option("--input", "-i", help="One file of `source ||| target` (or tab) lines; `-`: stdin.")
    ] = None,
    output: Annotated[
        str, typer.Option("--output", "-o", help="Where links go (`.gz` is packed); without it, or bare, stdout.")
    ] = "-",
    constraint: Annotated[Constraint, typer.Option(help="In training and decoding.")] = Constraint.BOTH,
    decode_constraint: Annotated[
        Constraint | None, typer.Option(help="At decoding time, where it differs from training.")
    ] = None,
    gamma: Annotated[float, typer.Option(help="1: posterior regularization, 0: LP-EM, between: unified EM.")] = 1.0,
    iterations: Annotated[int, typer.Option("--iterations", "-I", help="Rounds of the HMM.")] = 2,
    model1_iterations: Annotated[int, typer.Option(help="Rounds of Model 1 before them.")] = 4,
    symmetrize: Annotated[Symmetrize, typer.Option(help="How two directions become one.")] = Symmetrize.POSTERIOR,
    threshold: Annotated[
        float | None, typer.Option(help="Least posterior of a link. Default: 0.4, or the model's.")
    ] = None,
    tune: Annotated[str | None, typer.Option(help="Gold links of the first lines, to choose the threshold on.")] = None,
    scores: Annotated[bool, typer.Option("--scores", help="Write `i-j:0.93`, with each link's posterior.")] = False,
    format: Annotated[Format, typer.Option(help="`pharaoh` counts from 0, `one-based` from 1.")] = Format.PHARAOH,
    model: Annotated[str | None, typer.Option(help="Align with this saved model, without training.")] = None,
    model_out: Annotated[str | None, typer.Option(help="Save the trained model here.")] = None,
    priors: Annotated[
        str | None, typer.Option(help="Dictionary: source TAB target [TAB weight]; below 0: never.")
    ] = None,
    alike: Annotated[
        float, typer.Option(min=0.0, help="Pseudo-count of words spelled alike on both sides; 0: none.")
    ] = 1.0,
    hints: Annotated[str | None, typer.Option(help="Known links, a line a pair; empty lines give none.")] = None,
    reliability: Annotated[float, typer.Option(help="Least expected share of the hints that hold.")] = 0.9,
    prefix: Annotated[int, typer.Option(help="Letters by which words are told apart; 0: all.")] = 5,
    probabilities: Annotated[
        str | None, typer.Option("--probabilities", "-p", help="Write the translation table here, with logarithms.")
    ] = None,
    reverse: Annotated[
        bool, typer.Option("--reverse", "-r", help="Links of the target-to-source direction alone.")
    ] = False,
    variational: Annotated[
        bool,
        typer.Option("--variational/--no-variational", "-v", help="Variational Bayes in the tables, or their mean."),
    ] = True,
    diagonal: Annotated[
        bool,
        typer.Option("--diagonal", "-d", help="As in fast_align's command lines; jump widths are always modelled."),
    ] = True,
    seed: Annotated[int | None, typer.Option(help="Accepted for scripts; nothing here is random.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: every core. The output does not depend on it.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Align the words of a parallel text.

    `trellis align -s text.en -t text.fr -o links` trains on the text and aligns it. A saved model
    (`--model-out`, then `--model`) aligns new text in a stream.
    """
    from trellis.data.files import writing
    from trellis.metrics.alignment import read_links
    from trellis.tasks.align import Aligner
    from trellis.tasks.align_hints import read_hints, read_priors

    if output in ("-v", "-d"):
        # fast_align's own -o takes no value ("-d -o -v"): what follows is a flag, and links go to standard output.
        output = "-"
    elif output.startswith("-") and output != "-":
        raise DataError(f"-o needs the name of a file, or - for standard output, but is followed by {output}")
    text = _Text(source, target, joined)
    check_files(
        {"--source": source, "--target": target, "--input": joined, "--tune": tune, "--model": model,
         "--priors": priors, "--hints": hints},
        {"--output": output, "--model-out": model_out, "--probabilities": probabilities},
    )  # fmt: skip
    if model is not None:
        _refuse_training_options(context)
    shared: dict[str, Any] = {
        "symmetrize": "backward" if reverse else symmetrize.value,
        "decode_constraint": None if decode_constraint is None else decode_constraint.value,
        "reliability": reliability,
        "threads": threads,
    }
    if threshold is not None:
        shared["threshold"] = threshold
    if model is not None:
        aligner = Aligner.load(model, **{k: v for k, v in shared.items() if v is not None or k == "threads"})
    else:
        aligner = Aligner(
            constraint.value,
            gamma=gamma,
            iterations=iterations,
            model1_iterations=model1_iterations,
            prefix=prefix or None,
            variational=variational,
            alike=alike,
            priors=None if priors is None else read_priors(priors),
            random_state=seed,
            verbose=not quiet,
            **shared,
        )
    gold = read_links(tune) if tune is not None else []
    known = read_hints(hints) if hints is not None else None
    # Opened before the work: a place that cannot be written to is noticed now.
    with writing(output) as out:
        if model is None:
            links = aligner.fit_align(text.pairs(), hints=known, tune=gold)
        else:
            text.check_lengths()
            if gold:
                aligner.tune_threshold([pair for _, pair in zip(gold, text.pairs(), strict=False)], gold)
                text.forget()
            links = aligner.align_stream(text.pairs(), hints=known)
        if gold:
            typer.echo(f"threshold {aligner.threshold_:g}, chosen on {len(gold)} pairs", err=True)
        for line in _lines(links, format, scores):
            out.write(line)
            out.write("\n")
        if model_out is not None:
            aligner.save(model_out)
        if probabilities is not None:
            _write_probabilities(aligner, probabilities)
    text.warn()


def _refuse_training_options(context: typer.Context) -> None:
    """Options that only training reads would do nothing beside --model; fast_align's -d and -v say nothing new."""
    training = ["constraint", "gamma", "iterations", "model1_iterations", "model_out", "priors", "alike", "prefix"]
    if not context.params["variational"]:
        training.append("variational")
    for name in training:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            option = "--no-variational" if name == "variational" else "--" + name.replace("_", "-")
            instead = "; at decoding time it is --decode-constraint" if name == "constraint" else ""
            raise DataError(f"--model aligns without training, so {option} has no meaning beside it{instead}")


class _Text:
    """The input, counted while it is read."""

    def __init__(self, source: str | None, target: str | None, joined: str | None) -> None:
        if joined is not None and (source is not None or target is not None):
            raise DataError("give either --input, or --source and --target, not both")
        if joined is None and (source is None or target is None):
            raise DataError("give --source and --target, or --input")
        self.source, self.target, self.joined = source, target, joined
        self.forget()

    def forget(self) -> None:
        self.n_empty = self.n_long = 0

    def pairs(self) -> Iterator[Pair]:
        from trellis.data.bitext import LONGEST, read_joined_file, read_two_files

        if self.joined is not None:
            pairs = read_joined_file(self.joined)
        else:
            pairs = read_two_files(str(self.source), str(self.target))
        for left, right in pairs:
            self.n_empty += not left or not right
            self.n_long += max(len(left), len(right)) > LONGEST
            yield left, right

    def check_lengths(self) -> None:
        """Read files once through before a stream begins, so that faults are found before any work."""
        names = [self.joined] if self.joined is not None else [self.source, self.target]
        if all(name is not None and Path(name).is_file() for name in names):
            for _ in self.pairs():
                pass
            self.forget()

    def warn(self) -> None:
        from trellis.data.bitext import LONGEST

        if self.n_empty:
            have = "pair has" if self.n_empty == 1 else "pairs have"
            typer.echo(f"Warning: {self.n_empty} {have} an empty side: no links, an empty line.", err=True)
        if self.n_long:
            pairs = "pair" if self.n_long == 1 else "pairs"
            typer.echo(
                f"Warning: more than {LONGEST} words on a side: {self.n_long} {pairs} "
                "cut into pieces at equal shares of both sides, and aligned piece by piece.",
                err=True,
            )


def _lines(links: Iterable[Links], format: Format, scores: bool) -> Iterator[str]:
    for row in links:
        if format is Format.PHARAOH:
            yield row.pharaoh(scores=scores)
        elif format is Format.ONE_BASED:
            yield row.shifted(1).pharaoh(scores=scores)
        else:
            record: dict[str, Any] = {"links": row.pairs.tolist()}
            if scores:
                record["scores"] = [float(f"{p:.4g}") for p in row.scores]
            yield json.dumps(record)


def _write_probabilities(aligner: Aligner, path: str) -> None:
    import math

    from trellis.data.files import writing

    with writing(path) as out:
        for left, right, forward, _ in aligner.translations():
            if forward > 0.0:
                out.write(f"{left}\t{right}\t{math.log(forward):.6g}\n")
