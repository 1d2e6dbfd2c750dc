"""The strategies embedded for dictionary learning: coders for a batch of codes, column sweeps for the dictionary.

They know more of their result than the solver could compute cheaply, and say so (:class:`tecu.Candidate`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tecu.arrays import Array
from tecu.dictionary.blocks import CodesOfBatch, Dictionary
from tecu.dictionary.coding import Matrix, descend, exact_pivot, greedy, polished, tile_height
from tecu.dictionary.exchange import better_rows
from tecu.dictionary.online import Coder
from tecu.dictionary.sweeps import bend_between_halves, sweep, sweep_in_halves
from tecu.inexact import Candidate, Numbers
from tecu.subproblem import SubProblem

AMPLE = 16.0
"""The ``tau`` of polished codes, as a multiple of the longest atom's squared length. Any from one on makes a code its
own prox point; with a larger one, as a gradient step would have it, few samples leave so much that an audit has to
compare them with all atoms."""

MUCH_THE_SAME = 0.2
"""By what share the largest total of an atom may change before the curvature is looked at again."""


@dataclass(frozen=True)
class PolishedCodes:
    r"""Refit, drop and insert for ``penalty ||w||_0``, sample by sample, with greedy restarts.

    At the end no single atom of any sample can be dropped or inserted with profit. Then the code is its own prox point
    for every ``tau >= max_j ||d_j||^2 + eta``: on the support the gradient is zero and ``w_j^2 tau / 2 >= penalty``,
    elsewhere ``g_j^2 / (2 tau) <= penalty``; so the error ``e`` is zero and nothing is left for the solver to compute.
    """

    penalty: float
    cap: int
    restart: int = 1
    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield the polished code, then descended ones.

        Where atoms depend on each other polishing leaves out some, although they would pay or are in the old code:
        prox-gradient steps take them in. The first of these codes is nowhere worse than the old one.
        """
        smooth = sub.smooth
        assert isinstance(smooth, CodesOfBatch)
        gram, team = smooth.gram, smooth.coupling.team
        tau = AMPLE * float(np.max(np.diagonal(gram))) + sub.eta
        coding = polished(
            smooth.samples, smooth.atoms.rows, gram, u, penalty=self.penalty, cap=self.cap, shift=sub.eta,
            restart=self.restart, team=team,
        )  # fmt: skip
        codes = coding.codes.csr(u.shape[1])
        if coding.unsettled:
            yield codes
        else:
            yield Candidate(codes, prox_point=codes, tau=tau, numbers=Numbers(0.0, 0.0, coding.change))
        yield from DescendedCodes(self.penalty).from_step(smooth, sub, codes)

    def from_scratch(self, Y: Matrix, D: Matrix, gram: Matrix) -> Any:
        """Codes of samples ``Y`` for atoms ``D``, without a past."""
        return polished(Y, D, gram, penalty=self.penalty, cap=self.cap).codes.csr(len(D))

    def from_greedy(self, Y: Matrix, D: Matrix, gram: Matrix) -> Any:
        """The best of these, of greedy codes, and of greedy codes that are polished.

        From none, atoms are dropped before others have come in, which may end higher than the greedy code.
        """
        coding = polished(Y, D, gram, penalty=self.penalty, cap=self.cap, restart=3, pivot=exact_pivot(D.dtype))
        return coding.codes.csr(len(D))


