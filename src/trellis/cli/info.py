"""``trellis info``: what this installation runs on, and whether its kernels are compiled already."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


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
    compile_: Annotated[
        bool, typer.Option("--compile", help="Compile all kernels now, on every core, so that no run has to wait.")
    ] = False,
) -> None:
    """Show versions, cores and whether the kernels are compiled already."""
    import platform

    import numba
    import numpy
    import scipy

    from trellis._version import __version__
    from trellis.engine.compiling import compile_everything
    from trellis.engine.threads import usable_cores

    compiled = [("compiled now", compile_everything())] if compile_ else []
    cache = inspect_kernel_cache()
    rows = [
        ("trellis", __version__),
        ("python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"),
        ("numpy", numpy.__version__),
        ("scipy", scipy.__version__),
        ("numba", numba.__version__),
        ("cores", str(usable_cores())),
        *compiled,
        ("kernels", str(cache)),
        *(("kernel cache", str(folder)) for folder in cache.folders),
    ]
    for name, value in rows:
        typer.echo(f"{name:<14}{value}")


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
