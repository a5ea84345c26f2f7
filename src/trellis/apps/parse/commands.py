"""The commands of tagging and parsing: ``trellis tag``, ``parse``, ``induce-trees`` and ``transfer``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.commands import add_command, group_of_commands
from trellis.cli.console import need_text, warning_if_empty
from trellis.cli.options import (
    KNOWLEDGE,
    LEARNING,
    RULES,
    RUN,
    SAVE,
    TOKENISED,
    History,
    Model,
    Output,
    Quiet,
    Save,
    SomeModel,
    Threads,
    file_option,
    jobs,
    number_option,
)
from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.constraints import Constraint
    from trellis.data.document import Document

TAGGER = FieldOptions("trellis.apps.parse.tagger:Tagger", learning="encoder min_count", run="device n_jobs engine")
PARSER = FieldOptions(
    "trellis.apps.parse.parser:Parser",
    learning="encoder max_iter min_count bits random_state",
    run="device",
    flags={"max_iter": "--passes"},
)  # fmt: skip
TREE_INDUCER = FieldOptions(
    "trellis.apps.parse.tree_inducer:TreeInducer", learning="max_length max_iter gamma prior", run="n_jobs engine"
)
TRANSFER = FieldOptions(
    "trellis.apps.parse.transfer:Transfer",
    learning="model gamma max_iter max_length max_pairs",
    run="n_jobs engine",
    flags={"model": "--kind"},
)

Rules = Annotated[
    str | None,
    file_option(
        "--rules",
        help=f"{RULES} Predictions satisfy these rules.",
        panel=KNOWLEDGE,
    ),
]
TaggedText = Annotated[str, typer.Argument(help="Sentences, CoNLL-U with tags in UPOS; `-`: stdin.")]
Eta = Annotated[
    str | None,
    number_option(
        "--eta",
        help="Minimum expected share of projected heads that are kept. `auto`: estimated. Default: 0.95; for `dmv` 1.",
        panel=LEARNING,
    ),
]


def train_tagger(
    text: Annotated[str, typer.Argument(help="Tagged sentences, CoNLL-U with tags in UPOS.")],
    save: Annotated[str, SAVE],
    dev: Annotated[
        str | None,
        file_option("--dev", help="Development set. Tagged sentences; the accuracy on them is shown.", panel=LEARNING),
    ] = None,
    induced: Annotated[
        str | None,
        file_option("--induced", help="Model of `trellis induce`; its states are features of words.", panel=KNOWLEDGE),
    ] = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn a tagger from tagged sentences.

    `trellis tag train train.conllu --save tagger.trellis`
    """
    from trellis.apps.parse.tagger import Tagger
    from trellis.data.conllu import read_conllu
    from trellis.models import HMM

    check_files({"text": text, "--dev": dev, "--induced": induced}, {"--save": save})
    states = None if induced is None else HMM.load(induced)
    tagger = Tagger(induced=states, verbose=not quiet, **settings)
    tagger.check_settings()
    held = None if dev is None else list(read_conllu(dev))
    sentences = list(read_conllu(text))
    need_text(text, sentences)
    tagger.fit(sentences)
    tagger.save(save)
    if held is not None:
        typer.echo(f"{'accuracy':<12}{100 * tagger.score(held):.2f}")


