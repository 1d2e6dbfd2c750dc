"""What all couplings of this package share."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.diagonal import minimize_diagonal
from tecu.protocols import Blocks, Memory, Restricted, Term

if TYPE_CHECKING:
    from tecu.couplings.sums import Sum


Precision = Literal["float32", "float64"]


class QuadraticRestricted(Restricted):
    """``H`` as a function of a block in which it is quadratic.

    A subclass has ``value``, ``grad`` and ``hessian``, and ``curvature`` where the second derivative is diagonal;
    the exact minimiser with a separable term follows from that.
    """

    def is_quadratic(self) -> bool:
        """``True``."""
        return True

    def rounds_unsaid(self) -> bool:
        """``False``: sums are taken in float64."""
        return False

    def hessian(self, v: Array) -> Array:
        """The second derivative applied to ``v``."""
        raise NotImplementedError  # abstract: a subclass has it

    def curvature(self) -> float | Array | None:
        """The second derivative where it is diagonal: a number, or an array of the block's shape; else ``None``."""
        return None

    def lipschitz(self, memory: Memory) -> float | None:
        """A Lipschitz constant of the gradient."""
        raise NotImplementedError  # abstract: a subclass has it

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser of ``term(u) + H(u) + eta/2 ||u - z[block]||^2``, or ``None`` without a closed form."""
        curvature = self.curvature()
        if curvature is None:
            return None
        previous = self.z[self.block]
        answer = minimize_diagonal(term, previous, self.grad(previous), curvature, eta)
        return None if answer is None else arrays.as_kind(answer, previous)


class BlockCoupling:
    """A coupling that says everything through ``restrict``; couplings add up.

    A subclass has ``blocks``, ``value(z)`` and ``restrict(block, z)``.
    """

    blocks: tuple[str, ...]

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        raise NotImplementedError  # abstract: a subclass has it

    def restrict(self, block: str, z: Blocks) -> Restricted:
        """``H`` as a function of one block, with the work shared that does not change within a visit."""
        raise NotImplementedError  # abstract: a subclass has it

    def grad(self, block: str, z: Blocks) -> Array:
        """The gradient of ``H`` with respect to one block."""
        return self.restrict(block, z).grad(z[block])

    def lipschitz(self, block: str, z: Blocks) -> float | None:
        """A Lipschitz constant of the gradient in one block, the others held."""
        return self.restrict(block, z).lipschitz({})

    def hessian(self, block: str, z: Blocks, v: Array) -> Array | None:
        """The second derivative in one block applied to ``v``, where ``H`` is quadratic in it."""
        return self.restrict(block, z).hessian(v)

    def minimize(self, block: str, z: Blocks, term: Term, eta: float) -> Array | None:
        """The exact minimiser of ``term(u) + H(u, others) + eta/2 ||u - z[block]||^2``, or ``None``."""
        return self.restrict(block, z).minimize(term, eta)

    def __add__(self, other: Any) -> Sum:
        from tecu.couplings.sums import Sum

        return Sum(self, other)

    def __radd__(self, other: Any) -> Sum:
        from tecu.couplings.sums import Sum

        return Sum(other, self)

    def require(self, block: str) -> None:
        """Refuse a block that this coupling does not have."""
        if block not in self.blocks:
            raise ValueError(f"{type(self).__name__} has no block {block!r}; it has {list(self.blocks)}")


def get_block(z: Blocks, name: str, shape: Iterable[int | str], owner: str, *, dense: bool = False) -> Array:
    """``z[name]``, checked against a shape whose words (``"m"``) stand for any number, and where asked to be dense."""
    if name not in z:
        raise ValueError(f"block {name!r} of {owner} is missing; the blocks given are {list(z)}")
    block, wanted = z[name], tuple(shape)
    got = tuple(getattr(block, "shape", ()))
    if len(got) != len(wanted) or any(isinstance(w, int) and w != g for w, g in zip(wanted, got, strict=True)):
        text = ", ".join(map(str, wanted)) + ("," if len(wanted) == 1 else "")
        raise ValueError(f"block {name!r} of {owner} must have shape ({text}), got {got}")
    if dense and arrays.is_sparse(block):
        raise TypeError(f"block {name!r} of {owner} must be dense, got a {type(block).__name__}; use .toarray()")
    return block


def checked_data(values: Any, name: str, owner: str) -> Array:
    """Data of a coupling: a real, finite array of any kind; integers and lists become float64."""
    if not hasattr(values, "shape") or not hasattr(values, "dtype"):
        values = np.asarray(values)
    values = arrays.plain(values)
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(f"{owner}: {name} must have all of its entries, got a masked array; use .filled(0.0)")
    if 0 in tuple(values.shape):
        raise ValueError(f"{owner}: {name} is empty, its shape is {tuple(values.shape)}")
    if not arrays.is_real_float(values):
        dtype = arrays.host(values).dtype
        if dtype.kind not in "biuf":
            raise TypeError(f"{owner}: {name} must be an array of real numbers, got {dtype}")
        values = values.astype(np.float64) if arrays.is_sparse(values) else _to_float64(values)
    if arrays.is_sparse(values):
        values = arrays.canonical(values)
    if not arrays.all_finite(values):
        raise ValueError(f"{owner}: {name} has NaN or Inf; give missing entries by a mask and fill them with zeros")
    return values


def _to_float64(values: Array) -> Array:
    if isinstance(values, np.ndarray | np.generic):
        return np.asarray(values, dtype=np.float64)
    xp = arrays.namespace(values)
    return xp.astype(values, xp.float64)


def checked_number(value: Any, name: str, owner: str) -> float:
    """A finite number that is not negative."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{owner}: {name} must be a finite number >= 0, got {value!r}") from None
    if not (np.isfinite(number) and number >= 0.0):
        raise ValueError(f"{owner}: {name} must be a finite number >= 0, got {value!r}")
    return number


