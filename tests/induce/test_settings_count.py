"""A setting of the inducer that would have no effect is refused, and none is replaced by another."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from trellis.apps.induce.inducer import Inducer
from trellis.cli.app import app
from trellis.errors import DataError

from .toy import sentences

TEXT, _ = sentences(60)


def test_a_short_run_by_a_table_has_rounds_of_sparsity():
    """The 30 rounds before it were all of a run of 20."""
    settings = {"emissions": "table", "frequent": 5, "max_iter": 20, "random_state": 0}
    plain, sparse = (Inducer(4, method=method, **settings).fit(TEXT) for method in ("em", "sparse"))
    assert len(sparse.history_) == 20
    assert sparse.labels_a_word_ < plain.labels_a_word_


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"em_iter": 5, "max_iter": 5}, "leaves none for sparsity"),
        ({"em_iter": 9, "max_iter": 5}, "leaves none for sparsity"),
        ({"emission_prior": 0.5}, "emission_prior requires emissions='table'"),
        ({"emission_prior": 0.5, "emissions": "features", "method": "em"}, "emission_prior requires emissions='table'"),
        ({"strength": 4.0, "method": "em"}, "strength requires method 'sparse'"),
        ({"l2": 1.0, "method": "vb"}, "l2 requires emissions='features'"),
        ({"l2": 1.0, "emissions": "table"}, "l2 requires emissions='features'"),
    ],
)
def test_settings_without_effect_are_refused(settings, said):
    with pytest.raises(DataError, match=said):
        Inducer(4, **settings).fit(TEXT)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--method", "em", "--strength", "10"), "--strength cannot be combined"),
        (("--method", "vb", "--em-rounds", "3"), "--em-rounds cannot be combined"),
        (("--method", "em", "--dual-steps", "3"), "--dual-steps cannot be combined"),
        (("--closed", "tags", "--min-count", "3"), "--min-count cannot be combined"),
        (("--emission-prior", "0.5"), "emission_prior requires"),
        (("--rounds", "5", "--em-rounds", "5"), "leaves none for sparsity"),
    ],
)
def test_options_without_effect_are_refused(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("".join(" ".join(words) + "\n" for words in TEXT))
    (tmp_path / "tags").write_text("the\tD\n")
    done = CliRunner().invoke(app, ["induce", "text", "-o", "out", "-q", *arguments])
    assert isinstance(done.exception, DataError)
    assert said in str(done.exception)
