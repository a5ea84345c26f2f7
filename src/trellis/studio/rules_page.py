"""What the page asks about rules: the list, trying, suggesting, adding, switching off, removing."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from trellis.serve.guard import RequestError
from trellis.studio.looking import Looking
from trellis.studio.models import rule_reports
from trellis.studio.project import MODELS, Project, digest
from trellis.studio.suggestions import blocks_of, suggested, switched, with_labels, without


def string(given: dict[str, Any], name: str) -> str:
    """A text of a request."""
    found = given.get(name)
    if not isinstance(found, str):
        raise RequestError(422, f"expected a text in {name!r}")
    try:
        found.encode("utf-8")
    except UnicodeEncodeError:
        raise RequestError(422, f"half of a surrogate pair stands in {name!r}") from None
    return found


def whole(given: dict[str, Any], name: str, otherwise: int) -> int:
    """A whole number of a request."""
    found = given.get(name, otherwise)
    if isinstance(found, str) and found.isascii() and found.removeprefix("-").isdigit() and len(found) < 12:
        return int(found)
    if isinstance(found, int) and not isinstance(found, bool) and abs(found) < 10**12:
        return found
    raise RequestError(422, f"expected a whole number in {name!r}")


class RuleAnswers:
    """Answers about the rules of a project; ``model`` gives the model that is shown."""

    def __init__(self, project: Project, looking: Looking, model: Callable[[], str | None]) -> None:
        self.project, self.looking, self.model = project, looking, model

    async def rules(self, _: dict[str, Any]) -> Any:
        project, looking, model = self.project, self.looking, self.model()
        reports = {} if model is None else rule_reports(project.folder / MODELS, model)
        lines, listed = project.rules.split("\n"), []
        for number, block in enumerate(blocks_of(project.rules)):
            name = block.name or ""
            here = looking.in_all.get(name) if block.on else None
            own = looking.in_labels.get(name) if block.on else None
            listed.append({
                "number": number, "name": name, "on": block.on, "toml": "\n".join(lines[block.first : block.last]),
                "found": None if here is None else {
                    "sentence": here.sentence, "strength": here.strength, "places": here.places,
                    "texts": len(here.texts), "broken": len(here.broken),
                },
                "labels": None if own is None else {"tested": own.tested, "broken": own.n_broken},
                "report": reports.get(name),
            })  # fmt: skip
        read = looking.read
        return {
            "text": project.rules, "version": digest(project.rules), "rules": listed, "error": read.error,
            "line": read.line, "conflict": read.conflict, "predicted": model is not None,
        }  # fmt: skip

    async def save(self, given: dict[str, Any]) -> Any:
        self.project.write_rules(string(given, "text"), string(given, "version"))
        return {"version": digest(self.project.rules)}

    async def check(self, given: dict[str, Any]) -> Any:
        return await self.looking.attempt(string(given, "text"))

    async def labels(self, given: dict[str, Any]) -> Any:
        """Declare labels, in the rules file."""
        names = given.get("labels")
        if not isinstance(names, list) or not all(isinstance(name, str) and name.strip() for name in names):
            raise RequestError(422, "expected names that are not empty in 'labels'")
        names = list(dict.fromkeys(name.strip() for name in names))
        if any(not name.isprintable() or len(name) > 50 or name[:2] in ("B-", "I-") or name == "_" for name in names):
            raise RequestError(422, "a label has 50 printable characters at most, and does not begin with B- or I-")
        before = self.project.rules
        self.project.write_rules(with_labels(before, names), digest(before))
        if list(self.project.declared) != names:
            self.project.write_rules(before, digest(self.project.rules))
            raise RequestError(422, "the labels of rules.toml could not be changed here: edit the file")
        return {"labels": self.project.label_names}

    async def suggest(self, given: dict[str, Any]) -> Any:
        """Rules that a selection suggests, with what each would do."""
        project = self.project
        key, label = string(given, "id"), string(given, "label")
        text = project.text(key)
        first, last = whole(given, "first", -1), whole(given, "last", -1)
        if not 0 <= first < last <= len(text):
            raise RequestError(422, "expected the tokens first..last−1 of the text")
        if label not in project.label_names:
            raise RequestError(422, f"there is no label {label!r}")
        known = project.labels.get(key)
        names = [block.name for block in blocks_of(project.rules) if block.name]
        found = suggested(text.tokens, first, last, label, None if known is None else known.labels, names)
        head = f"labels = [{', '.join(json.dumps(name, ensure_ascii=False) for name in project.label_names)}]\n"
        tried = await self.looking.attempt(head + "\n".join(one.toml for one in found))
        does = tried["rules"] or [None] * len(found)
        listed = [{**vars(one), "found": rule} for one, rule in zip(found, does, strict=True)]
        return {"rules": listed, "error": tried["error"], "n": tried["n"]}

    async def add(self, given: dict[str, Any]) -> Any:
        rules, block = self.project.rules, string(given, "toml").strip()
        apart = "\n" if rules.strip() else ""
        self.project.write_rules(f"{rules.rstrip()}\n{apart}{block}\n".lstrip("\n"), string(given, "version"))
        return {"version": digest(self.project.rules)}

    async def switch(self, given: dict[str, Any]) -> Any:
        on = given.get("on")
        if not isinstance(on, bool):
            raise RequestError(422, "expected true or false in 'on'")
        self._edit(given, lambda rules, number: switched(rules, number, on))

    async def remove(self, given: dict[str, Any]) -> Any:
        self._edit(given, without)

    def _edit(self, given: dict[str, Any], edit: Callable[[str, int], str]) -> None:
        number = whole(given, "number", -1)
        if not 0 <= number < len(blocks_of(self.project.rules)):
            raise RequestError(422, "there is no such rule any more; reload the page")
        self.project.write_rules(edit(self.project.rules, number), string(given, "version"))
