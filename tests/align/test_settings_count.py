"""Settings of the aligner do what they say: whole words in tables, thresholds for every symmetrisation, γ as given."""

from __future__ import annotations

import math

import pytest
from typer.testing import CliRunner

from trellis.apps.align.aligner import Aligner
from trellis.apps.align.decoding import SYMMETRIZE
from trellis.cli.app import app
from trellis.errors import DataError

PAIRS = [
    ("the parliament meets", "le parlement siege"),
    ("the parliamentary house", "la maison parlementaire"),
    ("the house meets", "la maison siege"),
    ("parliament", "parlement"),
    ("a parliamentary question", "une question parlementaire"),
    ("a question", "une question"),
    ("the old house", "la vieille maison"),
    ("an old parliament", "un vieux parlement"),
] * 3
SOURCE, TARGET = ({word for pair in PAIRS for word in pair[side].split()} for side in (0, 1))


@pytest.fixture(scope="module")
def aligner():
    return Aligner(n_jobs=1).fit(PAIRS)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "s").write_text("".join(f"{left}\n" for left, _ in PAIRS))
    (tmp_path / "t").write_text("".join(f"{right}\n" for _, right in PAIRS))
    return tmp_path


def run(folder, *arguments):
    given = ["align", "-s", str(folder / "s"), "-t", str(folder / "t"), "-q", *map(str, arguments)]
    return CliRunner().invoke(app, given)


def test_translations_are_of_whole_words(aligner):
    found = list(aligner.translations(PAIRS))
    assert {source for source, *_ in found} <= SOURCE
    assert {target for _, target, *_ in found} <= TARGET
    best = {s: max((p, t) for other, t, p, _ in found if other == s)[1] for s in SOURCE}
    assert (best["parliament"], best["parliamentary"]) == ("parlement", "parlementaire")
    for word in SOURCE:
        total = sum(p for source, _, p, _ in found if source == word)
        assert total == pytest.approx(1.0, abs=0.05)


def test_the_file_of_probabilities_has_whole_words(files):
    done = run(files, "-o", files / "links", "--probabilities", files / "table")
    assert done.exit_code == 0, done.output
    rows = [line.split("\t") for line in (files / "table").read_text().splitlines()]
    assert {row[0] for row in rows} <= SOURCE
    assert {row[1] for row in rows} <= TARGET
    assert {"parliament", "parliamentary"} <= {row[0] for row in rows}
    assert all(math.exp(float(row[2])) <= 1.0 + 1e-6 for row in rows)


@pytest.mark.parametrize("method", sorted(SYMMETRIZE))
def test_a_threshold_holds_for_every_symmetrisation(method):
    loose = Aligner(symmetrize=method, n_jobs=1).fit(PAIRS)
    strict = Aligner(symmetrize=method, threshold=0.98, n_jobs=1).fit(PAIRS)
    kept = [{link for link, p in zip(own, own.scores, strict=True) if p >= 0.98} for own in loose.align(PAIRS)]
    assert [set(own) for own in strict.align(PAIRS)] == kept
    assert sum(map(len, kept)) < sum(map(len, loose.align(PAIRS)))


@pytest.mark.parametrize("method", ["forward", "intersection"])
def test_the_threshold_of_the_command_holds_for_every_symmetrisation(method, files):
    for name, more in (("all", ()), ("few", ("--threshold", "0.9"))):
        done = run(files, "-o", files / name, "--symmetrize", method, "--scores", *more)
        assert done.exit_code == 0, done.output
    every, few = ((files / name).read_text().split() for name in ("all", "few"))
    assert few == [link for link in every if float(link.split(":")[1]) >= 0.9]
    assert len(few) < len(every)


def test_a_saved_threshold_is_kept(aligner, tmp_path):
    strict = Aligner(symmetrize="forward", threshold=0.98, n_jobs=1).fit(PAIRS)
    strict.save(tmp_path / "m")
    assert [own.pharaoh() for own in Aligner.load(tmp_path / "m").align(PAIRS)] == [
        own.pharaoh() for own in strict.align(PAIRS)
    ]


def test_gold_links_choose_the_threshold_of_posteriors_alone(files):
    (files / "gold").write_text("0-0 1-1 2-2\n")
    done = run(files, "-o", files / "links", "--symmetrize", "union", "--tune", files / "gold")
    assert isinstance(done.exception, DataError)
    assert "posterior" in str(done.exception)


@pytest.mark.parametrize("gamma", [0, 0.0, 0.01])
def test_a_gamma_that_cannot_be_computed_is_refused(gamma, files):
    with pytest.raises(DataError, match=r"gamma must be between 0\.05 and 10"):
        Aligner(gamma=gamma).fit(PAIRS)
    with pytest.raises(DataError, match="LP-EM"):
        Aligner(gamma=0).fit(PAIRS)


def test_plain_tables_are_those_of_model_1_by_em(files):
    """IBM Model 1 written out: E-step by enumeration of links, M-step by division."""
    flags = "--no-variational --concentration 1e-6 --prefix 0 --same-spelling 0 --diagonal-scale inf --constraint none"
    done = run(files, *flags.split(), "--model1-rounds", "3", "--rounds", "0", "-o", files / "l", "--save", files / "m")
    assert done.exit_code == 0, done.output
    pairs = [(left.split(), right.split()) for left, right in PAIRS]
    met = {e: {f for left, right in pairs if e in left for f in right} for e in SOURCE}
    table = {(e, f): 1 / len(met[e]) for e in SOURCE for f in met[e]}
    table |= {(None, f): 1 / len(TARGET) for f in TARGET}
    for _ in range(3):
        counts = dict.fromkeys(table, 0.0)
        for left, right in pairs:
            for f in right:
                share = {e: 0.7 / len(left) * table[e, f] for e in left} | {None: 0.3 * table[None, f]}
                for e, p in share.items():
                    counts[e, f] += p / sum(share.values())
        total = {e: sum(n for (other, _), n in counts.items() if other == e) for e in (*SOURCE, None)}
        table = {(e, f): n / total[e] for (e, f), n in counts.items()}
    found = {(e, f): p for e, f, p, _ in Aligner.load(files / "m").translations(min_probability=1e-3)}
    expected = {pair: p for pair, p in table.items() if p >= 1e-3 and pair[0] is not None}
    assert {pair: p for pair, p in found.items() if p >= 1e-3} == pytest.approx(expected, abs=2e-4)
