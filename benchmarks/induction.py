"""Part-of-speech induction on Bosque and the Penn Treebank sample: tables and figures of Graça et al. 2009, and costs.

    make bench-induction                                       everything; an hour on two cores, and it resumes
    make bench-induction ARGS="--seeds 2 --corpora bosque"     a quick look
    make bench-induction ARGS="--parts cost"                   times of EM, sparse and hmmlearn in one run

Runs are kept under --cache, one file each, and are not repeated. Seeds are the same for all methods. Every corpus is
used whole, for training and for evaluation, as in the paper; a state is decoded by its posterior. The command on these
and other corpora, beside EM: `make bench-panel ARGS="--task induce"`.

The 17-tag reduction of the Penn Treebank follows Smith & Eisner 2005; it is written out in ``REDUCTION``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from _small import arguments, scratch_folder
from scipy.stats import ttest_rel

from trellis.apps.induce.inducer import Inducer
from trellis.apps.parse.tagger import Tagger
from trellis.data.columns import read_columns
from trellis.learn.margin import Perceptron
from trellis.metrics.induction import labels_a_word_of_tagging, score_induction
from trellis.models import CRF


def token_features(words: list[str], states: list[list[str]]) -> list[list[str]]:
    """Names of the features of each token: the word, its last two and three letters, and the states of each model."""
    return [
        [f"word={word}", f"suffix={word[-2:]}", f"suffix={word[-3:]}"]
        + [f"state{number}={given[t]}" for number, given in enumerate(states)]
        for t, word in enumerate(words)
    ]


REDUCTION = {
    "ADJ": "$ # CD JJ JJR JJS PRP$",
    "ADV": "RB RBR RBS",
    "CONJ": "CC",
    "DET": "DT PDT",
    "ENDPUNC": ".",
    "INPUNC": ", :",
    "LPUNC": "`` -LRB-",
    "N": "EX FW LS NN NNP NNPS NNS PRP SYM UH",
    "POS": "POS",
    "PREP": "IN",
    "PRT": "RP",
    "RPUNC": "'' -RRB-",
    "TO": "TO",
    "V": "MD VB VBD VBP VBZ",
    "VBG": "VBG",
    "VBN": "VBN",
    "WH": "WDT WP WP$ WRB",
}
METHODS = {
    "EM": {"method": "em", "emissions": "table"},
    "Sparse (32)": {"method": "sparse", "strength": 32.0, "emissions": "table"},
    "Features": {"method": "em", "emissions": "features"},
    "Features + 32": {"method": "sparse", "strength": 32.0, "emissions": "features"},
    "VB (0.1)": {"method": "vb", "emission_prior": 0.1, "transition_prior": 0.1},
    "VB (1e-4)": {"method": "vb", "emission_prior": 1e-4, "transition_prior": 0.1},
    "VB (0.1, 1e-4)": {"method": "vb", "emission_prior": 0.1, "transition_prior": 1e-4},
    "VB (1e-4, 1e-4)": {"method": "vb", "emission_prior": 1e-4, "transition_prior": 1e-4},
    "Sparse (10)": {"method": "sparse", "strength": 10.0, "emissions": "table"},
    "Sparse (100)": {"method": "sparse", "strength": 100.0, "emissions": "table"},
}
ORDER = [
    "EM",
    "VB (0.1)",
    "VB (1e-4)",
    "VB (0.1, 1e-4)",
    "VB (1e-4, 1e-4)",
    "Sparse (10)",
    "Sparse (32)",
    "Sparse (100)",
    "Features",
    "Features + 32",
]
PAPER = {  # Graça et al. 2009, Table 2: 1-Many and 1-1, mean (deviation); their PTB is the whole WSJ, 17 tags
    "bosque": {
        "EM": ("64.0 (1.2)", "40.4 (3.0)"), "VB (0.1)": ("60.4 (0.6)", "51.1 (2.3)"),
        "VB (1e-4)": ("63.2 (1.0)", "48.1 (2.2)"), "Sparse (10)": ("68.5 (1.3)", "43.3 (2.2)"),
        "Sparse (32)": ("69.2 (0.9)", "43.2 (2.9)"), "Sparse (100)": ("68.3 (2.1)", "44.5 (2.4)"),
    },
    "ptb17": {
        "EM": ("67.5 (1.3)", "46.4 (2.6)"), "VB (0.1)": ("68.2 (0.8)", "52.8 (3.5)"),
        "VB (1e-4)": ("67.3 (0.8)", "49.6 (4.3)"), "Sparse (10)": ("69.5 (1.6)", "50.0 (3.5)"),
        "Sparse (32)": ("70.2 (2.2)", "49.5 (2.0)"), "Sparse (100)": ("68.7 (1.1)", "48.7 (2.2)"),
    },
}  # fmt: skip
PAPER_CLOSED = {  # Table 3
    "bosque": {"EM": ("72.5 (1.7)", "52.6 (4.2)"), "Sparse (32)": ("75.3 (1.2)", "57.5 (5.0)")},
    "ptb17": {"EM": ("76.7 (0.9)", "61.1 (1.8)"), "Sparse (32)": ("78.0 (1.6)", "62.2 (2.0)")},
}
CLOSED = {  # classes of words that grammar lists
    "bosque": {"ADP", "AUX", "CCONJ", "DET", "PART", "PRON", "PUNCT", "SCONJ", "SYM"},
    "ptb17": {"CONJ", "DET", "ENDPUNC", "INPUNC", "LPUNC", "POS", "PREP", "PRT", "RPUNC", "TO", "WH"},
}
FIRST = ["EM", "Sparse (32)", "Features", "Features + 32"]
"""Compared before the others."""
SIZES = [10, 20, 40, 60, 80, 100]
COLOURS = dict(
    zip(
        ORDER,
        ["#22303c", "#8d6a9f", "#bc8a2e", "#6a994e", "#c8553d", "#2f6f8f", "#7a7a2e", "#a63d8f", "#4f9d9d", "#9d6b4f"],
        strict=True,
    )
)


class Corpus:
    """Sentences with gold tags."""

    def __init__(self, name: str) -> None:
        self.name = name
        folder = data_folder()
        parts = [f"bosque-{part}" for part in ("train", "dev", "test")] if name == "bosque" else ["ptb-sample"]
        sentences = [s for part in parts for s in read_columns(folder / "pos" / f"{part}.tsv")]
        self.words = [list(s.tokens) for s in sentences]
        reduce = {t: short for short, long in REDUCTION.items() for t in long.split()} if name == "ptb17" else {}
        self.tags = [[reduce.get(t, t) for t in s.labels] for s in sentences]
        self.flat = [t for tags in self.tags for t in tags]
        self.n_tags = len(set(self.flat))

    def closed_classes(self) -> dict[str, list[str]]:
        """Words whose commonest tag is of a closed class, with all the closed tags they ever have."""
        seen: dict[str, Counter] = {}
        for words, tags in zip(self.words, self.tags, strict=True):
            for word, tag in zip(words, tags, strict=True):
                seen.setdefault(word, Counter())[tag] += 1
        closed = CLOSED[self.name]
        return {
            word: sorted(set(counts) & closed) for word, counts in seen.items() if counts.most_common(1)[0][0] in closed
        }


def data_folder() -> Path:
    named = os.environ.get("TRELLIS_DATA")
    folder = Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"
    if not (folder / "pos").is_dir():
        sys.exit(f"{folder} has no corpora: set TRELLIS_DATA to the folder with pos/bosque-train.tsv and the others")
    return folder


def run_one(corpus: Corpus, method: str, seed: int, args, *, closed: bool = False) -> dict:
    """Train, or read what an earlier call found."""
    stem = f"{corpus.name}{'-closed' if closed else ''}-{method}-{seed}-{args.rounds}".replace(" ", "")
    path = Path(args.cache) / f"{stem}.json"
    if path.exists():
        return json.loads(path.read_text())
    settings = dict(METHODS[method])
    if closed:
        settings["closed_classes"] = corpus.closed_classes()
    start = time.perf_counter()
    inducer = Inducer(corpus.n_tags, max_iter=args.rounds, random_state=seed, n_jobs=args.threads, **settings)
    inducer.fit(corpus.words)
    seconds = time.perf_counter() - start
    scores = score_induction(inducer.posterior_states.tolist(), corpus.flat)
    found = {
        "many": 100 * scores.many_to_one,
        "one": 100 * scores.one_to_one,
        "information": scores.mutual_information,
        "vi": scores.variation_of_information,
        "v": 100 * scores.v_measure,
        "labels": inducer.labels_per_word_,
        "sizes": scores.state_sizes.tolist(),
        "seconds": seconds,
        "gap": inducer.history_[-1].gap,
        "objective": inducer.history_[-1].objective,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path.with_suffix(".npy"), inducer.posterior_states.astype(np.uint8))
    path.write_text(json.dumps(found))
    print(
        f"  {stem}: 1-Many {found['many']:.1f}  1-1 {found['one']:.1f}  MI {found['information']:.3f}  "
        f"l1/linf {found['labels']:.2f}  {seconds:.0f} s",
        flush=True,
    )
    return found


def kept_states(corpus: Corpus, method: str, seed: int, args) -> list[list[str]]:
    run_one(corpus, method, seed, args)
    flat = np.load(Path(args.cache) / f"{corpus.name}-{method}-{seed}-{args.rounds}.npy".replace(" ", ""))
    cuts = np.cumsum([0, *map(len, corpus.words)]).tolist()
    names = [str(s) for s in flat.tolist()]
    return [names[a:b] for a, b in pairwise(cuts)]


def column(runs: list[dict], key: str) -> np.ndarray:
    return np.array([run[key] for run in runs], dtype=float)


def shown(values: np.ndarray, digits: int = 1) -> str:
    spread = values.std(ddof=1) if len(values) > 1 else 0.0
    return f"{values.mean():.{digits}f} ({spread:.{digits}f})"


def table(corpus: Corpus, results: dict[str, list[dict]], paper: dict) -> None:
    n = len(next(iter(results.values())))
    print(f"\n{corpus.name}: {len(corpus.flat):,} tokens, {corpus.n_tags} tags; mean (deviation) over {n} seeds")
    heads = [
        "1-Many",
        "1-1",
        "MI (bits)",
        "l1/linf",
        "paper 1-Many",
        "paper 1-1",
        "p 1-Many",
        "p MI",
        "p to sparse",
        "seconds",
    ]
    print(f"{'':16}" + "".join(f"{head:>14}" for head in heads))
    print(f"{'supervised':16}{'':42}{labels_a_word_of_tagging(corpus.words, corpus.tags):>14.2f}")
    em, sparse = results.get("EM"), results.get("Sparse (32)")
    for method in ORDER:
        if method not in results:
            continue
        runs = results[method]
        cells = [shown(column(runs, "many")), shown(column(runs, "one")), shown(column(runs, "information"), 2)]
        cells += [shown(column(runs, "labels"), 2), *paper.get(method, ("", ""))]
        for key in ("many", "information"):
            if method == "EM" or em is None or n < 2:
                cells.append("")
            else:
                cells.append(f"{ttest_rel(column(runs, key), column(em, key)).pvalue:.1e}")
        new = "emissions" in METHODS[method] and METHODS[method]["emissions"] == "features"
        compared = new and sparse is not None and n > 1
        cells.append(f"{ttest_rel(column(runs, 'many'), column(sparse, 'many')).pvalue:.1e}" if compared else "")
        cells.append(f"{column(runs, 'seconds').mean():.0f}")
        print(f"{method:16}" + "".join(f"{cell:>14}" for cell in cells))


def part_table(corpora: list[Corpus], args) -> None:
    """Table 2 and Figure 2."""
    for corpus in corpora:
        results: dict[str, list[dict]] = {}
        for wave in (FIRST, [m for m in METHODS if m not in FIRST]):
            for seed in range(args.seeds):
                for method in wave:
                    if args.methods is None or method in args.methods:
                        results.setdefault(method, []).append(run_one(corpus, method, seed, args))
        table(corpus, results, PAPER.get(corpus.name, {}))
        if args.plots:
            plot_figure_2(corpus, results, Path(args.plots) / f"induction-{corpus.name}.png")


def part_closed(corpora: list[Corpus], args) -> None:
    """Table 3."""
    for corpus in corpora:
        if corpus.name not in CLOSED:
            continue
        results = {
            method: [run_one(corpus, method, seed, args, closed=True) for seed in range(args.seeds)]
            for method in ("EM", "Sparse (32)")
        }
        print(
            f"\nClosed-class words given ({len(corpus.closed_classes())} words, {len(CLOSED[corpus.name])} tags)",
            end="",
        )
        table(corpus, results, PAPER_CLOSED[corpus.name])


def part_features(corpora: list[Corpus], args) -> None:
    """Figure 3: states of all seeds as features; accuracy over the sentences not trained on."""
    for corpus in corpora:
        if corpus.name == "ptb45":
            continue
        kinds = {"none": []}
        for method in ("EM", "VB (0.1)", "Sparse (32)"):
            kinds[method] = [kept_states(corpus, method, seed, args) for seed in range(args.seeds)]
        print(
            f"\n{corpus.name}: accuracy of an averaged perceptron by labelled sentences, mean of {args.samples} samples"
        )
        print(f"{'':14}" + "".join(f"{n:>8}" for n in args.sizes))
        curves: dict[str, list[float]] = {}
        for kind, models in kinds.items():
            curves[kind] = []
            for n in args.sizes:
                found = []
                for sample in range(args.samples):
                    order = np.random.default_rng([n, sample]).permutation(len(corpus.words))
                    train, test = order[:n].tolist(), order[n : n + 1000].tolist()
                    known, new = (
                        [token_features(corpus.words[i], [model[i] for model in models]) for i in some]
                        for some in (train, test)
                    )
                    tagger = Perceptron(CRF(), max_iter=20, random_state=sample).fit(
                        known, [corpus.tags[i] for i in train]
                    )
                    predicted = tagger.predict(new)
                    gold = [t for i in test for t in corpus.tags[i]]
                    found.append(np.mean([a == b for a, b in zip(gold, chain.from_iterable(predicted), strict=True)]))
                curves[kind].append(100 * float(np.mean(found)))
            print(f"{kind:14}" + "".join(f"{v:8.1f}" for v in curves[kind]), flush=True)
        if args.plots:
            plot_figure_3(corpus, args.sizes, curves, Path(args.plots) / f"induction-features-{corpus.name}.png")


def part_tagger(corpora: list[Corpus], args) -> None:
    """Accuracy of our tagger, whose features are those of taggers today, without and with induced states."""
    for corpus in corpora:
        if corpus.name == "ptb45":
            continue
        inducer = Inducer(corpus.n_tags, max_iter=args.rounds, random_state=0, n_jobs=args.threads).fit(corpus.words)
        sizes = [10, 40, 100, 400] if not args.small else args.sizes
        rows: dict[str, list[float]] = {"without states": [], "with states": []}
        for n in sizes:
            found = []
            for sample in range(min(args.samples, 3)):
                order = np.random.default_rng([n, sample]).permutation(len(corpus.words))
                train, test = ([[kind[i] for i in some] for kind in (corpus.words, corpus.tags)]
                               for some in (order[:n], order[n : n + 500]))  # fmt: skip
                taggers = [Tagger(induced=one, n_jobs=args.threads).fit(*train) for one in (None, inducer.model_)]
                found.append([100 * tagger.score(*test) for tagger in taggers])
            for row, mean in zip(rows.values(), np.mean(found, axis=0), strict=True):
                row.append(float(mean))
        print(f"\n{corpus.name}: accuracy of Tagger on 500 sentences after so many tagged ones, with induced states")
        print(f"{'':16}" + "".join(f"{n:>8}" for n in sizes))
        for name, row in rows.items():
            print(f"{name:16}" + "".join(f"{value:8.1f}" for value in row), flush=True)


def part_cost(corpora: list[Corpus], args) -> None:
    """EM and sparse in one run, in turns, and hmmlearn's EM on the same symbols."""
    corpus = corpora[0]
    n = len(corpus.flat)
    print(f"\nCost: {corpus.name}, {n:,} tokens, {corpus.n_tags} states, {args.cost_threads} threads")
    short = Inducer(corpus.n_tags, max_iter=2, em_iter=1, random_state=0)
    short.fit(corpus.words[:200])  # compiles
    costly = {"EM": METHODS["EM"], "sparse": METHODS["Sparse (32)"], "features": METHODS["Features"]}
    costly["both"] = METHODS["Features + 32"]
    wall: dict[str, list[float]] = {method: [] for method in costly}
    processor: dict[str, list[float]] = {method: [] for method in costly}
    for _ in range(args.repeats):
        for method, settings in costly.items():
            inducer = Inducer(corpus.n_tags, max_iter=args.rounds, random_state=0, n_jobs=args.cost_threads, **settings)
            begin = time.process_time()
            inducer.fit(corpus.words)
            processor[method].append(time.process_time() - begin)
            wall[method].append(sum(r.seconds for r in inducer.history_))
    theirs, theirs_processor = hmmlearn_seconds(corpus, rounds=args.peer_rounds)
    best = {method: (min(wall[method]), min(processor[method])) for method in costly}
    print(f"{'':10}{'rounds':>8}{'seconds':>10}{'of processors':>16}{'M tokens/s':>12}")
    rows = [(method, args.rounds, *found) for method, found in best.items()]
    for name, rounds, a, b in [*rows, ("hmmlearn", args.peer_rounds, theirs, theirs_processor)]:
        print(f"{name:10}{rounds:>8}{a:>10.2f}{b:>16.2f}{n * rounds / a / 1e6:>12.2f}")
    em, em_processor = best.pop("EM")
    for method, (a, b) in best.items():
        print(f"{method} / EM: {a / em:.2f} by the clock, {b / em_processor:.2f} of processors (at most 4)")
    share = args.rounds / args.peer_rounds
    print(
        f"hmmlearn / EM, a round: {theirs * share / em:.1f} by the clock, "
        f"{theirs_processor * share / em_processor:.1f} of processors (at least 9)"
    )


