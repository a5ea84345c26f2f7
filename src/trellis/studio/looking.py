"""Looking where rules apply, behind the answers: in a process of its own, again whenever something has changed.

Labelled texts are looked at after every label, the others when rules or predictions change, a run of them at a time,
so that rules which somebody is writing are tried in between.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

from trellis.errors import TrellisError
from trellis.serve.guard import RequestError
from trellis.studio import analysis
from trellis.studio.project import Project, digest
from trellis.studio.selection import Selection

LIVE = 1500
"""Texts that rules are tried on while they are written."""
RUN = 2000
"""Texts that are looked at together."""
MOST = 20_000
"""Texts that are looked at in all."""
PAUSE = 0.3
"""Seconds: of several changes in a row the last one is looked at."""


class Looking:
    """What rules do in the texts of a project.

    in_all : rule -> what it does in all texts, with their predictions as labels;  in_labels : in the labelled ones
    read : what the saved rules file says, with the error or the conflict in it
    """

    def __init__(
        self, project: Project, selection: Selection, spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:  # fmt: skip
        self.project, self.selection, self.spawn = project, selection, spawn
        self.in_all: dict[str, analysis.RuleFound] = {}
        self.in_labels: dict[str, analysis.RuleFound] = {}
        self.read = analysis.Analysed()
        self._labels_seen: Any = None
        self._all_seen: Any = None
        self._pool: ProcessPoolExecutor | None = None

    def again(self) -> None:
        """Look again at what has changed since."""
        project, rules = self.project, digest(self.project.rules)
        texts = (rules, self.selection.model_version, project.texts_version)
        if texts != self._all_seen:
            self._all_seen = texts
            self.spawn(self._look_at_all(texts))
        labels = (rules, project.version)
        if labels != self._labels_seen:
            self._labels_seen = labels
            self.spawn(self._look_at_labels(labels))

    async def _look_at_labels(self, now: Any) -> None:
        await asyncio.sleep(PAUSE)
        if now != self._labels_seen:
            return
        project = self.project
        keys = list(project.labels)
        given = [given_of(project, key) for key in keys]
        with suppress(RequestError):
            found = await self.in_worker(analysis.analyse, project.rules, str(project.folder), given, False)
            if now == self._labels_seen:
                self.in_labels = {one.name: one for one in found.rules}
                broken = {one.name: frozenset(keys[i] for i in one.broken) for one in found.rules}
                self.selection.take(replace(self.selection.found, labels=broken))

    async def _look_at_all(self, now: Any) -> None:
        await asyncio.sleep(PAUSE)
        project, of = self.project, self.selection.predictions.of
        keys, rules = project.ids[:MOST], project.rules
        merged: dict[str, analysis.RuleFound] = {}
        applies: dict[str, set[str]] = {}
        broken: dict[str, set[str]] = {}
        with suppress(RequestError, TrellisError):
            for first in range(0, max(len(keys), 1), RUN):
                if now != self._all_seen:
                    return
                some = keys[first : first + RUN]
                given = await asyncio.to_thread(_with_predictions, project, some, of)
                found = await self.in_worker(analysis.analyse, rules, str(project.folder), given)
                if first == 0 or (found.conflict and not self.read.conflict):
                    self.read = replace(found, conflict=_named(found, some, project))
                for one in found.rules:
                    merged[one.name] = one if one.name not in merged else _sum(merged[one.name], one)
                    applies.setdefault(one.name, set()).update(some[i] for i in one.texts)
                    broken.setdefault(one.name, set()).update(some[i] for i in one.broken)
                if now != self._all_seen:
                    return
                self.in_all = dict(merged)  # of what has been looked at so far
                in_predictions = {name: frozenset(own) for name, own in broken.items()} if of else {}
                where = {name: frozenset(own) for name, own in applies.items()}
                self.selection.take(replace(self.selection.found, predictions=in_predictions, applies=where))

    async def attempt(self, rules: str) -> dict[str, Any]:
        """What rules that are not saved yet would do, in labelled texts and the first others."""
        project = self.project
        keys = [*project.labels, *(key for key in project.ids[:LIVE] if key not in project.labels)]
        given = await asyncio.to_thread(lambda: [given_of(project, key) for key in keys])
        found = await self.in_worker(analysis.analyse, rules, str(project.folder), given)
        made = asdict(replace(found, conflict=_named(found, keys, project)))
        for rule in made["rules"]:
            rule["texts"] = len(rule["texts"])
            rule["at"] = [self._place(keys[number], token) for number, token in rule["at"]]
            rule["broken"] = [keys[number] for number in rule["broken"]][:200]
        made["conflict_at"] = [keys[number] for number in made["conflict_at"]]
        return {**made, "n": len(keys)}

    def _place(self, key: str, token: int | None) -> dict[str, Any]:
        text = self.project.text(key)
        if token is None or token >= len(text):
            return {"id": key, "before": text.text[:80], "word": "", "after": ""}
        start, end = text.offsets[token]
        before, after = text.text[max(start - 40, 0) : start], text.text[end : end + 40]
        return {"id": key, "before": before, "word": text.text[start:end], "after": after}

    async def in_worker(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run a function in the process that compiles rules."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._pool = ProcessPoolExecutor(1, context, analysis.watch_parent, (os.getpid(),))
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)
        except BrokenProcessPool:
            self._pool = None
            raise RequestError(500, "the process that reads rules has ended; try again") from None

    async def fault(self) -> str | None:
        """Why the rules of the project cannot be read; None if they can."""
        fault: str | None = await self.in_worker(analysis.fault_of, self.project.rules, str(self.project.folder))
        return fault

    def close(self) -> None:
        """End the process, whatever it is doing."""
        if self._pool is not None:
            for process in list(self._pool._processes.values()):
                process.kill()
            self._pool.shutdown(wait=False, cancel_futures=True)


def given_of(project: Project, key: str) -> analysis.Given:
    """A text with the labels that it has, as the analysis takes it."""
    known = project.labels.get(key)
    return _given(project, key, None if known is None else known.labels)


def _with_predictions(project: Project, keys: Sequence[str], of: Mapping[str, Any]) -> list[analysis.Given]:
    return [_given(project, key, of[key].labels if key in of else None) for key in keys]


def _given(project: Project, key: str, labels: Sequence[str | None] | None) -> analysis.Given:
    text = project.text(key)
    own = None if labels is None or len(labels) != len(text) else tuple(labels)
    return text.text, text.tokens, text.offsets, own


def _named(found: analysis.Analysed, keys: Sequence[str], project: Project) -> str | None:
    """The conflict, with the text that it is in."""
    if found.conflict is None or not found.conflict_at:
        return found.conflict
    key = keys[found.conflict_at[0]]
    return f"{found.conflict} (text {project.place.get(key, 0) + 1}: {project.text(key).text[:80]!r})"


def _sum(one: analysis.RuleFound, other: analysis.RuleFound) -> analysis.RuleFound:
    return replace(
        one, places=one.places + other.places, texts=(*one.texts, *other.texts), broken=(*one.broken, *other.broken),
        tested=one.tested + other.tested, n_broken=one.n_broken + other.n_broken,
    )  # fmt: skip
