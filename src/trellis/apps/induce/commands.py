"""``trellis induce``: a state (an unnamed part of speech) for every word of a text.

There is one line for each word, ``word TAB state``, and a blank line between sentences. Results do not depend on the
number of threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files, refuse_beside
from trellis.cli.commands import add_command
from trellis.cli.options import (
    DICTIONARY,
    KNOWLEDGE,
    LABELLED_KNOWLEDGE,
    Force,
    History,
    Json,
    Output,
    Quiet,
    Save,
    SomeModel,
    file_option,
    number_option,
    wants_json,
)
from trellis.cli.settings import FieldOptions
from trellis.cli.tuning import TuneGamma, file_of, with_best_gamma
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.document import Document
    from trellis.models import HMM


ANSWERS = {"--apply": "use --model", "-n": "use --states or -k"}


SETTINGS = FieldOptions(
    "trellis.apps.induce.inducer:Inducer",
    learning="method emissions ascent strength frequent max_iter em_iter dual_steps emission_prior transition_prior "
    "min_count gamma start unlabelled_weight random_state",
    decoding="decoding",
    run="n_jobs engine memory",
)
SPARSITY = ("strength", "em_iter", "dual_steps")
TRAINING = (
    "states",
    "tune",
    "save",
    "labelled",
    "closed",
    "dictionary",
    "history",
    "memory",
    *SETTINGS.learning.split(),
)
"""Options of training only."""


def induce(
    context: typer.Context,
    text: Annotated[
        str,
        typer.Argument(
            help="Sentences: one per line, columns with the word first (.tsv), or CoNLL-U (.conllu); `-`: stdin."
        ),
    ] = "-",
    states: Annotated[int, number_option("--states", "-k", min=1, help="Number of states.")] = 17,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    labelled: Annotated[list[str] | None, LABELLED_KNOWLEDGE] = None,
    closed: Annotated[
        str | None, file_option("--closed", help="Words of closed classes, lines `word TAB tag`.", panel=KNOWLEDGE)
    ] = None,
    dictionary: Annotated[
        str | None, file_option("--dictionary", help=f"{DICTIONARY} The tags are the states.", panel=KNOWLEDGE)
    ] = None,
    tune: TuneGamma = None,
    json: Json = False,
    force: Force = False,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Induce parts of speech from text, optionally with a dictionary or a few labels.

    `trellis induce text.txt -k 17 -o tags.tsv --save tags.trellis` trains on the text and tags it;
    `trellis induce new.txt -m tags.trellis` tags new text without training.
    """
    from trellis.apps.induce.inducer import Inducer
    from trellis.data.columns import read_columns, read_word_tags
    from trellis.data.corpus import corpus_of
    from trellis.data.storage import Storage

    if model is not None:
        refuse_beside(context, "--model", "tags without training", TRAINING)
    if settings["method"] != "sparse":
        refuse_beside(context, f"--method {settings['method']}", "has no rounds of sparsity", SPARSITY)
    if closed is not None:
        refuse_beside(context, "--closed", "keeps every word of the text apart", ["min_count"])
    read = {"text": text, "--closed": closed, "--dictionary": dictionary, "--labelled": labelled, "--model": model,
            "--tune": file_of(tune)}  # fmt: skip
    written = {"--output": output, "--save": save, "--history": history}
    check_files(read, written, labels=("--output",), force=force)
    if model is not None:
        from trellis.engine import by_chunks
        from trellis.models import HMM

        loaded = HMM.load(model, n_jobs=settings["n_jobs"])
        tagged = by_chunks(partial(_tagged, loaded, settings["decoding"]), _read(text), loaded.n_jobs)
        _write(output, tagged, wants_json(output, json))
        return
    known = [s for path in labelled or () for s in read_columns(path)]
    tags = None if dictionary is None else read_word_tags(dictionary)
    names: list[str] | int = states
    if known or tags is not None:
        found = {t for s in known for t in s.labels or () if t} | {t for own in (tags or {}).values() for t in own}
        names = sorted(found)
    classes = None if closed is None else read_word_tags(closed)
    inducer = Inducer(names, closed_classes=classes, tag_dictionary=tags, verbose=not quiet, **settings)
    inducer.check_settings()
    bare = (replace(s, columns={}) for s in known)
    if tune is None:
        inducer.fit(corpus_of(chain(bare, _read(text)), storage=Storage(settings["memory"])))
    else:
        sentences = [*bare, *_read(text)]
        inducer = with_best_gamma(inducer, [s.tokens for s in sentences], [s.labels for s in sentences], tune, _judging)
    if save is not None:
        inducer.save(save)
    if history is not None:
        inducer.history_.save(history)
    _write(output, islice(inducer.tagged(), len(known), None), wants_json(output, json))


def _read(path: str) -> Iterator[Document]:
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


def _judging(path: str) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Labelled sentences for choosing settings."""
    from trellis.data.columns import read_columns

    found = list(read_columns(path))
    return [s.tokens for s in found], [tuple(label or "" for label in s.labels or ()) for s in found]


def _tagged(model: HMM, decoding: str, sentences: list[Document]) -> Iterator[Document]:
    """Sentences with the states that a model gives them."""
    from trellis.apps.induce.inducer import tag_text

    states = tag_text(model, [list(s.tokens) for s in sentences], decoding)
    return (replace(s, labels=tuple(own)) for s, own in zip(sentences, states, strict=True))


def _write(output: str, tagged: Iterable[Document], json: bool) -> None:
    from trellis.data.columns import write_columns
    from trellis.data.jsonlines import write_jsonlines

    (write_jsonlines if json else write_columns)(output, tagged)


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    add_command(program, induce, ANSWERS, settings=SETTINGS)
