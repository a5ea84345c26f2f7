"""Wherever shards run, the bits are those of one thread: every learner and every task, on every engine.

The isolating engine copies all that goes into a shard's work and all that comes out of it. With the first version of
this house it showed that posterior sparsity silently became plain EM.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from align.toy import toy_text
from learn.corpora import LABELS, tagged_sentences

from tests.aggregate.corpora import drawn
from tests.parse.toy import treebank
from trellis import Aggregator
from trellis.apps.align.aligner import Aligner
from trellis.apps.extract.extractor import Extractor
from trellis.apps.induce.inducer import Inducer
from trellis.apps.parse.transfer import Transfer
from trellis.apps.parse.tree_inducer import TreeInducer
from trellis.constraints import count, few_labels_per, label, shares, transitions, word
from trellis.data.tokens import tokenise
from trellis.engine import SerialEngine, ThreadEngine
from trellis.engine import dask as dask_engine
from trellis.engine.dask import DaskEngine, _Pass
from trellis.engine.threads import engine_for
from trellis.errors import DataError, InfeasibleError
from trellis.learn import CCM, GE, UEM, CoDL, MultiView
from trellis.models import CRF, HMM, MaxEnt, SemiCRF

from .isolating import IsolatingEngine

TEXT, TAGS = tagged_sentences(600)
SOME = [tags if i % 40 == 0 else None for i, tags in enumerate(TAGS)]
RULES = [
    word.isin("the", "a").implies(label("D")).constraint().named("determiners").learned(),
    (count("D") <= 2).named("few determiners").learned(),
    (transitions(from_="D", to="V") <= 0).named("no D before V").learned(),
]


def hmm() -> HMM:
    return HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)


def uem(engine: Any, constraints: Any = (), y: Any = None, model: Any = None, **settings: Any) -> Any:
    learner = UEM(
        hmm() if model is None else model, constraints, engine=engine,
        **{"tol": 0.0, "random_state": 0, "max_iter": 3, "max_evaluations": 30, **settings},
    ).fit(TEXT, y)  # fmt: skip
    return learner.model_.parameters(), learner.history_.objective, learner.predict(TEXT[:20])


def by_rules(engine: Any, method: str) -> Any:
    ccm = CCM(hmm(), RULES, method=method, max_iter=2, engine=engine).fit(TEXT, SOME)
    return ccm.model_.parameters(), ccm.penalties_, ccm.duals_, ccm.history_.objective


def codl(engine: Any, **settings: Any) -> Any:
    learner = CoDL(hmm(), RULES, max_iter=3, engine=engine, **settings).fit(TEXT, SOME)
    return learner.model_.parameters(), learner.penalties_, learner.history_.objective, learner.converged_


def views(engine: Any) -> Any:
    made = MultiView([CRF(LABELS, max_iter=5, l2=0.1), hmm()], LOCAL, max_iter=2, tol=0.0, engine=engine)
    made.fit([TEXT, TEXT], SOME)
    return made.model_.parameters(), made.history_.objective, made.predict([TEXT[:20]] * 2)


def mapped_views(engine: Any) -> Any:
    X = np.random.default_rng(0).normal(size=(2_000, 5))
    y = [[str(i % 3) if i < 50 else None for i in range(2_000)], [str(i % 2) if i < 40 else None for i in range(2_000)]]
    made = MultiView([MaxEnt(max_iter=5)] * 2, maps=[{"2": "0"}, None], max_iter=2, tol=0.0, engine=engine)
    return made.fit([X, X[:, :3]], y).model_.parameters(), made.history_.objective


def ge(engine: Any) -> Any:
    targets = [shares({"D": 0.9}, where=word == "the").penalty(1.0, "l2"), (count("V") >= 1).penalty(1.0, "squared")]
    made = GE(CRF(LABELS, l2=0.1), targets, max_iter=1, tol=0.0, engine=engine).fit(TEXT, SOME)
    return made.model_.parameters(), made.history_.objective


def aligned(engine: Any, **settings: Any) -> Any:
    aligner = Aligner(engine=engine, n_jobs=1, **settings)
    links = [one.pharaoh(scores=True) for one in aligner.fit_align(toy_text(400)[0])]
    return links, aligner.model_.parameters(), aligner.history_.objective


def induced(engine: Any, method: str) -> Any:
    inducer = Inducer(4, method=method, max_iter=6, em_iter=3, frequent=3, random_state=0, engine=engine).fit(TEXT)
    return inducer.states(), inducer.model_.parameters(), inducer.labels_per_word_, inducer.history_.objective


def extracted(engine: Any, method: str) -> Any:
    rules = """
