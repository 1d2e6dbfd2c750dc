"""A few threads that share a batch, each with its own matrix product and kernel call.

BLAS is held to one thread meanwhile: its pool would spin against ours. The pieces depend on the number of threads only,
so results repeat bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")
SMALLEST_PIECE = 64  # rows; below that a thread costs more than it brings


class Workers:
    """``count`` threads; one means the caller's own.

    >>> Workers(1).map(lambda piece: piece.stop - piece.start, 10)
    [10]
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self._pool = ThreadPoolExecutor(count - 1) if count > 1 else None

    def map(self, function: Callable[[slice], T], size: int) -> list[T]:
        """``function`` of each of ``count`` equal slices of ``range(size)``."""
        return self._share(function, self.slices(size))

    def _share(self, function: Callable[[slice], T], pieces: list[slice]) -> list[T]:
        if self._pool is None or len(pieces) == 1:
            return [function(piece) for piece in pieces]
        waiting = [self._pool.submit(function, piece) for piece in pieces[1:]]
        first = function(pieces[0])
        return [first, *(job.result() for job in waiting)]

    def slices(self, size: int) -> list[slice]:
        """``range(size)`` in equal pieces."""
        count = max(1, min(self.count, size // SMALLEST_PIECE))
        edges = [size * i // count for i in range(count + 1)]
        return [slice(a, b) for a, b in pairwise(edges)]

    def product(self, left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """``left @ right``, the columns of the result shared out."""
        if self._pool is None:
            return np.asarray(left @ right)
        out = np.empty((left.shape[0], right.shape[1]), dtype=np.result_type(left, right))
        self.map(lambda piece: np.matmul(left, right[:, piece], out=out[:, piece]), right.shape[1])
        return out

    def by_columns(
        self, function: Callable[[slice], np.ndarray[Any, Any]], right: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """``function`` of slices of the columns of ``right``, side by side."""
        parts = self.map(function, right.shape[1])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def gram(self, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """``rows @ rows.T``, its upper triangle shared out in strips of equal area."""
        if self._pool is None or len(rows) < self.count * SMALLEST_PIECE:
            return np.asarray(rows @ rows.T)
        m = len(rows)
        out = np.empty((m, m), dtype=rows.dtype)
        edges = [round(m * (1 - math.sqrt(1 - i / self.count))) for i in range(self.count + 1)]

        def strip(i: slice) -> None:
            a, b = edges[i.start], edges[i.stop]
            own = rows[a:b]
            out[a:b, a:b] = own @ own.T  # NumPy computes half of such a product
            np.matmul(own, rows[b:].T, out=out[a:b, b:])
            out[b:, a:b] = out[a:b, b:].T

        self._share(strip, [slice(i, i + 1) for i in range(self.count)])
        return out

    def close(self) -> None:
        """End the threads; what is still asked for is done by the caller's own."""
        if self._pool is not None:
            self._pool.shutdown()
            self._pool, self.count = None, 1


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # finds the libraries once; that takes milliseconds


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Threads for the length of a block, BLAS held to one."""
    team = Workers(count)
    try:
        with _controller().limit(limits=1, user_api="blas"):
            yield team
    finally:
        team.close()
