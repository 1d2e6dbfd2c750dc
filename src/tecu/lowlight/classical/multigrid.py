"""A multigrid preconditioner for weighted smoothing on a pixel grid, in plain NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Plane = np.ndarray[Any, Any]

SMALLEST = 8  # a grid with a side this short is solved by smoothing alone
DAMPING = 0.8  # of the Jacobi smoother
LAST_SWEEPS = 16  # on the coarsest grid


@dataclass(frozen=True)
class Stencil:
    r"""``A u = q u + sum_d grad_d^T (w_d grad_d u)``: five points, no flow over the border.

    Parameters
    ----------
    diagonal
        ``q``, ``height x width``, not negative.
    right, down
        The weights of the differences along rows, ``height x (width - 1)``, and columns, ``(height - 1) x width``.

    Examples
    --------
    >>> import numpy as np
    >>> A = Stencil(np.ones((1, 2)), right=np.full((1, 1), 3.0), down=np.ones((0, 2)))
    >>> A.apply(np.array([[1.0, 0.0]])).tolist()
    [[4.0, -3.0]]
    """

    diagonal: Plane
    right: Plane
    down: Plane

    def apply(self, u: Plane) -> Plane:
        """``A u``."""
        out = self.diagonal * u
        flow = np.subtract(u[:, 1:], u[:, :-1])
        flow *= self.right
        out[:, 1:] += flow
        out[:, :-1] -= flow
        flow = np.subtract(u[1:], u[:-1])
        flow *= self.down
        out[1:] += flow
        out[:-1] -= flow
        return out

    def weights_around(self) -> Plane:
        """The sum of the weights of the differences that a pixel takes part in."""
        total = np.zeros_like(self.diagonal)
        total[:, 1:] += self.right
        total[:, :-1] += self.right
        total[1:] += self.down
        total[:-1] += self.down
        return total

    def coarser(self) -> Stencil:
        """The same operator for pictures that are constant on 2 x 2 cells.

        Weights are halved: a step between cells stands for a slope twice as long as a step between pixels.
        """
        return Stencil(
            gather(self.diagonal),
            0.5 * _pairs(self.right[:, 1::2], axis=0),
            0.5 * _pairs(self.down[1::2], axis=1),
        )


class Multigrid:
    """An approximate inverse of a :class:`Stencil`: one symmetric V-cycle, so that it may precondition CG.

    Examples
    --------
    >>> import numpy as np
    >>> A = Stencil(np.ones((32, 32)), right=np.full((32, 31), 50.0), down=np.full((31, 32), 50.0))
    >>> b = np.random.default_rng(0).normal(size=(32, 32))
    >>> u = Multigrid(A).solve(b)
    >>> float(np.linalg.norm(A.apply(u) - b)) < 0.7 * float(np.linalg.norm(b))
    True
    """

    def __init__(self, stencil: Stencil) -> None:
        self.levels = [stencil]
        while min(self.levels[-1].diagonal.shape) > SMALLEST:
            self.levels.append(self.levels[-1].coarser())
        self.inverses = [DAMPING / (level.diagonal + level.weights_around()) for level in self.levels]

    def solve(self, residual: Plane) -> Plane:
        """About ``A^-1 residual``."""
        return self._cycle(0, residual)

    def _cycle(self, depth: int, residual: Plane) -> Plane:
        level, inverse = self.levels[depth], self.inverses[depth]
        u = inverse * residual
        if depth == len(self.levels) - 1:
            for _ in range(LAST_SWEEPS):
                u += inverse * (residual - level.apply(u))
            return u
        rest = level.apply(u)
        np.subtract(residual, rest, out=rest)
        spread_add(u, self._cycle(depth + 1, gather(rest)))
        rest = level.apply(u)
        np.subtract(residual, rest, out=rest)
        rest *= inverse
        u += rest
        return u


def gather(plane: Plane) -> Plane:
    """The sums over 2 x 2 cells; an odd last row or column makes smaller cells."""
    return _pairs(_pairs(plane, axis=0), axis=1)


def spread_add(plane: Plane, cells: Plane) -> None:
    """Add to each pixel of ``plane``, in place, the value of its 2 x 2 cell."""
    height, width = plane.shape
    for row in (0, 1):
        for column in (0, 1):
            part = plane[row::2, column::2]
            part += cells[: (height - row + 1) // 2, : (width - column + 1) // 2]


def _pairs(plane: Plane, axis: int) -> Plane:
    first, second = (plane[0::2], plane[1::2]) if axis == 0 else (plane[:, 0::2], plane[:, 1::2])
    total = first.copy()
    if axis == 0:
        total[: second.shape[0]] += second
    else:
        total[:, : second.shape[1]] += second
    return total
