"""Our proxes against PyProximal's, an implementation by other people."""

import numpy as np
import pyproximal
import pytest

from tecu import terms as t

X = np.random.default_rng(11).standard_normal((5, 4))
STEP = 0.6


def same(ours, theirs):
    np.testing.assert_allclose(np.ravel(ours), np.ravel(theirs), atol=1e-12)


PAIRS = {
    "l1": (t.L1(0.4), pyproximal.L1(sigma=0.4)),
    "squared-l2": (t.SquaredL2(0.4), pyproximal.L2(sigma=0.4)),
    "box": (t.Box(-0.3, 0.5), pyproximal.Box(-0.3, 0.5)),
    "non-negative": (t.NonNegative(), pyproximal.Box(0.0, np.inf)),
    "group": (t.GroupL21(0.7, axis=0), pyproximal.L21(ndim=5, sigma=0.7)),
    "nuclear": (t.NuclearNorm(0.5), pyproximal.Nuclear((5, 4), sigma=0.5)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_prox_and_value_agree(name):
    ours, theirs = PAIRS[name]
    same(ours.prox(X, STEP), theirs.prox(X.ravel(), STEP))
    if not name.startswith(("box", "non")):
        assert ours.value(X) == pytest.approx(theirs(X.ravel()))


def test_elastic_net_agrees():
    ours = t.L1(0.4) + t.SquaredL2(0.8)
    # completing the square by hand turns their L1 into the elastic net
    same(ours.prox(X, STEP), pyproximal.L1(sigma=0.4).prox(X.ravel() / 1.48, STEP / 1.48))


def test_sparse_group_agrees():
    theirs = pyproximal.L21_plus_L1(sigma=1.0, rho=0.3)
    ours = t.L1(0.3) + t.GroupL21(0.7, axis=0)
    # their groups are the columns of a matrix (features x groups), given as it is
    same(ours.prox(X, STEP), theirs.prox(X.copy(), STEP))


@pytest.mark.parametrize("axis", [0, 1])
def test_simplex_agrees(axis):
    theirs = pyproximal.Simplex(20, 1.3, dims=(5, 4), axis=axis, maxiter=200, ftol=1e-14, xtol=1e-14)
    ours = t.Simplex(axis=axis, total=1.3)
    np.testing.assert_allclose(ours.prox(X, STEP).ravel(), theirs.prox(X.ravel(), STEP), atol=1e-9)


@pytest.mark.parametrize("scale", [0.1, 3.0])
def test_ball_agrees_column_by_column(scale):
    theirs = pyproximal.EuclideanBall(np.zeros(5), 1.0)
    ours = t.UnitColumns(ball=True).prox(scale * X, STEP)
    same(ours, np.stack([theirs.prox(scale * column, STEP) for column in X.T], axis=1))


@pytest.mark.parametrize("k", [1, 3])
def test_k_sparse_agrees_row_by_row(k):
    theirs = pyproximal.L0Ball(k)
    same(t.KSparse(k).prox(X, STEP), np.stack([theirs.prox(row.copy(), STEP) for row in X]))


def test_l0_agrees_at_the_same_threshold_and_is_lower_at_the_same_weight():
    # PyProximal thresholds at tau sigma; the minimiser of the l0 prox objective needs sqrt(2 tau sigma).
    weight = 0.3
    ours = t.L0(weight)
    theirs = pyproximal.L0(sigma=np.sqrt(2 * weight * STEP) / STEP)
    same(ours.prox(X, STEP), theirs.prox(X.ravel(), STEP))

    def objective(z):
        return weight * np.count_nonzero(z) + np.sum((z - X.ravel()) ** 2) / (2 * STEP)

    assert objective(ours.prox(X, STEP).ravel()) <= objective(pyproximal.L0(weight).prox(X.ravel(), STEP))