def checked_precision(precision: Any, owner: str) -> Precision | None:
    """The precision that a user's functions compute in, if one was said."""
    if precision is not None and precision not in get_args(Precision):
        raise ValueError(f"{owner}: computes_in must be 'float32', 'float64' or None, got {precision!r}")
    return cast("Precision | None", precision)


def checked_names(owner: str, **names: str) -> tuple[str, ...]:
    """Block names: non-empty strings, all different."""
    for argument, name in names.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"{owner}: {argument} must be the name of a block, got {name!r}")
    if len(set(names.values())) != len(names):
        raise ValueError(f"{owner}: {' and '.join(names)} must be different blocks, got {list(names.values())}")
    return tuple(names.values())


def residual_magnitude(value: float, data: Data, like: Array) -> float:
    """The size of the rounding error of ``1/2 ||A - data||^2``, divided by the unit round-off ``u``.

    The sum itself has one of ``value``; errors of ``u |data|`` in the residual, with random signs, add their inner
    product with it, and their own square.
    """
    square, count = data.square(), float(np.prod(data.shape))
    # Two roots: the product under one would leave the range of float64 for data of 1e80 or 1e-80.
    along = math.sqrt(2.0 * abs(value) / count) * math.sqrt(square)
    return abs(value) + along + arrays.unit_roundoff(like) * square


class Data:
    """An array of data that takes the kind and precision of the blocks it meets; each form is made once."""

    def __init__(self, values: Array) -> None:
        self.values = values
        self._forms: dict[tuple[type, Any], Array] = {}
        self._square: float | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the data."""
        return tuple(self.values.shape)

    def like(self, block: Array) -> Array:
        """The data in the kind (NumPy, torch ...; a CSR block is NumPy's) and precision of ``block``."""
        sparse = arrays.is_sparse(block)
        own = np.ndarray if sparse else type(block)
        key = (own, block.dtype)
        if key not in self._forms:
            self._forms[key] = self._convert(block.data if sparse else block)
        return self._forms[key]

    def _convert(self, block: Array) -> Array:
        values = self.values
        if arrays.is_sparse(values):
            if not isinstance(block, np.ndarray):
                raise TypeError(f"sparse data goes with NumPy or CSR blocks only, got a {type(block).__name__} block")
            return values if values.dtype == block.dtype else values.astype(block.dtype)
        if isinstance(values, np.ndarray) and isinstance(block, np.ndarray):
            return values if values.dtype == block.dtype else values.astype(block.dtype)
        if type(values) is type(block):
            return arrays.as_kind(values, block)
        return arrays.from_numpy(arrays.host(values), block)

    def square(self) -> float:
        """``||data||^2``, summed in float64, once."""
        if self._square is None:
            size = arrays.norm(self.values)
            self._square = size * size  # inf where it leaves the range, which the start is refused for
        return self._square
