"""Dictionary learning batch by batch with totals that forget: the way to a start, and ``partial_fit``.

Loose first: with a bad dictionary a small penalty commits each sample to many wrong atoms, and the dictionary to
them. So the first passes take only atoms that lower a sample's error by many times the penalty, and totals forget
quickly; both tighten from pass to pass. Such passes need not descend: they come before the first sweep that is
certified.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from tecu.dictionary.coding import Codes, Coding, Matrix, tile_height
from tecu.dictionary.replacement import replace_atoms
from tecu.dictionary.rows import Rows
from tecu.dictionary.sweeps import has_few_entries, sweep, sweep_in_halves
from tecu.dictionary.totals import misfits_of
from tecu.dictionary.workers import Workers

log = logging.getLogger("tecu")

FIRST_GAIN, LEAST_SHARE, MOST_SHARE = 16.0, 0.045, 0.1
"""The gain an atom must bring in the first passes, in units of the penalty; what share of a sample's mean square that
is at least, and at most (:func:`gains`)."""

LENGTHS = (0.5, 0.5, 0.75, 1.0)
"""The same for a fixed number of atoms a sample: the share of it that each pass takes."""

MEMORY = (0.3, 0.3, 0.5, 0.8)
"""How far back the totals of each pass reach, as a share of the pass."""

BATCH = 1.8
"""Samples between two dictionary updates, as a multiple of the number of atoms."""

FEW_BATCHES, SHORT_BATCH = 6, 1.1
"""A pass of fewer batches takes shorter ones, down to this multiple: it needs the updates more than they cost."""

SAMPLES_AN_ATOM, LEAST_SAMPLES = 48, 10_000
"""What a pass looks at. Of more samples each pass takes another part: to see all of them loosely takes longer and is no
better."""

SMALLEST_BATCH = 64

SEEN = 1000
"""Samples that are looked at to see how large numbers are."""

USUAL = 12
"""Samples whose largest number is between ``2^-12`` and ``2^12`` are taken as they are."""

FEW_PAIRS = 0.3
"""Up to this share of all pairs of atoms that are used together, the two halves of the atoms need not agree at once."""

HEAVIEST = 1e6
"""The weight of new samples at which totals are scaled back."""


@dataclass(frozen=True)
class Coder:
    """How samples are coded: by a penalty or by a number of atoms, within bounds."""

    penalty: float
    n_nonzero: int | None = None
    lower: float = -np.inf
    upper: float = np.inf

    def begin(
        self,
        Y: Matrix,
        D: Matrix,
        gram: Matrix,
        tiles: Sequence[slice],
        cap: int,
        looseness: float = 1.0,
        share: float = 1.0,
    ) -> Coding:
        """Greedy codes to be made, not yet cut to the bounds."""
        stop = looseness * self.penalty
        if self.n_nonzero is not None:
            cap, stop = max(1, round(share * self.n_nonzero)), 0.0
        return Coding(Y, D, gram, None, tiles, stop=stop, penalty=0.0, cap=cap, positive=self.lower >= 0)


class OnlineDictionary:
    """Atoms (rows of ``D``) with forgetting totals ``A = W'W`` and ``B = W'Y``.

    To forget, the old totals are not made smaller: the new ones weigh more. A column sweep does not see the scale.
    """

    _gram: Matrix | None = None  # memory for the Gram matrix of the atoms that a batch is coded with

    def __init__(
        self,
        D: Matrix,
        coder: Coder,
        ball: bool = False,
        team: Workers | None = None,
        energy: Matrix | None = None,
    ) -> None:
        m, n = D.shape
        self.D, self.coder, self.ball = np.array(D, order="C"), coder, ball
        self.A, self.B, self.weight = np.zeros((m, m), D.dtype), np.zeros((m, n), D.dtype), 1.0
        self.team = team or Workers(1)
        self.has_past = energy is not None
        if energy is not None:  # as if codes of that many squares had found each atom by itself where it is
            np.fill_diagonal(self.A, energy)
            self.B += np.diagonal(self.A)[:, None] * self.D

    def absorb(
        self,
        samples: Callable[[slice], Matrix],
        size: int,
        keep: float,
        looseness: float = 1.0,
        share: float = 1.0,
        judged: Judged | None = None,
    ) -> None:
        """Code a batch, add it to totals of which ``keep`` is kept, sweep over the atoms.

        What is ``judged`` are the codes of the batch, with the atoms that it was coded with; those of the batch before
        are sorted in meanwhile.
        """
        Y, codes = self._coded(samples, size, looseness, share, [] if judged is None else [judged.sort_in])
        self._forget_all(keep)
        if judged is None:
            self._swept(Y, codes, [])
            return
        before = np.diagonal(self.A).copy()
        looks = [partial(misfits_of, Y[rows], codes.some(rows), self.D) for rows in self.team.several(size)]
        misfits = self._swept(Y, codes, looks)
        judged.add((np.diagonal(self.A).astype(np.float64) - before) / self.weight, misfits)

    def _coded(
        self,
        samples: Callable[[slice], Matrix],
        size: int,
        looseness: float,
        share: float,
        beside: Sequence[Callable[[], object]],
    ) -> tuple[Matrix, Codes]:
        """The samples of a batch and their codes."""
        D = self.D
        gram, strips = self.team.gram_by_strips(D, self._gram)
        self._gram = gram
        several = self.team.count > 1
        Y = np.empty((size, D.shape[1]), D.dtype) if several else samples(slice(0, size))
        tiles = self.team.tapering(size, tile_height(len(D)))
        coding = self.coder.begin(Y, D, gram, tiles, max(1, D.shape[1] // 3), looseness, share)

        def fetch(piece: slice) -> None:
            Y[piece] = samples(piece)

        def code(_: int, wait_for_all: Callable[[], None]) -> None:
            wait_for_all()
            coding.take_part()

        fetches = [partial(fetch, piece) for piece in self.team.slices(size)] if several else []
        self.team.each_after([*strips, *fetches], code, range(self.team.count), beside)
        return Y, coding.codes.clipped(self.coder.lower, self.coder.upper)

    def _swept(self, Y: Matrix, codes: Codes, looks: Sequence[Callable[[], Any]]) -> list[Any]:
        """Add codes to the totals and sweep; beside that look at the atoms as they were. Returns what was seen."""
        from tecu.dictionary.kernels_atoms import add_totals_of

        D, A, B, team = self.D, self.A, self.B, self.team
        add = partial(add_totals_of, [(codes, Y, self.weight)], A, B, False)
        lengths = np.diff(codes.indptr).astype(np.float64)  # their squares leave 32 bits
        if has_few_entries(A, FEW_PAIRS, int(lengths @ lengths)):
            return sweep_in_halves(D, D, A, B, 0.0, self.ball, team, add, looks)[1]
        adds = [partial(add, atoms) for atoms in team.slices(len(D))]
        seen = team.call([*adds, *looks])[len(adds) :]
        sweep(D, D, A, B, 0.0, self.ball)
        return seen

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_gram"}

    def _forget_all(self, keep: float) -> None:
        if keep <= 0:
            self.A[:], self.B[:], self.weight = 0, 0, 1.0
            return
        self.weight /= keep
        if self.weight > HEAVIEST:
            self.A /= self.weight
            self.B /= self.weight
            self.weight = 1.0

    def forget(self, atoms: Matrix) -> None:
        """Atoms that were replaced begin without a past."""
        self.A[atoms], self.A[:, atoms], self.B[atoms] = 0, 0, 0


def loose_start(
    rows: Rows,
    D: Matrix,
    coder: Coder,
    random: np.random.RandomState,
    *,
    ball: bool = False,
    team: Workers | None = None,
    passes: int = len(MEMORY),
    report: Callable[[str], None] = log.info,
) -> tuple[Matrix, int]:
    """A dictionary to start from, by loose passes over the data, and how many atoms were replaced on the way.

    There are four of them, or ``passes`` if that is less.
    """
    m = len(D)
    unit, square = scale_of(rows)
    coder = replace(coder, penalty=coder.penalty * unit * unit, lower=coder.lower * unit, upper=coder.upper * unit)
    online = OnlineDictionary(D, coder, ball, team)
    count, seen = batches_of_a_pass(len(rows), m)
    replaced = 0
    settings = list(zip(gains(coder.penalty, square), LENGTHS, MEMORY, strict=True))[:passes]
    for number, (looseness, share, memory) in enumerate(settings):
        keep = max(0.0, 1.0 - 1.0 / (memory * count))
        judged = Judged(D) if number else None
        chosen = random.permutation(len(rows))[:seen]
        for batch in np.array_split(chosen, count):
            samples = partial(_scaled, rows, np.sort(batch), unit)
            online.absorb(samples, len(batch), keep, looseness, share, judged)
        if judged is not None:
            slots = replace_atoms(online.D, judged.energy, judged.largest_misfits()[0], online.team)
            online.forget(slots)
            replaced += len(slots)
        report(f"loose pass {number + 1} of {len(settings)}: {replaced} atoms replaced so far")
    return online.D, replaced


def batches_of_a_pass(samples: int, atoms: int) -> tuple[int, int]:
    """Into how many batches a pass is cut, and how many samples it takes in all."""
    seen = min(samples, max(SAMPLES_AN_ATOM * atoms, LEAST_SAMPLES))
    long, short = (seen / max(multiple * atoms, SMALLEST_BATCH) for multiple in (BATCH, SHORT_BATCH))
    return max(1, round(min(short, max(long, FEW_BATCHES)))), seen


def _scaled(rows: Rows, chosen: Matrix, unit: float, piece: slice) -> Matrix:
    samples = rows[chosen[piece]]
    return samples if unit == 1.0 else samples * samples.dtype.type(unit)


def gains(penalty: float, square: float) -> tuple[float, ...]:
    r"""The gain an atom must bring in each of the four passes, in units of the penalty.

    In the first two it is 16, but at least 4.5 % of ``square``, the mean squared length of a sample, and down to 8
    where it would be more than 10 %. In the last one it is 4, or a quarter of the first if that is less, in the third
    their geometric mean. So what an atom has to explain at first does not become small with the penalty: a code of many
    atoms that are all wrong teaches them nothing.

    >>> [round(gain, 1) for gain in gains(0.003, 1.0)], [round(gain, 1) for gain in gains(0.0005, 1.0)]
    ([16.0, 16.0, 8.0, 4.0], [90.0, 90.0, 19.0, 4.0])
    """
    ratio = square / penalty if penalty > 0 else 0.0
    first = max(LEAST_SHARE * ratio, min(FIRST_GAIN, max(FIRST_GAIN / 2, MOST_SHARE * ratio)))
    last = min(FIRST_GAIN, first) / 4
    return first, first, math.sqrt(first * last), last


def scale_of(rows: Rows) -> tuple[float, float]:
    """The power of two that brings samples of an odd size near 1, else 1, and their mean squared length in this unit.

    In it squares of totals stay in range. A part of the samples is looked at.
    """
    some = rows[np.linspace(0, len(rows) - 1, min(len(rows), SEEN)).astype(int)]
    exponent = int(np.frexp(np.max(np.abs(some)))[1])
    usual = abs(exponent) <= USUAL
    unit = 1.0 if usual else float(np.ldexp(1.0, -np.clip(exponent, -500, 500)))  # has a square, too
    return unit, float(np.mean(np.sum(np.square(some * some.dtype.type(unit), dtype=np.float64), axis=1)))


class Judged:
    """How samples do with their codes: the energy of each atom, and the largest misfits."""

    def __init__(self, D: Matrix) -> None:
        self.energy, self._worst = np.zeros(len(D)), Worst(len(D), D.shape[1], D.dtype)
        self._waiting: list[tuple[Matrix, Matrix]] = []

    def add(self, energy: Matrix, misfits: Sequence[tuple[Matrix, Matrix]]) -> None:
        """Take the squared coefficients of some more samples, summed by atoms, and their misfits with the squares."""
        self.energy += energy
        self._waiting += misfits

    def sort_in(self) -> None:
        """See which of the misfits that were taken are among the largest."""
        if self._waiting:
            self._worst.add(*zip(*self._waiting, strict=True))
            self._waiting = []

    def largest_misfits(self) -> tuple[Matrix, Matrix]:
        """As many as there are atoms, the largest first, and their squares."""
        self.sort_in()
        return self._worst.largest_first()


class Worst:
    """The ``count`` largest residuals seen, without keeping the others."""

    def __init__(self, count: int, n_features: int, dtype: Any) -> None:
        self._residuals, self._squares = np.zeros((count, n_features), dtype), np.zeros(count)

    def add(self, residuals: Sequence[Matrix], squares: Sequence[Matrix]) -> None:
        """Look at some more, with their squared lengths. Only those that get in are copied."""
        count, least = len(self._squares), self._squares.min()
        chosen = [np.flatnonzero(square > least) for square in squares]
        found = np.concatenate([self._squares, *(part[rows] for part, rows in zip(squares, chosen, strict=True))])
        kept = np.zeros(len(found), dtype=bool)
        kept[np.argpartition(found, -count)[-count:]] = True
        places, start = np.flatnonzero(~kept[:count]), count
        for part, square, rows in zip(residuals, squares, chosen, strict=True):
            rows, start = rows[kept[start : start + len(rows)]], start + len(rows)
            own, places = places[: len(rows)], places[len(rows) :]
            self._residuals[own], self._squares[own] = part[rows], square[rows]

    def largest_first(self) -> tuple[Matrix, Matrix]:
        """The residuals and their squared lengths."""
        order = np.argsort(-self._squares, kind="stable")[: np.count_nonzero(self._squares)]
        return self._residuals[order], self._squares[order]
