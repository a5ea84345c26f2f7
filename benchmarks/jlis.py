"""J-LIS against a structural SVM: a few labelled structures, and yes/no examples that cost nothing (Chang 2011, ch. 6).

    make bench-jlis                                         all four tasks, few draws
    make bench-jlis ARGS="--task pos --draws 10 --full"     one task, all sizes of the thesis
    make bench-jlis ARGS="--draws 10 --keep f.json"         draws that f.json has are not run again
    make bench-jlis ARGS="--choose"                         C of both learners, on held-out training data

pos             Penn Treebank sample: 25,600 tokens to draw labelled sentences from, 25,600 to test, of the rest 1,250
                sentences and as many shuffled ones as yes/no examples (figure 6.2)
citations       Cora: labelled citations, 1,000 unlabelled ones and as many shuffled (figure 6.3 b)
newsgroups      20 newsgroups: ten of them are the classes; posts of these are B+, of the others B− (figure 6.4)
contrastive     no labels at all, a dictionary of the tags of every word: J-LIS with four shuffled sentences for
                each, EM of an HMM, and contrastive estimation with swapped words (sec. 6.5.4)
negatives       more or fewer shuffled sentences for as many good ones: citations with 100 labelled tokens (figure
                6.5 a), tagging with 10 labelled sentences and 250 good ones (figure 6.6 a)
"""

from __future__ import annotations

import argparse
import os
import tarfile
import warnings
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from _kept import Kept
from _small import arguments

from trellis.constraints import dictionary
from trellis.data.columns import read_columns
from trellis.learn import UEM
from trellis.learn.contrastive import ContrastiveEstimation
from trellis.learn.margin import JLIS, SSVM, shuffled
from trellis.models import CRF, HMM, MaxEnt

THESIS = {
    "pos": {200: (66.17, 71.52), 25_600: (93.51, 93.58)},
    "citations": {100: (58.24, 64.05), 400: (70.53, 73.63), 1_600: (82.39, 84.28), 6_400: (90.15, 90.33),
                  9_000: (92.24, 92.31)},
    "newsgroups": {},
}  # fmt: skip
SIZES = {
    "pos": [200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600],
    "citations": [100, 400, 1_600, 6_400, 9_000],
    "newsgroups": [100, 200, 400, 800, 1_600],
}
USUAL = {"pos": [200, 800, 3_200], "citations": [100, 400, 1_600], "newsgroups": [100, 200, 400, 800]}
CHOSEN = {"pos": (1.0, 1.0, 1.0), "citations": (1.0, 1.0, 1.0), "newsgroups": (1.0, 1.0, 1.0)}
"""C of the SSVM; C and C_binary of J-LIS."""
GRID = (0.1, 1.0, 10.0)


