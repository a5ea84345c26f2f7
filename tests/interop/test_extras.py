"""What needs a library that is not installed says how to install it."""

from __future__ import annotations

import sys
from importlib import import_module

import pytest

import trellis.neural
from trellis import Aggregator, DataError, Document, Extractor, Parser, Relater, Tagger
from trellis.data.tables import write_table
from trellis.data.text_files import read_texts
from trellis.interop.frames import spans_frame, to_dataset, to_frame
from trellis.interop.spacy import from_docbin, to_doc, to_docbin

TEXTS = [Document(("a",), ("X",))]
NEEDED = {
    "spacy": {
        "to_doc": lambda path: to_doc(TEXTS[0]), "to_docbin": lambda path: to_docbin(TEXTS), "from_docbin": from_docbin,
        "components": lambda path: import_module("trellis.interop.spacy_components"),
    },
    "frames": {
        "pandas": lambda path: to_frame(TEXTS), "polars": lambda path: spans_frame(TEXTS, "polars"),
        "pyarrow": lambda path: to_frame(TEXTS, "pyarrow"), "read": read_texts,
        "write": lambda path: write_table(path, TEXTS),
    },
    "datasets": {"to_dataset": lambda path: to_dataset(TEXTS)},
}  # fmt: skip


@pytest.mark.parametrize("extra, call", [(extra, call) for extra in NEEDED for call in NEEDED[extra]])
def test_a_missing_library_is_answered_with_the_command_that_installs_it(extra, call, monkeypatch, tmp_path):
    for name in ("spacy", "pandas", "polars", "pyarrow", "pyarrow.parquet", "datasets"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "trellis.interop.spacy_components", raising=False)
    with pytest.raises(DataError, match=rf"pip install 'trellis-learn\[{extra}\]'"):
        NEEDED[extra][call](tmp_path / "x.parquet")


@pytest.mark.parametrize(
    "estimator",
    [
        Extractor("", encoder="bilstm"), Tagger(encoder="bilstm"), Parser(encoder="bilstm"),
        Relater('entities = ["A"]', encoder="bilstm"), Aggregator(encoder="bilstm"),
    ],
)  # fmt: skip
def test_an_encoder_without_pytorch_is_answered_with_the_command_that_installs_it(estimator, monkeypatch):
    def missing(module):
        raise ModuleNotFoundError("No module named 'torch'", name="torch")

    monkeypatch.setattr(trellis.neural, "import_module", missing)
    with pytest.raises(DataError, match=r"pip install 'trellis-learn\[torch\]'"):
        estimator.check_settings()
