"""The HTTP application of ``trellis serve``.

    GET  /                          a page with every model and a call to copy
    GET  /openapi.json              the same for programs
    GET  /health                    {"status": "ok", "models": [...]}; needs no token
    GET  /metrics                   counts for Prometheus
    POST /models/{name}/predict     {"inputs": [...]} -> {"results": [...]}, a result for each input

A process predicts one batch at a time, in a thread of its own (:mod:`trellis.serve.predictor`), so that it always
answers the other requests. A batch whose time has passed while it waited is not begun; one that runs is not
interrupted.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from trellis._version import __version__
from trellis.serve.guard import HEADERS, RequestError, body_of, check_host, check_origin, same_token
from trellis.serve.kinds import ServedKind, kind_of
from trellis.serve.metrics import Metrics
from trellis.serve.openapi import document, page
from trellis.serve.predictor import Predictor

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class ServerSettings:
    """What a server is told.

    models : name -> file;  token : None: none is needed, and requests must be sent to a name of this machine
    body : bytes of a request at most;  batch : inputs of a request at most;  seconds : until an answer at most
    threads : of a prediction;  counts : the folder of the files of counts
    """

    models: Mapping[str, str]
    token: str | None = None
    body: int = 4_000_000
    batch: int = 1000
    seconds: float = 30.0
    threads: int = 1
    counts: str | None = None


def load_models(settings: ServerSettings) -> dict[str, tuple[Any, ServedKind]]:
    """Name -> model and kind; each is tried once, which compiles what it needs."""
    from trellis.models import load_model

    found = {}
    for name, path in settings.models.items():
        model = load_model(path)
        kind = kind_of(model, path)
        model.n_jobs = settings.threads
        found[name] = (model, kind)
    return found


def application(settings: ServerSettings, models: Mapping[str, tuple[Any, ServedKind]] | None = None) -> Starlette:
    """The application; models : those of ``settings``, where they are loaded already."""
    return _Server(settings, dict(load_models(settings) if models is None else models)).app


class _Server:
    def __init__(self, settings: ServerSettings, models: dict[str, tuple[Any, ServedKind]]) -> None:
        self.settings, self.models = settings, models
        self.kinds = {name: kind for name, (_, kind) in models.items()}
        self.own_counts = None if settings.counts is not None else tempfile.TemporaryDirectory(prefix="trellis-")
        folder = settings.counts if self.own_counts is None else self.own_counts.name
        self.metrics = Metrics(Path(str(folder)), list(models))
        self.predictor = Predictor(models, self.metrics, batch=settings.batch, seconds=settings.seconds)
        routes = [
            Route("/", self.guarded(self.page)),
            Route("/style.css", self.style),
            Route("/openapi.json", self.guarded(self.openapi)),
            Route("/health", self.health),
            Route("/metrics", self.guarded(self.counts)),
            Route("/models/{name}/predict", self.guarded(self.predict), methods=["POST"]),
        ]
        self.app = Starlette(
            routes=routes, lifespan=self.running, exception_handlers={HTTPException: _http_error, Exception: _bug}
        )

    @asynccontextmanager
    async def running(self, _: Starlette) -> AsyncIterator[None]:
        """Try every model before the first request, and let the batch that runs end after the last."""
        await self.predictor.warm()
        yield
        self.predictor.close()
        if self.own_counts is not None:
            self.own_counts.cleanup()

    def guarded(self, endpoint: Callable[[Request], Any]) -> Callable[[Request], Any]:
        """The endpoint, for requests that may be answered."""

        async def asked(request: Request) -> Response:
            try:
                check_origin(request)
                if self.settings.token is None:
                    check_host(request)
                else:
                    scheme, _, given = request.headers.get("authorization", "").partition(" ")
                    if scheme.lower() != "bearer" or not same_token(given.strip(), self.settings.token):
                        message = "a token is needed: Authorization: Bearer TOKEN"
                        raise RequestError(401, message, {"www-authenticate": "Bearer"})
                answer: Response = await endpoint(request)
            except RequestError as refused:
                answer = refused.response()
            return answer

        return asked

    async def page(self, request: Request) -> Response:
        address = f"{request.url.scheme}://{request.headers.get('host', '')}"
        shown = page(self.kinds, address=address, token=self.settings.token is not None)
        return HTMLResponse(shown, headers=HEADERS)

    async def style(self, _: Request) -> Response:
        return Response((STATIC / "style.css").read_bytes(), media_type="text/css", headers=HEADERS)

    async def openapi(self, _: Request) -> Response:
        made = document(self.kinds, batch=self.settings.batch, token=self.settings.token is not None)
        return JSONResponse(made, headers=HEADERS)

    async def health(self, _: Request) -> Response:
        shown = [{"name": name, "kind": kind.name} for name, kind in self.kinds.items()]
        return JSONResponse({"status": "ok", "version": __version__, "models": shown}, headers=HEADERS)

    async def counts(self, _: Request) -> Response:
        return Response(self.metrics.text(), media_type="text/plain; version=0.0.4", headers=HEADERS)

    async def predict(self, request: Request) -> Response:
        start, name = time.monotonic(), request.path_params["name"]
        if name not in self.models:
            raise RequestError(404, f"there is no model {name[:100]!r}; models: {', '.join(self.models)}")
        try:
            body = await body_of(request, self.settings.body, self.settings.seconds)
            found = await self.predictor.predict(name, body, start + self.settings.seconds)
            answer = Response(found, media_type="application/json", headers=HEADERS)
        except RequestError as refused:
            answer = refused.response()
        except Exception:
            self.metrics.answered(name, 500, time.monotonic() - start)
            raise
        self.metrics.answered(name, answer.status_code, time.monotonic() - start)
        return answer


async def _http_error(_: Request, error: Exception) -> Response:
    status = getattr(error, "status_code", 500)
    said = {404: "there is nothing at this address; see /", 405: "this address takes another method; see /"}
    return RequestError(
        status, said.get(status, "the request cannot be answered"), getattr(error, "headers", None)
    ).response()


async def _bug(_: Request, __: Exception) -> Response:
    return RequestError(500, "the request failed; the server's log has the reason").response()
