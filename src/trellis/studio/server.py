"""The HTTP application of ``trellis studio``: files of the page, and what the page asks for, as JSON.

Every address begins with a random token. State is changed by POST alone, with a JSON body and from this page's origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from trellis.data.jsonlines import parse_json
from trellis.errors import TrellisError
from trellis.serve.guard import HEADERS, RequestError, body_of, check_host, check_origin, same_token
from trellis.studio.exporting import FORMATS, exported
from trellis.studio.jobs import Trainer, TrainingSettings
from trellis.studio.looking import Looking
from trellis.studio.models import load, models_in, out_of_fold
from trellis.studio.project import MODELS, Project, StaleError
from trellis.studio.results import results
from trellis.studio.rules_page import RuleAnswers, string, whole
from trellis.studio.selection import Selection, TextQuery
from trellis.studio.suggestions import blocks_of

STATIC = Path(__file__).parent / "static"
FILES = {
    "studio.css": "text/css", "common.js": "text/javascript", "texts.js": "text/javascript",
    "label.js": "text/javascript", "rules.js": "text/javascript", "training.js": "text/javascript",
    "saving.js": "text/javascript", "main.js": "text/javascript", "icon.svg": "image/svg+xml",
}  # fmt: skip
"""The files of the page; no other file is ever read by its name."""
LARGEST = {"add-texts": 64_000_000}
LARGEST_OTHERS = 4_000_000
"""Bytes of a request."""
SECONDS = 60.0

Answer = Callable[[dict[str, Any]], Awaitable[Any]]


class Studio:
    """A project that is served: its state is touched by one task at a time, the event loop."""

    def __init__(self, folder: Path, token: str) -> None:
        self.token = token
        self.project = Project(folder)
        self.selection = Selection(self.project)
        self.trainer = Trainer(self.project, self.trained)
        self.model: str | None = None
        self.fault: str | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self.looking = Looking(self.project, self.selection, self.spawn)
        rules = RuleAnswers(self.project, self.looking, lambda: self.model)
        gets: dict[str, Answer] = {
            "state": self.state, "texts": self.texts, "text": self.text, "next": self.next, "rules": rules.rules,
            "training": self.training, "results": self.results, "errors": self.errors,
        }  # fmt: skip
        posts: dict[str, Answer] = {
            "label": self.label, "add-texts": self.add_texts, "labels": rules.labels, "rules": rules.save,
            "rules/check": rules.check, "rules/suggest": rules.suggest, "rules/switch": rules.switch,
            "rules/add": rules.add, "rules/remove": rules.remove, "train": self.train, "cancel": self.cancel,
            "use": self.use,
        }  # fmt: skip
        routes = [
            Route("/{token}/", self.guarded(self.page)),
            Route("/{token}/static/{name}", self.guarded(self.static)),
            Route("/{token}/export", self.guarded(self.export)),
            *(Route(f"/{{token}}/api/{name}", self.guarded(partial(self.got, one))) for name, one in gets.items()),
            *(
                Route(f"/{{token}}/api/{name}", self.guarded(partial(self.posted, name, one)), methods=["POST"])
                for name, one in posts.items()
            ),
        ]
        self.app = Starlette(
            routes=routes, lifespan=self.running, exception_handlers={HTTPException: _http_error, Exception: _bug}
        )
        self.app.router.redirect_slashes = False

    # running

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncIterator[None]:
        """Load the newest model behind the first page; cancel what runs at the end."""
        self.spawn(self.load_newest())
        yield
        for task in list(self._tasks):
            task.cancel()
        await self.trainer.cancel()
        self.looking.close()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something behind the answers."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def load_newest(self) -> None:
        known = models_in(self.project.folder / MODELS)
        if known:
            try:
                await self.use_model(known[-1]["name"])
            except RequestError as error:
                self.fault = error.message
        self.looking.again()

    async def trained(self, name: str) -> None:
        await self.use_model(name)

    async def use_model(self, name: str) -> None:
        """Show the predictions of a model."""
        folder = self.project.folder / MODELS
        try:
            predictions = await asyncio.to_thread(load, folder, name)
        except (TrellisError, KeyError, TypeError, ValueError) as error:
            raise RequestError(409, f"the predictions of model {name} cannot be read: {error}") from None
        self.model, self.fault = name, None
        self.selection.show(predictions)
        self.looking.again()

    # answers

    def guarded(self, endpoint: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Any]:
        """The endpoint, for requests of this page alone."""

        async def asked(request: Request) -> Response:
            try:
                check_host(request)
                check_origin(request)
                if not same_token(request.path_params["token"], self.token):
                    raise RequestError(403, "this is not the address that `trellis studio` printed; look there")
                return await endpoint(request)
            except RequestError as refused:
                return refused.response()
            except StaleError as stale:
                return JSONResponse({"error": str(stale), "stale": True}, 409, HEADERS)
            except TrellisError as error:
                return RequestError(422, str(error)).response()

        return asked

    async def got(self, answer: Answer, request: Request) -> Response:
        self.project.refresh()
        found = await answer(dict(request.query_params))
        return JSONResponse(found, headers=HEADERS)

    async def posted(self, name: str, answer: Answer, request: Request) -> Response:
        body = await body_of(request, LARGEST.get(name, LARGEST_OTHERS), SECONDS)
        try:
            given = parse_json(body.decode("utf-8"), "the request")
        except UnicodeDecodeError:
            raise RequestError(422, "the request is not UTF-8") from None
        if not isinstance(given, dict):
            raise RequestError(422, "expected an object")
        found = await answer(given)
        self.looking.again()
        return JSONResponse({} if found is None else found, headers=HEADERS)

    async def page(self, _: Request) -> Response:
        return Response((STATIC / "index.html").read_bytes(), media_type="text/html", headers=HEADERS)

    async def static(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in FILES:
            raise RequestError(404, "there is no such file")
        return Response((STATIC / name).read_bytes(), media_type=FILES[name], headers=HEADERS)

    async def export(self, request: Request) -> Response:
        asked = request.query_params
        what, form = asked.get("what", "both"), asked.get("format", "jsonl")
        self.project.refresh()
        found = await asyncio.to_thread(exported, self.project, self.selection.predictions, what, form)
        headers = {**HEADERS, "content-disposition": f'attachment; filename="{what}.{form}"'}
        return Response(found, media_type=FORMATS[form], headers=headers)

    async def state(self, _: dict[str, Any]) -> Any:
        project, run = self.project, self.trainer.run
        self.looking.again()
        faults = {**project.faults, **({} if self.fault is None else {MODELS: self.fault})}
        return {
            "folder": project.folder.name, "version": [project.version, self.selection.version],
            "labels": project.label_names, "declared": list(project.declared), "counts": self.selection.counts(),
            "faults": faults, "model": self.model, "run": None if run is None else run.record(),
            "rules": [block.name for block in blocks_of(project.rules)], "dev": project.dev,
        }  # fmt: skip

    async def texts(self, asked: dict[str, Any]) -> Any:
        question = TextQuery(
            asked.get("filter", "all"), asked.get("rule", ""), asked.get("search", "")[:200], asked.get("order", "file")
        )
        return self.selection.rows(question, whole(asked, "first", 0), whole(asked, "n", 50))

    async def text(self, asked: dict[str, Any]) -> Any:
        return self._row(asked.get("id", ""))

    def _row(self, key: Any) -> dict[str, Any]:
        if not isinstance(key, str) or key not in self.project.place:
            raise RequestError(404, "there is no such text any more; reload the page")
        return self.selection.row(self.project.place[key])

    async def next(self, asked: dict[str, Any]) -> Any:
        return {"id": self.selection.next(asked.get("after"))}

    async def label(self, given: dict[str, Any]) -> Any:
        labels = given.get("labels")
        if not isinstance(labels, list) or not all(one is None or isinstance(one, str) for one in labels):
            raise RequestError(422, "expected a label, or null, for each token in 'labels'")
        key = string(given, "id")
        try:
            self.project.label(key, labels, string(given, "version"))
        except StaleError as stale:
            now = self._row(key) if key in self.project.place else None
            raise StaleRowError(str(stale), now) from None
        return self._row(key) if key in self.project.place else {}

    async def add_texts(self, given: dict[str, Any]) -> Any:
        return {"added": self.project.add_texts(string(given, "text"))}

    # models

    async def training(self, _: dict[str, Any]) -> Any:
        run = self.trainer.run
        return {"run": None if run is None else run.record(), "models": models_in(self.project.folder / MODELS),
                "model": self.model}  # fmt: skip

    async def train(self, given: dict[str, Any]) -> Any:
        settings = TrainingSettings.of(given)
        self.project.refresh()
        if not self.trainer.busy and (fault := await self.looking.fault()) is not None:
            raise RequestError(422, f"the rules cannot be used: {fault}")
        return self.trainer.start(settings).record()

    async def cancel(self, _: dict[str, Any]) -> Any:
        await self.trainer.cancel()

    async def use(self, given: dict[str, Any]) -> Any:
        name = string(given, "model")
        if name not in {about["name"] for about in models_in(self.project.folder / MODELS)}:
            raise RequestError(404, "there is no such model")
        await self.use_model(name)

    async def results(self, _: dict[str, Any]) -> Any:
        return await asyncio.to_thread(results, self.project.folder / MODELS, self.model)

    async def errors(self, _: dict[str, Any]) -> Any:
        """Where labels are predicted otherwise, the commonest confusions first."""
        if self.model is None:
            return {"confusions": [], "held": False}
        from trellis.studio.results import confused

        folder = self.project.folder / MODELS
        held = (folder / f"{self.model}.cv.jsonl").exists()
        found = await asyncio.to_thread(out_of_fold, folder, self.model)
        return {"confusions": confused(self.project, found), "held": held}


class StaleRowError(RequestError):
    """Labels that were changed elsewhere, and what they are now."""

    def __init__(self, message: str, row: Any) -> None:
        super().__init__(409, message)
        self.row = row

    def response(self) -> Response:
        return JSONResponse({"error": self.message, "stale": True, "text": self.row}, 409, HEADERS)


async def _http_error(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    return RequestError(status, "there is nothing at this address; look at what `trellis studio` printed").response()


async def _bug(_: Request, __: Exception) -> Response:
    return RequestError(500, "this failed, which is a bug; the terminal of `trellis studio` has the reason").response()
