"""Random edits of files: of their bytes, and of what a header and arrays say, sealed again as a forger would."""

from __future__ import annotations

import copy
import io
import json
import zipfile
from typing import Any

import numpy as np

from trellis.data.archive import Archive, write_archive

Rng = np.random.Generator
VALUES: list[Any] = [
    None, True, False, -1, 0, 1, 2, 7, 10**9, 2**31, 2**63, -(2**63), 10**40, 0.5, -0.5, 1e-320, 1e100, 1e308,
    float("nan"), float("inf"), "", "x", "word", "\0", "\ud800", "[", [], {}, [[]], ["x"], [1, 2], {"x": 1},
    {"function": "os.system"},
]  # fmt: skip
NUMBERS = [
    0, 1, -1, 2, 0.5, 1e-320, 1e30, 1e100, 1e308, -1e308, np.nan, np.inf, -np.inf, 2**31 - 1, 2**40, -(2**31), 2**62,
]  # fmt: skip
OUTSIDE: dict[str, Any] = {
    "engine": "tcp://127.0.0.1:9", "checkpoint": "/tmp/trellis-must-not-be-written", "n_jobs": 10**6, "memory": "1T",
    "verbose": True, "files": {"names.tsv": "x"}, "wordnet": "/etc", "rules_path": "/etc/passwd", "more": 1,
}  # fmt: skip
"""Settings that reach outside: a file may not have them, but for the name of the rules, which is never opened."""
EXPRESSIONS = [
    "count('a' * 2000000000) >= 1", "count(['a'] * 2000000000) >= 1", "count('V').per(lambda L: 'a' * 2000000000) >= 1",
    "each_label(lambda L: count(L) <= 3)", "count('V') >= 1e400", "count('V') * 1e14 * 1e14 >= 1", "9 ** 9 ** 9",
    "word.matches('(a|aa)+$').implies(label('V'))", "word.matches('(a{1,1000}){1,1000}').implies(label('V'))",
    "position >= 1" + "0" * 40, "(" * 5000, "~" * 5000 + "word", "given(column('word'))", "__import__('os')",
]  # fmt: skip
RULES = [
    '[[rule]]\ndictionary = "/etc/passwd"\n', '[[rule]]\ndictionary = "/dev/zero"\n', '[[rule]]\ntable = "/dev/zero"\n',
    "x = " + "[" * 3000, "a" + ".a" * 3000 + " = 1\n", '[[rule]]\ncount = "V"\nat_least = 1e400\n',
    'token_pattern = "(a|aa)+"\n', '[features]\nx = { file = "/etc/passwd" }\n',
]  # fmt: skip
TYPES = ["<f8", ">f8", "<f4", "<i8", "<i4", ">i4", "<i2", "|u1", "|b1", "<u8", "<f2"]


def edited_bytes(raw: bytes, rng: Rng) -> tuple[str, bytes]:
    """Bytes of the file with a few of them changed, cut or repeated."""
    kind = str(rng.choice(["flip", "flip", "flip", "cut", "blank", "insert", "repeat", "unsealed"]))
    at, n = int(rng.integers(len(raw))), int(rng.integers(1, 64))
    changed = bytearray(raw)
    if kind == "flip":
        for place in rng.integers(len(raw), size=int(rng.integers(1, 9))):
            changed[place] ^= 1 << int(rng.integers(8))
    elif kind == "cut":
        del changed[at:]
    elif kind == "blank":
        changed[at : at + n] = bytes(len(changed[at : at + n]))
    elif kind == "insert":
        changed[at:at] = rng.bytes(n)
    elif kind == "repeat":
        changed[at:at] = changed[at : at + n]
    else:
        return _unsealed(raw, rng)
    return f"{kind} at {at}", bytes(changed)


