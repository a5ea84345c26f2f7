"""Transfer: a parser for a language without a treebank (Ganchev et al. 2010, sec. 7).

The source side of a bitext is parsed, its arcs are projected through word links, and the parser of the target language
learns under one constraint: in every sentence the expected share of words that keep a projected head is at least η.
Arcs are so trusted as a group and not one by one.

"margin"       the edge-factored model. A parser of tags alone, learned from the source trees (tags are the same in
               both languages), gives the posterior that is projected; the trees with the most arcs right in expectation
               under the projection teach the next round's parser of tags, and after the last round the parser of the
               target language, by margin steps: the mean of parsers that met the trees in different orders.
"likelihood"   the same, but the projection itself is learned from (soft trees), and rounds go on with the new parser.
"dmv"          the generative model with valence: one of the source trees, and rounds under the constraint from there.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from trellis.apps.parse.parser import tagged
from trellis.apps.parse.projected_arcs import (
    ETAS,
    Link,
    SentencePair,
    conserved,
    coverage,
    is_fragment,
    left_headed_names,
    loosest,
    projected,
    strip_pair,
)
from trellis.apps.parse.tree_task import LABELLER, TreeTask, learn_relations
from trellis.apps.parse.tree_text import strip
from trellis.constraints import Constraint, arcs, compile_constraints
from trellis.data.batch import Batch
from trellis.data.bitext import check_links
from trellis.data.checks import check_list, is_list
from trellis.data.columns import FILLER
from trellis.data.document import Document
from trellis.data.tokens import as_documents
from trellis.engine import Piece, engine_for, shards_of
from trellis.engine.engine import summed
from trellis.errors import ConvergenceWarning, DataError
from trellis.learn import UEM
from trellis.loop import ArrayState, History, Loop, Settings, Step, StepResult
from trellis.models.arc_parser import ArcParser
from trellis.models.dmv import DMV
from trellis.models.documentation import documented
from trellis.models.state import Member
from trellis.projection import CorpusProjection, ProjectionItem, Projector, ShardAnswer

ROUNDS = {"margin": 2, "likelihood": 1, "dmv": 1}
"""Rounds of each model by default."""
AUTO = "auto"
ETA = {"margin": 0.95, "likelihood": 0.95, "dmv": 1.0}
"""Default of each model: what "auto" finds on Europarl, English to Spanish."""


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class Transfer(TreeTask):
    """Train a parser for a language from the trees of another one and parallel text.

    Parameters
    ----------
    model : {"margin", "likelihood", "dmv"}, default="margin"
        Kind of model to train. One of "margin", "likelihood" or "dmv".
    eta : float, "auto" or None, default=None
        Minimum expected share of projected heads kept. "auto" estimates it from the pairs, at four times the cost.
        Default: 0.95; 1 for "dmv".
    gamma : float, default=1.0
        Temperature γ of the posteriors. 1: posterior regularization, 0: best trees under the constraint.
    max_iter : int or None, default=None
        Rounds of training. Default: 2 for "margin", 1 otherwise.
    steps : int, default=20
        Steps of L-BFGS in each round of "likelihood".
    max_length : int, default=30
        Longer sentences are not used in training. Words of the target are counted, without punctuation.
    max_pairs : int, default=10000
        Use at most this many pairs, those with most projected heads.
    l2 : float, default=40.0
        Strength of the Gaussian prior on the weights, 1 / σ². For "likelihood" only.
    passes : int, default=1
        Passes of margin steps.
    learning_rate : float, default=0.01
        Step size of margin steps.
    orders : int, default=4
        Number of parsers, each trained on another order of the trees, that are averaged.
    lexical : bool, default=True
        Use features of target words; otherwise only of tags.
    bits : int, default=20
        Size of the feature table, as a power of 2.
    min_count : int, default=2
        Words that occur less often are treated as unknown.
    source_passes : int, default=3
        Passes over the source trees for the initial parser.

    Attributes
    ----------
    model_ : estimator
        The trained parser.
    labeller_ : object
        Model of relations, None if the source trees have none.
    eta_ : float
        The value of ``eta`` used.
    n_pairs_ : int
        Number of pairs used.
    conserved_ : float
        Share of projected heads kept in predicted trees.
    """

    model: str = "margin"
    eta: float | str | None = None
    gamma: float = 1.0
    max_iter: int | None = None
    steps: int = 20
    max_length: int = 30
    max_pairs: int = 10_000
    l2: float = 40.0
    passes: int = 1
    learning_rate: float = 0.01
    orders: int = 4
    lexical: bool = True
    bits: int = 20
    min_count: int = 2
    source_passes: int = 3
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    saved: ClassVar = {"model": Member("model_", (ArcParser, DMV), "model_"), "labeller": LABELLER}

    def fit(self, X: Iterable[tuple[Document, Document]], y: Sequence[Iterable[Link]]) -> Self:
        """Learn from tagged sentences and their translations.

        X : pairs of a source sentence, which has a tree (the column "head"), and its translation
        y : the word links of each pair, (i, j) from 0
        """
        self._check_types()
        self._check_settings()
        return self.fit_pairs(self.best_pairs(usable_pairs(X, y, self.max_length)))

    def best_pairs(self, pairs: Sequence[SentencePair]) -> list[SentencePair]:
        """The pairs used for training, in order."""
        covered = np.array([coverage(pair) for pair in pairs])
        return [pairs[k] for k in np.sort(np.argsort(-covered, kind="stable")[: self.max_pairs])]

    def fit_pairs(self, pairs: Sequence[SentencePair], start: ArcParser | None = None) -> Self:
        """Learn from pairs without punctuation; ``start`` : a parser of tags in place of one of the source trees."""
        self._check_settings()
        if not pairs:
            raise DataError("no sentence pair is left: they are too long, have no verb, or no arc can be projected")
        if self.model == "dmv":
            start = None
        elif start is None:
            start = self.source_model(pairs)
        given_eta = ETA[self.model] if self.eta is None else self.eta
        self.eta_ = self._found_eta(pairs, start) if given_eta == AUTO else float(given_eta)
        text = [pair.target for pair in pairs]
        given = [projected(pair) for pair in pairs]
        self.history_ = History()
        self.model_ = self._arc_parser(text, given, start) if start is not None else self._dmv(pairs, text, given)
        self.n_pairs_ = len(pairs)
        self.model_.n_jobs = self.n_jobs
        trees = self.model_.predict(text)
        kept, words = conserved(pairs, trees)
        self.conserved_ = float(kept.sum() / max(words.sum(), 1))
        self.labeller_ = learn_relations(self.model_, pairs, trees, self.min_count)
        return self

    def _found_eta(self, pairs: Sequence[SentencePair], start: ArcParser | None) -> float:
        half, rest = pairs[::2], pairs[1::2]
        if not rest:
            raise DataError('eta "auto" needs at least two usable sentence pairs, got one: give a number')
        kept = {}
        for eta in ETAS:
            learner = type(self)(**{**self.get_params(deep=False), "eta": eta}).fit_pairs(half, start)
            kept[eta], words = conserved(rest, learner.model_.predict([pair.target for pair in rest]))
        return loosest(kept, words)

    def _rule(self, given: Sequence[Sequence[tuple[int, int]]]) -> Constraint:
        return (arcs(given, share=True) >= self.eta_).named("projected arcs are kept")

    def _dmv(
        self, pairs: Sequence[SentencePair], text: Sequence[Sequence[tuple[str, str]]],
        given: list[list[tuple[int, int]]],
    ) -> DMV:  # fmt: skip
        both = [*text, *(pair.source for pair in pairs)]
        model = DMV(decoding="posterior").fit(both, [*(None for _ in text), *(pair.heads for pair in pairs)])
        rule = self._rule(_attainable(model, model.encode(text), given))
        learned: DMV = self._learned(model, text, rule, "model", self.max_iter or ROUNDS["dmv"])
        return learned

    def _arc_parser(
        self, text: Sequence[Sequence[tuple[str, str]]], given: list[list[tuple[int, int]]], start: ArcParser
    ) -> ArcParser:
        batch = start.encode(text)
        rule = self._rule(_attainable(start, batch, given))
        rounds = self.max_iter or ROUNDS[self.model]
        if self.model == "margin":
            step = _TeachingStep(self, start, text, rule, rounds)
            settings = Settings(max_iter=rounds, verbose=self.verbose, title="transfer", rises=False)
            self.history_ = Loop(step, settings).run().history
            return self.fit_trees(text, step.trees)
        model = ArcParser(
            **self._features, solver="lbfgs", l2=self.l2, max_iter=self.steps, tol=0.0, n_jobs=self.n_jobs,
            engine=self.engine,
        )  # fmt: skip
        model.encode(text, fit=True)
        found, _ = self._projected(start, batch, rule)
        placed = engine_for(self.n_jobs, self.engine).place([Piece(shard) for shard, _ in found])
        model.update(summed(model.collect(shard, q) for shard, q in found), shards=[placed])
        if rounds > 1:
            model = self._learned(model, text, rule, "model", rounds - 1)
        return model

    def fit_trees(self, text: Sequence[Sequence[tuple[str, str]]], trees: Sequence[Sequence[int]]) -> ArcParser:
        """A parser of given trees by margin steps: the mean of parsers trained on them in different orders."""
        settings = {"max_iter": self.passes, "learning_rate": self.learning_rate, "n_jobs": self.n_jobs}
        orders = engine_for(self.n_jobs, self.engine).near.place(range(self.orders))
        made = list(orders.run(_in_order, ({**self._features, **settings}, text, trees)))
        made[0].set_parameters({"weights": np.mean([one.weights_ for one in made], axis=0)})
        return made[0]

    @property
    def _features(self) -> dict[str, Any]:
        return {"lexical": self.lexical, "bits": self.bits, "min_count": self.min_count}

    def _projected(
        self, model: ArcParser, batch: Batch, rule: Constraint
    ) -> tuple[list[tuple[Batch, Any]], CorpusProjection[Any]]:
        """Shards of a batch and posteriors there, projected; and the projection."""
        rows = compile_constraints([rule], batch, model.label_names_, model.parts(batch))
        shards = [shard.of(batch) for shard in shards_of(batch)]
        bounds = np.array([0, *np.cumsum([len(shard) for shard in shards])])
        found = Projector(rows, bounds, data=shards, engine=engine_for(self.n_jobs, self.engine)).run(
            model.scores, self.gamma, then=_posterior
        )
        return list(zip(shards, found.results, strict=True)), found

    def _learned(self, model: Any, text: Any, rule: Constraint, start: str, rounds: int) -> Any:
        learner = UEM(
            model, [rule], gamma=self.gamma, start=start, max_iter=rounds, tol=0.0, n_jobs=self.n_jobs,
            engine=self.engine, track_likelihood=False, verbose=self.verbose,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # few steps in each round are meant
            learner.fit(text)
        self.history_ = learner.history_
        return learner.model_

    def source_model(self, pairs: Sequence[SentencePair]) -> ArcParser:
        """A parser of tags alone, from the trees of the source side."""
        parser = ArcParser(
            lexical=False, bits=self.bits, solver="adagrad", learning_rate=0.05, max_iter=self.source_passes,
        )  # fmt: skip
        return parser.fit([pair.source for pair in pairs], [pair.heads for pair in pairs])

    def _check_settings(self) -> None:
        self._check_names(model=ROUNDS)
        self._check_whole(
            max_iter=1, steps=1, max_length=2, max_pairs=1, passes=1, orders=1, bits=4, min_count=1, source_passes=1
        )
        self._check_within(gamma=(0.0, np.inf), l2=(0.0, np.inf), learning_rate=(0.0, np.inf), bits=(4, 26))
        if self.eta != AUTO:
            self._check_within(eta=(0.0, 1.0))


class _TeachingStep(Step[ArrayState]):
    """Project the posterior of a parser of tags; the best trees under the projection teach the next round's parser.

    rounds : in all; after the last one ``trees`` teach no parser of tags any more
    """

    def __init__(
        self, transfer: Transfer, start: ArcParser, text: Sequence[Any], rule: Constraint, rounds: int
    ) -> None:
        self.transfer, self.model, self.text, self.rule, self.left = transfer, start, text, rule, rounds
        self.trees: list[list[int]] = []

    def run(self, gamma: float, state: ArrayState, rng: np.random.Generator) -> StepResult:
        model, batch = self.model, self.model.encode(self.text)
        posteriors, found = self.transfer._projected(model, batch, self.rule)
        heads = np.concatenate([model.uniform(shard).marginal_argmax(q) for shard, q in posteriors])
        self.trees = model.decode(batch, heads)
        return StepResult(
            self.trees, -found.value, state, kkt_residual=found.kkt_residual, evaluations=found.evaluations
        )

    def update(self, statistics: list[list[int]]) -> None:
        self.left -= 1
        if self.left:
            parser = ArcParser(lexical=False, bits=self.transfer.bits, solver="adagrad", max_iter=1)
            self.model = parser.fit(self.text, statistics)


def _in_order(given: tuple[dict[str, Any], Any, Any], seed: int, state: Any) -> tuple[ArcParser, Any]:
    """A parser that met the trees in one order."""
    settings, text, trees = given
    return ArcParser(**settings, random_state=seed).fit(text, trees), state


def _posterior(item: ProjectionItem, answer: ShardAnswer) -> Any:
    return answer.posterior


def usable_pairs(
    pairs: Iterable[tuple[Document, Document]], links: Sequence[Iterable[Link]], max_length: int
) -> list[SentencePair]:
    """Pairs without punctuation, those left out that are long, have no verb or have no projected arc."""
    given, links = list(check_list(pairs, "pairs of sentences")), check_links(links)
    for number, pair in enumerate(given):
        if isinstance(pair, Document) or not is_list(pair) or len(pair) != 2:
            raise DataError(f"pair {number} is {pair!r:.80}: expected a sentence with a tree and its translation")
    source, target = (as_documents([pair[side] for pair in given]) for side in (0, 1))
    if len(given) != len(links):
        raise DataError(f"there are {len(given)} pairs of sentences but links for {len(links)} pairs")
    made = []
    sides = zip(source, tagged(source), target, tagged(target), links, strict=True)
    for number, (one, own, other, theirs, linked) in enumerate(sides, start=1):
        left = strip(one, own)
        relations = [None if r == FILLER else r for r in one.columns["deprel"]] if "deprel" in one.columns else None
        pair = strip_pair(left, left.heads(one), strip(other, theirs), linked, number, relations)
        if pair is not None and len(pair.target) <= max_length and not is_fragment(pair) and projected(pair):
            made.append(left_headed_names(pair))
    return made


def _attainable(
    model: ArcParser | DMV, batch: Any, given: Sequence[Sequence[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """Given arcs without those to words that cannot keep one beside the others (arcs cross, or run in a circle)."""
    parts = model.parts(batch)
    numbers = np.array([parts.arc_within(i, h, c) for i, own in enumerate(given) for h, c in own], dtype=np.int64)
    heads = model.uniform(batch).flat().add(numbers, np.ones(len(numbers))).argmax().outputs
    kept = []
    for i, own in enumerate(given):
        tree, pairs = heads[batch.offsets[i] : batch.offsets[i + 1]], set(own)
        able = {c for _, c in own if (int(tree[c - 1]), c) in pairs}
        kept.append([(h, c) for h, c in own if c in able])
    return kept
