"""A project folder: the files that the commands read and write.

text.txt         texts, one a line
labels.jsonl     labelled texts, a JSON object a line: text, tokens, labels (null where a label is not known)
rules.toml       labels and rules
dev.jsonl        labelled texts for measuring, not for training; also dev.tsv; may be missing
models/N.*       models with their settings and predictions (:mod:`trellis.studio.models`)

Labels are on the disk before anybody is told that they are kept: ``labels.jsonl`` is replaced as a whole, so that a
process that is killed leaves the old or the new one. Every file is looked at before it is used: one that was changed
outside is read again, and what cannot be read is said and never written over. A file that is a link out of the folder
is neither read nor written.
"""

from __future__ import annotations

import hashlib
import json
import os
import tomllib
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from trellis.data.bio import split_bio
from trellis.data.document import Document
from trellis.data.files import lies_in, numbered_lines, text_of, writing
from trellis.data.text_files import read_labelled
from trellis.data.tokens import WORDS, Tokeniser
from trellis.errors import DataError, TrellisError, counted

TEXTS, LABELS, RULES, MODELS = "text.txt", "labels.jsonl", "rules.toml", "models"
FEW, DEV = "few.tsv", ("dev.jsonl", "dev.tsv")
MOST_TEXTS = 200_000
MOST_LINES = 2 * MOST_TEXTS
"""Lines that are added at once, with repeated and empty ones."""
LONGEST = 50_000
"""Characters of a text that can be labelled."""

Labels = tuple[str | None, ...]


class StaleError(TrellisError):
    """Somebody else has changed what is to be changed; ``current`` is how it is now."""

    def __init__(self, message: str, current: Any = None) -> None:
        super().__init__(message)
        self.current = current


@dataclass(frozen=True)
class Labelled:
    """A text with a label, or None, for each token."""

    text: Document
    labels: Labels

    @property
    def version(self) -> str:
        """Changes whenever the labels do."""
        return digest(json.dumps([self.text.tokens, self.labels]))

    @property
    def complete(self) -> bool:
        return None not in self.labels

    def line(self) -> str:
        """The line of ``labels.jsonl``."""
        record = {"text": self.text.text, "tokens": self.text.tokens, "labels": self.labels}
        return json.dumps(record, ensure_ascii=False) + "\n"


