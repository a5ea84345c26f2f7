"""Several views: agreement against one model (Ganchev et al. 2010, tables 4, 5 and 6).

    make bench-multiview
    make bench-multiview ARGS="--draws 5 --tasks sentiment"
    make bench-multiview ARGS="--split dev --tasks entities chunks --gamma 1 0.5 --weight 0.3 1 3"

*sentiment*: reviews of one kind of product are labelled, 1,600 of another are not, 400 of these are the test; the views
are a random split of the features (words and pairs of words that occur in four reviews of either kind).
*entities*: the type of a mention, content (its words and letters) and context (three words on either side) as views.
*chunks*: noun phrases, the current word and tag against those around it as views; CRFs.

"one" is a single model of all features, "agree₀" the product of the views trained on labels alone, γ = 1 the paper's
geometric mean and γ = 0.5 the product without anything known of labels' shares, "default" what MultiView does,
"content" that view by itself. Draws are random splits into labelled, unlabelled and (but for entities) test instances,
and into views.
"""

from __future__ import annotations

import argparse
import os
import sys
import tarfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from _small import arguments
from scipy import sparse, stats

from trellis import CRF, ConvergenceWarning, MaxEnt, MultiView

DOMAINS = ("books", "dvd", "electronics", "kitchen")
PAPER = {
    ("books", "dvd"): (78.5, 79.8), ("dvd", "books"): (80.3, 81.3), ("books", "electronics"): (72.5, 75.5),
    ("electronics", "books"): (72.8, 74.3), ("books", "kitchen"): (77.8, 81.0), ("kitchen", "books"): (70.3, 72.8),
    ("dvd", "electronics"): (75.5, 76.5), ("electronics", "dvd"): (69.3, 73.0), ("dvd", "kitchen"): (80.5, 82.8),
    ("kitchen", "dvd"): (69.5, 72.8), ("electronics", "kitchen"): (86.5, 85.8),
    ("kitchen", "electronics"): (82.8, 85.5),
}  # fmt: skip
"""Table 4: maximum entropy, and agreement."""
PAPER_ENTITIES = {500: (74.0, 76.4), 1000: (80.0, 81.7), 2000: (83.4, 84.8)}
PAPER_CHUNKS = {
    10: (73.2, 78.2), 20: (79.4, 84.2), 50: (86.3, 86.9), 100: (88.5, 88.9), 200: (89.6, 89.6), 500: (91.3, 90.6),
    1000: (91.6, 91.1),
}  # fmt: skip
ENTITY_L2 = 0.1
"""Chosen on dev; the paper chose by cross-validation."""
ROUNDS = {"sentiment": 6, "entities": 6, "chunks": 8}
FIRST_DRAW = 30
"""Draws below were used to choose settings, or seen while they were, or by earlier forms."""


