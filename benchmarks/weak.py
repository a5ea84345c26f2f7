"""Weak labels: the votes of labelling functions put together (WRENCH's bc5cdr and laptop-review, Zhang et al. 2021).

    make bench-weak
    make bench-weak ARGS="--split valid --sets laptop-review --plots docs/figures"
    make bench-weak ARGS="--forms"                                              settings, on valid

The recommended functions of each set, and rules over newswire (benchmarks/_newswire.py), twice. All texts of a set are
aggregated together without a gold label, as ``trellis aggregate FOLDER`` does; F1 of whole spans is that of the split's
texts. An HMM over the votes by plain EM drifts away from
what the functions mean; ours is the same HMM held to their accuracy, stopped after so many rounds, by the votes alone
and with words; and with words at convergence, the default, by itself and with the posts of 20 newsgroups as more text
(the same for all sets; their groups are not looked at). Estimated accuracies of the functions stand beside the true
ones.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import sys
import tarfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _newswire import newswire
from _small import arguments

from trellis import Aggregator, ConvergenceWarning
from trellis.data.voted import Span, VotedText, spans_of_labels, votes_of_spans
from trellis.data.voted_files import read_voted
from trellis.tasks.compounds import Compounds
from trellis.tasks.majority import majority_vote

SETS = ("bc5cdr", "laptop-review", "newswire", "newswire-list")
ROUNDS = (1, 2, 5, 10, 20, 40)
MEASURED = {"bc5cdr": ("80.6", "81.7, 71.9"), "laptop-review": ("62.1", "73.6, 43.9")}
"""Before this was built, on test: majority vote; plain EM after 5 and after 30 rounds."""


class Task:
    """The texts of a set, which are aggregated together, and gold spans, of which those of test are looked at last."""

    def __init__(self, data: Path, name: str, split: str) -> None:
        self.split, self.texts, self.places = split, [], {}
        self.gold: list[list[Span]] = []
        for part in ("train", "valid", "test"):
            if name.startswith("newswire"):
                named = {"valid": "dev"}.get(part, part)
                texts, gold = newswire(data / "relations" / "conll04", named, listed=name == "newswire-list")
            else:
                texts, gold = voted(data / "weak" / name / f"{part}.json")
            self.places[part] = range(len(self.texts), len(self.texts) + len(texts))
            self.texts += texts
            self.gold += gold

    def f1(self, labels: Sequence[Sequence[str]], *parts: str) -> float:
        """Of spans, in the texts of these parts; none: of the split."""
        at = [i for part in parts or (self.split,) for i in self.places[part]]
        pairs = [(set(spans_of_labels(labels[i])), set(self.gold[i])) for i in at]
        right = sum(len(a & b) for a, b in pairs)
        return 200.0 * right / max(sum(len(a) + len(b) for a, b in pairs), 1)

    def true_accuracies(self, functions: Sequence[str]) -> list[float]:
        """Share of right votes for entities, up to the last text of the split."""
        table = []
        for name in functions:
            right = votes = 0
            for i in range(self.places[self.split].stop):
                text = self.texts[i]
                for vote, label in zip(text.votes[name], votes_of_spans(len(text), self.gold[i]), strict=True):
                    votes += vote is not None
                    right += vote is not None and vote == label
            table.append(right / max(votes, 1))
        return table


def voted(path: Path) -> tuple[list[VotedText], list[list[Span]]]:
    """Texts of WRENCH and their gold spans."""
    records = json.loads(path.read_text(encoding="utf-8")).values()
    return list(read_voted(path)), [[(a, b, kind) for a, b, kind in record["label"]] for record in records]


TOKEN = re.compile(r"[a-z]+(?:[-'][a-z]+)*|\d+|[^\w\s]")
SENTENCE = re.compile(r"[.!?]\s|\n\s*\n|\n>")


def posts(path: Path) -> list[list[str]]:
    """Sentences of the newsgroups, without the heads of posts; those of 4 to 79 tokens."""
    found = []
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile():
                text = archive.extractfile(member).read().decode("latin-1").lower()
                found += [TOKEN.findall(one) for one in SENTENCE.split(text.partition("\n\n")[2])]
    return [tokens for tokens in found if 3 < len(tokens) < 80]


def by_skweak(task: Task, kinds: Sequence[str]) -> list[list[str]] | None:
    """Labels by skweak's HMM (Lison et al. 2021) with its own settings; None where it is not installed."""
    try:
        import spacy
        from skweak.generative import HMM
        from spacy.tokens import Doc
        from spacy.tokens import Span as DocSpan
    except ImportError:
        return None
    vocabulary, docs = spacy.blank("en").vocab, []
    for text in task.texts:
        doc = Doc(vocabulary, words=list(text.tokens))
        for name, votes in text.votes.items():
            spans = spans_of_labels([vote or "O" for vote in votes])
            doc.spans[name] = [DocSpan(doc, first, end, label=kind) for first, end, kind in spans]
        docs.append(doc)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        docs = list(HMM("hmm", list(kinds)).fit_and_aggregate(docs))
    found = [[(span.start, span.end, span.label_) for span in doc.spans.get("hmm", [])] for doc in docs]
    return [[vote or "O" for vote in votes_of_spans(len(doc), own)] for doc, own in zip(docs, found, strict=True)]


