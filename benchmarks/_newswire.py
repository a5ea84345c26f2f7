"""Rules such as one writes in an hour, over the sentences of relations/conll04: people, places and organisations.

They are simple on purpose: lists of common names, titles, what stands around a name, capitals. Of *newswire-list* four
of them are left, beside a list that knows 40 % of the names that are in the texts (drawn by a hash of the name), as a
gazetteer would. That list is all that gold labels are used for, beside measuring.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from zlib import crc32

from trellis.data.related import RelatedText, read_related
from trellis.data.voted import Span, VotedText, votes_of_spans


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


STATES = _words(
    "Alabama Alaska Arizona Arkansas California Colorado Connecticut Delaware Florida Georgia Hawaii Idaho Illinois "
    "Indiana Iowa Kansas Kentucky Louisiana Maine Maryland Massachusetts Michigan Minnesota Mississippi Missouri "
    "Montana Nebraska Nevada Ohio Oklahoma Oregon Pennsylvania Tennessee Texas Utah Vermont Virginia Wisconsin Wyoming "
    "Ala. Ariz. Ark. Calif. Colo. Conn. Del. Fla. Ga. Ill. Ind. Kan. Ky. La. Md. Mass. Mich. Minn. Miss. Mo. Mont. "
    "Neb. Nev. N.H. N.J. N.M. N.Y. N.C. N.D. Okla. Ore. Pa. R.I. S.C. S.D. Tenn. Vt. Va. Wash. W.Va. Wis. Wyo."
)
PLACES = _words(
    "France Germany Italy Spain England Britain Japan China Russia India Pakistan Iran Iraq Israel Egypt Syria Lebanon "
    "Jordan Canada Mexico Brazil Argentina Chile Peru Cuba Poland Hungary Austria Switzerland Sweden Norway Denmark "
    "Finland Greece Turkey Korea Vietnam Thailand Indonesia Australia Africa Europe Asia America London Paris Rome "
    "Berlin Moscow Tokyo Beijing Washington Chicago Boston Dallas Houston Miami Atlanta Detroit Seattle Denver "
    "Philadelphia Baltimore Cleveland"
)
NAMES = _words(
    "James John Robert Michael William David Richard Joseph Thomas Charles Mary Patricia Jennifer Linda Elizabeth "
    "Barbara Susan Jessica Sarah Karen Christopher Daniel Paul Mark Donald George Kenneth Steven Edward Brian Ronald "
    "Anthony Kevin Jason Jeff Gary Frank Larry Scott Raymond Peter Henry Jack Walter Nancy Betty Margaret Dorothy Lisa "
    "Sandra Helen Donna Carol Ruth Sharon Laura Jim Bill Bob Tom Mike Joe Dan Steve"
)
TITLES = _words(
    "Mr. Mrs. Ms. Dr. President Sen. Rep. Gov. Gen. Judge Minister Secretary Chairman King Queen Prince Pope Rev. "
    "Capt. Lt. Sgt. Col."
)
BODIES = _words(
    "Inc. Corp. Co. Ltd. Inc Corp Company Corporation Bank University Institute College Agency Department Commission "
    "Committee Association Party Court Council Congress Army Center Hospital"
)
SMALL = _words(
    "The A An In On At But And If It He She They We This That His Her Its For From With By As After Before When While"
)
SAID = frozenset(("said", "says"))
TYPES = ("Peop", "Loc", "Org")
KNOWN = 4
"""Of ten names so many are in the list."""
BESIDE_LIST = ("names", "titles", "bodies", "in")


def _is_name(token: str) -> bool:
    return token[:1].isupper() and token not in SMALL


def _end(tokens: Sequence[str], at: int) -> int:
    """Where the run of capitals that begins here ends."""
    while at < len(tokens) and _is_name(tokens[at]):
        at += 1
    return at


def _begin(tokens: Sequence[str], at: int) -> int:
    """Where the run of capitals that ends here begins."""
    while at > 0 and _is_name(tokens[at - 1]):
        at -= 1
    return at


def _one_of(words: frozenset[str], kind: str) -> Callable[[Sequence[str], int], Iterator[Span]]:
    def look(tokens: Sequence[str], at: int) -> Iterator[Span]:
        if tokens[at] in words:
            yield at, at + 1, kind

    return look


def _names(tokens: Sequence[str], at: int) -> Iterator[Span]:
    if tokens[at] in NAMES and _end(tokens, at) > at + 1:
        yield at, _end(tokens, at), "Peop"


def _after(cues: frozenset[str], kind: str) -> Callable[[Sequence[str], int], Iterator[Span]]:
    def look(tokens: Sequence[str], at: int) -> Iterator[Span]:
        if tokens[at] in cues and _end(tokens, at + 1) > at + 1:
            yield at + 1, _end(tokens, at + 1), kind

    return look


def _bodies(tokens: Sequence[str], at: int) -> Iterator[Span]:
    if tokens[at] in BODIES and _begin(tokens, at) < at:
        yield _begin(tokens, at), at + 1, "Org"


def _letters(tokens: Sequence[str], at: int) -> Iterator[Span]:
    if 3 <= len(tokens[at]) <= 5 and tokens[at].isalpha() and tokens[at].isupper():
        yield at, at + 1, "Org"


def _said(tokens: Sequence[str], at: int) -> Iterator[Span]:
    if tokens[at] in SAID:
        if _begin(tokens, at) < at - 1:
            yield _begin(tokens, at), at, "Peop"
        if _end(tokens, at + 1) > at + 2:
            yield at + 1, _end(tokens, at + 1), "Peop"


def _before_state(tokens: Sequence[str], at: int) -> Iterator[Span]:
    if tokens[at] == "," and at + 1 < len(tokens) and tokens[at + 1] in STATES and _begin(tokens, at) < at:
        yield _begin(tokens, at), at, "Loc"


RULES: dict[str, Callable[[Sequence[str], int], Iterator[Span]]] = {
    "states": _one_of(STATES, "Loc"),
    "places": _one_of(PLACES, "Loc"),
    "names": _names,
    "titles": _after(TITLES, "Peop"),
    "bodies": _bodies,
    "letters": _letters,
    "in": _after(frozenset(("in", "near", "from")), "Loc"),
    "said": _said,
    "before a state": _before_state,
}


def newswire(folder: Path, split: str, *, listed: bool) -> tuple[list[VotedText], list[list[Span]]]:
    """The texts of a split with their votes, and their gold spans; the list has names of this split and of train."""
    records = list(read_related(folder / f"{split}.txt"))
    tokens, gold = [record.tokens for record in records], [_gold(record) for record in records]
    votes = [{name: _apart(own, rule) for name, rule in RULES.items()} for own in tokens]
    if listed:
        beside = list(read_related(folder / "train.txt"))
        known = _known([*records, *beside])
        votes = [
            {**{name: of[name] for name in BESIDE_LIST}, "list": _looked_up(own, known)}
            for own, of in zip(tokens, votes, strict=True)
        ]
    texts = [
        VotedText(own, {name: _votes(len(own), spans) for name, spans in of.items()})
        for own, of in zip(tokens, votes, strict=True)
    ]
    return texts, gold


def _gold(record: RelatedText) -> list[Span]:
    return [(m.start, m.end, m.type) for m in record.mentions or () if m.type in TYPES]


def _apart(tokens: Sequence[str], rule: Callable[[Sequence[str], int], Iterator[Span]]) -> list[Span]:
    """Spans of a rule, without those that overlap an earlier one."""
    found: list[Span] = []
    for span in sorted(span for at in range(len(tokens)) for span in rule(tokens, at)):
        if not found or span[0] >= found[-1][1]:
            found.append(span)
    return found


def _known(records: Sequence[RelatedText]) -> dict[str, str]:
    """The names that the list has, each with its commonest type."""
    seen: dict[str, Counter[str]] = {}
    for record in records:
        for first, end, kind in _gold(record):
            name = " ".join(record.tokens[first:end])
            if crc32(name.encode()) % 10 < KNOWN:
                seen.setdefault(name, Counter())[kind] += 1
    return {name: times.most_common(1)[0][0] for name, times in seen.items()}


def _looked_up(tokens: Sequence[str], known: dict[str, str]) -> list[Span]:
    """The longest names of the list, from left to right."""
    found, at, longest = [], 0, max((len(name.split()) for name in known), default=0)
    while at < len(tokens):
        ends = (end for end in range(min(at + longest, len(tokens)), at, -1) if " ".join(tokens[at:end]) in known)
        end = next(ends, at)
        if end > at:
            found.append((at, end, known[" ".join(tokens[at:end])]))
        at = max(end, at + 1)
    return found


def _votes(n: int, spans: Sequence[Span]) -> tuple[str | None, ...]:
    return tuple(None if vote == "O" else vote for vote in votes_of_spans(n, spans))
