"""Foreign linear operators, tested, as the ``A`` of ``couplings.Linear``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

Vector = np.ndarray[Any, Any]


def operator(foreign: Any, *, shape: tuple[int, ...] | None = None) -> Operator:
    """``A`` with ``shape``, ``matvec`` and ``rmatvec``, after one random test of ``<A x, y> = <x, A^T y>``.

    Parameters
    ----------
    foreign
        A SciPy or PyLops ``LinearOperator``, or a deepinv ``LinearPhysics`` (``A(x)`` and ``A_adjoint(y)`` of tensors).
    shape
        For a deepinv physics: the shape of the images it takes, such as ``(1, 1, 64, 64)``. It computes in float32:
        give it float32 data and a float32 start, or the gradient test finds its rounding too large.

    Examples
    --------
    >>> import numpy as np, pylops
    >>> from tecu import couplings, interop
    >>> A = interop.operator(pylops.FirstDerivative(4, kind="forward"))
    >>> couplings.Linear(A, data=np.zeros(4)).value({"x": np.array([0.0, 1.0, 3.0, 3.0])})
    2.5
    """
    if callable(getattr(foreign, "A_adjoint", None)):
        if shape is None:
            raise TypeError(
                "interop.operator: a deepinv physics does not say what it acts on; give shape=, such as (1, 1, 64, 64)"
            )
        foreign = Physics(foreign, shape)
    return Operator(foreign)


class Operator:
    """An operator made by :func:`operator`."""

    def __init__(self, foreign: Any) -> None:
        self.foreign, self.name = foreign, type(foreign).__name__
        missing = [name for name in ("shape", "matvec", "rmatvec") if not hasattr(foreign, name)]
        if missing:
            raise TypeError(
                f"interop.operator: {self.name} lacks {', '.join(missing)}; "
                "a SciPy or PyLops LinearOperator has shape, matvec and rmatvec"
            )
        if np.issubdtype(np.dtype(getattr(foreign, "dtype", None) or np.float64), np.complexfloating):
            raise TypeError(
                f"interop.operator: {self.name} is complex and blocks are real; give its real form, such as "
                "pylops.FFT(real=True) followed by pylops.Real"
            )
        self.shape: tuple[int, int] = (int(foreign.shape[0]), int(foreign.shape[1]))
        self._check_adjoint()

    def matvec(self, x: Vector) -> Vector:
        """``A x``."""
        return np.asarray(self.foreign.matvec(x)).reshape(-1)

    def rmatvec(self, y: Vector) -> Vector:
        """``A^T y``."""
        return np.asarray(self.foreign.rmatvec(y)).reshape(-1)

    def _check_adjoint(self) -> None:
        rng = np.random.default_rng(0)
        precision = np.float32 if getattr(self.foreign, "dtype", None) == np.float32 else np.float64
        x, y = (rng.standard_normal(size).astype(precision) for size in self.shape[::-1])
        try:
            forth, back = self.matvec(x), self.rmatvec(y)
        except NotImplementedError:  # so SciPy and PyLops say that an operator has no adjoint
            raise TypeError(f"interop.operator: {self.name} has no adjoint; its gradient needs rmatvec") from None
        left, right = (float(np.dot(a.astype(np.float64), b)) for a, b in ((forth, y), (x, back)))
        size = float(np.linalg.norm(forth) * np.linalg.norm(y) + np.linalg.norm(x) * np.linalg.norm(back))
        # float32 is what deepinv works in, whatever it is given
        if not abs(left - right) <= 1e2 * np.finfo(np.float32).eps * size:
            raise ValueError(
                f"interop.operator: matvec and rmatvec of {self.name} are no adjoints: for random x and y "
                f"<A x, y> = {left:.6g}, <x, A^T y> = {right:.6g}"
            )

    def __repr__(self) -> str:
        return f"interop.operator({self.name}, {self.shape[0]} x {self.shape[1]})"


class Physics:
    """A deepinv ``LinearPhysics`` on flat NumPy vectors."""

    def __init__(self, physics: Any, shape: tuple[int, ...]) -> None:
        import torch

        self.physics, self.image = physics, tuple(shape)
        with torch.no_grad():
            self.data = tuple(physics.A(torch.zeros(self.image)).shape)
        self.shape = (math.prod(self.data), math.prod(self.image))

    def matvec(self, x: Vector) -> Vector:
        """``A(x)``."""
        return self._apply(self.physics.A, x, self.image)

    def rmatvec(self, y: Vector) -> Vector:
        """``A_adjoint(y)``."""
        return self._apply(self.physics.A_adjoint, y, self.data)

    def _apply(self, function: Any, values: Vector, shape: tuple[int, ...]) -> Vector:
        import torch

        with torch.no_grad():
            answer = function(torch.from_numpy(np.array(values, dtype=np.float32)).reshape(shape))
        return np.asarray(answer.cpu().numpy()).astype(values.dtype).reshape(-1)
