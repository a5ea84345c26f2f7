"""Files and names that the pages speak of, made of the samples that ship with the project.

A page says ``text.en`` or ``pairs``; here is what that is when its commands and its Python are run.
"""

from __future__ import annotations

import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
CITATIONS = {name: f"citations/{name}" for name in ("rules.toml", "few.tsv", "text.txt", "gold.tsv")}
CITATIONS["new.txt"] = "citations/text.txt"
BITEXT = {
    "text.en": "garden/text.en", "text.fr": "garden/text.fr", "new.en": "garden/text.en", "new.fr": "garden/text.fr",
    "english.txt": "garden/text.en", "french.txt": "garden/text.fr", "dev.gold": "garden/gold.links",
    "gold": "garden/gold.links", "gold.txt": "garden/gold.links", "text.bpe.en": "garden/text.en",
}  # fmt: skip
GARDEN = {
    "train.conllu": "garden/train.conllu", "dev.conllu": "garden/test.conllu", "gold.conllu": "garden/test.conllu",
    "trees.conllu": "garden/train.conllu", "text.conllu": "garden/test.conllu", "en.conllu": "garden/en.conllu",
    "es.conllu": "garden/fr.conllu", "new.conllu": "garden/fr-test.conllu",
}  # fmt: skip
PEOPLE = {
    "rules.toml": "people/rules.toml", "few.jsonl": "people/few.jsonl", "many.jsonl": "people/many.jsonl",
    "text.jsonl": "people/gold.jsonl", "gold.jsonl": "people/gold.jsonl",
}  # fmt: skip
RELATIONS = {"few.jsonl": "people/few.jsonl", "relations.toml": "people/rules.toml"}
WEAK = {"votes.jsonl": "weak/votes.jsonl", "new.jsonl": "weak/votes.jsonl", "more.txt": "garden/text.en"}
NAMES = {"pairs.tsv": "names/pairs.tsv"}
FILES = {
    "README.md": {**BITEXT, **GARDEN, **WEAK, "few.jsonl": "people/few.jsonl", "many.jsonl": "people/many.jsonl"},
    "aggregation.md": WEAK,
    "alignment.md": BITEXT,
    "command-line.md": {**CITATIONS, **BITEXT, **GARDEN, **WEAK, **NAMES, **RELATIONS},
    "extraction.md": CITATIONS,
    "induction.md": {"gold.tsv": "garden/gold.tsv", "corpus.tsv": "garden/gold.tsv"},
    "matching.md": {},
    "parsing.md": {name: sample for name, sample in GARDEN.items() if name != "trees.conllu"},
    "relations.md": PEOPLE,
    "report.md": {**CITATIONS, **BITEXT, **GARDEN, **RELATIONS},
    "scale.md": {**BITEXT, **CITATIONS, "text.txt": "garden/text.en"},
    "views.md": CITATIONS,
}
"""Page -> file that it names -> sample below examples/."""


def furnish(page, folder):
    """Put a page's files into a folder, with the whole of examples/ beside them."""
    shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    for name, sample in FILES.get(page, {}).items():
        shutil.copy(EXAMPLES / sample, folder / name)
    for make in MADE.get(page, ()):
        make(folder)


def _read(sample):
    return (EXAMPLES / sample).read_text(encoding="utf-8")


def _blocks(sample, n):
    return "\n\n".join(_read(sample).strip().split("\n\n")[:n]) + "\n\n"


def _joined(folder):
    lines = zip(_read("garden/text.en").splitlines(), _read("garden/text.fr").splitlines(), strict=True)
    text = "".join(f"{a} ||| {b}\n" for a, b in lines)
    for name in ("text.en-fr", "text.fr-en", "new.txt"):
        (folder / name).write_text(text, encoding="utf-8")


def _short(folder):
    """Where a page shows what commands there are and no figure, a little text is enough."""
    for name in ("text.txt", "new.txt"):
        (folder / name).write_text("".join(_read("citations/text.txt").splitlines(True)[:40]), encoding="utf-8")
    for name in ("text.en", "text.fr", "text.bpe.en", "gold.txt"):
        sample = {"gold.txt": "garden/gold.links", "text.bpe.en": "garden/text.en"}.get(name, f"garden/{name}")
        (folder / name).write_text("".join(_read(sample).splitlines(True)[:30]), encoding="utf-8")
    (folder / "gold.conllu").write_text(_blocks("garden/test.conllu", 10), encoding="utf-8")
    (folder / "pairs.tsv").write_text("".join(_read("names/pairs.tsv").splitlines(True)[:20]), encoding="utf-8")
    (folder / "gold.tsv").write_text(_blocks("citations/gold.tsv", 10), encoding="utf-8")
    for name in ("train.conllu", "trees.conllu", "text.conllu"):
        (folder / name).write_text(_blocks("garden/train.conllu", 20), encoding="utf-8")
    for name in ("en.conllu", "es.conllu"):
        sample = {"en.conllu": "garden/en.conllu", "es.conllu": "garden/fr.conllu"}[name]
        (folder / name).write_text(_blocks(sample, 40), encoding="utf-8")


