"""Prox-gradient steps, FISTA, hard thresholding, conjugate gradients: what they cost and what they equal."""

from itertools import islice

import numpy as np
import pytest
from scipy.sparse.linalg import LinearOperator, cg
from subproblems import factorization, vector

import tecu
from tecu import arrays, strategies, terms
from tecu.inexact import estimate, judge


def judged(strategy, sub, steps):
    """Run a strategy under the eyes of the acceptance tests, never accepted."""
    rule = tecu.MovingTolerance(1e-300)
    for candidate in islice(strategy(sub, sub.previous), steps):
        judge(sub, estimate(sub, candidate), rule)
    return sub.counters


def naive_fista(sub, steps):
    x = y = sub.previous
    t, tau = 1.0, sub.lipschitz()
    for _ in range(steps):
        new = sub.term.prox(y - sub.grad(y) / tau, 1 / tau)
        t, old = (1 + np.sqrt(1 + 4 * t * t)) / 2, t
        x, y = new, new + (old - 1) / t * (new - x)
        yield new


@pytest.mark.parametrize("sub", [factorization("W", terms.L1(0.1)), vector("logistic", terms.L1(0.1))], ids=["Q", "L"])
def test_fista_without_restart_equals_its_twin(sub):
    stride = 1 if sub.is_quadratic else 4  # every fourth step is proposed where that costs a gradient
    twins = list(naive_fista(sub, 60))[::stride]
    for candidate, twin in zip(strategies.FISTA(restart=False)(sub, sub.previous), twins, strict=False):
        np.testing.assert_allclose(candidate.prox_point, twin, atol=1e-10)


@pytest.mark.parametrize("strategy", [strategies.ProxGradient(), strategies.FISTA()], ids=repr)
def test_judging_costs_no_gradient_on_a_quadratic_block(strategy):
    spent = judged(strategy, factorization("W", terms.L1(0.1)), 40)
    assert spent.hessians == 40
    assert spent.proxes == 40
    assert spent.gradients <= 1 + 40 * 2 / 16


def test_judging_costs_no_gradient_for_plain_steps_on_any_block():
    spent = judged(strategies.ProxGradient(), vector("logistic", terms.L1(0.1)), 40)
    assert spent.gradients == 41
    assert spent.proxes == 40


def test_judging_fista_on_a_general_block_costs_a_quarter():
    spent = judged(strategies.FISTA(), vector("logistic", terms.L1(0.1)), 10)
    assert spent.gradients <= 1.25 * spent.proxes + 2


def test_fista_is_faster_than_plain_steps():
    errors = []
    for strategy in (strategies.ProxGradient(), strategies.FISTA()):
        sub = factorization("W", terms.L1(0.01), eta=1e-3)
        *_, last = islice(strategy(sub, sub.previous), 100)
        errors.append(estimate(sub, last).error_norm)
    assert errors[1] < 0.1 * errors[0]


def test_hard_thresholding_is_the_prox_gradient_step_with_the_lipschitz_constant():
    sub = factorization("W", terms.L0(0.02))
    u, tau = sub.previous, sub.lipschitz()
    for candidate in islice(strategies.HardThresholding()(sub, u), 30):
        np.testing.assert_allclose(candidate.u, u, atol=1e-12)
        x = u - sub.grad(u) / tau
        u = np.where(x * x > 2 * 0.02 / tau, x, 0.0)


def test_hard_thresholding_says_what_it_needs():
    with pytest.raises(ValueError, match="block 'W': HardThresholding needs a term that counts non-zeros"):
        next(strategies.HardThresholding()(factorization("W", terms.L1(0.1)), np.zeros((30, 6))))
    sub = vector("logistic-backtracked", terms.L0(0.1))
    with pytest.raises(ValueError, match="block 'x': HardThresholding needs a coupling with a Lipschitz constant"):
        next(strategies.HardThresholding()(sub, sub.previous))


@pytest.mark.parametrize("weight", [0.0, 0.7])
def test_conjugate_gradients_equal_those_of_scipy(weight):
    sub = vector("least-squares", terms.SquaredL2(weight) if weight else terms.Zero())
    n = sub.previous.size
    system = LinearOperator((n, n), lambda v: sub.hessian(v) + weight * v, dtype=float)
    iterates = []
    cg(system, -sub.grad(np.zeros(n)), x0=sub.previous, rtol=1e-12, callback=lambda x: iterates.append(x.copy()))
    mine = [c.u for c in islice(strategies.PCG()(sub, sub.previous), len(iterates) + 1)]
    for own, theirs in zip(mine[1:], iterates, strict=True):
        np.testing.assert_allclose(own, theirs, atol=1e-9)


def test_conjugate_gradients_end_after_as_many_steps_as_the_block_has_eigenvalues():
    sub = factorization("D", terms.Zero())
    *_, last = islice(strategies.PCG()(sub, sub.previous), sub.others["W"].shape[1] + 1)
    assert arrays.norm(sub.grad(last.u)) <= 1e-9


def test_a_perfect_preconditioner_needs_one_step():
    sub = factorization("D", terms.SquaredL2(0.5))
    W = sub.others["W"]
    inverse = np.linalg.inv(W.T @ W + (sub.eta + 0.5) * np.eye(W.shape[1]))
    proposals = strategies.PCG(lambda sub: lambda r: r @ inverse)(sub, sub.previous)
    _, first = next(proposals), next(proposals)
    assert arrays.norm(sub.grad(first.u) + 0.5 * first.u) <= 1e-10


def test_judging_conjugate_gradients_costs_nothing():
    spent = judged(strategies.PCG(), factorization("D", terms.SquaredL2(0.5)), 20)
    assert spent.hessians == 20
    assert spent.proxes == 0


def test_conjugate_gradients_say_what_they_need():
    with pytest.raises(ValueError, match="block 'W': PCG needs a smooth quadratic block"):
        next(strategies.PCG()(factorization("W", terms.L1(0.1)), np.zeros((30, 6))))
    sub = vector("logistic", terms.Zero())
    with pytest.raises(ValueError, match="block 'x': PCG needs a coupling that is quadratic"):
        next(strategies.PCG()(sub, sub.previous))
    with pytest.raises(TypeError, match="PCG: preconditioner"):
        strategies.PCG(preconditioner=3.0)


@pytest.mark.parametrize("strategy", [strategies.ProxGradient(), strategies.FISTA(), strategies.PCG()], ids=repr)
def test_claims_stay_true_in_a_long_run(strategy):
    sub = factorization("D", terms.SquaredL2(0.1), eta=1e-3)
    for k, candidate in enumerate(islice(strategy(sub, sub.previous), 400)):
        if k % 37 == 0:
            floor = estimate(sub, candidate).floor
            assert arrays.distance(candidate.gradient, sub.grad(candidate.u)) <= 64 * floor
