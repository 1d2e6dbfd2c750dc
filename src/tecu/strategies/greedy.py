"""Greedy sparse coding: orthogonal matching pursuit on the Gram matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate
from tecu.protocols import is_only
from tecu.settings import is_number
from tecu.strategies.gram import Matrix, require_gram, target
from tecu.subproblem import SubProblem

CHUNK = 1 << 20  # numbers of one kind in work at a time


class OrthogonalMatchingPursuit:
    r"""For each row ``w`` of the codes: ``min weight ||w||_0 + 1/2 w A w^T - b w^T`` by adding atoms one at a time.

    ``A`` is the Gram matrix of the dictionary plus ``eta I``, ``b`` a row of ``Y^T D + eta previous``. The atom added
    is the one most correlated with what is left; it comes with a least-squares fit of all the chosen ones, and the
    pursuit ends when the gain of that fit falls below ``weight``. A second pursuit begins with the row's present
    support; the better row is kept, so the sub-problem never rises. It proposes once; let another strategy follow.

    Parameters
    ----------
    n_nonzero
        The largest number of non-zeros of a row; ``None`` takes ``k`` of ``KSparse`` and no bound for ``L0``.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> coupling = couplings.MatrixFactorization(np.diag([1.0, 0.1]))
    >>> problem = tecu.Problem(coupling, {"W": terms.L0(0.02), "D": terms.Zero()})
    >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 2)), "D": np.eye(2)}, eta=1.0)
    >>> next(strategies.OrthogonalMatchingPursuit()(sub, sub.previous)).u.tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    endless = False

    def __init__(self, n_nonzero: int | None = None) -> None:
        if n_nonzero is not None and not (is_number(n_nonzero) and n_nonzero >= 1 and float(n_nonzero).is_integer()):
            raise ValueError(f"OrthogonalMatchingPursuit: n_nonzero must be a whole number >= 1, got {n_nonzero!r}")
        self.n_nonzero = None if n_nonzero is None else int(n_nonzero)

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield the codes once, with their gradient."""
        weight, bound = _penalty(sub)
        gram = require_gram(sub, "OrthogonalMatchingPursuit")
        goal = target(sub, gram)
        cap = min(n for n in (bound, self.n_nonzero, gram.shape[0]) if n is not None)
        present = arrays.host(arrays.dense(sub.previous)) != 0.0
        rows = max(1, CHUNK // gram.shape[0])
        codes = np.concatenate(
            [
                _code(gram, goal[start : start + rows], present[start : start + rows], weight, cap)
                for start in range(0, goal.shape[0], rows)
            ]
        )
        like = sub.previous
        gradient = arrays.from_numpy(codes @ gram - goal, arrays.dense(like))
        yield Candidate(arrays.as_kind(arrays.from_numpy(codes, like), like), gradient)

    def __repr__(self) -> str:
        return f"OrthogonalMatchingPursuit({'' if self.n_nonzero is None else self.n_nonzero})"


def _penalty(sub: SubProblem) -> tuple[float, int | None]:
    """The weight of a non-zero and the bound on their number in a row."""
    from tecu import terms

    term = sub.term
    if isinstance(term, terms.KSparse) and is_only(term, terms.KSparse) and term.axis in (1, -1):
        return 0.0, term.k
    if isinstance(term, terms.L0) and is_only(term, terms.L0):
        return term.weight, None
    raise ValueError(
        f"block {sub.block!r}: OrthogonalMatchingPursuit needs terms.L0 or terms.KSparse(k, axis=1), got {sub.term!r}; "
        "use strategies.CoordinateDescent or strategies.ProxGradient"
    )


def _code(gram: Matrix, goal: Matrix, present: Matrix, weight: float, cap: int) -> Matrix:
    """The better of a pursuit from nothing and one from the present support, row by row."""
    fresh = _pursue(gram, goal, np.zeros_like(present), weight, cap)
    fits = present.sum(axis=1) <= cap
    grown = _pursue(gram, goal, present & fits[:, None], weight, cap)
    return np.where((fits & (grown.value < fresh.value))[:, None], grown.codes, fresh.codes)


@dataclass(frozen=True)
class _Pursuit:
    codes: Matrix
    value: Matrix  # of each row: weight ||w||_0 minus the gains


def _pursue(gram: Matrix, goal: Matrix, support: Matrix, weight: float, cap: int) -> _Pursuit:
    r"""Rows of ``A`` are orthogonalised as their atoms are chosen: ``U_t = (A_j - sum_s U_s[j] U_s) / sqrt(d)``.

    ``d = A_jj - sum_s U_s[j]^2``; the gain of atom ``j`` is ``c_j^2 / (2 d)``, and ``c <- c - (c_j / sqrt d) U_t``.
    """
    n, m = goal.shape
    every, squares = np.arange(n), np.asarray(np.diagonal(gram))
    dependent = math.sqrt(arrays.unit_roundoff(goal)) * squares  # an atom with no more left depends on the others
    scale = np.where(squares > 0.0, 1.0 / np.sqrt(np.where(squares > 0.0, squares, 1.0)), 0.0)
    left, free, forced = goal.copy(), np.broadcast_to(scale > 0.0, (n, m)).copy(), support.copy()
    chosen: list[Matrix] = []  # atom of each row, -1 where the row had ended
    rows: list[Matrix] = []  # U_t
    heights: list[Matrix] = []  # c_j / sqrt(d)
    running, value, size = np.ones(n, dtype=bool), np.zeros(n), np.zeros(n, dtype=int)
    while running.any() and np.any(size[running] < cap):
        score = np.abs(left) * scale
        waiting: Matrix = np.any(forced, axis=1)
        j = np.argmax(np.where(np.where(waiting[:, None], forced, free), score, -1.0), axis=1)
        along = [row[every, j] for row in rows]
        d = squares[j] - sum((a * a for a in along), np.zeros(n, dtype=goal.dtype))
        usable = free[every, j] & (d > dependent[j])
        safe = np.where(usable, d, 1.0)
        height = left[every, j] / np.sqrt(safe)
        gain = 0.5 * height.astype(np.float64) ** 2
        noise = arrays.unit_roundoff(goal) * np.maximum(weight * size - value, gain)
        take = running & usable & (size < cap) & (waiting | (gain > np.maximum(weight, noise)))
        skip = running & ~usable & free[every, j]  # depends on the chosen ones: look for another
        free[every[take | skip], j[take | skip]] = False
        forced[every, j] = False
        running &= take | skip | waiting
        if take.any():
            row = gram[j] - sum((a[:, None] * r for a, r in zip(along, rows, strict=True)), np.zeros_like(goal))
            row *= (take / np.sqrt(safe))[:, None].astype(goal.dtype)
            height = np.where(take, height, 0.0).astype(goal.dtype)
            left -= height[:, None] * row
            chosen.append(np.where(take, j, -1))
            rows.append(row)
            heights.append(height)
            value += np.where(take, weight - gain, 0.0)
            size += take
    return _Pursuit(_substitute(chosen, rows, heights, goal), value)


def _substitute(chosen: list[Matrix], rows: list[Matrix], heights: list[Matrix], goal: Matrix) -> Matrix:
    """The coefficients: ``sum_t w_t U_s[j_t] = height_s`` for every ``s``, a triangular system a row."""
    codes, every = np.zeros_like(goal), np.arange(goal.shape[0])
    for t in reversed(range(len(chosen))):
        taken = chosen[t] >= 0
        j = np.where(taken, chosen[t], 0)
        # What the later atoms contribute along U_t has been found already.
        rest = heights[t] - np.einsum("ij,ij->i", codes, rows[t])
        pivot = np.where(taken, rows[t][every, j], 1.0)
        codes[every[taken], j[taken]] = (rest / pivot)[taken]
    return codes
