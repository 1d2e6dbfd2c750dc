"""On a sphere or a ball points lie in their set only to rounding; the certificate must not take that for a fault."""

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ball", [False, True], ids=["sphere", "ball"])
@pytest.mark.parametrize(
    "update",
    [tecu.ProxLinear(), tecu.ProxLinear(extrapolation=tecu.Inertial(0.2, 0.2)), tecu.Embed(strategies.ProxGradient())],
    ids=["prox-linear", "inertial", "embed"],
)
def test_a_long_run_on_a_curved_set_is_covered(update, ball, dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A, b = rng.normal(size=(20, 12)).astype(dtype), 3 * rng.normal(size=20).astype(dtype)
        problem = tecu.Problem(couplings.Linear(A, b), {"x": terms.UnitColumns(ball=ball)})
        start = problem.project({"x": rng.normal(size=(12, 1)).astype(dtype)})
        result = tecu.Solver(problem, update).run(start, stop=stop.MaxIter(150))
        assert result.certificate.holds, result.certificate.reason


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("term", [terms.NonNegative(), terms.Box(0.0, 1.0), terms.Simplex(), terms.UnitColumns()])
@pytest.mark.parametrize("strategy", [strategies.ProxGradient(), strategies.FISTA()])
def test_a_start_that_lies_in_its_set_only_to_rounding_raises_no_alarm(strategy, term, dtype):
    size, off = 100, 4 * np.finfo(dtype).eps
    inside = {"Simplex": 1 / size, "UnitColumns": 1 / np.sqrt(size)}.get(type(term).__name__, 0.0)
    start = np.full((size, 1), (1 - off) * inside if inside else -off, dtype)
    assert term.value(start) == 0.0
    problem = tecu.Problem(
        couplings.Linear(np.eye(size, dtype=dtype), np.full(size, inside / 3 - 1, dtype)), {"x": term}
    )
    result = tecu.Solver(problem, tecu.Embed(strategy, eta=1.0)).run({"x": start}, stop=stop.MaxIter(6))
    assert result.certificate.holds, result.certificate.reason
