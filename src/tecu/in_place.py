"""Sums that a step needs, written into temporaries of the caller's: large blocks cost memory traffic, not arithmetic.

For arrays that cannot be written into they are the formulas as they stand.
"""

from __future__ import annotations

import math

import numpy as np

from tecu.arrays import Array, inner, is_real_float, norm, pieces


def gradient_step(u: Array, gradient: Array, tau: float) -> Array:
    """``u - gradient / tau``, with one temporary where it can be written in place."""
    if isinstance(u, np.ndarray) and type(gradient) is np.ndarray and u.dtype == gradient.dtype:
        step = gradient * u.dtype.type(-1.0 / tau)
        step += u
        return step
    return u - gradient / tau


def plus_scaled(x: Array, factor: float, y: Array) -> Array:
    """``x + factor y``, written into ``x``, a temporary of the caller's, where that saves memory traffic."""
    is_plain = type(x) is np.ndarray and type(y) is np.ndarray and x.dtype == y.dtype and is_real_float(x)
    if not (is_plain and x.shape == y.shape and x.flags.c_contiguous and y.flags.c_contiguous):
        return x + factor * y
    scale = x.dtype.type(factor)
    for a, b in pieces(x, y):  # not BLAS' axpy: it would wake its threads
        a += scale * b
    return x


def step_error(
    step: Array, tau: float, product: Array, gradient: Array, eta: float = 0.0
) -> tuple[Array, float, Array]:
    """``e = tau step - q``, ``||e||``, and ``gradient - q``, where ``q = product + eta step``.

    A step's error and the gradient behind it, in one pass where possible, written into ``step`` and ``product``,
    temporaries of the caller's.
    """
    is_plain = all(type(x) is np.ndarray and x.flags.c_contiguous for x in (step, product, gradient))
    if not (is_plain and step.dtype == product.dtype == gradient.dtype):
        product = product + eta * step if eta else product
        error = tau * step - product
        return error, norm(error), gradient - product
    total, scale, weight = 0.0, step.dtype.type(tau), step.dtype.type(eta)
    for e, p, g in pieces(step, product, gradient):
        if eta:
            p += weight * e
        e *= scale
        e -= p
        total += inner(e, e)
        np.subtract(g, p, out=p)
    # Squares that leave the range of float64 need the careful norm.
    return step, math.sqrt(total) if 1e-290 < total < math.inf else norm(step), product
