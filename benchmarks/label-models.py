"""Weak labels by Snorkel, skweak and Trellis from the same votes, each library with its defaults.

    make bench-label-models
    make bench-label-models ARGS="--corpora laptop-review mit-restaurants"

Span F1 on the test sets of WRENCH corpora with all of their functions; texts of training and development sets, where
there are any, are aggregated with them. Snorkel's label model is made for independent items: here every token is one,
and those on which no function votes are ``O``. Seconds are those of fitting and predicting. Rows of libraries that
are not installed (``pip install snorkel skweak spacy``) are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

import _small
import numpy as np
from _panel import weak
from _panel.common import Options

from trellis import Aggregator, votes_to_matrix
from trellis.apps.aggregate.majority import span_vote
from trellis.data.bio import runs
from trellis.data.document import Document
from trellis.data.voted_files import read_voted
from trellis.data.wrench import read_wrench_gold
from trellis.metrics.fields import score_fields

Labels = Sequence[Sequence[str]]


def snorkel(texts: Sequence[Document]) -> Labels:
    from snorkel.labeling.model import LabelModel

    matrix, names, _ = votes_to_matrix(texts)
    voted = (matrix >= 0).any(axis=1)
    model = LabelModel(cardinality=max(len(names), 2), verbose=False)
    model.fit(matrix[voted], seed=0, progress_bar=False)
    codes = np.full(len(matrix), -1)
    codes[voted] = model.predict(matrix[voted], tie_break_policy="random")
    labels = iter([names[code] if 0 <= code < len(names) else "O" for code in codes])
    return [[next(labels) for _ in text.tokens] for text in texts]


def skweak(texts: Sequence[Document]) -> Labels:
    import spacy
    from skweak.generative import HMM

    vocab, docs = spacy.blank("en").vocab, []
    for text in texts:
        doc = spacy.tokens.Doc(vocab, words=list(text.tokens))
        for name, votes in text.votes.items():
            doc.spans[name] = [spacy.tokens.Span(doc, first, last, label) for label, first, last in runs(votes)]
        docs.append(doc)
    kinds = sorted({span.label_ for doc in docs for name in doc.spans for span in doc.spans[name]})
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        docs = list(HMM("hmm", kinds).fit_and_aggregate(docs))
    found = []
    for doc in docs:
        labels = ["O"] * len(doc)
        for span in doc.spans["hmm"]:
            labels[span.start : span.end] = [f"B-{span.label_}", *[f"I-{span.label_}"] * (len(span) - 1)]
        found.append(labels)
    return found


SYSTEMS: dict[str, tuple[str, Callable[[Sequence[Document]], Labels]]] = {
    "majority vote per token": ("numpy", weak.majority),
    "majority vote of spans": ("numpy", span_vote),
    "Snorkel LabelModel": ("snorkel", snorkel),
    "skweak HMM": ("skweak", skweak),
    "Trellis Aggregator": ("numpy", lambda texts: Aggregator().fit(texts).labels_),
}


def rows(corpora: Sequence[weak.Corpus]) -> Iterator[list[str]]:
    yield ["span F1 (seconds)", *(corpus.name for corpus in corpora)]
    for name, (library, system) in SYSTEMS.items():
        if find_spec(library) is None:
            print(f"{name}: {library} is not installed", file=sys.stderr)
            continue
        cells = []
        for corpus in corpora:
            texts = [text for path in corpus.files for text in read_voted(path, all_functions=True)]
            gold = [[label or "O" for label in one.labels or ()] for one in read_wrench_gold(corpus.files[-1])]
            begin = time.perf_counter()
            found = system(texts)[-len(gold) :]
            spent = time.perf_counter() - begin
            cells.append(f"{100.0 * score_fields(gold, found).total.f1:.1f} ({spent:.1f})")
        yield [name, *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpora", nargs="+", default=[], help="corpora to run")
    given = _small.arguments(parser)
    corpora = list(weak.corpora(Options(small=given.small, test=True, corpora=tuple(given.corpora))))
    for row in rows(corpora):
        print("| " + " | ".join(row) + " |", flush=True)
        if row[0].startswith("span"):
            print("| --- " * len(row) + "|")


if __name__ == "__main__":
    main()
