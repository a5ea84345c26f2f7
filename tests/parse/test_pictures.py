"""Arcs above a sentence: a picture for every row, and refusals of what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.report.arcs import draw_arcs, plot_arcs
from trellis.report.figure import BAD, GOOD, PLAIN, new_figure

PROBABILITY = np.array([[0.0, 0.0, 0.9, 0.1], [0.8, 0.05, 0.0, 0.15], [0.2, 0.0, 0.8, 0.0]])


def drawn(**settings):
    _, axes = new_figure(4.0, 3.0)
    draw_arcs(axes, ["a", "b", "c"], PROBABILITY, **settings)
    return axes.patches


@pytest.mark.slow
def test_every_likely_arc_is_drawn_as_dark_as_it_is_likely():
    patches = drawn()
    assert len(patches) == np.count_nonzero(PROBABILITY >= 0.1)
    darkest = max(patches, key=lambda patch: patch.get_alpha())
    assert abs(darkest.get_alpha() - (0.15 + 0.85 * 0.9)) < 1e-12
    assert len(drawn(least=0.5)) == 3


def test_given_arcs_are_dotted_and_right_ones_green():
    from matplotlib.colors import to_hex

    patches = drawn(given=[(2, 1)], heads=[2, 0, 2])
    assert sum(patch.get_linestyle() in (":", "dotted") for patch in patches) == 1
    colours = [to_hex(patch.get_edgecolor()) for patch in patches]
    assert colours.count(GOOD) == 3
    assert set(colours) == {GOOD, BAD}
    assert {to_hex(patch.get_edgecolor()) for patch in drawn()} == {PLAIN}


def test_a_picture_is_written_with_a_row_for_each_entry(tmp_path):
    plot_arcs(["a", "b", "c"], {"before": PROBABILITY, "after": PROBABILITY}, tmp_path / "arcs.png", given=[(2, 1)])
    assert (tmp_path / "arcs.png").read_bytes().startswith(b"\x89PNG")


def test_what_does_not_fit_is_refused(tmp_path):
    with pytest.raises(DataError, match="'p' has posteriors of shape"):
        plot_arcs(["a"], {"p": PROBABILITY}, tmp_path / "a.png")
    with pytest.raises(DataError, match="3 words but 1 heads"):
        plot_arcs(["a", "b", "c"], {"p": PROBABILITY}, tmp_path / "a.png", heads=[0])
