"""Sums of couplings, and the quadratic link between two blocks."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Any

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import BlockCoupling, QuadraticRestricted, checked_names, checked_number
from tecu.couplings.diagonal import minimize_diagonal
from tecu.protocols import Blocks, Coupling, Memory, Restricted, Term


class Sum(BlockCoupling):
    r"""``H_1 + H_2 + ...``, which is what ``a + b`` gives.

    A part that does not have a block (by its ``blocks``) adds nothing to it. Lipschitz constants add up. An exact
    minimiser exists where only one part depends on the block, where all second derivatives are diagonal, and where
    all but one are a number (that one then gets the others as a proximal term).

    Examples
    --------
    >>> import numpy as np
    >>> H = Difference("x", "v", 2.0) + Difference("v", "w", 1.0)
    >>> H.blocks
    ('x', 'v', 'w')
    >>> H.lipschitz("v", {"x": np.zeros(2), "v": np.ones(2), "w": np.zeros(2)})
    3.0
    """

    def __init__(self, *parts: Coupling) -> None:
        flat: list[Coupling] = []
        for part in parts:
            if not callable(getattr(part, "value", None)) or not callable(getattr(part, "grad", None)):
                raise TypeError(f"a coupling needs value(z) and grad(block, z), got {part!r}")
            flat.extend(part.parts if isinstance(part, Sum) else [part])
        if not flat:
            raise ValueError("Sum needs at least one coupling")
        self.parts: tuple[Coupling, ...] = tuple(flat)
        self.blocks = tuple(dict.fromkeys(name for part in flat for name in getattr(part, "blocks", ())))

    def __repr__(self) -> str:
        return " + ".join(map(repr, self.parts))

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        return float(sum(part.value(z) for part in self.parts))

    def touching(self, block: str) -> tuple[Coupling, ...]:
        """The parts that depend on a block; one that does not say which blocks it has may depend on every one."""
        return tuple(part for part in self.parts if block in getattr(part, "blocks", (block,)))

    def restrict(self, block: str, z: Blocks) -> Restricted:
        """``H`` as a function of one block."""
        return SumRestricted(self, block, z)

    def begin_sweep(self, z: Blocks) -> None:
        """Tell the parts that want to know it."""
        for part in self.parts:
            if (begin := getattr(part, "begin_sweep", None)) is not None:
                begin(z)


class SumRestricted(Restricted):
    """The parts of a sum that depend on a block, each as a function of it, and the value of the others."""

    def __init__(self, coupling: Sum, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        own = coupling.touching(block)
        self.parts = [_restrict(part, block, self.z) for part in own]
        self._others = [part for part in coupling.parts if not any(part is o for o in own)]

    @cached_property
    def constant(self) -> float:
        """The value of the parts that do not depend on the block."""
        return float(sum(part.value(self.z) for part in self._others))

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        return float(sum(part.value(u) for part in self.parts)) + self.constant

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        return _total([part.grad(u) for part in self.parts], u)

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``."""
        pairs = [part.value_and_grad(u) for part in self.parts]
        return float(sum(value for value, _ in pairs)) + self.constant, _total([g for _, g in pairs], u)

    def is_quadratic(self) -> bool:
        """Whether all parts are."""
        return all(part.is_quadratic() for part in self.parts)

    def hessian(self, v: Array) -> Array | None:
        """The second derivative applied to ``v``, where all parts are quadratic."""
        products = []
        for part in self.parts:
            product = part.hessian(v)
            if product is None:
                return None
            products.append(product)
        if len(products) == 1 and type(self.parts[0]).hessian is Restricted.hessian:
            return arrays.copy(products[0])  # a user's own may be v itself, or an array that is kept
        return _total(products, v)

    def curvature(self) -> float | Array | None:
        """The second derivative where it is diagonal."""
        total: float | Array = 0.0
        for curvature in (_curvature(part) for part in self.parts):
            if curvature is None:
                return None
            total = total + curvature
        return total

    def lipschitz(self, memory: Memory) -> float | None:
        """The sum of the constants; each part has its own place in the memory."""
        total = 0.0
        for number, part in enumerate(self.parts):
            own: Memory = dict(memory.get(f"part{number}", {}))
            before = int(own.get("products", 0))
            constant = part.lipschitz(own)
            memory["products"] = int(memory.get("products", 0)) + int(own.get("products", 0)) - before
            memory[f"part{number}"] = own
            if constant is None:
                return None
            total += constant
        return total

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser, where one of the cases of :class:`Sum` applies."""
        previous = self.z[self.block]
        if len(self.parts) == 1:
            return self.parts[0].minimize(term, eta)
        curvature = self.curvature()
        if curvature is not None:
            answer = minimize_diagonal(term, previous, self.grad(previous), curvature, eta)
            return None if answer is None else arrays.as_kind(answer, previous)
        plain = [(part, c) for part in self.parts if isinstance(c := _curvature(part), float)]
        rest = [part for part in self.parts if not isinstance(_curvature(part), float)]
        if len(rest) != 1:
            return None
        # c/2 ||u - a||^2 + ... + eta/2 ||u - previous||^2 is one such term, with the sum of the weights.
        weight = eta + sum(c for _, c in plain)
        slope = _total([part.grad(previous) for part, _ in plain], previous)
        centre = arrays.as_kind(previous - slope / weight, previous) if weight > 0.0 else previous
        return _restrict(rest[0].coupling, self.block, {**self.z, self.block: centre}).minimize(term, weight)

    def magnitude(self, value: float) -> float:
        """The sizes of all parts where the block comes from, and of the value."""
        return abs(value) + self.start_magnitude

    def roundoff(self) -> float:
        """That of the coarsest part."""
        return max((part.roundoff() for part in self.parts), default=super().roundoff())

    def rounds_unsaid(self) -> bool:
        """Whether of one of the parts nobody says it."""
        return any(part.rounds_unsaid() for part in self.parts)

    @cached_property
    def start_magnitude(self) -> float:
        """The sizes of all parts where the block comes from."""
        previous = self.z[self.block]
        return sum(part.magnitude(part.value(previous)) for part in self.parts) + abs(self.constant)


def _restrict(part: Coupling, block: str, z: Blocks) -> Restricted:
    own = getattr(part, "restrict", None)
    restricted: Restricted = Restricted(part, block, z) if own is None else own(block, z)
    return restricted


def _curvature(part: Restricted) -> float | Array | None:
    own = getattr(part, "curvature", None)
    return None if own is None else own()


def _total(summands: list[Array], like: Array) -> Array:
    if not summands:
        return arrays.zeros_like(like)
    total = summands[0]
    for summand in summands[1:]:
        total = total + summand
    return total


class Difference(BlockCoupling):
    r"""``H = weight/2 ||x - v||^2``: the link of half-quadratic splitting. Every term has an exact minimiser.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import terms
    >>> H = Difference("x", "v", weight=2.0)
    >>> H.minimize("x", {"x": np.zeros(2), "v": np.array([1.0, -1.0])}, terms.NonNegative(), eta=0.0)
    array([1., 0.])
    """

    def __init__(self, first: str = "x", second: str = "v", weight: float = 1.0) -> None:
        self.blocks = checked_names("Difference", first=first, second=second)
        self.weight = checked_number(weight, "weight", "Difference")

    def __repr__(self) -> str:
        return f"Difference({self.blocks[0]!r}, {self.blocks[1]!r}, weight={self.weight:g})"

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        apart = arrays.distance(*self._pair(z))
        return 0.5 * self.weight * apart * apart

    def _pair(self, z: Blocks) -> tuple[Array, Array]:
        first, second = self.blocks
        for name in self.blocks:
            if name not in z:
                raise ValueError(f"block {name!r} of Difference is missing; the blocks given are {list(z)}")
        if tuple(z[first].shape) != tuple(z[second].shape):
            raise ValueError(
                f"blocks {first!r} and {second!r} of Difference must have the same shape, "
                f"got {tuple(z[first].shape)} and {tuple(z[second].shape)}"
            )
        return z[first], z[second]

    def restrict(self, block: str, z: Blocks) -> DifferenceBlock:
        """``H`` as a function of one of the two."""
        self.require(block)
        first, second = self._pair(z)
        return DifferenceBlock(self, block, z, second if block == self.blocks[0] else first)


class DifferenceBlock(QuadraticRestricted):
    """``weight/2 ||u - other||^2``."""

    def __init__(self, coupling: Difference, block: str, z: Blocks, other: Any) -> None:
        super().__init__(coupling, block, z)
        self.weight, self.other = coupling.weight, other

    def value(self, u: Array) -> float:
        """``H(u, other)``."""
        apart = arrays.distance(u, self.other)
        return 0.5 * self.weight * apart * apart

    def grad(self, u: Array) -> Array:
        """``weight (u - other)``."""
        return self.weight * (u - self.other)

    def hessian(self, v: Array) -> Array:
        """``weight v``."""
        return self.weight * v

    def curvature(self) -> float:
        """``weight``."""
        return self.weight

    def lipschitz(self, memory: Memory) -> float:
        """``weight``."""
        return self.weight

    def magnitude(self, value: float) -> float:
        """The value, and what the rounding of ``u - other`` adds to it."""
        own = self.z[self.block]
        size = math.hypot(arrays.norm(own), arrays.norm(self.other))
        square = self.weight * size * size
        count = math.prod(own.shape)
        return abs(value) + math.sqrt(2.0 * abs(value) * square / count) + arrays.unit_roundoff(own) * square