def _words(folder):
    """Forty sentences, their tags, closed classes and a dictionary."""
    tagged = [
        [line.split("\t") for line in block.split("\n")]
        for block in _blocks("garden/gold.tsv", 40).strip().split("\n\n")
    ]
    lines = "".join(" ".join(w for w, _ in own) + "\n" for own in tagged)
    of = {}
    for own in tagged:
        for word, tag in own:
            of.setdefault(word, tag)
    for name in ("text.txt", "new.txt"):
        (folder / name).write_text(lines, encoding="utf-8")
    for name in ("gold.tsv", "corpus.tsv"):
        (folder / name).write_text(_blocks("garden/gold.tsv", 40), encoding="utf-8")
    (folder / "few.tsv").write_text(_blocks("garden/gold.tsv", 5), encoding="utf-8")
    closed = "".join(f"{w}\t{t}\n" for w, t in of.items() if t in ("DET", "ADP", "PUNCT"))
    (folder / "closed.tsv").write_text(closed, encoding="utf-8")
    (folder / "tags-of-words.tsv").write_text("".join(f"{w}\t{t}\n" for w, t in of.items()), encoding="utf-8")


def _votes(folder):
    """Columns, rules, and a folder as WRENCH has them."""
    import json

    (folder / "votes.tsv").write_text("# token\tlist\tcue\ntake\tO\t_\naspirin\tB-DRUG\tB-DRUG\n", encoding="utf-8")
    rule = '[[rule]]\nname = "l"\nshare = "B-DRUG"\nif_column = { list = "B-DRUG" }\nat_least = 0.9\nper = "corpus"\n'
    (folder / "rules.toml").write_text(rule, encoding="utf-8")
    wrench = folder / "weak" / "bc5cdr"
    wrench.mkdir(parents=True)
    record = {"data": {"text": ["take", "aspirin"]}, "weak_labels": [[[1, 2, "DRUG"]], []], "label": []}
    (wrench / "train.json").write_text(json.dumps({"0": record}), encoding="utf-8")
    (wrench / "meta.json").write_text(
        json.dumps({"lf": ["a", "b"], "lf_rec": ["a", "b"], "entity_types": ["DRUG"]}), encoding="utf-8"
    )


def _names(folder):
    """Names to ask about, and sentences with answers."""
    (folder / "new.tsv").write_text("manuela\tמנואלה\nmanuela\tמונאקו\n", encoding="utf-8")
    same = [("the cat sleeps on the wall", "on the wall the cat sleeps"), ("a rose climbs", "a red rose climbs")]
    other = [("the cat sleeps", "nobody came home"), ("rain fell all day", "the price of bread rose again")]
    lines = "".join(f"{a}\t{b}\t{int(k < 2)}\n" for k, (a, b) in enumerate([*same, *other]))
    (folder / "similar.tsv").write_text("big\tlarge\t0.9\n", encoding="utf-8")
    for name in ("pairs.tsv", "dev.tsv"):
        (folder / name).write_text(lines, encoding="utf-8")


def _tagger(folder, name="en.tags", sample="garden/train.conllu"):
    from trellis import Tagger
    from trellis.data.conllu import read_conllu

    Tagger().fit(list(read_conllu(EXAMPLES / sample))[:60]).save(folder / name)


def _trees(folder):
    """Text without tags, taggers of two languages, and rules about arcs."""
    for name, sample in (("text.txt", "garden/text.en"), ("en.txt", "garden/text.en"), ("es.txt", "garden/text.fr")):
        (folder / name).write_text("".join(_read(sample).splitlines(True)[:60]), encoding="utf-8")
    _tagger(folder)
    _tagger(folder, "es.tags", "garden/fr-test.conllu")
    rule = (
        '[[rule]]\nname = "roots"\narcs = "count"\nhead_root = true\nchild_column = { upos = "VERB" }\nat_least = 0.5\n'
    )
    (folder / "rules.toml").write_text(rule, encoding="utf-8")


def _usual(folder):
    (folder / "words.tsv").write_text("pp\tPAGES\nproceedings\tBOOKTITLE\nof\tTITLE\n", encoding="utf-8")


MADE = {
    "aggregation.md": [_votes],
    "alignment.md": [_joined],
    "command-line.md": [_short, _joined],
    "extraction.md": [_short],
    "induction.md": [_words],
    "matching.md": [_names],
    "parsing.md": [_trees],
    "relations.md": [_tagger],
    "report.md": [_short],
    "scale.md": [_joined],
    "views.md": [_short, _usual],
}

PAIRS = """
from pathlib import Path
sides = [Path(f"text.{end}").read_text(encoding="utf-8").splitlines()[:40] for end in ("en", "fr")]
pairs = list(zip(*sides))
new_pairs = pairs[:3]
sentences = [side.split() for side in sides[0]]
"""

PRELUDE = {
    "alignment.md": PAIRS,
    "scale.md": f"""{PAIRS}
from trellis.data.text_files import read_labelled
rules, few, texts = Path("rules.toml").read_text(encoding="utf-8"), read_labelled("few.tsv"), sides[0]
""",
    "extraction.md": """
from trellis.data.text_files import read_labelled, read_texts
few, texts = read_labelled("few.tsv"), read_texts("text.txt")
""",
    "views.md": """
texts = [["the", "goal", "was", "late"], ["a", "late", "bill"], ["goal", "of", "the", "year"], ["a", "bill", "fell"]]
labels = [["OTHER", "SPORT", "OTHER", "OTHER"], ["OTHER"] * 3, ["SPORT", "OTHER", "OTHER", "OTHER"], ["OTHER"] * 3]
""",
    "induction.md": """
from pathlib import Path
sentences = [line.split() for line in Path("text.txt").read_text(encoding="utf-8").splitlines()]
others = sentences[:3]
""",
}
"""Python that stands before a page's own."""
