"""Annotations of brat: a text, NAME.txt, and beside it spans over its characters and binary relations, NAME.ann.

T1<TAB>Label 0 5<TAB>text
R1<TAB>Type Arg1:T1 Arg2:T2
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from trellis.data.document import Document, Relation
from trellis.data.files import FilePath, numbered_lines, reason, shown, writing
from trellis.data.places import Place, check_places, cut_at, place, places_of
from trellis.data.tokens import WORDS, Tokeniser
from trellis.errors import DataError


def brat_text(path: FilePath) -> str:
    """The file with the text of brat's annotations.

    >>> brat_text("a.ann")
    'a.txt'
    """
    stem, ending = os.path.splitext(os.fspath(path))
    if ending.lower() != ".ann":
        raise DataError(f"brat keeps annotations in NAME.ann and their text in NAME.txt, but got {shown(path)!r}")
    return f"{stem}.txt"


def read_brat(path: FilePath, tokeniser: Tokeniser = WORDS) -> Document:
    """The document of an ``.ann`` file and the ``.txt`` beside it; spans in several pieces are one span each."""
    name = shown(path)
    try:
        with open(brat_text(path), encoding="utf-8", newline="") as file:
            text = file.read()
    except OSError as error:
        raise DataError(
            f"its text {brat_text(path)} cannot be read: {reason(error)}; brat keeps both in one folder", path=name
        ) from None
    except UnicodeDecodeError:
        raise DataError("expected UTF-8; convert the file", path=brat_text(path)) from None
    places, first, relations = list[Place](), dict[str, int](), list[tuple[str, str, str]]()
    for number, line in numbered_lines(path):
        key, _, rest = line.partition("\t")
        try:
            if key.startswith("T"):
                label, _, where = rest.partition("\t")[0].partition(" ")
                first[key] = len(places)
                places += [place(a, b, label) for a, b in (piece.split() for piece in where.split(";"))]
                check_places(text, places[first[key] :])
            elif key.startswith("R"):
                kind, one, other = rest.split()[:3]
                relations.append((kind, one.partition(":")[2], other.partition(":")[2]))
        except DataError as error:
            raise DataError(str(error), path=name, line=number) from None
        except (ValueError, OverflowError):
            raise DataError(f"expected an annotation of brat but found {line!r:.60}", path=name, line=number) from None
    document = cut_at(tokeniser.cut(text, path=name), places)
    if len(document.spans or ()) < len(places):
        return document
    tied = [Relation(first[a], first[b], kind) for kind, a, b in relations if a in first and b in first and a != b]
    return replace(document, relations=list(dict.fromkeys(tied)))


def write_brat(path: FilePath, documents: Sequence[Document]) -> None:
    """Write a document, with its text beside the annotations."""
    if len(documents) != 1:
        raise DataError(f"brat has one text in a file, but there are {len(documents)}: choose another format")
    [document] = documents
    for _, _, label in places_of(document):
        if not label or any(map(str.isspace, label)):
            raise DataError(f"brat has labels of one word, but found {label!r}: choose another format")
    with writing(brat_text(path)) as out:
        out.write(document.text)
    lines = [
        f"T{k}\t{label} {start} {end}\t{' '.join(document.text[start:end].split())}"
        for k, (start, end, label) in enumerate(places_of(document), 1)
    ]
    lines += [
        f"R{k}\t{r.label} Arg1:T{r.first + 1} Arg2:T{r.second + 1}" for k, r in enumerate(document.relations or (), 1)
    ]
    with writing(path) as out:
        out.writelines(line + "\n" for line in lines)
