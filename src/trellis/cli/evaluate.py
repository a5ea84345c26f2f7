"""``trellis evaluate``: predictions against gold. ``MODES`` maps each kind of output to its function.

Without an option fields are compared, as ``trellis extract predict`` writes them.

To add a kind: an option of :func:`evaluate` that names it, and an entry in ``MODES``: a function from the paths of gold
and output to rows (name, value) for people, and the same figures for JSON, shares from 0 to 1.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sized
from contextlib import suppress
from dataclasses import asdict
from json import dumps
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import print_lines, visible
from trellis.cli.options import DICTIONARY, KNOWLEDGE, RUN, Json, Output, file_option, flag, wants_json
from trellis.errors import DataError, counted

if TYPE_CHECKING:
    from trellis.data.document import Document
    from trellis.metrics.fields import FieldScore

Rows = list[tuple[str, str]]
Figures = dict[str, Any]
FIELD_HEAD = f"{'precision':>10}{'recall':>10}{'F1':>10}{'gold':>8}{'found':>8}"


def evaluate(
    gold: Annotated[str, typer.Argument(help="Gold file.")],
    found: Annotated[str, typer.Argument(help="File to evaluate: the same texts in the same order.")],
    output: Output = "-",
    alignment: Annotated[bool, flag("--alignment", help="Word alignments: `i-j` sure, `i?j` possible links.")] = False,
    fields: Annotated[bool, flag("--fields", help="Labelled tokens (the default): .tsv, .jsonl, .json.")] = False,
    induction: Annotated[
        bool, flag("--induction", help="Induced states and gold tags: word TAB tag, or CoNLL-U.")
    ] = False,
    trees: Annotated[bool, flag("--trees", help="Dependency trees, CoNLL-U.")] = False,
    relations: Annotated[bool, flag("--relations", help="Entities and relations, .jsonl or CoNLL04 columns.")] = False,
    source: Annotated[
        str | None,
        file_option(
            "--source", "-s", help="Source sentences. Rare and common words are scored separately.", panel=KNOWLEDGE
        ),
    ] = None,
    target: Annotated[
        str | None,
        file_option("--target", "-t", help="Target sentences. One per line, in the same order.", panel=KNOWLEDGE),
    ] = None,
    dictionary: Annotated[
        str | None,
        file_option(
            "--dictionary", help=f"{DICTIONARY} Tokens with several tags are scored separately.", panel=KNOWLEDGE
        ),
    ] = None,
    plot: Annotated[
        str | None, file_option("--plot", help="Draw precision and recall of `i-j:0.93` links to this file.", panel=RUN)
    ] = None,
    json: Json = False,
) -> None:
    """Compare predictions with gold annotations and print scores.

    `trellis evaluate gold.tsv out.tsv`

    For fields, it prints the token accuracy, precision, recall and F1 of whole fields, and the most frequent
    confusions.
    """
    texts = {"--source": source, "--target": target}
    check_files(
        {"gold": gold, "found": found, **texts, "--dictionary": dictionary}, {"--output": output, "--plot": plot}
    )
    if (source is None) != (target is None):
        raise DataError("give both --source and --target, or neither")
    if not alignment and (source is not None or plot is not None):
        raise DataError("--source, --target and --plot require --alignment")
    if dictionary is not None and not induction:
        raise DataError("--dictionary requires --induction")
    chosen = {"alignment": alignment, "fields": fields, "induction": induction, "trees": trees,
             "relations": relations}  # fmt: skip
    wanted = [name for name in chosen if chosen[name]] or ["fields"]
    if len(wanted) != 1:
        raise DataError("say what to compare, with one of: " + ", ".join(f"--{name}" for name in MODES))
    if alignment:
        rows, figures = _alignment(gold, found, texts, plot)
    elif induction:
        rows, figures = _induction(gold, found, dictionary)
    else:
        rows, figures = MODES[wanted[0]](gold, found)
    if wants_json(output, json):
        print_lines(output, [dumps(figures, ensure_ascii=False)])
    else:
        print_lines(output, [visible(f"{name:<12}{value}") for name, value in rows])


def _alignment(
    gold: str, output: str, texts: Mapping[str, str | None] | None = None, plot: str | None = None
) -> tuple[Rows, Figures]:
    from trellis.data.files import numbered_lines
    from trellis.data.text import words_of
    from trellis.metrics import alignment as diagnosis
    from trellis.metrics.alignment import read_links, read_probabilities, score_links

    truth, found = read_links(gold), read_probabilities(output)
    sides = [
        [words_of(line) for _, line in numbered_lines(path)] for path in (texts or {}).values() if path is not None
    ]
    if len(truth) > len(found):
        raise DataError(f"{output} has {counted(len(found), 'line')} but {gold} has {len(truth)}")
    for own in sides:
        if not len(truth) <= len(own) == len(found):
            raise DataError(
                f"the text has {counted(len(own), 'line')}, but {output} has {len(found)} and {gold} {len(truth)}"
            )
    if not any(row.possible for row in truth):
        raise DataError(f"{gold}: it contains no links to compare with")
    links = [{link: 1.0 if p is None else p for link, p in row.items()} for row in found]
    part = "" if len(truth) == len(found) else f"; first {len(truth)} of {counted(len(found), 'pair')}"
    scores, judged = score_links(links[: len(truth)], truth), links[: len(truth)]
    ones = diagnosis.one_to_one(judged)
    rows = [
        ("precision", f"{100 * scores.precision:.2f}"),
        ("recall", f"{100 * scores.recall:.2f}"),
        ("AER", f"{100 * scores.aer:.2f}"),
        ("F", f"{100 * scores.f:.2f}"),
        ("links", f"{scores.n_links} ({scores.n_sure} sure in gold{part})"),
        ("one-to-one", f"{100 * ones:.2f} % of the links"),
    ]
    figures: Figures = {**asdict(scores), "one_to_one": ones}
    if any(p is not None for row in found for p in row.values()):
        curve = diagnosis.curve_of(judged, truth)
        at = diagnosis.precision_at(curve)
        shown = [f"{100 * p:.2f} at {100 * recall:.0f}" for recall, p in at.items() if p is not None]
        rows.append(("precision", f"{', '.join(shown) or 'never'} % recall"))
        figures["precision_at_recall"] = {str(recall): p for recall, p in at.items()}
        figures["curve"] = [{"threshold": point.threshold, **asdict(point.scores)} for point in curve]
        if plot is not None:
            from trellis.report.alignment import plot_precision_recall

            plot_precision_recall({output: curve}, plot)
    elif plot is not None:
        raise DataError(
            f"{output}: links without probabilities have no curve: write them with `trellis align --scores`"
        )
    if sides:
        groups = diagnosis.by_frequency(sides[0], sides[1], links, truth)
        rows += [("", ""), ("words", f"{'precision':>10}{'recall':>10}{'AER':>10}{'entropy':>10}{'words':>10}")]
        for name, group in groups.items():
            cells = (100 * group.scores.precision, 100 * group.scores.recall, 100 * group.scores.aer, group.entropy)
            rows.append((name, "".join(f"{cell:>10.2f}" for cell in cells) + f"{group.n_words:>10}"))
        figures["words"] = {name: asdict(group) for name, group in groups.items()}
    return rows, figures


def _check_as_many(gold: str, output: str, truth: Sized, found: Sized, what: str) -> None:
    if len(truth) != len(found):
        raise DataError(f"{output} has {len(found)} {what} but {gold} has {len(truth)}")


def _check_same_sentences(gold: str, output: str, truth: list[Document], found: list[Document], remedy: str) -> None:
    _check_as_many(gold, output, truth, found, "sentences")
    for one, other in zip(truth, found, strict=True):
        if one.tokens != other.tokens:
            where = f"the sentence at line {other.line} of {output} is not the one at line {one.line} of {gold}"
            raise DataError(f"{where}: {remedy}")


def _fields(gold: str, output: str) -> tuple[Rows, Figures]:
    from trellis.data.text_files import read_beside
    from trellis.metrics.fields import score_fields

    _check_fields(gold)
    truth, found = read_beside(gold, output)
    if not any(label is not None for text in truth for label in text.labels or ()):
        raise DataError(f"{gold}: it contains no labels to compare with")
    scores = score_fields(*([t.labels or [None] * len(t) for t in texts] for texts in (truth, found)))
    rows = [
        ("accuracy", f"{100 * scores.accuracy:.2f} of {counted(scores.n_tokens, 'token')}"),
        ("field F1", f"{100 * scores.total.f1:.2f} of {counted(scores.total.n_gold, 'field')}"),
        ("", ""),
        ("field", FIELD_HEAD),
        *((label, _field_cells(score)) for label, score in scores.fields.items()),
    ]
    width = max(7, *(len(label) + 2 for label in scores.labels))
    rows += [("", ""), ("gold \\ found", "".join(f"{label:>{width}}" for label in scores.labels))]
    for label, counts in zip(scores.labels, scores.confusion.tolist(), strict=True):
        rows.append((label, "".join(f"{n or '.':>{width}}" for n in counts)))
    return rows, {
        "accuracy": scores.accuracy,
        "n_tokens": scores.n_tokens,
        "total": _field_figures(scores.total),
        "fields": {label: _field_figures(s) for label, s in scores.fields.items()},
        "labels": list(scores.labels),
        "confusion": scores.confusion.tolist(),
    }


def _check_fields(gold: str) -> None:
    """Refuse trees and links by their names and contents, and name the option that compares them."""
    from trellis.data.conllu import is_conllu
    from trellis.data.files import numbered_lines

    if is_conllu(gold):
        raise DataError(f"{gold}: compare dependency trees with --trees, or tags with --induction")
    first = ""
    if os.path.isfile(gold):  # not a folder, nor a pipe, which can be read only once
        with suppress(DataError):  # not text: a table
            first = next((line for _, line in numbered_lines(gold) if line), "")
    if first and all(re.fullmatch(r"\d+[-?]\d+(:[\d.]+)?", link) for link in first.split()):
        raise DataError(f"{gold}: compare word alignments with --alignment")


def _field_cells(score: FieldScore) -> str:
    """Below ``FIELD_HEAD``."""
    shares = "".join(f"{100 * figure:>10.2f}" for figure in (score.precision, score.recall, score.f1))
    return f"{shares}{score.n_gold:>8}{score.n_found:>8}"


def _field_figures(score: FieldScore) -> Figures:
    return {"precision": score.precision, "recall": score.recall, "f1": score.f1,
            "n_gold": score.n_gold, "n_found": score.n_found}  # fmt: skip


def _induction(gold: str, output: str, dictionary: str | None = None) -> tuple[Rows, Figures]:
    from trellis.data.columns import read_word_tags
    from trellis.metrics.induction import ambiguous_accuracy, labels_a_word_of_tagging, score_induction

    truth, found = _tagged(gold), _tagged(output)
    _check_same_sentences(gold, output, truth, found, f"induce from the words of {gold} itself")
    known = [
        (word, tag, state)
        for one, other in zip(truth, found, strict=True)
        for word, tag, state in zip(one.tokens, one.labels or (), other.labels or (), strict=True)
        if tag is not None and state is not None
    ]
    tags, states = [tag for _, tag, _ in known], [state for _, _, state in known]
    scores = score_induction(states, tags)
    words = [s.tokens for s in found]
    given = [[label or "" for label in s.labels or ()] for s in found]
    labels = labels_a_word_of_tagging(words, given)
    rows = [
        ("1-Many", f"{100 * scores.many_to_one:.2f} of {counted(scores.n_tokens, 'token')}"),
        ("1-1", f"{100 * scores.one_to_one:.2f}"),
        ("MI", f"{scores.mutual_information:.4f} bits"),
        ("VI", f"{scores.variation_of_information:.4f} bits"),
        ("V-measure", f"{100 * scores.v_measure:.2f}"),
        (
            "l1/linf",
            "no word occurs more than ten times" if labels is None else f"{labels:.2f} states per frequent word",
        ),
        ("states", " ".join(map(str, scores.state_sizes.tolist()))),
        ("tags", " ".join(map(str, scores.tag_sizes.tolist()))),
    ]
    figures: Figures = {
        **asdict(scores),
        "state_sizes": scores.state_sizes.tolist(),
        "tag_sizes": scores.tag_sizes.tolist(),
        "states_per_frequent_word": labels,
    }
    if dictionary is not None:
        share, n = ambiguous_accuracy([word for word, *_ in known], tags, states, read_word_tags(dictionary))
        rows.insert(0, ("ambiguous", f"{100 * share:.2f} of {n} tokens with several possible tags"))
        figures |= {"ambiguous_accuracy": share, "n_ambiguous": n}
    return rows, figures


def _tagged(path: str) -> list[Document]:
    from trellis.data.columns import read_columns
    from trellis.data.conllu import is_conllu, read_conllu
    from trellis.data.jsonlines import is_json_lines, read_jsonlines

    if is_conllu(path):
        return list(read_conllu(path))
    return list(read_jsonlines(path) if is_json_lines(path) else read_columns(path))


def _trees(gold: str, output: str) -> tuple[Rows, Figures]:
    from trellis.data.columns import FILLER
    from trellis.data.conllu import TREE, read_conllu
    from trellis.metrics.attachment import compare_trees

    truth, found = (list(read_conllu(path, columns=TREE)) for path in (gold, output))
    _check_same_sentences(gold, output, truth, found, f"parse {gold} itself")
    scores = compare_trees(truth, found)
    shown = [("no punct.", scores.plain), ("all words", scores.total)]
    shown += [(f"up to {n}", own) for n, own in scores.up_to.items()]
    rows = [("", f"{'UAS':>8}{'LAS':>8}{'words':>10}")]
    related = any(relation != FILLER for s in found for relation in s.columns["deprel"])  # else there is no LAS
    rows += [
        (name, f"{100 * own.uas:>8.2f}{f'{100 * own.las:.2f}' if related else '-':>8}{own.n_words:>10}")
        for name, own in shown
    ]
    named = {"without_punctuation": scores.plain, "all_words": scores.total}
    named |= {f"up_to_{n}": own for n, own in scores.up_to.items()}
    figures = {
        name: {"uas": own.uas, "las": own.las if related else None, "n_words": own.n_words}
        for name, own in named.items()
    }
    shown_whole = ("whole trees", f"{100 * scores.whole:>8.2f} of {scores.n_sentences} sentences")
    return [*rows, shown_whole], {**figures, "whole_trees": scores.whole, "n_sentences": scores.n_sentences}


def _relations(gold: str, output: str) -> tuple[Rows, Figures]:
    from trellis.data.related import read_related
    from trellis.metrics.fields import score_relations

    scores = score_relations(list(read_related(gold)), list(read_related(output)))
    rows, figures = [], {}
    for name, own in (("entities", scores.entities), ("relations", scores.relations), ("strict", scores.strict)):
        rows.append((name, FIELD_HEAD))
        rows += [(label, _field_cells(s)) for label, s in [*own.types.items(), ("all", own.total)]]
        rows += [("mean F1", f"{100 * own.mean_f1:>30.2f}"), ("", "")]
        figures[name] = {
            "types": {label: _field_figures(s) for label, s in own.types.items()},
            "total": _field_figures(own.total),
            "mean_f1": own.mean_f1,
        }
    return rows[:-1], figures


MODES: dict[str, Callable[[str, str], tuple[Rows, Figures]]] = {
    "alignment": _alignment,
    "fields": _fields,
    "induction": _induction,
    "relations": _relations,
    "trees": _trees,
}
