"""The interface of the photos tab."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Executor
from pathlib import Path
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import FileResponse, StreamingResponse
from pydantic import BaseModel, ConfigDict
from starlette.background import BackgroundTask

from tecu.lowlight.model import HEADROOM
from tecu.serve.archives import zipped
from tecu.serve.limits import Refused
from tecu.serve.pages import Page, Pages
from tecu.serve.photos import StoredPhoto, jpeg
from tecu.serve.preview import Look

router = APIRouter()
LARGEST_TILE = 4096  # pixels a side
T = TypeVar("T")


def pages_of(request: Request) -> Pages:
    """All pages."""
    pages: Pages = request.app.state.pages
    return pages


def page_of(page_id: str, request: Request) -> Page:
    """The page that asks."""
    return pages_of(request).get(page_id)


def look_of(what: str = "tecu", strength: float = 1.0, denoise: bool = True, headroom: float = HEADROOM) -> Look:
    """What is asked for; a wrong setting is refused in the words of the enhancer."""
    return _checked(Look(what, strength, denoise, headroom))


def _checked(look: Look) -> Look:
    if ":" in look.what:  # the command line takes a module's function; a page must not run code by its name
        raise Refused(422, f"{look.what!r} is not a method.")
    try:
        (Look("tecu", look.strength, look.denoise, look.headroom) if look.is_layer else look).enhancer()
    except ValueError as error:
        raise Refused(422, f"{error}.") from error
    return look


AllPages = Annotated[Pages, Depends(pages_of)]
ThisPage = Annotated[Page, Depends(page_of)]
ThisLook = Annotated[Look, Depends(look_of)]


async def _run(pool: Executor, work: Callable[[], T]) -> T:
    return await asyncio.get_running_loop().run_in_executor(pool, work)


# ---- photos come and go ----


@router.post("/photos", status_code=201)
async def add_photo(
    request: Request,
    name: str,
    page: ThisPage,
    pages: AllPages,
    tag: Annotated[str, Query(max_length=20)] = "",
) -> dict[str, Any]:
    """Take a photo, the body of the request; it is read later, when a worker is free."""
    limits = pages.limits
    if int(request.headers.get("content-length") or 0) > limits.file_bytes:
        raise limits.too_long(name)
    if len(page.photos) + page.awaited >= limits.photos:
        raise Refused(413, f"{name} is one too many: a page may hold {limits.photos} photos.")
    page.awaited += 1  # photos that come at the same time count too
    try:
        async with page.receiving(name, request.stream()) as (id, path, length):
            page.photos[id] = StoredPhoto(id, name, path, length, pages.cache, limits, tag)
    finally:
        page.awaited -= 1
    photo = page.photos[id]
    page.feed.tell(f"photo {id}", photo.told())
    pages.reading.submit(_read, photo, page)
    return photo.told()


def _read(photo: StoredPhoto, page: Page) -> None:
    if photo.id in page.photos:
        photo.prepare()
    if photo.id in page.photos:
        page.feed.tell(f"photo {photo.id}", photo.told())
    else:  # it was removed meanwhile
        photo.cache.drop(photo.id)


@router.delete("/photos/{photo_id}", status_code=204)
async def remove_photo(photo_id: str, page: ThisPage, pages: AllPages) -> None:
    """Forget a photo."""
    page.remove(photo_id)
    pages.cache.drop(photo_id)


# ---- looking at one ----


@router.get("/photos/{photo_id}/view")
async def view(photo_id: str, page: ThisPage, pages: AllPages, look: ThisLook, small: bool = False) -> Response:
    """The preview, as a JPEG."""
    photo = page.photo(photo_id)
    began = time.perf_counter()
    show = photo.thumbnail if small else photo.shown
    pool = pages.quick if photo.is_quick(look) else pages.slow
    data = await _run(pool, lambda: jpeg(show(look), quick=True))
    spent = f"render;dur={1000 * (time.perf_counter() - began):.1f}"
    return Response(data, media_type="image/jpeg", headers={"server-timing": spent})


@router.get("/photos/{photo_id}/tile")
async def tile(
    photo_id: str,
    page: ThisPage,
    pages: AllPages,
    look: ThisLook,
    x: Annotated[int, Query(ge=0)],
    y: Annotated[int, Query(ge=0)],
    width: Annotated[int, Query(ge=1, le=LARGEST_TILE)],
    height: Annotated[int, Query(ge=1, le=LARGEST_TILE)],
) -> Response:
    """A part of the full-size picture, pixel by pixel, as a JPEG."""
    photo = page.photo(photo_id)
    rows, columns = slice(y, y + height), slice(x, x + width)
    data = await _run(pages.slow, lambda: jpeg(photo.part(look, rows, columns)))
    return Response(data, media_type="image/jpeg")


@router.get("/photos/{photo_id}/run")
async def run(photo_id: str, page: ThisPage, pages: AllPages, method: str = "tecu") -> dict[str, Any]:
    """How the light was found: the certificate in words, the curves in numbers."""
    photo = page.photo(photo_id)
    if not Look(method).is_model:
        raise Refused(422, f"The method {method} has no certificate: it is not a method of our model.")
    return await _run(pages.slow, lambda: photo.run(method))


# ---- taking results home ----


@router.get("/photos/{photo_id}/result")
async def result(photo_id: str, page: ThisPage, pages: AllPages, look: ThisLook) -> FileResponse:
    """The enhanced photo as a file like the original, metadata kept."""
    photo = page.photo(photo_id)
    folder = page.folder / f"out-{secrets.token_hex(6)}"
    folder.mkdir()
    try:
        path = await _run(pages.slow, lambda: photo.write(_no_layer(look), folder))
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    done = BackgroundTask(shutil.rmtree, folder, ignore_errors=True)
    return FileResponse(path, filename=path.name, background=done)


def _no_layer(look: Look) -> Look:
    if look.is_layer:
        raise Refused(422, f"The {look.what} is looked at, not downloaded; choose a method.")
    return look


class Wanted(BaseModel):
    """One photo of an archive, with its settings."""

    model_config = ConfigDict(extra="forbid")

    id: str
    what: str = "tecu"
    strength: float = 1.0
    denoise: bool = True
    headroom: float = HEADROOM


@router.post("/archives", status_code=201)
async def order_archive(wanted: list[Wanted], page: ThisPage) -> dict[str, str]:
    """Order a zip file of several results; the answer says where to fetch it."""
    if not wanted or len(wanted) > page.limits.photos:
        raise Refused(422, f"An archive holds 1 to {page.limits.photos} photos, {len(wanted)} were asked for.")
    looks = []
    for item in wanted:
        page.photo(item.id)
        look = Look(item.what, item.strength, item.denoise, item.headroom)
        looks.append((item.id, _no_layer(_checked(look))))
    ticket = secrets.token_urlsafe(9)
    page.archives = {ticket: looks}  # the last order counts
    return {"ticket": ticket}


@router.get("/archives/{ticket}")
async def fetch_archive(ticket: str, page: ThisPage, pages: AllPages) -> StreamingResponse:
    """The zip file, made while it is sent: one result at a time is on the disk."""
    looks = page.archives.pop(ticket, None)
    if looks is None:
        raise Refused(404, "This archive was fetched already, or never ordered.")
    headers = {"content-disposition": 'attachment; filename="enhanced.zip"'}
    folder = page.folder / f"zip-{ticket}"

    async def write(item: tuple[str, Look]) -> Path:
        photo_id, look = item
        photo = page.photo(photo_id)
        return await _run(pages.slow, lambda: photo.write(look, folder))

    return StreamingResponse(zipped(looks, write, folder), media_type="application/zip", headers=headers)
