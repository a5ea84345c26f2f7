"""Generated advertisements for flats: texts with gold fields, from the word lists below.

    python examples/ads/generate.py FOLDER [--labelled 5 --unlabelled 300 --test 100 --seed 0] [--fields 12]

A domain unlike citations: clauses in any order, everyday words that several fields share, and repeated fields.
rules.toml knows of seven fields. With ``--fields 12`` the texts have the twelve fields of the advertisements in Chang
2011, whose thirteen rules (table 3.2) are in twelve.toml.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from trellis.data.document import Document

STREETS = [
    "Alder",
    "Birch",
    "Canal",
    "Dover",
    "Elm",
    "Foundry",
    "Grove",
    "Harbor",
    "Juniper",
    "Lark",
    "Mill",
    "Orchard",
]
SPOTS = [
    "the lake",
    "the station",
    "downtown",
    "a bakery",
    "the university",
    "a park",
    "shops",
    "the market",
    "two schools",
]
GOODS = [
    "balcony",
    "kitchen",
    "laundry",
    "parking",
    "garden",
    "elevator",
    "fireplace",
    "windows",
    "floors",
    "closets",
    "ceilings",
    "carpet",
    "stove",
    "dishwasher",
]
LOOKS = [
    "sunny",
    "new",
    "large",
    "quiet",
    "old",
    "bright",
    "modern",
    "wooden",
    "private",
    "shared",
    "charming",
    "huge",
    "clean",
    "open",
    "cozy",
]
MONTHS = ["May", "June", "July", "August", "September", "October"]
NAMES = ["Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jill"]


def advertisement(rng: np.random.Generator, twelve: bool = False) -> list[tuple[str, str]]:
    """One advertisement as clauses with their fields, seven kinds of these or twelve."""

    def one(items: list[str]) -> str:
        return str(items[rng.integers(len(items))])

    def size() -> str:
        n = rng.integers(1, 5)
        return one(
            [
                f"{one(LOOKS)} {n} bedroom flat",
                f"{n} br",
                f"{n} large rooms and one bath",
                f"{n}00 sqft studio",
                "two floors",
            ]
        )

    def rent() -> str:
        amount = f"${rng.integers(6, 30)}00"
        return one([f"{amount} a month", f"rent {amount}", f"only {amount}, deposit ${rng.integers(2, 9)}00", amount])

    def features() -> str:
        goods = [f"{one(LOOKS)} {one(GOODS)}" if rng.random() < 0.6 else one(GOODS) for _ in range(rng.integers(1, 4))]
        return " and ".join(goods) if rng.random() < 0.4 else ", ".join(goods)

    def place() -> str:
        return one(
            [
                f"near {one(SPOTS)}",
                f"{rng.integers(1, 9)} blocks to {one(SPOTS)}",
                f"{rng.integers(10, 900)} {one(STREETS)} Street",
                f"{one(LOOKS)} neighborhood close to {one(SPOTS)} and {one(SPOTS)}",
                f"easy walk to {one(SPOTS)}",
            ]
        )

    def available() -> str:
        return one(["available now", f"free from {one(MONTHS)} {rng.integers(1, 29)}", f"open house {one(MONTHS)} 1"])

    def pets() -> str:
        return one(["no pets", "no smoking", "cats welcome", "quiet people only, no dogs", "one small dog is fine"])

    def contact() -> str:
        phone = f"555-{rng.integers(1000, 9999)}"
        return one(
            [
                f"call {one(NAMES)} at {phone}",
                f"email {one(NAMES).lower()}@flats.example",
                phone,
                f"ask for {one(NAMES)}",
            ]
        )

    makers = {"SIZE": size, "FEATURES": features, "PLACE": place, "AVAILABLE": available, "PETS": pets, "RENT": rent}
    if twelve:
        street = f"{rng.integers(10, 900)} {one(STREETS)} {one(['Street', 'St', 'Avenue'])}"
        others = {
            "ADDRESS": lambda: one([street, f"address: {street}", f"cross street {one(STREETS)}"]),
            "AVAILABLE": lambda: one([available(), "lease can begin immediately"]),
            "PHOTOS": lambda: one(["more photos at http://flats.example/7", "see link for images", "image on request"]),
            "ROOMMATES": lambda: one(
                ["two roommates already here", "we are respectful, no drama", f"seeking roommates who are {one(LOOKS)}"]
            ),
            "UTILITIES": lambda: one(
                ["all utilities included", "tenant pays electricity", "water and garbage paid", "heat is included"]
            ),
            "OTHER": lambda: one(["come and see", "a must see", f"our {one(LOOKS)} house says hello"]),
        }
        named = {"PLACE": "NEIGHBORHOOD", "PETS": "RESTRICTIONS"}
        makers = {named.get(name, name): maker for name, maker in makers.items()} | others
    wanted = [name for name in makers if rng.random() < 0.75] or ["SIZE"]
    wanted += ["FEATURES"] * int(rng.random() < 0.4)
    order = [wanted[i] for i in rng.permutation(len(wanted))]
    clauses = [(name, makers[name]()) for name in order]
    if rng.random() < 0.8:
        clauses.append(("CONTACT", contact()))
    marked = []
    for i, (name, text) in enumerate(clauses):
        mark = "." if i == len(clauses) - 1 else one([",", ".", ".", ";", "!", "" if rng.random() < 0.1 else ","])
        marked.append((name, (text[0].upper() + text[1:] if rng.random() < 0.5 else text) + mark))
    return marked


def advertisements(n: int, seed: list[int], twelve: bool = False) -> list[Document]:
    """``n`` advertisements with their fields."""
    rng = np.random.default_rng(seed)
    return [_citations().labelled_text(advertisement(rng, twelve)) for _ in range(n)]


def _citations() -> ModuleType:
    """The other generator, which is no module of a package; it knows how to write samples."""
    name = "citations_generate"
    if name not in sys.modules:
        path = Path(__file__).parent.parent / "citations" / "generate.py"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--fields", type=int, choices=(7, 12), default=7)
    own, sys.argv[1:] = parser.parse_known_args()
    _citations().main(partial(advertisements, twelve=own.fields == 12))
