"""How the kernels are compiled. This module imports numba: import it, and the kernels, lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

RELAXED = {"contract", "reassoc", "nsz", "arcp"}  # what SIMD sums need; NaN and Inf keep their meaning


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as machine code: kept on disk between processes, run without the interpreter's lock."""
    kernel: Callable[..., Any] = njit(nogil=True, cache=True, fastmath=RELAXED)(function)
    return kernel
