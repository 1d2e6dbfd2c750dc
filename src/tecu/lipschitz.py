"""Lipschitz constants of gradients: power iteration with a warm start, exact values, and what they cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.protocols import Memory

Method = Literal["power", "gram", "svd"]
Matrix: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
METHODS: tuple[str, ...] = ("power", "gram", "svd")
COLD_PRODUCTS = 12  # at least this many from a cold start: the first vector may hardly see the largest eigenvalue
MAX_BASIS = 20  # vectors kept before starting again from the best
FRESH_SHARE = 1e-3  # of the start vector, mixed into a warm start: the old vector may miss a direction that has grown


@lru_cache(maxsize=64)
def start_vector(size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The unit vector that every power iteration of this size begins with: random, and always the same."""
    vector = np.random.default_rng(size).standard_normal(size)
    vector /= np.linalg.norm(vector)
    vector.setflags(write=False)  # it is shared
    return vector


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
    tolerance: float = 3e-3,
    max_products: int = 100,
    by_row: bool = False,
) -> float:
    r"""``safety`` times the largest eigenvalue of a symmetric positive semi-definite operator.

    The iterates ``v, A v, A^2 v, ...`` are all used, not only the last one (Lanczos): the estimate is the largest
    eigenvalue of ``A`` on their span. It is never too large, so the margin ``safety`` guards against one that is too
    small. Iteration stops when the residual ``||A v - estimate v||`` of its vector is below ``tolerance * estimate``;
    the estimate is then off by about the square of that.

    Parameters
    ----------
    apply
        ``v -> A v``.
    start
        The vector to begin with, of the kind and shape that ``apply`` takes; see :func:`start_vector`.
    memory
        ``memory[key]`` keeps the last vector (as a NumPy array), from which the next call begins, and
        ``memory["products"]`` counts the calls of ``apply``.
    by_row
        Whether ``apply`` treats each row of a matrix by its own operator; the answer is the largest of all of them.

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
    shape = tuple(start.shape)
    rows = shape[0] if by_row else 1
    fresh = arrays.host(start).astype(np.float64).reshape(rows, -1)
    kept = memory.get(key)
    warm = kept is not None and np.shape(kept) == shape
    vector = np.reshape(np.asarray(kept), fresh.shape) + FRESH_SHARE * fresh if warm else fresh
    # A vector kept from before may belong to a smaller eigenvalue now, with a small residual: a second product tells.
    least = min(2 if warm else COLD_PRODUCTS, fresh.shape[1], max_products)
    krylov = _Krylov(vector)
    products = 0
    while True:
        image = apply(arrays.from_numpy(krylov.last.reshape(shape), start))
        products += 1
        krylov.add(arrays.host(image).astype(np.float64).reshape(fresh.shape))
        if products < least and krylov.goes_on:
            continue
        values, residuals = krylov.solve()
        estimate = float(np.max(values))
        settled = np.all(values + residuals <= (1.0 + tolerance) * estimate)
        if settled or products >= max_products or not 0.0 < estimate < np.inf:
            break
        if krylov.size == MAX_BASIS:
            krylov = _Krylov(krylov.vectors())
    count_products(memory, products)
    if 0.0 < estimate < np.inf:
        memory[key] = krylov.vectors().reshape(shape)
    return safety * max(estimate, 0.0)


class _Krylov:
    """Lanczos' recurrence for several operators at once, one a row, with orthogonalisation against all vectors."""

    def __init__(self, vectors: Matrix) -> None:
        rows, n = vectors.shape
        self.size = 0
        self._basis = np.empty((rows, MAX_BASIS + 1, n))
        self._basis[:, 0] = _normalised(vectors)[0]
        self._projected = np.empty((rows, MAX_BASIS, MAX_BASIS))  # the operator on the basis
        self._lengths = np.ones(rows)  # of what the last image adds to the basis
        self._coefficients = np.ones((rows, 1))

    @property
    def last(self) -> Matrix:
        return self._basis[:, self.size]

    @property
    def goes_on(self) -> bool:
        """Whether another vector can tell more."""
        return bool(np.all(np.isfinite(self._lengths)) and np.any(self._lengths > 0.0))

    def add(self, image: Matrix) -> None:
        """Take the operator applied to the last vector."""
        k = self.size
        basis = self._basis[:, : k + 1]
        along = (basis @ image[:, :, None])[:, :, 0]
        self._projected[:, k, : k + 1] = self._projected[:, : k + 1, k] = along
        self.size += 1
        if not np.all(np.isfinite(along)):
            self._lengths = np.full(len(image), np.nan)
            return
        rest = image - (along[:, None, :] @ basis)[:, 0]
        left = basis @ rest[:, :, None]
        rest -= (np.swapaxes(left, 1, 2) @ basis)[:, 0]  # once more removes what rounding left
        fresh, lengths = _normalised(rest)
        # If that was most of it, the rest is rounding, too: the image lies in the span, and no direction is new.
        is_new = np.max(np.abs(left), axis=(1, 2)) < lengths
        self._basis[:, k + 1] = np.where(is_new[:, None], fresh, 0.0)
        self._lengths = np.where(is_new, lengths, 0.0)

    def solve(self) -> tuple[Matrix, Matrix]:
        """The largest eigenvalues on the basis, and the residuals of their vectors; NaN where something overflowed."""
        if np.any(np.isnan(self._lengths)):
            return self._lengths, self._lengths
        eigenvalues, coefficients = np.linalg.eigh(self._projected[:, : self.size, : self.size])
        self._coefficients = coefficients[:, :, -1]
        return eigenvalues[:, -1], self._lengths * np.abs(self._coefficients[:, -1])

    def vectors(self) -> Matrix:
        """The vectors that belong to the largest eigenvalues."""
        if self.size == 1:  # a step of the plain power iteration is better than where we came from
            first, second = self._basis[:, 0], self._basis[:, 1]
            return _normalised(self._projected[:, 0, 0, None] * first + self._lengths[:, None] * second)[0]
        combined: Matrix = (self._coefficients[:, None, :] @ self._basis[:, : self.size])[:, 0]
        return combined


