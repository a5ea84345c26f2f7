"""``trellis match train`` and ``trellis match predict``: whether two texts match, and why."""

from __future__ import annotations

import json as _json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.commands import add_command, group_of_commands
from trellis.cli.console import Few, warning_if_empty
from trellis.cli.options import (
    KNOWLEDGE,
    RULES,
    SAVE,
    History,
    Json,
    Model,
    Output,
    Quiet,
    Threads,
    file_option,
    jobs,
    number_option,
    wants_json,
)
from trellis.cli.settings import FieldOptions
from trellis.errors import DataError, counted

if TYPE_CHECKING:
    from trellis.apps.match.matcher import Matcher
    from trellis.data.pair_files import PairLine

WORDS_OF_NAMES = 3
"""Texts with more words on average are hardly names."""


SETTINGS = FieldOptions(
    "trellis.apps.match.matcher:Matcher",
    first="kind",
    learning="method C negatives max_segment deletions max_iter random_state",
    knowledge="wordnet",
    run="n_jobs",
    flags={"C": "--cost"},
)


def train(
    pairs: Annotated[str, typer.Argument(help="Pairs, `left TAB right [TAB 1 or 0]`; unlabelled names all match.")],
    save: Annotated[str, SAVE],
    rules: Annotated[
        str | None,
        file_option(
            "--rules",
            help=f"{RULES} Rules about alignments.",
            panel=KNOWLEDGE,
        ),
    ] = None,
    dev: Annotated[
        str | None, file_option("--dev", help="Development set. Labelled pairs; the accuracy on them is shown.")
    ] = None,
    similarity: Annotated[
        str | None,
        file_option(
            "--similarity",
            help="Similarity of words, `word TAB word TAB value`, values from 0 to 1. For sentences; other words are "
            "aligned only if they are equal.",
            panel=KNOWLEDGE,
        ),
    ] = None,
    parser: Annotated[
        str | None,
        file_option(
            "--parser", help="Parser whose arcs connect words of sentences (`trellis parse train`).", panel=KNOWLEDGE
        ),
    ] = None,
    tagger: Annotated[
        str | None, file_option("--tagger", help="Tagger of the words (`trellis tag train`).", panel=KNOWLEDGE)
    ] = None,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn from pairs that match and pairs that do not.

    `trellis match train pairs.tsv --kind names --save m.trellis`
    """
    from trellis.apps.match.matcher import Matcher, longest_of
    from trellis.apps.parse.parser import Parser
    from trellis.apps.parse.tagger import Tagger
    from trellis.constraints import read_rules
    from trellis.data.pair_files import read_pairs

    check_files(
        {
            "pairs": pairs, "--rules": rules, "--dev": dev, "--similarity": similarity, "--parser": parser,
            "--tagger": tagger,
        },
        {"--save": save, "--history": history},
    )  # fmt: skip
    made = Matcher(
        rules=() if rules is None else list(read_rules(rules)), parser=None if parser is None else Parser.load(parser),
        tagger=None if tagger is None else Tagger.load(tagger), similarity=similarity, verbose=not quiet, **settings,
    )  # fmt: skip
    made.check_settings()
    given = read_pairs(pairs, longest=longest_of(made.kind))
    held = None if dev is None else _answered(dev, read_pairs(dev, longest=longest_of(made.kind)))
    answers = None if given[0].answer is None else _answered(pairs, given)[1]
    made.fit([(one.left, one.right) for one in given], answers)
    made.save(save)
    words = sum(len(side.split()) for one in given for side in (one.left, one.right)) / (2 * len(given))
    if made.kind == "names" and words > WORDS_OF_NAMES:
        typer.echo(
            f"Warning: the texts have {words:.1f} words on average and were compared as names, character by "
            "character: use --kind sentences to compare words",
            err=True,
        )
    if history is not None:
        made.history_.save(history)
    if held is not None:
        typer.echo(f"{'accuracy':<12}{100 * made.score(*held):.2f} of {counted(len(held[1]), 'pair')}")


def predict(
    model: Model,
    pairs: Annotated[
        str, typer.Argument(help="Pairs, `left TAB right`; labels are used for evaluation; `-`: stdin.")
    ] = "-",
    output: Output = "-",
    rank: Annotated[
        int | None,
        number_option("--rank", min=1, help="Rank all right sides for each left one. Print the best N.",
                      show_default=False),
    ] = None,
    json: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    """Predict for each pair whether it matches, and show the alignment behind the decision.

    `trellis match predict pairs.tsv --model m.trellis`
    """
    from trellis.apps.match.matcher import Matcher, longest_of
    from trellis.data.files import writing
    from trellis.data.pair_files import pairs_or_errors

    check_files({"pairs": pairs, "--model": model}, {"--output": output})
    made = Matcher.load(model, n_jobs=jobs(threads))
    seen = Seen()
    read = seen.passing(warning_if_empty(pairs, pairs_or_errors(pairs, longest=longest_of(made.kind))))
    rows = _matched(made, read, seen) if rank is None else _ranked(made, read, rank)
    as_json = wants_json(output, json)
    with writing(output) as out:
        for row in rows:
            out.write((_json.dumps(row, ensure_ascii=False) if as_json else _line(row)) + "\n")
    seen.odd.tell(f"{seen.odd.n} of {seen.n} pairs could not be read and got an empty result")
    if seen.answers:
        typer.echo(f"{'accuracy':<12}{100 * seen.right / seen.answers:.2f} of {seen.answers} pairs", err=True)


@dataclass
class Seen:
    """What is printed about the pairs at the end.

    n, odd : all lines, and those that could not be read;  answers, right : known answers, and those found again
    """

    n: int = 0
    odd: Few = field(default_factory=Few)
    answers: int = 0
    right: int = 0

    def passing(self, pairs: Iterable[PairLine | DataError]) -> Iterator[PairLine | DataError]:
        """The same pairs; if none could be read, the first error is raised at the end."""
        first = None
        for one in pairs:
            self.n += 1
            if isinstance(one, DataError):
                first = first or one
                self.odd.add(str(one))
            yield one
        if first is not None and self.n == self.odd.n:
            raise first


def _answered(path: str, given: list[PairLine]) -> tuple[list[tuple[str, str]], list[int]]:
    """Pairs and answers of a file that has both kinds."""
    answers = [one.answer for one in given if one.answer is not None]
    if len(answers) != len(given):
        raise DataError(
            "has no answers: add a third column with 1 for pairs that match and 0 for others", path=path, line=1
        )
    if len(set(answers)) == 1:
        what = "match" if answers[0] > 0 else "do not match"
        raise DataError(
            f"all pairs {what}, from the first, line {given[0].line}, to the last, line {given[-1].line}: give pairs "
            "of both kinds; without the third column all names are taken to match, and random pairs are added that "
            "do not",
            path=path, line=given[0].line,
        )  # fmt: skip
    return [(one.left, one.right) for one in given], answers


def _matched(made: Matcher, read: Iterable[PairLine | DataError], seen: Seen) -> Iterator[dict[str, Any]]:
    """A record for every line, those of odd ones empty; some of the pairs are held at a time."""
    from trellis.engine import chunks

    def letters(one: PairLine | DataError) -> int:
        return 0 if isinstance(one, DataError) else len(one.left) + len(one.right)

    for chunk in chunks(read, made.n_jobs, letters):
        given = [(one.left, one.right) for one in chunk if not isinstance(one, DataError)]
        found = iter(made.match(given) if given else ())
        for one in chunk:
            if isinstance(one, DataError):
                yield {"invalid": str(one)}
                continue
            own = next(found)
            if one.answer is not None:
                seen.answers += 1
                seen.right += own.is_match == (one.answer > 0)
            yield own.record(one.left, one.right)


def _ranked(made: Matcher, read: Iterable[PairLine | DataError], rank: int) -> Iterator[dict[str, Any]]:
    """Records of the best candidates for each left side; their ranking scores are printed."""
    import numpy as np

    from trellis.metrics.ranking import score_ranking

    given = [one for one in read if not isinstance(one, DataError)]
    together = {(one.left, one.right) for one in given if one.answer != -1}
    left = list(dict.fromkeys(one.left for one in given))
    right = list(dict.fromkeys(one.right for one in given))
    table = made.rank(left, right)
    is_right = np.array([[(a, b) in together for b in right] for a in left], np.bool_).reshape(table.shape)
    has_right = is_right.any(axis=1)
    if has_right.any():
        scores = score_ranking(table[has_right], is_right[has_right])
        typer.echo(f"{'accuracy':<12}{100 * scores.accuracy:.2f} of {scores.n} ranked", err=True)
        typer.echo(f"{'MRR':<12}{100 * scores.mrr:.2f}", err=True)
    for a, row in zip(left, table, strict=True):
        best = [right[j] for j in np.argsort(-row, kind="stable")[:rank].tolist()]
        for place, (b, found) in enumerate(zip(best, made.match([(a, b) for b in best]), strict=True), start=1):
            yield {"rank": place, **found.record(a, b)}


def _line(row: dict[str, Any]) -> str:
    """left, right, answer, score and what stands side by side, with TABs between them."""
    if "invalid" in row:
        return "\t\t\t\t"
    aligned = " ".join(f"{a}:{b}" for a, b in row["alignment"])
    cells = [row["left"], row["right"], "1" if row["match"] else "0", f"{row['score']:.4f}", aligned]
    return "\t".join([*([str(row["rank"])] if "rank" in row else []), *cells])


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    group = group_of_commands("Match pairs of texts: train on yes/no labels, and predict.")
    program.add_typer(group, name="match")
    add_command(group, train, settings=SETTINGS)
    add_command(group, predict)
