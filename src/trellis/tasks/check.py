"""What rules would do in texts, before anything is trained: where each applies, and where labels break it.

A rule applies where it has something to ask: at a token that its condition holds of, or in a text whose labels it
counts (:mod:`trellis.tasks.rule_places`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trellis.constraints import Constraint, RulesFile
from trellis.data.bio import unmarked
from trellis.data.corpus import corpus_of
from trellis.data.ragged import IntArray
from trellis.data.tokens import Text, excerpt
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models import HMM
from trellis.tasks.rule_places import Breach, RulePlaces

EXAMPLES = 3
"""So many places where labels break a rule are listed."""


@dataclass(frozen=True)
class Place:
    """A place in a text: number of the text from 0, where it was read, and the characters around the token."""

    text: int | None
    path: str | None
    line: int | None
    excerpt: str

    def __str__(self) -> str:
        where = f"text {self.text + 1}" if self.text is not None else "all texts together"
        if self.path is not None:
            where = self.path if self.line is None else f"{self.path}, line {self.line}"
        return f"{where}: {self.excerpt}" if self.excerpt else where


@dataclass(frozen=True)
class RuleCheck:
    """One rule in some texts.

    sentence : what it says;  places : where it asks something;  texts : how many texts these are in
    words : the tokens that it is about, each with how often, commonest first; of rules about single tokens alone
    first : number of the first text, from 0, None where there is none
    broken : how often labels break it; None where no text is labelled
    broken_places : in how many places they do;  broken_at : the first of these
    tested : places in the texts that are labelled
    """

    name: str
    sentence: str
    places: int
    texts: int
    words: tuple[tuple[str, int], ...]
    first: int | None
    broken: int | None
    broken_places: int = 0
    broken_at: tuple[Place, ...] = ()
    tested: int = 0


def check_rules(
    rules: RulesFile, texts: Sequence[Text], label_names: Vocabulary, *, examples: int = EXAMPLES
) -> list[RuleCheck]:
    """A report of every rule over the texts, in the order of the file; examples : places to list of each."""
    some = [number for number, text in enumerate(texts) if len(text)]
    if not some:
        raise DataError("there is no text to check the rules on")
    constraints: list[Constraint] = list(rules)
    sentences = (texts[n].sentence for n in some)
    plain = (replace(s, labels=None if s.labels is None else unmarked(s.labels, label_names)) for s in sentences)
    corpus = corpus_of(plain, label_names=label_names)
    model = HMM(list(label_names), min_count=1)
    batch = model.encode(corpus, fit=True)
    known = np.flatnonzero(batch.complete)
    whole = batch.take(known)
    labelled = RulePlaces(constraints, whole, model.label_names_, model.parts(whole)) if len(whole) else None
    broken = None if labelled is None else labelled.broken(whole.labels)
    every = RulePlaces(constraints, batch, model.label_names_, model.parts(batch))
    words = batch.column("word").strings()
    found = []
    for number, constraint in enumerate(constraints):
        instances = every.instances(number)
        about = Counter(words[slot] for slot in every.about(number).tolist())
        breaches = [] if labelled is None else list(labelled.breaches(number, whole.labels))
        at = [None if b.instance is None else some[int(known[b.instance])] for b in breaches[:examples]]
        found.append(
            RuleCheck(
                constraint.name, constraint.describe(), int(every.n[number]), len(instances),
                tuple(about.most_common()), some[int(instances[0])] if len(instances) else None,
                None if broken is None else round(float(broken[number])), len(breaches),
                tuple(
                    _place(None if n is None else texts[n], n, breach, whole.offsets)
                    for n, breach in zip(at, breaches, strict=False)
                ),
                0 if labelled is None else int(labelled.n[number]),
            )
        )  # fmt: skip
    return found


def _place(text: Text | None, number: int | None, breach: Breach, offsets: IntArray) -> Place:
    if text is None or breach.instance is None:
        return Place(None, None, None, "")
    if breach.slot is None:
        return Place(number, text.sentence.path, text.sentence.line, excerpt(text))
    token = breach.slot - int(offsets[breach.instance])
    return Place(number, text.sentence.path, text.sentence.line_of(token), excerpt(text, token, token + 1))