def data_folder() -> Path:
    folder = Path(os.environ.get("TRELLIS_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    if not folder.is_dir():
        sys.exit(f"no corpora at {folder}: set TRELLIS_DATA")
    return folder


class Reviews:
    """Counts of words and pairs of words in all reviews."""

    def __init__(self, path: Path) -> None:
        vocabulary: dict[str, int] = {}
        places, values, ends, labels, domains = [], [], [0], [], []
        with tarfile.open(path) as archive:
            for member in sorted(archive.getmembers(), key=lambda m: m.name):
                if not member.isfile():
                    continue
                domain, kind = member.name.split("/")[-2:]
                for line in archive.extractfile(member).read().decode("utf-8", "replace").splitlines():
                    for token in line.split():
                        name, _, count = token.rpartition(":")
                        if name and name != "#label#" and count.isdigit():
                            places.append(vocabulary.setdefault(name, len(vocabulary)))
                            values.append(float(count))
                    ends.append(len(places))
                    labels.append(kind.partition(".")[0])
                    domains.append(domain)
        shape = (len(labels), len(vocabulary))
        self.counts = sparse.csr_matrix((np.array(values), np.array(places, np.int32), np.array(ends)), shape)
        self.counts.sum_duplicates()
        self.labels, self.domains, self.names = np.array(labels), np.array(domains), vocabulary

    def run(self, source: str, target: str, draw: int, options: argparse.Namespace) -> dict[str, float]:
        rng = np.random.default_rng([draw, DOMAINS.index(source), DOMAINS.index(target)])
        given = np.flatnonzero(self.domains == source)
        others = rng.permutation(np.flatnonzero(self.domains == target))
        n = len(others) // 5
        test, free = others[:n], others[n:]
        rows = np.concatenate([given, free])
        columns = np.flatnonzero(np.bincount(self.counts[rows].indices, minlength=self.counts.shape[1]) >= 4)
        X, y = self.counts[:, columns].astype(bool).astype(float), self.labels
        half = rng.random(len(columns)) < 0.5
        views = [X[:, half].tocsr(), X[:, ~half].tocsr()]
        known: list[Any] = [*y[given], *[None] * len(free)]
        found = {"one": maxent().fit(X[given], y[given]).score(X[test], y[test])}
        for name, settings in runs(options).items():
            learner = MultiView([maxent(), maxent()], tol=0.0, **settings).fit([own[rows] for own in views], known)
            found[name] = learner.score([own[test] for own in views], y[test])
        return {name: 100 * value for name, value in found.items()}


def maxent() -> MaxEnt:
    """With a prior of unit variance, as in the paper."""
    return MaxEnt(l2=1.0, max_iter=40, tol=1e-6)


def runs(options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """agree₀ is one round without weight: the views know the labels alone."""
    made: dict[str, dict[str, Any]] = {"agree₀": {"weight": 0.0, "max_iter": 1, "shares": None}}
    for weight in options.weight:
        settings = {f"γ = {gamma:g}": {"gamma": gamma, "shares": None} for gamma in options.gamma}
        for name, own in {**settings, "default": {}}.items():
            name += f", c = {weight:g}" if len(options.weight) > 1 else ""
            made[name] = {**own, "weight": weight, "max_iter": options.rounds}
    return made


def sentiment(folder: Path, options: argparse.Namespace) -> None:
    reviews = Reviews(folder / "docs" / "sentiment-domains.tar.xz")
    print(f"\nsentiment: accuracy on 400 reviews of the target, {options.draws} draws")
    table: dict[tuple[str, str], list[dict[str, float]]] = {}
    for pair, (one, both) in PAPER.items():
        begin = time.perf_counter()
        table[pair] = [reviews.run(*pair, draw, options) for draw in draws_of(options)]
        means = {name: np.mean([run[name] for run in table[pair]]) for name in table[pair][0]}
        if len(table) == 1:
            print(f"  {'':<24}{'paper: one':>11}{'agree':>7}  " + "".join(f"{name:>24}" for name in means))
        shown = "".join(f"{value:>24.1f}" for value in means.values())
        print(
            f"  {pair[0]:>11} → {pair[1]:<11}{one:>10.1f}{both:>7.1f}  {shown}   {time.perf_counter() - begin:.0f} s",
            flush=True,
        )
    everything = [run for own in table.values() for run in own]
    print(f"  gain over one model      {'':>10}{2.07:>7.2f}   (paper; standard deviation over pairs 1.27)")
    for name in everything[0]:
        if name != "one":
            gain = np.array([run[name] - run["one"] for run in everything])
            of_pairs = np.array([np.mean([run[name] - run["one"] for run in own]) for own in table.values()])
            p, p_pairs = stats.ttest_1samp(gain, 0.0).pvalue, stats.ttest_1samp(of_pairs, 0.0).pvalue
            print(f"  {name:<24} {gain.mean():+.2f} ± {of_pairs.std(ddof=1):.2f} over pairs;  "
                  f"p = {p_pairs:.1g} over the 12 pairs, {p:.1g} over all {len(gain)} runs")  # fmt: skip


def draws_of(options: argparse.Namespace) -> range:
    first = 0 if options.split == "dev" else FIRST_DRAW
    return range(first, first + options.draws)


def features_of(words: Sequence[str]) -> list[str]:
    found = []
    for word in words:
        padded = f"^{word}$"
        found += [f"w={word}", f"shape={shape(word)}", *(f"g={padded[i : i + 3]}" for i in range(len(padded) - 2))]
    return found


def shape(word: str) -> str:
    kinds = ["X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c for c in word]
    return "".join(k for i, k in enumerate(kinds) if i == 0 or kinds[i - 1] != k)


def mentions(path: Path) -> tuple[list[list[str]], list[list[str]], list[str]]:
    """Content, context and type of every mention of a file of relations/conll04."""
    content, context, types = [], [], []
    rows: list[list[str]] = []
    for line in [*path.read_text(encoding="utf-8").splitlines(), ""]:
        cells = line.split("\t")
        if len(cells) >= 3 and not line.startswith("#"):
            rows.append(cells)
            continue
        words, tags = [row[1] for row in rows], [row[2] for row in rows]
        for first, tag in enumerate(tags):
            if tag.startswith("B-"):
                end = first + 1
                while end < len(tags) and tags[end].startswith("I-"):
                    end += 1
                content.append(features_of(words[first:end]))
                before, after = words[max(first - 3, 0) : first], words[end : end + 3]
                near = [f"{i}:{word}" for i, word in enumerate(reversed(before), 1)] + [
                    f"-{i}:{w}" for i, w in enumerate(after, 1)
                ]
                context.append(features_of([*before, *after]) + near)
                types.append(tag[2:])
        rows = []
    return content, context, types


def matrix(lists: Sequence[Sequence[str]], names: dict[str, int]) -> Any:
    rows = [[names[f] for f in set(own) if f in names] for own in lists]
    ends = np.cumsum([0, *map(len, rows)])
    places = np.array([p for own in rows for p in own], np.int32)
    return sparse.csr_matrix((np.ones(len(places)), places, ends), (len(rows), len(names)))


def entities(folder: Path, options: argparse.Namespace) -> None:
    train = mentions(folder / "relations" / "conll04" / "train.txt")
    held = mentions(folder / "relations" / "conll04" / f"{options.split}.txt")
    views = []
    for own, other in zip(train[:2], held[:2], strict=True):
        counts = Counter(f for row in own for f in set(row))
        names = {f: i for i, f in enumerate(f for f, n in counts.items() if n >= 2)}
        views.append((matrix(own, names), matrix(other, names)))
    y, gold = np.array(train[2]), np.array(held[2])
    kinds = sorted(set(y))
    print(f"\nentities: {len(y)} mentions of train, of which so many are labelled; accuracy on {len(gold)} of "
          f"{options.split}; {options.draws} draws (paper, 30,000 mentions of CoNLL-2003: "
          + ", ".join(f"{n}: {a} to {b}" for n, (a, b) in PAPER_ENTITIES.items()) + ")")  # fmt: skip

    def run(n: int, draw: int) -> dict[str, float]:
        chosen = np.random.default_rng([draw, n]).permutation(len(y))[:n]
        known: list[Any] = [None] * len(y)
        for i in chosen:
            known[i] = y[i]
        whole = [sparse.hstack([own[side] for own in views]).tocsr() for side in (0, 1)]
        one = MaxEnt(kinds, l2=ENTITY_L2, max_iter=60, tol=1e-6).fit(whole[0][chosen], y[chosen])
        found = {"one": 100 * one.score(whole[1], gold)}
        for name, settings in runs(options).items():
            made = [MaxEnt(kinds, l2=ENTITY_L2, max_iter=40, tol=1e-6) for _ in views]
            learner = MultiView(made, tol=0.0, **settings).fit([own[0] for own in views], known)
            found[name] = 100 * learner.score([own[1] for own in views], gold)
            found[f"{name}, content"] = 100 * learner.score([own[1] for own in views], gold, by=0)
        return found

    by_size(run, options.sizes or (50, 100, 200, 500), options, {})


def by_size(
    run: Callable[[int, int], dict[str, float]],
    sizes: Sequence[int],
    options: argparse.Namespace,
    paper: dict[int, Any],
) -> None:
    """A line a size: means over draws, and the gain of each over one model with its standard error."""
    for i, n in enumerate(sizes):
        begin = time.perf_counter()
        found = [run(n, draw) for draw in draws_of(options)]
        if i == 0:
            print(f"  {'labelled':>9}{'paper: one':>12}{'agree':>7}" + "".join(f"{name:>24}" for name in found[0]))
        text = f"  {n:>9}" + ("{:>12}{:>7}".format(*paper[n]) if n in paper else f"{'':>19}")
        for name in found[0]:
            values = np.array([one[name] for one in found])
            gain = values - np.array([one["one"] for one in found])
            error = (
                f" ({gain.mean():+.1f} ± {gain.std(ddof=1) / len(gain) ** 0.5:.1f})"
                if len(gain) > 1 and name != "one"
                else ""
            )
            text += f"{f'{values.mean():.1f}{error}':>24}"
        print(text + f"   {time.perf_counter() - begin:.0f} s", flush=True)


Token = tuple[str, str]


def content_view(sentence: Sequence[Token], at: int) -> list[str]:
    word, tag = sentence[at]
    return [f"w={word}", f"t={tag}"]


def context_view(sentence: Sequence[Token], at: int) -> list[str]:
    found = []
    for step in (-1, 1):
        word, tag = sentence[at + step] if 0 <= at + step < len(sentence) else ("#", "#")
        found += [f"w{step}={word}", f"t{step}={tag}"]
    return found


def both_views(sentence: Sequence[Token], at: int) -> list[str]:
    return content_view(sentence, at) + context_view(sentence, at)


def spans(labels: Sequence[str]) -> set[tuple[int, int]]:
    """Noun phrases of BIO labels."""
    found, first = set(), None
    for i, label in enumerate([*labels, "O"]):
        if first is not None and label != "I":
            found.add((first, i))
            first = None
        if label == "B" or (label == "I" and first is None):
            first = i
    return found


def f1(found: Sequence[Sequence[str]], gold: Sequence[Sequence[str]]) -> float:
    a, b = [spans(y) for y in found], [spans(y) for y in gold]
    right = sum(len(x & z) for x, z in zip(a, b, strict=True))
    return 200.0 * right / max(sum(map(len, a)) + sum(map(len, b)), 1)


def chunker(features: Any, rounds: int) -> CRF:
    """With edges of features: the context view does not see the token, but its neighbour's edge does."""
    return CRF(["B", "I", "O"], features=features, edge_features=True, l2=0.1, max_iter=rounds, tol=1e-5)


def chunks(folder: Path, options: argparse.Namespace) -> None:
    sentences: list[list[Token]] = [[]]
    labels: list[list[str]] = [[]]
    for line in (folder / "chunk" / "conll2000" / "train.txt").read_text(encoding="utf-8").splitlines():
        if not line.strip():
            sentences.append([])
            labels.append([])
            continue
        word, tag, chunk = line.split()
        sentences[-1].append((word, tag))
        labels[-1].append(chunk[0] if chunk.endswith("-NP") else "O")
    kept = [i for i, s in enumerate(sentences) if s]
    n_test = min(500, len(kept) // 4)
    print(f"\nchunks: F1 of noun phrases on {n_test} sentences, {options.unlabelled} unlabelled ones (paper: all of "
          f"{len(kept) - n_test}); {options.draws} draws")  # fmt: skip

    def run(n: int, draw: int) -> dict[str, float]:
        order = np.random.default_rng([draw, 7]).permutation(kept).tolist()
        # The last ones are for test, those before them for choosing settings.
        held = order[-n_test:] if options.split == "test" else order[-2 * n_test : -n_test]
        pool = order[: -2 * n_test]
        chosen, free = pool[:n], pool[n : n + options.unlabelled]
        text = [sentences[i] for i in (*chosen, *free)]
        known: list[Any] = [labels[i] for i in chosen] + [None] * len(free)
        X, gold = [sentences[i] for i in held], [labels[i] for i in held]
        one = chunker(both_views, 100)
        found = {"one": f1(one.fit(text[:n], known[:n]).predict(X), gold)}
        for name, settings in runs(options).items():
            views = [content_view, context_view]
            made = [chunker(own, 25) for own in views]
            learner = MultiView(made, tol=0.0, **settings).fit([text, text], known)
            found[name] = f1(learner.predict([X, X]), gold)
            found[f"{name}, content"] = f1(learner.predict([X, X], by=0), gold)
        return found

    by_size(run, options.sizes or (10, 20, 50, 100), options, PAPER_CHUNKS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--tasks", nargs="+", choices=("sentiment", "entities", "chunks"), default=("sentiment", "entities", "chunks")
    )
    parser.add_argument("--split", choices=("dev", "test"), default="test")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--gamma", nargs="*", type=float, default=[1.0, 0.5], help="beside the default")
    parser.add_argument("--weight", nargs="+", type=float, default=[1.0], help="c")
    parser.add_argument("--rounds", type=int, help="default: 6, of chunks 8")
    parser.add_argument("--sizes", nargs="+", type=int)
    parser.add_argument("--unlabelled", type=int, default=400, help="sentences of chunks")
    options = arguments(parser, draws=1, rounds=2, gamma=[1.0], sizes=[10], unlabelled=20)
    folder = data_folder()
    warnings.simplefilter("ignore", ConvergenceWarning)  # M-steps need not be solved to the end
    given = options.rounds
    for task in options.tasks:
        options.rounds = given or ROUNDS[task]
        {"sentiment": sentiment, "entities": entities, "chunks": chunks}[task](folder, options)


if __name__ == "__main__":
    main()
