"""Lipschitz constants of gradients: power iteration with a warm start, exact values, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.protocols import Memory

Method = Literal["power", "gram", "svd"]
METHODS: tuple[str, ...] = ("power", "gram", "svd")
FRESH_SHARE = 1e-3  # of the start vector, mixed into a warm start: the old vector may miss a direction that has grown


def start_vector(size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The unit vector that every power iteration of this size begins with: random, and always the same."""
    vector = np.random.default_rng(size).standard_normal(size)
    return vector / np.linalg.norm(vector)


def count_products(memory: Memory, number: int) -> None:
    """Add ``number`` matrix products to ``memory["products"]``."""
    memory["products"] = int(memory.get("products", 0)) + number


def power_iteration(
    apply: Callable[[Array], Array],
    start: Array,
    memory: Memory,
    key: str = "power",
    *,
    safety: float = 1.01,
    tolerance: float = 1e-3,
    max_products: int = 100,
) -> float:
    r"""``safety`` times the largest eigenvalue of a symmetric positive semi-definite operator.

    ``v <- A v / ||A v||``, with the estimate ``||A v||``. An estimate is never too large, so the margin ``safety``
    guards against one that is too small: iteration stops when the changes, extrapolated as a geometric series, leave
    less than ``tolerance`` to come.

    Parameters
    ----------
    apply
        ``v -> A v``.
    start
        The vector to begin with, of the kind and shape that ``apply`` takes; see :func:`start_vector`.
    memory
        ``memory[key]`` keeps the last vector (as a NumPy array), from which the next call begins, and
        ``memory["products"]`` counts the calls of ``apply``.

    Examples
    --------
    >>> import numpy as np
    >>> A, memory = np.diag([3.0, 1.0, 0.5]), {}
    >>> round(power_iteration(lambda v: A @ v, start_vector(3), memory), 2)
    3.03
    >>> cold = memory["products"]
    >>> warm = power_iteration(lambda v: A @ v, start_vector(3), memory)
    >>> memory["products"] - cold < cold
    True
    """
    vector = start
    kept = memory.get(key)
    if kept is not None and np.shape(kept) == tuple(start.shape):
        vector = arrays.from_numpy(np.asarray(kept), start) + FRESH_SHARE * start
    length = arrays.norm(vector)
    estimate, previous_change, products = 0.0, np.inf, 0
    while products < max_products and length > 0.0 and np.isfinite(length):
        vector = vector / length
        image = apply(vector)
        products += 1
        length = arrays.norm(image)
        change = abs(length - estimate)
        estimate, vector = length, image
        ratio = min(change / previous_change, 0.99) if previous_change > 0.0 else 0.0
        if products > 1 and change * max(1.0, ratio / (1.0 - ratio)) <= tolerance * estimate:
            break
        previous_change = change
    count_products(memory, products)
    if estimate > 0.0 and np.isfinite(estimate):
        memory[key] = np.array(arrays.host(vector / estimate))
    return safety * estimate


def largest_singular_square(factor: Array, method: Method = "power", memory: Memory | None = None, key: str = "power") -> float:
    r"""``||F||_2^2``, the largest eigenvalue of ``F^T F``, for a matrix ``F``, dense or CSR.

    ``"power"``: :func:`power_iteration` on ``F^T (F v)``, one percent more than the estimate, no Gram matrix;
    ``"gram"``: the eigenvalues of the smaller of ``F^T F`` and ``F F^T``; ``"svd"``: the singular values of ``F``.

    Examples
    --------
    >>> import numpy as np
    >>> F = np.array([[3.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    >>> [round(float(largest_singular_square(F, method)), 1) for method in ("power", "gram", "svd")]
    [9.1, 9.0, 9.0]
    """
    check_method(method)
    memory = {} if memory is None else memory
    if method == "power":
        start = arrays.from_numpy(start_vector(factor.shape[1]), factor)
        transpose = factor.T
        return power_iteration(lambda v: transpose @ (factor @ v), start, memory, key)
    if method == "svd":
        count_products(memory, 1)
        singular = np.linalg.svd(arrays.host(arrays.dense(factor)), compute_uv=False)
        return float(singular[0]) ** 2
    tall = factor.shape[0] >= factor.shape[1]
    return largest_eigenvalue(arrays.dense(factor.T @ factor if tall else factor @ factor.T), memory)


def largest_eigenvalue(gram: Array, memory: Memory) -> float:
    """The largest eigenvalue of a symmetric positive semi-definite matrix, by the eigenvalues of all of it."""
    count_products(memory, 1)
    return max(float(np.linalg.eigvalsh(arrays.host(gram))[-1]), 0.0)


def check_method(method: str) -> None:
    """Refuse an unknown way of computing a Lipschitz constant."""
    if method not in METHODS:
        raise ValueError(f"lipschitz must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
