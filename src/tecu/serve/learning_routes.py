"""The interface of the dictionary tab."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request, Response
from fastapi.responses import FileResponse

from tecu.serve.learning import Learning, Recipe
from tecu.serve.limits import Refused
from tecu.serve.matrices import read_matrix
from tecu.serve.pages import Page
from tecu.serve.photo_routes import AllPages, ThisPage

router = APIRouter()


@router.post("/matrix", status_code=201)
async def take_matrix(request: Request, name: str, page: ThisPage, pages: AllPages) -> dict[str, Any]:
    """Take a matrix, the body of the request, in the place of the one before."""
    limits = pages.limits
    if int(request.headers.get("content-length") or 0) > limits.file_bytes:
        raise limits.too_long(name)
    if page.learning is not None:
        page.learning.refuse_while_running("before you take another matrix")
    async with page.receiving(name, request.stream()) as (_, path, length):
        matrix = await asyncio.to_thread(read_matrix, path, name, limits)
        if page.learning is not None:
            page.learning.replace()  # a run may have begun meanwhile
            page.kept -= page.learning.length
        page.learning = Learning(matrix, name, path.parent, lambda news: page.feed.tell("learning", news), length)
        path.unlink(missing_ok=True)
    return {"samples": matrix.shape[0], "features": matrix.shape[1]}


def _learning(page: Page) -> Learning:
    if page.learning is None:
        raise Refused(409, "There is no matrix to learn from yet.")
    return page.learning


@router.post("/learning", status_code=204)
async def learn(recipe: Recipe, page: ThisPage) -> None:
    """Begin anew."""
    _learning(page).start(recipe)


@router.post("/learning/stop", status_code=204)
async def stop(page: ThisPage) -> None:
    """Stop after the current sweep."""
    _learning(page).stop()


@router.post("/learning/resume", status_code=204)
async def resume(page: ThisPage, more: Annotated[int, Body(embed=True, ge=0, le=100_000)] = 0) -> None:
    """Go on from where it stopped."""
    _learning(page).resume(more)


@router.get("/learning/atoms")
async def atoms(page: ThisPage) -> Response:
    """The atoms as they are now."""
    return Response(await asyncio.to_thread(_learning(page).picture), media_type="image/png")


@router.get("/learning/model")
async def model(page: ThisPage) -> FileResponse:
    """The model as a file."""
    path = await asyncio.to_thread(_learning(page).save)
    return FileResponse(path, filename=path.name, media_type="application/octet-stream")
