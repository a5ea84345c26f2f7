"""A Spanish parser from English trees and a bitext: table 8 and figure 9 of Ganchev et al. 2010 on other corpora.

    make bench-transfer                                     on es-gsd-dev, for choosing settings
    make bench-transfer ARGS="--test"                       on es-gsd-test and es-pud
    make bench-transfer ARGS="--keep f.json"                rows that f.json has, and alignment, are not run again
    make bench-transfer ARGS="--plots docs/figures"         and the curves as a picture

Text is prepared as `trellis transfer` does it, with public estimators: taggers learned from en-ewt-train and es-gsd-dev
tokenise and tag, ours aligns, the parser of `make bench-trees` parses English. Target sentences have up to 20 words
without punctuation. Parsers are tested with gold tags, without punctuation, on all lengths and up to 10 words. Random
completion is drawn five times: mean and standard deviation. Each model has the η that its pairs speak for, without
labels. The command itself, on three languages: `make bench-panel ARGS="--task transfer"`.
"""

from __future__ import annotations

import argparse
import pickle
import time
import warnings
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from itertools import islice
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np
from _kept import Kept
from _small import arguments
from _trees import attachment, data, plain, treebank

from trellis.apps.align.aligner import Aligner
from trellis.apps.parse.parser import Parser
from trellis.apps.parse.projected_arcs import ETAS, conserved, loosest, projected
from trellis.apps.parse.tagger import Tagger
from trellis.apps.parse.transfer import Transfer, usable_pairs
from trellis.learn import UEM
from trellis.models import DMV, ArcParser

DRAWS = 5
"""Of random completions."""
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)


def prepare(n: int) -> list:
    """Usable sentence pairs, their source sides parsed."""
    begin = time.perf_counter()
    sides = []
    for language, name in (("en", "en-ewt-train"), ("es", "es-gsd-dev")):
        tagger = Tagger(n_jobs=2).fit(treebank(name))
        with open(data("align", "europarl-en-es", f"train.{language}"), encoding="utf-8") as lines:
            sides.append(tagger.predict(line.rstrip("\n") for line in islice(lines, n)))
    print(f"  tagged {n} pairs in {time.perf_counter() - begin:.0f} s", flush=True)
    begin = time.perf_counter()
    lower = ([[word.lower() for word in s.tokens] for s in side] for side in sides)
    links = [list(own) for own in Aligner(n_jobs=2).fit_align(zip(*lower, strict=True))]
    print(f"  aligned them in {time.perf_counter() - begin:.0f} s", flush=True)
    begin = time.perf_counter()
    parsed = Parser(n_jobs=2).fit(treebank("en-ewt-train")).predict(sides[0])
    print(f"  source parser trained, and English parsed, in {time.perf_counter() - begin:.0f} s", flush=True)
    return usable_pairs(zip(parsed, sides[1], strict=True), links, 20)


def random_trees(pairs: list, seed: int) -> list:
    """The baseline of sec. 7.3: projected arcs in random order while a tree is possible, then any possible head for
    each word that is left, in random order. An arc is possible beside others if some tree has them all."""
    rng = np.random.default_rng(seed)
    model = DMV()
    batch = model.encode([pair.target for pair in pairs], fit=True)
    parts = model.parts(batch)
    flat, heads = parts.zeros(), batch.labels.copy()
    waiting = [[own[k] for k in rng.permutation(len(own))] for own in map(projected, pairs)]
    while np.any(heads < 0):
        possible = flat.clamp(heads).infer().marginal > 0.0
        for i, n in enumerate(batch.lengths.tolist()):
            own, first = heads[batch.offsets[i] : batch.offsets[i + 1]], parts.arc_offsets[i]
            orphans = np.flatnonzero(own < 0)
            if not len(orphans):
                continue
            may = possible[first : first + n * n].reshape(n, n)  # (child, head), the root in the child's own place
            while waiting[i]:
                h, c = waiting[i].pop()
                if own[c - 1] < 0 and may[c - 1, (h or c) - 1]:
                    own[c - 1] = h
                    break
            else:
                c = rng.choice(orphans)
                h = rng.choice(np.flatnonzero(may[c]))
                own[c] = 0 if h == c else h + 1
    return model.decode(batch, heads)