def tag(
    model: Model,
    text: Annotated[str, typer.Argument(help="Sentences: CoNLL-U (.conllu), or text, one per line; `-`: stdin.")] = "-",
    rules: Rules = None,
    tokenised: Annotated[bool, TOKENISED] = False,
    output: Output = "-",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Tag sentences: fill UPOS and keep the other columns.

    `trellis tag predict text.txt --model tagger.trellis -o text.conllu`
    """
    from trellis.apps.parse.tagger import Tagger
    from trellis.data.conllu import is_conllu, read_text, write_conllu
    from trellis.engine import by_chunks

    check_files({"text": text, "--model": model, "--rules": rules}, {"--output": output})
    constraints = _constraints(rules)
    tagger = Tagger.load(model, n_jobs=jobs(threads))
    raw = not (tokenised or is_conllu(text))
    read = (s for s in read_text(text, columns=_other_columns()) if len(s))
    sentences = warning_if_empty(text, (tagger.tokenise(s) if raw else s for s in read))
    write_conllu(output, by_chunks(partial(tagger.predict, constraints=constraints), sentences, tagger.n_jobs))


def train_parser(
    trees: Annotated[str, typer.Argument(help="Treebank, CoNLL-U: tags in UPOS, trees in HEAD and DEPREL.")],
    save: Annotated[str, SAVE],
    dev: Annotated[
        str | None,
        file_option("--dev", help="Development set. A treebank; the accuracy on it is shown.", panel=LEARNING),
    ] = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn a parser from a treebank.

    `trellis parse train train.conllu --dev dev.conllu --save parser.trellis`
    """
    from trellis.apps.parse.parser import Parser

    check_files({"trees": trees, "--dev": dev}, {"--save": save})
    parser = Parser(verbose=not quiet, **settings)
    parser.check_settings()
    held = None if dev is None else _trees(dev)
    parser.fit(_trees(trees))
    parser.save(save)
    left_out = parser.arcs_.n_left_out_
    if left_out and not quiet:
        typer.echo(f"{left_out} sentences with crossing arcs or incomplete trees were left out", err=True)
    if held is not None:
        scores = parser.attachment(held).plain
        typer.echo(f"{'UAS':<12}{100 * scores.uas:.2f}\n{'LAS':<12}{100 * scores.las:.2f}")


def parse(
    model: Model,
    text: TaggedText = "-",
    rules: Rules = None,
    output: Output = "-",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Parse sentences: fill HEAD and DEPREL and keep the other columns.

    `trellis parse predict text.conllu --model parser.trellis -o trees.conllu`
    """
    from trellis.apps.parse.parser import Parser
    from trellis.apps.parse.transfer import Transfer
    from trellis.apps.parse.tree_inducer import TreeInducer
    from trellis.data.conllu import read_conllu, write_conllu
    from trellis.engine import by_chunks
    from trellis.models import load_model

    check_files({"text": text, "--model": model, "--rules": rules}, {"--output": output})
    constraints = _constraints(rules)
    parser = load_model(model)
    if not isinstance(parser, Parser | TreeInducer | Transfer):
        raise DataError(f"holds {type(parser).__name__!r}, not a parser", path=model)
    parser.n_jobs = jobs(threads)
    predict = parser.predict
    if isinstance(parser, Parser):
        predict = partial(parser.predict, constraints=constraints)
    elif constraints:
        raise DataError(f"--rules is for a parser of `trellis parse train`, but this is a {type(parser).__name__}")
    sentences = warning_if_empty(text, read_conllu(text, columns=_other_columns("head", "deprel")))
    write_conllu(output, by_chunks(predict, sentences, parser.n_jobs))


def _constraints(rules: str | None) -> list[Constraint]:
    """Those of a rules file."""
    from trellis.constraints import read_rules

    return [] if rules is None else list(read_rules(rules))


def induce_trees(
    text: TaggedText,
    rules: Annotated[
        str | None,
        file_option("--rules", help=RULES, panel=KNOWLEDGE),
    ] = None,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn dependency trees from tagged text, optionally with rules about arcs.

    `trellis induce-trees text.conllu --rules rules.toml -o trees.conllu`
    """
    from trellis.apps.parse.tree_inducer import TreeInducer
    from trellis.data.conllu import read_conllu, write_conllu
    from trellis.data.files import text_of

    check_files(
        {"text": text, "--rules": rules, "--model": model}, {"--output": output, "--save": save, "--history": history}
    )
    if model is not None and (rules or save or history):
        raise DataError("--model parses with a trained model: --rules, --save and --history cannot be combined with it")
    if model is not None:
        inducer = TreeInducer.load(model, n_jobs=settings["n_jobs"])
    else:
        text_of_rules = "" if rules is None else text_of(rules)
        inducer = TreeInducer(rules=text_of_rules, rules_path=rules or "rules.toml", verbose=not quiet, **settings)
    inducer.check_settings()
    sentences = list(read_conllu(text, columns=_other_columns("head", "deprel")))
    need_text(text, sentences)
    if model is None:
        inducer.fit(sentences)
    if save is not None:
        inducer.save(save)
    if history is not None:
        inducer.history_.save(history)
    write_conllu(output, inducer.predict(sentences))


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
        str | None, file_option("--target-tagger", help="Tagger of the target, which also tokenises.", panel=KNOWLEDGE)
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
    eta: Eta = None,
    parse: Annotated[
        str | None, file_option("--parse", help="Target sentences to parse with the new parser.", panel=RUN)
    ] = None,
    output: Output = "-",
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Transfer a parser to another language.

    `trellis transfer --source-parser en.trellis -s en.conllu -t es.conllu --links links.txt --save es.trellis`

    Both sides need tags in UPOS. Without them, taggers tag the text, and tokenise raw text in the way of their
    treebanks.
    """
    from trellis.apps.parse.parser import Parser
    from trellis.apps.parse.transfer import Transfer
    from trellis.data.conllu import write_conllu

    share = _share(eta)
    check_files(
        {
            "--source-parser": source_parser, "--source": source, "--target": target, "--links": links,
            "--parse": parse, "--source-tagger": source_tagger, "--target-tagger": target_tagger,
        },
        {"--save": save, "--output": output if parse is not None else None},
    )  # fmt: skip
    learner = Transfer(eta=share, verbose=not quiet, **settings)
    learner.check_settings()
    n_jobs = settings["n_jobs"]
    known = Parser.load(source_parser, n_jobs=n_jobs)
    raw = links is None and not tokenised
    one = _tagged(source, source_tagger, "--source-tagger", n_jobs, raw=raw)
    other = _tagged(target, target_tagger, "--target-tagger", n_jobs, raw=raw)
    if len(one) != len(other):
        raise DataError(f"{source} has {len(one)} sentences but {target} has {len(other)}")
    new = [] if parse is None else _tagged(parse, target_tagger, "--target-tagger", n_jobs, raw=not tokenised)
    linked = _linked(one, other, links, n_jobs=n_jobs, engine=settings["engine"], verbose=not quiet)
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
        raise DataError(f"--eta must be a number from 0 to 1, or auto, but got {eta!r}")
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
        raise DataError(f"{path} has words without tags (UPOS): give a tagger for its language, {option}")
    return sentences


def _linked(
    source: list[Document], target: list[Document], path: str | None, **settings: Any
) -> list[list[tuple[int, int]]]:
    """The word links of a file; without one the words are aligned."""
    from trellis.apps.align.aligner import Aligner
    from trellis.metrics.alignment import read_links

    if path is None:
        words = ([[word.lower() for word in s.tokens] for s in side] for side in (source, target))
        return [list(found) for found in Aligner(**settings).fit_align(list(zip(*words, strict=True)))]
    linked = [sorted(row.possible) for row in read_links(path)]
    if len(linked) != len(source):
        raise DataError(f"{path} has {len(linked)} lines but there are {len(source)} sentence pairs")
    return linked


def _trees(path: str) -> list[Document]:
    from trellis.data.conllu import TREE, read_conllu

    sentences = list(read_conllu(path, columns=TREE))
    need_text(path, sentences)
    return sentences


def _other_columns(*filled: str) -> list[str]:
    """The columns of CoNLL-U that stay as they are, beside those that are filled."""
    from trellis.data.conllu import NAMES

    return [name for name in NAMES if name not in ("id", "form", "upos", *filled)]


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    tags = group_of_commands("Tag parts of speech: train on a treebank, and tag text.")
    program.add_typer(tags, name="tag")
    add_command(tags, train_tagger, settings=TAGGER, name="train")
    add_command(tags, tag, name="predict")
    trees = group_of_commands("Parse dependency trees: train on a treebank, and parse text.")
    program.add_typer(trees, name="parse")
    add_command(trees, train_parser, settings=PARSER, name="train")
    add_command(trees, parse, name="predict")
    add_command(program, induce_trees, settings=TREE_INDUCER)
    add_command(program, transfer, settings=TRANSFER)