def _unsealed(raw: bytes, rng: Rng) -> tuple[str, bytes]:
    """The zip written again with good checksums, without a new digest: by hand, or by another program."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(raw)) as old:
        entries = [(name, old.read(name)) for name in old.namelist()]
    kind = str(rng.choice(["number", "pack", "drop", "more", "order", "rename"]))
    at = int(rng.integers(len(entries)))
    name, body = entries[at]
    if kind == "number":
        digits = [i for i, c in enumerate(body) if chr(c).isdigit()] or [0]
        where = int(rng.choice(digits))
        entries[at] = name, body[:where] + str(rng.integers(10)).encode() + body[where + 1 :]
    elif kind == "drop":
        del entries[at]
    elif kind == "more":
        entries.insert(at, (f"{rng.integers(10)}.npy", body))
    elif kind == "order":
        entries = [entries[i] for i in rng.permutation(len(entries))]
    elif kind == "rename":
        entries[at] = entries[int(rng.integers(len(entries)))][0] + "x", body
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED if kind == "pack" else zipfile.ZIP_STORED) as new:
        for name, body in entries:
            new.writestr(name, body)
    return f"unsealed {kind} of {name}", out.getvalue()


def forge(archive: Archive, path: str, rng: Rng) -> str:
    """Write the archive with one to three changes of what it says, with the digest that belongs to them."""
    header, arrays = copy.deepcopy(archive.header), {name: array.copy() for name, array in archive.arrays.items()}
    said = []
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if rng.random() < 0.15:
            said.append(edit_on_purpose(header, rng))
        elif rng.random() < 0.5 or not arrays:
            said.append(edit_json(header, rng))
        else:
            said.append(edit_arrays(arrays, rng))
    write_archive(path, header, arrays)
    return "; ".join(said)


def edit_on_purpose(header: dict[str, Any], rng: Rng) -> str:
    """What somebody would try: settings that reach outside, expressions and rules that take or open too much."""
    tables = [place[key] for place, key in _places({"": header}) if isinstance(place[key], dict)]
    own = [table for table in tables if {"class", "configuration"} <= set(table)]
    codes = [table for table in tables if {"code", "strength"} <= set(table)]
    settings = [one["configuration"] for one in own if isinstance(one["configuration"], dict)]
    ruled = [table for table in tables if isinstance(table.get("rules"), str)]
    if codes and rng.random() < 0.5:
        table = codes[int(rng.integers(len(codes)))]
        table["code"] = str(rng.choice(EXPRESSIONS))
        return f"expression {table['code']:.40}"
    if ruled and rng.random() < 0.5:
        rules = ruled[int(rng.integers(len(ruled)))]
        more = str(rng.choice(RULES))
        rules["rules"] = [more, f"{rules['rules']}\n{more}"][int(rng.integers(2))]
        return f"rules {more[:40]!r}"
    name = str(rng.choice(list(OUTSIDE)))
    table = tables[int(rng.integers(len(tables)))]
    if settings and rng.random() < 0.7:
        table = settings[int(rng.integers(len(settings)))]
    table[name] = copy.deepcopy(OUTSIDE[name])
    return f"{name} where it does not belong"


def edit_json(header: dict[str, Any], rng: Rng) -> str:
    """Change one value anywhere in the tree: to another, to nothing, to a neighbour's."""
    places = list(_places(header))
    parent, key = places[int(rng.integers(len(places)))]
    if rng.random() < 0.5:  # most places are words of vocabularies: go down from the top to see others
        parent, key = _descended(header, rng)
    old = parent[key]
    kind = str(rng.choice(["value", "value", "number", "drop", "copy", "text", "more"]))
    if kind == "number" and isinstance(old, int | float) and not isinstance(old, bool):
        with np.errstate(all="ignore"):
            factor = [old + 1, old - 1, -old, old * 10**8, old + 0.5, float(old)]
            parent[key] = factor[int(rng.integers(len(factor)))]
    elif kind == "drop":
        del parent[key]
    elif kind == "copy":
        other, name = places[int(rng.integers(len(places)))]
        if key in parent if isinstance(parent, dict) else key < len(parent):
            parent[key] = json.loads(json.dumps(other[name]))
    elif kind == "text" and isinstance(old, str):
        at = int(rng.integers(len(old) + 1))
        head, tail = old[:at], old[at:]
        parent[key] = [head, tail, old + old, head + "\n" + tail, head + '"' + tail][int(rng.integers(5))]
    elif kind == "more" and isinstance(old, list | dict):
        value = _value(rng)
        old.append(value) if isinstance(old, list) else old.update({"more": value})
    else:
        parent[key] = _value(rng)
    return f"{kind} of {key!r}, {str(old)[:40]!r}"


