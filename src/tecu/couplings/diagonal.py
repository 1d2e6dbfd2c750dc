"""Exact minimisers where ``H`` is quadratic in a block and its second derivative is diagonal."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.protocols import Term, entrywise_of


def minimize_diagonal(
    term: Term, previous: Array, gradient: Array, curvature: float | Array, eta: float
) -> Array | None:
    r"""``argmin_u term(u) + <gradient, d> + 1/2 <curvature d, d> + eta/2 ||d||^2`` with ``d = u - previous``.

    With a number as curvature ``c`` this is ``prox(previous - gradient / (c + eta), 1 / (c + eta))`` for every term;
    with an array it needs a term that says what it does to one entry, and is ``None`` for others.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import terms
    >>> minimize_diagonal(terms.Box(0.0, 1.0), np.zeros(2), np.array([-1.0, -9.0]), np.array([1.0, 3.0]), eta=1.0)
    array([0.5, 1. ])
    """
    total = curvature + eta
    if isinstance(total, float | int):
        if not total > 0.0:
            return None  # nothing but the term decides, and it may have no minimiser
        return term.prox(previous - gradient / total, 1.0 / total)
    if not float(arrays.host(total).min()) > 0.0:
        return None
    entry = entrywise_of(term)
    return None if entry is None else _entrywise_prox(entry, arrays.dense(previous - gradient / total), total)


def _entrywise_prox(entry: Any, x: Array, curvature: Array) -> Array:
    """``argmin_u l0 [u != 0] + l1 |u| + l2/2 u^2 + curvature/2 (u - x)^2`` on ``lower <= u <= upper``, each entry."""
    xp = arrays.namespace(x)
    u = x
    if entry.l1 > 0.0:
        slack = xp.abs(x) - entry.l1 / curvature
        u = xp.sign(x) * xp.where(slack > 0.0, slack, xp.zeros_like(x))
    if entry.l2 > 0.0:
        u = u * (curvature / (curvature + entry.l2))
    lower, upper = _bound(entry.lower, x), _bound(entry.upper, x)
    if lower is not None:
        u = xp.maximum(u, lower)
    if upper is not None:
        u = xp.minimum(u, upper)
    if entry.l0 == 0.0:
        return u
    # The only other candidate is 0: compare l0 with what it costs to leave u for 0.
    gain = 0.5 * curvature * u * (2.0 * x - u) - entry.l1 * xp.abs(u) - 0.5 * entry.l2 * u * u
    drop = gain <= entry.l0
    if lower is not None:
        drop = drop & (lower <= 0.0)
    if upper is not None:
        drop = drop & (upper >= 0.0)
    return xp.where(drop, xp.zeros_like(u), u)


def _bound(bound: Any, x: Array) -> Array | None:
    """A bound as an array of the kind of ``x``; ``None`` where it is infinite."""
    values = arrays.host(bound)
    if values.ndim == 0 and math.isinf(float(values)):
        return None
    return arrays.from_numpy(np.broadcast_to(values, tuple(x.shape)), x)


def quadratic_weight(term: Term) -> float | None:
    """``w`` where the term is ``w/2 ||x||^2`` (0 for no term at all), otherwise ``None``."""
    entry = entrywise_of(term)
    if entry is None or entry.l0 > 0.0 or entry.l1 > 0.0:
        return None
    free = np.all(np.isneginf(arrays.host(entry.lower))) and np.all(np.isposinf(arrays.host(entry.upper)))
    return float(entry.l2) if free else None


def is_stiefel(term: Term) -> bool:
    """Whether the term demands orthonormal columns."""
    from tecu import terms

    return isinstance(term, terms.Stiefel)
