"""NeuralParser: heads and relations from a network, under learners and constraints, and its file."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis.constraints import arcs, column  # noqa: E402
from trellis.errors import DataError  # noqa: E402
from trellis.learn import UEM, CoDL  # noqa: E402
from trellis.models import load_model  # noqa: E402
from trellis.neural import BiLSTM, NeuralParser  # noqa: E402
from trellis.neural.parser import RELATION  # noqa: E402

TEXT = [
    [("the", "D"), ("dog", "N"), ("barks", "V")],
    [("dogs", "N"), ("bark", "V")],
    [("a", "D"), ("cat", "N"), ("sees", "V"), ("the", "D"), ("dog", "N")],
    [("stop", "V")],
]
HEADS = [[2, 3, 0], [2, 0], [2, 3, 0, 5, 3], [0]]
RELATIONS = [["det", "nsubj", "root"], ["nsubj", "root"], ["det", "nsubj", "root", "det", "obj"], ["root"]]


def small(**settings):
    encoder = BiLSTM(word_size=8, char_size=4, tag_size=8, hidden=12, layers=1, min_count=1, dropout=0.0)
    given = {"max_iter": 60, "learning_rate": 0.02, "batch_size": 2, "dropout": 0.0, **settings}
    return NeuralParser(encoder, arc_size=12, relation_size=6, **given)


@pytest.mark.parametrize("projective", [True, False])
def test_it_learns_heads_and_relations_and_keeps_them_in_a_file(projective, tmp_path):
    parser = small(projective=projective).fit(TEXT, HEADS, relations=RELATIONS)
    assert parser.predict(TEXT) == HEADS
    batch = parser.encode(TEXT, HEADS)
    flat = [r for own in RELATIONS for r in own]
    assert parser.relations_of(batch, batch.labels) == flat
    parser.save(tmp_path / "parser.trellis")
    again = load_model(tmp_path / "parser.trellis")
    assert again.predict(TEXT) == HEADS
    assert again.relations_of(batch, batch.labels) == flat
    for one, other in zip(parser.predict_proba(TEXT), again.predict_proba(TEXT), strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_gradient_of_its_loss_is_that_of_the_kernels_and_of_determinants():
    from trellis.neural.arborescence import tree_log_partition

    parser = small(max_iter=1).fit(TEXT, HEADS)
    batch = parser.encode(TEXT, HEADS)
    targets = parser.collect(batch, parser.scores(batch).certain(batch.outputs)).joined()
    net = parser.net_
    one = torch.autograd.grad(parser.likelihood_loss(net, targets), net.arcs.weight)[0]
    parser._log_partition = lambda batch, tensors, weights: tree_log_partition(batch.offsets, tensors[0], weights)
    other = torch.autograd.grad(parser.likelihood_loss(net, targets), net.arcs.weight)[0]
    assert one.abs().max() > 1e-3
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_arcs_of_a_sentence_do_not_depend_on_its_neighbours():
    parser = small(max_iter=3).fit(TEXT, HEADS)
    alone = [parser.scores(parser.encode([sentence])).arc for sentence in TEXT]
    np.testing.assert_allclose(parser.scores(parser.encode(TEXT)).arc, np.concatenate(alone), atol=1e-5)


@pytest.mark.parametrize("learner", [UEM, CoDL])
def test_a_rule_about_arcs_teaches_what_no_tree_shows(learner):
    """No tree is known but one: that verbs head nouns is said by a rule."""
    tag = column("upos")
    rules = [
        arcs(head=tag == "V", child=tag == "N", share=True).per("corpus") >= 0.99,
        arcs(head=tag == "N", child=tag == "D", share=True).per("corpus") >= 0.99,
    ]
    if learner is CoDL:
        rules = [arcs(head=tag == "D") <= 0]
    settings = {"tol": 0} if learner is UEM else {"beta": None}
    found = learner(small(max_iter=20), rules, max_iter=4, **settings).fit(TEXT, [None, HEADS[1], None, None])
    assert found.predict(TEXT)[1] == HEADS[1]
    if learner is UEM:  # "the" goes to its nearest noun only by chance: heads of nouns are what is determined
        assert [h for own in (found.predict(TEXT)[0], found.predict(TEXT)[3]) for h in own] == [2, 3, 0, 0]


def test_same_seed_same_parser():
    one, other, third = (small(max_iter=3, dropout=0.3, random_state=seed).fit(TEXT, HEADS) for seed in (0, 0, 1))
    for name, array in one.parameters().items():
        np.testing.assert_array_equal(array, other.parameters()[name])
    assert any(np.any(array != third.parameters()[name]) for name, array in one.parameters().items())


def test_crossing_trees_are_learned_only_where_they_may_be():
    crossing = [[3, 4, 0, 3]]
    text = [[("a", "A"), ("b", "B"), ("c", "C"), ("d", "D")]]
    assert small(max_iter=200).fit(text, crossing).predict(text) == crossing
    with pytest.raises(DataError, match="no sentence has a complete tree"):
        small(projective=True).fit(text, crossing)


def test_mistakes_are_told():
    with pytest.raises(DataError, match="expected relations for 4 sentences but got 1"):
        small().fit(TEXT, HEADS, relations=[["root"]])
    parser = small(max_iter=1).fit(TEXT, HEADS)
    batch = parser.encode(TEXT, HEADS)
    assert RELATION not in batch.columns
    with pytest.raises(DataError, match="no relations were learned"):
        parser.relations_of(batch, batch.labels)
    with pytest.raises(DataError, match="needs an encoder"):
        NeuralParser(torch.nn.Linear(2, 2)).fit(TEXT, HEADS)
