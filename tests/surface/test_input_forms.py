"""Every estimator answers for each instance as often as it is given, whatever holds the instances and beside which."""

from __future__ import annotations

import inspect

import pytest

from tests.surface.examples import EXAMPLES, EXPORTED, fitted, plain, same
from trellis.errors import TrellisError
from trellis.models.estimator import Estimator

CALLS = [(name, call) for name, example in EXAMPLES.items() for call in example.each]
IN_FORMS = [(name, form) for name, example in EXAMPLES.items() for form in example.forms]
NOT_FOR_INSTANCES = {
    # learning, settings and files
    "fit", "fit_align", "fit_pairs", "train", "get_params", "set_params", "save", "load", "from_file", "learned",
    "restore", "check_settings", "tune_threshold", "source_model", "learner", "step_of", "loop_over", "trained",
    "constraints",
    "fit_trees",
    # what learners ask of models, in terms of batches and parameters
    "encode", "decode", "parts", "scores", "uniform", "collect", "count", "update", "log_prior", "reset", "randomize",
    "parameters", "set_parameters", "bare", "probabilities", "gradient", "vector", "set_vector", "pseudo_counts", "phi",
    "stochastic_step", "loss", "at", "lower", "given_counts", "batch", "corpus", "texts", "codes",
    "answers", "best_trees", "described", "tokenise", "confidence", "slots_seen", "conserved",
    # one result about all instances
    "relation_scores",
    # what was learned
    "feature_weight", "translations", "sample", "states", "tagged",
    # of one text beside others
    "rank",
    # which pairs are learned from
    "best_pairs",
    # of networks
    "in_place_of", "margin_step", "likelihood_loss", "relations_of", "form_of", "with_ties",
}  # fmt: skip


def exported():
    found = {name: kind for name, kind in EXPORTED.items() if inspect.isclass(kind) and issubclass(kind, Estimator)}
    return {name: kind for name, kind in found.items() if hasattr(kind, "fit")}


def batch(example, *instances):
    """Instances in the plain form; of views, each of them sees the same."""
    given = list(instances)
    return [given, given] if example is EXAMPLES["MultiView"] else given


def run(name, call, X):
    example = EXAMPLES[name]
    return plain(list({**example.each, **example.whole}[call](fitted(name), X)))


def test_every_exported_estimator_is_in_the_table():
    assert set(exported()) == set(EXAMPLES)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_public_method_is_tried_or_is_not_about_instances(name):
    kind, example = exported()[name], EXAMPLES[name]
    members = {key: getattr(kind, key) for key in dir(kind) if not key.startswith("_")}
    public = {key for key, member in members.items() if callable(member) and not inspect.isclass(member)}
    tried = {*example.each, *example.whole}
    assert public - tried - NOT_FOR_INSTANCES == set(), "try it in EXAMPLES, or list it in NOT_FOR_INSTANCES"


@pytest.mark.parametrize("name, call", CALLS)
def test_an_instance_gets_the_same_result_alone_in_a_pair_and_among_many(name, call):
    example = EXAMPLES[name]
    items = list(example.instances)
    many = run(name, call, batch(example, *items))
    assert len(many) == len(items)
    assert len({str(one) for one in many}) > 1, "instances that cannot be told apart test nothing"
    for i, item in enumerate(items):
        [alone] = run(name, call, batch(example, item))
        assert same(alone, many[i], example.rounding)
        other = items[(i + 1) % len(items)]
        pair = run(name, call, batch(example, item, other))
        assert len(pair) == 2
        assert same(pair[0], alone, example.rounding)
        assert same(run(name, call, batch(example, other, item))[1], alone, example.rounding)
    assert same(run(name, call, batch(example, *items[::-1])), many[::-1], example.rounding)


@pytest.mark.parametrize("name, form", IN_FORMS)
def test_the_form_of_the_instances_changes_nothing(name, form):
    example = EXAMPLES[name]
    items = list(example.instances)
    for call, function in (example.each | example.whole).items():
        wanted = plain(_listed(function(fitted(name), batch(example, *items))))
        assert same(plain(_listed(function(fitted(name), example.forms[form](items)))), wanted, example.rounding), call


@pytest.mark.parametrize("name, call", [pair for pair in CALLS if EXAMPLES[pair[0]].empty is not None])
def test_empty_instances_have_empty_results_and_change_no_other(name, call):
    example = EXAMPLES[name]
    items, empty = list(example.instances), example.empty
    wanted = run(name, call, batch(example, *items))
    [nothing] = run(name, call, batch(example, empty))
    assert run(name, call, batch(example, empty, empty)) == [nothing, nothing]
    for where in range(len(items) + 1):
        found = run(name, call, batch(example, *items[:where], empty, *items[where:]))
        assert same(found, [*wanted[:where], nothing, *wanted[where:]], example.rounding)


@pytest.mark.parametrize("name, call", CALLS)
def test_no_instances_have_no_results(name, call):
    example = EXAMPLES[name]
    for nothing in ([], (), iter(())):
        given = [nothing, nothing] if name == "MultiView" else nothing
        if example.none:
            assert run(name, call, given) == []
        else:
            with pytest.raises(TrellisError):
                run(name, call, given)


def _listed(result):
    return list(result) if inspect.isgenerator(result) else result
