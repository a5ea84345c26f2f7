"""StructuredLoss: labelled sentences and sentences under constraints in one batch, for every form of scores."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis.constraints import arcs, compile_constraints, count  # noqa: E402
from trellis.data.batch import Batch  # noqa: E402
from trellis.errors import TrellisError  # noqa: E402
from trellis.neural import ChainCRF, StructuredLoss, constrained_decode  # noqa: E402
from trellis.neural.forms import form_of  # noqa: E402
from trellis.projection import project  # noqa: E402
from trellis.structures import SegmentParts  # noqa: E402

from .test_gradients import NAMES  # noqa: E402

X = [["a", "b"], ["c", "d", "e"], ["f"]]
FREE = np.array([1, 2])


def segments(offsets, scores):
    parts = SegmentParts(offsets, 3, 2)
    return parts.zeros().add(np.arange(parts.n_parts), scores)


KINDS = {
    "chain": ("chain", [(6, 3), (3, 3), (3,), (3,)], [["A", "B"], None, None], [count("B") >= 1]),
    "trees": ("trees", [(14,)], [[2, 0], None, None], [arcs(direction="left").per("corpus") >= 1.5]),
    "segments": (segments, [(SegmentParts(np.array([0, 2, 5, 6]), 3, 2).n_parts,)], [["A", "B"], None, None],
                 [count("B") >= 1]),
}  # fmt: skip


@pytest.mark.parametrize("kind", list(KINDS))
def test_labelled_and_constrained_sentences_are_told_apart(kind):
    structure, shapes, y, rules = KINDS[kind]
    rng = np.random.default_rng(5)
    given = [torch.tensor(rng.normal(size=shape), requires_grad=True) for shape in shapes]
    names = [] if kind == "trees" else list(NAMES)
    loss = StructuredLoss(structure, names or None, rules, reduction="sum", projection_tol=1e-10)
    total = loss(given if kind == "chain" else given[0], X, y)
    batch = Batch.from_sentences(X)
    scores = form_of(structure).structure(batch.offsets, [one.detach().numpy() for one in given])
    known = np.array([2, 0] if kind == "trees" else [0, 1], np.int32)
    rest = scores.take(FREE)
    rows = compile_constraints(rules, batch.take(FREE), NAMES, rest.parts)
    distance = project(rest, rows, tolerance=1e-10).value + rest.infer().log_partition.sum()
    assert distance > 1e-3
    assert total.item() == pytest.approx(distance - scores.take(np.array([0])).log_prob(known)[0], abs=1e-8)
    total.backward()
    assert all(torch.isfinite(one.grad).all() and one.grad.abs().max() > 1e-3 for one in given)


SCORES = torch.zeros(3, 2), torch.zeros(2, 2), torch.zeros(2), torch.zeros(2)
SENTENCES, TAGS, ONE_RULE = [["a", "b"], ["c"]], ["N", "V"], [count("V") >= 1]
WRONG = {
    "constraints": lambda: StructuredLoss("chain", TAGS, 3),
    "tolerance": lambda: StructuredLoss("chain", TAGS, ONE_RULE, projection_tol="small"),
    "tolerance of 0": lambda: StructuredLoss("chain", TAGS, ONE_RULE, projection_tol=0.0),
    "reduction": lambda: StructuredLoss("chain", TAGS, reduction="max"),
    "labels": lambda: StructuredLoss("chain", TAGS)(SCORES, SENTENCES, np.array([1.0, np.nan])),
    "heads": lambda: StructuredLoss("trees")(torch.zeros(5), SENTENCES, [["x", 0], [0]]),
    "heads of one sentence": lambda: StructuredLoss("trees")(torch.zeros(5), SENTENCES, [[2, 0]]),
    "heads that are no list": lambda: StructuredLoss("trees")(torch.zeros(5), SENTENCES, ["20", 3]),
    "lengths": lambda: ChainCRF(TAGS).decode(SCORES[0], [2, 2]),
    "lengths that are no numbers": lambda: ChainCRF(TAGS).marginals(SCORES[0], ["a"]),
    "scores that are no tensor": lambda: ChainCRF(TAGS).decode([[0.0, 0.0]], [1]),
    "rules": lambda: constrained_decode(SCORES, 3, SENTENCES, TAGS),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments_are_refused(what):
    with pytest.raises(TrellisError):
        WRONG[what]()


@pytest.mark.parametrize("form", [list, tuple, np.array, torch.tensor])
def test_lengths_may_come_in_a_list_an_array_or_a_tensor(form):
    assert [len(one) for one in ChainCRF(TAGS).decode(SCORES[0], form([2, 1]))] == [2, 1]