def _value(rng: Rng) -> Any:
    """One of VALUES, of its own: what is put into a list must not be that list."""
    return copy.deepcopy(VALUES[int(rng.integers(len(VALUES)))])


def _places(tree: Any) -> Any:
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
        yield tree, key
        if isinstance(tree[key], dict | list):
            yield from _places(tree[key])


def _descended(tree: Any, rng: Rng) -> tuple[Any, Any]:
    while True:
        keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
        key = keys[int(rng.integers(len(keys)))]
        if not isinstance(tree[key], dict | list) or not tree[key] or rng.random() < 0.2:
            return tree, key
        tree = tree[key]


def edit_arrays(arrays: dict[str, Any], rng: Rng) -> str:
    """Change one array: an entry, its shape, its type, its order, its name."""
    name = str(rng.choice(list(arrays)))
    old = arrays[name]
    kind = str(rng.choice(["entry", "entry", "entry", "bit", "shape", "cut", "type", "order", "drop", "more", "swap"]))
    with np.errstate(all="ignore"):
        if kind == "entry" and old.size:
            new = old.copy()
            number = NUMBERS[int(rng.integers(len(NUMBERS)))]
            if rng.random() < 0.3:
                number = float(old.flat[int(rng.integers(old.size))]) + float(rng.choice([1, -1, 1e8, 0.01]))
            new.flat[int(rng.integers(old.size))] = _cast(number, old.dtype)
            arrays[name] = new
        elif kind == "bit" and old.size:
            raw = bytearray(old.tobytes())
            raw[int(rng.integers(len(raw)))] ^= 1 << int(rng.integers(8))
            arrays[name] = np.frombuffer(bytes(raw), old.dtype).reshape(old.shape)
        elif kind == "shape":
            shapes = [old.reshape(-1), old[None], old.T, old.reshape(-1, 1), old.reshape(1, -1), np.asfortranarray(old)]
            arrays[name] = shapes[int(rng.integers(len(shapes)))]
        elif kind == "cut":
            flat = old.reshape(-1) if old.ndim == 0 else old
            longer = np.concatenate([flat, flat[:1]])
            cuts = [flat[:-1], flat[1:], flat[:0], longer, flat[..., :-1], flat.reshape(-1)[:1]]
            arrays[name] = cuts[int(rng.integers(len(cuts)))]
        elif kind == "type":
            arrays[name] = old.astype(str(rng.choice(TYPES)))
        elif kind == "order":
            flat = old.reshape(-1)
            orders = [flat[::-1], np.sort(flat), rng.permutation(flat), np.zeros_like(flat), np.roll(flat, 1)]
            arrays[name] = orders[int(rng.integers(len(orders)))].reshape(old.shape)
        elif kind == "drop":
            del arrays[name]
        elif kind == "more":
            arrays[f"more{rng.integers(100)}"] = old
        else:
            other = str(rng.choice(list(arrays)))
            arrays[name], arrays[other] = arrays[other], arrays[name]
    return f"{kind} of array {name}"


def _cast(number: float, dtype: Any) -> Any:
    if dtype.kind == "f":
        return number
    if not np.isfinite(number):
        return 0
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return int(min(max(number, low), high))