class Material:
    """Usable pairs and a parser of English tags, made when they are first asked for, and what is made of them."""

    def __init__(self, n: int, kept: Kept) -> None:
        self.n, self.kept = n, kept
        self.drawn: dict[tuple[int, int], list] = {}

    def known(self, name: str, make: Callable[[], dict[str, object]]) -> dict[str, object]:
        """A result that is kept, or made from these pairs; its time is its own, without that of preparing them."""
        name = f"{name}, {self.n} aligned"
        if name not in self.kept.known:
            _ = self.pairs, self.start
        return self.kept.get(name, make)

    @cached_property
    def pairs(self) -> list:
        """With ``--keep`` they are kept in a file beside the results."""
        path = self.kept.path and self.kept.path.with_suffix(f".{self.n}-pairs")
        if path is None or not path.exists():
            made = prepare(self.n)
            if path is None:
                return made
            path.write_bytes(pickle.dumps(made))
        return list(pickle.loads(path.read_bytes()))

    @cached_property
    def start(self) -> ArcParser:
        english = plain(treebank("en-ewt-train"))
        return ArcParser(lexical=False, bits=20, solver="adagrad", learning_rate=0.05, max_iter=3).fit(*english)

    def size(self, asked: int) -> dict[str, object]:
        some = self.pairs[:asked]
        words = sum(len(pair.target) for pair in some)
        given = sum(len({c for _, c in projected(pair)}) for pair in some)
        return {"usable": len(self.pairs), "pairs": len(some), "words": words, "given": given}

    def completed(self, size: int, teach: Callable[[list, list], Any]) -> Iterable[Any]:
        """What random completions teach."""
        some = self.pairs[:size]
        for key in ((size, seed) for seed in range(DRAWS)):
            if key not in self.drawn:
                self.drawn[key] = random_trees(some, key[1])
            yield teach([pair.target for pair in some], self.drawn[key])

    def transferred(self, size: int, **settings: Any) -> Iterable[Any]:
        yield Transfer(n_jobs=2, **settings).fit_pairs(self.pairs[:size], self.start).model_

    def source_dmv(self, size: int) -> Iterable[Any]:
        """What the same model learns from the parsed source sides."""
        some = self.pairs[:size]
        yield dmv().fit([pair.source for pair in some], [pair.heads for pair in some])

    def unsupervised(self, size: int) -> Iterable[Any]:
        learner = UEM(dmv(), start="uniform", max_iter=40, tol=0, n_jobs=2)
        yield learner.fit([pair.target for pair in self.pairs[:size]]).model_

    def of_eta(self, size: int, eta: float, model: str) -> dict[str, object]:
        """Learned from one half: projected heads kept in each pair of the other half, and attachment."""
        some = self.pairs[:size]
        learned = Transfer(model=model, eta=eta, n_jobs=2).fit_pairs(some[::2], self.start).model_
        text, heads = plain(treebank("es-gsd-dev"))
        kept, words = conserved(some[1::2], learned.predict([pair.target for pair in some[1::2]]))
        return {"kept": _line(kept), "words": _line(words), "attachment": attachment(learned.predict(text), heads)}


def _line(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))


def _numbers(line: object) -> np.ndarray:
    return np.array(str(line).split(), dtype=np.int64)


