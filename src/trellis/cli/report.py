"""``trellis report``: an HTML report about a model on a text, or about a training run."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from trellis.cli.bitext import ParallelText
from trellis.cli.checks import check_files
from trellis.cli.options import KNOWLEDGE, LabelColumn, Quiet, SomeModel, Threads, WordColumn, file_option, jobs
from trellis.errors import DataError, counted


def report(
    text: Annotated[
        str | None, typer.Argument(help="Texts (raw, .tsv, .jsonl) or trees (.conllu); labels are used for evaluation.")
    ] = None,
    model: SomeModel = None,
    output: Annotated[str, file_option("--output", "-o", help="Output file; `-`: standard output.")] = "report.html",
    source: Annotated[str | None, file_option("--source", "-s", help="Source sentences. For aligners.")] = None,
    target: Annotated[str | None, file_option("--target", "-t", help="Target sentences.")] = None,
    input_: Annotated[
        str | None, file_option("--input", "-i", help="Both sides: `source ||| target` or tab; `-`: stdin.")
    ] = None,
    gold: Annotated[str | None, file_option("--gold", help="Gold links of the first pairs.", panel=KNOWLEDGE)] = None,
    run: Annotated[
        str | None, file_option("--run", help="Statistics of a training run, written by `--history`.", panel=KNOWLEDGE)
    ] = None,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Write an HTML report about a model on a text, or about a training run.

    `trellis report gold.tsv -m fields.trellis` shows the effect of each rule, posteriors with and without the rules,
    and errors.
    `trellis report -m m.trellis -s text.en -t text.fr --gold gold.links` does so for an aligner, and
    `trellis report --run rounds.jsonl` for a run alone. The page needs no network.
    """
    from trellis.loop.history import History
    from trellis.report.pages import history_report
    from trellis.report.pages import report as page_of

    read = {
        "text": text,
        "--model": model,
        "--source": source,
        "--target": target,
        "--input": input_,
        "--gold": gold,
        "--run": run,
    }
    check_files(read, {"--output": output})
    history = None if run is None else History.load(run)
    if model is None:
        if history is None or text or source or target or input_ or gold:
            raise DataError("give --model with a text (for an aligner: --source and --target), or --run alone")
        page = history_report(history, str(run))
    else:
        from trellis.models import load_model

        loaded = load_model(model)
        if "n_jobs" in loaded.get_params(deep=False):
            loaded.n_jobs = jobs(threads)
        parallel = hasattr(loaded, "align")
        if parallel == bool(text):
            raise DataError(
                "the report of an aligner needs --source and --target (or --input)" if parallel
                else f"the report of a {type(loaded).__name__} needs a text: trellis report TEXT -m {model}"
            )  # fmt: skip
        data, links = (
            _pairs(source, target, input_, gold)
            if parallel
            else (_texts(loaded, str(text), word_column, label_column), None)
        )
        if not data:
            raise DataError("there is no text in it", path=str(text or input_ or source))
        page = page_of(loaded, data, gold=links, history=history)
    page.save(output)
    if output != "-" and not quiet:
        sections = "".join(f"\n  {heading}" for heading, _ in page.sections)
        typer.echo(f"{output} has {counted(len(page.sections), 'section')}:{sections}", err=True)


def _pairs(source: str | None, target: str | None, joined: str | None, gold: str | None) -> tuple[list[Any], Any]:
    from trellis.metrics.alignment import read_links

    pairs = list(ParallelText(source, target, joined).pairs())
    links = None if gold is None else read_links(gold)
    return pairs, links


def _texts(model: Any, path: str, word_column: int, label_column: int) -> list[Any]:
    from trellis.data.conllu import read_conllu
    from trellis.data.text_files import read_either

    reader = import_module("trellis.apps").declared("READERS").get(type(model).__name__)
    if reader is not None:
        module, _, function = reader.partition(":")
        return list(getattr(import_module(module), function)(path))
    if path.removesuffix(".gz").endswith(".conllu"):
        return list(read_conllu(path, columns=("head", "deprel")))
    texts = read_either(path, word_column=word_column, label_column=label_column)
    return texts
