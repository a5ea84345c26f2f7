"""What every structure promises of its parts, its scores and its 0/1 program, held against an enumeration.

Each function states one promise and serves structures of every kind.
"""

from __future__ import annotations

import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

from trellis.errors import DataError, InfeasibleError
from trellis.structures import Parts
from trellis.structures.part_set import PartSet

from .agreement import TOLERANCE, assert_logs_agree, assert_probabilities_agree
from .enumeration import Enumeration

LARGEST_PROGRAM = 14
"""0/1 programs of up to this many variables are tried at every point."""


def every_part(parts: Parts) -> np.ndarray:
    return np.arange(parts.n_parts, dtype=np.int64)


# parts


def assert_parts_agree(parts: Parts, listed: Enumeration, choice: tuple[int, ...]) -> None:
    """Numbers of parts, the parts of an output, the instance and the place of each part."""
    assert parts.n_instances == len(listed)
    assert parts.n_parts == listed.n_parts
    used = parts.of(listed.assemble(choice))
    assert used.dtype == np.int64
    np.testing.assert_array_equal(used, np.flatnonzero(listed.used(choice)))
    owner = parts.instance_of(every_part(parts))
    for i, use in enumerate(listed.use):
        assert np.all(owner[use.any(axis=0)] == i)
    place = parts.place_of(every_part(parts))
    assert np.all((place >= 0) & (place < max(parts.n_parts, 1)))
    assert len(np.unique(place[used])) == len(used), "an output uses a place at most once"
    for i in range(len(listed)):
        for j in range(i):
            assert not set(place[owner == i].tolist()) & set(place[owner == j].tolist())


def assert_shards_agree(parts: Parts) -> None:
    """Sizes, split and join against shards and the numbers within them; the general forms against the special ones."""
    everything, n = every_part(parts), parts.n_instances
    owner, sizes = parts.instance_of(everything), parts.sizes()
    assert sizes.shape == (n,)
    np.testing.assert_array_equal(sizes, np.bincount(owner, minlength=n))
    np.testing.assert_array_equal(sizes, Parts.sizes(parts))
    for first in range(n + 1):
        for last in range(first, n + 1):
            shard = parts.shard(first, last)
            assert shard.n_instances == last - first
            kept, numbers = parts.within(everything, first, last)
            np.testing.assert_array_equal(kept, (owner >= first) & (owner < last))
            np.testing.assert_array_equal(np.sort(numbers), np.arange(shard.n_parts))
            np.testing.assert_array_equal(shard.instance_of(numbers), owner[kept] - first)
            np.testing.assert_array_equal(shard.sizes(), sizes[first:last])
            # a shard keeps the number of a part inside its instance
            np.testing.assert_array_equal(shard.split(numbers)[1], parts.split(everything[kept])[1])
    shuffled = np.random.default_rng(0).permutation(np.tile(everything, 2))
    instance, local = parts.split(shuffled)
    general = Parts.split(parts, shuffled)
    np.testing.assert_array_equal(instance, owner[shuffled])
    np.testing.assert_array_equal(instance, general[0])
    np.testing.assert_array_equal(local, general[1])
    assert np.all((local >= 0) & (local < sizes[instance]))
    np.testing.assert_array_equal(parts.join(instance, local), shuffled)
    np.testing.assert_array_equal(Parts.join(parts, instance, local), shuffled)


def assert_outputs_are_cut_by_instance(parts: Parts, listed: Enumeration, choice: tuple[int, ...]) -> None:
    """The piece of an output at an instance is an output of that instance alone; pieces make the output again."""
    whole, n = listed.assemble(choice), len(listed)
    used, pieces = parts.of(whole), parts.split_outputs(whole)
    assert len(pieces) == n
    for i, piece in enumerate(pieces):
        np.testing.assert_array_equal(parts.shard(i, i + 1).of(piece), np.sort(parts.within(used, i, i + 1)[1]))
    np.testing.assert_array_equal(parts.of(parts.join_outputs(pieces)), used)
    for cut in range(n + 1):
        ends = [parts.shard(a, b).join_outputs(pieces[a:b]) for a, b in ((0, cut), (cut, n))]
        np.testing.assert_array_equal(parts.shard(0, cut).of(ends[0]), np.sort(parts.within(used, 0, cut)[1]))
        np.testing.assert_array_equal(parts.of(parts.join_outputs(ends)), used)


