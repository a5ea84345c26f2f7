"""The options that several commands have, each declared once: one flag, one meaning, one sentence of help.

A command takes one by its type (``threads: Threads = None``) or, where it is of another type there, by its constant
(``save: Annotated[str, SAVE]``: one that must be given). Options that
are settings of an estimator are made of its fields (:mod:`trellis.cli.settings`).

The first sentence of a help text is what the flag means, in every command. What follows may differ. Options of the
common path have no panel and so come first; the others stand in the panels below. Metavars are short: ``--help`` fits
80 columns.
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trellis.data.jsonlines import is_json_lines

LEARNING = "Training"
KNOWLEDGE = "Prior knowledge"
DECODING = "Prediction"
COLUMNS = "Columns"
RUN = "Output and execution"
PANELS = (None, DECODING, LEARNING, KNOWLEDGE, COLUMNS, RUN)
"""In the order of ``--help``; options of the common path have none."""


def file_option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that names a file."""
    return typer.Option(*names, metavar="FILE", help=help, rich_help_panel=panel, show_default=False, **more)


def number_option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that is a number."""
    return typer.Option(*names, metavar="N", help=help, rich_help_panel=panel, **more)


def name_option(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option that is one of a few names; the help lists them, since a column of its own would be too wide."""
    return typer.Option(*names, metavar="NAME", help=help, rich_help_panel=panel, **more)


def flag(*names: str, help: str, panel: str | None = None, **more: Any) -> Any:
    """An option without a value."""
    return typer.Option(*names, metavar="", help=help, rich_help_panel=panel, **more)


def _hush(quiet: bool) -> bool:
    if quiet:
        from trellis.engine.compiling import silence

        silence()
    return quiet


MODEL = file_option("--model", "-m", help="Trained model, written by `--save`.")
SAVE = file_option("--save", help="Write the trained model to this file.")
SEED = number_option("--seed", min=0, help="Seed of the random start.", panel=LEARNING)
LABELLED = file_option("--labelled", "-l", help="Labelled texts; repeatable. Lines `token TAB label`, or .jsonl.")
LABELLED_SENTENCES = file_option("--labelled", "-l", help="Labelled texts; repeatable. All types must be known.")
LABELLED_KNOWLEDGE = file_option(
    "--labelled",
    "-l",
    help="Labelled texts; repeatable. Lines `token TAB label`; the labels are the states.",
    panel=KNOWLEDGE,
)
RULES = "Rules file (TOML); see 'Rules files' in the documentation."
"""What a rules file is; commands may add which rules they take."""
DICTIONARY = "Tags allowed for words: word TAB tag."
"""What ``--dictionary`` means."""
UNLABELLED = file_option("--unlabelled", "-u", help="Unlabelled texts; repeatable.")
TOKENISED = flag("--tokenised", help="The text is already tokenised: split it at whitespace only.", panel=RUN)
FORMAT = "How the output is written."
"""What ``--format`` means; each command lists its own after it."""

Model = Annotated[str, MODEL]
SomeModel = Annotated[str | None, MODEL]
Save = Annotated[str | None, SAVE]
Output = Annotated[str, file_option("--output", "-o", help="Output file; `-`: standard output.")]
History = Annotated[
    str | None, file_option("--history", help="Write statistics of every round to this file, as JSON lines.", panel=RUN)
]
Json = Annotated[bool, flag("--json", help="Write the output as JSON.", panel=RUN)]
Force = Annotated[bool, flag("--force", help="Replace an output file that exists.", panel=RUN)]
Engine = Annotated[
    str | None,
    name_option("--engine", help="Where to run: `dask`, or `tcp://host:port` of a Dask scheduler.", panel=RUN),
]
Threads = Annotated[
    int | None,
    number_option(
        "--threads", min=1, help="Number of threads; results do not depend on it. Default: all cores.", panel=RUN
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        "--memory", metavar="SIZE", rich_help_panel=RUN, show_default=False,
        help="Memory limit, such as 4G; larger text is kept on disk. Default: half of the free memory.",
    ),
]  # fmt: skip
Quiet = Annotated[
    bool, flag("--quiet", "-q", help="Do not show progress on standard error.", panel=RUN, callback=_hush)
]
Beam = Annotated[int | None, number_option("--beam", min=1, help="Beam width of the search.", panel=DECODING)]
Search = Annotated[
    str | None,
    name_option(
        "--search",
        help="How the best output under the rules is found. One of: auto, beam, astar, ilp, exact (proved to be "
        "the best).",
        panel=DECODING,
    ),
]
Examples = Annotated[
    int, number_option("--examples", min=0, help="Number of examples to show for each rule or kind of error.")
]
WordColumn = Annotated[
    int, number_option("--word-column", min=0, help="Column of the token in .tsv files, from 0.", panel=COLUMNS)
]
LabelColumn = Annotated[
    int, number_option("--label-column", min=0, help="Column of the label in .tsv files, from 0.", panel=COLUMNS)
]


ARGUMENTS = {
    "max_iter": "--rounds -I", "em_iter": "--em-rounds", "model1_iter": "--model1-rounds", "n_jobs": "--threads",
    "random_state": "--seed", "memory": "--memory",
}  # fmt: skip
"""Python's names of arguments, where the flag has another; a short one after a blank."""


def in_flags(message: str) -> str:
    """A message that begins with the name of an argument, for somebody who typed a flag.

    >>> in_flags("max_iter must be a whole number")
    '--rounds must be a whole number'
    """
    first, space, rest = message.partition(" ")
    return ARGUMENTS.get(first, first).partition(" ")[0] + space + rest


def jobs(threads: int | None) -> int:
    """``n_jobs`` of an estimator: every core by default."""
    return -1 if threads is None else threads


def wants_json(output: str, json: bool) -> bool:
    """Whether an output is JSON: --json was given, or the name of the file ends in .jsonl, .ndjson or .json."""
    return json or is_json_lines(output) or output.lower().removesuffix(".gz").endswith(".json")
