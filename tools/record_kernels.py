"""Record which kernels each use of the library needs: ``make kernels`` writes src/trellis/engine/kernels.json.

Every use below is run as a user would run it, each in a process of its own, all with one cache that is empty at first.
What Numba is asked to compile on the way is written down: by whom, for which types, and how long it took. Kernels that
no use has reached are looked for in the tests of their layers; they are compiled by ``trellis info --compile`` only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import runpy
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples"
CITATIONS = EXAMPLES / "citations"
PEOPLE = EXAMPLES / "people"
MODEL = "{folder}/fields.trellis"
TRAIN = f"trellis extract train {CITATIONS}/rules.toml -l {CITATIONS}/few.tsv -u {CITATIONS}/text.txt --save {MODEL}"
ALIGN = "trellis align -i {folder}/pairs.txt -o {folder}/links"
INDUCE = "trellis induce {folder}/words.txt -k 5 --rounds 6 --frequent 2 --force -o {folder}/tags.tsv"
TEXT = 'text = [line.split() for line in open("{folder}/words.txt")]\n'
TAGS = "labels = [['A' if len(w) < 4 else 'B' for w in s] for s in text]\n"
PLAIN = "from trellis import HMM, UEM\nUEM(HMM(['A', 'B', 'C'], min_count=1), max_iter=3, random_state=0)"
CRF = "from trellis import CRF\nCRF(max_iter=5).fit(text, labels).predict(text)"

README = re.findall(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text("utf-8"), re.M | re.S)[0]

USES = {
    "HMM": f"{TEXT}{PLAIN}.fit(text).predict(text)",
    "HMM+rules": README,
    "fast-chain": "from trellis.projection import projector\nprojector.SMALL = 0\n" + README,
    "CRF": TEXT + TAGS + CRF,
    "align": f"{ALIGN} --save {{folder}}/align.trellis",
    "align-model": f"{ALIGN} --model {{folder}}/align.trellis",
    "train-codl": f"{TRAIN} --method codl",
    "predict": f"trellis extract predict -m {MODEL} {CITATIONS}/text.txt -o {{folder}}/out.tsv",
    "train-hard-em": f"{TRAIN} --method hard-em",
    "train-supervised": f"{TRAIN} --method supervised",
    "train-pr": f"{TRAIN} --method pr",
    "train-uem": f"{TRAIN} --method uem",
    "train-em": f"{TRAIN} --method em",
    "induce-sparse": INDUCE,
    "induce-em": f"{INDUCE} --method em",
    "induce-vb": f"{INDUCE} --method vb",
    "aggregate": f"trellis aggregate {EXAMPLES}/weak/votes.jsonl -o {{folder}}/votes.tsv",
    "parse": f"trellis parse train {EXAMPLES}/garden/train.conllu --save {{folder}}/parser.trellis",
    "DMV": f"trellis induce-trees {EXAMPLES}/garden/train.conllu -o {{folder}}/trees.conllu",
    "StringPairs": f"trellis match train {EXAMPLES}/names/pairs.tsv --save {{folder}}/names.trellis",
    "relate": f"trellis relate train {PEOPLE}/rules.toml -l {PEOPLE}/few.jsonl -u {PEOPLE}/many.jsonl --save {MODEL}",
}
"""Command lines, or Python. {folder} has what :func:`write_samples` puts there, and what earlier ones left."""

REST = "rest"
LAYERS = ("structures", "models", "projection", "search", "learn", "align", "parse", "relate", "match", "aggregate")
TESTS = "pytest -q -p no:cacheprovider -p no:randomly -n 0 -m 'not slow and not realdata' " + " ".join(
    f"{ROOT}/tests/{layer}" for layer in LAYERS
)


def write_samples(folder: Path) -> None:
    """Sentences and their pairs, as in a first try."""
    sides = [(ROOT / "examples" / "garden" / f"text.{end}").read_text("utf-8").splitlines() for end in ("en", "fr")]
    (folder / "pairs.txt").write_text("".join(f"{s} ||| {t}\n" for s, t in zip(*sides, strict=True)), "utf-8")
    (folder / "words.txt").write_text("".join(f"{s}\n" for s in sides[0]), "utf-8")


def type_name(kind: Any) -> Any:
    """A type of Numba in the words of the list (trellis.engine.compiling)."""
    from numba import types

    if isinstance(kind, types.Literal):
        return {"literal": kind.literal_value}
    if isinstance(kind, types.Omitted):
        return {"omitted": kind.value}
    if isinstance(kind, types.NoneType):
        return None
    if isinstance(kind, types.Array):
        slices = [":"] * kind.ndim
        if kind.layout in "CF":
            slices[-1 if kind.layout == "C" else 0] = "::1"
        text = f"{kind.dtype}[{','.join(slices)}]"
        return text if kind.mutable else {"readonly": text}
    if isinstance(kind, types.BaseTuple):
        parts = [type_name(part) for part in kind]
        made_by = getattr(kind, "instance_class", tuple)
        return parts if made_by is tuple else {f"{made_by.__module__}.{made_by.__qualname__}": parts}
    return str(kind)


class Recorder:
    """Notes every request to compile: a kernel's name and types, own seconds and callees; and what Python asked for."""

    def __init__(self) -> None:
        self.kernels: dict[str, dict[str, Any]] = {}
        self.asked: dict[str, None] = {}
        self._inside: list[tuple[str, list[float]]] = []

    def install(self) -> None:
        from numba.core.dispatcher import Dispatcher

        compile_ = Dispatcher.compile

        def compile_and_note(function: Any, signature: Any) -> Any:
            code = function.py_func
            if not code.__module__.startswith("trellis.") or not isinstance(signature, tuple):
                return compile_(function, signature)
            known = signature in function.overloads
            name = f"{code.__module__}.{code.__qualname__}"
            key = json.dumps([name, [type_name(kind) for kind in signature]])
            if self._inside:
                self.kernels[self._inside[-1][0]]["calls"].setdefault(key)
            else:
                self.asked.setdefault(key)
            if known:
                return compile_(function, signature)
            self.kernels.setdefault(key, {"seconds": 0.0, "calls": {}})
            inner = [0.0]
            self._inside.append((key, inner))
            began = time.process_time()
            try:
                return compile_(function, signature)
            finally:
                took = time.process_time() - began
                self._inside.pop()
                self.kernels[key]["seconds"] = took - inner[0]
                if self._inside:
                    self._inside[-1][1][0] += took

        Dispatcher.compile = compile_and_note


