"""Entities and relations on CoNLL04 (Roth & Yih 2004), with few labels and with all (Samdani et al. 2012, sec. 5.3).

    make bench-relations                                  two draws of every size; prints as it goes
    make bench-relations ARGS="--draws 10 --keep f.json"  as in the paper; draws that f.json has are not run again
    make bench-relations ARGS="--only exact"              rules in expectation, and in every output of a sentence
    make bench-relations ARGS="--only test"               the published split: learn from train and dev, read test once

Sentences are split 80/20 at random, mentions are given, all ordered pairs are candidates. F1 of entities is the mean
over four types, of relations over five. With few labels the rest of the 80 % has its mentions alone; rules: which
entities a relation holds between, and the share of each relation as in the labelled sentences, ± 20 %. γ is chosen for
every draw: half of the labelled sentences teach, the other half judge. t-tests are paired over draws.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from _kept import Kept
from _small import arguments

from trellis.apps.parse.tagger import Tagger
from trellis.apps.relate.inference import ANY_NUMBER, RelationInference, rows_inside
from trellis.apps.relate.relater import Relater, _answers
from trellis.constraints import RulesFile, counts_like, parse_rules
from trellis.constraints.constraint import Constraint
from trellis.data.document import Document, Span
from trellis.data.related import read_related
from trellis.engine import engine_for
from trellis.errors import ConvergenceWarning
from trellis.learn.codl import CoDL
from trellis.learn.training import Training
from trellis.metrics.fields import RelationScores, score_relations
from trellis.models.relation_model import MOST_SUMMED, RelationModel
from trellis.search import decode

RULES = """
entities = ["Peop", "Org", "Loc", "Other"]
relations = ["Live_In", "OrgBased_In", "Located_In", "Work_For", "Kill"]
[[rule]]
name = "who lives, works and kills is a person"
if_relation = ["Live_In", "Work_For", "Kill"]
then_first = "Peop"
[[rule]]
name = "what is located is a place"
if_relation = "Located_In"
then_first = "Loc"
[[rule]]
name = "what is based is an organization"
if_relation = "OrgBased_In"
then_first = "Org"
[[rule]]
name = "one lives, is located and based in a place"
if_relation = ["Live_In", "Located_In", "OrgBased_In"]
then_second = "Loc"
[[rule]]
name = "one works for an organization"
if_relation = "Work_For"
then_second = "Org"
[[rule]]
name = "one kills a person"
if_relation = "Kill"
then_second = "Peop"
"""
GAMMAS = (0.2, 0.4, 0.6, 0.8)
MIN_COUNT = 3
"""Pairs that a feature must be found in; the default, 2, is for fewer sentences than these."""
ENTITIES = ("Peop", "Org", "Loc", "Other")
RELATIONS = ("Live_In", "OrgBased_In", "Located_In", "Work_For", "Kill")
PAPER = {"supervised": (88.0, 56.0), 0.05: 0.52, 0.1: 0.60, 0.2: 0.57}
PROTOTYPE = {0.05: (32.3, 31.1, 42.7, 47.7), 0.1: (44.8, 44.3, 49.8, 54.2), 0.2: (54.1, 54.2, 56.1, 58.4)}
"""Relations: supervised, γ = 1, γ = 0, γ = 0.5."""


class Described(RelationModel):
    """The model, which describes a sentence once."""

    known: ClassVar[dict[object, object]] = {}

    def described(self, text: Document) -> object:  # type: ignore[override]
        key = (text.tokens, tuple((m.first, m.last) for m in text.spans or ()))
        if key not in self.known:
            self.known[key] = super().described(text)
        return self.known[key]


def bare(text: Document) -> Document:
    return replace(text, spans=tuple(Span(None, m.first, m.last) for m in text.spans or ()), relations=None)


class Judge:
    """Scores of a model's own answers and of its best outputs under the rules; its weights may change in between."""

    def __init__(self, model: RelationModel, rules: Sequence[Constraint], gold: Sequence[Document]) -> None:
        self.model, self.gold = model, gold
        self.batch = model.encode([bare(text) for text in gold])
        self.rules = list(rules)

    def plain(self) -> RelationScores:
        return self._scores(None)

    def constrained(self) -> RelationScores:
        return self._scores(self.rules)

    def _scores(self, rules: Sequence[Constraint] | None) -> RelationScores:
        found = RelationInference(self.model, self.batch, engine_for(1, None), rules)
        return score_relations(self.gold, _answers(self.model, self.gold, found))


