"""Writes the sentences of this folder: who lives where and works for whom, with gold labels from the templates.

python examples/people/generate.py
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
FIRST = ("Ann", "Bob", "Cora", "Dan", "Eve", "Fred", "Gwen", "Hal", "Ida", "Jon", "Kit", "Lea", "Max", "Nell", "Otto")
LAST = ("Lee", "Ray", "Fox", "Moss", "Hill", "Wood", "Marsh", "Stone", "Field", "Brook", "Lake", "Reed")
TOWNS = ("Ely", "Hull", "Ware", "Bath", "Wells", "Rye", "Deal", "Ripon", "Truro", "Perth", "Oban", "Ayr")
FIRMS = ("Acorn", "Beacon", "Cobalt", "Dynamo", "Ember", "Falcon", "Granite", "Harbour", "Indigo", "Juniper")
KINDS = ("Mills", "Press", "Bank", "Works", "Trust")
TEMPLATES = (
    ("{P} lives in {L} .", [(0, 1, "Live_In")]),
    ("{P} , who lives in {L} , works for {O} .", [(0, 1, "Live_In"), (0, 2, "Work_For")]),
    ("{P} of {O} spoke first .", [(0, 1, "Work_For")]),
    ("{O} , based in {L} , hired {P} .", [(0, 1, "OrgBased_In"), (2, 0, "Work_For")]),
    ("{O} in {L} said no more .", [(0, 1, "OrgBased_In")]),
    ("{P} met {P} in {L} .", []),
    ("{P} left {L} for {L} , where the family lives .", [(0, 2, "Live_In")]),
    ("In {L} , {P} and {P} waited for {O} .", []),
    ("{P} , a clerk at {O} in {L} , was ill .", [(0, 1, "Work_For"), (1, 2, "OrgBased_In")]),
    ("{O} bought {O} .", []),
)
TYPES = {"P": "Peop", "L": "Loc", "O": "Org"}


def sentence(rng: np.random.Generator) -> dict[str, object]:
    template, relations = TEMPLATES[int(rng.integers(len(TEMPLATES)))]
    tokens: list[str] = []
    mentions = []
    for piece in template.split():
        if not piece.startswith("{"):
            tokens.append(piece)
            continue
        kind = piece[1]
        name = {
            "P": lambda: [str(rng.choice(FIRST)), str(rng.choice(LAST))],
            "L": lambda: [str(rng.choice(TOWNS))],
            "O": lambda: [str(rng.choice(FIRMS)), str(rng.choice(KINDS))][: 1 + int(rng.random() < 0.7)],
        }[kind]()
        mentions.append({"start": len(tokens), "end": len(tokens) + len(name), "type": TYPES[kind]})
        tokens += name
    found = [{"first": a, "second": b, "type": kind} for a, b, kind in relations]
    return {"tokens": tokens, "mentions": mentions, "relations": found}


def bare(one: dict[str, object]) -> dict[str, object]:
    """Mentions alone, of no type."""
    return {"tokens": one["tokens"], "mentions": [{k: m[k] for k in ("start", "end")} for m in one["mentions"]]}  # type: ignore[index, attr-defined]


def main(seed: int = 1) -> None:
    rng = np.random.default_rng(seed)
    drawn = [sentence(rng) for _ in range(180)]
    files = {"few.jsonl": drawn[:10], "many.jsonl": [bare(s) for s in drawn[20:120]], "gold.jsonl": drawn[120:]}
    for name, sentences in files.items():
        lines = "".join(json.dumps(s) + "\n" for s in sentences)
        (HERE / name).write_text(lines, encoding="utf-8")


if __name__ == "__main__":
    main()
