"""Samples that share an offset, as raw patches share brightness: where it pays, it begins as an atom of its own.

Random samples with an offset are all alike, and so are atoms that begin as them: to part, they have to unlearn it.
Whether an atom for it pays depends on the penalty (not where one coefficient codes a sample best) and on what else they
share. So both starts are tried, for one step of learning.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tecu.dictionary.coding import Matrix
from tecu.dictionary.embedded import strategy_of
from tecu.dictionary.exchange import values
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.sweeps import sweep

SHARED = 0.5
"""Squared length of the mean of samples of length 1 up to which nothing is tried: there is no offset."""

SEEN = 256
"""Samples that are looked at for that, at most."""

TRIED, LEAST_TRIED = 3, 300
"""Samples an atom that both starts are tried with, and how many at least if there are so many."""


def better_start(atoms: Matrix, rows: Rows, others: Matrix, coder: Coder) -> Matrix:
    """Samples as atoms, or what :func:`offset_apart` makes of them, whichever is better for the samples ``others``.

    Of few others the atoms cannot learn, and are left as they are.
    """
    m = len(atoms)
    if m == 0 or len(others) < TRIED * m or shared_part(atoms[:SEEN]) <= SHARED:
        return atoms
    some = rows[np.sort(others[: max(TRIED * m, LEAST_TRIED)])]
    exponent = -int(np.frexp(np.max(np.abs(some)))[1])  # squares stay in range
    some, lower, upper = (np.ldexp(x, exponent) for x in (some, coder.lower, coder.upper))
    coder = replace(coder, penalty=float(np.ldexp(coder.penalty, 2 * exponent)), lower=float(lower), upper=float(upper))
    apart = offset_apart(atoms)
    return apart if _objective(some, apart, coder) < _objective(some, atoms, coder) else atoms


def offset_apart(samples: Matrix) -> Matrix:
    """What samples ``x`` share, ``v``, the mean of ``x / ||x||``; of all but the first ``x - v v'x / ||v||^2``.

    >>> offset_apart(np.array([[9.0, 0.0], [9.0, 3.0], [9.0, -3.0]])).round(2).tolist()
    [[1.0, 0.0], [0.0, 0.32], [0.0, -0.32]]
    """
    units = _units(samples)
    shared = np.sum(units, axis=0)
    shared /= np.linalg.norm(shared)
    rest = units[1:] - np.outer(units[1:] @ shared, shared)
    rest = rest[np.linalg.norm(rest, axis=1) > 1e3 * np.finfo(samples.dtype).eps]  # not only rounding
    return np.concatenate([shared[None], rest]).astype(samples.dtype)


def shared_part(samples: Matrix) -> float:
    """``||v||^2`` of the mean ``v`` of ``x / ||x||``: 1 if all samples have one direction, next to nothing for many."""
    shared = np.mean(_units(samples), axis=0)
    return float(shared @ shared)


def _units(samples: Matrix) -> Matrix:
    units = samples.astype(np.float64)
    units = np.ldexp(units, -np.frexp(np.max(np.abs(units), axis=1, keepdims=True))[1])
    return np.asarray(units / np.linalg.norm(units, axis=1, keepdims=True))


def _objective(Y: Matrix, atoms: Matrix, coder: Coder) -> float:
    """``penalty ||W||_0 + 1/2 ||Y - W D||^2`` after one step: code with ``atoms``, sweep over them, code again."""
    D = _units(atoms).astype(Y.dtype)
    strategy = strategy_of(coder, min(D.shape))
    W = strategy.from_scratch(Y, D, D @ D.T)
    sweep(D, D, (W.T @ W).toarray(order="C"), np.ascontiguousarray(W.T @ Y))
    W = strategy.from_scratch(Y, D, D @ D.T)
    return float(np.sum(values(Y.astype(np.float64), D.astype(np.float64), W, coder.penalty)))
