"""What the benchmarks of trees share: where treebanks are, and how they are read."""

from __future__ import annotations

import os
from pathlib import Path

from trellis.apps.parse.parser import tagged
from trellis.apps.parse.tree_text import strip
from trellis.data.conllu import TREE, read_conllu
from trellis.data.document import Document

ROOT = Path(__file__).parents[1]


def data(*parts: str) -> Path:
    """A file of the corpora."""
    folder = Path(os.environ.get("TRELLIS_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "trees").is_dir():
        raise SystemExit(f"no treebanks in {folder}: set TRELLIS_DATA to the folder that holds trees/")
    return folder.joinpath(*parts)


def treebank(name: str) -> list[Document]:
    """The sentences of trees/NAME.conllu, with tags, heads and relations."""
    return list(read_conllu(data("trees", f"{name}.conllu"), columns=TREE))


def plain(sentences: list[Document], longest: int | None = None) -> tuple[list, list]:
    """Tagged words and heads without punctuation, of sentences up to a length."""
    text, heads = [], []
    for sentence, words in zip(sentences, tagged(sentences), strict=True):
        own = strip(sentence, words)
        if own.words and (longest is None or len(own.words) <= longest):
            text.append(own.words)
            heads.append(own.heads(sentence))
    return text, heads


def attachment(found: list, right: list) -> float:
    """Percentage of words with the right head."""
    pairs = [(a, b) for one, two in zip(found, right, strict=True) for a, b in zip(one, two, strict=True)]
    return 100.0 * sum(a == b for a, b in pairs) / len(pairs)
