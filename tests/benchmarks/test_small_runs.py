"""Every benchmark runs with ``--small``, on generated data, and prints a table that is computed."""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w])")
BAD = re.compile(r"(?<!\w)(nan|inf)(?!\w)", re.IGNORECASE)


class Table:
    """What a benchmark printed."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines()

    def row(self, label: str, *, after: str = "") -> list[float]:
        """The numbers that follow a label, in the first such line (after a line that begins with ``after``)."""
        begins = next(i for i, line in enumerate(self.lines) if line.strip().startswith(after))
        for line in self.lines[begins:]:
            if line.strip().startswith(label):
                return numbers(line.strip()[len(label) :])
        raise AssertionError(f"no row {label!r} in\n{self.text}")

    def column(self, *labels: str, after: str = "") -> list[float]:
        """The first number of each of these rows."""
        return [self.row(label, after=after)[0] for label in labels]


def numbers(text: str) -> list[float]:
    return [float(found.replace(",", "")) for found in NUMBER.findall(text)]


def differ(values: list[float]) -> bool:
    return len(values) > 1 and len(set(values)) > 1


def gamma(table: Table) -> None:
    start, *by_gamma = table.row("5")[:12]
    assert differ(by_gamma)
    assert start != by_gamma[-1]  # the model that was trained is measured, not the one at the start


def running_example(table: Table) -> None:
    em, pr, projected = (
        table.row(f"{name}, decoded with {how}") for name, how in (("EM", "p"), ("PR", "p"), ("PR", "q"))
    )
    assert em != pr
    assert projected[-1] == 0.0 < em[-1]  # in expectation the projected posterior obeys the rules


def align(table: Table) -> None:
    rows = [
        table.row(name)
        for name in ("EM", "PR, bijective", "PR, agreement", "PR, both", "close to LP-EM, both (γ = 0.05)")
    ]
    assert differ([row[0] for row in rows])
    assert all(differ(row[:4]) for row in rows)


def align_figures(table: Table) -> None:
    assert differ([tuple(table.row(name)) for name in ("none", "bijective", "agreement", "both")])


def align_defaults(table: Table) -> None:
    assert differ(table.column("the defaults", "constraint both -> none", "constraint both -> bijective"))


def align_mixture(table: Table) -> None:
    product, mixture = (table.row(how, after=f"{how}   {how}") for how in ("product", "mixture"))
    assert product[3:] != mixture[3:]


def align_paper(table: Table) -> None:
    rows = [table.row(name) for name in ("EM", "PR", "γ 0.8", "γ 0.5", "γ 0.05")]
    assert all(differ(list(column)) for column in zip(*rows, strict=True))
    assert table.row("EM, 5 rounds, PR") != table.row("VB, 5 rounds, PR")


def citations(table: Table) -> None:
    after = "Token accuracy on"
    assert differ(
        table.column("supervised HMM  ", "supervised HMM + rules", "CoDL, learned penalties", "PR", after=after)
    )
    assert differ(table.column("supervised CRF  ", "supervised CRF + rules", "supervised semi-CRF  ", after=after))


def crf(table: Table) -> None:
    ours, theirs = table.row("penalised objective")
    assert ours == pytest.approx(theirs, rel=1e-3)
    assert min(table.row("test accuracy, %")) > 50.0


def dmv(table: Table) -> None:
    assert differ(table.column("DMV, EM  ", "DMV, hard EM", "DMV, PR with five rules", "DMV, supervised: the ceiling"))


def engine(table: Table) -> None:
    assert table.text.count("the same links") == 3
    assert max(table.row("results")) > 0.0


def extract(table: Table) -> None:
    changes = ("| labels alone, rules in prediction |", "| no back-off |", "| half the CRF in the product |")
    assert differ(table.column("| default |", *changes))
    assert table.row("| no rules in prediction |")[0] != 0.0


def frameworks(table: Table) -> None:
    rows = ["majority of the words", "GE, L2", "GE, KL", "PR", "CoDL"]
    assert differ(table.column(*rows))


def induction(table: Table) -> None:
    for after in ("bosque:", "Closed-class words given"):
        assert differ(table.column("EM", "Sparse (32)", after=after))
    assert differ(table.column("none", "EM", after="bosque: accuracy of an averaged"))


def induction_defaults(table: Table) -> None:
    assert all(row[0] != 0.0 for row in map(table.row, ("| no sparsity |", "| a quarter of the prior |")))


def jlis(table: Table) -> None:
    found = [table.row("40", after=f"{task}: accuracy on test")[:2] for task in ("pos", "citations", "newsgroups")]
    assert any(map(differ, found))
    assert differ([ours for _, ours in found])
    assert min(table.column("HMM by EM", "contrastive estimation")) > 0.0


def lclr(table: Table) -> None:
    assert differ(table.column("two-stage: ", "two-stage, edges by hand: ", "joint: ", after="msrp (test"))
    after = "msrp, 20 pairs"
    assert (
        len(table.row("relations           none", after=after))
        == len(table.row("bigrams             all", after=after))
        == 3
    )


def margin(table: Table) -> None:
    assert differ([table.row(name)[3] for name in ("Perceptron", "MIRA", "SSVM", "CRF")])


def multiview(table: Table) -> None:
    assert differ(table.row("books → dvd")[2:])
    for task in ("entities", "chunks"):
        assert differ(table.row("10", after=task))


def relations(table: Table) -> None:
    assert differ(table.row("draw 0  20%", after="few labels")[:10:2])


def scale(table: Table) -> None:
    n_pairs, *_, megabytes, microseconds = table.row("phrases, ")
    assert n_pairs > 100
    assert min(megabytes, microseconds) > 0.0


def mt(table: Table) -> None:
    assert min(table.column("EM", "trellis align")) > 0.0
    assert differ([table.row("EM")[4], table.row("trellis align")[4]])
    for low, score, high in ((row[1], row[0], row[2]) for row in map(table.row, ("EM", "trellis align"))):
        assert low <= score <= high
    ours, theirs = table.column("EM", "trellis align")
    difference, low, high, _ = table.row("EM − trellis align")
    assert low <= difference <= high
    assert difference == pytest.approx(ours - theirs, abs=0.02)


def transfer(table: Table) -> None:
    assert differ(table.column("link-left", "direct transfer of a DMV, 20", "PR, DMV, 20", "PR, parser, 20"))
    assert differ(table.column("parser  0.6", "parser  0.8", "parser  1.0"))


def trees(table: Table) -> None:
    assert min(table.row("UAS and LAS without punctuation")) > 50.0
    assert differ(table.row("20"))


def neural(table: Table) -> None:
    assert differ([table.row("5")[0], *table.row("3")[:2]])
    assert min(table.row("UAS, LAS")) > 0.0
    assert 0.0 < table.row("F1")[0] < 100.0


def weak(table: Table) -> None:
    assert differ(table.row("| plain HMM |") + table.row("| default |"))


CHECKS: dict[str, Callable[[Table], None]] = {
    "gamma": gamma, "running-example": running_example, "align": align, "align-figures": align_figures,
    "align-defaults": align_defaults, "align-mixture": align_mixture, "align-paper": align_paper,
    "citations": citations, "crf": crf, "dmv": dmv, "engine": engine, "extract": extract, "frameworks": frameworks,
    "induction": induction, "induction-defaults": induction_defaults, "jlis": jlis, "lclr": lclr, "margin": margin,
    "multiview": multiview, "mt": mt, "neural": neural, "relations": relations, "scale": scale, "transfer": transfer,
    "trees": trees, "weak": weak,
}  # fmt: skip
"""What must differ in the table of a benchmark. One that is not listed must print numbers that are not all the same."""


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_small_run_prints_a_table_that_is_computed(name, monkeypatch, tmp_path):
    if name == "neural":
        pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")
    table = Table(run_small(name, monkeypatch, tmp_path))
    assert not BAD.search(table.text), table.text
    found = numbers(table.text)
    assert len(found) >= 4, table.text
    assert differ(found), table.text
    CHECKS.get(name, lambda _: None)(table)


def test_every_check_has_a_benchmark():
    assert set(CHECKS) <= set(NAMES)


def run_small(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path) -> str:
    """What ``python benchmarks/NAME.py --small`` prints; it is run in this process, which has its kernels loaded."""
    monkeypatch.setenv("TRELLIS_DATA", "there are no corpora here")
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", "--small"])
    before, said, code = {*sys.modules}, io.StringIO(), None
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(said):
            warnings.simplefilter("ignore")
            runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    except SystemExit as ended:
        code = ended.code
    finally:
        for module in {*sys.modules} - before:
            path = getattr(sys.modules[module], "__file__", None) or ""
            if path.startswith(str(FOLDER)) and module != "_small":
                del sys.modules[module]
    assert not code, f"{code}\n{said.getvalue()}"
    return said.getvalue()
