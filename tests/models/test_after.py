"""Transitions that depend on what the token before says, against sums over all label sequences."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.errors import DataError
from trellis.models import CRF, HMM, load_model
from trellis.models.views import Views

WORDS = [["a", ",", "b", "."], ["b", "a"], [",", "a", ".", "b", "a"]]
LABELS = [("N", "N", "V", "V"), (None, None), ("V", "V", "V", "N", "V")]


def corpus(labels=LABELS, words=WORDS):
    def said(word):
        return word if word in ",.;" else ""

    return corpus_of(
        Document(tuple(own), y, {"form": tuple("?" for _ in own), "mark": tuple(map(said, own))})
        for own, y in zip(words, labels, strict=True)
    )


def made(**settings):
    return HMM(
        ["N", "V"],
        **{"min_count": 1, "back_off": 0.7, "after": "mark", "transition_prior": 1.25, **settings},
    )


def test_transitions_fall_back_as_the_formula_says():
    hmm = made().fit(corpus())
    counts = {(c, a, b): 0.0 for c in ("", ",", ".") for a in "NV" for b in "NV"}
    for own, y in zip(WORDS, LABELS, strict=True):
        if y[0] is not None:
            for (x, a), (_, b) in pairwise(zip(own, y, strict=True)):
                counts[x if x in ",." else "", a, b] += 1
    kappa, prior, contexts = 0.7, 0.25, ("", ",", ".")

    def n(c, a, b):
        return sum(counts[one, a, b] for one in contexts) if c is None else counts[c, a, b]

    for number, name in enumerate(hmm.contexts_):
        c = name if number else None  # the first is anything
        stays = sum(n(c, a, a) for a in "NV") + 0.5
        stay = stays / (sum(n(c, a, b) for a in "NV" for b in "NV") + 1)
        for row, a in enumerate("NV"):
            tied = [stay if b == a else 1 - stay for b in "NV"]  # of two labels there is one to change to
            wide = np.array([n(None, a, b) + prior + kappa * t for b, t in zip("NV", tied, strict=True)])
            wanted = wide / wide.sum()
            if number:
                wanted = np.array([n(c, a, b) + prior for b in "NV"]) + kappa * wanted
            np.testing.assert_allclose(hmm.transition_[number, row], wanted / wanted.sum())
    assert not np.allclose(hmm.transition_[1], hmm.transition_[2])


def test_posterior_and_statistics_are_those_of_all_sequences():
    hmm = made().fit(corpus())
    batch = hmm.encode(corpus([None] * 3))
    q = hmm.scores(batch).infer()
    number = {name: n for n, name in enumerate(hmm.contexts_)}
    wanted = np.zeros(hmm.transition_.shape)
    for own, log_partition in zip(WORDS, q.log_partition, strict=True):
        x = [hmm.symbols_.number(w) for w in own]
        after = [number[w if w in ",." else ""] for w in own]
        chances = {}
        for y in product((0, 1), repeat=len(own)):
            p = hmm.start_[y[0]] * np.prod([hmm.emission_[s, k] for s, k in zip(x, y, strict=True)])
            chances[y] = p * np.prod([hmm.transition_[c, a, b] for c, (a, b) in zip(after, pairwise(y), strict=False)])
        total = sum(chances.values())
        np.testing.assert_allclose(log_partition, np.log(total))
        for y, p in chances.items():
            for c, (a, b) in zip(after, pairwise(y), strict=False):
                wanted[c, a, b] += p / total
    np.testing.assert_allclose(hmm.collect(batch, q).transition, wanted, atol=1e-12)
    # known labels are counted the same way by fit and by the E-step of a learner
    known = hmm.encode(corpus([LABELS[0], LABELS[2]], [WORDS[0], WORDS[2]]))
    certain = hmm.scores(known).certain(known.labels, weights=known.weights)
    np.testing.assert_allclose(hmm.collect(known, certain).transition, hmm.count(known).transition)


def test_what_training_never_met_is_anything():
    hmm = made().fit(corpus())
    chain = hmm.scores(hmm.encode(corpus([None], [["a", ";", "b"]])))
    np.testing.assert_allclose(chain.tables.edge[chain.edge_index[2]], np.log(hmm.transition_[0]))


def test_saved_and_loaded_is_the_same(tmp_path):
    hmm = made().fit(corpus())
    hmm.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    batch = corpus([None] * 3)
    np.testing.assert_array_equal(again.transition_, hmm.transition_)
    np.testing.assert_array_equal(
        again.scores(again.encode(batch)).infer().node, hmm.scores(hmm.encode(batch)).infer().node
    )


@pytest.mark.parametrize(
    "settings, told",
    [({"back_off": 0.0}, "after needs a back_off above 0"), ({"after": "nothing"}, "nothing")],
)
def test_mistakes_are_explained(settings, told):
    with pytest.raises(DataError, match=told):
        made(**settings).fit(corpus())


def test_a_posterior_of_other_transitions_and_samples_are_refused():
    hmm, plain = made().fit(corpus()), made(after=None).fit(corpus())
    batch = plain.encode(corpus([None] * 3))
    with pytest.raises(DataError, match="own transitions"):
        hmm.collect(hmm.encode(corpus([None] * 3)), plain.scores(batch).infer())
    with pytest.raises(DataError, match="sample does not support"):
        hmm.sample([2])


def test_a_label_that_was_never_seen_goes_on_where_labels_do():
    hmm = HMM(["N", "V", "X"], min_count=1, back_off=1.0, after="mark", transition_prior=1.0).fit(corpus())
    word, stop = (list(hmm.contexts_).index(c) for c in ("", "."))
    assert hmm.transition_[word, 2, 2] != hmm.transition_[stop, 2, 2]
    np.testing.assert_allclose(hmm.transition_.sum(axis=-1), 1.0)
    counts = hmm.count(hmm.encode(corpus())).transition
    stay = (np.trace(counts[word]) + 0.5) / (counts[word].sum() + 1)
    np.testing.assert_allclose(hmm.transition_[word, 2, 2], stay)


def test_a_view_with_contexts_counts_its_own_transitions():
    """An HMM with `after` and a CRF with weights of transitions agree: each counts by its own matrices."""
    views = Views([made(), CRF(["N", "V"], features=seen, edge_features="mark")])
    batch = views.encode([corpus()] * 2, fit=True)
    views.randomize(np.random.default_rng(0))
    scores = views.scores(batch).temper(2.0).clamp(batch.labels)
    every = np.arange(scores.parts.n_parts)
    q = scores.infer(weights=batch.weights, at=every)
    hmm, crf = views.collect(batch, q).members
    member = batch.members[0].column("mark").strings()
    for number, context in enumerate(views.members[0].contexts_):
        here = [t for t, mark in enumerate(np.roll(member, 1)) if mark == context and t not in batch.offsets]
        np.testing.assert_allclose(hmm.transition[number], q.edge[here].sum(axis=0) if number else 0.0, atol=1e-12)
    assert hmm.transition[1:].sum() == pytest.approx(crf.edge.sum())
    one = views.members[1].collect(
        batch.members[1], views.members[1].scores(batch.members[1]).clamp(batch.labels).infer()
    )
    assert one.edge.sum() == pytest.approx(crf.edge.sum())


def seen(sentence, at):
    return [f"word={sentence[at]['word']}", f"mark={sentence[at]['mark']}"]