def hmmlearn_seconds(corpus: Corpus, rounds: int) -> tuple[float, float]:
    """By the clock and of processors."""
    from hmmlearn.hmm import CategoricalHMM

    codes: dict[str, int] = {}
    counts = Counter(w for s in corpus.words for w in s)
    flat = [codes.setdefault(w if counts[w] > 1 else "<unk>", len(codes)) for s in corpus.words for w in s]
    model = CategoricalHMM(corpus.n_tags, n_iter=rounds, tol=-np.inf, random_state=0, implementation="scaling")
    start, start_processor = time.perf_counter(), time.process_time()
    model.fit(np.array(flat)[:, None], [len(s) for s in corpus.words])
    return time.perf_counter() - start, time.process_time() - start_processor


def part_large(corpora: list[Corpus], args) -> None:
    """The corpus repeated with renamed words, in processes of their own: peak memory and seconds a round."""
    print("\nSize: Bosque repeated with renamed words; 2 rounds of the gradient, then sparse")
    for copies in args.copies:
        subprocess.run(
            [sys.executable, __file__, "--large-run", str(copies), "--threads", str(args.threads)], check=True
        )


def large_run(copies: int, threads: int) -> None:
    import resource

    from trellis.data.corpus import corpus_of
    from trellis.data.document import Document

    corpus = Corpus("bosque")

    def sentences():
        for copy in range(copies):
            for words in corpus.words:
                yield Document(tuple([f"{w}~{copy}" for w in words]))

    coded = corpus_of(sentences())
    inducer = Inducer(17, max_iter=7, em_iter=2, random_state=0, n_jobs=threads)
    inducer.fit(coded)
    plain = np.mean([r.seconds for r in list(inducer.history_)[:2]])
    sparse = np.mean([r.seconds for r in list(inducer.history_)[3:]])
    n = coded.batch.n_slots
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2
    print(f"{n:>10,} tokens  peak {peak:.2f} GiB  plain round {plain:.3f} s  sparse round {sparse:.3f} s  "
          f"({1e9 * plain / n:.0f} and {1e9 * sparse / n:.0f} ns a token)", flush=True)  # fmt: skip


