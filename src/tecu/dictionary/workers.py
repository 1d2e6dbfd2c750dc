"""A few threads that share a batch, each with its own matrix product and kernel call.

BLAS is held to one thread meanwhile: its pool would spin against ours. The pieces depend on the number of threads only,
so results repeat bit by bit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import pairwise
from threading import Lock, Thread, current_thread
from typing import Any, TypeVar

import numpy as np

from tecu.dictionary.mailbox import Mailbox, patience

T = TypeVar("T")
P = TypeVar("P")
SMALLEST_PIECE = 64  # rows; below that a thread costs more than it brings
SMALLEST_LAST = 48  # of pieces that taper, for which nobody is called any more
VECTOR = 16  # entries that a processor takes at once


class _Worker:
    """One thread that waits for work: a queue there and one back, a tenth of the price of a pool's future.

    Jobs are numbered: after an interruption of the thread that asked, nobody may have waited for the end of one.
    """

    def __init__(self, glances: int) -> None:
        self._jobs: Mailbox[tuple[int, Callable[[], None]] | None] = Mailbox(glances)
        self._errors: Mailbox[tuple[int, BaseException | None]] = Mailbox(glances, grace=0)
        self._number = 0
        self.thread = Thread(target=self._work, name="tecu worker", daemon=True)
        self.thread.start()

    def _work(self) -> None:
        told = None
        while (letter := self._jobs.get(told)) is not None:
            (number, job), error = letter, None
            try:
                job()
            except BaseException as raised:  # it belongs to the thread that asked
                error = raised
            told = self._errors.put_unseen((number, error))
            del letter, job, error  # and with it what it holds, while there is nothing to do

    def start(self, job: Callable[[], None]) -> None:
        self._number += 1
        self._jobs.put((self._number, job))

    def error(self) -> BaseException | None:
        """Waits until the latest job is done."""
        while True:
            number, error = self._errors.get()
            if number == self._number:
                return error

    def dismiss(self) -> None:
        """The thread ends, once it has done what was asked for."""
        self._jobs.put(None)


class Workers:
    """``count`` threads; one means the caller's own.

    >>> Workers(1).map(lambda piece: piece.stop - piece.start, 10)
    [10]
    """

    def __init__(self, count: int = 1) -> None:
        self.count = count
        self.glances = patience(count)
        self._others: list[_Worker] = []
        self._busy = False
        try:
            for _ in range(count - 1):
                self._others.append(_Worker(self.glances))
        except BaseException:  # no more threads are to be had, or Ctrl-C
            self.close()
            raise

    def map(self, function: Callable[[slice], T], size: int) -> list[T]:
        """``function`` of ``count`` equal slices of ``range(size)``, in their order."""
        return self.each(function, self.slices(size))

    def slices(self, size: int) -> list[slice]:
        """The slices that :meth:`map` cuts ``range(size)`` into."""
        return _equal_slices(size, self.count)

    def tapering(self, size: int, most: int | None = None, threads: int | None = None) -> list[slice]:
        """``range(size)`` in slices, one for each thread at a time: half of it, a quarter, and so on.

        Whoever is free does the next, so that nobody waits long for a thread that is slower today. No slice has more
        than ``most`` rows. ``threads`` are those that would share work now, unless they are given.
        """
        threads, edges = threads or self.free, [0]
        while (begin := edges[-1]) < size:
            rest = size - begin
            part = rest // 2 if 16 * begin < 15 * size else rest
            if threads == 1 or part < threads * SMALLEST_LAST:
                part = rest
            edges += [
                begin + stop for piece in _equal_slices(part, threads, SMALLEST_LAST) for stop in _stops(piece, most)
            ]
        return _slices(edges)

    def several(self, size: int) -> list[slice]:
        """``range(size)`` in equal slices, two for each thread: so that work that is not spread evenly is."""
        return _equal_slices(size, 1 if self.count == 1 else 2 * self.count)

    @property
    def _is_alone(self) -> bool:
        """Whether work is for the thread that asks: what is shared is not shared out once more."""
        return not self._others or self._busy or current_thread() in [worker.thread for worker in self._others]

    @property
    def free(self) -> int:
        """How many threads would share work now."""
        return 1 if self._is_alone else self.count

    def each(
        self, function: Callable[[P], T], pieces: Sequence[P], give_up: Callable[[], object] = lambda: None
    ) -> list[T]:
        """``function`` of each of some pieces; whoever is free does the next. After an error, ``give_up`` is called."""
        if len(pieces) <= 1 or self._is_alone:
            return [function(piece) for piece in pieces]
        waiting: deque[int] = deque(range(len(pieces)))
        answers: dict[int, T] = {}

        def next_piece() -> int | None:
            try:
                return waiting.popleft()
            except IndexError:  # nothing is left
                return None

        def work(before: Callable[[], None] = lambda: None) -> None:
            try:
                before()
                while (i := next_piece()) is not None:
                    answers[i] = function(pieces[i])
            except BaseException:
                waiting.clear()  # nobody will want the rest
                give_up()
                raise

        def begin() -> None:
            for worker in self._others[: len(pieces) - 1]:
                worker.start(partial(copy_context().run, work))  # NumPy's treatment of errors comes along
                begun.append(worker)

        begun: list[_Worker] = []
        try:
            self._busy = True
            try:
                work(begin)  # who was begun is let go whenever Ctrl-C comes
            finally:
                errors = [worker.error() for worker in begun]
        finally:
            self._busy = False
        for error in errors:
            if error is not None:
                raise error
        return [answers[i] for i in range(len(pieces))]

    def each_after(
        self,
        first: Sequence[Callable[[], object]],
        function: Callable[[P, Callable[[], None]], T],
        pieces: Sequence[P],
        beside: Sequence[Callable[[], object]] = (),
    ) -> list[T]:
        """``function(piece, wait)`` of each of some pieces, and what has to come ``first``, for which it can ``wait``.

        So threads that are through with the first calls do not stand still until all of them are. Calls ``beside`` it
        are for whoever is free.
        """
        done: list[object] = []
        leaves: Mailbox[None] = Mailbox(self.glances)  # no Event: Ctrl-C could leave its lock behind, others waiting

        def begin(call: Callable[[], object]) -> None:
            done.append(call())
            if len(done) == len(first):
                let_go()

        def wait() -> None:
            if first:
                leaves.get()

        def let_go() -> None:
            for _ in pieces:  # also after an error: nobody is to wait for ever
                leaves.put(None)

        steps: list[Callable[[], Any]] = [*(partial(begin, call) for call in first), *beside]
        before = len(steps)
        steps += [partial(function, piece, wait) for piece in pieces]
        return self.each(lambda step: step(), steps, let_go)[before:]

    def call(self, steps: Sequence[Callable[[], Any]]) -> list[Any]:
        """The answers of some calls."""
        return self.each(lambda step: step(), steps)

    def product(self, left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """``left @ right``, the rows of the result shared out."""
        if self.count == 1:
            return np.asarray(left @ right)
        out = np.empty((len(left), right.shape[1]), dtype=np.result_type(left, right))
        self.map(lambda piece: np.matmul(left[piece], right, out=out[piece]), len(left))
        return out

    def gram(self, rows: np.ndarray[Any, Any], ahead: Sequence[Callable[[], object]] = ()) -> np.ndarray[Any, Any]:
        """``rows @ rows.T``, its upper triangle shared out; symmetric to the last bit.

        Calls ``ahead`` of it are begun first.
        """
        from tecu.dictionary.compiled import address_of_gemm, address_of_syrk
        from tecu.dictionary.kernels_absorb import gram_strip

        gram = np.empty((len(rows), len(rows)), dtype=rows.dtype)
        blas = address_of_gemm(rows.itemsize), address_of_syrk(rows.itemsize)
        strips = [partial(gram_strip, *blas, rows, gram, strip.start, strip.stop) for strip in self.strips(len(rows))]
        self.call([*ahead, *strips])
        return gram

    def strips(self, size: int) -> list[slice]:
        """Rows of a symmetric matrix in strips, of which from the diagonal on the last have the fewest entries.

        For each thread there is one of three parts, one of two and one of one; of few rows fewer strips, all alike.
        """
        threads = max(2, self.count)
        count = max(1, min(2 * threads, size // SMALLEST_PIECE))
        parts = np.repeat([3, 2, 1], threads) if size >= 3 * threads * SMALLEST_PIECE else np.ones(count)
        before = (np.cumsum(parts) - parts) / np.sum(parts)
        edges = size * (1.0 - np.sqrt(1.0 - before))
        return _slices([*(VECTOR * round(float(edge) / VECTOR) for edge in edges), size])  # where products are fastest

    def close(self) -> None:
        """End the threads; what is still asked for is done by the caller's own."""
        others, self._others, self.count = self._others, [], 1
        for worker in others:
            worker.dismiss()
        for worker in others:
            worker.thread.join()


