"""Ways to be taken for converged without being it: huge ``tau``, false claims without a constant, wrong proxes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import tecu
from problems import dictionary
from tecu import Candidate, stop, strategies, terms
from tecu.inexact import estimate, judge
from tecu.tolerance import MovingTolerance


class ScaledProduct:
    """``1/2 ||Y - A diag(s) B||^2`` with values and gradients only: no Lipschitz constant, no Hessian."""

    blocks = ("A", "s", "B")

    def __init__(self, Y):
        self.Y = Y

    def misfit(self, z):
        return (z["A"] * z["s"]) @ z["B"] - self.Y

    def value(self, z):
        return 0.5 * float(np.sum(self.misfit(z) ** 2))

    def grad(self, block, z):
        misfit = self.misfit(z)
        if block == "A":
            return misfit @ (z["s"][:, None] * z["B"]).T
        if block == "B":
            return (z["A"] * z["s"]).T @ misfit
        return np.sum(z["A"] * (misfit @ z["B"].T), axis=0)


def bare(dtype=np.float64, term=None):
    rng = np.random.default_rng(1)
    Y = rng.normal(size=(15, 3)) @ rng.normal(size=(3, 20)) + 0.05 * rng.normal(size=(15, 20))
    shapes = {"A": (15, 4), "s": (4,), "B": (4, 20)}
    start = {block: rng.normal(size=shape).astype(dtype) for block, shape in shapes.items()}
    kinds = {"A": terms.UnitColumns(), "s": terms.L1(0.2) if term is None else term, "B": terms.SquaredL2(0.05)}
    problem = tecu.Problem(ScaledProduct(Y.astype(dtype)), kinds)
    return problem, problem.project(start)


def factorisation(dtype=np.float64):
    case = dictionary(dtype=dtype)
    rng = np.random.default_rng(0)
    return case.problem, {**case.start, "W": rng.normal(size=case.start["W"].shape).astype(dtype)}


HUGE = 1e17


def no_gradient(sub, u):
    while True:
        u, _ = sub.prox_gradient_step(u)
        yield Candidate(u, gradient=0 * u)


def half_gradient(sub, u):
    while True:
        u, _ = sub.prox_gradient_step(u)
        yield Candidate(u, gradient=0.5 * sub.grad(u))


def hardly_moves(sub, u):
    while True:
        yield Candidate(u * (1 - 1e-6), tau=HUGE)


def stays(sub, u):
    while True:
        yield Candidate(u, sub.grad(u), u.copy(), 0 * u, HUGE, error_norm=0.0)


def steps_by_a_false_gradient(sub, u):
    """Leaves the back-tracking of a false gradient in the memory, and its constant in the claim."""
    while True:
        tau = sub.prox_gradient_step(u, -sub.grad(u))[1]
        yield Candidate(u, tau=tau)


FOOLS = [no_gradient, half_gradient, hardly_moves, stays, steps_by_a_false_gradient]


@pytest.mark.parametrize("fool", FOOLS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("make", [bare, factorisation], ids=["bare", "factorisation"])
def test_a_certificate_that_holds_means_what_it_does_for_an_honest_strategy(make, fool, dtype):
    """Found out, or overruled: then the run gets as far as one of prox-gradient steps."""
    problem, start = make(dtype)
    for block in problem.blocks:
        results = []
        for strategy in (fool, strategies.ProxGradient()):
            updates = {name: tecu.ProxLinear() for name in problem.blocks}
            updates[block] = tecu.Embed(strategy, eta=1.0, c=0.25, max_inner=3)
            results.append(tecu.Solver(problem, updates).run(start, stop=stop.MaxIter(40)))
        fooled, honest = results
        assert honest.certificate.holds
        if not fooled.certificate.holds:
            continue
        begin = problem.stationarity(start)
        reached = problem.stationarity(fooled.z)
        assert reached <= 5 * problem.stationarity(honest.z) + 1e-2 * begin
        assert fooled.certificate.residual >= 0.2 * reached
        assert fooled.value <= 1.2 * honest.value


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_a_point_far_from_stationary_is_never_accepted_by_rounding(dtype):
    """The start is a gradient step away from stationary. Claimed with a ``tau`` large or absurd, also where rounding
    makes it true that its prox point is itself, it is refused, or moved by a step with another ``tau``."""
    problem, start = bare(dtype)
    for block in problem.blocks:
        for tau in 10.0 ** np.arange(8, 39 if dtype == np.float32 else 300, 7.0):
            sub = tecu.SubProblem.of(problem, block, start, eta=1.0)
            gradient = sub.grad(sub.previous)
            candidates = [Candidate(sub.previous, gradient, tau=tau)]
            if tau > HUGE:
                candidates.append(Candidate(sub.previous, gradient, sub.previous.copy(), tau=tau))
            for candidate in candidates:
                found = estimate(sub, candidate)
                if judge(sub, found, MovingTolerance(0.25)).accepted:
                    assert found.tau < 1e6
                    assert found.move > 1e-3 * np.linalg.norm(sub.previous)


def test_a_tau_of_the_users_own_that_drowns_the_error_is_not_used():
    problem, start = bare()
    update = tecu.Embed(strategies.ProxGradient(), eta=1.0, tau=HUGE)
    result = tecu.Solver(problem, update).run(start, stop=stop.MaxIter(20))
    assert result.certificate.holds
    assert max(visit.tau for visit in result.state.visits) < 1e6


def test_a_constant_too_large_for_the_arithmetic_leaves_a_residual():
    """Nothing moves, so nothing seems wrong; the residual counts what rounding may hide."""

    class FarTooLarge(ScaledProduct):
        def lipschitz(self, block, z):
            return 1e19

    problem, start = bare()
    problem = tecu.Problem(FarTooLarge(problem.coupling.Y), problem.terms)
    result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(1))
    assert result.certificate.residual >= problem.stationarity(start)


# -- wrong proxes in prox-linear steps --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong:
    """A right term with a wrong prox."""

    right: object
    wrong: object

    @property
    def is_convex(self):
        return self.right.is_convex

    def value(self, x):
        return self.right.value(x)

    def prox(self, x, step):
        return self.wrong(x, step)


def identity(x, step):
    return x.copy()


L1, L0, SQUARE = terms.L1(0.2), terms.L0(0.2), terms.SquaredL2(0.2)
WRONG_PROXES = {
    "l1: identity": (L1, identity),
    "l1: half the step": (L1, lambda x, step: L1.prox(x, step / 2)),
    "l1: twice the step": (L1, lambda x, step: L1.prox(x, 2 * step)),
    "l1: hard threshold": (L1, L0.prox),
    "l0: soft threshold": (L0, L1.prox),
    "l0: identity": (terms.L0(2000.0), identity),
    "square: identity": (SQUARE, identity),
    "square: soft threshold": (SQUARE, L1.prox),
    "square: forgets the step": (SQUARE, lambda x, step: SQUARE.prox(x, 1.0)),
}


@pytest.mark.parametrize("name", WRONG_PROXES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
def test_a_wrong_prox_in_a_prox_linear_step_is_found_out(name, dtype):
    problem, start = bare(dtype, Wrong(*WRONG_PROXES[name]))
    result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(40))
    assert not result.certificate.holds
    assert "the prox of block 's' is not a minimiser" in result.certificate.reason


@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("term", [L1, L0, SQUARE, terms.Box(-1.0, 1.0), terms.Zero(), terms.NonNegative()], ids=repr)
def test_a_right_prox_is_not_accused(term, dtype):
    problem, start = bare(dtype, term)
    for update in (tecu.ProxLinear(), tecu.ProxLinear(extrapolation=tecu.Inertial(0.2, 0.2))):
        result = tecu.Solver(problem, update).run(start, stop=stop.MaxIter(120))
        assert result.certificate.holds, result.certificate.reason
