"""Steps of online learning, shared by threads: a batch is coded, added to totals, and the atoms are swept over."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from tecu.dictionary.coding import PIVOT, Matrix, room_for_correlations, sign_mask, tile_height
from tecu.dictionary.compiled import address_of_gemm, address_of_syrk
from tecu.dictionary.mailbox import Mailbox
from tecu.dictionary.workers import Workers

_NONE = np.zeros(1, np.int64)

NAP = 5e-4
"""Seconds that a thread sleeps when others take long with what its job needs."""


@dataclass(frozen=True)
class Batch:
    """Some samples and how their greedy codes end: at atoms that gain no more than ``stop``, or at ``cap`` of them."""

    samples: Matrix
    stop: float
    cap: int
    positive: bool = False


class Room:
    """Memory that the batches of one dictionary share: to have it anew for each takes longer than some of the work."""

    def __init__(self, D: Matrix, threads: int) -> None:
        from tecu.dictionary.kernels_atoms import SWEEP_BLOCK

        (m, n), number = D.shape, D.dtype
        self.gram, self.halves = np.empty((m, m), number), np.empty((2 * m, n), number)
        self.few_pairs = np.zeros(1, bool)
        self._for_sweeps = [
            (
                np.empty((m, n), number),
                np.zeros((SWEEP_BLOCK, n), number),
                np.empty(m + 1, np.int32),
                np.empty(m, number),
            )
            for _ in range(threads)
        ]
        self._for_codes: list[tuple[Matrix, ...]] = [(np.empty((0, n)), np.empty((0, m)))] * threads
        self._codes = np.empty(0, np.int32), np.empty(0, number)

    def fits(self, D: Matrix, threads: int) -> bool:
        """Whether it is for such a dictionary and so many threads."""
        halves = self.halves
        return halves.dtype == D.dtype and halves.shape == (2 * len(D), D.shape[1]) and len(self._for_sweeps) == threads

    def for_codes(self, samples: int, cap: int) -> tuple[Matrix, Matrix]:
        """The indices and values of codes, with room for ``cap`` of each sample."""
        if len(self._codes[0]) < samples * cap:
            self._codes = np.empty(samples * cap, np.int32), np.empty(samples * cap, self._codes[1].dtype)
        return self._codes

    def of_thread(self, thread: int, height: int, cap: int, bits: Any) -> tuple[Matrix, ...]:
        """Scratch of one thread: for tiles of ``height`` samples with codes of ``cap`` atoms, and for sweeps."""
        known = self._for_codes[thread]
        if len(known[1]) < height or known[-1].shape[1] != cap:
            work = np.empty(len(self.gram), self.gram.dtype)
            known = self._for_codes[thread] = (
                *room_for_correlations(height, self._for_sweeps[thread][0]), work, work.view(bits),
                np.empty((cap + 4, cap)), np.empty((2, cap), np.int32),
            )  # fmt: skip
        return *known, *self._for_sweeps[thread]


class Absorption:
    """A batch on its way into totals ``A = keep A + weight W'W``, ``B = keep B + weight W'Y`` and into the atoms.

    These are the rows of ``D``. The codes are cut to ``bounds``. ``energy`` gets their squares, summed by atoms; with
    ``judges`` the samples' misfits are kept, with the atoms that they were coded with. Nothing is begun before an
    ``earlier`` batch has been absorbed.
    """

    def __init__(
        self,
        D: Matrix,
        A: Matrix,
        B: Matrix,
        batch: Batch,
        team: Workers,
        room: Room,
        *,
        keep: float = 1.0,
        weight: float = 1.0,
        ball: bool = False,
        bounds: tuple[float, float] = (-np.inf, np.inf),
        judges: bool = False,
        earlier: Absorption | None = None,
    ) -> None:
        (m, n), samples, cap = D.shape, len(batch.samples), max(1, min(batch.cap, len(D)))
        tiles, strips = team.tapering(samples, tile_height(m), team.count), team.strips(m)
        parts = team.several(samples) if judges else []
        self._height, self._cap = max(tile.stop - tile.start for tile in tiles), cap
        self._jobs = len(strips) + len(tiles) + 3 + len(parts) + 1
        self._done = np.zeros(1, np.int64)
        self._glances, self._room, self._mask = team.glances, room, sign_mask(D.dtype.type, batch.positive)
        self.misfits = np.empty((samples if judges else 0, n), D.dtype)
        self.squares, self.energy = np.empty(len(self.misfits)), np.empty(m)
        self._ends, self._last = np.empty(samples, np.int32), [tile.stop - 1 for tile in tiles]
        before = (earlier._done, earlier._jobs) if earlier else (_NONE, 0)
        self._given = (
            address_of_gemm(D.itemsize), address_of_syrk(D.itemsize), batch.samples, D, room.gram, A, B, float(keep),
            float(weight), ball, *map(float, bounds), self._mask, float(batch.stop), cap, PIVOT,
            np.zeros(samples + 1, np.int32), _edges(strips), _edges(tiles), _edges(parts),
            self._ends, *room.for_codes(samples, cap), room.halves, room.few_pairs, self.energy, self.misfits,
            self.squares, *before, np.zeros(1, np.int64), self._done,
        )  # fmt: skip

        self._calls = [self._call(thread) for thread in range(team.count)]

    def _call(self, thread: int, begun: int | None = None) -> Callable[[], Any]:
        """A thread's work, ready to be called; it may have ``begun`` a job."""
        from tecu.dictionary.kernels_absorb import ALL_TAKEN, absorb

        scratch = self._room.of_thread(thread, self._height, self._cap, self._mask.dtype)
        return absorb.bound(*self._given, ALL_TAKEN if begun is None else begun, self._glances, *scratch)

    @property
    def nonzeros(self) -> int:
        """How many entries the codes have: they begin anew with each tile."""
        return int(np.sum(self._ends[self._last]))

    @property
    def is_done(self) -> bool:
        """Whether everything is: threads that have taken part may wait for others no longer, and leave before."""
        return bool(self._done[0] == self._jobs)

    def take_part(self, thread: int, is_given_up: Callable[[], bool] = lambda: False) -> None:
        """Do what is left to do, as one of some threads, until nothing is or it ``is_given_up``."""
        from tecu.dictionary.kernels_absorb import ALL_TAKEN

        job = self._calls[thread]()
        while job != ALL_TAKEN and not is_given_up():  # what a job needs will never be done then
            time.sleep(NAP)
            job = self._call(thread, job)()


def absorb_all(absorptions: Iterator[Absorption], team: Workers) -> None:
    """Absorb batches one after the other, without a meeting of the threads in between.

    The next batch is asked for by the thread that comes last to the one before it, while the others are at work on
    that: those who come earlier go on at once, and do not wait for the interpreter's lock.
    """
    threads = team.free
    boxes: list[Mailbox[tuple[Absorption, Iterator[int]] | None]] = [Mailbox(team.glances) for _ in range(threads)]
    given_up: list[bool] = []

    def announce(absorption: Absorption | None) -> None:
        letter = None if absorption is None else (absorption, count(1))
        for box in boxes:
            box.put(letter)

    def take_part(thread: int) -> None:
        while not given_up and (letter := boxes[thread].get()) is not None:
            absorption, arrivals = letter
            if next(arrivals) == threads:
                announce(next(absorptions, None))
            absorption.take_part(thread, lambda: bool(given_up))

    def give_up() -> None:
        given_up.append(True)
        announce(None)

    announce(next(absorptions, None))
    team.each(take_part, range(threads), give_up)


def _edges(pieces: Sequence[slice]) -> Matrix:
    """Where slices end that follow each other, and where the first begins."""
    return np.array([0, *(piece.stop for piece in pieces)], np.int64)
