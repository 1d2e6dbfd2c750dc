"""Compiled parts of the error of a dictionary: its prox point, and what the tests of acceptance compare.

Atoms are rows. A thread that calls NumPy for each of these sums waits for the interpreter's lock longer than they take.
Tests compare them with what the engine finds by itself (:func:`tecu.inexact.estimate`).

"""

from __future__ import annotations

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.kernels.words import Double, Doubles, Flag, Matrix, Number


@compiled
def prox_points(
    D: Matrix,
    previous: Matrix,
    slopes: Matrix,
    B: Matrix,
    eta: Number,
    step: Number,
    ball: Flag,
    points: Matrix,
    back: Matrix,
) -> None:
    """``u~ = prox(d - step grad phi(d))`` of each atom on the unit sphere (or in the ball), and ``d - u~``.

    On entry ``slopes`` is ``A D``; on return it is ``grad phi(D) = A D - B + eta (D - previous)``.
    """
    number = D.dtype.type
    for j in range(D.shape[0]):
        d, old, slope, b, point, rest = D[j], previous[j], slopes[j], B[j], points[j], back[j]
        square = 0.0
        for f in range(d.size):
            slope[f] += eta * (d[f] - old[f]) - b[f]
            point[f] = d[f] - step * slope[f]
            square += np.float64(point[f]) * np.float64(point[f])
        scale = number(np.nan)  # no point of the sphere is nearest to zero; NaN is refused
        if ball and square <= 1.0:
            scale = number(1)
        elif square > 0.0:
            scale = number(1 / np.sqrt(square))
        for f in range(d.size):
            point[f] *= scale
            rest[f] = d[f] - point[f]


@compiled
def error_products(
    products: Matrix,
    back: Matrix,
    slopes: Matrix,
    points: Matrix,
    previous: Matrix,
    eta: Double,
    step: Double,
    found: Doubles,
) -> None:
    """``||e/tau||^2``, ``<e/tau, u~ - previous>`` and the change of ``phi`` from ``d`` to ``u~``, ``found`` for atoms.

    With ``r = d - u~``, in ``back``, and ``products`` ``= A r``: the second derivative of ``phi`` applied to ``r`` is
    ``c = A r + eta r``, so ``e = tau r - c``, ``tau = 1 / step``, and the change is ``<r, c> / 2 - <r, grad phi(d)>``.
    The size of ``e`` is that of the totals, whose squares may leave the range of numbers; that of ``e/tau`` is not.
    """
    square, along, bent, sloping = 0.0, 0.0, 0.0, 0.0
    for j in range(back.shape[0]):
        for f in range(back.shape[1]):
            r = np.float64(back[j, f])
            c = np.float64(products[j, f]) + eta * r
            e = r - step * c
            square += e * e
            along += e * (np.float64(points[j, f]) - np.float64(previous[j, f]))
            bent += r * c
            sloping += r * np.float64(slopes[j, f])
    found[0], found[1], found[2] = square, along, 0.5 * bent - sloping
