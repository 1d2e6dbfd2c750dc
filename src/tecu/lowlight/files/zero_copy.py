"""The memory of a decoded picture, lent by Pillow through the Arrow interface instead of copied out of it."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from PIL import Image

from tecu.lowlight.files.photo import Pixels


class _ArrowArray(ctypes.Structure):
    """``struct ArrowArray`` of the Arrow C data interface."""


_ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
]
_core: Any = vars(Image)["core"]  # its own module, not exported to type checkers
_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_lock, _users, _kept = threading.Lock(), 0, 0


@contextlib.contextmanager
def in_one_piece() -> Iterator[None]:
    """Pictures that are decoded meanwhile lie in one piece of memory; Pillow cuts large ones up otherwise."""
    global _users, _kept
    with _lock:  # the switch is one for all threads: the first sets it, the last puts it back
        if _users == 0:
            _kept = _core.get_use_block_allocator()
            _core.set_use_block_allocator(1)
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _core.set_use_block_allocator(_kept)


def fits_one_piece(image: Image.Image) -> bool:
    """Whether Pillow can have an RGB picture in one piece: it takes less than 2^31 bytes."""
    return 4 * image.size[0] * image.size[1] < 2**31


class _Loan:
    """Keeps the picture's memory as long as an array looks at it."""

    def __init__(self, capsule: object, address: int, shape: tuple[int, ...]) -> None:
        self.capsule = capsule  # gives the memory back when it goes
        self.__array_interface__ = {"version": 3, "shape": shape, "typestr": "|u1", "data": (address, False)}


def lent(image: Image.Image) -> Pixels | None:
    """The pixels of a decoded RGB picture, four bytes apart as Pillow has them, or ``None`` if they are in pieces.

    >>> lent(Image.new("RGB", (3, 2), (1, 2, 3)))[0, 0].tolist()
    [1, 2, 3, 255]
    """
    if _core.get_alignment() > 1:  # rows may be padded
        return None
    try:
        _, capsule = image.__arrow_c_array__()
    except (ValueError, MemoryError):  # in pieces
        return None
    array = _ArrowArray.from_address(_pointer(capsule, b"arrow_array"))
    columns, rows = image.size
    if (array.length, array.n_children) != (rows * columns, 1):
        return None
    bands = array.children[0].contents
    if (bands.length, bands.offset, bands.n_buffers) != (4 * rows * columns, 0, 2):
        return None
    return np.asarray(_Loan(capsule, bands.buffers[1], (rows, columns, 4)))
