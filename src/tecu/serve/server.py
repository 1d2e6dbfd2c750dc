"""The server process: an address, the application, an orderly end."""

from __future__ import annotations

import socket
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from tecu.serve.pages import Pages


class PageServer(uvicorn.Server):
    """A server that lets go of the connections that wait for news when it is asked to stop."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(app, log_level="warning", access_log=False, server_header=False,
                           timeout_graceful_shutdown=3, limit_concurrency=200)
        )  # fmt: skip
        self._pages: Pages = app.state.pages

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Ctrl-C or SIGTERM."""
        self._pages.end_streams()
        super().handle_exit(sig, frame)

    def serve_on(self, listening: socket.socket) -> None:
        """Answer until asked to stop; uploads are gone afterwards."""
        try:
            self.run(sockets=[listening])
        finally:
            self._pages.close()


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there; an ``OSError`` says why not. Port 0 takes any that is free.

    >>> with bound("127.0.0.1", 0) as listening:
    ...     listening.getsockname()[1] > 0
    True
    """
    family, kind, protocol, _, address = _resolved(host, port)
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except BaseException:
        listening.close()
        raise
    return listening


def _resolved(host: str, port: int) -> tuple[Any, ...]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
