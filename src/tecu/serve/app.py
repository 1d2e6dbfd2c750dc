"""The application: the page's files, its interface, and the guard in front of both."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable
from importlib.resources import files
from typing import Any

from tecu.extras import how_to_get

try:
    from fastapi import FastAPI, Request, Response
    from fastapi.exceptions import RequestValidationError
    from fastapi.responses import JSONResponse, StreamingResponse
except ModuleNotFoundError as missing:
    raise ImportError(f"tecu serve needs the extra web: {how_to_get('web')}") from missing

from tecu.lowlight.classical import METHODS
from tecu.lowlight.enhancer import LEAST_HEADROOM, MOST_HEADROOM, STRONGEST
from tecu.lowlight.files import READABLE
from tecu.lowlight.model import HEADROOM
from tecu.serve import learning_routes, photo_routes
from tecu.serve.guard import Guard, Names
from tecu.serve.limits import Limits, Refused
from tecu.serve.pages import Pages

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
OURS = {"tecu": "tecu", "paper": "as the paper prints it", "pam": "without a network"}
log = logging.getLogger(__name__)
SWEEP = 2.0  # seconds between two looks for pages whose browser has gone


def make_app(
    limits: Limits | None = None, *, names: Iterable[str] = (), beyond: bool = False, token: str | None = None
) -> FastAPI:
    """The application of ``tecu serve``, for any ASGI server.

    Parameters
    ----------
    limits
        What a page may upload and keep.
    names
        Host names by which it may be addressed, beside those of the loopback.
    beyond
        Whether it listens beyond the loopback, so that addresses of the network are good names too.
    token
        What a browser must know, if anything.

    Examples
    --------
    >>> make_app().title
    'tecu'
    """
    pages = Pages(limits or Limits())

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        watch = asyncio.create_task(_forget_silent_pages(pages))
        try:
            yield
        finally:
            watch.cancel()
            pages.close()

    # The interactive documentation of FastAPI loads scripts from elsewhere: it stays off.
    app = FastAPI(title="tecu", lifespan=life, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.pages = pages
    app.add_middleware(Guard, names=Names(names, beyond=beyond), token=token)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.include_router(photo_routes.router, prefix="/api/pages/{page_id}")
    app.include_router(learning_routes.router, prefix="/api/pages/{page_id}")
    _add_page_routes(app, pages)
    _add_file_routes(app)
    return app


def _add_page_routes(app: FastAPI, pages: Pages) -> None:
    @app.post("/api/pages")
    async def open_page() -> dict[str, Any]:
        """A page begins."""
        limits = pages.limits
        return {
            "id": pages.open().id,
            "limits": {"photos": limits.photos, "file_bytes": limits.file_bytes},
            "kinds": sorted(READABLE),
            "methods": [{"name": name, "title": title} for name, title in {**OURS, **METHODS}.items()],
            "models": list(OURS),
            "strongest": STRONGEST,
            "headroom": {"least": LEAST_HEADROOM, "most": MOST_HEADROOM, "usual": HEADROOM},
        }

    @app.post("/api/pages/{page_id}/alive", status_code=204)
    async def stay(page_id: str) -> None:
        """The page is open, though not in view."""
        pages.get(page_id)

    @app.post("/api/pages/{page_id}/close", status_code=204)
    async def close_page(page_id: str) -> None:
        """The page was closed: the browser's last word."""
        pages.forget(page_id)

    @app.get("/api/pages/{page_id}/events")
    async def events(page_id: str) -> StreamingResponse:
        """News as they come."""
        return StreamingResponse(pages.get(page_id).feed.stream(), media_type="text/event-stream")


def _add_file_routes(app: FastAPI) -> None:
    shipped = {entry.name: entry.read_bytes() for entry in files("tecu.serve").joinpath("page").iterdir()}

    def answer(name: str) -> Response:
        if name not in shipped:
            raise Refused(404, f"There is no {name}.")
        return Response(shipped[name], media_type=KINDS[name.rpartition(".")[2]])

    @app.get("/")
    async def index() -> Response:
        """The page itself."""
        return answer("index.html")

    @app.get("/page/{name}")
    async def file(name: str) -> Response:
        """Its scripts and styles."""
        return answer(name)


async def _forget_silent_pages(pages: Pages) -> None:
    while True:
        await asyncio.sleep(SWEEP)
        try:
            await asyncio.to_thread(pages.forget_silent)
        except Exception:  # one failure must not keep all pages for ever
            log.exception("Pages whose browser has gone could not be closed.")


async def _refused(request: Request, error: Exception) -> JSONResponse:
    status = error.status if isinstance(error, Refused) else 500
    return JSONResponse({"error": str(error)}, status)


async def _invalid(request: Request, error: Exception) -> JSONResponse:
    """What pydantic found, as one sentence."""
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"][1:]) or "the request"
    return JSONResponse({"error": f"{place}: {first['msg']}."}, 422)
