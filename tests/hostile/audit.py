"""``python -m tests.hostile.audit FOLDER KIND ...``: load and use saved files under an audit hook, a JSON line a file.

Each kind of file is made, read and used once, so that modules are imported and kernels compiled. Then the file, and
forgeries of it whose settings are very large, are read and used in a process of their own (a fork): listed is whatever
is opened, connected to or started, and the memory that was taken.
"""

from __future__ import annotations

import copy
import json
import os
import sys
import sysconfig
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.hostile.saved import SAVED, Saved
from trellis.data.archive import read_archive, write_archive
from trellis.data.hints import fits
from trellis.errors import TrellisError
from trellis.models.saving import known_class, saved_arguments

WATCHED = ("open", "socket.", "subprocess.", "urllib.", "ctypes.dlopen", "pickle.", "os.system", "os.exec",
           "os.posix_spawn", "os.fork", "os.listdir", "os.scandir", "os.remove", "os.rename", "shutil.")  # fmt: skip
ALLOWED = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
           str(Path(__file__).parents[2] / "src"), "/proc/", "/sys/")  # fmt: skip
"""Sources and cached kernels of installed packages, and how much memory and how many cores there are."""
LARGE = 10**9


def watch(path: str, seen: list[str]) -> None:
    """List what is done from now on that the file at ``path`` does not explain."""

    def hook(event: str, values: tuple[object, ...]) -> None:
        first = str(values[0]) if values else ""
        is_own = first == path or (path.endswith("checkpoint") and first.startswith(os.path.dirname(path)))
        if event.startswith(WATCHED) and not (
            event.startswith(("open", "os.")) and (is_own or first.startswith(ALLOWED))
        ):
            seen.append(f"{event} {first}")

    sys.addaudithook(hook)


def peak() -> int:
    """Peak memory of this process, in bytes."""
    with open("/proc/self/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def in_a_fork(saved: Saved, path: str) -> dict[str, Any]:
    """What happens when a file is read and used."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins at what is used now
        before, seen, fault = peak(), list[str](), ""
        watch(path, seen)
        try:
            saved.use(saved.read(path))
        except TrellisError:
            pass
        except Exception:
            fault = traceback.format_exc()
        answer = {"seen": list(seen), "fault": fault, "memory": peak() - before, "file": os.path.getsize(path)}
        os.write(writer, json.dumps(answer).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        told = stream.read()
    os.waitpid(child, 0)
    found: dict[str, Any] = json.loads(told) if told else {"fault": "the process died"}
    return found


def headers(tree: Any) -> Iterator[dict[str, Any]]:
    """Headers of models anywhere in a file, one of each class."""
    met, left = set(), [tree]
    while left:
        one = left.pop()
        if isinstance(one, dict) and {"class", "configuration", "learned"} == set(one) and one["class"] not in met:
            met.add(one["class"])
            yield one
        left += one.values() if isinstance(one, dict) else one if isinstance(one, list) else []


def forgeries(header: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The header with one whole number of its settings replaced by a large one, for each of them."""
    for number, own in enumerate(headers(header)):
        hints = saved_arguments(known_class(own["class"]))
        for name in own["configuration"]:
            if fits(LARGE, hints[name]) and not fits(0.5, hints[name]):
                value = 26 if name == "bits" else LARGE  # the largest number of bits that is accepted
                forged = copy.deepcopy(header)
                list(headers(forged))[number]["configuration"][name] = value
                yield f"{own['class']}.{name} = {value}", forged


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    folder, *kinds = sys.argv[1:]
    for kind in kinds:
        saved, path = SAVED[kind], os.path.join(folder, "checkpoint" if kind.startswith("checkpoint") else "model")
        saved.make(path)
        content = Path(path).read_bytes()
        saved.use(saved.read(path))
        Path(path).write_bytes(content)  # a checkpoint has been resumed from, and written
        print(json.dumps({"kind": kind, "edit": "none", **in_a_fork(saved, path)}), flush=True)
        Path(path).write_bytes(content)
        archive = read_archive(path)
        for edit, header in forgeries(archive.header) if archive.header["class"] != "Checkpoint" else ():
            write_archive(path, header, archive.arrays)
            print(json.dumps({"kind": kind, "edit": edit, **in_a_fork(saved, path)}), flush=True)
