"""Sub-problems that are not bounded below: a visit stays cheap, falls back, and the user is told."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms

FALLING = {  # value and derivative of one entry, with no lower bound
    "linear": (lambda x: -x, lambda x: -np.ones_like(x)),
    "square": (lambda x: -(x**2), lambda x: -2 * x),
    "fourth power": (lambda x: -(x**4), lambda x: -4 * x**3),
    "exponential": (lambda x: -np.exp(x), lambda x: -np.exp(x)),
}
STRATEGIES = [strategies.FISTA(), strategies.ADMM(), strategies.ProxGradient()]
pytestmark = pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")


def run(name, update, sweeps=5):
    value, slope = FALLING[name]
    H = couplings.Functions(lambda z: float(np.sum(value(z["x"]))), {"x": lambda z: slope(z["x"])})
    problem = tecu.Problem(H, {"x": terms.Zero()})
    return tecu.Solver(problem, update).run({"x": np.ones(5)}, stop=stop.MaxIter(sweeps))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("name", FALLING)
def test_a_visit_to_an_unbounded_subproblem_costs_no_thousands_of_evaluations(name, strategy):
    result = run(name, tecu.Embed(strategy, eta=0.1))
    worst = max(visit.values + visit.gradients for visit in result.state.visits)
    assert worst <= 100 * 20  # of max_inner = 20 proposals, each with some back-tracking


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_the_user_is_told_that_a_strategy_ran_away(strategy):
    said = " ".join(run("exponential", tecu.Embed(strategy, eta=0.1)).certificate.assumptions)
    assert re.search("block 'x': its sub-problems are bounded below. [1-5] times in 5 visits", said)
    assert "larger eta" in said


def test_it_is_told_where_a_single_proposal_is_all_there_is():
    said = " ".join(run("linear", tecu.Embed(lambda u: np.nan * u, eta=1.0, max_inner=1)).certificate.assumptions)
    assert "5 times in 5 visits a strategy proposed a point that was not finite" in said


def test_a_bounded_subproblem_is_not_spoken_of():
    said = " ".join(run("linear", tecu.Embed(strategies.FISTA(), eta=1.0)).certificate.assumptions)
    assert "bounded below" not in said


@pytest.mark.parametrize("name", FALLING)
def test_a_fall_to_numbers_that_round_more_is_not_blamed_on_the_parts(name):
    """``|Psi|`` grows by orders in a visit: what counts is the rounding of what comes after, too."""
    result = run(name, tecu.ProxLinear())
    assert not result.certificate.violations


def test_a_run_that_falls_without_end_is_told_so():
    result = run("exponential", tecu.ProxLinear(), 20)
    assert result.status is tecu.Status.DIVERGED
    assert "may not be bounded below" in result.certificate.reason
    growing = run("square", tecu.ProxLinear(), 20)
    assert any("whose norm grew" in said for said in growing.certificate.assumptions)


@pytest.mark.parametrize("sweeps", [50, 100])
def test_a_fall_to_the_largest_numbers_ends_in_a_result(sweeps):
    """``||x||`` grows by more than 1e80 in the second half of the run: its fourth power is no number."""
    result = run("square", tecu.ProxLinear(), sweeps)
    assert np.isfinite(result.value)
    assert result.value < -1e60


@pytest.mark.parametrize("safeguard", [True, False])
@pytest.mark.parametrize("rule", [None, tecu.Inertial(), tecu.Nesterov()], ids=repr)
def test_steps_that_are_too_long_end_as_diverged(rule, safeguard):
    """``||x||`` grows till its square is no number: that of a move or of a distance is none before."""
    coupling = couplings.Functions(
        lambda z: float(0.5 * np.sum(z["x"] ** 2)), {"x": lambda z: z["x"]}, lipschitz={"x": 0.1}
    )
    problem = tecu.Problem(coupling, {"x": terms.Zero()})
    solver = tecu.Solver(problem, tecu.ProxLinear(extrapolation=rule, safeguard=safeguard))
    result = solver.run({"x": np.ones(3)}, stop=stop.MaxIter(1000))
    assert result.status is tecu.Status.DIVERGED
    assert not result.certificate.holds


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA(), eta=1e-200)], ids=repr)
def test_blocks_whose_squares_are_no_numbers_end_in_a_result(update):
    coupling = couplings.Functions(
        lambda z: -float(np.sum(z["x"])), {"x": lambda z: -np.ones(3)}, lipschitz={"x": 1e-200}
    )
    problem = tecu.Problem(coupling, {"x": terms.Zero()})
    result = tecu.Solver(problem, update).run({"x": np.ones(3)}, stop=stop.MaxIter(5))
    assert np.isfinite(result.value)
    assert result.value < -1e190


@pytest.mark.parametrize("factor", [np.nan, np.inf, 1e30])
def test_a_strategy_after_one_that_goes_astray_starts_where_the_block_is(factor):
    rng = np.random.default_rng(0)
    problem = tecu.Problem(couplings.Linear(rng.normal(size=(9, 5)), rng.normal(size=9)), {"x": terms.L1(0.1)})
    start = {"x": np.ones(5)}

    def solve(*parts):
        return tecu.Solver(problem, tecu.Embed(*parts, eta=1.0)).run(start, stop=stop.MaxIter(5))

    alone, after = solve(strategies.FISTA()), solve(lambda u: factor * u, strategies.FISTA())
    assert np.array_equal(alone.z["x"], after.z["x"])
    assert after.certificate.fallbacks == 0
