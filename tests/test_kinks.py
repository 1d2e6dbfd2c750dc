"""An ``H`` with kinks gets no certificate; one that is smooth, however sharply it bends, is not accused."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.kinks import find_jump

UPDATES = [tecu.ProxLinear(), tecu.Embed(strategies.ProxGradient()), tecu.Embed(strategies.FISTA())]


def rounded(x, eps):
    """``|x|`` as a hyperbola of width ``eps``, and its slope; ``eps = 0`` leaves the kink."""
    size = np.sqrt(x * x + x.dtype.type(eps) ** 2)
    return np.sum(size), np.divide(x, size, out=np.zeros_like(x), where=size > 0)


def lasso(n, dtype, eps):
    """Least squares and ``|x|`` in one coupling."""
    rng = np.random.default_rng(n)
    A = rng.normal(size=(2 * n, n)).astype(dtype)
    b = (A @ (rng.normal(size=n) * (rng.random(n) < 0.3)) + 0.1 * rng.normal(size=2 * n)).astype(dtype)
    weight = dtype(math.sqrt(n))
    H = couplings.Functions(
        lambda z: float(np.sum((A @ z["x"] - b) ** 2) / 2 + weight * rounded(z["x"], eps)[0]),
        {"x": lambda z: A.T @ (A @ z["x"] - b) + weight * rounded(z["x"], eps)[1]},
    )
    return tecu.Problem(H, {"x": terms.Zero()}), {"x": rng.normal(size=n).astype(dtype)}


@pytest.mark.parametrize("update", UPDATES, ids=lambda u: repr(u)[:20])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [6, 60])
def test_a_kink_in_the_coupling_is_found_out(update, dtype, n):
    problem, start = lasso(n, dtype, 0.0)
    result = tecu.Solver(problem, update).run(start, stop=stop.RelativeChange(1e-6) | stop.MaxIter(100))
    assert not result.certificate.holds
    assert "the gradient jumps by" in result.certificate.reason
    assert "into a term" in result.certificate.reason


@pytest.mark.parametrize("eps", [1e-1, 1e-3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n", [6, 60])
def test_a_kink_that_was_rounded_off_is_none(dtype, n, eps):
    problem, start = lasso(n, dtype, eps)
    for update in UPDATES:
        certificate = tecu.Solver(problem, update).run(start, stop=stop.MaxIter(60)).certificate
        assert certificate.holds, certificate.reason


def test_the_same_problem_with_its_kinks_in_a_term_converges():
    """What the sentence proposes."""
    smooth, start = lasso(6, np.float64, 0.0)
    rng = np.random.default_rng(6)
    A = rng.normal(size=(12, 6))
    b = A @ (rng.normal(size=6) * (rng.random(6) < 0.3)) + 0.1 * rng.normal(size=12)
    problem = tecu.Problem(couplings.Linear(A, b), {"x": terms.L1(math.sqrt(6))})
    result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.RelativeChange(1e-9) | stop.MaxIter(2000))
    assert result.certificate.holds
    assert result.value <= tecu.Solver(smooth, UPDATES[0]).run(start, stop=stop.MaxIter(100)).value


SMOOTH = {
    "square": lambda x: x,
    "fourth power": lambda x: x**3,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "cancelling": lambda x: x * x * x - x,
    "Huber": lambda x: np.clip(1e4 * x, -1, 1),
    "logarithm": lambda x: 1 / (1 + np.abs(x)) * np.sign(x) * np.minimum(np.abs(x) * 1e3, 1),
}


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_no_jump_is_found_where_there_is_none(name, dtype):
    for n in (1, 3, 1000):
        for length in 10.0 ** -np.arange(1, 11, 2):
            for seed in range(5):
                rng = np.random.default_rng((seed, n))
                z = (1 + rng.normal(size=n) * (1e-6 if name == "cancelling" else 1)).astype(dtype)
                before = z + (length * np.linalg.norm(z) / math.sqrt(n) * rng.normal(size=n)).astype(dtype)
                assert find_jump(SMOOTH[name], before, z, np.finfo(dtype).eps / 2) is None


@pytest.mark.parametrize("raises", [False, True])
def test_a_function_that_refuses_points_beyond_the_last_one_is_left_alone(raises):
    """``x - log x`` next to the end of its domain, in NumPy's way, which warns, and in that of :mod:`math`."""

    def log(x):
        return np.array([math.log(entry) for entry in x], x.dtype) if raises else np.log(x)

    H = couplings.Functions(
        lambda z: float(np.sum(z["x"] - 1e-3 * log(z["x"]))), {"x": lambda z: 1 - 1e-3 / np.exp(log(z["x"]))}
    )
    problem = tecu.Problem(H, {"x": terms.Box(1e-4, 10.0)})
    for dtype in (np.float64, np.float32):
        start = {"x": np.full(5, 2e-3, dtype)}
        result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(50))
        assert result.certificate.holds, result.certificate.reason