def plot_figure_2(corpus: Corpus, results: dict[str, list[dict]], path: Path) -> None:
    from trellis.report.figure import new_figure, plain_axes, save_figure

    figure, axes = new_figure(11, 3.1, 1, 4)
    for method in [m for m in ORDER if m in results]:
        runs, colour = results[method], COLOURS[method]
        for place, key in ((0, "many"), (1, "one")):
            axes[place].scatter(column(runs, "labels"), column(runs, key), s=14, color=colour, label=method)
        sizes = [run["sizes"] + [0] * (corpus.n_tags - len(run["sizes"])) for run in runs]
        if method in ("EM", "VB (0.1)", "VB (1e-4)", "Sparse (32)"):
            axes[2].plot(range(1, corpus.n_tags + 1), np.mean(sizes, axis=0), color=colour, label=method)
    gold = sorted(Counter(corpus.flat).values(), reverse=True)
    axes[2].plot(range(1, len(gold) + 1), gold, color="#999999", linestyle="--", label="gold")
    named = [m for m in ORDER if m in results]
    means = [column(results[m], "information") for m in named]
    axes[3].barh(named, [m.mean() for m in means], xerr=[m.std() for m in means], color=[COLOURS[m] for m in named])
    axes[3].set_xlim(left=0.8 * min(m.mean() for m in means))
    plain_axes(axes[0], "(a)", "l1/linf", "1-Many")
    plain_axes(axes[1], "(b)", "l1/linf", "1-1")
    plain_axes(axes[2], "(c)", "rank of state", "tokens")
    plain_axes(axes[3], "(d)", "mutual information, bits", "")
    axes[0].legend(fontsize=6, frameon=False)
    axes[2].legend(fontsize=6, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)


