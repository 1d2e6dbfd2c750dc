"""A queue between threads that meet every millisecond: who waits looks out for a moment before he goes to sleep.

To wake a sleeping thread takes a tenth of a millisecond, on virtual machines several. Two threads that share batches
meet some hundred times in half a second, so that they would sleep through a tenth of it.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")

GLANCES = 100_000
"""At the counter before sleeping: two or three milliseconds, which is longer than one thread has to itself mostly."""

GRACE = 500
"""More of them, some ten microseconds, for the one who has put something in to let go of the interpreter's lock."""

Counter = np.ndarray[Any, np.dtype[np.int64]]

_NOBODY: Counter = np.zeros(1, np.int64)


def patience(threads: int) -> int:
    """How many glances pay: none where threads outnumber processors, for there they keep each other from working.

    If the machine code for them cannot be had, that is found here, and not by a thread that others would wait for.
    """
    if not 1 < threads <= processors():
        return 0
    from tecu.dictionary.kernels_waiting import look_out

    look_out(_NOBODY, 0, 0, 0, np.zeros(1, np.int64))
    return GLANCES


def processors() -> int:
    """How many this process may use: in a container that may be fewer than the machine has."""
    from joblib import cpu_count  # looks at affinities and quotas

    return int(cpu_count())


class Mailbox(Generic[T]):
    """A ``SimpleQueue`` and a counter of what was put into it, which can be watched without the interpreter's lock.

    >>> box = Mailbox()
    >>> box.put("letter")
    >>> box.get()
    'letter'
    """

    def __init__(self, glances: int = 0, grace: int = GRACE) -> None:
        self._queue: SimpleQueue[T] = SimpleQueue()
        self._sent, self._read = np.zeros(1, np.int64), 0
        self._glances, self._grace = glances, grace

    def put(self, item: T) -> None:
        """Put an item in, for whoever waits or will come."""
        self.put_unseen(item)[0] += 1

    def put_unseen(self, item: T) -> Counter:
        """Put an item in of which nobody who looks out is told, but by a :meth:`get` that is given what is returned."""
        self._queue.put(item)
        return self._sent

    def get(self, told: Counter | None = None) -> T:
        """The next item; waits for it."""
        if self._glances and (told is not None or self._sent[0] <= self._read):
            from tecu.dictionary.kernels_waiting import look_out

            look_out(self._sent, self._read + 1, self._glances, self._grace, _NOBODY if told is None else told)
        item = self._queue.get()
        self._read += 1
        return item
