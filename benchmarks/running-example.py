"""The running example of Ganchev et al. 2010, sec. 2: each sentence has at least one verb and one noun.

    make bench-running-example
    make bench-running-example ARGS="--labelled 5 --draws 3"

An HMM over the tags of the Penn Treebank sample, started from a handful of labelled sentences and trained on all of it:
EM; PR (γ = 1 with the two constraints in every E-step), decoded with the model p; and PR decoded with the projected q.
Printed: accuracy on the sentences that were not labelled, and the share of these whose best tags (or expected counts)
violate a constraint. Mean over random draws of the labelled sentences.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from _small import arguments

from trellis.constraints import count
from trellis.data.columns import read_columns
from trellis.learn import UEM
from trellis.models import HMM


def data_folder() -> Path:
    folder = Path(os.environ.get("TRELLIS_DATA", Path(__file__).parents[1] / ".." / "shared" / "data"))
    if not (folder / "pos" / "ptb-sample.tsv").exists():
        raise SystemExit(f"{folder}: no pos/ptb-sample.tsv there; set TRELLIS_DATA to the folder with the corpora")
    return folder


def violated(tags: list[list[str]], nouns: set[str], verbs: set[str]) -> float:
    """Share of sentences without a noun or without a verb."""
    return float(np.mean([not (nouns & set(y)) or not (verbs & set(y)) for y in tags]))


def main() -> int:
    options = argparse.ArgumentParser()
    options.add_argument("--labelled", type=int, default=10)
    options.add_argument("--draws", type=int, default=5)
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument("--sentences", type=int, default=2_000)
    options.add_argument("--threads", type=int, default=2)
    chosen = arguments(options, draws=2, rounds=3, sentences=60, labelled=5)
    # One word cannot be both a noun and a verb: a sentence of one word cannot obey both rules.
    sentences = [s for s in read_columns(data_folder() / "pos" / "ptb-sample.tsv") if len(s.tokens) > 1]
    sentences = sentences[: chosen.sentences]
    text = [list(s.tokens) for s in sentences]
    gold = [[str(tag) for tag in s.labels] for s in sentences]
    tags = sorted({tag for y in gold for tag in y})
    nouns, verbs = {t for t in tags if t.startswith("NN")}, {t for t in tags if t.startswith("VB")}
    rules = [
        (count(*sorted(verbs)) >= 1).named("a verb"),
        (count(*sorted(nouns)) >= 1).named("a noun"),
    ]
    print(
        f"{len(text)} sentences, {sum(map(len, text))} tokens, {len(tags)} tags; {chosen.labelled} labelled, ", end=""
    )
    print(
        f"{chosen.draws} draws, {chosen.rounds} rounds. Gold violates {violated(gold, nouns, verbs):.1%} of sentences"
    )
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for draw in range(chosen.draws):
        known = set(np.random.default_rng(draw).choice(len(text), chosen.labelled, replace=False).tolist())
        labels = [gold[i] if i in known else None for i in range(len(text))]
        rest = [i for i in range(len(text)) if i not in known]
        rest_text, rest_gold = [text[i] for i in rest], [gold[i] for i in rest]
        for name, constraints in (("EM", []), ("PR", rules)):
            model = HMM(tags, min_count=2, emission_prior=1.01, transition_prior=1.1)
            learner = UEM(
                model, constraints, max_iter=chosen.rounds, tol=0.0, n_jobs=chosen.threads, start="labelled",
                track_likelihood=False,
            ).fit(text, labels)  # fmt: skip
            decodings = {f"{name}, decoded with p": False}
            if constraints:
                decodings[f"{name}, decoded with q"] = True
            watcher = UEM(model, rules, n_jobs=chosen.threads)
            watcher.model_ = learner.model_
            for title, constrained in decodings.items():
                predicted = learner.predict(rest_text, constrained=constrained)
                expected = watcher.violations(rest_text, constrained=constrained)
                right = sum(
                    a == b for x, y in zip(predicted, rest_gold, strict=True) for a, b in zip(x, y, strict=True)
                )
                rows.setdefault(title, []).append(
                    (right / sum(map(len, rest_gold)), violated(predicted, nouns, verbs), max(expected.values()))
                )
    print(f"{'':26} {'accuracy':>16} {'best tags violate':>18} {'expectations violate':>21}")
    for title, values in rows.items():
        accuracy, best, expected = np.mean(values, axis=0)
        deviation = np.std([v[0] for v in values])
        print(f"{title:26} {accuracy:9.1%} ± {deviation:4.1%} {best:18.1%} {expected:21.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
