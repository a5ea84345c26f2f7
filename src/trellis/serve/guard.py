"""Protection of a local server: checks of host, origin, token and size of requests.

Host     a name of this machine, on the loopback address: a page of another site whose name was made to mean 127.0.0.1
         (DNS rebinding) sends its own
Origin   of this server, where a browser sends one: other sites cannot write here
token    compared in constant time
body     refused by its announced length, and again by what really comes
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
from collections.abc import Iterable, Mapping

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

LOCAL = ("localhost", "127.0.0.1", "[::1]")
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer: scripts and styles of our own files alone, no frames, no copies in caches."""


class RequestError(Exception):
    """A request that is answered with an error: status, a sentence, and further headers."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.headers = status, message, dict(headers or {})

    def response(self) -> Response:
        """The answer."""
        return JSONResponse({"error": self.message}, self.status, {**HEADERS, **self.headers})


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def check_host(request: Request, names: Iterable[str] = LOCAL) -> None:
    """Refuse a request that was sent to a server of another name."""
    host = request.headers.get("host", "").lower()
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name not in names:
        raise RequestError(421, f"this server does not answer for the host {host[:100]!r}; use {next(iter(names))}")


def check_origin(request: Request) -> None:
    """Refuse a request that a page of another site has sent."""
    origin = request.headers.get("origin")
    own = f"{request.url.scheme}://{request.headers.get('host', '')}".lower()
    if origin is not None and origin.lower() != own:
        raise RequestError(403, f"requests from pages of {origin[:100]!r} are not answered")
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        raise RequestError(403, "requests from pages of other sites are not answered")


def same_token(given: str, token: str) -> bool:
    """Whether two tokens are equal, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), token.encode())


async def body_of(request: Request, largest: int, seconds: float) -> bytes:
    """The body of a JSON request, of ``largest`` bytes at most, that has come within ``seconds``."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(415, f"expected Content-Type: application/json but found {kind[:100] or 'none'}")
    announced = request.headers.get("content-length", "0")
    too_large = RequestError(
        413, f"the request has more than {largest} bytes: send it in several", {"connection": "close"}
    )
    if not announced.isdigit() or int(announced) > largest:
        raise too_large
    found = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for piece in request.stream():
                found += piece
                if len(found) > largest:
                    raise too_large
    except TimeoutError:
        raise RequestError(408, f"the request did not arrive within {seconds:g} s", {"connection": "close"}) from None
    except ClientDisconnect:
        raise RequestError(400, "the request ended before its body did") from None
    return bytes(found)