@dataclass(frozen=True)
class DescendedCodes:
    """Exact coordinate descent over a box, or with at most ``n_nonzero`` entries a sample, from the old and a
    greedy code."""

    penalty: float = 0.0
    n_nonzero: int | None = None
    lower: float = -np.inf
    upper: float = np.inf
    moves: int = 1000
    fresh: bool = True
    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield descended codes; between them a prox-gradient step, which may exchange atoms."""
        smooth = sub.smooth
        assert isinstance(smooth, CodesOfBatch)
        u = self.descend(smooth, sub, u)
        if self.fresh:
            u = _better(smooth, sub, u, self.descend(smooth, sub, self.greedy(smooth)), self.penalty)
        yield u
        yield from self.from_step(smooth, sub, u, careful=False)

    def from_step(self, smooth: CodesOfBatch, sub: SubProblem, u: Array, careful: bool = True) -> Iterator[Array]:
        """Prox-gradient steps, each descended from; the first one is compared with the descended old code."""
        while True:
            step, _ = sub.prox_gradient_step(u)
            u = self.descend(smooth, sub, step)
            if careful:
                u, careful = _better(smooth, sub, u, self.descend(smooth, sub, sub.previous), self.penalty), False
            yield u

    def greedy(self, smooth: CodesOfBatch) -> Any:
        """Greedy codes of a batch, cut to the box."""
        parts = smooth.coupling.team.map(
            lambda piece: self.greedy_code(smooth.samples[piece], smooth.atoms.rows, smooth.gram), len(smooth.samples)
        )
        return _stack(parts)

    def greedy_code(self, Y: Matrix, D: Matrix, gram: Matrix) -> Any:
        """Codes of orthogonal matching pursuit, cut to the box."""
        cap = self.n_nonzero or min(D.shape)
        codes = greedy(Y, D, gram, stop=self.penalty, penalty=self.penalty, cap=cap, positive=self.lower >= 0)
        return codes.clipped(self.lower, self.upper).csr(len(D))

    def from_scratch(self, Y: Matrix, D: Matrix, gram: Matrix) -> Any:
        """Codes of samples ``Y`` for atoms ``D``, without a past."""
        start = self.greedy_code(Y, D, gram)
        return descend(
            Y @ D.T, gram, start, penalty=self.penalty, cap=self.n_nonzero or len(D), lower=self.lower,
            upper=self.upper, moves=self.moves,
        )  # fmt: skip

    def descend(self, smooth: CodesOfBatch, sub: SubProblem, start: Any) -> Any:
        """Coordinate descent on the sub-problem from ``start``."""
        cap = self.n_nonzero or len(smooth.gram)
        pull = sub.eta * sub.previous if sub.eta else None

        def code(piece: slice) -> Any:
            correlations = smooth.correlations(piece)
            if pull is not None:
                correlations += (pull[piece] - sub.eta * start[piece]).toarray()  # descend() adds eta * start itself
            return descend(
                correlations, smooth.gram, start[piece], penalty=self.penalty, cap=cap, shift=sub.eta, lower=self.lower,
                upper=self.upper, moves=self.moves,
            )  # fmt: skip

        team, m = smooth.coupling.team, len(smooth.gram)
        return _stack(team.each(code, team.tapering(start.shape[0], tile_height(m))))


def strategy_of(coder: Coder, cap: int) -> PolishedCodes | DescendedCodes:
    """The strategy for codes of this kind, of at most ``cap`` atoms."""
    if coder.n_nonzero is None and coder.lower == -np.inf and coder.upper == np.inf:
        return PolishedCodes(coder.penalty, cap)
    return DescendedCodes(coder.penalty, coder.n_nonzero, coder.lower, coder.upper)


def _better(smooth: CodesOfBatch, sub: SubProblem, first: Any, second: Any, penalty: float) -> Any:
    """Row by row the code with the lower value of the sub-problem."""
    values = []
    for codes in (first, second):
        misfit = smooth.samples - codes @ smooth.atoms.rows
        value = 0.5 * np.sum(misfit.astype(np.float64) ** 2, axis=1) + penalty * np.diff(codes.indptr)
        move = codes - sub.previous
        values.append(value + 0.5 * sub.eta * np.asarray(move.multiply(move).sum(axis=1)).ravel())
    return better_rows(second, first, values[1], values[0])


def _stack(parts: list[Any]) -> Any:
    from scipy.sparse import vstack

    return parts[0] if len(parts) == 1 else vstack(parts, format="csr")


@dataclass(frozen=True)
class ColumnSweeps:
    """One pass of exact minimisation over the atoms after the other, on the totals ``A`` and ``B``.

    In the first pass each half of the atoms sees the other as it was: that is for two threads, and mostly enough.
    """

    ball: bool = False
    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield the dictionary after each pass."""
        smooth = sub.smooth
        assert isinstance(smooth, Dictionary)
        atoms, previous = np.array(u.T, order="C"), np.ascontiguousarray(sub.previous.T)
        A, B, team = smooth.A, smooth.B, smooth.coupling.team
        start, curvature = atoms.copy(), _known_curvature(smooth, sub)
        ahead = [partial(_curvature, smooth, sub)] if curvature is None else []
        descent, answers = sweep_in_halves(atoms, previous, A, B, sub.eta, self.ball, team, ahead=ahead)
        curvature = answers[0] if curvature is None else curvature
        bends = bend_between_halves(A, atoms - start, team)
        candidate, bent = self.candidate(sub, smooth, atoms, previous, -descent, curvature + sub.eta, bends)
        yield candidate
        descent -= bent
        while True:  # that was not accepted
            curvature = _curvature(smooth, sub)
            descent += sweep(atoms, previous, A, B, sub.eta, self.ball)
            yield self.candidate(sub, smooth, atoms, previous, -descent, curvature + sub.eta)[0]

    def candidate(
        self,
        sub: SubProblem,
        smooth: Dictionary,
        atoms: Matrix,
        previous: Matrix,
        change: float,
        tau: float,
        more: Sequence[Callable[[], float]] = (),
    ) -> tuple[Candidate, float]:
        """The prox point of ``atoms``, its error and its change of the sub-problem, for two matrix products.

        The change of ``atoms`` themselves is ``change`` and the sum of ``more``, which is returned, too.
        """
        from tecu.dictionary.kernels_error import error_products, prox_points

        A, B, eta, team = smooth.A, smooth.B, sub.eta, smooth.coupling.team
        slopes, points, back = (np.empty_like(atoms) for _ in range(3))
        weight, length = atoms.dtype.type(eta), atoms.dtype.type(1.0 / tau)

        def step(rows: slice) -> None:
            np.matmul(A[rows], atoms, out=slopes[rows])
            prox_points(
                atoms[rows], previous[rows], slopes[rows], B[rows], weight, length, self.ball, points[rows], back[rows]
            )

        def judge(rows: slice, wait: Callable[[], None]) -> Matrix:
            wait()  # for all rows of ``back``
            found = np.empty(3)
            error_products(
                A[rows] @ back, back[rows], slopes[rows], points[rows], previous[rows], eta, 1.0 / tau, found
            )
            return found

        slices, bent = team.slices(len(atoms)), [0.0] * len(more)

        def add(i: int) -> None:
            bent[i] = more[i]()

        first = [*(partial(step, rows) for rows in slices), *(partial(add, i) for i in range(len(more)))]
        square, along, onwards = np.sum(team.each_after(first, judge, slices), axis=0).tolist()
        numbers = Numbers(tau * math.sqrt(square), tau * along, change + sum(bent) + onwards)
        return Candidate(atoms.copy().T, prox_point=points.T, tau=tau, numbers=numbers), sum(bent)


def _curvature(smooth: Dictionary, sub: SubProblem) -> float:
    """``||W||_2^2``, to be remembered."""
    curvature = smooth.lipschitz(sub.coupling_memory)
    sub.memory.update(dictionary_curvature=curvature, largest_total=smooth.largest_total)
    return curvature


def _known_curvature(smooth: Dictionary, sub: SubProblem) -> float | None:
    """``||W||_2^2`` as an earlier visit found it, if totals are still much the same.

    Any ``tau`` serves in the error: it need not be a Lipschitz constant to the last percent.
    """
    known, before = sub.memory.get("dictionary_curvature"), sub.memory.get("largest_total")
    if known is None or before is None:
        return None
    now = smooth.largest_total
    return float(known) if abs(now - before) <= MUCH_THE_SAME * before and now <= known else None
