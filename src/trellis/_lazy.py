"""Public names of a package, imported on first use: the ``__init__.pyi`` beside a package lists them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any


def listed(init: str) -> dict[str, str]:
    """Public name -> module that defines it; init : path of the package's ``__init__.py``."""
    lines = Path(init).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    imports = [line.split() for line in lines if line.startswith("from ")]
    return {name.rstrip(","): words[1] for words in imports for name in words[5::3]}


def importer(package: str, names: dict[str, Any], modules: Mapping[str, str]) -> Callable[[str], object]:
    """The ``__getattr__`` of a package; names : its ``globals()``, where a value is kept once it is imported."""

    def load(name: str) -> object:
        if name not in modules:
            import sys

            # name and obj let Python add its own "Did you mean"
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message, name=name, obj=sys.modules[package])
        if modules[name] == package:  # a subpackage
            return import_module(f"{package}.{name}")
        names[name] = getattr(import_module(modules[name]), name)
        return names[name]

    return load
