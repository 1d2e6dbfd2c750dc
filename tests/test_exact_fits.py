"""Solutions that fit their data exactly: ``H`` is next to nothing there, only the rounding of the points is left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import tecu
from tecu import couplings, methods, stop, strategies, terms


def positive_part(x):
    values, vectors = np.linalg.eigh((x + x.T) / 2)
    return (vectors * np.maximum(values, 0)) @ vectors.T


def of_rank_two(x):
    left, sizes, right = np.linalg.svd(x)
    return (left[:, :2] * sizes[:2]) @ right[:2]


def orthonormal(x):
    left, _, right = np.linalg.svd(x)
    return left @ right


@dataclass(frozen=True)
class SetOf:
    """The fixed points of a projection, which rounds by some units in the last place."""

    projection: Any
    is_convex: bool

    def value(self, x):
        size = max(1.0, float(np.linalg.norm(x)))
        return 0.0 if np.linalg.norm(x - self.projection(x)) <= 1e-10 * size else np.inf

    def prox(self, x, step):
        return self.projection(x)


CASES = {
    "semi-definite": (SetOf(positive_part, True), lambda x: x @ x.T),
    "rank": (SetOf(of_rank_two, False), of_rank_two),
    "orthonormal": (SetOf(orthonormal, False), orthonormal),
    "free": (terms.Zero(), lambda x: x),
}
UPDATES = [
    tecu.ProxLinear(),
    tecu.ProxLinear(extrapolation=tecu.Inertial()),
    tecu.Embed(strategies.FISTA()),
    tecu.Embed(strategies.ADMM()),
]


def run(name, seed, update, factor=1.0):
    term, make = CASES[name]
    target = make(np.random.default_rng(seed).normal(size=(8, 8)))
    H = couplings.Functions(
        lambda z: 0.5 * float(np.sum((z["x"] - target) ** 2)), {"x": lambda z: factor * (z["x"] - target)}
    )
    problem = tecu.Problem(H, {"x": term})
    return tecu.Solver(problem, update).run(problem.project({"x": np.eye(8)}), stop=stop.MaxIter(60)), target


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: repr(update)[:45])
@pytest.mark.parametrize("name", CASES)
def test_rounding_of_the_points_is_not_blamed_on_the_parts(name, update):
    for seed in range(4):
        result, target = run(name, seed, update)
        if CASES[name][0].is_convex:  # of other sets a critical point may be another one
            np.testing.assert_allclose(result.z["x"], target, atol=1e-6)
        assert result.certificate.holds_from == 0, result.certificate.reason


@pytest.mark.parametrize("update", UPDATES, ids=lambda update: repr(update)[:45])
@pytest.mark.parametrize("factor", [0.9, 1.2])
def test_a_gradient_that_is_wrong_there_is_still_found(factor, update):
    assert not run("free", 0, update, factor)[0].certificate.holds


@pytest.mark.parametrize("masked", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_exact_updates_that_fit_exactly_are_not_blamed_for_rounding(seed, masked):
    rng = np.random.default_rng(seed)
    Y = 100 * rng.normal(size=(12, 3)) @ rng.normal(size=(3, 9))
    coupling = couplings.MatrixFactorization(Y, mask=rng.random(Y.shape) < 0.9 if masked else None)
    problem = tecu.Problem(coupling, {"W": terms.Zero(), "D": terms.Zero()})
    start = {"W": rng.normal(size=(9, 4)), "D": rng.normal(size=(12, 4))}
    result = methods.pam(problem, eta=0.01).run(start, stop=stop.MaxIter(80))
    assert result.value < 1e-16 * np.sum(Y**2)
    assert result.certificate.holds_from == 0, result.certificate.reason


def test_an_exact_update_that_is_a_little_wrong_is_still_found():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(12, 3)) @ rng.normal(size=(3, 9))
    right = couplings.MatrixFactorization(Y)
    H = couplings.Functions(
        right.value,
        {block: (lambda z, block=block: right.grad(block, z)) for block in "WD"},
        minimize={
            block: (lambda z, term, eta, block=block: (1 + 1e-6) * right.minimize(block, z, term, eta))
            for block in "WD"
        },
    )
    problem = tecu.Problem(H, {"W": terms.Zero(), "D": terms.Zero()})
    start = {"W": rng.normal(size=(9, 4)), "D": rng.normal(size=(12, 4))}
    assert not methods.pam(problem, eta=0.01).run(start, stop=stop.MaxIter(40)).certificate.holds
