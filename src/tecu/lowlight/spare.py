"""Memory of large photos, kept for the next one: the system hands out memory page by page, which takes its time."""

from __future__ import annotations

from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]

MOST, LARGEST = 2, 1 << 27  # pieces that are kept, and bytes of each: a photo of 32 megapixels and its result
_spare: list[Pixels] = []


class _Loan:
    """Gives its memory back when the last array that looks at it is gone."""

    def __init__(self, memory: Pixels) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self, spare: list[Pixels] = _spare, most: int = MOST, largest: int = LARGEST) -> None:
        if self.memory.nbytes <= largest:  # defaults, because names may be gone when the interpreter ends
            spare.append(self.memory)
            del spare[:-most]


def room(shape: tuple[int, ...]) -> Pixels:
    """Bytes of that shape with anything in them, as ``np.empty(shape, np.uint8)``, perhaps used before.

    >>> first = room((400, 300, 4))
    >>> place = first.ctypes.data
    >>> del first
    >>> room((400, 300, 4)).ctypes.data == place
    True
    """
    while _spare:
        try:
            memory = _spare.pop()
        except IndexError:  # another thread was quicker
            break
        if memory.shape == shape:
            return np.asarray(_Loan(memory))
    return np.asarray(_Loan(np.empty(shape, np.uint8)))
