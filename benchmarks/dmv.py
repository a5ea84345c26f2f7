"""Trees without a treebank: the dependency model with valence on English, with and without five rules.

    make bench-dmv
    make bench-dmv ARGS="--only induced --seeds 5"    # the rows with this in their name

Trained on en-ewt-train up to 10 words without punctuation, whose trees are not looked at; attachment on the same
sentences, as is usual, and on those of dev. The rules are statements about most languages in the manner of Naseem et
al. 2010; each is one constraint on the expected share of arcs over the corpus. Then the same model on induced tags
(Graça et al. 2009, conclusion): 17 states of an HMM of these words, by EM and by posterior sparsity.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
from _small import arguments
from _trees import attachment, plain, treebank

from trellis import Inducer
from trellis.constraints import arcs, column, few_arcs_per, root
from trellis.learn import UEM
from trellis.models import DMV

tag = column("upos")
NOMINAL = ("NOUN", "PROPN", "PRON")
RULES = [
    (arcs(head=root, child=tag == "VERB", share=True).per("corpus") >= 0.6).named("most verbs hang on the root"),
    (arcs(head=tag.isin("VERB", "ADJ", "NOUN"), child=tag == "AUX", share=True).per("corpus") >= 0.8)
    .named("auxiliaries hang on what they help to say"),
    (arcs(head=tag == "VERB", child=tag.isin(*NOMINAL), share=True).per("corpus") >= 0.5)
    .named("half of the nominals hang on a verb"),
    (arcs(head=tag.isin("NOUN", "PROPN"), child=tag == "DET", share=True).per("corpus") >= 0.8)
    .named("determiners hang on nouns"),
    (arcs(head=tag.isin(*NOMINAL), child=tag == "ADP", share=True).per("corpus") >= 0.8)
    .named("adpositions hang on nominals"),
]  # fmt: skip
FEW = [few_arcs_per(tag, strength=160.0)]
"""Posterior sparsity of pairs of tags; the strength is of the order of Gillenwater et al. 2010."""
ROUNDS = 40


def tagged_by(inducer: Inducer, text: list[list[tuple[str, str]]]) -> list[list[tuple[str, str]]]:
    """The words with their states for tags."""
    words = [[w for w, _ in own] for own in text]
    states = inducer.model_.infer(words).marginal_labels
    return [list(zip(own, tags, strict=True)) for own, tags in zip(words, states, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seeds", type=int, default=3, help="of induced tags")
    parser.add_argument("--only", default="", help="rows whose name holds this")
    given = arguments(parser, rounds=3, seeds=1)
    warnings.simplefilter("ignore")
    train, dev = plain(treebank("en-ewt-train"), 10), plain(treebank("en-ewt-dev"), 10)
    print(f"en-ewt up to 10 words: {len(train[0])} sentences to learn from, {len(dev[0])} of dev")
    print(f"  {'':<44}{'train':>8}{'dev':>8}{'seconds':>9}")
    for name, guess in (
        ("every word hangs on the one before it", lambda n: list(range(n))),
        ("every word hangs on the one after it", lambda n: [*range(2, n + 1), 0]),
    ):
        found = (attachment([guess(len(h)) for h in heads], heads) for _, heads in (train, dev))
        print(f"  {name:<44}" + "".join(f"{x:>8.1f}" for x in found))
    figures = {}
    runs: list[tuple[str, list[Any], dict[str, Any]]] = [
        ("DMV, EM", [], {}),
        ("DMV, EM from equal trees", [], {"harmonic": None}),
        ("DMV, hard EM", [], {"gamma": 0.0}),
        *((f"DMV, PR with one rule: {rule.name}", [rule], {}) for rule in RULES),
        ("DMV, PR with five rules", RULES, {}),
        ("DMV, γ = 0.5 with five rules", RULES, {"gamma": 0.5}),
        ("DMV, few pairs of tags", FEW, {"max_evaluations": 25}),
        ("DMV, five rules and few pairs of tags", [*RULES, *FEW], {"max_evaluations": 25}),
    ]
    for name, rules, settings in (run for run in runs if given.only in run[0]):
        begin = time.perf_counter()
        model = DMV(harmonic=settings.pop("harmonic", 1.0))
        learner = UEM(model, rules, start="uniform", max_iter=given.rounds, tol=0, n_jobs=2, **settings).fit(train[0])
        trained = getattr(learner, "model_", learner.model)
        figures[name] = [attachment(trained.predict(text), heads) for text, heads in (train, dev)]
        shown = "".join(f"{x:>8.1f}" for x in figures[name])
        print(f"  {name[:43]:<44}{shown}{time.perf_counter() - begin:>9.1f}")
    for row, method in (("DMV, EM, tags induced by EM", "em"), ("DMV, EM, tags induced by sparsity", "sparse")):
        if given.only not in row:
            continue
        begin, found = time.perf_counter(), []
        for seed in range(given.seeds):
            inducer = Inducer(17, method=method, emissions="table", random_state=seed, n_jobs=2)
            inducer.fit([[w for w, _ in own] for own in train[0]])
            texts = [tagged_by(inducer, text) for text, _ in (train, dev)]
            dmv = UEM(DMV(), start="uniform", max_iter=given.rounds, tol=0, n_jobs=2).fit(texts[0]).model_
            found.append([attachment(dmv.predict(text), h) for text, (_, h) in zip(texts, (train, dev), strict=True)])
        shown = "".join(f"{x:>8.1f}" for x in np.mean(found, axis=0))
        error = np.std(found, axis=0, ddof=1) / np.sqrt(len(found)) if len(found) > 1 else ()
        errors = "   standard errors " + ", ".join(f"{x:.1f}" for x in error) if len(error) else ""
        print(f"  {row:<44}{shown}{time.perf_counter() - begin:>9.1f}{errors}", flush=True)
    known = DMV().fit(*train)
    supervised = "".join(f"{attachment(known.predict(text), heads):>8.1f}" for text, heads in (train, dev))
    print(f"  {'DMV, supervised: the ceiling':<44}{supervised}")
    if {"DMV, PR with five rules", "DMV, EM"} <= set(figures):
        gain = np.subtract(figures["DMV, PR with five rules"], figures["DMV, EM"])
        print(f"gain of the five rules: {gain[0]:+.1f} on train, {gain[1]:+.1f} on dev")


if __name__ == "__main__":
    main()
