"""Every prox against a brute-force minimiser: grids over the whole domain, refined where they are lowest."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize
from term_catalog import OwnAbsolute

from tecu import terms as t

POINTS = np.random.default_rng(3).uniform(-2.0, 2.0, (4, 2))


def objective(term, z, x, step):
    return term.value(z) + np.sum((z - x) ** 2) / (2 * step)


def lowest(term, x, step, chart, centre, reach, count=31, levels=3):
    """The lowest objective over ``chart(parameters)``, a grid that zooms in on its best point."""
    best = np.inf
    for _ in range(levels):
        axes = [middle + reach * np.linspace(-1, 1, count) for middle in centre]
        for parameters in itertools.product(*axes):
            value = objective(term, chart(np.array(parameters)), x, step)
            if value < best:
                best, centre_next = value, parameters
        centre, reach = centre_next, 4 * reach / count
        count = min(count, 9)
    return best


def assert_minimal(term, x, step, chart, centre, reach, **grid):
    found = objective(term, term.prox(x, step), x, step)
    brute = lowest(term, x, step, chart, centre, reach, **grid)
    assert found <= brute + 1e-12
    assert brute <= found + 0.05  # the grid did find the domain and comes near


PLANE = {
    "zero": t.Zero(),
    "l0": t.L0(0.6),
    "l1": t.L1(0.4),
    "squared-l2": t.SquaredL2(0.7),
    "bounded-l0": t.BoundedL0(0.5, 1.0),
    "group": t.GroupL21(0.6),
    "non-negative": t.NonNegative(),
    "box": t.Box(-0.5, 1.0),
    "box-without-0": t.Box(0.5, 1.5),
    "box-arrays": t.Box(np.array([[-1.0], [0.5]]), np.array([[0.0], [2.0]])),
    "ball": t.UnitColumns(ball=True),
    "1-sparse": t.KSparse(1, axis=0),
    "l0+non-negative": t.L0(0.4) + t.NonNegative(),
    "l0+box": t.L0(0.4) + t.Box(-0.5, 1.0),
    "l0+l1": t.L0(0.3) + t.L1(0.3),
    "l0+squared": t.L0(0.3) + t.SquaredL2(0.8),
    "l0+box-without-0": t.L0(0.4) + t.Box(0.5, 1.5),
    "l1+non-negative": t.L1(0.4) + t.NonNegative(),
    "elastic-net": t.L1(0.4) + t.SquaredL2(0.5),
    "everything": t.L0(0.2) + t.L1(0.2) + t.SquaredL2(0.3) + t.Box(-1.5, 1.0),
    "non-negative+ball": t.NonNegative() + t.UnitColumns(ball=True),
    "l1+ball": t.L1(0.3) + t.UnitColumns(ball=True),
    "l1+non-negative+ball": t.L1(0.3) + t.NonNegative() + t.UnitColumns(ball=True),
    "group+non-negative": t.GroupL21(0.4) + t.NonNegative(),
    "group+l1": t.GroupL21(0.4) + t.L1(0.3),
    "group+squared": t.GroupL21(0.4) + t.SquaredL2(0.6),
    "1-sparse+non-negative": t.KSparse(1, axis=0) + t.NonNegative(),
    "1-sparse+l1+box": t.KSparse(1, axis=0) + t.L1(0.2) + t.Box(-0.5, 1.0),
    "1-sparse+l0": t.KSparse(1, axis=0) + t.L0(0.5),
    "own+squared": OwnAbsolute() + t.SquaredL2(0.5),
}


@pytest.mark.parametrize("name", PLANE)
@pytest.mark.parametrize("step", [0.5, 2.0])
def test_prox_in_the_plane(name, step):
    for point in POINTS:
        x = point.reshape(2, 1)
        assert_minimal(PLANE[name], x, step, lambda z: z.reshape(2, 1), (0.0, 0.0), 2.0)


SPHERE = {
    "sphere": t.UnitColumns(),
    "non-negative": t.UnitColumns() + t.NonNegative(),
    "l1": t.UnitColumns() + t.L1(0.4),
    "l1+non-negative": t.UnitColumns() + t.NonNegative() + t.L1(0.4),
    "squared": t.UnitColumns() + t.SquaredL2(0.4),
}


@pytest.mark.parametrize("name", SPHERE)
def test_prox_on_the_sphere(name):
    def chart(angles):
        a, b = angles
        return np.array([[np.cos(a) * np.cos(b)], [np.sin(a) * np.cos(b)], [np.sin(b)]]).round(15)

    points = [*np.random.default_rng(5).uniform(-1, 1, (3, 3)), [-0.3, -0.9, -0.5], [0.0, 0.0, 0.0]]
    for point in points:
        x = np.array(point).reshape(3, 1)
        assert_minimal(SPHERE[name], x, 0.7, chart, (0.0, 0.0), np.pi)


@pytest.mark.parametrize("term", [t.Simplex(total=1.5), t.Simplex(total=1.5) + t.SquaredL2(0.7)])
def test_prox_on_the_simplex(term):
    for point in np.random.default_rng(6).uniform(-2, 2, (8, 2)):
        x = np.array([*point, 0.5])
        assert_minimal(term, x, 0.8, lambda z: np.array([*z, 1.5 - sum(z)]), (0.75, 0.75), 0.75)


def test_simplex_against_a_general_solver():
    for seed in range(10):
        x = 2 * np.random.default_rng(seed).standard_normal(6)
        rule = {"type": "eq", "fun": lambda z: np.sum(z) - 1.0}
        slow = minimize(
            lambda z, x: np.sum((z - x) ** 2),
            np.full(6, 1 / 6),
            args=(x,),
            jac=lambda z, x: 2 * (z - x),
            bounds=[(0, None)] * 6,
            constraints=[rule],
            method="SLSQP",
            options={"ftol": 1e-14},
        )
        np.testing.assert_allclose(t.Simplex().prox(x, 1.0), slow.x, atol=1e-6)


def rotation(angle):
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])


def test_rank_one():
    def chart(parameters):
        size, a, b = parameters
        return size * np.outer([np.cos(a), np.sin(a)], [np.cos(b), np.sin(b)])

    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((2, 2))
        for term in (t.Rank(1), t.Rank(1) + t.SquaredL2(0.5)):
            assert_minimal(term, x, 0.7, chart, (0.0, 0.0, 0.0), np.pi, count=13)


def test_nuclear_norm():
    def chart(parameters):
        a, b, first, second = parameters
        return rotation(a) @ np.diag([first, second]) @ rotation(b)

    for seed in range(2):
        x = np.random.default_rng(seed).standard_normal((2, 2))
        for term in (t.NuclearNorm(0.5), t.NuclearNorm(0.5) + t.SquaredL2(0.5)):
            assert_minimal(term, x, 0.9, chart, (0.0, 0.0, 0.0, 0.0), np.pi, count=7)


@pytest.mark.parametrize("flip", [1.0, -1.0])
def test_stiefel(flip):
    def chart(angle):
        return rotation(angle[0]) @ np.diag([1.0, flip])

    for seed in range(6):
        x = np.random.default_rng(seed).standard_normal((2, 2))
        found = objective(t.Stiefel(), t.Stiefel().prox(x, 1.0), x, 1.0)
        assert found <= lowest(t.Stiefel(), x, 1.0, chart, (0.0,), np.pi, count=201) + 1e-12


@pytest.mark.parametrize("k", [1, 2, 3, 5, 9])
def test_k_sparse_against_all_supports(k):
    rng = np.random.default_rng(k)
    for term, entry in (
        (t.KSparse(k), t.Zero()),
        (t.KSparse(k) + t.NonNegative() + t.L1(0.3), t.NonNegative() + t.L1(0.3)),
        (t.KSparse(k) + t.L0(0.2) + t.Box(-0.5, 1.0), t.L0(0.2) + t.Box(-0.5, 1.0)),
    ):
        x = rng.standard_normal((1, 6))
        free = entry.prox(x, 0.7)
        supports = itertools.product([False, True], repeat=6)
        rivals = (np.where(support, free, 0.0) for support in supports if sum(support) <= k)
        best = min(objective(term, rival, x, 0.7) for rival in rivals)
        assert objective(term, term.prox(x, 0.7), x, 0.7) <= best + 1e-13