def assert_rows_agree(
    parts: Parts, listed: Enumeration, start: np.ndarray, part: np.ndarray, value: np.ndarray
) -> None:
    """Extremes, and the parts that outputs of least value never use, of rows with exact sums.

    The special forms and the general ones of :class:`Parts` make the same promise: where a row is settled, it is at its
    least exactly if none of the parts is used. Special forms of structures with links give bounds of the extremes.
    """
    n_rows = len(start) - 1
    values = [listed.row_values(part[a:b], value[a:b]) for a, b in itertools.pairwise(start.tolist())]
    low = np.array([sum(one.min() for one in row) for row in values], dtype=float)
    high = np.array([sum(one.max() for one in row) for row in values], dtype=float)
    margin = np.full(n_rows, 1e-6)
    for extremes, never_least in (
        (parts.extremes, parts.never_least),
        (lambda *row: Parts.extremes(parts, *row), lambda *row: Parts.never_least(parts, *row)),
    ):
        least, most = extremes(start, part, value)
        if parts.exact_extremes or extremes != parts.extremes:
            np.testing.assert_array_equal(least, low)
            np.testing.assert_array_equal(most, high)
        assert np.all(least <= low)
        assert np.all(most >= high)
        together, settled = never_least(start, part, value, margin)
        assert settled.dtype == np.bool_
        assert settled.shape == (n_rows,)
        assert np.all(np.diff(together.listed()) > 0)
        assert_is_set(together, parts)
        found = []
        for r, (a, b) in enumerate(itertools.pairwise(start.tolist())):
            never, done = never_least(np.array([0, b - a]), part[a:b], value[a:b], margin[:1])
            assert done[0] == settled[r]
            found.append(never.listed())
            for use, one in zip(listed.use, values[r], strict=True):
                is_least = one == one.min()
                uses_one = use[:, never.listed()].any(axis=1)
                assert not np.any(is_least & uses_one), "an output of least value uses a part that none should"
                if done[0]:
                    np.testing.assert_array_equal(is_least, ~uses_one)
        np.testing.assert_array_equal(together.listed(), np.unique(np.concatenate([np.zeros(0, np.int64), *found])))


def assert_is_set(some: PartSet, parts: Parts) -> None:
    """A set of parts knows what it has, cuts as its parts do, and forbids what listed ones would."""
    every, numbers = np.arange(parts.n_parts), some.listed()
    assert len(some) == len(numbers)
    np.testing.assert_array_equal(some.contains(every), np.isin(every, numbers))
    middle = parts.n_instances // 2
    for first, last in ((0, middle), (middle, parts.n_instances)):
        cut = some.within(parts, first, last)
        np.testing.assert_array_equal(cut.listed(), np.sort(parts.within(numbers, first, last)[1]))
        np.testing.assert_array_equal(PartSet.union([cut, cut]).listed(), cut.listed())
    closed, listed = (
        parts.zeros().apply(change) for change in (parts.closing([some, some]), Parts.closing(parts, [some]))
    )
    try:
        expected = listed.infer(at=every)
    except InfeasibleError:
        with pytest.raises(InfeasibleError):
            closed.infer(at=every)
        return
    found = closed.infer(at=every)
    np.testing.assert_array_equal(found.log_partition, expected.log_partition)
    np.testing.assert_array_equal(found.at(every), expected.at(every))


# scores


