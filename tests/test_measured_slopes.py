"""A gradient of one's own is tested as closely as the values of ``H`` allow: rounding is measured, not guessed."""

from __future__ import annotations

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, terms
from tecu.gradient_tests import gradient_tests

SIZES = (10, 1000, 100_000)


def least_squares(n, dtype, rng, offset=0.0):
    weights, target = (0.1 + rng.random(n)).astype(dtype), rng.normal(size=n).astype(dtype)
    constant = dtype(offset * n)
    return (
        lambda x: dtype(0.5) * np.sum(weights * (x - target) ** 2) + constant,
        lambda x: weights * (x - target),
        rng.normal(size=n).astype(dtype),
    )


def with_offset(n, dtype, rng):
    return least_squares(n, dtype, rng, 1e3)


def from_zero(n, dtype, rng):
    value, gradient, x = least_squares(n, dtype, rng)
    return (lambda x: value(x / dtype(1e3))), (lambda x: gradient(x / dtype(1e3)) / dtype(1e3)), 0 * x


def logistic(n, dtype, rng):
    A = (rng.normal(size=(20, n)) / np.sqrt(n)).astype(dtype)

    def gradient(x):
        return A.T @ (1 / (1 + np.exp(-(A @ x))) / dtype(20))

    return (lambda x: np.mean(np.logaddexp(dtype(0), A @ x))), gradient, rng.normal(size=n).astype(dtype)


def total_variation(n, dtype, rng, eps=1e-2):
    x = (np.cumsum(rng.normal(size=n)) / np.sqrt(n)).astype(dtype)
    noisy = x + (0.1 * rng.normal(size=n)).astype(dtype)

    def value(x):
        return np.sum(np.sqrt(np.diff(x) ** 2 + dtype(eps**2))) + dtype(0.5) * np.sum((x - noisy) ** 2)

    def gradient(x):
        slopes = np.diff(x) / np.sqrt(np.diff(x) ** 2 + dtype(eps**2))
        return x - noisy + np.concatenate([[0], slopes]).astype(dtype) - np.concatenate([slopes, [0]]).astype(dtype)

    return value, gradient, x


def cancelling(n, dtype, rng):
    """``1/2 ||x - b||^2``, next to nothing, as a difference of numbers ten thousand times as large and more."""
    b = (10 + rng.normal(size=n)).astype(dtype)
    half = dtype(0.5)
    x = b + (1e-2 * rng.normal(size=n)).astype(dtype)
    return (lambda x: half * np.dot(x, x) - np.dot(b, x) + half * np.dot(b, b)), (lambda x: x - b), x


def beside_kinks(n, dtype, rng):
    x = (1e-3 * rng.normal(size=n)).astype(dtype)
    x[0] = 1
    return (lambda x: np.sum(np.abs(x))), np.sign, x


PROBLEMS = [least_squares, with_offset, from_zero, logistic, total_variation, cancelling, beside_kinks]


def check(problem, n, dtype, seed, factor):
    value, gradient, x = problem(n, dtype, np.random.default_rng((seed, n)))
    H = couplings.Functions(lambda z: float(value(z["x"])), {"x": lambda z: dtype(factor) * gradient(z["x"])})
    tested = tecu.Problem(H, {"x": terms.Zero()})
    z = {"x": x}
    return gradient_tests(tested, z, H.value(z), seed, tested.restrict, at_start=True)["x"]()


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda p: p.__name__)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", SIZES)
def test_a_right_gradient_is_never_refuted_and_one_that_is_a_fifth_wrong_is(problem, dtype, n):
    for seed in range(3):
        assert check(problem, n, dtype, seed, 1.0).passed
        wrong = [check(problem, n, dtype, seed, factor) for factor in (0.8, 1.2, -1.0)]
        assert not any(found.passed and not found.untold for found in wrong)
        if problem is not beside_kinks:  # where both sides of a kink are seen, slopes may tell nothing
            assert not any(found.passed for found in wrong)


def test_where_values_have_lost_the_slope_nothing_is_told():
    """In float32 nothing that is a ten-millionth of H is left of it."""

    def lost(n, dtype, rng):
        return least_squares(n, dtype, rng, 1e8)

    for seed in range(3):
        for factor in (1.0, 0.8, 0.0):
            assert check(lost, 100, np.float32, seed, factor).untold


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_a_large_float32_block_with_a_gradient_a_fifth_wrong_gets_no_certificate(factor):
    value, gradient, x = least_squares(50_000, np.float32, np.random.default_rng(0))

    def run(by):
        H = couplings.Functions(
            lambda z: float(value(z["x"])), {"x": lambda z: np.float32(by) * gradient(z["x"])}, lipschitz={"x": 2.0}
        )
        problem = tecu.Problem(H, {"x": terms.L1(0.1)})
        return tecu.Solver(problem, tecu.ProxLinear()).run({"x": x}, stop=stop.MaxIter(20)).certificate

    right, wrong = run(1.0), run(factor)
    assert right.holds, right.reason
    assert not any("told nothing" in said for said in right.assumptions)
    assert not wrong.holds
    assert "the gradient says" in wrong.reason
