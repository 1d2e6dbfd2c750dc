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