def assert_scores_agree(structure: Any, listed: Enumeration, choice: tuple[int, ...]) -> None:
    """Log-partitions, marginals at every part, best scores and outputs, scores of outputs."""
    everything = every_part(structure.parts)
    assert len(structure) == len(listed)
    posterior = structure.infer(at=everything)
    assert_logs_agree(posterior.log_partition, listed.log_partition)
    marginals = posterior.at(everything)
    assert_probabilities_agree(marginals, listed.marginals)
    np.testing.assert_array_equal(posterior.at(everything[::-1]), marginals[::-1])
    assert posterior.at(everything[:0]).shape == (0,)
    for best in (structure.argmax(), structure.argmax(np.random.default_rng(3))):
        assert_logs_agree(best.score, listed.best_score)
        assert_logs_agree(structure.score(best.outputs), best.score)
    assert_logs_agree(structure.score(listed.assemble(choice)), listed.score_of(choice))


def assert_max_marginals_agree(structure: Any, listed: Enumeration) -> None:
    """The best score of an output that uses a part, −inf for a hole; or no answer at all."""
    found = structure.max_marginals()
    if found is None:
        return
    best = np.full(listed.n_parts, -math.inf)
    for use, score in zip(listed.use, listed.score, strict=True):
        for row, value in zip(use, score, strict=True):
            best[row] = np.maximum(best[row], value)
    assert_logs_agree(found, best)


def assert_changes_agree(
    structure: Any, listed: Enumeration, part: np.ndarray, value: np.ndarray, gamma: float
) -> None:
    """add, apply, forbid, temper and flat, also one after the other; the structure itself stays as it was."""
    forbidden = part[value == -math.inf]
    change = structure.parts.change(part, value)
    for changed, expected in (
        (structure.add(part, value, gamma), listed.change(part, value, gamma)),
        (structure.apply(change, gamma), listed.change(part, value, gamma)),
        (structure.apply(change).temper(gamma), listed.change(part, value, gamma)),
        (structure.temper(gamma).apply(change), listed.change(part[:0], value[:0], gamma).change(part, value)),
        (structure.apply(change).apply(change), listed.change(part, value).change(part, value)),
        (structure.forbid(part), listed.change(part, np.full(len(part), -math.inf))),
        (structure.forbid(forbidden).flat(), listed.change(forbidden, np.full(len(forbidden), -math.inf)).flat()),
        (structure.temper(1.0), listed),
        (structure, listed),
    ):
        assert_sums_agree(changed, expected)


def assert_malformed_changes_are_refused(structure: Any) -> None:
    """Wrong gammas, numbers that are no parts, NaN and plus infinity, parts and values of different lengths."""
    n = structure.parts.n_parts
    for gamma in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(DataError, match="gamma must be a positive number"):
            structure.temper(gamma)
    for part, value in (
        ([0], [math.nan]), ([0], [math.inf]), ([n], [0.0]), ([-1], [0.0]), ([0, 1], [0.0]), ([0], [0.0, 0.0]),
        ([[0]], [[0.0]]), (0, 0.0),
    ):  # fmt: skip
        with pytest.raises(DataError):
            structure.add(np.array(part), np.array(value))


def assert_sums_agree(structure: Any, listed: Enumeration) -> None:
    """Log-partitions, marginals and best scores; where something is impossible, errors that name it."""
    everything = every_part(structure.parts)
    if listed.infeasible:
        assert_infeasible_is_named(structure, listed)
        return
    posterior = structure.infer(at=everything)
    assert_logs_agree(posterior.log_partition, listed.log_partition)
    assert_probabilities_agree(posterior.at(everything), listed.marginals)
    assert_logs_agree(structure.argmax().score, listed.best_score)


