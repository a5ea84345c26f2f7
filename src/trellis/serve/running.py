"""Running an application with uvicorn: a socket that is opened first, one process or several, an orderly end."""

from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from trellis.data.files import reason
from trellis.errors import DataError

GRACE = 10
"""Seconds that requests have to end once the server is told to."""
BACKLOG = 1024
"""Connections that wait to be taken, before the application runs too."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    opened = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio answers TCP without delay
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        opened.bind((host.strip("[]"), port))
        opened.listen(BACKLOG)
    except OSError as error:
        opened.close()
        raise DataError(f"{host} port {port}: {reason(error)}; choose another with --port") from None
    opened.set_inheritable(True)
    return opened


def address_of(opened: socket.socket, host: str) -> str:
    """Where a browser finds it."""
    shown = f"[{host.strip('[]')}]" if ":" in host else host
    return f"http://{shown}:{opened.getsockname()[1]}"


def config(app: Any, seconds: float = 30.0, **more: Any) -> Any:
    """How uvicorn runs: no access log, no header that names it, a bound on connections."""
    import uvicorn

    return uvicorn.Config(
        app, log_level="warning", access_log=False, server_header=False, lifespan="on", limit_concurrency=1000,
        timeout_graceful_shutdown=GRACE, timeout_worker_healthcheck=max(60, round(2 * seconds)), ws="none",
        proxy_headers=False, **more,
    )  # fmt: skip


def run(app: Any, opened: socket.socket) -> None:
    """Serve in this process until a signal comes."""
    import uvicorn

    uvicorn.Server(config(app)).run(sockets=[opened])


def run_processes(make: Callable[..., Any], settings: Any, opened: socket.socket, workers: int) -> None:
    """Serve in processes of their own until a signal comes; each makes its application, and one that dies is replaced.

    make : a function of a module, which is called with the settings
    """
    from uvicorn.supervisors import Multiprocess

    own = config(partial(make, settings), settings.seconds, factory=True, workers=workers)
    Multiprocess(own, sockets=[opened]).run()