def plot_figure_3(corpus: Corpus, sizes: list[int], curves: dict[str, list[float]], path: Path) -> None:
    from trellis.report.figure import new_figure, plain_axes, save_figure

    figure, axes = new_figure(4.6, 3.4)
    for kind, values in curves.items():
        axes.plot(sizes, values, marker="o", markersize=3, label=kind, color=COLOURS.get(kind, "#999999"))
    plain_axes(axes, corpus.name, "labelled sentences", "accuracy")
    axes.legend(fontsize=8, frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(figure, path)


PARTS = {
    "table": part_table, "closed": part_closed, "features": part_features, "tagger": part_tagger, "cost": part_cost,
    "large": part_large,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=200)
    names = ["bosque", "ptb17", "ptb45"]
    parser.add_argument("--corpora", nargs="+", choices=names, default=names)
    parser.add_argument("--methods", nargs="+", choices=list(METHODS))
    parser.add_argument("--parts", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--samples", type=int, default=10, help="training samples for each size of Figure 3")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="labelled sentences of Figure 3")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cost-threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--peer-rounds", type=int, default=5)
    parser.add_argument("--copies", type=int, nargs="+", default=[1, 4, 22], help="Bosque times 22: 5 million tokens")
    parser.add_argument("--cache", default=str(Path(__file__).parent / "results" / "induction"))
    parser.add_argument("--plots", help="folder for figures")
    parser.add_argument("--large-run", type=int, help=argparse.SUPPRESS)
    args = arguments(
        parser, seeds=2, rounds=36, corpora=["bosque"], samples=1, sizes=[5, 10], repeats=1, peer_rounds=2,
        copies=[1], cache=None,
    )  # fmt: skip
    args.cache = args.cache or scratch_folder()
    if args.large_run:
        large_run(args.large_run, args.threads)
        return
    corpora = [Corpus(name) for name in args.corpora]
    for part in args.parts:
        PARTS[part](corpora, args)


if __name__ == "__main__":
    main()
