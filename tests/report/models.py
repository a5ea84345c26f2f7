"""Small models of every kind that has a page, and the text to show them on."""

from __future__ import annotations

from pathlib import Path

from trellis import (
    CRF,
    GE,
    HMM,
    SSVM,
    UEM,
    Aggregator,
    Aligner,
    Extractor,
    Matcher,
    MultiView,
    Parser,
    Relater,
    Tagger,
    count,
    label,
    shares,
    word,
)
from trellis.data.conllu import read_conllu
from trellis.data.document import Document
from trellis.data.pair_files import PairLine
from trellis.data.related import read_related
from trellis.data.text_files import read_labelled, read_texts
from trellis.data.voted_files import read_voted
from trellis.metrics.alignment import read_links

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GARDEN = EXAMPLES / "garden"


def aligned(n=60):
    sides = [(GARDEN / name).read_text(encoding="utf-8").splitlines()[:n] for name in ("text.en", "text.fr")]
    pairs = list(zip(*sides, strict=True))
    return Aligner(n_jobs=1, prefix=None).fit(pairs), pairs, read_links(GARDEN / "gold.links")[:n]


def extracted(n=40):
    folder = EXAMPLES / "citations"
    learner = Extractor.from_file(folder / "rules.toml", model_kind="hmm", max_iter=1)
    learner.fit(read_labelled(folder / "few.tsv"), unlabelled=read_texts(folder / "text.txt")[:50])
    return learner, read_labelled(folder / "gold.tsv")[:n]


def parsed():
    trees = list(read_conllu(GARDEN / "train.conllu", columns=("head", "deprel")))[:20]
    return Parser(bits=10, max_iter=1).fit(trees), trees[:10]


def tagged():
    text = [s.split() for s in ("the <cat> sleeps", "a <cat> climbs the tree", "the <cat> falls", "a gardener sleeps")]
    rules = [(count("V") >= 1).named("a <verb>"), word.isin("the", "a").implies(label("D")).named("articles")]
    learner = UEM(HMM(["D", "N", "V"], min_count=1), rules, max_iter=3, tol=0, random_state=0).fit(text)
    gold = [["D", "N", "V"], ["D", "N", "V", "D", "N"], ["D", "N", "V"], ["D", "N", "V"]]
    return learner, [Document(tuple(w), tuple(y)) for w, y in zip(text, gold, strict=True)]


GOLD = [["D", "N", "V"], ["D", "N", "V", "D", "N"], ["D", "N", "V"], ["D", "N", "V"]]
TEXT = [s.split() for s in ("the cat sleeps", "a cat climbs the tree", "the cat falls", "a gardener sleeps")]
SENTENCES = [Document(tuple(w), tuple(y)) for w, y in zip(TEXT, GOLD, strict=True)]


def trained_tagger():
    return Tagger(min_count=1).fit(SENTENCES), SENTENCES


def with_targets():
    targets = [shares({"D": 0.9, "N": 0.05, "V": 0.05}, where=word == w).penalty(10.0, "squared") for w in ("the", "a")]
    targets = [one.named(f"target {n}") for n, one in enumerate(targets)]
    return GE(CRF(["D", "N", "V"], l2=0.1), targets, max_iter=2).fit(TEXT), SENTENCES


def two_views():
    views = [CRF(["D", "N", "V"], min_count=1, max_iter=5), HMM(["D", "N", "V"], min_count=1)]
    return MultiView(views, max_iter=2, tol=0).fit([TEXT, TEXT], [*GOLD[:2], None, None]), SENTENCES


def with_margins():
    rules = [(count("V") >= 1).penalty(1.0).named("a verb")]
    return SSVM(CRF(["D", "N", "V"], min_count=1), rules, max_iter=60).fit(TEXT, GOLD), SENTENCES


def related():
    folder = EXAMPLES / "people"
    learner = Relater.from_file(folder / "rules.toml", finder=False).fit(list(read_related(folder / "few.jsonl")))
    return learner, list(read_related(folder / "gold.jsonl"))[:30]


def matched():
    names = [("dana", "דנה"), ("nadia", "נדיה"), ("dina", "דינה"), ("anna", "אנה"), ("nina", "נינה"), ("ada", "עדה")]
    asked = [PairLine("adina", "עדינה", 1), PairLine("adina", "נינה", -1), PairLine("dina", "דינה", -1)]
    return Matcher("names", negatives=3, n_jobs=1).fit(names), asked


def aggregated():
    votes = list(read_voted(EXAMPLES / "weak" / "votes.jsonl"))[:40]
    return Aggregator(["DRUG", "AILMENT"]).fit(votes), votes