class Table:
    """Rows of attachment on every treebank, all lengths and up to 10 words: of one model, or mean and deviation."""

    def __init__(self, names: list[str], every: Material) -> None:
        self.names, self.every = names, every
        self.right: dict[str, list[list[np.ndarray]]] = {}
        self.sets = [plain(treebank(name), longest) for name in names for longest in (None, 10)]
        self.words = [np.array([len(own) for own in heads]) for _, heads in self.sets]
        titles = [f"{name}{'' if longest is None else ' ≤10'}" for name in names for longest in (None, 10)]
        self._print("", titles, "seconds")
        self._print("words", [f"{own.sum():,}" for own in self.words], "")

    def row(self, name: str, models: Callable[[], Iterable[Any]], size: int = 0) -> list[float]:
        """The mean figures."""
        shown = f"{name}, {size}" if size else name
        name = f"{shown}: {' '.join(self.names)}"
        found = self.every.known(name, lambda: {"right": [self._judged(model) for model in models()]})
        self.right[shown] = [[_numbers(line) for line in own] for own in found["right"]]
        total = [words.sum() for words in self.words]
        figures = [[100 * own.sum() / n for own, n in zip(one, total, strict=True)] for one in self.right[shown]]
        mean = np.mean(figures, axis=0)
        cells = [f"{x:.1f}" for x in mean]
        if len(figures) > 1:
            cells = [f"{x:.1f} ± {d:.1f}" for x, d in zip(mean, np.std(figures, axis=0, ddof=1), strict=True)]
        self._print(shown, cells, found["seconds"])
        return mean.tolist()

    def gain(self, name: str, one: str, other: str) -> None:
        """How far one row is ahead of another (in the mean), and its standard error over sentences."""
        cells = []
        for k, words in enumerate(self.words):
            means = (np.mean([own[k] for own in self.right[row]], axis=0) for row in (one, other))
            more = np.subtract(*means)
            share = more.sum() / words.sum()
            cells.append(f"{100 * share:+.1f} ± {100 * np.sqrt(np.sum((more - share * words) ** 2)) / words.sum():.1f}")
        self._print(name, cells, "")

    def _judged(self, model: Any) -> list[str]:
        """Words with the right head, sentence by sentence."""
        model.n_jobs = 2
        found = (
            [sum(map(eq, *pair)) for pair in zip(model.predict(text), heads, strict=True)] for text, heads in self.sets
        )
        return [_line(own) for own in found]

    def _print(self, name: str, cells: list[str], last: object) -> None:
        print(f"  {name:<46}" + "".join(f"{x:>17}" for x in cells) + f"{last!s:>9}", flush=True)


def dmv() -> DMV:
    """As the transferred one, every DMV of the table predicts the tree with the most heads right in expectation."""
    return DMV(decoding="posterior")


def likeliest(models: Iterable[DMV]) -> Iterable[DMV]:
    """The same models, but they predict likeliest trees."""
    for model in models:
        model.decoding = "viterbi"
        yield model


class LinkLeft:
    """Every word hangs on the one before it."""

    def predict(self, text: list) -> list:
        return [list(range(len(words))) for words in text]