def assert_infeasible_is_named(structure: Any, listed: Enumeration) -> None:
    """Sums and best outputs of a batch with an impossible instance raise, and name impossible instances alone."""
    for query in (structure.infer, structure.argmax, lambda: structure.argmax(np.random.default_rng(0))):
        with pytest.raises(InfeasibleError) as caught:
            query()
        assert caught.value.instances
        assert set(caught.value.instances) <= set(listed.infeasible)
        assert re.search(rf"\b{caught.value.instances[0]}\b", str(caught.value))


def assert_instances_agree(structure: Any, listed: Enumeration, numbers: list[int]) -> None:
    """take and instances: the outputs of the instances asked for, in this order, with parts of their own numbering."""
    n = len(listed)
    for taken, chosen in (
        (structure.take(np.array(numbers, dtype=np.int64)), numbers),
        *((structure.instances(a, b), list(range(a, b))) for a in range(n + 1) for b in range(a, n + 1)),
    ):
        assert len(taken) == len(chosen)
        assert_taken_are_named(taken, listed, chosen)
        parts = taken.parts
        everything = every_part(parts)
        posterior, best = taken.infer(at=everything), taken.argmax()
        assert_logs_agree(posterior.log_partition, listed.log_partition[chosen])
        assert_logs_agree(best.score, listed.best_score[chosen])
        instance, local = parts.split(everything)
        before = structure.parts.join(np.array(chosen, dtype=np.int64)[instance], local)
        assert_probabilities_agree(posterior.at(everything), listed.marginals[before])


def assert_taken_are_named(taken: Any, listed: Enumeration, chosen: list[int]) -> None:
    """What becomes impossible after instances were taken is named by its number in the corpus."""
    owner = taken.parts.instance_of(every_part(taken.parts))
    for i, number in enumerate(chosen):
        if np.all(listed.use[number].any(axis=1)):  # there is no output without any part, such as the empty set
            closed = taken.forbid(np.flatnonzero(owner == i))
            for same in (closed, closed.temper(2.0), closed.instances(0, len(closed)), closed.take(np.array([i]))):
                for query in (same.infer, same.argmax):
                    with pytest.raises(InfeasibleError) as caught:
                        query()
                    assert caught.value.instances == (listed.first + number,)


def assert_posteriors_agree(structure: Any, listed: Enumeration, choices: list[tuple[int, ...]]) -> None:
    """Averages of outputs, and certainty of one."""
    everything = every_part(structure.parts)
    outputs = [listed.assemble(choice) for choice in choices]
    used = np.concatenate([np.zeros(0, np.int64), *(structure.parts.of(y) for y in outputs)])
    mean = structure.posterior(used, np.full(len(used), 1.0 / len(outputs)), at=everything)
    expected = np.mean([listed.used(choice) for choice in choices], axis=0)
    assert_probabilities_agree(mean.at(everything), expected)
    np.testing.assert_array_equal(mean.log_partition, np.zeros(len(listed)))
    tops = np.arange(len(listed), dtype=float)
    nothing = structure.posterior(everything[:0], np.zeros(0), log_partition=tops, at=everything)
    np.testing.assert_array_equal(nothing.at(everything), np.zeros(len(everything)))
    np.testing.assert_array_equal(nothing.log_partition, tops)
    each = [structure.parts.of(y) for y in outputs]
    alone = [used[structure.parts.instance_of(used) == i] for i in range(len(listed)) for used in each]
    share = np.linspace(1.0, 2.0, len(outputs)) / np.linspace(1.0, 2.0, len(outputs)).sum()
    average = structure.average(alone, np.tile(share, len(listed)), log_partition=tops, at=everything)
    assert_probabilities_agree(average.at(everything), share @ [listed.used(choice) for choice in choices])
    np.testing.assert_array_equal(average.log_partition, tops)
    for choice, output in zip(choices, outputs, strict=True):
        certain = structure.certain(output)
        assert_logs_agree(certain.log_partition, listed.score_of(choice))


