"""Symmetrisation against cases worked by hand, and the measures of alignments."""

import numpy as np
import pytest

from trellis.apps.align.kernels import symmetrize as align_links
from trellis.errors import DataError
from trellis.metrics.alignment import best_threshold, parse_links, precision_recall_curve, score_links


def symmetrized(method, forward, backward):
    grid = np.zeros((len(backward), len(forward)), np.uint8)
    align_links.symmetrize(method, np.array(forward, np.int32), np.array(backward, np.int32), grid)
    return {(int(i), int(j)) for i, j in np.argwhere(grid)}


# Source words 0..3, target words 0..3. forward[j] is the source of target j; backward[i] the target of source i.
#   forward:  0-0  1-1  1-2  3-3        (target 2 goes to source 1)
#   backward: 0-0  1-1  2-3  3-3        (source 2 goes to target 3)
FORWARD, BACKWARD = [0, 1, 1, 3], [0, 1, 3, 3]


def test_intersection_union_and_single_directions():
    assert symmetrized(align_links.INTERSECTION, FORWARD, BACKWARD) == {(0, 0), (1, 1), (3, 3)}
    assert symmetrized(align_links.UNION, FORWARD, BACKWARD) == {(0, 0), (1, 1), (1, 2), (2, 3), (3, 3)}
    assert symmetrized(align_links.FORWARD, FORWARD, BACKWARD) == {(0, 0), (1, 1), (1, 2), (3, 3)}
    assert symmetrized(align_links.BACKWARD, FORWARD, BACKWARD) == {(0, 0), (1, 1), (2, 3), (3, 3)}


def test_grow_diag_adds_neighbours_of_either_direction_that_cover_a_bare_word():
    # 1-2 is right of 1-1 and covers target 2; 2-3 is above 3-3 and covers source 2.
    assert symmetrized(align_links.GROW_DIAG, FORWARD, BACKWARD) == {(0, 0), (1, 1), (1, 2), (2, 3), (3, 3)}


def test_grow_diag_reaches_links_through_links_it_added():
    # Intersection 0-0 only; 0-1 touches it, and 0-2 touches 0-1.
    assert symmetrized(align_links.GROW_DIAG, [0, 0, 0], [0]) == {(0, 0), (0, 1), (0, 2)}


def test_grow_diag_leaves_a_union_link_between_covered_words():
    # forward 0-0, 1-1; backward 0-0, 1-1, 2-1. 2-1 covers the bare source word 2: added.
    assert symmetrized(align_links.GROW_DIAG, [0, 1], [0, 1, 1]) == {(0, 0), (1, 1), (2, 1)}
    # forward 0-0, 1-1, 0-2?: 0-2 does not touch 0-0 or 1-1 (1-1 touches 0-2 by a diagonal): added as target 2 is bare.
    assert symmetrized(align_links.GROW_DIAG, [0, 1, 0], [0, 1]) == {(0, 0), (1, 1), (0, 2)}


def test_final_and_final_and_differ_where_one_word_is_covered():
    # Intersection 0-0. Far away: forward 0-3 (source covered, target bare), backward 2-3.
    forward, backward = [0, -1, -1, 0], [0, -1, 3]
    assert symmetrized(align_links.GROW_DIAG, forward, backward) == {(0, 0)}
    # final: 0-3 first (target 3 is bare), then 2-3 (source 2 is bare).
    assert symmetrized(align_links.GROW_DIAG_FINAL, forward, backward) == {(0, 0), (0, 3), (2, 3)}
    # final-and: 0-3 has a covered source word; 2-3 has two bare words.
    assert symmetrized(align_links.GROW_DIAG_FINAL_AND, forward, backward) == {(0, 0), (2, 3)}


def test_final_takes_the_forward_direction_first():
    # No intersection. forward 1-0; backward 0-0. final-and takes 1-0, after which 0-0 has a covered target word.
    assert symmetrized(align_links.GROW_DIAG_FINAL_AND, [1], [0, -1]) == {(1, 0)}
    assert symmetrized(align_links.GROW_DIAG_FINAL, [1], [0, -1]) == {(0, 0), (1, 0)}


def test_null_links_give_nothing():
    for method in range(1, 8):
        assert symmetrized(method, [-1, -1], [-1]) == set()


def test_aer_of_a_case_worked_by_hand():
    gold = [parse_links("0-0 1-1 2?2"), parse_links("0-1")]
    # A = 4 links, 2 of them sure, 3 possible; 3 sure in gold: AER = 1 − (2 + 3)/(4 + 3)
    scores = score_links([{(0, 0), (2, 2), (1, 0)}, {(0, 1)}], gold)
    assert scores.aer == pytest.approx(1 - 5 / 7)
    assert scores.precision == 0.75
    assert scores.recall == pytest.approx(2 / 3)
    assert scores.f == pytest.approx(2 * 0.75 * (2 / 3) / (0.75 + 2 / 3))


def test_curve_trades_recall_for_precision():
    gold = [parse_links("0-0 1-1")]
    rows = [{(0, 0): 0.9, (1, 1): 0.4, (0, 1): 0.3}]
    curve = precision_recall_curve(rows, gold, [0.2, 0.35, 0.5])
    assert [p.scores.recall for p in curve] == [1.0, 1.0, 0.5]
    assert [p.scores.precision for p in curve] == [pytest.approx(2 / 3), 1.0, 1.0]
    assert best_threshold(curve) == 0.35


def test_malformed_links_and_unequal_lengths_are_named():
    with pytest.raises(DataError, match="gold.txt, line 3: '1:2' is not a link"):
        parse_links("0-0 1:2", path="gold.txt", number=3)
    with pytest.raises(DataError, match="2 sentences but gold has 3"):
        score_links([set(), set()], [parse_links("")] * 3)


def test_a_position_of_thousands_of_digits_is_not_a_link():
    with pytest.raises(DataError, match="gold.txt, line 2: '9{40}' is not a link"):
        parse_links("9" * 5000 + "-1", path="gold.txt", number=2)