labels = ["NAME", "YEAR"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)\\d\\d$'
then_label = "YEAR"
strength = "learned"
"""
    texts = [tokenise(f"{name} {year}") for name in ("Ann Lee", "Bo", "Cy Fox Day") for year in range(1900, 2020)]
    few = [replace(t, labels=("NAME",) * (len(t) - 1) + ("YEAR",)) for t in texts[:360:60]]
    made = Extractor(rules, method=method, max_iter=2, engine=engine).fit(few, unlabelled=texts)
    return made.ccm_.model_.parameters(), made.predict(texts[:30])


def crf(engine: Any) -> Any:
    return CRF(l2=0.1, max_iter=12, tol=0.0, engine=engine).fit(TEXT, TAGS).parameters()


def transferred(engine: Any) -> Any:
    trees = treebank(60)
    links = [[(i, i) for i in range(len(s))] for s in trees]
    made = Transfer(model="likelihood", max_iter=2, steps=4, bits=12, engine=engine).fit([(s, s) for s in trees], links)
    return made.model_.parameters(), [s.columns["head"] for s in made.predict(trees)]


def trees_induced(engine: Any) -> Any:
    rules = '[[rule]]\narcs = "count"\nhead_root = true\nchild_column = { upos = "VERB" }\nat_least = 0.9'
    made = TreeInducer(rules=rules, max_iter=3, engine=engine).fit(treebank(60))
    return made.model_.parameters(), made.history_.objective


def aggregated(engine: Any) -> Any:
    made = Aggregator(max_iter=3, engine=engine).fit(drawn(200)[0])
    return made.labels_, made.accuracies_


def maxent(engine: Any) -> Any:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2_000, 5))
    return MaxEnt(max_iter=10, tol=0.0, engine=engine).fit(features, rng.integers(3, size=2_000)).parameters()


LOCAL = [count("V") >= 1, count("N") <= 2.5]
COUPLING = [count("V").per("corpus") <= 0.4 * count().per("corpus"), *LOCAL]
SPARSE = [few_labels_per(word, strength=4.0, min_count=3)]
RUNS: dict[str, Any] = {
    "transfer": transferred,
    "induce trees": trees_induced,
    "aggregate": aggregated,
    "em": uem,
    "pr": lambda e: uem(e, LOCAL),
    "pr at another temperature": lambda e: uem(e, LOCAL, gamma=0.3),
    "pr over the corpus": lambda e: uem(e, COUPLING),
    "lp-em": lambda e: uem(e, LOCAL, gamma=0.0, max_iter=2),
    "l1/linf": lambda e: uem(e, SPARSE, max_evaluations=5),
    "few dual steps": lambda e: uem(e, SPARSE, few_dual_steps=2),
    "few dual steps while annealing": lambda e: uem(e, SPARSE, few_dual_steps=2, gamma=[2.0, 1.5, 1.0]),
    "online": lambda e: uem(e, LOCAL, online=100),
    "uniform start, partly labelled": lambda e: uem(e, LOCAL, SOME, start="uniform"),
    "beta": lambda e: uem(e, LOCAL, SOME, beta=0.5),
    "pr of a crf": lambda e: uem(e, LOCAL, SOME, CRF(LABELS, max_iter=5, l2=0.1), max_iter=2),
    "pr of a semi-crf": lambda e: uem(e, LOCAL, SOME, SemiCRF(LABELS, max_iter=5, l2=0.1, longest=3), max_iter=2),
    "codl": codl,
    "codl with k best": lambda e: codl(e, k_best=2),
    "ccm by pr": lambda e: by_rules(e, "pr"),
    "ccm by hard em": lambda e: by_rules(e, "hard-em"),
    "crf": crf,
    "maxent": maxent,
    "views": views,
    "views through maps": mapped_views,
    "ge": ge,
    "align": aligned,
    "align by grow-diag": lambda e: aligned(e, symmetrize="grow-diag", gamma=0.5),
    "induce by em": lambda e: induced(e, "em"),
    "induce sparse": lambda e: induced(e, "sparse"),
    "extract by codl": lambda e: extracted(e, "codl"),
    "extract by pr": lambda e: extracted(e, "pr"),
}
ON_A_CLUSTER = [
    "pr", "pr over the corpus", "few dual steps", "pr of a crf", "codl", "crf", "align", "induce sparse",
    "extract by codl", "extract by pr",
]  # fmt: skip


def assert_same(one: Any, other: Any, where: str = "") -> None:
    if isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            assert_same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, np.ndarray):
        assert one.dtype == other.dtype, where
        np.testing.assert_array_equal(one, other, err_msg=where)
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), where
        for number, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_same(a, b, f"{where}[{number}]")
    else:
        assert one == other, where


known: dict[str, Any] = {}


def alone(name: str) -> Any:
    """The bits of one thread."""
    if name not in known:
        known[name] = RUNS[name](SerialEngine())
    return known[name]


pytestmark = pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_copies_of_everything_give_the_bits_of_one_thread(name: str) -> None:
    assert_same(alone(name), RUNS[name](IsolatingEngine()))


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_threads_give_the_bits_of_one(name: str) -> None:
    assert_same(alone(name), RUNS[name](ThreadEngine(3)))


def test_the_corpora_of_these_tests_have_several_shards() -> None:
    from trellis.engine import shards_of

    assert len(shards_of(hmm().encode(TEXT, fit=True))) > 2


# on a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    engine = DaskEngine.local(2)
    yield engine
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_A_CLUSTER)
def test_two_worker_processes_give_the_bits_of_one_thread(name: str, cluster: Any) -> None:
    assert_same(alone(name), RUNS[name](cluster))


def _counted(parameters: float, item: int, state: float | None) -> tuple[float, float]:
    time.sleep(0.01)
    total = (state or 0.0) * parameters + item
    return total, total


@pytest.mark.slow
def test_a_worker_that_dies_costs_time_alone(cluster: Any) -> None:
    here, there = SerialEngine().place(list(range(75))), cluster.place(list(range(75)))
    for turn in range(4):
        expected = list(here.run(_counted, 0.5))
        found = []
        for number, result in enumerate(there.run(_counted, 0.5)):
            found.append(result)
            if turn in (1, 2) and number == 20:
                pids = list(cluster.client.run(os.getpid).values())
                os.kill(pids[0], signal.SIGKILL)
        assert found == expected
    assert there.states == here.states


def wait_for_two(cluster: Any, but: str = "") -> None:
    deadline = time.monotonic() + 120
    while len(set(cluster.workers()) - {but}) < 2:
        assert time.monotonic() < deadline, "Dask starts no other worker"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_worker_that_comes_back_is_given_its_share_and_the_other_forgets_it(cluster: Any) -> None:
    wait_for_two(cluster)
    here, there = SerialEngine().place(list(range(400))), cluster.place(list(range(400)))
    assert max(map(len, there.groups)) == dask_engine.MOST
    assert list(here.run(_counted_fast, 0.5)) == list(there.run(_counted_fast, 0.5))
    victim = there.worker[0]
    os.kill(cluster.client.run(os.getpid)[victim], signal.SIGKILL)
    wait_for_two(cluster, but=victim)
    for _ in range(2):
        assert list(here.run(_counted_fast, 0.5)) == list(there.run(_counted_fast, 0.5))
    assert set(there.worker) == set(cluster.workers())
    kept = cluster.client.run(_kept_of, there.name)
    assert sorted(kept.values()) == [len(there.groups) // 2, -(-len(there.groups) // 2)]
    assert there.states == here.states


def _counted_fast(parameters: float, item: int, state: float | None) -> tuple[float, float]:
    total = (state or 0.0) * parameters + item
    return total, total


def _kept_of(name: str) -> int:
    return sum(key[0] == name for key in dask_engine._kept)


def _large(parameters: None, item: int, state: int | None) -> tuple[Any, int]:
    return np.full(dask_engine.ANSWER // 16, item + 100.0 * (state or 0)), (state or 0) + 1


@pytest.mark.slow
def test_large_results_come_in_several_answers(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "GROUPS", 1)
    there = cluster.place(list(range(8)))
    assert [len(group) for group in there.groups] == [4, 4]
    answers, taken = [], _Pass.next

    def counted(self: Any) -> Any:
        answers.append(taken(self))
        return answers[-1]

    monkeypatch.setattr(_Pass, "next", counted)
    for turn in (1, 2):
        found = [float(result[0]) for result in there.run(_large)]
        assert found == [item + 100.0 * (turn - 1) for item in range(8)]
        assert there.states == [turn] * 8
        assert [len(one) for one in answers] == [2, 2, 2, 2] * turn


@pytest.mark.slow
def test_a_worker_that_dies_between_two_answers_about_a_group(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "GROUPS", 1)
    wait_for_two(cluster)
    there = cluster.place(list(range(8)))
    for turn in range(3):
        found = []
        for number, result in enumerate(there.run(_large)):
            found.append(float(result[0]))
            if turn == 1 and number == 0:
                victim, survivor = there.worker
                os.kill(cluster.client.run(os.getpid)[victim], signal.SIGKILL)
                monkeypatch.setattr(cluster, "workers", lambda survivor=survivor: [survivor])  # none joins in its place
        assert found == [item + 100.0 * turn for item in range(8)]
        assert there.states == [turn + 1] * 8


def _refused(parameters: None, item: int, state: None) -> tuple[None, None]:
    if item == 2:
        raise InfeasibleError("no way", instances=(7,), slack=0.5)
    if item == 5:
        raise KeyError("a bug")
    return None, None


@pytest.mark.slow
def test_errors_come_back_as_themselves(cluster: Any) -> None:
    with pytest.raises(InfeasibleError, match="no way") as found:
        list(cluster.place(list(range(8))).run(_refused))
    assert found.value.instances == (7,)
    assert found.value.slack == 0.5
    assert "in shard 2" in found.value.__notes__[0]


@pytest.mark.slow
def test_a_pass_that_is_left_in_the_middle_is_as_if_it_had_not_been(cluster: Any) -> None:
    here, there = SerialEngine().place(list(range(75))), cluster.place(list(range(75)))
    assert list(here.run(_counted, 0.5)) == list(there.run(_counted, 0.5))
    for result in there.run(_counted, 9.0):
        if result > 5:
            break
    assert list(here.run(_counted, 0.5)) == list(there.run(_counted, 0.5))


@pytest.mark.slow
def test_items_that_were_cancelled_on_their_way_are_sent_again(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    here, there = SerialEngine().place(list(range(75))), cluster.place(list(range(75)))
    there.absent.clear()  # as after a pass that was left, or a worker's death, before they were kept
    asked, ask = [], _Pass.ask

    def counted(self: Any, group: int) -> None:
        asked.append(group)
        assert len(asked) < 200, "asked for ever"
        ask(self, group)

    monkeypatch.setattr(_Pass, "ask", counted)
    assert list(here.run(_counted, 0.5)) == list(there.run(_counted, 0.5))


@pytest.mark.parametrize("wrong", ["tasks", "threads", 3, SerialEngine, object()])
def test_what_is_no_engine_is_refused(wrong: Any) -> None:
    with pytest.raises(DataError, match="engine must be"):
        engine_for(1, wrong)


@pytest.mark.slow
def test_an_address_without_a_scheduler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_engine, "CONNECTING", 0.1)
    with pytest.raises(DataError, match="no Dask scheduler at 'tcp://127.0.0.1:1'"):
        engine_for(1, "tcp://127.0.0.1:1")
