"""``python -m tests.hostile.attack FOLDER SEED COUNT KIND ...``: edits of saved files, in a process of their own.

For each edit the file is read and used. Outcomes are counted and printed, a line of JSON per kind; the edit under way
is named in FOLDER/now, for the case that the interpreter does not live to tell.
"""

from __future__ import annotations

import collections
import faulthandler
import json
import os
import resource
import signal
import sys
import traceback
import warnings

import numpy as np

from tests.hostile import edits
from tests.hostile.saved import SAVED, Saved
from trellis.data.archive import read_archive
from trellis.errors import ConvergenceWarning, ModelFileError, ShardError, TrellisError

MEMORY = 6 << 30
SECONDS = 60


def attack(kind: str, folder: str, seed: int, count: int) -> dict[str, object]:
    saved, path, target = SAVED[kind], os.path.join(folder, kind), os.path.join(folder, "edited")
    saved.make(path)
    with open(path, "rb") as source:
        raw = source.read()
    archive, before = read_archive(path), _used(saved, path, raw)
    outcomes: collections.Counter[str] = collections.Counter()
    faults: list[str] = []
    for number in range(count):
        rng = np.random.default_rng([seed, number])
        forged = rng.random() < 0.75
        if forged:
            said = edits.forge(archive, target, rng)
        else:
            said, changed = edits.edited_bytes(raw, rng)
            with open(target, "wb") as out:
                out.write(changed)
        with open(os.path.join(folder, "now"), "w") as out:
            out.write(f"{kind}, edit {number}: {said}")
        signal.alarm(SECONDS)
        try:
            outcome = _outcome(saved, target, before, forged)
        except Exception:
            outcome = "fault"
            faults.append(f"edit {number} ({said}):\n{traceback.format_exc()}")
        signal.alarm(0)
        outcomes[outcome] += 1
    return {"kind": kind, "outcomes": outcomes, "faults": faults}


def _forbid(event: str, values: tuple[object, ...]) -> None:
    """No file of the machine may be opened, and nothing outside be talked to, whatever a file says."""
    path = str(values[0]) if values else ""
    if event.startswith(("socket.connect", "subprocess.", "os.system", "os.exec")) or (
        event == "open" and path.startswith(("/etc/passwd", "/dev/zero", "/tmp/trellis-must-not"))
    ):
        raise AssertionError(f"{event} {path}")


def _outcome(saved: Saved, path: str, before: str, forged: bool) -> str:
    try:
        after = saved.use(saved.read(path))
    except ModelFileError as error:
        if path not in str(error):
            raise AssertionError(f"the file is not named: {error}") from error
        return "refused"
    except ShardError:
        raise  # a bug's name for itself
    except TrellisError:
        assert forged, "what was not forged is refused when it is read, or not at all"
        return "refused when used"
    if after == before:
        return "identical"
    assert forged, "a file that nobody sealed again became another model"
    return "another model"


def _used(saved: Saved, path: str, raw: bytes) -> str:
    used = saved.use(saved.read(path))
    with open(path, "wb") as out:  # a checkpoint has been gone on from
        out.write(raw)
    return used


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    faulthandler.register(signal.SIGALRM, chain=True)  # an edit that takes too long ends the process with a traceback
    os.fsync = lambda handle: None  # edited files need not outlive the machine
    warnings.simplefilter("error")
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    sys.addaudithook(_forbid)
    folder, seed, count, *kinds = sys.argv[1:]
    for kind in kinds:
        print(json.dumps(attack(kind, folder, int(seed), int(count))), flush=True)
