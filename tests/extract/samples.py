"""The generators under examples/, which are no package, and what tests make of them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def _load(domain):
    name = f"{domain}_generate"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, EXAMPLES / domain / "generate.py")
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def citations(n, seed):
    return _load("citations").citations(n, [seed])


def advertisements(n, seed):
    return _load("ads").advertisements(n, [seed])


def twelve_fields(n, seed):
    return _load("ads").advertisements(n, [seed], twelve=True)


def write_samples(domain, folder, sizes=(5, 80, 40), seed=3):
    made = _load("citations")
    maker = made.citations if domain == "citations" else _load("ads").advertisements
    made.write_samples(folder, maker, sizes, seed)


def rules_of(domain, name="rules"):
    return (EXAMPLES / domain / f"{name}.toml").read_text()