def asking(rounds: int, **settings: object) -> Relater:
    """What is learned, and how."""
    return Relater(RULES, finder=False, max_iter=rounds, **settings)  # type: ignore[arg-type]


class Draw:
    """One split: labelled, unlabelled and test sentences, encoded once for all methods."""

    def __init__(self, texts: Sequence[Document], share: float, seed: int, rules: RulesFile) -> None:
        order = np.random.default_rng(seed).permutation(len(texts))
        n_test, n = round(0.2 * len(texts)), round(share * len(texts))
        self.test = [texts[i] for i in order[:n_test]]
        self.labelled = [texts[i] for i in order[n_test : n_test + n]]
        self.unlabelled = [bare(texts[i]) for i in order[n_test + n :]]
        self.rules = list(rules)

    def train(
        self, labelled: Sequence[Document], unlabelled: Sequence[Document], asked: Sequence[Relater],
        gold: Sequence[Document],
    ) -> list[RelationScores]:  # fmt: skip
        """Scores of the labelled sentences alone, without rules and with, and of what every relater's settings make
        of them and the others, with rules.

        Features, rows and the start from labels are made once for all that learn with the same outputs.
        """
        model = Described(ENTITIES, RELATIONS, min_count=MIN_COUNT)
        batch = model.encode([*labelled, *unlabelled], fit=True)
        rules = [*self.rules, counts_like(labelled, within=0.2)]
        trainings = {0: Training(model, batch, engine_for(1, None))}
        trainings[0].learn_supervised()
        judge, steps = Judge(model, self.rules, gold), dict[int, Any]()
        found = [judge.plain(), judge.constrained()]
        for relater in asked:
            relater.model_ = model
            most = ANY_NUMBER if relater.method == "codl" else MOST_SUMMED if relater.exact else 0
            learner = relater.learner(rules)
            if most not in trainings:
                trainings[most] = Training(model.with_ties(most), batch, engine_for(1, None))
            if isinstance(learner, CoDL):
                learner.train(trainings[most])
            else:
                if most not in steps:
                    steps[most] = learner.step_of(trainings[most])
                learner.train(trainings[most], steps[most])
            found.append(judge.constrained())
        return found

    def best_gamma(self, seed: int) -> float:
        """Half of the labelled sentences teach, with a third of the unlabelled ones; the other half judges."""
        half = len(self.labelled) // 2
        some = np.random.default_rng(seed).permutation(len(self.unlabelled))[: len(self.unlabelled) // 3]
        asked = [asking(1, gamma=gamma) for gamma in GAMMAS]
        found = self.train(self.labelled[:half], [self.unlabelled[i] for i in some], asked, self.labelled[half:])
        reached = {g: own.relations.mean_f1 for g, own in zip(GAMMAS, found[2:], strict=True)}
        return max(GAMMAS, key=lambda gamma: (reached[gamma], -abs(gamma - 0.5)))


NAMES = ("supervised", "constrained", "PR", "CoDL", "UEM")


def supervised(texts: Sequence[Document], rules: RulesFile, seeds: Sequence[int], kept: Kept, how: str) -> None:
    """``how`` : what else than the seed the results depend on, for the file that keeps them."""

    def one(seed: int) -> dict[str, object]:
        draw = Draw(texts, 0.8, seed, rules)
        plain, held = draw.train(draw.labelled, [], (), draw.test)
        means = [f for own in (plain, held) for f in (own.entities.mean_f1, own.relations.mean_f1)]
        return {"means": means, "types": {name: round(100 * s.f1, 1) for name, s in held.relations.types.items()}}

    print("\nall labels: mean F1 of entities and of relations, alone and with constrained prediction")
    found: list[Any] = []
    for seed in seeds:
        found.append(kept.get(f"all labels {seed}{how}", partial(one, seed)))
        print(
            f"  draw {seed}: {_row(found[-1]['means'])}   {found[-1]['types']}   {found[-1]['seconds']} s", flush=True
        )
    mean = _row(np.mean([f["means"] for f in found], axis=0))
    types = {name: round(float(np.mean([f["types"][name] for f in found])), 1) for name in RELATIONS}
    print(f"  mean of {len(found)}: {mean}   {types}   (paper {PAPER['supervised']}, prototype (91.6, 69.1))")


def one_draw(texts: Sequence[Document], rules: RulesFile, share: float, seed: int, rounds: int) -> dict[str, object]:
    """F1 of relations and of entities, in the order of NAMES, and the γ that was chosen."""
    draw = Draw(texts, share, seed, rules)
    gamma = draw.best_gamma(seed)
    asked = [asking(rounds, method="pr"), asking(rounds, method="codl"), asking(rounds, gamma=gamma)]
    found = draw.train(draw.labelled, draw.unlabelled, asked, draw.test)
    return {
        "relations": [100 * s.relations.mean_f1 for s in found],
        "entities": [100 * s.entities.mean_f1 for s in found],
        "gamma": gamma,
    }


def few_labels(
    texts: Sequence[Document], rules: RulesFile, shares: Sequence[float], seeds: Sequence[int], rounds: int,
    kept: Kept,
) -> None:  # fmt: skip
    from scipy.stats import ttest_rel

    print("\nfew labels: mean F1 of relations (of entities), with constrained prediction from the second column on")
    found: dict[float, list[Any]] = {share: [] for share in shares}
    for seed in seeds:
        for share in shares:
            made = partial(one_draw, texts, rules, share, seed, rounds)
            one = kept.get(f"{share} {seed} rounds {rounds}", made)
            found[share].append(one)
            cells = _cells(one["relations"], one["entities"])
            print(f"  draw {seed} {share:4.0%}: {cells}  γ {one['gamma']}  {one['seconds']} s", flush=True)
    for share in shares:
        table, own = (np.array([one[key] for one in found[share]]) for key in ("relations", "entities"))
        gammas = [one["gamma"] for one in found[share]]
        print(f"\n  {share:.0%}, mean of {len(seeds)} draws: {_cells(table.mean(axis=0), own.mean(axis=0))}")
        print(f"    γ {np.mean(gammas):.2f}, median {np.median(gammas):.2f} (paper, mean: {PAPER[share]})")
        print("    prototype: supervised {} γ=1 {} γ=0 {} γ=0.5 {}".format(*PROTOTYPE[share]))
        if len(seeds) > 1:
            tests = [f"{n} {ttest_rel(table[:, 4], table[:, i]).pvalue:.4f}" for i, n in enumerate(NAMES[:4])]
            print(f"    p of UEM against: {'  '.join(tests)}", flush=True)


def compare_exact(
    texts: Sequence[Document], rules: RulesFile, shares: Sequence[float], seeds: Sequence[int], rounds: int,
    kept: Kept,
) -> None:  # fmt: skip
    """Both ways of the E-step at γ = 0.5: members with rows in expectation, and sums over what obeys the rules."""

    def one(share: float, seed: int, *, exact: bool) -> dict[str, object]:
        draw = Draw(texts, share, seed, rules)
        own = draw.train(draw.labelled, draw.unlabelled, [asking(rounds, exact=exact)], draw.test)[-1]
        return {"relations": 100 * own.relations.mean_f1, "entities": 100 * own.entities.mean_f1}

    print(
        "\nγ = 0.5, rules in expectation, and exact within sentences of up to 7 mentions: F1 of relations (of entities)"
    )
    table: dict[tuple[float, bool], list[Any]] = {}
    for seed in seeds:
        for share in shares:
            for exact in (False, True):
                make = partial(one, share, seed, exact=exact)
                found: Any = kept.get(f"{share} {seed} rounds {rounds} exact {exact}", make)
                table.setdefault((share, exact), []).append(found)
                cells = f"{found['relations']:.1f} ({found['entities']:.1f})"
                print(
                    f"  draw {seed} {share:4.0%} {'exact' if exact else 'members':>7}: {cells}  {found['seconds']} s",
                    flush=True,
                )
    for (share, exact), own in table.items():
        r, e, seconds = (float(np.mean([one[key] for one in own])) for key in ("relations", "entities", "seconds"))
        how = "exact" if exact else "members"
        print(f"  {share:.0%} {how}: {r:.1f} ({e:.1f}) in {seconds:.0f} s, mean of {len(own)} draws")


def _cells(relations: Sequence[float], entities: Sequence[float]) -> str:
    return "  ".join(f"{n} {r:.1f} ({e:.1f})" for n, r, e in zip(NAMES, relations, entities, strict=True))


def _row(values: Sequence[float]) -> str:
    e, r, e2, r2 = (100 * v for v in values)
    return f"{e:.1f} {r:.1f}, constrained {e2:.1f} {r2:.1f}"


def speed(texts: Sequence[Document], rules: RulesFile) -> None:
    """Constrained prediction of sentences of 10 mentions, and a round of learning over 1,100 sentences."""
    model = Described(min_count=MIN_COUNT).fit(texts[:400])
    rng = np.random.default_rng(0)
    many = []
    for text in [t for t in texts if len(t.tokens) >= 20][:100]:
        places = np.sort(rng.choice(len(text.tokens), 10, replace=False))
        many.append(replace(text, spans=tuple(Span(None, int(p), int(p) + 1) for p in places), relations=None))
    batch = model.encode(many)
    joint = model.with_ties(10)
    scores, rows = joint.scores(batch), rows_inside(joint, batch, list(rules))
    spent, proved = [], []
    for i in range(len(many)):
        one, own = scores.instances(i, i + 1), rows.shard(i, i + 1)
        begin = time.process_time()
        found = decode(one, own)
        spent.append(time.process_time() - begin)
        proved.append(bool(found.proved[0]))
    begin = time.process_time()
    decode(scores, rows)
    together = (time.process_time() - begin) / len(many)
    print(
        f"\nconstrained prediction, 10 mentions (90 pairs, 6 relation types): {1000 * np.mean(spent[1:]):.1f} ms of "
        f"one core in the mean, one call per sentence; {1000 * together:.1f} ms with {len(many)} in one call; proved "
        f"{100 * np.mean(proved):.0f} % of {len(many)}"
    )
    draw = Draw(texts, 0.05, 0, rules)
    model = Described(ENTITIES, RELATIONS, min_count=MIN_COUNT)
    training = Training(model, model.encode([*draw.labelled, *draw.unlabelled], fit=True), engine_for(1, None))
    begin, n = time.process_time(), 3
    learner = asking(n).learner([*rules, counts_like(draw.labelled, within=0.2)]).train(training)
    spent_cpu = (time.process_time() - begin) / n
    rounds = ", ".join(f"{r.seconds:.1f}" for r in learner.history_)
    print(f"rounds over {len(training.batch)} sentences: {spent_cpu:.1f} s of one core each ({rounds} s by the clock)")


def published(data: Path, tagger: Tagger | None) -> None:
    train = [t for name in ("train", "dev") for t in read_related(data / f"{name}.txt")]
    test = list(read_related(data / "test.txt"))
    for given in (True, False):
        relater = Relater(RULES, method="supervised", min_count=MIN_COUNT, finder=not given, tagger=tagger).fit(train)
        asked = test if given else [Document(t.tokens) for t in test]
        scores = score_relations(test, relater.predict([bare(t) for t in test] if given else asked))
        print(f"\ntrain and dev -> test, mentions {'given' if given else 'found'}: micro F1 (mean over types)")
        for name, own in (("entities", scores.entities), ("relations", scores.relations), ("strict", scores.strict)):
            print(f"  {name:<10} {100 * own.total.f1:.1f} ({100 * own.mean_f1:.1f})", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="the first draw")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--sizes", nargs="+", type=float, default=(0.05, 0.1, 0.2))
    parser.add_argument("--only", choices=("supervised", "few", "speed", "exact", "test"))
    parser.add_argument("--tagger", help="tags of the words, by a file of `trellis tag train`, as features of mentions")
    parser.add_argument("--keep", type=Path, help="file of results: draws that it has are not run again")
    options = arguments(parser, rounds=1, draws=1, sizes=(0.2,))
    root = Path(os.environ.get("TRELLIS_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
    data = root / "relations" / "conll04"
    if not data.is_dir():
        sys.exit(f"no corpus at {data}: set TRELLIS_DATA")
    warnings.simplefilter("ignore", ConvergenceWarning)
    texts = [t for name in ("train", "dev", "test") for t in read_related(data / f"{name}.txt")]
    tagger = None if options.tagger is None else Tagger.load(options.tagger)
    if tagger is not None:
        tags = tagger.predict(Document(text.tokens) for text in texts)
        texts = [replace(text, columns={"tag": own.labels}) for text, own in zip(texts, tags, strict=True)]
    rules = parse_rules(RULES)
    wanted, kept = options.only, Kept(options.keep)
    seeds = range(options.first, options.first + options.draws)
    if wanted in (None, "speed"):
        speed(texts, rules)
    if wanted in (None, "supervised"):
        supervised(texts, rules, seeds, kept, "" if tagger is None else " with tags")
    if wanted in (None, "few"):
        few_labels(texts, rules, options.sizes, seeds, options.rounds, kept)
    if wanted == "exact":
        compare_exact(texts, rules, options.sizes, seeds, options.rounds, kept)
    if wanted == "test":
        published(data, tagger)


if __name__ == "__main__":
    main()
