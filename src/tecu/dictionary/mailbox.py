"""A queue between threads that meet every millisecond: who waits looks out for a moment before he goes to sleep.

To wake a sleeping thread takes a tenth of a millisecond, on virtual machines several. Two threads that share batches
meet some hundred times in half a second, so that they would sleep through a tenth of it.
"""

from __future__ import annotations

import os
from queue import SimpleQueue
from typing import Generic, TypeVar

import numpy as np

T = TypeVar("T")

GLANCES = 100_000
"""At the counter before sleeping: two or three milliseconds, which is longer than one thread has to itself mostly."""


def patience(threads: int) -> int:
    """How many glances pay: none where threads outnumber processors, for there they keep each other from working."""
    processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return GLANCES if 1 < threads <= processors else 0


class Mailbox(Generic[T]):
    """A ``SimpleQueue`` and a counter of what was put into it, which can be watched without the interpreter's lock.

    >>> box = Mailbox()
    >>> box.put("letter")
    >>> box.get()
    'letter'
    """

    def __init__(self, glances: int = 0) -> None:
        self._queue: SimpleQueue[T] = SimpleQueue()
        self._sent, self._read, self._glances = np.zeros(1, np.int64), 0, glances

    def put(self, item: T) -> None:
        """Put an item in, for whoever waits or will come."""
        self._queue.put(item)
        self._sent[0] += 1  # after it: who sees the counter finds the item

    def get(self) -> T:
        """The next item; waits for it."""
        if self._glances and self._sent[0] <= self._read:
            from tecu.dictionary.kernels_waiting import look_out

            look_out(self._sent, self._read + 1, self._glances)
        item = self._queue.get()
        self._read += 1
        return item
