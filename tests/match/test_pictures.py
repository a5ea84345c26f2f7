"""Names side by side: a line for what is aligned, green or red."""

from __future__ import annotations

import pytest

from trellis.apps.match.figure import _draw, plot_matches
from trellis.apps.match.matcher import Match
from trellis.errors import DataError
from trellis.report.figure import BAD, GOOD, new_figure

MATCH = Match(True, 0.5, [("sh", "σ"), ("a", ""), ("", "$"), ("n", "ν")], [1.0, -0.2, -0.5, 0.4])


@pytest.mark.slow
def test_what_speaks_for_a_match_is_green_and_thick_where_it_says_much():
    _, axes = new_figure(4.0, 2.0)
    _draw(axes, MATCH, 4.0, 1.0)
    assert [line.get_color() for line in axes.lines] == [GOOD, BAD, BAD, GOOD]
    widths = [line.get_linewidth() for line in axes.lines]
    assert widths[0] == max(widths)
    assert list(axes.lines[0].get_xdata()) == [1.0, 0.5]  # from the middle of sh to that of σ


def test_a_picture_is_written(tmp_path):
    plot_matches([MATCH, MATCH], tmp_path / "m.png")
    assert (tmp_path / "m.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(DataError, match="no match to draw"):
        plot_matches([], tmp_path / "m.png")
