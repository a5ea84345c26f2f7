"""``trellis induce``: a state (an unnamed part of speech) for every word of a text.

As many lines come out as words went in, ``word TAB state``, with a blank line between sentences. Results do not depend
on the number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from enum import StrEnum
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated

import typer

from trellis.cli.checks import check_files, flags, refuse_beside
from trellis.cli.commands import add_command
from trellis.cli.options import (
    DECODING,
    GAMMA,
    KNOWLEDGE,
    LABELLED_KNOWLEDGE,
    LEARNING,
    METHOD,
    MIN_COUNT,
    ROUNDS,
    SEED,
    Engine,
    Force,
    History,
    Json,
    Memory,
    Output,
    Quiet,
    Save,
    SomeModel,
    Threads,
    file_option,
    jobs,
    name_option,
    number_option,
    wants_json,
)
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.sentence import Sentence
    from trellis.models import HMM


ANSWERS = {"--apply": "say --model", "-n": "say --states or -k"}


class Method(StrEnum):
    """How the HMM is trained."""

    EM = "em"
    SPARSE = "sparse"
    VB = "vb"


class Emissions(StrEnum):
    """What a word is to the HMM."""

    FEATURES = "features"
    TABLE = "table"


class Ascent(StrEnum):
    """How the likelihood is climbed."""

    GRADIENT = "gradient"
    EM = "em"


class Decoding(StrEnum):
    """How states are read off."""

    POSTERIOR = "posterior"
    VITERBI = "viterbi"


def induce(
    context: typer.Context,
    text: Annotated[
        str,
        typer.Argument(
            help="Sentences, one per line, columns (.tsv), the word first, or CoNLL-U (.conllu); `-`: stdin."
        ),
    ] = "-",
    states: Annotated[int, number_option("--states", "-k", min=1, help="Number of states.")] = 17,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    method: Annotated[
        Method,
        name_option(
            "--method",
            help=f"{METHOD} One of: em, sparse (EM, then posterior sparsity), vb (variational Bayes)",
            panel=LEARNING,
        ),
    ] = Method.SPARSE,
    emissions: Annotated[
        Emissions | None,
        name_option(
            "--emissions",
            help="Words share features, or stand alone. One of: features, table. Default: features; vb: table.",
            panel=LEARNING,
        ),
    ] = None,
    ascent: Annotated[
        Ascent | None,
        name_option(
            "--ascent",
            help="How the likelihood is climbed. One of: gradient (for features, their default), em",
            panel=LEARNING,
        ),
    ] = None,
    strength: Annotated[
        float, number_option("--strength", min=0.0, help="σ of posterior sparsity; 0: EM.", panel=LEARNING)
    ] = 32.0,
    frequent: Annotated[
        int, number_option("--frequent", min=1, help="Words seen so often are made sparse.", panel=LEARNING)
    ] = 11,
    rounds: Annotated[int, ROUNDS] = 200,
    em_rounds: Annotated[
        int | None,
        number_option(
            "--em-rounds",
            min=0,
            help="How many of the rounds come before sparsity. Default: 3/4; with a table 30 at most.",
            panel=LEARNING,
        ),
    ] = None,
    dual_steps: Annotated[
        int, number_option("--dual-steps", min=1, help="Dual steps per round, towards its optimum.", panel=LEARNING)
    ] = 1,
    emission_prior: Annotated[
        float | None,
        number_option("--emission-prior", help="Dirichlet α of words. Default: 1; vb: 0.1.", panel=LEARNING),
    ] = None,
    transition_prior: Annotated[
        float | None,
        number_option("--transition-prior", help="Dirichlet α of transitions. Default: likewise.", panel=LEARNING),
    ] = None,
    min_count: Annotated[int, MIN_COUNT] = 2,
    gamma: Annotated[float, GAMMA] = 1.0,
    seed: Annotated[int, SEED] = 0,
    labelled: Annotated[list[str] | None, LABELLED_KNOWLEDGE] = None,
    closed: Annotated[
        str | None, file_option("--closed", help="Closed classes: word TAB tag, one line per tag.", panel=KNOWLEDGE)
    ] = None,
    dictionary: Annotated[
        str | None,
        file_option("--dictionary", help="Tags that words may have, so written; they are the states.", panel=KNOWLEDGE),
    ] = None,
    decoding: Annotated[
        Decoding,
        name_option(
            "--decoding",
            help="Decode each word by its posterior, or the best sequence. One of: posterior, viterbi",
            panel=DECODING,
        ),
    ] = Decoding.POSTERIOR,
    json: Json = False,
    force: Force = False,
    history: History = None,
    threads: Threads = None,
    engine: Engine = None,
    memory: Memory = None,
    quiet: Quiet = False,
) -> None:
    """Induce parts of speech from text alone, or from text and a little knowledge.

    `trellis induce text.txt -k 17 -o tags.tsv --save tags.trellis` trains on the text and tags it;
    `trellis induce new.txt -m tags.trellis` tags new text without training.
    """
    from trellis.apps.induce.inducer import Inducer
    from trellis.data.columns import read_columns
    from trellis.data.corpus import corpus_of
    from trellis.data.storage import Storage

    if model is not None:
        refuse_beside(context, "--model", "tags without training", TRAINING)
    if method is not Method.SPARSE:
        refuse_beside(context, f"--method {method.value}", "has no rounds of sparsity", SPARSITY)
    if closed is not None:
        refuse_beside(context, "--closed", "keeps every word of the text apart", flags("min_count"))
    read = {"text": text, "--closed": closed, "--dictionary": dictionary, "--labelled": labelled, "--model": model}
    written = {"--output": output, "--save": save, "--history": history}
    check_files(read, written, labels=("--output",), force=force)
    if model is not None:
        from trellis.engine import by_chunks
        from trellis.models import HMM

        loaded = HMM.load(model, n_jobs=jobs(threads))
        tagged = by_chunks(partial(_tagged, loaded, decoding.value), _read(text), loaded.n_jobs)
        _write(output, tagged, wants_json(output, json))
        return
    known = [s for path in labelled or () for s in read_columns(path)]
    tags = None if dictionary is None else _word_tags(dictionary)
    names: list[str] | int = states
    if known or tags is not None:
        found = {t for s in known for t in s.labels or () if t} | {t for own in (tags or {}).values() for t in own}
        names = sorted(found)
    inducer = Inducer(
        names, method=method.value, strength=strength, frequent=frequent, max_iter=rounds, em_iter=em_rounds,
        dual_steps=dual_steps, emissions=None if emissions is None else emissions.value,
        ascent=None if ascent is None else ascent.value,
        emission_prior=emission_prior, transition_prior=transition_prior, min_count=min_count,
        closed_classes=None if closed is None else _word_tags(closed), tag_dictionary=tags, gamma=gamma,
        decoding=decoding.value, n_jobs=jobs(threads), engine=engine, memory=memory, random_state=seed,
        verbose=not quiet,
    )  # fmt: skip
    bare = (replace(s, columns={}) for s in known)
    inducer.fit(corpus_of(chain(bare, _read(text)), storage=Storage(memory)))
    if save is not None:
        inducer.save(save)
    if history is not None:
        inducer.history_.save(history)
    _write(output, islice(inducer.tagged(), len(known), None), wants_json(output, json))


TRAINING = flags(
    "states", "save", "method", "emissions", "ascent", "strength", "frequent", "rounds", "em_rounds", "dual_steps",
    "emission_prior", "transition_prior", "min_count", "gamma", "seed", "labelled", "closed", "dictionary", "history",
    "memory",
)  # fmt: skip
"""Options that training alone reads."""
SPARSITY = flags("strength", "em_rounds", "dual_steps")


def _read(path: str) -> Iterator[Sentence]:
    """Sentences with words, one at a time; a file without any is an error."""
    from trellis.data.columns import read_columns
    from trellis.data.conllu import read_text
    from trellis.data.files import shown

    columns = path.endswith((".tsv", ".tsv.gz", ".conll"))
    n = 0
    for sentence in read_columns(path, label=None) if columns else read_text(path):
        if columns or len(sentence):
            n += 1
            yield replace(sentence, columns={}, labels=None)
    if n == 0:
        raise DataError(f"{shown(path)} has no sentences")


def _tagged(model: HMM, decoding: str, sentences: list[Sentence]) -> Iterator[Sentence]:
    """Sentences with the states that a model gives them."""
    from trellis.apps.induce.inducer import tag_text

    states = tag_text(model, [list(s.words) for s in sentences], decoding)
    return (replace(s, labels=tuple(own)) for s, own in zip(sentences, states, strict=True))


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


def _write(output: str, tagged: Iterable[Sentence], json: bool) -> None:
    from trellis.data.columns import write_columns
    from trellis.data.jsonlines import write_jsonlines

    (write_jsonlines if json else write_columns)(output, tagged)


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    add_command(program, induce, ANSWERS)
