"""Gradients of log-partitions and of distances to constraints, by finite differences, for every structure."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from tests.projection.cases import HARD, EachKind, build_problem, random_case  # noqa: E402
from trellis.constraints import compile_constraints, count  # noqa: E402
from trellis.constraints.arcs import arcs  # noqa: E402
from trellis.constraints.strength import Kind, Norm  # noqa: E402
from trellis.data.batch import Batch  # noqa: E402
from trellis.data.vocabulary import Vocabulary  # noqa: E402
from trellis.neural.arborescence import tree_log_partition  # noqa: E402
from trellis.neural.forms import FORMS, form_of  # noqa: E402
from trellis.neural.functions import distance, log_partition  # noqa: E402
from trellis.neural.scan import chain_log_partition  # noqa: E402
from trellis.structures import SpanningTrees, TreeParts  # noqa: E402

LENGTHS = [3, 1, 0, 4]
OFFSETS = np.cumsum([0, *LENGTHS])
NAMES = Vocabulary(["A", "B", "C"], kind="label")
WEIGHTS = np.array([1.0, 0.5, 2.0, 1.5])


def tensors(structure, seed=0):
    """Random scores of a batch, in double precision."""
    rng = np.random.default_rng(seed)
    shapes = {"chain": [(8, 3), (3, 3), (3,), (3,)], "categorical": [(4, 3)]}
    n_arcs = TreeParts(OFFSETS).n_parts
    made = [rng.normal(size=shape) for shape in shapes.get(structure, [(n_arcs,)])]
    return [torch.tensor(one, requires_grad=True) for one in made]


def batch_of(structure):
    return Batch.from_sentences([["w"] * (1 if structure == "categorical" else n) for n in LENGTHS])


def known_of(structure):
    """Labels or heads, some of them known."""
    if structure == "categorical":
        return np.array([-1, 2, 0, -1], np.int32)
    if structure == "chain":
        return np.array([0, -1, -1, 2, -1, -1, 1, -1], np.int32)
    return np.array([2, -1, -1, 0, -1, 0, -1, -1], np.int32)


every_structure = pytest.mark.parametrize("structure", list(FORMS))


@every_structure
def test_the_gradient_of_a_log_partition_is_the_marginals(structure):
    form, offsets = FORMS[structure], batch_of(structure).offsets
    assert torch.autograd.gradcheck(lambda *t: log_partition(form, offsets, t, WEIGHTS), tensors(structure))


@every_structure
def test_the_gradient_of_a_likelihood_of_partly_known_outputs(structure):
    form, offsets, known = FORMS[structure], batch_of(structure).offsets, known_of(structure)
    assert torch.autograd.gradcheck(lambda *t: distance(form, offsets, t, known, None, WEIGHTS), tensors(structure))


@every_structure
def test_the_gradient_of_the_distance_to_constraints(structure):
    """min_q KL(q ‖ p): q moves with the scores, but counts for nothing, since it is optimal."""
    form, batch = FORMS[structure], batch_of(structure)
    parts = form.structure(batch.offsets, [t.detach().numpy() for t in tensors(structure)]).parts
    rows = constraint_rows(structure, batch, parts)
    assert torch.autograd.gradcheck(
        lambda *t: distance(form, batch.offsets, t, None, rows, WEIGHTS, 1e-11), tensors(structure), eps=1e-4, atol=1e-5
    )


def constraint_rows(structure, batch, parts):
    if structure in ("chain", "categorical"):
        return compile_constraints([count("B") <= 0.3, count("A").per("corpus") <= 1.5], batch, NAMES, parts)
    return compile_constraints([arcs(direction="left").per("corpus") >= 3.5], batch, NAMES, parts)


def with_scores_of_parts(kind):
    """A batch of the kind, its form with scores that are added to all of its parts, and such scores."""
    rng = np.random.default_rng(3)
    case = random_case(rng, kind)
    every = np.arange(case.n_parts)
    form = form_of(lambda offsets, scores: case.structure().add(every, scores))
    return case, form, torch.tensor(rng.normal(size=case.n_parts), requires_grad=True)


@EachKind
def test_any_structure_with_scores_of_parts_has_gradients(kind):
    """Segments, word alignments, joint structures, and one that the library does not know."""
    case, form, scores = with_scores_of_parts(kind)
    offsets = np.arange(case.n_instances + 1)
    assert torch.autograd.gradcheck(lambda t: log_partition(form, offsets, [t], WEIGHTS), [scores])


@EachKind
def test_any_structure_has_gradients_under_constraints(kind):
    case, form, scores = with_scores_of_parts(kind)
    offsets = np.arange(case.n_instances + 1)
    groups = [("local", HARD, 2), ("coupling", (Kind.PENALTY, Norm.L2), 1)]
    rows = build_problem(np.random.default_rng(4), case, 1.0, groups, equality=0.0).rows
    assert distance(form, offsets, [scores], None, rows, WEIGHTS, 1e-11).item() > 1e-3
    assert torch.autograd.gradcheck(
        lambda t: distance(form, offsets, [t], None, rows, WEIGHTS, 1e-11), [scores], eps=1e-4, atol=1e-5
    )


def test_batched_scans_of_chains_are_the_kernels():
    given = tensors("chain", seed=1)
    assert torch.autograd.gradcheck(lambda *t: chain_log_partition(OFFSETS, t, WEIGHTS), given)
    ours, theirs = (
        f(*a)
        for f, a in (
            (chain_log_partition, (OFFSETS, given, WEIGHTS)),
            (log_partition, (FORMS["chain"], OFFSETS, given, WEIGHTS)),
        )
    )
    torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)
    for a, b in zip(torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("single_root", [True, False])
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_batched_determinants_of_trees_are_the_kernels(single_root, scale):
    """With large scores some matrices are near to singular: those sentences go through the kernels."""
    arc = (tensors("trees", seed=2)[0].detach() * scale).requires_grad_()
    form = form_of(lambda offsets, scores: SpanningTrees(offsets, scores, single_root=single_root))
    ours = tree_log_partition(OFFSETS, arc, WEIGHTS, single_root=single_root)
    theirs = log_partition(form, OFFSETS, [arc], WEIGHTS)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
    a, b = torch.autograd.grad(ours, arc), torch.autograd.grad(theirs, arc)
    torch.testing.assert_close(a[0], b[0], rtol=1e-6, atol=1e-6)