def measure(
    name: str, task: Task, rounds: Sequence[int], threads: int | None, text: Sequence[Sequence[str]]
) -> dict[str, list[float]]:
    """Curves of one set, printed as they are found."""
    curves: dict[str, list[float]] = {"plain EM": [], "ours, votes alone": [], "ours, with words": []}
    begin = time.perf_counter()
    jobs = -1 if threads is None else threads
    settings: dict[str, Any] = {"tol": 0.0, "n_jobs": jobs}
    for n in rounds:
        plain = Aggregator(accuracy=None, missed=None, words=False, max_iter=n, **settings).fit(task.texts)
        spoken = Aggregator(max_iter=n, **settings).fit(task.texts)
        by_votes = spoken.learner_.predict(task.texts)  # what words=False gives: words speak after all rounds
        for curve, labels in zip(curves, (plain.labels_, by_votes, spoken.labels_), strict=True):
            curves[curve].append(task.f1(labels))
        print(f"  {name}, {n} rounds: " + ", ".join(f"{own[-1]:.1f}" for own in curves.values()), flush=True)
    seconds = time.perf_counter() - begin
    rows: dict[str, str] = {}
    for what, more in (("ours, with words", ()), ("... and newsgroups", text)):
        begin = time.perf_counter()
        whole = Aggregator(n_jobs=jobs).fit(task.texts, text=more)
        took, found = time.perf_counter() - begin, task.f1(whole.labels_)
        whole.words_.doubt = True  # what is learned is the same
        doubting = task.f1(whole.predict(task.texts))
        rows[what] = f"{found:.1f}, with doubt {doubting:.1f} ({whole.learner_.n_iter_} rounds, {took:.0f} s)"
        print(f"  {name}, {what}, at convergence: {rows[what]}", flush=True)
    measured, vote = len(task.places[task.split]), task.f1(majority_vote(task.texts, whole.label_names_))
    print(f"\n{name}: {len(task.texts)} texts, {len(whole.functions_)} functions; span F1 of {measured} of the texts")
    begin, peer = time.perf_counter(), by_skweak(task, whole.kinds_)
    took = time.perf_counter() - begin
    print(f"  majority vote {vote:.1f}")
    print("  skweak is not installed" if peer is None else f"  skweak's HMM {task.f1(peer):.1f} ({took:.0f} s)")
    if name in MEASURED:
        print("  before, on test: majority vote {}, plain EM after 5 and 30 rounds {}".format(*MEASURED[name]))
    print("  rounds              " + "".join(f"{n:>7}" for n in rounds))
    for curve, values in curves.items():
        print(f"  {curve:<20}" + "".join(f"{value:>7.1f}" for value in values))
    for what, row in rows.items():
        print(f"  {what}, at convergence: {row}")
    print(f"  seconds: curves {seconds:.0f}")
    true = task.true_accuracies(whole.functions_)
    found = [whole.accuracies_[f].accuracy or 0.0 for f in whole.functions_]
    print(f"\n  {'function':<30} estimated    true    votes")
    for function, a, b in zip(whole.functions_, found, true, strict=True):
        print(f"  {function:<30} {a:9.3f} {b:7.3f} {whole.accuracies_[function].votes:8d}")
    error = np.mean(np.abs(np.array(found) - true))
    print(f"  correlation {np.corrcoef(found, true)[0, 1]:.2f}, mean absolute error {error:.3f}")
    return {**curves, "majority vote": [vote] * len(rounds)}


