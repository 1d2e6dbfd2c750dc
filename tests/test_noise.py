"""A user's own ``H`` rounds as it likes: how much is measured, and honest runs keep their certificate."""

from __future__ import annotations

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.noise import value_noise


class Logistic:
    """The mean of ``log(1 + exp(-y (A w + b)))`` in float32, summed one after the other, as a loop would."""

    blocks = ("w", "b")

    def __init__(self, seed, samples=300, offset=0.0, factor=1.0):
        rng = np.random.default_rng(seed)
        A = rng.normal(size=(samples, 5))
        wanted = rng.normal(size=5) * (rng.random(5) < 0.5)
        self.y = np.sign(A @ wanted + rng.logistic(size=samples)).astype(np.float32)
        self.A = (A + offset * rng.random(5)).astype(np.float32)
        self.factor = np.float32(factor)  # of the gradient: 1 is right

    def margins(self, z):
        return -self.y * (self.A @ z["w"] + z["b"])

    def value(self, z):
        losses = np.logaddexp(np.float32(0), self.margins(z))
        return float(np.cumsum(losses)[-1] / np.float32(self.y.size))

    def grad(self, block, z):
        slopes = -self.factor * self.y / (1 + np.exp(-self.margins(z))) / np.float32(self.y.size)
        return self.A.T @ slopes if block == "w" else np.sum(slopes, keepdims=True)


START = {"w": np.zeros(5, np.float32), "b": np.zeros(1, np.float32)}


def run(coupling, seed, sweeps=60):
    problem = tecu.Problem(coupling, {"w": terms.SquaredL2(0.01), "b": terms.Zero()})
    solver = tecu.Solver(problem, tecu.Embed(strategies.ADMM()), seed=seed)
    return solver.run(START, stop=stop.RelativeChange(1e-6) | stop.MaxIter(sweeps))


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("settings", [{}, {"offset": 300.0}, {"samples": 8000}], ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_a_float32_logistic_regression_of_the_users_own_keeps_its_certificate(seed, settings):
    certificate = run(Logistic(seed, **settings), seed).certificate
    assert certificate.holds_from == 0, certificate.reason


@pytest.mark.parametrize("factor", [-1.0, 0.0, 0.5, 0.8, 1.3, 2.0])
def test_what_is_measured_gives_a_false_gradient_no_room(factor):
    for seed in range(3):
        result = run(Logistic(seed, factor=factor), seed, sweeps=20)  # what fails at the start is not made good later
        assert not result.certificate.holds


def test_the_rounding_that_is_measured_is_that_of_the_values():
    """The same function in float64 is the truth."""
    z = {"w": np.random.default_rng(0).normal(size=5).astype(np.float32), "b": np.ones(1, np.float32)}
    for samples in (30, 300, 3000, 30_000):
        H = Logistic(0, samples)
        errors = []
        for seed in range(30):
            near = {
                b: x * (1 + np.random.default_rng(seed).normal(size=x.shape).astype("f") / 100) for b, x in z.items()
            }
            truth = np.mean(np.logaddexp(0, H.margins({b: x.astype(float) for b, x in near.items()})))
            errors.append(H.value(near) - truth)
        measured = [value_noise(H.value, z, np.random.default_rng(seed)) for seed in range(10)]
        assert 0.2 * np.std(errors) <= np.median(measured) <= 5 * np.std(errors)


def seventh(x):
    return x**7 + 1


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("function", [np.square, np.exp, np.cosh, np.cos, np.log1p, seventh], ids=lambda f: f.__name__)
def test_curvature_is_not_taken_for_rounding(function, dtype):
    x = np.abs(np.random.default_rng(0).normal(size=50)).astype(dtype)
    H = couplings.Functions(lambda z: float(np.sum(function(z["x"]))), {"x": lambda z: z["x"]})
    for seed in range(5):
        assert value_noise(H.value, {"x": x}, np.random.default_rng(seed)) <= 16 * np.finfo(dtype).eps * H.value(
            {"x": x}
        )


def test_where_nothing_can_be_told_nothing_is_said():
    def noise(value, x):
        return value_noise(value, {"x": x}, np.random.default_rng(0))

    assert noise(lambda z: float(np.sum(np.log(z["x"] - 1))), np.ones(3)) == 0.0  # not finite
    assert noise(lambda z: 0.0, np.ones(3)) == 0.0
    assert noise(lambda z: float(np.sum(z["x"])), np.zeros(3)) == 0.0
    rng = np.random.default_rng(0)
    assert noise(lambda z: rng.random() + 1.0, np.ones(3)) <= 1e-10  # no function: jumps are not rounding
