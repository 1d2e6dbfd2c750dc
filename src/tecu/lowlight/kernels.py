"""Large pictures of 8 or 16 bits, or many small ones, by compiled kernels; imported only when there are such.

Rows are handed over flat, ``R G B R G B ...``, and indices are unsigned: that is what lets the compiler use vectors and
leave out its checks (three times faster than indexing ``pixels[y, x, c]``).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any

import numpy as np

from tecu.lowlight import spare
from tecu.lowlight.exposure import Exposure
from tecu.lowlight.kernels_bytes import cell_means, pad_rows
from tecu.lowlight.kernels_denoise import factors, room_to_smooth, smooth_tile
from tecu.lowlight.kernels_tone import room_for_tone, tone_tile
from tecu.lowlight.tables import scene

Pixels = np.ndarray[Any, Any]

STRIP, WIDEST = 128, 4608  # rows that are smoothed or not together; columns of a tile: both are even
MOST_THREADS = 4
ROWS_A_CELL = 10  # rows of a cell that are averaged, at least; the noise of 200 pixels is small enough


def render(pixels: Pixels, exposure: Exposure, smoothing: tuple[Pixels, Pixels] | None) -> Pixels:
    """The result for ``pixels``, ``h x w x c``; ``smoothing`` is noise and share on the grid, or ``None``."""
    height, width = pixels.shape[:2]
    flat, out = flat_rows(pixels), room_like(pixels)
    result = flat_rows(out)
    parts = scene(exposure, (height, width), pixels.dtype)
    noise, share = smoothing or (None, np.zeros((1, 1), np.float32))

    def make(part: tuple[tuple[int, int, int, int], bool]) -> None:
        tile, noisy = part
        edges = np.array(tile, np.int64)
        if noisy:
            room = room_to_smooth(tile, width, flat.dtype)
            smooth_tile(flat, result, edges, noise, share, *parts, factors(), *room)
        else:
            tone_tile(flat, result, edges, *parts, *room_for_tone(tile, flat.dtype))

    count = threads()
    shares = [(piece, noisy) for tile, noisy in tiles(share, height, width) for piece in cut(tile, count)]
    if min(count, len(shares)) == 1:
        for part in shares:
            make(part)
        return out
    with ThreadPoolExecutor(count) as pool:  # the kernels let go of the interpreter
        list(pool.map(make, shares))
    return out


def threads() -> int:
    """As many as ``OMP_NUM_THREADS`` says, or as there are processors; more than four would wait for the memory."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(int(wanted) if wanted.isdecimal() and int(wanted) > 0 else os.cpu_count() or 1, MOST_THREADS)


