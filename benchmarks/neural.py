"""Networks: a parser and a chunker trained from scratch, and inference over chains on the CPU and the GPU.

    make bench-neural                                   on the CPU: the throughput of chains alone
    make bench-neural ARGS="--device cuda --trees --chunks"      what docs/gpu.md shows, on a GPU

    make bench-neural ARGS="--sizes --rules citations references addresses restaurants news"   networks and rules
    make bench-neural ARGS="--sizes --weak laptop-review mit-restaurants --test dev"           networks and weak labels

The parser learns en-ewt with gold tags and is tested without punctuation; the chunker learns CoNLL-2000.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from _small import arguments
from _trees import treebank

from trellis.apps.parse.parser import Parser
from trellis.data.columns import read_columns
from trellis.data.corpus import corpus_of
from trellis.data.ragged import offsets_of
from trellis.metrics.fields import score_fields


def folder() -> Path:
    named = os.environ.get("TRELLIS_DATA")
    return Path(named) if named else Path(__file__).resolve().parents[2] / "shared" / "data"


def parser(device: str, passes: int, test: str) -> None:
    train, gold = treebank("en-ewt-train"), treebank(f"en-ewt-{test}")
    begin = time.perf_counter()
    model = Parser(encoder="bilstm", max_iter=passes, device=device).fit(train)
    trained = time.perf_counter() - begin
    begin = time.perf_counter()
    scores = model.attachment(gold).plain
    taken = time.perf_counter() - begin
    words = sum(len(s) for s in gold)
    print(f"parser, en-ewt {test}, {passes} passes on {device}")
    print(f"  UAS, LAS        {100 * scores.uas:8.2f}{100 * scores.las:8.2f}")
    print(f"  training, s     {trained:8.0f}")
    print(f"  words a second  {words / taken:8,.0f}", flush=True)


def chunker(device: str, passes: int, vectors: str | None) -> None:
    from trellis.neural import BiLSTM, NeuralCRF, WordVectors

    files = [folder() / "chunk" / "conll2000" / f"{name}.txt" for name in ("train", "test")]
    train, test = (list(read_columns(path, label=2, columns={"pos": 1}, separator=None)) for path in files)
    names = sorted({str(label) for s in (*train, *test) for label in s.labels or ()})
    static = None if vectors is None else WordVectors(vectors, window=0)
    encoder = BiLSTM(
        word_size=150, char_size=75, tag_size=50, tag_column="pos", hidden=300, layers=2, dropout=0.4, vectors=static
    )
    model = NeuralCRF(encoder, names, max_iter=passes, batch_size=16, device=device)
    begin = time.perf_counter()
    model.fit(corpus_of(train))
    trained = time.perf_counter() - begin
    gold = [[str(label) for label in s.labels or ()] for s in test]
    found = model.predict(corpus_of(test))
    of = "words, characters and tags" + ("" if vectors is None else f", {vectors}")
    print(f"chunker over {of}, {passes} passes on {device}")
    print(f"  F1              {100 * score_fields(gold, found).total.f1:8.2f}")
    print(f"  training, s     {trained:8.0f}", flush=True)


def throughput(device: str, sizes: list[int], n: int, length: int) -> None:
    """Sentences a second: log-partitions with their gradients."""
    import torch

    from trellis.neural.forms import FORMS
    from trellis.neural.functions import log_partition
    from trellis.neural.scan import chain_log_partition

    rng = np.random.default_rng(0)
    offsets = offsets_of(rng.integers(length // 2, length * 3 // 2, n))
    print(f"chains of {length} tokens in the mean, {n} at once: log Z and its gradient, sentences a second")
    print(f"  {'labels':>6}{'kernels, one thread':>22}{'batched scan, ' + device:>22}")
    for k in sizes:
        made = [rng.normal(size=shape) for shape in ((int(offsets[-1]), k), (k, k), (k,), (k,))]

        def rate(on: str, function: Any, given: list[Any] = made) -> float:
            tensors = [torch.tensor(one, dtype=torch.float32, device=on, requires_grad=True) for one in given]
            function(tensors)  # compiles
            best = np.inf
            for _ in range(3):
                begin = time.perf_counter()
                torch.autograd.grad(function(tensors), tensors)
                if on != "cpu":
                    torch.cuda.synchronize()
                best = min(best, time.perf_counter() - begin)
            return n / best

        ours = rate("cpu", lambda t: log_partition(FORMS["chain"], offsets, t))
        scan = rate(device, lambda t: chain_log_partition(offsets, t, np.ones(n)))
        print(f"  {k:>6}{ours:>22,.0f}{scan:>22,.0f}", flush=True)


EXTRACTORS = {
    "extractor": {},
    "extractor, bilstm": {"encoder": "bilstm"},
    "extractor, wordllama": {"encoder": "wordllama"},
    "extractor, vectors": {"features": "wordllama"},
}
SYSTEMS = ("network", "network, rules in prediction", "network, CoDL", "network, PR", *EXTRACTORS)


def rules_and_network(corpus: str, n: int, draw: int, system: str, most: int) -> float:
    """Token accuracy on the development set of a corpus of the extraction panel, from ``n`` labelled texts."""
    from _panel.common import Options
    from _panel.extract import corpora, drawn

    from trellis import Extractor
    from trellis.constraints import parse_rules
    from trellis.data.word_vectors import VectorFeatures, read_vectors
    from trellis.learn import CCM
    from trellis.neural import BiLSTM, NeuralCRF

    one = next(c for c in corpora(Options(small=corpus.startswith("examples"))) if c.name == corpus)
    few, many = drawn(one, n, draw)
    free = [list(text.tokens) for text in many[:most]]
    X, y = [list(text.tokens) for text in few], [list(text.labels or ()) for text in few]
    judged = [list(text.tokens) for text in one.judged], [list(text.labels or ()) for text in one.judged]
    if system in EXTRACTORS:
        settings: dict[str, Any] = EXTRACTORS[system]
        if "features" in settings:
            settings = {"features": VectorFeatures(read_vectors(settings["features"]))}
        return 100 * Extractor(one.rules, **settings).fit(X, y, unlabelled=free).score(*judged)
    rules = parse_rules(one.rules.read_text(), str(one.rules))
    every = {str(label) for text in (*one.texts, *one.judged) for label in text.labels or ()}
    names = sorted(every | set(rules.labels or ()))
    encoder = BiLSTM(word_size=50, char_size=30, hidden=64, layers=1, min_count=1)
    network = NeuralCRF(encoder, names, max_iter=60, round_iter=3, batch_size=4, learning_rate=0.003)
    method = {"network, CoDL": "codl", "network, PR": "pr"}.get(system, "supervised")
    learner = CCM(network, list(rules), method=method, beta=None, max_iter=4)
    weights = [1.0] * len(X) + [0.3] * len(free)
    if method == "supervised":
        learner.fit(X, y)
    else:
        learner.fit([*X, *free], [*y, *[None] * len(free)], sample_weight=weights)
    return 100 * learner.score(*judged, constrained=system != "network")


def with_rules(corpora: list[str], sizes: list[int], draws: int, systems: list[str], most: int) -> None:
    print(f"extraction: token accuracy on dev, {most} unlabelled texts, mean of {draws} draws")
    for corpus in corpora:
        for system in systems:
            means = [np.mean([rules_and_network(corpus, n, d, system, most) for d in range(draws)]) for n in sizes]
            print(f"  {corpus:<20}{system:<30}" + "".join(f"{mean:8.1f}" for mean in means), flush=True)


def weak_labels(name: str, encoders: list[str | None], test: bool) -> None:
    """Span F1 of aggregators, and of end models on texts without votes, with and without an encoder.

    End models learn from the other files of a corpus; where there is none, from the first half of the judged one.
    """
    from _panel import weak
    from _panel.common import Options
    from weak import gold_of

    from trellis import Aggregator, Extractor
    from trellis.data.voted_files import read_voted

    small = name == "examples"
    corpus = next(weak.corpora(Options(small=small, test=test, corpora=() if small else (name,))))
    gold, known = gold_of(corpus), corpus.files[0].with_name("valid.json")
    n = len(gold.texts) - sum(1 for _ in read_voted(corpus.files[-1]))  # texts of the other files
    new, seen = n, gold.texts[:n]
    if not n and test and known.exists():
        seen = list(read_voted(known))
    elif not n:
        new = len(gold.texts) // 2
        seen = gold.texts[:new]
    labels = Aggregator().fit(seen).labels_
    for encoder in encoders:
        found = Aggregator(encoder=encoder).fit(gold.texts).labels_
        end = Extractor("", encoder=encoder).fit([list(text.tokens) for text in seen], labels)
        pairs = (n, found[n:]), (new, end.predict([list(text.tokens) for text in gold.texts[new:]]))
        scores = [100 * score_fields(gold.labels[low:], own).total.f1 for low, own in pairs]
        print(f"  {name:<20}{encoder or 'default':<30}" + "".join(f"{score:8.2f}" for score in scores), flush=True)


def main() -> None:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--device", default="cpu", help="where networks run: cpu or cuda")
    made.add_argument("--trees", action="store_true", help="train the parser")
    made.add_argument("--chunks", action="store_true", help="train the chunker")
    made.add_argument("--vectors", help="static vectors of the chunker: wordllama or a text file")
    made.add_argument("--passes", type=int, default=30, help="passes over the training data")
    made.add_argument("--test", default="test", help="texts that parsers and aggregators are tested on: test or dev")
    made.add_argument("--weak", nargs="*", default=[], help="corpora of the panel of weak labels")
    made.add_argument("--encoders", nargs="*", default=["bilstm", "wordllama"], help="encoders under --weak")
    made.add_argument("--sizes", type=int, nargs="*", default=[10, 25, 50, 100, 200, 400], help="numbers of labels")
    made.add_argument("--rules", nargs="*", default=[], help="corpora of the extraction panel, to learn under rules")
    made.add_argument("--labelled", type=int, nargs="*", default=[5, 20, 50], help="numbers of labelled texts")
    made.add_argument("--draws", type=int, default=2, help="draws of the labelled texts")
    made.add_argument("--systems", nargs="*", default=list(SYSTEMS), help="what is compared under --rules")
    made.add_argument("--unlabelled", type=int, default=150, help="unlabelled texts under --rules")
    made.add_argument("--sentences", type=int, default=256, help="chains at once")
    given = arguments(
        made, trees=True, chunks=True, passes=1, sizes=[3, 5], sentences=4,
        rules=["examples/citations"], labelled=[3], draws=1, unlabelled=4, systems=["network", "network, PR"],
        weak=["examples"], encoders=[],
    )  # fmt: skip
    if given.sizes:
        throughput(given.device, given.sizes, given.sentences, 25)
    if given.trees:
        parser(given.device, given.passes, given.test)
    if given.chunks:
        chunker(given.device, given.passes, given.vectors)
    if given.weak:
        print("weak labels: span F1 of the aggregator, and of the end model on texts without votes")
        for name in given.weak:
            weak_labels(name, [None, *given.encoders], given.test == "test")
    if given.rules:
        with_rules(given.rules, given.labelled, given.draws, given.systems, given.unlabelled)


if __name__ == "__main__":
    main()
