"""The kernels of photo enhancement, as a family: without ``fastmath``, so that they round as NumPy does."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from tecu.kernels import Family

family = Family("photo enhancement", Path(__file__).with_name("kernels.bitcode"))
compiled, part, routine = family.kernel, family.part, family.routine

LINE = 64  # bytes that a processor reads from memory at a time


def scratch(shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
    """Memory for a kernel to work in, from the start of a line: NumPy's own is beside it, which costs some percent."""
    size = prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(size + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return np.asarray(room[start : start + size].view(dtype).reshape(shape))
