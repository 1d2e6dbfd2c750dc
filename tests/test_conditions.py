"""What the certificate rests on, condition by condition: take one away, and its test here fails."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np
import pytest

import tecu
from problems import dictionary, three_blocks
from tecu import Outcome, Verdict, couplings, methods, stop, strategies, terms
from tecu.stop import relative_change


def run(problem, updates, start, count=12):
    return tecu.Solver(problem, updates).run(start, stop=stop.MaxIter(count))


# -- the error of what is kept at the cap -----------------------------------------------------------------------------


def far_outside(u):
    """Far outside the box along its soft direction: the prox point is near, but its error is as large as that way."""
    return np.array([u[0], 1e3])


@pytest.mark.parametrize("rule", ["keep_if_covered", "keep_if_descends"])
def test_a_point_that_descends_with_a_huge_error_is_not_called_covered(rule):
    """``||e|| <= 2 tau ||move||`` is what makes the theorem cover it; descent alone does not."""
    coupling = couplings.Linear(np.diag([1.0, 0.1]), np.array([0.7, 0.5]))
    problem = tecu.Problem(coupling, {"x": terms.Box(0.0, 1.0)})
    update = tecu.Embed(far_outside, eta=1.0, max_inner=1, at_cap=rule)
    visits = run(problem, update, {"x": np.array([0.0, 1.0])}, 5).state.visits
    if rule == "keep_if_descends":  # so it does descend
        assert all(visit.outcome is Outcome.KEPT for visit in visits)
        assert all(visit.error > 2 * visit.tau * visit.move for visit in visits)
    else:
        assert all(visit.outcome is Outcome.FELL_BACK for visit in visits)


# -- what is held in reserve for later errors -------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1.1, 1.5, 3.0])
@pytest.mark.parametrize("eta", [0.2, 5.0])
def test_the_reserve_pays_for_every_later_error(power, eta):
    """It is no less than ``(1/eta) sum_{j > k} bound_j^2``, each visit takes its own share out, and it vanishes."""
    rule = tecu.SummableTolerance(0.7, power)
    shares = [rule.bound(k, None) ** 2 / eta for k in range(2000)]
    reserves = [rule.reserve(k - 1, eta) for k in range(2001)]
    for k in range(100):
        assert reserves[k] >= math.fsum(shares[k:]) * (1 - 1e-12)
    for share, (before, after) in zip(shares, pairwise(reserves), strict=True):
        assert before - after >= share * (1 - 1e-9)
    assert 0 < reserves[-1] < 1e-3 * reserves[0]


def test_a_run_that_makes_every_error_it_may_is_covered():
    """From the minimum of ``1/2 ||x||^2`` uphill, as far as the tolerances let it: ``Psi`` rises, ``Phi`` does not."""
    rule, eta, tau = tecu.SummableTolerance(1.0, 1.1), 4.0, 20.0

    def uphill(sub, u):
        # The prox point is where the gradient of the sub-problem is just short of the bound.
        point = (0.99 * rule.bound(sub.visits, None) + eta * sub.previous) / (1 + eta)
        yield (tau * point - eta * sub.previous) / (tau - 1 - eta)

    problem = tecu.Problem(couplings.Linear(np.eye(1), np.zeros(1)), {"x": terms.Zero()})
    update = tecu.Embed(uphill, eta=eta, tau=tau, tolerance=rule, max_inner=1)
    result = run(problem, update, {"x": np.zeros(1)}, 40)
    assert all(visit.outcome is Outcome.ACCEPTED for visit in result.state.visits)
    assert sum(np.diff(result.history["value"]) > 0) >= 3
    assert result.certificate.verdict is Verdict.HOLDS, result.certificate.reason


def test_a_block_that_is_never_visited_is_not_taken_for_a_run_that_was_resumed():
    case = three_blocks()
    solver = tecu.Solver(case.problem, tecu.ProxLinear(), schedule=lambda sweep: ["x", "v"])
    certificate = solver.run(case.start, stop=stop.MaxIter(5)).certificate
    assert "block 'w' was never visited" in certificate.reason
    assert "resumed" not in certificate.summary()


# -- the prox against the proposal ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HalfWay:
    """No term at all, with a prox that goes a share of the way: better than where it came from, worse than ``u``."""

    share: float
    is_convex: bool = True

    def value(self, x):
        return 0.0

    def prox(self, x, step):
        return self.share * x


@pytest.mark.parametrize("share", [1.0, 0.5])
def test_a_prox_that_is_worse_than_the_proposal_is_named_at_that_visit(share):
    """With one curvature in all directions the error is 0 whatever the prox does, and the objective falls."""
    target = np.array([2.0, -1.0, 3.0])
    problem = tecu.Problem(couplings.Linear(np.eye(3), target), {"x": HalfWay(share)})
    visit = run(problem, tecu.Embed(lambda u: target, eta=0.5), {"x": np.zeros(3)}, 5).state.visits[0]
    assert visit.outcome is Outcome.ACCEPTED_BY_OWN_MOVE
    if share == 1.0:
        assert visit.fault is None
    else:
        assert "the proposal itself is better" in visit.fault


# -- the residual -----------------------------------------------------------------------------------------------------


def test_the_residual_is_the_gradient_of_the_lyapunov_function():
    """``Phi(z, w) = H(z) + sum_b weight_b ||z_b - w_b||^2`` without terms: its gradient by hand, in ``z`` and ``w``."""
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(5, 6))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.Zero(), "D": terms.Zero()})
    update = tecu.Embed(strategies.ProxGradient(), eta=4.0, c=1.9, max_inner=50)
    result = run(problem, update, {"W": rng.normal(size=(6, 2)), "D": rng.normal(size=(5, 2))}, 3)
    W, D = result.z["W"], result.z["D"]
    slopes = {"W": (D @ W.T - Y).T @ D, "D": (D @ W.T - Y) @ W}
    weight = 1.9**2 / 4.0
    pulls = {block: 2 * weight * (result.z[block] - result.state.before[block]) for block in "WD"}
    gradient = [slopes[block] + pulls[block] for block in "WD"] + [-pulls[block] for block in "WD"]
    expected = math.sqrt(sum(np.sum(part**2) for part in gradient))
    assert result.certificate.residual == pytest.approx(expected, rel=1e-9)


# -- how much passes for rounding -------------------------------------------------------------------------------------


class Nudged(tecu.ProxLinear):
    """Goes off by a little at its first visit."""

    def __init__(self, nudge):
        super().__init__()
        self.nudge = nudge

    def visit(self, sub):
        step = super().visit(sub)
        if sub.visits:
            return step
        return replace(step, u=step.u + self.nudge, move=math.nan, term=math.nan, coupling=None)


@pytest.mark.parametrize(("ulps", "seen"), [(0.5, False), (100.0, True)])
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_rise_of_the_objective_well_above_rounding_is_seen(size, ulps, seen):
    """At a minimum where ``H`` is 3, summed over the entries: a rise by ``100 sqrt(size)`` round-offs."""
    coupling = couplings.Functions(
        lambda z: float(np.sum(3.0 / size + 0.5 * (z["x"] - 1.0) ** 2)), {"x": lambda z: z["x"] - 1.0}, {"x": 1.0}
    )
    rise = ulps * math.sqrt(size) * math.ulp(3.0) / 2
    update = Nudged(math.sqrt(2 * rise / size))
    result = run(tecu.Problem(coupling, {"x": terms.Zero()}), update, {"x": np.ones(size)}, 2)
    faults = [visit.fault for visit in result.certificate.violations if visit.index == 0]
    assert len(faults) == seen
    assert all("Lyapunov" in fault for fault in faults)


# -- a run that diverged ----------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:invalid value")
def test_what_is_said_of_a_diverged_run_is_said_of_its_last_good_state():
    """The sweep that broke off had moved ``x`` already: no residual and no audit of that move."""
    case = three_blocks()

    class Breaks(tecu.ProxLinear):
        def visit(self, sub):
            step = super().visit(sub)
            return replace(step, u=step.u * np.nan, move=math.nan) if sub.visits == 4 else step

    updates = {"x": tecu.ProxLinear(), "v": Breaks(), "w": tecu.ProxLinear()}
    result = run(case.problem, updates, case.start, 20)
    good = run(case.problem, tecu.ProxLinear(), case.start, 4)
    assert result.status is tecu.Status.DIVERGED
    assert (result.iterations, len(result.state.visits)) == (4, 12)
    for block, x in good.z.items():
        np.testing.assert_array_equal(result.z[block], x)
    assert result.certificate.residual == case.problem.stationarity(good.z)
    assert result.certificate.verdict is Verdict.DOES_NOT_HOLD


# -- settings do what they say ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("patience", [1, 2, 5])
def test_patience_is_so_many_small_changes_in_a_row(patience):
    """The changes of this run go up and down around the tolerance."""
    case, tol = dictionary(), 1e-2
    states = list(islice(methods.palm(case.problem).iterate(case.start), 60))
    small = [relative_change(states[-1], t) < tol for t in range(1, 61)]
    assert any(now and not later for now, later in pairwise(small))
    first = next(t for t in range(patience, 61) if all(small[t - patience : t]))
    result = methods.palm(case.problem).run(case.start, stop=stop.RelativeChange(tol, patience) | stop.MaxIter(60))
    assert result.status is tecu.Status.CONVERGED
    assert result.iterations == first


def test_extrapolation_moves_where_the_strategies_of_embed_start_and_nothing_else():
    case, begun = dictionary(), []

    class Watched(strategies.FISTA):
        def __call__(self, sub, u):
            begun.append((sub.block, u))
            yield from super().__call__(sub, u)

    solver = tecu.Solver(case.problem, tecu.Embed(Watched(), extrapolation=0.7))
    states = list(islice(solver.iterate(case.start), 6))
    assert len(begun) == 12
    for block, u in begun[:2]:
        np.testing.assert_array_equal(u, case.start[block])
    for k, (block, u) in enumerate(begun[2:]):
        z, before = states[k // 2].z[block], states[k // 2].before[block]
        np.testing.assert_allclose(u, z + 0.7 * (z - before), rtol=1e-12)
    assert solver.run(case.start, stop=stop.MaxIter(30)).certificate.holds