def run_here(what: str, folder: Path, out: Path) -> None:
    """Run one use in this process and write what was compiled."""
    recorder = Recorder()
    recorder.install()
    words = what.replace("{folder}", str(folder))
    try:
        if words.startswith("trellis "):
            sys.argv = words.split()
            runpy.run_module("trellis", run_name="__main__")
        elif words.startswith("pytest "):
            import shlex

            import pytest

            pytest.main(shlex.split(words)[1:])
        else:
            exec(compile(words, "use", "exec"), {"__name__": "use"})
    except SystemExit as end:
        if end.code:
            raise
    calls = {key: {**kernel, "calls": list(kernel["calls"])} for key, kernel in recorder.kernels.items()}
    out.write_text(json.dumps({"kernels": calls, "asked": list(recorder.asked)}), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "trellis" / "engine" / "kernels.json")
    parser.add_argument("--no-tests", action="store_true", help="leave out the kernels that only tests reach")
    arguments = parser.parse_args()
    kernels: dict[str, dict[str, Any]] = {}
    uses: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_samples(folder)
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), "TRELLIS_COMPILE_AHEAD": "0"}
        for use, what in {**USES, **({} if arguments.no_tests else {REST: TESTS})}.items():
            began = time.monotonic()
            code = "import sys; from pathlib import Path; from record_kernels import run_here; "
            code += "run_here(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))"
            subprocess.run(
                [sys.executable, "-c", code, what, name, str(folder / "record.json")], check=True,
                env={**environment, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), str(ROOT)])},
                stdout=None if use == REST else subprocess.DEVNULL,
            )  # fmt: skip
            found = json.loads((folder / "record.json").read_text("utf-8"))
            if use == REST:
                found = only_new(found, kernels)
            for key, kernel in found["kernels"].items():
                # What came from the cache has no callees and took no time: the first record is the true one.
                kernels.setdefault(key, kernel)
            uses[use] = found["asked"]
            print(f"{use:18} {len(found['asked']):3} kernels called, {time.monotonic() - began:5.1f} s", flush=True)
    write(kernels, uses, arguments.out)


def only_new(found: dict[str, Any], known: dict[str, Any]) -> dict[str, Any]:
    """Of what tests compile, one form of each kernel that no use has, with what it calls."""
    names = {json.loads(key)[0] for key in known}
    asked = []
    for key in found["asked"]:
        name = json.loads(key)[0]
        if name not in names:
            names.add(name)
            asked.append(key)
    return {"kernels": found["kernels"], "asked": asked}


def write(kernels: dict[str, dict[str, Any]], uses: dict[str, list[str]], out: Path) -> None:
    """Number the kernels that uses need, callees first, and write the list."""
    number: dict[str, int] = {}
    met: set[str] = set()

    def visit(key: str) -> None:
        if key not in met and key in kernels:
            met.add(key)  # a kernel that calls itself is met again before it has a number
            for callee in kernels[key]["calls"]:
                visit(callee)
            number[key] = len(number)

    for asked in uses.values():
        for key in asked:
            visit(key)
    rows = []
    for key in number:
        name, types = json.loads(key)
        calls = sorted(number[callee] for callee in kernels[key]["calls"] if number[callee] < number[key])
        rows.append({"name": name, "types": types, "seconds": round(kernels[key]["seconds"], 2), "calls": calls})
    numbered = {use: sorted(number[key] for key in asked) for use, asked in uses.items()}
    # A kernel on a line: a change of one is a change of one line.
    lines = ",\n".join(json.dumps(row) for row in rows)
    shown = ",\n".join(f"{json.dumps(use)}: {json.dumps(asked)}" for use, asked in numbered.items())
    out.write_text(f'{{"uses": {{\n{shown}\n}},\n"kernels": [\n{lines}\n]}}\n', "utf-8")
    print(f"{out}: {len(rows)} forms of {len({row['name'] for row in rows})} kernels, {out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
