"""The OpenAPI document of a server, and a page that shows it; the page needs no script and nothing from a network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from html import escape
from typing import Any

from trellis._version import __version__
from trellis.serve.kinds import ServedKind

ERRORS = {
    "401": "The token is missing or wrong.",
    "408": "The body did not arrive in time.",
    "413": "The body or the batch is too large.",
    "415": "The body is not application/json.",
    "422": "The body is not JSON, or an input is not of the form that the model reads.",
    "503": "Too many requests wait, or the answer was not ready in time.",
}
ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}


def document(kinds: Mapping[str, ServedKind], *, batch: int, token: bool) -> dict[str, Any]:
    """OpenAPI 3.1; kinds : name of a model -> its kind."""
    paths: dict[str, Any] = {f"/models/{name}/predict": _predict(name, kind, batch) for name, kind in kinds.items()}
    for path, said, media in (
        ("/health", "Whether the server answers, and its models", "application/json"),
        ("/metrics", "Counts of requests, times and memory, for Prometheus", "text/plain"),
    ):
        content = {media: {"schema": {"type": "object"} if media.endswith("json") else {"type": "string"}}}
        paths[path] = {"get": {"summary": said, "responses": {"200": {"description": said, "content": content}}}}
    found: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "Trellis", "version": __version__, "description": "Predictions of trained models."},
        "paths": paths,
    }
    if token:
        found["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        found["security"] = [{"token": []}]
    return found


def _predict(name: str, kind: ServedKind, batch: int) -> dict[str, Any]:
    def body(key: str, schema: Any, **limits: int) -> dict[str, Any]:
        inner = {key: {"type": "array", "items": schema, **limits}}
        return {"application/json": {"schema": {"type": "object", "properties": inner, "required": [key]}}}

    asked = body("inputs", kind.schema, maxItems=batch)
    asked["application/json"]["example"] = {"inputs": [kind.example]}
    answers = {"200": {"description": "A result for each input, in order.", "content": body("results", kind.result)}}
    for status, said in ERRORS.items():
        answers[status] = {"description": said, "content": {"application/json": {"schema": ERROR}}}
    return {
        "post": {
            "summary": kind.does,
            "operationId": f"predict-{name}",
            "tags": [kind.name],
            "requestBody": {"required": True, "content": asked},
            "responses": answers,
        }
    }


def page(kinds: Mapping[str, ServedKind], *, address: str, token: bool) -> str:
    """What a server offers, for reading: every model with a call to copy."""
    secret = " -H 'Authorization: Bearer TOKEN'" if token else ""
    models = "".join(
        f"<section><h2>{escape(name)}</h2><p>{escape(kind.does)} (<code>{escape(kind.name)}</code>).</p>"
        f"<p><code>POST /models/{escape(name)}/predict</code></p><pre>"
        + escape(
            f"curl {address}/models/{name}/predict -H 'Content-Type: application/json'{secret} \\\n"
            f"  -d '{json.dumps({'inputs': [kind.example]})}'"
        )
        + f"</pre><details><summary>An input</summary><pre>{escape(json.dumps(kind.schema, indent=1))}</pre></details>"
        f"<details><summary>A result</summary><pre>{escape(json.dumps(kind.result, indent=1))}</pre></details>"
        "</section>"
        for name, kind in kinds.items()
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Trellis server</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<link rel="stylesheet" href="/style.css"></head><body><h1>Trellis server</h1>'
        f'<p>{len(kinds)} model{"s" if len(kinds) != 1 else ""}. <a href="/openapi.json">OpenAPI</a> · '
        '<a href="/health">health</a> · <a href="/metrics">metrics</a></p>'
        f"{models}</body></html>\n"
    )