def _equal_slices(size: int, most: int, least: int = SMALLEST_PIECE) -> list[slice]:
    count = max(1, min(most, size // least))
    return _slices([size * i // count for i in range(count + 1)])


def _slices(edges: list[int]) -> list[slice]:
    return [slice(a, b) for a, b in pairwise(edges) if a < b] or [slice(0, 0)]


def _stops(piece: slice, most: int | None) -> list[int]:
    """Where equal parts of a slice end, of which none has more than ``most`` rows."""
    size = piece.stop - piece.start
    count = 1 if most is None else -(-size // most)
    return [piece.start + size * i // count for i in range(1, count + 1)]


@lru_cache(maxsize=1)
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()  # finds the libraries once; that takes milliseconds


class _OneBlasThread:
    """BLAS held to one thread as long as anybody wants it.

    Fits in several threads of a process overlap: the first one sets the limit, the last one takes it back.
    """

    def __init__(self) -> None:
        self._lock, self._count = Lock(), 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._count == 0:
                self._limit = _controller().limit(limits=1, user_api="blas")
            self._count += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0 and self._limit is not None:
                self._limit.restore_original_limits()
                self._limit = None


_one_blas_thread = _OneBlasThread()


@contextmanager
def workers(count: int) -> Iterator[Workers]:
    """Threads for the length of a block, BLAS held to one."""
    team = Workers(count)
    try:
        with _one_blas_thread:
            yield team
    finally:
        team.close()
