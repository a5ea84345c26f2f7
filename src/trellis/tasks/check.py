"""What rules would do in texts, before anything is trained: where each applies, and which never does.

A rule applies where it has something to ask: at a token that its condition holds of, or in a text whose labels it
counts. Where labels are known it is told how often they break it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from trellis.constraints import Constraint, RulesFile
from trellis.constraints.penalties import count_violations, soft_rows
from trellis.constraints.rows import Rows
from trellis.data.bio import unmarked
from trellis.data.corpus import corpus_of
from trellis.data.ragged import IntArray
from trellis.data.tokens import Text
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models import HMM

NO_SLOT = -1


@dataclass(frozen=True)
class RuleCheck:
    """One rule in some texts.

    sentence : what it says;  places : where it asks something;  texts : how many texts these are in
    words : the tokens that it is about, each with how often, commonest first; of rules about single tokens alone
    first : number of the first text, from 0, None where there is none
    broken : how often labels break it; None where no text is labelled
    """

    name: str
    sentence: str
    places: int
    texts: int
    words: tuple[tuple[str, int], ...]
    first: int | None
    broken: int | None


def check_rules(rules: RulesFile, texts: Sequence[Text], label_names: Vocabulary) -> list[RuleCheck]:
    """A report of every rule over the texts, in the order of the file."""
    some = [number for number, text in enumerate(texts) if len(text)]
    if not some:
        raise DataError("there is no text to check the rules on")
    constraints: list[Constraint] = list(rules)
    sentences = (texts[n].sentence for n in some)
    plain = (replace(s, labels=None if s.labels is None else unmarked(s.labels, label_names)) for s in sentences)
    corpus = corpus_of(plain, label_names=label_names)
    model = HMM(list(label_names), min_count=1)
    batch = model.encode(corpus, fit=True)
    broken = None
    whole = batch.take(np.flatnonzero(batch.complete))
    if len(whole):
        broken = count_violations(soft_rows(constraints, whole, model.label_names_, model.parts(whole)), whole).excess
    rows, words = soft_rows(constraints, batch, model.label_names_, model.parts(batch)), batch.column("word").strings()
    slots = _slots(rows)
    found = []
    for number, constraint in enumerate(constraints):
        mine = np.flatnonzero(rows.constraint == number)
        instances = np.unique(rows.instance[mine])
        about = Counter(words[slot] for slot in slots[mine].tolist() if slot != NO_SLOT)
        found.append(
            RuleCheck(
                constraint.name, constraint.describe(), len(mine), len(instances), tuple(about.most_common()),
                some[int(instances[0])] if len(instances) else None,
                None if broken is None else round(float(broken[number])),
            )
        )  # fmt: skip
    return found


def _slots(rows: Rows) -> IntArray:
    """(n_rows,): the slot of the labels that a row is about, where that is a single one."""
    grid = rows.parts.grid()
    found = np.full(len(rows), NO_SLOT, dtype=np.int64)
    for row, (low, high) in enumerate(zip(rows.start[:-1].tolist(), rows.start[1:].tolist(), strict=True)):
        parts = rows.part[low:high]
        if len(parts) and grid.size and parts.min() >= grid[0, 0] and parts.max() <= grid[-1, -1]:
            ends = np.searchsorted(grid[:, 0], [parts.min(), parts.max()], side="right") - 1
            if ends[0] == ends[1]:
                found[row] = ends[0]
    return found
