"""``trellis info``: versions, hardware, and which kernels are already compiled."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Any, NoReturn

from trellis.cli.checks import check_files
from trellis.cli.console import print_lines, visible
from trellis.cli.options import Json, Output, Quiet, SomeModel, flag, wants_json


@dataclass(frozen=True)
class KernelCache:
    """What numba keeps on disk: ``compiled`` of our ``total`` cacheable kernels, in ``folders``."""

    folders: tuple[Path, ...]
    compiled: int
    total: int

    def __str__(self) -> str:
        if self.total == 0:
            return "none that can be compiled (is NUMBA_DISABLE_JIT set?)"
        if self.compiled == self.total:
            return f"all {self.total} compiled"
        return f"{self.compiled} of {self.total} compiled, the rest on first use (or now: trellis info --compile)"


def info(
    model: SomeModel = None,
    output: Output = "-",
    compile_: Annotated[bool, flag("--compile", help="Compile all kernels now, so that no run has to wait.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Show versions, cores and compiled kernels, or the contents of a model.

    `trellis info -m m.trellis` shows the class, labels, size and settings of a model.
    """
    check_files({"--model": model}, {"--output": output})
    rows = _installation(compile_) if model is None else _model(model)
    if wants_json(output, json):
        print_lines(output, [dumps(rows, ensure_ascii=False)])
    else:
        print_lines(output, _lines(rows))


def _installation(compile_: bool) -> dict[str, Any]:
    import platform

    import numba
    import numpy
    import scipy

    from trellis._version import __version__
    from trellis.engine.compiling import compile_everything
    from trellis.engine.threads import usable_cores

    compiled = {"compiled now": compile_everything()} if compile_ else {}
    cache = inspect_kernel_cache()
    return {
        "trellis": __version__,
        "python": f"{platform.python_version()}, {platform.system()} {platform.machine()}",
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "numba": numba.__version__,
        "cores": usable_cores(),
        **compiled,
        "kernels": str(cache),
        "kernel cache": [str(folder) for folder in cache.folders],
    }


def _model(path: str) -> dict[str, Any]:
    """Class, settings and sizes of a model, after loading it: a file that cannot be used is an error."""
    from trellis.data.archive import read_archive
    from trellis.models.saving import load_archive, missing_function

    archive = read_archive(path)
    configuration = archive.header.get("configuration", {})
    functions: dict[str, Any] = {
        name: _absent for name, value in configuration.items() if missing_function(value) is not None
    }
    loaded = load_archive(path, archive, functions)
    learned = archive.header["learned"]
    inner = [one["class"] for one in (learned.get("model"), *learned.get("models", ())) if one and "class" in one]
    names = getattr(loaded, "label_names_", None)
    return {
        "file": path,
        "class": archive.header["class"],
        **({"inner model": " and ".join(inner)} if inner else {}),
        **({} if names is None else {"labels": list(map(str, names))}),
        "parameters": sum(array.size for array in archive.arrays.values()),
        "bytes": archive.n_bytes,
        "settings": {name: value for name, value in configuration.items() if name != "rules"},
    }


def _absent(*_: Any, **__: Any) -> NoReturn:
    """In the place of functions that files do not hold."""
    from trellis.errors import DataError

    raise DataError("this function is not part of the file")


def _lines(rows: dict[str, Any]) -> Iterator[str]:
    for name, value in rows.items():
        if isinstance(value, dict):
            yield from (visible(f"{name:<14}{key} = {one!r}") for key, one in value.items() if one is not None)
        elif name == "labels":
            yield visible(f"{name:<14}{', '.join(value)}")
        else:
            yield from (visible(f"{name:<14}{one}") for one in (value if isinstance(value, list) else [value]))


def inspect_kernel_cache() -> KernelCache:
    """Look, without compiling anything, for the index file that numba writes for each kernel it compiled.

    An index counts if it is newer than the kernel's source: numba drops it when the source has changed.
    """
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    folders: set[Path] = set()
    compiled = total = 0
    for kernel in _kernels():
        folder = Path(kernel.stats.cache_path)
        code = kernel.py_func.__code__
        source = Path(code.co_filename)
        indexes = folder.glob(f"{source.stem}.{code.co_qualname}-{code.co_firstlineno}.{python}*.nbi")
        compiled += any(index.stat().st_mtime >= source.stat().st_mtime for index in indexes)
        total += 1
        folders.add(folder)
    return KernelCache(tuple(sorted(folders)), compiled, total)


def _kernels() -> Iterator[Any]:
    """Yield every cacheable jitted function of our ``kernels`` packages and modules."""
    from importlib import import_module

    from numba.extending import is_jitted

    package = Path(__file__).parent.parent
    for path in sorted([*package.rglob("kernels/*.py"), *package.rglob("kernels.py")]):
        parts = path.relative_to(package.parent).with_suffix("").parts
        module = import_module(".".join(parts).removesuffix(".__init__"))
        for value in vars(module).values():
            # what a module imports from another is counted where it is defined
            if is_jitted(value) and value.py_func.__module__ == module.__name__ and value.stats.cache_path:
                yield value