def forms(name: str, task: Task, threads: int | None, text: Sequence[Sequence[str]]) -> None:
    """F1 of every form that was considered, by one set of parts learned; labels of test are not looked at."""
    jobs = -1 if threads is None else threads
    rows = {"votes alone": Aggregator(words=False, n_jobs=jobs).fit(task.texts).labels_}
    for more, beside in (((), ""), (text, ", newsgroups")):
        whole = Aggregator(n_jobs=jobs).fit(task.texts, text=more)
        votes = whole.learner_.predict(task.texts), whole.learner_.predict_proba(task.texts)
        texts, rows["short forms"] = whole._with_short_forms(task.texts, *votes)
        words, labels = whole.words_, rows["short forms"]

        def changed(**parts: Any) -> list[list[str]]:
            """Labels by other parts, with how many entities are missed found anew; then all is as it was."""
            before = {key: getattr(words, key) for key in (*parts, "lift")}  # noqa: B023
            for key, part in {**parts, "lift": np.zeros(len(words.kinds))}.items():  # noqa: B023
                setattr(words, key, part)  # noqa: B023
            words.lift = whole._lift(whole._with_words(texts, labels), labels)  # noqa: B023
            found = whole.learner_.predict(whole._with_words(texts, labels))  # noqa: B023
            for key, part in before.items():
                setattr(words, key, part)  # noqa: B023
            return found

        rows["words" + beside] = whole.labels_
        rows["... with doubt" + beside] = changed(doubt=True)
        rows["... without compounds" + beside] = changed(compounds=Compounds())
        rows["... without record" + beside] = changed(records={})
        for caution in (0.5, 1.0):
            rows[f"... {caution:g} of the share that words tell{beside}"] = changed(caution=caution)
    print(f"\n{name}: F1 of every form, on valid and on train and valid")
    for said, labels in rows.items():
        print(f"  {said:<55} {task.f1(labels, 'valid'):7.2f} {task.f1(labels, 'train', 'valid'):7.2f}", flush=True)


def draw(curves: dict[str, dict[str, list[float]]], rounds: Sequence[int], path: Path) -> None:
    from trellis.report.figure import ACCENTS, new_figure, plain_axes, save_figure

    columns = min(2, len(curves))
    rows = -(-len(curves) // columns)
    figure, axes = new_figure(4.5 * columns, 3.4 * rows, rows, columns, squeeze=False)
    styles = {"plain EM": (ACCENTS[1], "-"), "ours, votes alone": (ACCENTS[0], "--"), "majority vote": ("#888888", ":")}
    for one, (name, own) in zip(axes.flat, curves.items(), strict=False):
        for curve, values in own.items():
            colour, line = styles.get(curve, (ACCENTS[0], "-"))
            one.plot(rounds, values, line, color=colour, label=curve, linewidth=1.8)
        plain_axes(one, name, "rounds", "span F1")
        one.legend(fontsize=8, frameon=False, loc="center right", bbox_to_anchor=(1.0, 0.4))
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("valid", "test"), default="test")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=SETS)
    parser.add_argument(
        "--forms", action="store_true", help="F1 of every form that was considered, by which one is chosen"
    )
    parser.add_argument("--rounds", nargs="*", type=int, default=ROUNDS, help="of curves; none: at convergence alone")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--plots", type=Path, help="folder for weak-labels.png")
    options = arguments(parser, sets=["bc5cdr", "newswire-list"], rounds=[2])
    data = Path(os.environ.get("TRELLIS_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not data.is_dir():
        sys.exit(f"no corpora at {data}: set TRELLIS_DATA")
    if options.plots is not None:
        options.plots.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", ConvergenceWarning)  # curves are stopped on purpose
    curves, text = {}, posts(data / "docs" / "20news-bydate.tar.xz")
    if options.forms:
        for name in options.sets:
            forms(name, Task(data, name, options.split), options.threads, text)
        return
    for name in options.sets:
        curves[name] = measure(name, Task(data, name, options.split), options.rounds, options.threads, text)
    if options.plots is not None and options.rounds:
        draw(curves, options.rounds, options.plots / "weak-labels.png")


if __name__ == "__main__":
    main()
