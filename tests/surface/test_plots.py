"""Every plotting function returns its figure, and writes it where it is given a path."""

from __future__ import annotations

import inspect
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import trellis
from tests.match.test_pictures import MATCH
from trellis.loop.history import History, Round
from trellis.metrics.alignment import AlignmentScores, CurvePoint

HALF = np.full((2, 2), 0.5)
ARCS = np.array([[0.5, 0.0, 0.5], [0.5, 0.5, 0.0]])
CURVE = [CurvePoint(0.5, AlignmentScores(0.5, 0.5, 0.5, 0.5, 2, 2))]
GIVEN = {
    "plot_history": [History([Round(n, 1.0, -1.0 / n, violation={"a": 0.0}) for n in (1, 2)])],
    "plot_sentence": [HALF, HALF, ["a", "b"], ["A", "B"]],
    "plot_projection": [HALF, HALF, HALF, ["A", "B"], ["1", "2"]],
    "plot_posterior_grids": [["a", "b"], ["x", "y"], {"p": (HALF, HALF)}],
    "plot_precision_recall": [{"one": CURVE}],
    "plot_arcs": [["a", "b"], {"p": ARCS}],
    "plot_matches": [[MATCH]],
}


def functions():
    found = {}
    package = Path(trellis.__file__).parent
    for file in sorted([*package.glob("report/*.py"), *package.glob("apps/*/figure*.py")]):
        module = import_module(".".join(("trellis", *file.relative_to(package).with_suffix("").parts)))
        found |= {name: one for name, one in vars(module).items() if name.startswith("plot_")}
    return found


def test_every_plotting_function_is_tried():
    assert set(functions()) == set(GIVEN)


@pytest.mark.parametrize("name", GIVEN)
def test_a_path_is_written_and_the_figure_returned(name, tmp_path):
    pytest.importorskip("matplotlib")
    plot, given = functions()[name], GIVEN[name]
    figure = plot(*given, tmp_path / "positional.png", title="A title")
    plot(*given, path=tmp_path / "keyword.svg")
    assert (tmp_path / "positional.png").read_bytes()[:4] == b"\x89PNG"
    assert b"<svg" in (tmp_path / "keyword.svg").read_bytes()
    assert "A title" in {text.get_text() for text in figure.findobj(lambda one: hasattr(one, "get_text"))}
    assert plot(*given) is not None
    assert inspect.signature(plot).parameters["title"].kind == inspect.Parameter.KEYWORD_ONLY
