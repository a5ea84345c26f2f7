"""A Spanish parser from English trees and a bitext: table 8 and figure 9 of Ganchev et al. 2010 on other corpora.

    make bench-transfer                       on es-gsd-dev, for choosing settings
    make bench-transfer ARGS="--test"         on es-gsd-test and es-pud

Europarl English-Spanish is aligned by ours; both sides are tagged by CRFs of ours, English from the tags of
en-ewt-train and Spanish from those of es-gsd-dev; English is parsed by the parser of `make bench-trees`. Target
sentences have up to 20 words without punctuation. Parsers are tested with gold tags, without punctuation, on all
lengths and up to 10 words.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import islice

import numpy as np
from _trees import attachment, data, plain, treebank

from trellis.data.sentence import Sentence
from trellis.errors import InfeasibleError
from trellis.learn import UEM
from trellis.models import DMV, ArcParser
from trellis.tasks.align import Aligner
from trellis.tasks.parse import Parser
from trellis.tasks.projected_arcs import projected
from trellis.tasks.tag import Tagger
from trellis.tasks.transfer import Transfer, usable_pairs

CONFIDENCE = 0.5
"""Links less likely than this are left out."""
SPLIT = {"del": ("de", "el"), "al": ("a", "el")}
"""Words that the treebank writes as two."""


def bitext(n: int) -> tuple[list[list[str]], list[list[str]]]:
    sides = []
    for language in ("en", "es"):
        with open(data("align", "europarl-en-es", f"train.{language}"), encoding="utf-8") as lines:
            sides.append([line.split() for line in islice(lines, n)])
    return sides[0], [[part for w in words for part in SPLIT.get(w, (w,))] for words in sides[1]]


def prepare(n: int) -> list:
    """Usable sentence pairs, their source sides parsed."""
    begin = time.perf_counter()
    english, spanish = bitext(n)
    found = Aligner(threshold=CONFIDENCE, n_jobs=2).fit_align(zip(english, spanish, strict=True))
    links = [list(own) for own in found]
    print(f"  aligned {len(links)} pairs in {time.perf_counter() - begin:.0f} s", flush=True)
    short = [k for k, words in enumerate(spanish) if 3 <= len(words) <= 26]
    begin = time.perf_counter()
    sides = []
    for text, name in ((english, "en-ewt-train"), (spanish, "es-gsd-dev")):
        tagger = Tagger(lower=True, n_jobs=2).fit(treebank(name))
        sides.append(tagger.predict(Sentence(tuple(text[k])) for k in short))
    print(f"  tagged {len(short)} short pairs in {time.perf_counter() - begin:.0f} s", flush=True)
    begin = time.perf_counter()
    parsed = Parser(n_jobs=2).fit(treebank("en-ewt-train")).predict(sides[0])
    print(f"  source parser trained, and English parsed, in {time.perf_counter() - begin:.0f} s", flush=True)
    return usable_pairs(parsed, sides[1], [links[k] for k in short], 20)


def random_trees(pairs: list, seed: int = 0) -> list:
    """The baseline of sec. 7.3: projected arcs in random order while a tree is possible, then a random completion."""
    rng = np.random.default_rng(seed)
    model = DMV()
    batch = model.encode([pair.target for pair in pairs], fit=True)
    flat = model.parts(batch).zeros()
    given = [projected(pair) for pair in pairs]
    orders = [rng.permutation(len(own)).tolist() for own in given]
    known = np.full(batch.n_slots, -1, np.int32)
    for turn in range(max(map(len, given))):
        trial = known.copy()
        for i, order in enumerate(orders):
            if turn < len(order):
                h, c = given[i][order[turn]]
                at = batch.offsets[i] + c - 1
                trial[at] = h if trial[at] < 0 else trial[at]
        try:
            flat.clamp(trial).argmax()
        except InfeasibleError as error:
            for i in error.instances:
                trial[batch.offsets[i] : batch.offsets[i + 1]] = known[batch.offsets[i] : batch.offsets[i + 1]]
        known = trial
    return model.decode(batch, flat.clamp(known).sample(1, rng)[0])


class Table:
    """Rows of attachment on every treebank, all lengths and up to 10 words."""

    def __init__(self, names: list[str]) -> None:
        self.sets = [plain(treebank(name), longest) for name in names for longest in (None, 10)]
        heads = [f"{name}{'' if longest is None else ' ≤10'}" for name in names for longest in (None, 10)]
        print(f"  {'':<46}" + "".join(f"{head:>17}" for head in heads) + f"{'seconds':>9}")
        self.begin = time.perf_counter()

    def row(self, name: str, model) -> None:
        seconds = time.perf_counter() - self.begin
        model.threads = 2
        figures = [attachment(model.predict(text), heads) for text, heads in self.sets]
        print(f"  {name:<46}" + "".join(f"{x:>17.1f}" for x in figures) + f"{seconds:>9.0f}", flush=True)
        self.begin = time.perf_counter()


class LinkLeft:
    """Every word hangs on the one before it."""

    threads = 1

    def predict(self, text: list) -> list:
        return [list(range(len(words))) for words in text]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--test", action="store_true", help="measure on es-gsd-test and es-pud")
    options.add_argument("--pairs", type=int, default=50_000, help="sentence pairs that are aligned")
    options.add_argument("--size", type=int, default=10_000, help="usable pairs of the table")
    given = options.parse_args()
    warnings.simplefilter("ignore")
    every = prepare(given.pairs)
    pairs = every[: given.size]
    n_words = sum(len(pair.target) for pair in pairs)
    n_given = sum(len({c for _, c in projected(pair)}) for pair in pairs)
    print(f"  {len(every)} usable pairs; the first {len(pairs)} have {n_words} words, {n_given} with projected heads")
    text = [pair.target for pair in pairs]

    print("\nη by unlabelled text: learned from one half, projected heads kept in the other (footnote 10)")
    half = len(pairs) // 2
    start = Transfer().source_model(pairs[:half])
    for eta in (0.6, 0.7, 0.8, 0.9, 0.95, 1.0):
        learner = Transfer(eta=eta, n_jobs=2).fit_pairs(pairs[:half], start)
        print(f"  {eta:<6}{100 * learner.conserved(pairs[half:]):.1f}", flush=True)

    print()
    table = Table(["es-gsd-test", "es-pud"] if given.test else ["es-gsd-dev"])
    table.row("link-left", LinkLeft())
    learner = UEM(DMV(), start="uniform", max_iter=40, tol=0, n_jobs=2).fit(text)
    table.row("DMV, unsupervised", getattr(learner, "model_", learner.model))
    trees = random_trees(pairs)
    table.row("random completion, DMV", DMV().fit(text, trees))
    table.row("random completion, parser", ArcParser(bits=20, max_iter=2).fit(text, trees))
    english = plain(treebank("en-ewt-train"))
    delexicalised = ArcParser(lexical=False, bits=20, solver="adagrad", learning_rate=0.05, max_iter=3).fit(*english)
    table.row("direct transfer of a parser of tags", delexicalised)
    for name, settings in (
        ("PR, DMV", {"model": "dmv"}),
        ("PR, parser (the default)", {}),
        ("PR, parser of tags", {"lexical": False}),
        ("PR, parser, one round, one order", {"max_iter": 1, "orders": 1}),
        ("PR, parser, likelihood", {"model": "likelihood"}),
        ("CoDL (γ = 0), parser", {"gamma": 0.0}),
    ):
        table.row(name, Transfer(n_jobs=2, **settings).fit_pairs(pairs, delexicalised).model_)
    table.row("supervised Spanish (es-gsd-dev)", ArcParser(bits=20).fit(*plain(treebank("es-gsd-dev"))))

    print("\nby number of pairs: random completion, PR and CoDL, all by margin steps (Figure 9)")
    for size in (1_000, 2_000, 5_000, 10_000, 20_000):
        some = every[:size]
        own = [pair.target for pair in some]
        table.row(f"random completion, {len(some)}", ArcParser(bits=20, max_iter=2).fit(own, random_trees(some)))
        for name, gamma in (("PR", 1.0), ("CoDL", 0.0)):
            learner = Transfer(gamma=gamma, n_jobs=2).fit_pairs(some, delexicalised)
            table.row(f"{name}, {len(some)}", learner.model_)


if __name__ == "__main__":
    main()