def by_eta(every: Material, size: int) -> tuple[dict[str, list[Any]], dict[str, float]]:
    """Footnote 10: what half of the pairs teaches about the other half, at each η; and the η that is taken."""
    print("\nη by unlabelled text: learned from one half, projected heads kept in the other (footnote 10); es-gsd-dev")
    curves: dict[str, list[Any]] = {"parser": [], "DMV": []}
    taken = {}
    for name, model in (("parser", "margin"), ("DMV", "dmv")):
        kept = {}
        for eta in ETAS:
            found = every.known(f"η {eta}, {name}, {size}", partial(every.of_eta, size, eta, model))
            kept[eta], words = _numbers(found["kept"]), _numbers(found["words"])
            figures = 100.0 * kept[eta].sum() / words.sum(), found["attachment"]
            curves[name].append(figures)
            print(f"  {name:<8}{eta:<6}{figures[0]:>8.1f}{figures[1]:>8.1f}{found['seconds']:>6} s", flush=True)
        taken[name] = loosest(kept, words)
        print(f"  {name:<8}taken: {taken[name]:g}", flush=True)
    return curves, taken


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--test", action="store_true", help="measure on es-gsd-test and es-pud")
    options.add_argument("--pairs", type=int, default=50_000, help="sentence pairs that are aligned")
    options.add_argument("--size", type=int, default=10_000, help="usable pairs of the table")
    options.add_argument("--keep", type=Path, help="file of results: rows that it has are not run again")
    options.add_argument("--plots", type=Path, help="folder for transfer.png")
    options.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="usable pairs of Figure 9")
    given = arguments(options, pairs=60, size=20, sizes=[10, 20])
    warnings.simplefilter("ignore")
    every, size = Material(given.pairs, Kept(given.keep)), given.size
    found = every.known(f"{size} pairs", partial(every.size, size))
    print("  {usable} usable pairs; the first {pairs} have {words} words, {given} with projected heads".format(**found))
    curves, eta = by_eta(every, size)
    margin = Transfer(n_jobs=2).fit_trees

    print()
    table = Table(["es-gsd-test", "es-pud"] if given.test else ["es-gsd-dev"], every)
    table.row("link-left", lambda: [LinkLeft()])
    table.row("DMV, unsupervised", partial(every.unsupervised, size), size)
    table.row("direct transfer of a DMV", partial(every.source_dmv, size), size)
    table.row("direct transfer of a parser of tags", lambda: [every.start])
    table.row("supervised DMV (es-gsd-dev)", lambda: [dmv().fit(*plain(treebank("es-gsd-dev")))])
    table.row("supervised parser (es-gsd-dev)", lambda: [ArcParser(bits=20).fit(*plain(treebank("es-gsd-dev")))])
    pr = partial(every.transferred, size, model="dmv", eta=eta["DMV"])
    completed = partial(every.completed, size, lambda text, trees: dmv().fit(text, trees))
    table.row("random completion, DMV", completed, size)
    table.row("PR, DMV", pr, size)
    table.row("random completion, DMV, likeliest trees", lambda: likeliest(completed()), size)
    table.row("PR, DMV, likeliest trees", lambda: likeliest(pr()), size)
    for name in ("DMV", "DMV, likeliest trees"):
        table.gain(f"PR over random completion, {name}", f"PR, {name}, {size}", f"random completion, {name}, {size}")
    table.row("random completion, parser", partial(every.completed, size, margin), size)
    for name, settings in (
        ("PR, parser", {}),
        ("PR, parser of tags", {"lexical": False}),
        ("PR, parser, one round, one order", {"max_iter": 1, "orders": 1}),
        ("PR, parser, likelihood", {"model": "likelihood"}),
        ("CoDL (γ = 0), parser", {"gamma": 0.0}),
    ):
        table.row(name, partial(every.transferred, size, eta=eta["parser"], **settings), size)
    table.gain("PR over random completion, parser", f"PR, parser, {size}", f"random completion, parser, {size}")

    print("\nby number of pairs: parsers by margin steps (Figure 9)")
    growth: dict[str, list[list[float]]] = {}
    usable = int(str(found["usable"]))
    sizes = [min(n, usable) for n in given.sizes]
    for n in sizes:
        for name, make in (
            ("random completion, parser", partial(every.completed, n, margin)),
            ("PR, parser", partial(every.transferred, n, eta=eta["parser"])),
            ("CoDL (γ = 0), parser", partial(every.transferred, n, eta=eta["parser"], gamma=0.0)),
        ):
            growth.setdefault(name, []).append(table.row(name, make, n))
    if given.plots is not None:
        draw(given.plots / "transfer.png", table.names, sizes, growth, curves)


def draw(path: Path, names: list[str], sizes: list[int], growth: dict[str, list], curves: dict[str, list]) -> None:
    """Attachment by number of pairs (Figure 9), and what η does."""
    from trellis.report.figure import ACCENTS, new_figure, plain_axes, save_figure

    figure, (pairs, eta) = new_figure(9.0, 4.2, 1, 2)
    point = {"marker": "o", "markersize": 3}
    for (name, rows), colour in zip(growth.items(), ACCENTS, strict=False):
        for treebank_name, column, line in zip(names, (0, 2), ("-", "--"), strict=False):
            values = [row[column] for row in rows]
            pairs.plot(
                sizes, values, line, color=colour, label=f"{name.removesuffix(', parser')}, {treebank_name}", **point
            )
    pairs.set_xscale("log")
    pairs.set_xticks(sizes, [f"{n:,}" for n in sizes])
    pairs.minorticks_off()
    plain_axes(pairs, "by number of sentence pairs", "sentence pairs", "words with the right head, %")
    for (name, found), colour in zip(curves.items(), (ACCENTS[1], ACCENTS[3]), strict=True):
        for column, line, what in ((0, "-", "given heads kept"), (1, "--", "es-gsd-dev")):
            eta.plot(ETAS, [row[column] for row in found], line, color=colour, label=f"{name}, {what}", **point)
    eta.set_xticks(ETAS, [f"{x:g}" for x in ETAS])
    plain_axes(eta, "by η, learned from half of the pairs", "η", "%")
    for axes in (pairs, eta):
        axes.legend(fontsize=7, frameon=False, handlelength=3, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.16))
    save_figure(figure, path)


if __name__ == "__main__":
    main()
