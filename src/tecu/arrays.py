"""The few array operations the engine needs, for every kind of array it takes.

Blocks may be NumPy arrays, SciPy CSR arrays, torch tensors, JAX arrays or any array of the array API standard.
Sums are taken in float64 whatever the block's own precision: a float32 sum of a million squares is off in the
fourth digit, which is more than the descent that a certificate has to see.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Literal, TypeAlias

import numpy as np

Array: TypeAlias = Any
"""NumPy, CSR, torch, JAX or array-API array; the standard has no common base class to name."""

CHUNK = 10_000  # elements turned to float64 at a time: the copy is never paged in anew, BLAS wakes no threads
PIECE = 1 << 16  # elements of several arrays that are worked on together


def is_sparse(x: Array) -> bool:
    """Whether ``x`` is a SciPy sparse array or matrix."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and bool(sparse.issparse(x))


def is_torch(x: Array) -> bool:
    """Whether ``x`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(x, torch.Tensor)


def is_elsewhere(x: Array) -> bool:
    """Whether ``x`` lives elsewhere (on the workers of a cluster, say) and answers for itself.

    Such an array is never changed. It has ``shape``, ``dtype``, ``+``, ``-``, ``*`` and ``/`` by a number, ``norm()``,
    ``inner(y)``, ``all_finite()``, and ``direction(gradient, rng)`` for the gradient test.
    """
    return bool(getattr(type(x), "is_elsewhere", False))


def namespace(x: Array) -> Any:
    """The array API namespace of ``x`` (``numpy`` for a CSR array: its stored values are NumPy's)."""
    if isinstance(x, np.ndarray | np.generic) or is_sparse(x):
        return np
    import array_api_compat

    return array_api_compat.array_namespace(x)


def host(x: Array) -> np.ndarray[Any, Any]:
    """``x`` as a NumPy array, without a copy where the memory can be shared; the stored values of a CSR array."""
    if isinstance(x, np.ndarray):
        return x
    if is_sparse(x):
        return np.asarray(x.data)
    if is_torch(x):
        return np.asarray(x.detach().cpu().numpy())
    return np.asarray(x)


def plain(x: Array) -> Array:
    """``x`` itself, or the array behind a ``np.matrix``, for which ``*`` and ``ravel`` mean other things."""
    return np.asarray(x) if isinstance(x, np.matrix) else x


def dense(x: Array) -> Array:
    """``x`` itself, or its dense form when it is sparse."""
    return x.toarray() if is_sparse(x) else x


def canonical(x: Array) -> Array:
    """A sparse ``x`` as CSR without duplicate entries."""
    x = x.tocsr()
    if not x.has_canonical_format:
        x = x.copy()
        x.sum_duplicates()
    return x


def inner(x: Array, y: Array) -> float:
    """``<x, y>``, summed in float64."""
    if not (type(x) is np.ndarray and type(y) is np.ndarray):
        if is_elsewhere(x):
            return float(x.inner(y))
        if is_sparse(x) or is_sparse(y):
            return _sparse_inner(x, y)
    a, b = host(x), host(y)
    order: Literal["C", "F"] = (
        "F" if a.flags.f_contiguous and b.flags.f_contiguous else "C"
    )  # no copy for transposed blocks
    left = a.ravel(order)
    return _flat_inner(left, left if b is a else b.ravel(order))


def _flat_inner(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    """In pieces, which are also better rounded than one long sum."""
    total, double = 0.0, np.float64
    with np.errstate(over="ignore", under="ignore"):  # inf is an answer, which the callers look for
        if a.dtype == double and b.dtype == double:
            for start in range(0, a.size, CHUNK):
                total += float(np.dot(a[start : start + CHUNK], b[start : start + CHUNK]))
            return total
        for start in range(0, a.size, CHUNK):
            left = a[start : start + CHUNK].astype(double, copy=False)
            total += float(np.dot(left, left if b is a else b[start : start + CHUNK].astype(double, copy=False)))
    return total


def _sparse_inner(x: Array, y: Array) -> float:
    if not is_sparse(x):
        x, y = y, x
    if not is_sparse(y):  # only the stored entries of x count
        return _flat_inner(x.data, host(y)[_rows_of_entries(x), x.indices])
    same = x.format == y.format == "csr" and _same(x.indptr, y.indptr) and _same(x.indices, y.indices)
    if same and x.has_canonical_format:
        return _flat_inner(x.data, y.data)
    if x.format == y.format == "csr" and x.shape == y.shape and y.has_canonical_format:
        rows = _rows_of_entries(x)
        if np.all(np.diff(y.indptr)[rows] == y.shape[1]):  # where x has entries y has whole rows, as products have
            return _flat_inner(x.data, y.data[y.indptr[rows] + x.indices])
    return float(x.multiply(y).sum(dtype=np.float64))


def _rows_of_entries(x: Array) -> np.ndarray[Any, Any]:
    return np.repeat(np.arange(x.shape[0]), np.diff(x.indptr))


def _same(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    return a is b or np.array_equal(a, b)


def norm(x: Array) -> float:
    """The Frobenius norm of ``x``, without overflow or underflow on the way."""
    if is_elsewhere(x):
        return float(x.norm())
    flat = host(x).ravel("K")
    square = _flat_inner(flat, flat)
    if np.isfinite(square) and square > 1e-290:
        return float(np.sqrt(square))
    largest = float(np.max(np.abs(flat), initial=0.0))  # squares left the range of float64: scale first
    if largest == 0.0 or not np.isfinite(largest):
        return largest
    scaled = flat.astype(np.float64) / largest
    return largest * float(np.sqrt(np.dot(scaled, scaled)))


def pieces(*xs: Array) -> Iterator[tuple[Array, ...]]:
    """Matching pieces of arrays of one shape, short enough for the processor's cache; all at once if they can't be cut.

    For several operations in one pass over large arrays: a temporary of a piece is never written to memory.
    """
    if not all(type(x) is np.ndarray and x.flags.c_contiguous and x.shape == xs[0].shape for x in xs):
        yield xs
        return
    flats = [x.reshape(-1) for x in xs]
    for start in range(0, flats[0].size, PIECE):
        yield tuple(flat[start : start + PIECE] for flat in flats)


def inners_with_difference(u: Array, v: Array, *xs: Array) -> list[float]:
    """``||u - v||`` and ``<x, u - v>`` for each ``x``, in one pass."""
    totals = [0.0] * (1 + len(xs))
    for a, b, *others in pieces(u, v, *xs):
        difference = a - b
        for i, x in enumerate((difference, *others)):
            totals[i] += inner(x, difference)
    # Squares that leave the range of float64 need the careful norm.
    length = math.sqrt(totals[0]) if 1e-290 < totals[0] < math.inf else norm(u - v)
    return [length, *totals[1:]]


def distance(x: Array, y: Array) -> float:
    """``||x - y||``."""
    if x is y:
        return 0.0
    if is_sparse(x) and is_sparse(y) and x.shape == y.shape and x.format == y.format == "csr":
        for one, other in ((x, y), (y, x)):
            if not one.nnz and other.has_canonical_format:
                return norm(other)  # without a difference of sparse arrays, which is dear
        if x.has_canonical_format and y.has_canonical_format:
            difference = x - y
            difference.has_canonical_format = True  # as those of two such arrays are; to find that out is dear
            return norm(difference)
    return inners_with_difference(x, y)[0]


def all_finite(x: Array) -> bool:
    """Whether no entry of ``x`` is NaN or infinite."""
    if is_elsewhere(x):
        return bool(x.all_finite())
    flat = host(x).ravel("K")
    with np.errstate(over="ignore", invalid="ignore"):
        # A sum is finite if its summands are, short of overflow: one fast pass decides nearly always.
        return bool(np.isfinite(np.sum(flat))) or bool(np.all(np.isfinite(flat)))


def count_nonzero(x: Array) -> int:
    """The number of entries of ``x`` that are not zero."""
    return int(np.count_nonzero(host(x)))


def on_support(x: Array, like: Array) -> Array:
    """The entries of ``x`` where ``like`` is not zero, in the kind and precision of ``like``."""
    if is_sparse(like):
        pattern = like.copy()
        pattern.data = (like.data != 0).astype(like.dtype)
        return as_kind(pattern.multiply(x), like)
    x = as_kind(x, like)
    return x * (like != 0) if isinstance(x, np.ndarray) else namespace(x).where(like != 0, x, zeros_like(x))


def copy(x: Array) -> Array:
    """A copy of ``x`` of the same kind that shares no memory with it; ``x`` itself where nobody can change it."""
    if is_elsewhere(x):
        return x
    if is_torch(x):
        return x.detach().clone()
    if isinstance(x, np.ndarray) or is_sparse(x):
        return x.copy()
    return namespace(x).asarray(x, copy=True)


def as_kind(x: Array, like: Array) -> Array:
    """``x`` in the kind (dense or CSR) and precision of ``like``."""
    if is_elsewhere(like):
        return x
    if is_sparse(like):
        from scipy.sparse import csr_array

        if not is_sparse(x):
            x = _to_csr(x)
        elif x.format != "csr":
            x = csr_array(x)
        return x if x.dtype == like.dtype else x.astype(like.dtype)
    x = dense(x)
    if library(x) != library(like):
        return from_numpy(host(x), like)
    if x.dtype == like.dtype:
        return x
    return x.astype(like.dtype) if isinstance(x, np.ndarray) else namespace(x).astype(x, like.dtype)


def library(x: Array) -> str:
    """The library that ``x`` belongs to, ``numpy`` (also a CSR array), ``torch``, ``jax`` or another."""
    if isinstance(x, np.ndarray | np.generic) or is_sparse(x):
        return "numpy"
    package = type(x).__module__.split(".")[0]
    return "jax" if package == "jaxlib" else package


def _to_csr(x: np.ndarray[Any, Any]) -> Array:
    """A dense matrix as CSR: one pass over the entries, ten times faster than by way of coordinates."""
    from scipy.sparse import csr_array

    flat = np.ascontiguousarray(x).reshape(-1)
    stored = np.flatnonzero(flat != 0)  # of booleans: six times faster than of floats
    rows, columns = x.shape
    index = np.int32 if flat.size < 2**31 else np.int64
    start = np.searchsorted(stored, np.arange(rows + 1) * columns).astype(index)
    return csr_array((flat[stored], (stored % columns).astype(index), start), shape=x.shape)


def equal(x: Array, y: Array) -> bool:
    """Whether ``x`` and a copy of it, ``y``, which somebody may have changed, hold the same."""
    if x is y or not is_sparse(x):
        return x is y or np.array_equal(host(x), host(y))
    return x.shape == y.shape and all(
        np.array_equal(getattr(x, n), getattr(y, n)) for n in ("indptr", "indices", "data")
    )


def zeros_like(x: Array) -> Array:
    """Zeros of the kind and shape of ``x``."""
    if is_sparse(x):
        return type(x)(x.shape, dtype=x.dtype)
    return namespace(x).zeros_like(x)


def from_numpy(values: np.ndarray[Any, Any], like: Array) -> Array:
    """``values`` in the kind, precision and place of ``like`` (random directions and the like)."""
    if isinstance(like, np.ndarray) or is_sparse(like):
        return values.astype(like.dtype)
    xp = namespace(like)
    return xp.asarray(values.astype(host(like).dtype), dtype=like.dtype, device=_device(like))


def _device(x: Array) -> Any:
    import array_api_compat

    return array_api_compat.device(x)


def unit_roundoff(x: Array) -> float:
    """The unit round-off of the precision of ``x``: 1.1e-16 for float64, 6.0e-8 for float32."""
    return _roundoff(x.dtype if is_elsewhere(x) else host(x).dtype)


def least_divisor(x: Array) -> float:
    """What numbers of the precision of ``x`` can be divided by without leaving its range: less is zero, in effect."""
    return _least(x.dtype if is_elsewhere(x) else host(x).dtype)


@lru_cache
def _least(dtype: Any) -> float:
    return float(np.finfo(dtype).tiny) * 16.0


@lru_cache
def _roundoff(dtype: Any) -> float:
    return float(np.finfo(dtype).eps) / 2


def is_real_float(x: Array) -> bool:
    """Whether ``x`` is a float32 or float64 array of one of the kinds we take."""
    try:
        dtype = x.dtype if is_elsewhere(x) else host(x).dtype
    except (TypeError, ValueError, RuntimeError):
        return False
    return dtype in (np.dtype(np.float32), np.dtype(np.float64)) and hasattr(x, "shape")