def cut(tile: tuple[int, int, int, int], count: int) -> list[tuple[int, int, int, int]]:
    """``tile`` in up to ``count`` pieces of about as many rows, at least a strip each.

    >>> cut((0, 1000, 0, 50), 2)
    [(0, 512, 0, 50), (512, 1000, 0, 50)]
    """
    top, bottom, left, right = tile
    rows = -(-(bottom - top) // (count * STRIP)) * STRIP
    return [(first, min(first + rows, bottom), left, right) for first in range(top, bottom, rows)]


def tiles(share: Pixels, height: int, width: int) -> Iterator[tuple[tuple[int, int, int, int], bool]]:
    """Tiles (rows from, to, columns from, to) that cover a picture, and whether there is something to smooth in each.

    >>> share = np.zeros((4, 4))
    >>> share[1, 2] = 1.0
    >>> [tile for tile, noisy in tiles(share, 400, 400) if noisy]
    [(0, 256, 150, 350)]
    """
    strips = [(top, min(top + STRIP, height), *_noisy(share, top, height, width)) for top in range(0, height, STRIP)]
    for noisy, group in groupby(strips, key=lambda strip: strip[2] < strip[3]):
        tops, bottoms, starts, stops = zip(*group, strict=True)
        top, bottom, start, stop = tops[0], bottoms[-1], min(starts), max(stops)
        parts = ((0, start, False), (start, stop, True), (stop, width, False)) if noisy else ((0, width, False),)
        for first, last, smooth in parts:
            for left in range(first, last, WIDEST):
                yield (top, bottom, left, min(left + WIDEST, last)), smooth


def _noisy(share: Pixels, top: int, height: int, width: int) -> tuple[int, int]:
    """From which column to which there is something to smooth in a strip; ``(width, 0)`` if there is nothing."""
    rows, columns = share.shape
    # A cell of the grid reaches half a cell beyond its own pixels.
    first, last = int(top * rows / height - 0.5), math.ceil((top + STRIP) * rows / height + 0.5)
    found = np.flatnonzero(share[max(first, 0) : last].any(axis=0))
    if found.size == 0:
        return width, 0
    start, stop = int((found[0] - 0.5) * width / columns), math.ceil((found[-1] + 1.5) * width / columns)
    return max(start // 2 * 2, 0), min(stop, width)


def shrink(pixels: Pixels, shape: tuple[int, int]) -> Pixels:
    """``pixels`` (8-bit, ``h x w x 3``) averaged over the cells of a grid of that ``shape``; float32 in [0, 1].

    Of cells with many rows only some rows are read.
    """
    height, width, channels = pixels.shape
    down = (np.arange(shape[0] + 1) * height) // shape[0]
    across = (np.arange(shape[1] + 1) * width) // shape[1]
    step = max(1, height // shape[0] // ROWS_A_CELL)
    out = np.empty((*shape, channels), dtype=np.float32)
    flat = flat_rows(pixels)
    cell_means(flat, down, across, step, channels, out, np.empty(flat.shape[1], np.uint16))
    return out


def flat_rows(pixels: Pixels) -> Pixels:
    """The rows of ``pixels``, ``h x w x c``, as ``h x (w n)``: ``n`` is ``c``, or 4 where :func:`padding` is."""
    whole = padding(pixels)
    return np.ascontiguousarray(pixels if whole is None else whole).reshape(pixels.shape[0], -1)


def padding(pixels: Pixels) -> Pixels | None:
    """The ``h x w x 4`` bytes, the layout in which Pillow holds RGB, of which ``pixels`` are the first three.

    >>> whole = np.zeros((2, 5, 4), np.uint8)
    >>> padding(whole[..., :3]) is whole, padding(whole[..., 1:]) is None, padding(whole[:1, :, :3]) is None
    (True, True, True)
    """
    whole = pixels.base
    fits = (
        isinstance(whole, np.ndarray)
        and whole.dtype == np.uint8
        and whole.shape == (*pixels.shape[:2], 4)
        and whole.flags.c_contiguous
        and (pixels.shape[2:], pixels.strides, pixels.dtype) == ((3,), whole.strides, whole.dtype)
        and pixels.__array_interface__["data"][0] == whole.__array_interface__["data"][0]
    )
    return whole if fits else None


def room_like(pixels: Pixels) -> Pixels:
    """Room for a result, row by row whatever the order of ``pixels``; with a :func:`padding` where they have one.

    Bytes are perhaps in memory used before, which does not belong to the array: see :mod:`tecu.lowlight.spare`.
    """
    if padding(pixels) is not None:
        return padded_room(pixels.shape)
    return spare.room(pixels.shape) if pixels.dtype == np.uint8 else np.empty(pixels.shape, pixels.dtype)


def padded_room(shape: tuple[int, ...]) -> Pixels:
    """Room for ``h x w x 3`` bytes that have a :func:`padding`."""
    return spare.room((*shape[:2], 4))[..., :3]


def padded(pixels: Pixels) -> Pixels:
    """``h x w x 3`` bytes to ``h x w x 4`` with 255 as the fourth; no copy where they have a :func:`padding`."""
    whole = padding(pixels)
    if whole is not None:
        return whole
    out = padded_room(pixels.shape)
    pad_rows(flat_rows(pixels), flat_rows(out))
    whole = padding(out)
    assert whole is not None
    return whole
