"""Pictures of alignments are written, whole, and refuse what does not fit."""

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.metrics.alignment import parse_links, precision_recall_curve
from trellis.report.alignment import plot_posterior_grids, plot_precision_recall

PNG = b"\x89PNG"


@pytest.mark.slow
def test_posterior_grids_are_drawn(tmp_path):
    rng = np.random.default_rng(0)
    rows = {name: (rng.random((2, 3)), rng.random((2, 3))) for name in ("before", "bijective", "symmetric")}
    plot_posterior_grids(["a", "b"], ["x", "y", "z"], rows, tmp_path / "grid.png", parse_links("0-0 1?2"))
    assert (tmp_path / "grid.png").read_bytes().startswith(PNG)
    with pytest.raises(DataError, match=r"shape \(2, 3\) for 2 and 2 words"):
        plot_posterior_grids(["a", "b"], ["x", "y"], rows, tmp_path / "no.png")
    assert not (tmp_path / "no.png").exists()


@pytest.mark.slow
def test_curves_are_drawn(tmp_path):
    points = precision_recall_curve([{(0, 0): 0.9, (1, 1): 0.3}], [parse_links("0-0 1-1")], [0.2, 0.5])
    plot_precision_recall({"regular, none": points, "regular, symmetric": points}, tmp_path / "curve.png")
    assert (tmp_path / "curve.png").read_bytes().startswith(PNG)
    with pytest.raises(DataError, match="no curve"):
        plot_precision_recall({}, tmp_path / "no.png")