def _normalised(vectors: Matrix) -> tuple[Matrix, np.ndarray[Any, np.dtype[np.float64]]]:
    """Each row divided by its length (a row of zeros stays what it is), and the lengths."""
    # Squares of large or small entries leave the range; powers of two take them back without a rounding error.
    exponents = np.frexp(np.max(np.abs(vectors), axis=1, initial=0.0))[1]
    scaled = np.ldexp(vectors, -exponents[:, None])
    lengths = np.linalg.norm(scaled, axis=1)
    return scaled / np.where(lengths > 0.0, lengths, 1.0)[:, None], np.ldexp(lengths, exponents)


def largest_singular_square(
    factor: Array, method: Method = "power", memory: Memory | None = None, key: str = "power"
) -> float:
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
        return power_on_diagonal(lambda v: transpose @ (factor @ v), start, memory, _column_squares(factor), key)
    if method == "svd":
        count_products(memory, 1)
        singular = np.linalg.svd(arrays.host(arrays.dense(factor)), compute_uv=False)
        return float(singular[0]) * float(singular[0])
    tall = factor.shape[0] >= factor.shape[1]
    return largest_eigenvalue(arrays.dense(factor.T @ factor if tall else factor @ factor.T), memory)


def power_on_diagonal(
    apply: Callable[[Array], Array], start: Array, memory: Memory, diagonal: Matrix, key: str = "power"
) -> float:
    """:func:`power_iteration` of a matrix whose diagonal is known; the answer is never below its largest entry.

    Where the matrix is nearly diagonal, a vector kept from before hardly sees another entry that has grown: the
    iteration then begins again from that one's unit vector.
    """
    found = power_iteration(apply, start, memory, key)
    largest = int(np.argmax(diagonal)) if diagonal.size else 0
    if diagonal.size and diagonal[largest] > found:
        unit = np.zeros(diagonal.size)
        unit[largest] = 1.0
        memory[key] = unit
        found = max(power_iteration(apply, start, memory, key), float(diagonal[largest]))
    return found


def _column_squares(factor: Array) -> Matrix:
    """``||F e_j||^2`` for each column: the diagonal of ``F^T F``."""
    if arrays.is_sparse(factor):
        return np.asarray(factor.multiply(factor).sum(axis=0), dtype=np.float64).ravel()
    values = arrays.host(factor)
    squares: Matrix = np.einsum("ij,ij->j", values, values, dtype=np.float64)
    return squares


def largest_eigenvalue(gram: Array, memory: Memory) -> float:
    """The largest eigenvalue of a symmetric positive semi-definite matrix, by the eigenvalues of all of it."""
    count_products(memory, 1)
    return max(float(np.linalg.eigvalsh(arrays.host(gram))[-1]), 0.0)


def check_method(method: str) -> None:
    """Refuse an unknown way of computing a Lipschitz constant."""
    if method not in METHODS:
        raise ValueError(f"lipschitz must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