def assert_expected_scores_agree(
    structure: Any, listed: Enumeration, part: np.ndarray, value: np.ndarray, choice: tuple[int, ...]
) -> None:
    """E_q[score] under the posterior of the scores themselves, of a change of them, and under certainty."""
    weights = 0.5 + np.arange(len(listed), dtype=float)
    changed, tempered = structure.add(part, value), structure.add(part, value, 2.0)
    for q, expected in (
        (structure, listed),
        (changed, listed.change(part, value)),
        (tempered, listed.change(part, value, 2.0)),
    ):
        if expected.infeasible:
            continue
        found = structure.expected_score(q.infer(weights=weights), weights)
        wanted = listed.expected_score(expected, weights)
        assert abs(found - wanted) <= 1e-9 * max(1.0, abs(wanted), _largest(listed) * float(weights.sum()))
    scores = listed.score_of(choice)
    if np.all(scores > -math.inf):
        certain = structure.certain(listed.assemble(choice), weights=weights)
        found, wanted = structure.expected_score(certain, weights), float(weights @ scores)
        assert abs(found - wanted) <= TOLERANCE * max(1.0, float(weights @ np.abs(scores)))


def _largest(listed: Enumeration) -> float:
    """The largest finite score by size: what an expected score is a difference of."""
    sizes = [np.abs(score[score > -math.inf]).max(initial=1.0) for score in listed.score]
    return max(sizes, default=1.0)


def assert_means_agree(structure: Any, listed: Enumeration, other: Any, other_listed: Enumeration) -> None:
    """Half the sum of two scores."""
    assert_sums_agree(structure.mean(other), listed.mean(other_listed))
    assert_sums_agree(structure.mean(structure), listed)


# 0/1 programs


def assert_polytope_agrees(structure: Any, listed: Enumeration, closed: np.ndarray, *, tight: bool = True) -> None:
    """The outputs that use no closed part are the 0/1 points, and the relaxation's best value is the best score;
    without ``tight`` it may be larger, and a program without points may have a relaxation."""
    program = structure.polytope(closed)
    n_variables = len(program.score)
    assert program.matrix.shape == (len(program.bound), n_variables)
    assert program.use.shape == (listed.n_parts, n_variables)
    assert program.whole.shape == (n_variables,)
    assert program.whole.dtype == np.bool_
    left = listed.change(closed, np.full(len(closed), -math.inf))
    bound = linprog(-program.score, A_eq=program.matrix, b_eq=program.bound, bounds=(0, 1)) if n_variables else None
    if left.infeasible and not tight:
        return
    if left.infeasible:
        assert bound.status == 2 if bound is not None else not np.all(program.bound == 0)
        return
    best = float(left.best_score.sum())
    if bound is None:
        assert np.all(program.bound == 0)
        assert best == 0.0
    else:
        assert bound.status == 0
        rounding = 1e-7 * max(1.0, abs(best), float(np.abs(program.score).sum()))
        assert -bound.fun >= best - rounding
        assert not tight or -bound.fun <= best + rounding
    if n_variables > LARGEST_PROGRAM:
        return
    points = (np.arange(2**n_variables)[:, None] >> np.arange(n_variables) & 1).astype(float)
    held = points[np.all(np.abs(points @ program.matrix.toarray().T - program.bound) < 1e-9, axis=1)]
    found = set()
    for x in held:
        outputs = program.outputs(x)
        used = structure.parts.of(outputs)
        np.testing.assert_array_equal(np.flatnonzero(program.use @ x), used)
        assert_logs_agree(np.array([program.score @ x]), np.array([structure.score(outputs).sum()]))
        found.add(frozenset(used.tolist()))
    possible = {
        frozenset(np.flatnonzero(left.used(choice)).tolist())
        for choice in left.every_choice()
        if np.all(left.score_of(choice) > -math.inf)
    }
    assert found == possible


def assert_refuses(query: Any, words: str) -> None:
    """A query that a structure has no answer to says so in words."""
    with pytest.raises(DataError, match=words):
        query()