def digest(text: str) -> str:
    """A short name of a text."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def outside(path: Path, folder: Path) -> str | None:
    """What is wrong with a file that lies outside the folder, once links are followed."""
    if not lies_in(path, folder):
        return "it is a link to a place outside this folder, which is not read: replace the link by a copy"
    return None


class Watched:
    """A file and how it was when it was last read."""

    def __init__(self, path: Path, read: Callable[[], None]) -> None:
        self.path, self.read = path, read
        self.seen: tuple[int, ...] | None = (-1,)
        self.fault: str | None = None

    def look(self) -> bool:
        """Read the file again if it has changed; whether it had."""
        now = self.signature()
        if now == self.seen:
            return False
        self.seen = now
        try:
            self.fault = outside(self.path, self.path.parent)
            if self.fault is None:
                self.read()
        except (TrellisError, OSError) as error:
            self.fault = str(error)
        return True

    def written(self) -> None:
        """What is there now is ours."""
        self.seen, self.fault = self.signature(), None

    def signature(self) -> tuple[int, ...] | None:
        try:
            status = os.stat(self.path)
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


class Project:
    """The texts, labels and rules of a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.texts: list[str] = []
        self.ids: list[str] = []
        self.place: dict[str, int] = {}
        self.labels: dict[str, Labelled] = {}
        self.lines: dict[str, str] = {}
        self.rules = ""
        self.declared: tuple[str, ...] = ()
        self.tokeniser: Tokeniser = WORDS
        self.version = self.texts_version = 0
        self._own_texts: list[str] = []
        self._own_ids: list[str] = []
        self.files = {
            RULES: Watched(folder / RULES, self._read_rules),
            TEXTS: Watched(folder / TEXTS, self._read_texts),
            LABELS: Watched(folder / LABELS, self._read_labels),
        }
        self.cut = lru_cache(4096)(self._cut)
        self._import_few()
        self.refresh()

    # reading

    def refresh(self) -> None:
        """Look at every file once more."""
        found = [file.look() for file in self.files.values()]
        if any(found):
            self._join()

    @property
    def faults(self) -> dict[str, str]:
        """What is wrong with files, by name."""
        found = {name: file.fault for name, file in self.files.items()}
        found |= {name: outside(self.folder / name, self.folder) for name in (FEW, *DEV, MODELS)}
        return {name: fault for name, fault in found.items() if fault is not None}

    def _read_rules(self) -> None:
        path = self.folder / RULES
        self.rules = text_of(path) if path.exists() else ""
        try:
            parsed = tomllib.loads(self.rules)
        except tomllib.TOMLDecodeError as error:
            raise DataError(f"not TOML: {error}", path=RULES) from None
        names = parsed.get("labels", [])
        self.declared = tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
        kind, pattern = parsed.get("tokens", "words"), parsed.get("token_pattern")
        tokeniser = Tokeniser("pattern", pattern) if isinstance(pattern, str) else Tokeniser(str(kind))
        if tokeniser != self.tokeniser:
            self.tokeniser = tokeniser
            self.cut.cache_clear()

    def _read_texts(self) -> None:
        path, found = self.folder / TEXTS, dict[str, None]()
        for _, line in numbered_lines(path) if path.exists() else ():
            if line.strip():
                found.setdefault(line)
            if len(found) > MOST_TEXTS:
                raise DataError(f"there are more than {MOST_TEXTS} texts; give a part of them", path=TEXTS)
        self._own_texts = list(found)
        self._own_ids = [digest(text) for text in found]
        self.texts_version += 1

    def _read_labels(self) -> None:
        path = self.folder / LABELS
        read = read_labelled(path, tokeniser=self.tokeniser) if path.exists() else []
        labels = {}
        for text in read:
            known = text.labels
            if known is not None and not all(one is None or isinstance(one, str) for one in known):
                raise DataError("a label is a string, or null", path=LABELS, line=text.line)
            if len(text):
                labels[digest(text.text)] = Labelled(text, known or (None,) * len(text))
        self.labels = labels
        self.lines = {key: one.line() for key, one in labels.items()}

    def _join(self) -> None:
        """All texts: those of ``text.txt``, and after them the labelled ones that are not in it."""
        ids = self._own_ids
        own = set(ids)
        more = {key: one.text.text for key, one in self.labels.items() if key not in own}
        self.texts, self.ids = [*self._own_texts, *more.values()], [*ids, *more]
        self.place = {key: number for number, key in enumerate(self.ids)}
        self.version += 1

    def _import_few(self) -> None:
        """Labels that were made by hand, in columns, where there are none of the studio."""
        few, path = self.folder / FEW, self.folder / LABELS
        if few.exists() and not path.exists() and not any(outside(one, self.folder) for one in (few, path)):
            with suppress(TrellisError):  # what is wrong with it, a command says
                texts = [t for t in read_labelled(few) if len(t)]
                known = (Labelled(t, t.labels or (None,) * len(t)) for t in texts)
                with writing(path) as out:
                    out.writelines(one.line() for one in known if any(one.labels))

    def _cut(self, text: str) -> Document:
        return self.tokeniser.cut(text)

    def text(self, key: str) -> Document:
        """A text with its tokens: those of its labels, or else as the rules cut it.

        Of a text that is too long to be labelled only the beginning, without tokens.
        """
        if key not in self.place:
            raise DataError("there is no such text any more; reload the page")
        known, text = self.labels.get(key), self.texts[self.place[key]]
        if known is not None:
            return known.text
        return self.cut(text) if len(text) <= LONGEST else Document((), text=text[: LONGEST + 1])

    @property
    def label_names(self) -> list[str]:
        """Labels that are declared, and those that texts have beside them."""
        used = {split_bio(label)[1]: None for one in self.labels.values() for label in one.labels if label is not None}
        return list(dict.fromkeys([*self.declared, *(str(name) for name in used)]))

    @property
    def dev(self) -> str | None:
        """The file of texts for measuring."""
        there = (name for name in DEV if (self.folder / name).exists())
        return next((name for name in there if not outside(self.folder / name, self.folder)), None)

    # writing

    def version_of(self, key: str) -> str:
        """The version of the labels of a text, "" where it has none."""
        known = self.labels.get(key)
        return "" if known is None else known.version

    def label(self, key: str, labels: Sequence[str | None], version: str) -> Labelled | None:
        """Keep the labels of a text; on return they are on the disk.

        version : of the labels that these replace; others mean that somebody else was faster, a StaleError
        """
        self._look_before_writing(LABELS)
        text, now = self.text(key), self.labels.get(key)
        if self.version_of(key) != version:
            raise StaleError("the labels of this text were changed elsewhere; they are shown as they are now", key)
        if len(text.text) > LONGEST:
            raise DataError(f"this text has more than {LONGEST} characters: split it")
        if len(labels) != len(text):
            raise DataError(f"expected {counted(len(text), 'label')}, one for each token, but found {len(labels)}")
        names = set(self.label_names)
        for label in labels:
            if label is not None and str(split_bio(label)[1]) not in names:
                raise DataError(f"there is no label {label!r}; add it first")
        made = Labelled(text, tuple(labels)) if any(label is not None for label in labels) else None
        lines = {**self.lines}
        if made is None:
            lines.pop(key, None)
        else:
            made = replace(made, text=replace(text, labels=made.labels))
            lines[key] = made.line()
        if made != now:
            self._write(LABELS, "".join(lines.values()))
            self.lines = lines
            if made is None:
                self.labels.pop(key, None)
            else:
                self.labels[key] = made
            self._join()
        return made

    def write_rules(self, text: str, version: str) -> None:
        """Keep a rules file; version : of the one that it replaces."""
        self.files[RULES].look()
        if digest(self.rules) != version:
            raise StaleError("rules.toml was changed elsewhere; it is shown as it is now", self.rules)
        text = text.replace("\r\n", "\n")
        self._write(RULES, text if not text or text.endswith("\n") else text + "\n")
        self.files[RULES].seen = (-1,)
        self.refresh()

    def add_texts(self, text: str) -> int:
        """Add the lines of a text at the end of ``text.txt``; how many were new."""
        if text.count("\n") > MOST_LINES:
            raise DataError(f"there are more than {MOST_LINES} lines: add them in parts")
        self._look_before_writing(TEXTS)
        new = dict.fromkeys(line.strip() for line in text.replace("\r", " ").split("\n"))
        known = set(self._own_texts)
        more = [line for line in new if line and line not in known]
        if len(known) + len(more) > MOST_TEXTS:
            raise DataError(f"a project has {MOST_TEXTS} texts at most")
        path = self.folder / TEXTS
        before = text_of(path) if path.exists() else ""
        if more:
            self._write(TEXTS, before + "".join(line + "\n" for line in more))
            self.files[TEXTS].seen = (-1,)
            self.refresh()
        return len(more)

    def _look_before_writing(self, name: str) -> None:
        self.refresh()
        fault = self.files[name].fault
        if fault is not None:
            raise StaleError(f"{name} cannot be read, and is not written over: {fault}")

    def _write(self, name: str, text: str) -> None:
        fault = outside(self.folder / name, self.folder)
        if fault is not None:
            raise StaleError(f"{name} cannot be written: {fault}")
        with writing(self.folder / name) as out:
            out.write(text)
        self.files[name].written()
