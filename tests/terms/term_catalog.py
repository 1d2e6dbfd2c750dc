"""Every term we ship, and sums of them, with a name for the test's id; all fit a 4 x 3 block."""

import numpy as np

from tecu import terms as t

_EDGE = 0.1 + np.random.default_rng(7).random((4, 3))


class OwnAbsolute:
    """A user's own term: ``sum |x|``, without a subdifferential."""

    is_convex = True

    def value(self, x):
        return float(np.sum(np.abs(x)))

    def prox(self, x, step):
        return np.sign(x) * np.maximum(np.abs(x) - step, 0)


SINGLE = {
    "zero": t.Zero(),
    "l0": t.L0(0.3),
    "l0-weight-0": t.L0(0),
    "l1": t.L1(0.3),
    "squared-l2": t.SquaredL2(0.7),
    "bounded-l0": t.BoundedL0(0.3, 1.2),
    "group-columns": t.GroupL21(0.5),
    "group-rows": t.GroupL21(0.5, axis=1),
    "non-negative": t.NonNegative(),
    "box": t.Box(-0.5, 0.7),
    "box-without-0": t.Box(0.2, 1.0),
    "box-half-open": t.Box(-np.inf, 0.4),
    "box-arrays": t.Box(-_EDGE, _EDGE),
    "box-row": t.Box(_EDGE[:1], 2.0),
    "unit-columns": t.UnitColumns(),
    "unit-rows": t.UnitRows(),
    "ball-columns": t.UnitColumns(ball=True),
    "ball-rows": t.UnitRows(ball=True),
    "simplex-columns": t.Simplex(),
    "simplex-rows": t.Simplex(axis=1, total=2.5),
    "rank-1": t.Rank(1),
    "rank-2": t.Rank(2),
    "nuclear": t.NuclearNorm(0.4),
    "stiefel": t.Stiefel(),
    "1-sparse-rows": t.KSparse(1),
    "2-sparse-columns": t.KSparse(2, axis=0),
}

SUMS = {
    "l0+non-negative": t.L0(0.2) + t.NonNegative(),
    "l0+box": t.L0(0.2) + t.Box(-0.3, 1.0),
    "l0+box-without-0": t.L0(0.2) + t.Box(0.3, 1.0),
    "l0+box-arrays": t.L0(0.2) + t.Box(_EDGE - 0.5, _EDGE),
    "l1+non-negative": t.L1(0.3) + t.NonNegative(),
    "l1+box": t.L1(0.3) + t.Box(-0.1, 2.0),
    "elastic-net": t.L1(0.3) + t.SquaredL2(0.5),
    "squared+box": t.SquaredL2(0.5) + t.Box(-0.2, 0.9),
    "all-separable": t.L0(0.2) + t.L1(0.3) + t.SquaredL2(0.4) + t.Box(-1.0, 2.0),
    "squared+stiefel": t.SquaredL2(0.5) + t.Stiefel(),
    "squared+simplex": t.SquaredL2(0.5) + t.Simplex(),
    "squared+rank": t.Rank(1) + t.SquaredL2(0.5),
    "squared+nuclear": t.NuclearNorm(0.2) + t.SquaredL2(0.5),
    "non-negative+sphere": t.NonNegative() + t.UnitColumns(),
    "non-negative+ball": t.NonNegative() + t.UnitColumns(ball=True),
    "l1+sphere": t.L1(0.2) + t.UnitColumns(),
    "l1+ball-rows": t.L1(0.2) + t.UnitRows(ball=True),
    "l1+non-negative+sphere-rows": t.L1(0.2) + t.NonNegative() + t.UnitRows(),
    "group+non-negative": t.GroupL21(0.4) + t.NonNegative(),
    "sparse-group": t.GroupL21(0.4) + t.L1(0.2) + t.SquaredL2(0.1),
    "group-rows+l1+non-negative": t.GroupL21(0.4, axis=1) + t.L1(0.2) + t.NonNegative(),
    "k-sparse+non-negative": t.KSparse(1) + t.NonNegative(),
    "k-sparse+separable": t.KSparse(2, axis=0) + t.L1(0.2) + t.Box(-1.0, 0.5) + t.L0(0.1),
    "k-sparse+box-arrays": t.KSparse(2) + t.Box(-_EDGE, _EDGE) + t.SquaredL2(1.0),
    "squared+own": OwnAbsolute() + t.SquaredL2(1.0),
    "zero+own": t.Zero() + OwnAbsolute(),
}

ALL = {**SINGLE, **SUMS}

OWN_NUMPY_ONLY = {"squared+own", "zero+own"}
