"""Sentences written for tests: people who live in towns and work for firms."""

from __future__ import annotations

from trellis.data.document import Document, Relation, Span

RULES = """
entities = ["Peop", "Org", "Loc"]
relations = ["Live_In", "Work_For"]

[lists]
towns = ["Ely", "Hull"]

[[rule]]
name = "who lives and works is a person"
if_relation = ["Live_In", "Work_For"]
then_first = "Peop"

[[rule]]
name = "one lives in a place"
if_relation = "Live_In"
then_second = "Loc"

[[rule]]
name = "one works for a firm"
if_relation = "Work_For"
then_second = "Org"

[[rule]]
name = "towns"
if_word_in = "towns"
then_entity = "Loc"

[[rule]]
name = "as many as in labelled text"
counts_like_labelled = true
within = 0.2

[[rule]]
name = "one way"
one_relation_per_pair = true
"""
PEOPLE = ("Ann", "Bob", "Cy", "Dee", "Eve", "Fay")
TOWNS = ("Ely", "Hull", "Ware", "Diss", "Rye", "Bath")
FIRMS = ("Acme", "Bolt", "Core", "Dyne", "Elan", "Flux")


def sentence(kind: int, i: int, j: int) -> Document:
    """One of four kinds of sentences."""
    who, town, firm = PEOPLE[i], TOWNS[j], FIRMS[j]
    if kind == 0:
        tokens, types, ties = f"{who} lives in {town} .", {0: "Peop", 3: "Loc"}, [(0, 1, "Live_In")]
    elif kind == 1:
        tokens, types, ties = f"{who} works for {firm} Ltd .", {0: "Peop", 3: "Org"}, [(0, 1, "Work_For")]
    elif kind == 2:
        tokens, types, ties = (
            f"{firm} Ltd of {town} hired {who} .",
            {0: "Org", 3: "Loc", 5: "Peop"},
            [(2, 0, "Work_For")],
        )
    else:
        tokens, types, ties = f"{who} saw {town} .", {0: "Peop", 2: "Loc"}, []
    mentions = tuple(Span(t, a, a + 1 + (t == "Org")) for a, t in types.items())
    return Document(tuple(tokens.split()), spans=mentions, relations=tuple(Relation(*r) for r in ties))


def sentences(n: int, first: int = 0) -> list[Document]:
    return [sentence(k % 4, (k * 5 + k // 4) % 6, (k * 7 + k // 6) % 6) for k in range(first, first + n)]


def bare(text: Document) -> Document:
    return Document(text.tokens, spans=tuple(Span(None, m.first, m.last) for m in text.spans or ()))
