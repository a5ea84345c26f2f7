"""``trellis induce``: a state (an unnamed part of speech) for every word of a text.

As many lines come out as words went in, ``word TAB state``, with a blank line between sentences. Results do not depend
on the number of threads.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.quiet import Quiet
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.sentence import Sentence
    from trellis.tasks.induce import Inducer


class Method(StrEnum):
    """How the HMM is trained."""

    EM = "em"
    SPARSE = "sparse"
    VB = "vb"


class Decoding(StrEnum):
    """How states are read off."""

    POSTERIOR = "posterior"
    VITERBI = "viterbi"


def induce(
    text: Annotated[
        str, typer.Argument(help="One tokenised sentence a line; or columns (.tsv), the word first; `-`: stdin.")
    ],
    states: Annotated[int, typer.Option("--states", "-k", min=1, help="Number of states.")] = 17,
    method: Annotated[Method, typer.Option(help="EM; EM then posterior sparsity; variational Bayes.")] = Method.SPARSE,
    strength: Annotated[float, typer.Option(min=0.0, help="σ of posterior sparsity; 0: EM.")] = 32.0,
    frequent: Annotated[int, typer.Option(min=1, help="Words seen so often are made sparse.")] = 11,
    rounds: Annotated[int, typer.Option("--rounds", "-I", min=1, help="Rounds in all.")] = 200,
    em_rounds: Annotated[int, typer.Option(min=0, help="Rounds of EM before sparsity.")] = 30,
    dual_steps: Annotated[int, typer.Option(min=1, help="Dual steps a round: more is nearer to each optimum.")] = 1,
    emission_prior: Annotated[float | None, typer.Option(help="Dirichlet α of words. Default: 1; vb: 0.1.")] = None,
    transition_prior: Annotated[float | None, typer.Option(help="Dirichlet α of transitions, likewise.")] = None,
    min_count: Annotated[int, typer.Option(min=1, help="Rarer words are one unknown word.")] = 2,
    gamma: Annotated[float, typer.Option(help="1: EM and PR; 0: hard EM (without sparsity); between: UEM.")] = 1.0,
    closed: Annotated[
        str | None, typer.Option(help="Closed-class words: word TAB tag lines, a word as often as it has tags.")
    ] = None,
    dictionary: Annotated[
        str | None, typer.Option(help="Labels that words may have, in the same form; then -k is not needed.")
    ] = None,
    labelled: Annotated[
        str | None, typer.Option(help="A few labelled sentences (word TAB tag) to start from; they name the states.")
    ] = None,
    decoding: Annotated[Decoding, typer.Option(help="Likeliest state of each word, or likeliest sequence.")] = (
        Decoding.POSTERIOR
    ),
    output: Annotated[str, typer.Option("--output", "-o", help="Where states go; `-`: stdout.")] = "-",
    model: Annotated[str | None, typer.Option(help="Save the HMM here.")] = None,
    apply: Annotated[str | None, typer.Option(help="Tag with this saved HMM, without training.")] = None,
    history: Annotated[str | None, typer.Option(help="Write the rounds here, as JSON lines.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random start.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: every core. The output does not depend on it.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Induce parts of speech from text alone, or from text and a little knowledge.

    `trellis induce text.txt -k 17 --method sparse --strength 32 -o tags.tsv`
    """
    from trellis.data.columns import read_columns
    from trellis.tasks.induce import Inducer, tag_text

    check_files(
        {"text": text, "--closed": closed, "--dictionary": dictionary, "--labelled": labelled, "--apply": apply},
        {"--output": output, "--model": model, "--history": history},
    )
    if apply is not None and (model or closed or dictionary or labelled or history):
        raise DataError("--apply tags without training: options of training have no meaning beside it")
    sentences = _read(text)
    words = [list(s.words) for s in sentences]
    if apply is not None:
        from trellis.models import HMM, load_model

        loaded = load_model(apply)
        if not isinstance(loaded, HMM):
            raise DataError(f"{apply} holds a {type(loaded).__name__}, not an HMM")
        _write(output, sentences, tag_text(loaded, words, decoding.value))
        return
    known = [] if labelled is None else list(read_columns(labelled))
    tags = None if dictionary is None else _word_tags(dictionary)
    names: list[str] | int = states
    if known or tags is not None:
        found = {t for s in known for t in s.labels or () if t} | {t for own in (tags or {}).values() for t in own}
        names = sorted(found)
    inducer = Inducer(
        names, method=method.value, strength=strength, frequent=frequent, rounds=rounds, em_rounds=em_rounds,
        dual_steps=dual_steps, emission_prior=emission_prior, transition_prior=transition_prior, min_count=min_count,
        closed_classes=None if closed is None else _word_tags(closed), tag_dictionary=tags, gamma=gamma,
        decoding=decoding.value, threads=threads, random_state=seed, show_progress=not quiet,
    )  # fmt: skip
    _fit(inducer, known, words)
    if model is not None:
        inducer.save(model)
    if history is not None:
        inducer.history_.save(history)
    _write(output, sentences, inducer.states()[len(known) :])


def _fit(inducer: Inducer, known: list[Sentence], words: list[list[str]]) -> None:
    labels = [*([None if t is None else t for t in s.labels or ()] for s in known), *([None] * len(words))]
    inducer.fit([*(list(s.words) for s in known), *words], labels if known else None)


def _read(path: str) -> list[Sentence]:
    from trellis.data.columns import read_columns
    from trellis.data.text import read_text

    if path.endswith((".tsv", ".tsv.gz", ".conll")):
        sentences = list(read_columns(path, label=None))
    else:
        sentences = [s for s in read_text(path) if len(s)]
    if not sentences:
        raise DataError(f"{path} has no sentences")
    return sentences


def _word_tags(path: str) -> dict[str, list[str]]:
    """word TAB tag lines."""
    from trellis.data.files import whole_lines

    found: dict[str, list[str]] = {}
    for number, line in whole_lines(path):
        cells = line.split("\t")
        if not line.strip():
            continue
        if len(cells) != 2 or not cells[0] or not cells[1].strip():
            raise DataError("expected a word, a tab and its tag", path=path, line=number)
        tag = cells[1].strip()
        if tag not in found.setdefault(cells[0], []):
            found[cells[0]].append(tag)
    if not found:
        raise DataError(f"{path} names no words")
    return found


def _write(output: str, sentences: list[Sentence], states: list[list[str]]) -> None:
    from dataclasses import replace

    from trellis.data.columns import write_columns

    write_columns(output, (replace(s, labels=tuple(own), columns={}) for s, own in zip(sentences, states, strict=True)))
