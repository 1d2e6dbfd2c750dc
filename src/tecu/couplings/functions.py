"""A coupling from a user's own functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from tecu.arrays import Array
from tecu.couplings.base import BlockCoupling, Precision, checked_precision
from tecu.protocols import Blocks, Restricted, Term


class Functions(BlockCoupling):
    r"""``H`` from functions of all blocks, ``z -> ...`` with ``z`` a dict.

    Parameters
    ----------
    value
        ``z -> H(z)``, a number.
    grads
        For each block a function ``z -> gradient``; its keys are the blocks of the coupling.
    lipschitz
        For some or all blocks a number or a function ``z -> constant``. Blocks without one are back-tracked.
    hessian
        For blocks in which ``H`` is quadratic a function ``(z, v) -> second derivative applied to v``.
    minimize
        For blocks with an exact minimiser a function ``(z, term, eta) -> minimiser`` (or ``None``).
    computes_in
        ``"float32"`` where the functions compute in that precision whatever the blocks have (a network, say): their
        values and gradients are then allowed to round like it. ``None``: in the precision of the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> H = Functions(lambda z: float(np.sum(z["x"] ** 4)), {"x": lambda z: 4 * z["x"] ** 3})
    >>> H.grad("x", {"x": np.array([1.0, 2.0])}).tolist()
    [4.0, 32.0]
    """

    def __init__(
        self,
        value: Callable[[Blocks], float],
        grads: Mapping[str, Callable[[Blocks], Array]],
        lipschitz: Mapping[str, float | Callable[[Blocks], float]] | None = None,
        hessian: Mapping[str, Callable[[Blocks, Array], Array]] | None = None,
        minimize: Mapping[str, Callable[[Blocks, Term, float], Array | None]] | None = None,
        computes_in: Precision | None = None,
    ) -> None:
        if not callable(value):
            raise TypeError(f"Functions: value must be a function of the blocks, got {value!r}")
        if not isinstance(grads, Mapping) or not grads:
            raise TypeError(f"Functions: grads must be a non-empty dict of block name to function, got {grads!r}")
        self.blocks = tuple(grads)
        self._value, self._grads = value, dict(grads)
        self._lipschitz = self._checked("lipschitz", lipschitz, numbers=True)
        self._hessian = self._checked("hessian", hessian)
        self._minimize = self._checked("minimize", minimize)
        self._checked("grads", grads)
        self.computes_in = checked_precision(computes_in, "Functions")

    def _checked(self, argument: str, given: Mapping[str, Any] | None, numbers: bool = False) -> dict[str, Any]:
        for block, entry in (given or {}).items():
            if block not in self.blocks:
                raise ValueError(
                    f"Functions: {argument} has a block {block!r} that is not in grads, which has {list(self.blocks)}"
                )
            if not callable(entry) and not (numbers and isinstance(entry, Real)):
                raise TypeError(f"Functions: {argument}[{block!r}] must be a function, got {entry!r}")
        return dict(given or {})

    def __repr__(self) -> str:
        return f"Functions(blocks={list(self.blocks)})"

    def fingerprint(self) -> tuple[Any, ...]:
        """What a saved state knows this coupling by: all that was given."""
        return self._value, self._grads, self._lipschitz, self._hessian, self._minimize, self.computes_in

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        found = self._value(z)
        if getattr(found, "ndim", 0) or isinstance(found, complex | np.complexfloating):
            raise TypeError(f"Functions: value must return a number that is real, got {found!r}")
        return float(found)

    def grad(self, block: str, z: Blocks) -> Array:
        """The gradient of ``H`` with respect to one block."""
        self.require(block)
        return self._grads[block](z)

    def lipschitz(self, block: str, z: Blocks) -> float | None:
        """The constant given for the block, if any."""
        given = self._lipschitz.get(block)
        return None if given is None else float(given(z) if callable(given) else given)

    def hessian(self, block: str, z: Blocks, v: Array) -> Array | None:
        """The second derivative given for the block, if any."""
        given = self._hessian.get(block)
        return None if given is None else given(z, v)

    def minimize(self, block: str, z: Blocks, term: Term, eta: float) -> Array | None:
        """The exact minimiser given for the block, if any."""
        given = self._minimize.get(block)
        return None if given is None else given(z, term, eta)

    def restrict(self, block: str, z: Blocks) -> Restricted:
        """``H`` as a function of one block."""
        self.require(block)
        return Restricted(self, block, z)