def data(*names: str) -> Path:
    named = os.environ.get("TRELLIS_DATA")
    path = (Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data").joinpath(*names)
    if not path.exists():
        raise SystemExit(f"{path} is not there: set TRELLIS_DATA to the folder that holds {'/'.join(names)}")
    return path


def tagged(path: Path) -> list[tuple[list[str], list[str]]]:
    return [(list(s.tokens), [str(t) for t in s.labels or ()]) for s in read_columns(path, label=1)]


def spelling(sentence: Any, t: int) -> list[str]:
    """Table 6.1: words, prefixes and suffixes of up to three letters, a capital, a hyphen, a digit."""
    w = sentence[t]
    found = ["bias", f"w={w}", f"w-1={sentence[t - 1] if t else '__none__'}"]
    found += [f"suffix={w[-n:]}" for n in (1, 2, 3)] + [f"prefix={w[:n]}" for n in (1, 2, 3)]
    marks = (("capital", w[:1].isupper()), ("hyphen", "-" in w), ("digit", any(c.isdigit() for c in w)))
    return found + [name for name, there in marks if there]


def words_only(sentence: Any, t: int) -> list[str]:
    return ["bias", f"w={sentence[t]}"]


def sample(examples: list[Any], size: int, rng: np.random.Generator, count: Callable[[Any], int]) -> list[Any]:
    """Examples in random order until they have so many tokens."""
    drawn, total = [], 0
    for i in rng.permutation(len(examples)):
        if total >= size:
            break
        drawn.append(examples[i])
        total += count(examples[i])
    return drawn


class Task:
    """Labelled examples to draw from, held-out ones to choose on and to test on, yes/no examples."""

    name: str

    def draw(self, size: int, seed: int) -> tuple[Any, Any, tuple[Any, Any]]:
        """X, y and binary."""
        raise NotImplementedError

    def model(self) -> Any:
        raise NotImplementedError


class Sequences(Task):
    def __init__(self, name: str, pool: Any, dev: Any, test: Any, asked: list[list[str]], features: Any) -> None:
        self.name, self.pool, self.dev, self.test, self.asked, self.features = name, pool, dev, test, asked, features
        self.labels = sorted({tag for _, tags in pool for tag in tags})

    def model(self) -> CRF:
        return CRF(self.labels, features=self.features)

    def draw(self, size: int, seed: int) -> tuple[Any, Any, tuple[Any, Any]]:
        rng = np.random.default_rng(seed)
        some = sample(self.pool, size, rng, lambda one: len(one[0]))
        bad = shuffled(self.asked, random_state=rng)
        return [x for x, _ in some], [y for _, y in some], (self.asked + bad, [1] * len(self.asked) + [-1] * len(bad))


class Posts(Task):
    name = "newsgroups"

    def __init__(self) -> None:
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts: dict[str, list[str]] = defaultdict(list)
        groups: dict[str, list[str]] = defaultdict(list)
        with tarfile.open(data("docs", "20news-bydate.tar.xz")) as archive:
            for member in archive:
                if member.isfile():
                    *_, part, group, _ = member.name.split("/")
                    texts[part].append(archive.extractfile(member).read().decode("latin-1"))  # type: ignore[union-attr]
                    groups[part].append(group)
        make = TfidfVectorizer(sublinear_tf=True, min_df=3, stop_words="english")
        self.rows = make.fit_transform(texts["train"]).tocsr()
        self.test_rows = make.transform(texts["test"]).tocsr()
        self.groups, self.test_groups = np.array(groups["train"]), np.array(groups["test"])

    def model(self) -> MaxEnt:
        return MaxEnt(fit_intercept=False)

    def draw(self, size: int, seed: int) -> tuple[Any, Any, tuple[Any, Any]]:
        """Ten groups, and half of the posts for each of S and B."""
        rng = np.random.default_rng(seed)
        every = np.unique(self.groups)
        chosen = every[rng.permutation(len(every))[:10]]
        order = rng.permutation(len(self.groups))
        first, second = order[: len(order) // 2], order[len(order) // 2 :]
        known = first[np.isin(self.groups[first], chosen)]
        some, held = known[:size], known[-1000:]
        yes = np.isin(self.groups[second], chosen)
        self.dev = (self.rows[held], self.groups[held])
        of_test = np.isin(self.test_groups, chosen)
        self.test = (self.test_rows[of_test], self.test_groups[of_test])
        return self.rows[some], self.groups[some], (self.rows[second], np.where(yes, 1, -1))


def pos() -> Sequences:
    text = tagged(data("pos", "ptb-sample.tsv"))
    order = np.random.default_rng(0).permutation(len(text))
    most = min(25_600, sum(len(x) for x, _ in text) // 3)
    test = sample([text[i] for i in order], most, np.random.default_rng(1), lambda one: len(one[0]))
    rest = [text[i] for i in order if text[i] not in test]
    pool = sample(rest, most, np.random.default_rng(2), lambda one: len(one[0]))
    others = [one for one in rest if one not in pool]
    return Sequences("pos", pool, others[-400:], test, [x for x, _ in others[:1250]], spelling)


def citations() -> Sequences:
    train, dev, test = (tagged(data("fields", "citations", f"{part}.tsv")) for part in ("train", "dev", "test"))
    asked = [list(s.tokens) for s in read_columns(data("fields", "citations", "unlabelled.tsv"), label=None)]
    return Sequences("citations", train, dev, test, asked, words_only)


def learn(task: Task, learner: str, C: tuple[float, ...], size: int, seed: int, jobs: int) -> Any:
    X, y, binary = task.draw(size, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if learner == "SSVM":
            return SSVM(task.model(), C=C[0], n_jobs=jobs).fit(X, y)
        learner = JLIS(task.model(), C=C[0], C_binary=C[1], max_iter=15, tol=1e-3, inner_tol=0.05, n_jobs=jobs)
        return learner.fit(X, y, binary=binary)


def figure(task: Any, learned: Any, part: str) -> float:
    given = getattr(task, part)
    X, y = given if isinstance(given, tuple) else ([x for x, _ in given], [y for _, y in given])
    return 100.0 * learned.score(X, y)


def compare(task: Task, sizes: list[int], draws: int, jobs: int, kept: Kept) -> None:
    """Every size of a draw before the next one, so that a run which is cut off has as many draws of each."""
    one, *two = CHOSEN[task.name]

    def measure(size: int, seed: int) -> dict[str, object]:
        plain = learn(task, "SSVM", (one,), size, seed, jobs)
        joint = learn(task, "J-LIS", tuple(two), size, seed, jobs)
        found = {"SSVM": figure(task, plain, "test"), "J-LIS": figure(task, joint, "test")}
        return {**found, "rounds": len(joint.history_)}

    found: dict[int, list[Any]] = {size: [] for size in sizes}
    for seed in range(draws):
        for size in sizes:
            mine: Any = kept.get(f"{task.name} {size} {seed} {CHOSEN[task.name]}", partial(measure, size, seed))
            found[size].append([mine[key] for key in ("SSVM", "J-LIS", "rounds", "seconds")])
            figures = f"SSVM {mine['SSVM']:.2f}, J-LIS {mine['J-LIS']:.2f}"
            print(f"  {task.name} {size:,d}, draw {seed}: {figures}, {mine['seconds']} s", flush=True)
    print(f"\n{task.name}: accuracy on test, mean of {draws} draws (standard error of the gain)")
    print(f"{'|S|':>8s}{'SSVM':>9s}{'J-LIS':>9s}{'gain':>8s}{'':8s}{'thesis':>16s}{'rounds':>8s}{'s a draw':>10s}")
    for size in sizes:
        table = np.array(found[size], dtype=float)
        (a, b, rounds, seconds), gain = table.mean(axis=0), table[:, 1] - table[:, 0]
        known = THESIS[task.name].get(size)
        theirs = "" if known is None else f"{known[0]:8.2f}{known[1]:8.2f}"
        print(
            f"{size:8,d}{a:9.2f}{b:9.2f}{gain.mean():+8.2f} ({standard_error(gain):4.2f}){theirs:>16s}{rounds:8.1f}"
            f"{seconds:10.1f}", flush=True,
        )  # fmt: skip


def standard_error(figures: Any) -> float:
    """Of the mean; nan of a single draw."""
    return float(np.std(figures, ddof=1) / np.sqrt(len(figures))) if len(figures) > 1 else float("nan")


def choose(task: Task, jobs: int) -> None:
    """C by the accuracy on held-out training data, at the second of the usual sizes, mean of two draws."""
    size = USUAL[task.name][1]
    for C in GRID:
        plain = [figure(task, learn(task, "SSVM", (C,), size, s, jobs), "dev") for s in (100, 101)]
        print(f"{task.name:12s} SSVM   C={C:<6g}{np.mean(plain):33.2f}", flush=True)
    for C in GRID:
        for B in GRID:
            joint = [figure(task, learn(task, "J-LIS", (C, B), size, s, jobs), "dev") for s in (100, 101)]
            print(f"{task.name:12s} J-LIS  C={C:<6g} C_binary={B:<6g}{np.mean(joint):17.2f}", flush=True)


def contrastive(draws: int, words: int, jobs: int, kept: Kept) -> None:
    """Without labels: accuracy on words with more than one tag."""
    text = tagged(data("pos", "ptb-sample.tsv"))
    tags: dict[str, set[str]] = defaultdict(set)
    for x, y in text:
        for word, tag in zip(x, y, strict=True):
            tags[word].add(tag)
    known = {word: sorted(some) for word, some in tags.items()}
    rules = [dictionary(known)]
    some = sample(text, words, np.random.default_rng(0), lambda one: len(one[0]))
    good, labels = [x for x, _ in some], sorted({tag for allowed in tags.values() for tag in allowed})
    bad = shuffled(good, per_sentence=4, random_state=0)
    asked = (good + bad, [1] * len(good) + [-1] * len(bad))

    def accuracy(learned: Any) -> float:
        pairs = [
            (a, b)
            for (x, y), output in zip(some, learned.predict(good), strict=True)
            for word, a, b in zip(x, y, output, strict=True)
            if len(tags[word]) > 1
        ]
        return 100.0 * float(np.mean([a == b for a, b in pairs]))

    def run(ties: bool, seed: int) -> dict[str, object]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            learner = JLIS(
                CRF(labels, features=words_only), rules, random_ties=ties, max_iter=15, tol=1e-3, inner_tol=0.05,
                random_state=seed, n_jobs=jobs,
            )  # fmt: skip
            learner.fit(binary=asked)
        return {"accuracy": accuracy(learner), "objective": learner.objective_}

    def one(ties: bool, seed: int) -> Any:
        found: Any = kept.get(f"contrastive {words} {ties} {seed}", partial(run, ties, seed))
        how = f"random ties, draw {seed}" if ties else "first of equals"
        print(f"  {how}: {found['accuracy']:.2f}, {found['seconds']} s", flush=True)
        return found

    def other(method: str) -> dict[str, object]:
        learner: Any
        if method == "EM":
            hmm = HMM(labels, min_count=1, unknown=None, tag_dictionary=known)
            learner = UEM(hmm, start="uniform", max_iter=50, n_jobs=jobs)
        else:
            learner = ContrastiveEstimation(CRF(labels, features=words_only), rules, n_jobs=jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return {"accuracy": accuracy(learner.fit(good))}

    print(f"\ncontrastive: {sum(map(len, good)):,} words of {len(good):,} sentences, accuracy on ambiguous words")
    for method, row, theirs in (("EM", "HMM by EM", 60.9), ("CE", "contrastive estimation", 74.7)):
        mine: Any = kept.get(f"contrastive {words} {method}", partial(other, method))
        print(
            f"  {row:<31} {mine['accuracy']:6.2f}   (thesis, 96k words, second order: {theirs}), {mine['seconds']} s",
            flush=True,
        )
    first = one(False, 0)["accuracy"]
    found = [one(True, seed) for seed in range(draws)]
    figures = np.array([each["accuracy"] for each in found])
    error, best = standard_error(figures), max(found, key=lambda each: each["objective"])["accuracy"]
    print(f"  first of equals                 {first:6.2f}   (thesis, 96k words, second order: 62.89)")
    print(f"  random ties, mean of {draws:2d} draws   {figures.mean():6.2f}   (70.16; standard error {error:.2f})")
    print(f"  the draw of the lowest objective {best:5.2f}   (76.2 of 50 draws)", flush=True)


def negatives(draws: int, jobs: int, kept: Kept, small: bool) -> None:
    """J-LIS by the number of negative examples to a positive one."""
    for task, size, n_good in ((citations(), 100, 1000), (pos(), 250, 250)):
        if small:
            size, n_good = 20, 10
        shares: list[float] = [0, 0.25, 0.5, 1] if task.name == "citations" else [0, 1, 2, 4, 8, 16]

        def measure(share: float, seed: int, task: Any = task, size: int = size, n: int = n_good) -> dict[str, object]:
            X, y, _ = task.draw(size, seed)
            rng = np.random.default_rng([seed, 6])
            good = [task.asked[i] for i in rng.permutation(len(task.asked))[:n].tolist()]
            bad = shuffled(good, per_sentence=max(1, int(share)), random_state=rng)
            bad = bad[: round(share * len(good))]
            asked = (good + bad, [1] * len(good) + [-1] * len(bad)) if bad else None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                learner = JLIS(task.model(), max_iter=15, tol=1e-3, inner_tol=0.05, n_jobs=jobs)
                learner.fit(X, y, binary=asked)
            return {"accuracy": figure(task, learner, "test"), "rounds": len(learner.history_)}

        print(f"\nnegatives: {task.name}, {size} labelled tokens, {n_good:,d} good sentences, mean of {draws} draws")
        for share in shares:
            found: list[Any] = [
                kept.get(f"negatives {task.name} {size} {n_good} {share} {seed}", partial(measure, share, seed))
                for seed in range(draws)
            ]
            figures, rounds = ([one[key] for one in found] for key in ("accuracy", "rounds"))
            print(
                f"  {share:>5g} negative to a positive{np.mean(figures):9.2f} ({standard_error(figures):4.2f})"
                f"{np.mean(rounds):8.1f} rounds", flush=True,
            )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=["pos", "citations", "newsgroups", "contrastive", "negatives"])
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--full", action="store_true", help="all sizes of the thesis, and 96,000 words without labels")
    parser.add_argument("--choose", action="store_true", help="try C on held-out training data; test is not read")
    parser.add_argument("--sizes", type=int, nargs="+", help="labelled tokens, or posts (default: depends on the task)")
    parser.add_argument("--words", type=int, default=3_000, help="words without labels, of contrastive")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--keep", type=Path, help="file of results: draws that it has are not run again")
    given = arguments(parser, sizes=[40], draws=2, words=40)
    kept = Kept(given.keep)
    tasks: dict[str, Callable[[], Any]] = {"pos": pos, "citations": citations, "newsgroups": Posts}
    for name, make in tasks.items():
        if given.task in (None, name):
            if given.choose:
                choose(make(), given.jobs)
            else:
                sizes = given.sizes or (SIZES if given.full else USUAL)[name]
                compare(make(), sizes, given.draws, given.jobs, kept)
    if given.task in (None, "contrastive") and not given.choose:
        contrastive(given.draws, 96_000 if given.full else given.words, given.jobs, kept)
    if given.task in (None, "negatives") and not given.choose:
        negatives(given.draws, given.jobs, kept, given.small)


if __name__ == "__main__":
    main()
