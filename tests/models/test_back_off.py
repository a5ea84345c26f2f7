"""Emissions that fall back on forms, against the formula written out."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.errors import DataError
from trellis.models import HMM, load_model

WORDS = [["Ann", "ran", "12"], ["Bob", "Ann", "7"], ["ran", "12", "12"]]
LABELS = [("N", "V", "D"), (None, None, None), ("V", "D", "D")]
FORMS = {"Ann": "X", "Bob": "X", "ran": "x", "12": "9", "7": "9"}


def corpus():
    return corpus_of(
        Document(tuple(own), y, {"form": tuple(FORMS[w] for w in own)}) for own, y in zip(WORDS, LABELS, strict=True)
    )


def test_emissions_are_those_of_the_formula():
    kappa, prior = 0.7, 1.25
    hmm = HMM(["N", "V", "D"], min_count=1, back_off=kappa, emission_prior=prior).fit(corpus())
    symbols, counts, often = list(hmm.symbols_), {}, {}
    for own, y in zip(WORDS, LABELS, strict=True):
        for w, label in zip(own, y, strict=True):
            often[w] = often.get(w, 0.1) + 1
            counts[w, label] = counts.get((w, label), 0) + 1
    kinds = [*dict.fromkeys(FORMS.values())] + [
        s for s in symbols if s not in FORMS
    ]  # a symbol never seen is its own form
    form = {s: FORMS.get(s, s) for s in symbols}
    for k, label in enumerate(("N", "V", "D")):
        of_form = {f: 0.01 + sum(counts.get((w, label), 0) for w in FORMS if FORMS[w] == f) for f in kinds}
        total = sum(of_form.values())
        raised = []
        for s in symbols:
            alike = [o for o in symbols if form[o] == form[s]]
            share = often.get(s, 0.1) / sum(often.get(o, 0.1) for o in alike)
            raised.append(counts.get((s, label), 0) + prior - 1 + kappa * of_form[form[s]] / total * share)
        np.testing.assert_allclose(hmm.emission_[:, k], np.array(raised) / sum(raised))
    assert hmm.emission_[symbols.index("Bob"), 0] > 3 * hmm.emission_[symbols.index("Bob"), 2]


def test_saved_and_loaded_learns_on_the_same_way(tmp_path):
    hmm = HMM(["N", "V", "D"], min_count=1, back_off=1.0).fit(corpus())
    hmm.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    np.testing.assert_array_equal(again.emission_, hmm.emission_)
    again.update(again.count(again.encode(corpus())))
    np.testing.assert_allclose(again.emission_, hmm.emission_)


def test_mistakes_are_explained():
    with pytest.raises(DataError, match="back_off requires emissions='table'"):
        HMM(["N"], back_off=1.0, emissions="features").fit([["a"]], [["N"]])
    with pytest.raises(DataError, match="back_off"):
        HMM(["N"], back_off=-1.0).fit([["a"]], [["N"]])
