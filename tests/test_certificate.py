"""The certificate must be able to fail: liars, wrong gradients and wrong proxes are found out."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
import pytest

import tecu
from problems import dictionary, three_blocks
from tecu import Candidate, Outcome, Verdict, couplings, stop, strategies, terms
from tecu.certificate import certify
from tecu.inexact import estimate
from tecu.state import VisitLog


def run(problem, updates, start, count=12, **options):
    return tecu.Solver(problem, updates, **options).run(start, stop=stop.MaxIter(count))


def embed(strategy, **options):
    return tecu.Embed(strategy, eta=1.0, c=0.25, **options)


# -- Proposition 1 for any tau ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [0.3, 1.0, 7.0, 200.0])
@pytest.mark.parametrize("block", ["x", "w"])
def test_the_error_is_an_element_of_the_subdifferential(tau, block):
    """``e - grad phi(u~)`` lies in the term's subdifferential at ``u~``, for every ``tau``."""
    case = three_blocks()
    sub = tecu.SubProblem.of(case.problem, block, case.start, eta=0.7)
    rng = np.random.default_rng(0)
    found = estimate(sub, Candidate(rng.normal(size=6)), tau)
    element = found.error - sub.grad(found.point)
    distance = sub.term.subdiff_distance(found.point, element)
    assert distance <= 1e-13 * (1 + np.linalg.norm(element)) * max(1.0, tau)


def test_quadratic_error_is_free_of_cancellation():
    """In float32 near a solution the Hessian form keeps digits that the difference of gradients has lost."""
    case = dictionary(dtype=np.float32)
    rng = np.random.default_rng(1)
    z = {"W": rng.normal(size=(60, 16)).astype(np.float32), "D": case.start["D"]}
    sub = tecu.SubProblem.of(case.problem, "W", z, eta=0.5)
    u = z["W"]
    for _ in range(300):
        u, tau = sub.prox_gradient_step(u)
    found = estimate(sub, Candidate(u), tau)
    exact = tecu.SubProblem.of(case.problem, "W", {b: x.astype(np.float64) for b, x in z.items()}, eta=0.5)
    difference = u.astype(np.float64) - found.point.astype(np.float64)
    truth = found.tau * difference - exact.hessian(difference)
    by_gradients = found.tau * (u - found.point) - (sub.grad(u) - sub.grad(found.point))
    assert np.linalg.norm(found.error - truth) < 0.1 * np.linalg.norm(by_gradients - truth)


# -- liars --------------------------------------------------------------------------------------------------------


class Liar:
    """Proposes the start of the visit with a small random change and claims that nothing is wrong with it."""

    endless = True

    def __init__(self, claim):
        self.claim = claim

    def __call__(self, sub, u):
        while True:
            point = sub.prox(u + 1e-3 * sub.rng.normal(size=u.shape), 1.0)
            gradient = sub.grad(point)
            tau = sub.lipschitz()
            truth = estimate(sub, Candidate(point))
            zero = np.zeros_like(point)
            yield {
                "error": Candidate(point, gradient, truth.point, zero, truth.tau),
                "prox_point": Candidate(point, gradient, point, zero, tau),
                "gradient": Candidate(point, zero),
            }[self.claim]


@pytest.mark.parametrize(
    ("claim", "found"), [("error", "error"), ("prox_point", "prox point"), ("gradient", "prox point")]
)
def test_a_lying_strategy_is_found_out(claim, found):
    """A false gradient shows in the prox point that was computed with it."""
    case = dictionary()
    rng = np.random.default_rng(0)
    start = {"W": rng.normal(size=(60, 16)), "D": case.start["D"]}
    result = run(case.problem, {"W": tecu.ProxLinear(), "D": embed(Liar(claim), max_inner=3)}, start)
    assert result.certificate.fallbacks == 0  # its claims passed the tests: only the audit can tell
    assert not result.certificate.holds
    assert f"claimed a wrong {found}" in result.certificate.reason


@pytest.mark.parametrize("claim", ["error", "prox_point", "gradient"])
@pytest.mark.parametrize("seed", range(4))
def test_a_strategy_that_lied_is_found_out_though_it_was_overruled_in_the_end(claim, seed):
    """The audit of a last visit that fell back would tell nothing of those at which it was believed."""
    case = dictionary()
    liar = Liar(claim)

    def early_liar(sub, u):
        return liar(sub, u) if sub.visits < 5 else iter(())

    start = {"W": np.random.default_rng(0).normal(size=(60, 16)), "D": case.start["D"]}
    result = run(case.problem, {"W": tecu.ProxLinear(), "D": embed(early_liar, max_inner=3)}, start, seed=seed)
    outcomes = [visit.outcome for visit in result.state.visits if visit.block == "D"]
    assert outcomes[-1] is Outcome.FELL_BACK
    assert set(outcomes) > {Outcome.FELL_BACK}  # it was believed at some visits
    assert not result.certificate.holds
    assert "claimed a wrong" in result.certificate.reason


@pytest.mark.parametrize("count", [5, 12])
def test_a_resumed_run_says_that_what_a_strategy_claimed_before_was_not_audited(count):
    """No audit reaches back to a visit before the interruption, also where each block has been visited since."""
    case = dictionary()

    def early(sub, u):
        return strategies.ADMM()(sub, u) if sub.visits < 5 else iter(())

    solver = tecu.Solver(case.problem, {"W": tecu.ProxLinear(), "D": embed(early, max_inner=50)})
    start = {"W": np.random.default_rng(0).normal(size=(60, 16)), "D": case.start["D"]}
    whole = solver.run(start, stop=stop.MaxIter(12))
    *_, state = islice(solver.iterate(start), count)
    resumed = solver.run(state, stop=stop.MaxIter(12))
    ended = solver.run(whole, stop=stop.MaxIter(12))  # whose visits were audited when the run was over
    told = [any("resumed" in said for said in run.certificate.assumptions) for run in (whole, resumed, ended)]
    assert told == [False, True, False]


@pytest.mark.parametrize("of", [np.float16, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("lipschitz", [None, {"x": 1.0}])
def test_settings_in_another_precision_are_not_that_of_the_certificate(of, lipschitz):
    """``H`` falls by just what the theorem says: a descent that is rounded to ``np.float32`` would accuse the run."""
    goal = np.random.default_rng(0).normal(size=50)
    coupling = couplings.Functions(
        lambda z: 0.5 * float(np.sum((z["x"] - goal) ** 2)), {"x": lambda z: z["x"] - goal}, lipschitz
    )
    problem = tecu.Problem(coupling, {"x": terms.Zero()})
    for update in (
        tecu.ProxLinear(of(1.3)),
        tecu.ProxLinear(of(1.7), tecu.Inertial(of(0.2), of(0.2), of(0.05))),
        tecu.ProxLinear(of(1.7), tecu.Nesterov(of(0.9))),
        tecu.Embed(strategies.FISTA(), eta=of(1.0), c=of(0.2), tau=of(2.3), extrapolation=of(0.1)),
        tecu.Embed(strategies.ADMM(of(1.3)), tolerance=tecu.SummableTolerance(of(0.3), of(1.6))),
    ):
        result = run(problem, update, {"x": np.zeros(50)}, 25)
        assert result.certificate.holds_from == 0, (update, result.certificate.reason)
        numbers = [value for visit in result.state.visits for value in vars(visit).values()]
        assert not any(isinstance(value, np.generic) for value in numbers)


def test_an_honest_strategy_is_not_accused():
    case = dictionary()
    for strategy in (strategies.ProxGradient(), strategies.FISTA(), strategies.ADMM()):
        result = run(case.problem, {"W": tecu.ProxLinear(), "D": embed(strategy)}, case.start, 60)
        assert result.certificate.holds
        assert sum(v.audited for v in result.state.visits) >= 2


def test_at_most_five_percent_of_the_visits_are_audited_at_random():
    case = three_blocks()
    result = run(case.problem, tecu.ProxLinear(), case.start, 400)
    audited = sum(visit.audited for visit in result.state.visits)
    assert 3 < audited <= 0.05 * len(result.state.visits) + 3
    assert all(v.audited for v in result.state.visits[-3:])


# -- wrong parts --------------------------------------------------------------------------------------------------


class WrongGradient:
    """Right at its own fixed point, wrong elsewhere: no descent test can see it once it has stopped."""

    blocks = ("x",)

    def value(self, z):
        return 0.5 * float(np.sum(z["x"] ** 2))

    def grad(self, block, z):
        return z["x"] - 1.0

    def lipschitz(self, block, z):
        return 1.0


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.ProxGradient())], ids=["step", "embed"])
def test_a_wrong_gradient_is_found_out_even_at_its_fixed_point(update):
    problem = tecu.Problem(WrongGradient(), {"x": terms.Zero()})
    result = run(problem, update, {"x": np.ones(4)}, 5)
    assert result.status is tecu.Status.STALLED
    assert not result.certificate.holds
    assert "gradient test" in result.certificate.reason


@dataclass(frozen=True)
class WrongProx:
    """An l1 term whose prox shrinks the wrong way."""

    weight: float = 0.5
    is_convex: bool = True

    def value(self, x):
        return self.weight * float(np.abs(x).sum())

    def prox(self, x, step):
        return x + np.sign(x) * self.weight * step


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.ProxGradient())], ids=["step", "embed"])
def test_a_wrong_prox_is_found_out(update):
    problem = tecu.Problem(couplings.Linear(np.eye(4), np.ones(4)), {"x": WrongProx()})
    result = run(problem, update, {"x": np.full(4, 0.2)}, 8)
    assert not result.certificate.holds
    assert "prox" in result.certificate.reason or "Lyapunov" in result.certificate.reason


class TooSmallLipschitz:
    blocks = ("x",)

    def value(self, z):
        return 0.5 * float(np.sum(np.array([10.0, 1.0]) * z["x"] ** 2))

    def grad(self, block, z):
        return np.array([10.0, 1.0]) * z["x"]

    def lipschitz(self, block, z):
        return 2.0


def test_a_too_small_lipschitz_constant_is_found_out():
    result = run(tecu.Problem(TooSmallLipschitz(), {"x": terms.Zero()}), tecu.ProxLinear(), {"x": np.ones(2)}, 6)
    assert result.certificate.verdict is Verdict.DOES_NOT_HOLD
    assert "Lipschitz" in result.certificate.reason


class WrongMinimize(TooSmallLipschitz):
    def lipschitz(self, block, z):
        return 10.0

    def minimize(self, block, z, term, eta):
        return 0.9 * z[block]


def test_a_wrong_exact_update_is_found_out():
    result = run(tecu.Problem(WrongMinimize(), {"x": terms.Zero()}), tecu.Proximal(), {"x": np.ones(2)}, 30)
    assert not result.certificate.holds
    assert "minimize" in result.certificate.reason


# -- acceptance rules -----------------------------------------------------------------------------------------------


def test_stationary_is_not_minimal():
    """A point with a tiny error that raises the sub-problem is refused, on a non-convex block."""

    class ToTheWorstPole:
        """On the circle the farthest point from the target is stationary too."""

        endless = True

        def __call__(self, sub, u):
            while True:
                yield np.array([[-1.0], [1e-6]]) / math.hypot(1.0, 1e-6)

    target = couplings.MatrixFactorization(np.array([[2.0], [0.0]]))
    problem = tecu.Problem(target, {"W": terms.Box(1.0, 1.0), "D": terms.UnitColumns()})
    start = {"W": np.ones((1, 1)), "D": np.array([[0.8], [0.6]])}
    update = tecu.Embed(ToTheWorstPole(), eta=0.01, tau=1e-6 + 0.2, max_inner=2)
    with pytest.warns(RuntimeWarning, match="never moved"):
        result = run(problem, {"W": tecu.ProxLinear(), "D": update}, start, 8)
    values = result.history["value"]
    assert (np.diff(values) <= 1e-12).all()
    assert result.z["D"][0, 0] > 0.99


def test_garbage_falls_back_and_is_still_covered():
    case = dictionary()

    class Garbage:
        endless = True

        def __call__(self, sub, u):
            while True:
                yield sub.rng.normal(size=u.shape)

    result = run(case.problem, {"W": tecu.ProxLinear(), "D": embed(Garbage(), max_inner=4)}, case.start, 20)
    assert result.certificate.fallbacks == 20
    assert result.certificate.verdict is Verdict.HOLDS
    assert result.value < result.state.start_value


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
def test_a_proposal_that_is_not_finite_or_huge_is_not_looked_at(bad):
    case = dictionary()

    def broken(u):
        return np.full_like(u, bad)

    result = run(case.problem, {"W": tecu.ProxLinear(), "D": embed(broken)}, case.start, 6)
    assert result.certificate.holds
    assert np.isfinite(result.value)


def test_at_the_cap_keeping_what_descends_is_a_violation_and_keeping_what_is_covered_is_not():
    case = dictionary()
    kept, covered = (
        run(
            case.problem,
            {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ProxGradient(), eta=1e-3, max_inner=2, at_cap=rule)},
            case.start,
        )
        for rule in ("keep_if_descends", "keep_if_covered")
    )
    assert any(v.outcome is Outcome.KEPT for v in kept.state.visits)
    assert len(kept.certificate.violations) == sum(v.outcome is Outcome.KEPT for v in kept.state.visits)
    assert any(v.outcome is Outcome.COVERED for v in covered.state.visits)
    assert covered.certificate.holds


def test_fixed_tolerance_has_no_theorem():
    case = dictionary()
    update = tecu.Embed(strategies.ProxGradient(), eta=1.0, tolerance=tecu.FixedTolerance(0.1), max_inner=50)
    result = run(case.problem, {"W": tecu.ProxLinear(), "D": update}, case.start)
    assert result.certificate.verdict is Verdict.DOES_NOT_HOLD
    assert "no convergence theorem" in result.certificate.reason


def test_a_network_proposes_once_and_gradient_steps_finish():
    case = dictionary()
    calls = []

    def network(u):
        calls.append(1)
        return 0.9 * u

    update = tecu.Embed(strategies.first_visit(network), strategies.ProxGradient())
    result = run(case.problem, {"W": tecu.ProxLinear(), "D": update}, case.start)
    assert len(calls) == 1
    assert result.certificate.holds


# -- the verdict as a function of the visits ---------------------------------------------------------------------------


def state_with_faults(result, sweeps):
    visits = [replace(v, fault="made up") if v.sweep in sweeps else v for v in result.state.visits]
    return replace(result.state, visits=type(result.state.visits)(visits, len(visits)))


@pytest.mark.parametrize(
    ("sweeps", "verdict", "holds_from"),
    [
        ([], Verdict.HOLDS, 0),
        ([2, 3], Verdict.HOLDS_FROM, 3),
        ([34], Verdict.DOES_NOT_HOLD, None),  # a tail of 6 sweeps is less than 20 % of 40
        ([32], Verdict.HOLDS_FROM, 32),
        ([40], Verdict.DOES_NOT_HOLD, None),
    ],
)
def test_holds_from_needs_a_tail(sweeps, verdict, holds_from):
    case = three_blocks()
    result = run(case.problem, tecu.ProxLinear(), case.start, 40)
    certificate = certify(state_with_faults(result, sweeps))
    assert certificate.verdict is verdict
    assert certificate.holds_from == holds_from
    assert certificate.holds == (holds_from is not None)


@pytest.mark.parametrize("outcome", [Outcome.KEPT, Outcome.RESTED])
def test_a_faulty_visit_that_claims_nothing_counts_the_same_whether_chance_has_it_audited_or_not(outcome):
    case = three_blocks()
    state = run(case.problem, tecu.ProxLinear(), case.start, 40).state
    verdicts = set()
    for audited in (True, False):
        visits = [
            replace(v, fault="made up", outcome=outcome, audited=audited) if v.sweep == 3 else v for v in state.visits
        ]
        verdicts.add(certify(replace(state, visits=VisitLog(visits, len(visits)))).verdict)
    assert verdicts == {Verdict.HOLDS_FROM}


def test_holds_to_rounding_is_said():
    """A block at rest: errors at the level of rounding are accepted, and marked."""
    case = dictionary(dtype=np.float32)
    result = run(case.problem, tecu.Embed(strategies.FISTA(), max_inner=60), case.start, 400)
    assert result.certificate.holds
    floors = any(v.outcome is Outcome.ACCEPTED_BY_FLOOR for v in result.state.visits)
    assert (result.certificate.verdict is Verdict.HOLDS_TO_ROUNDING) == floors


def test_summary_names_what_is_assumed():
    case = three_blocks()
    text = run(case.problem, tecu.ProxLinear(), case.start).summary()
    for word in ("holds", "Kurdyka", "coercive", "residual", "||x||"):
        assert word in text


@pytest.mark.parametrize("sweeps", [1, 2])
def test_a_certificate_that_holds_does_not_pass_for_convergence(sweeps):
    """The words say so, on a run that has hardly begun; of one that does not hold there is nothing to be said."""
    case = three_blocks()
    result = run(case.problem, tecu.ProxLinear(), case.start, sweeps)
    assert result.certificate.holds
    assert result.certificate.residual > 1e-2
    broken = certify(state_with_faults(run(case.problem, tecu.ProxLinear(), case.start), (12,)))
    assert not broken.holds
    sentence = "not that the run has converged: how far it has come is what its residual and its stop status say"
    for text in (result.summary(), result.certificate.summary(), result._repr_html_()):
        assert text.count(sentence) == 1
    for text in (broken.summary(), broken._repr_html_()):
        assert sentence not in text


def test_the_residual_of_a_start_may_be_zero():
    """Why a certificate does not compare with it: codes of zero are critical where their non-zeros are counted."""
    case = dictionary()
    assert not case.start["W"].any()
    assert case.problem.stationarity(case.start) == 0.0
    assert run(case.problem, tecu.ProxLinear(), case.start).certificate.residual > 0.0


def test_the_gradient_test_raises_no_alarm_where_the_residual_is_zero():
    rng = np.random.default_rng(0)
    D, W = rng.normal(size=(6, 3)), rng.normal(size=(8, 3))
    problem = tecu.Problem(couplings.MatrixFactorization(D @ W.T), {"W": terms.Zero(), "D": terms.Zero()})
    result = run(problem, tecu.ProxLinear(), {"W": W + 1e-3, "D": D}, 5)
    exact = run(problem, tecu.ProxLinear(), {"W": W, "D": D}, 1)
    assert result.certificate.holds, result.certificate.reason
    assert exact.certificate.holds, exact.certificate.reason


def test_a_strategy_may_return_a_generator_instead_of_being_one():
    class Delegates:
        def __call__(self, sub, u):
            return strategies.FISTA()(sub, u)

    case = dictionary()
    result = run(case.problem, {"W": tecu.ProxLinear(), "D": embed(Delegates())}, case.start)
    assert result.certificate.holds
    assert result.certificate.fallbacks == 0


def test_a_rise_that_only_rounding_explains_is_told():
    case = dictionary(0)
    state = tecu.methods.palm(case.problem).run(case.start, stop.MaxIter(5)).state

    def verdict_of(values):
        visits = [
            replace(visit, value=value, descent=1.0, weight=0.0, move=1e-3, slack=1.0)
            for visit, value in zip(state.visits, values, strict=True)
        ]
        return certify(replace(state, start_value=100.0, visits=VisitLog(visits, len(visits))))

    falling = 99.0 - np.arange(len(state.visits))
    assert verdict_of(falling).verdict is Verdict.HOLDS
    raised, broken = falling.copy(), falling.copy()
    raised[4], broken[4] = falling[3] + 0.5, falling[3] + 1.5  # within the slack, and beyond
    found = verdict_of(raised)
    assert found.verdict is Verdict.HOLDS_TO_ROUNDING
    assert "Phi rose by up to 0.5 in a visit" in found.reason
    assert verdict_of(broken).violations


@pytest.mark.parametrize("rule", [stop.Stationarity(1e-6), stop.MaxIter(0), stop.TargetValue(1.0)], ids=repr)
def test_a_run_that_ends_at_its_start_is_told_why_there_is_nothing_to_cover(rule):
    problem = tecu.Problem(couplings.Linear(np.eye(3), np.ones(3)), {"x": terms.Zero()})
    solution = {"x": np.ones(3)}
    result = tecu.Solver(problem, tecu.ProxLinear()).run(solution, stop=rule)
    assert result.iterations == 0
    assert not result.certificate.holds
    assert "ended where it started" in result.certificate.reason
    assert result.certificate.residual == problem.stationarity(solution)
    for text in (result.summary(), result._repr_html_()):
        assert "nan" not in text
        assert "seen: )" not in text
    # ... and what the sentence proposes gives a verdict
    looked = tecu.Solver(problem, tecu.ProxLinear()).run(solution, stop=rule & stop.MaxIter(1))
    assert looked.iterations == 1
    assert looked.status is result.status
    assert looked.certificate.holds


def test_constants_that_grow_are_told_though_a_single_step_had_needed_a_large_one():
    case = dictionary(0)
    state = tecu.methods.palm(case.problem).run(case.start, stop.MaxIter(40)).state

    def is_told(constants):
        own = iter(constants)
        visits = [replace(v, move=1.0, lipschitz=next(own) if v.block == "D" else 1.0) for v in state.visits]
        certificate = certify(replace(state, visits=VisitLog(visits, len(visits))))
        return any("constants of block 'D', which grew" in said for said in certificate.assumptions)

    steady = np.ones(40)
    spike, growing = steady.copy(), steady.copy()
    spike[5] = 1e6
    growing[20:] = np.geomspace(1.0, 1e6, 20)
    assert not is_told(steady)
    assert not is_told(spike)
    assert is_told(growing)
    assert is_told(np.maximum(spike, growing))


@pytest.mark.parametrize(
    ("strategy", "cap", "told"), [("gradient", 2, True), ("gradient", 500, False), ("none", 2, True)]
)
def test_a_strategy_that_is_overruled_at_most_visits_is_told_to_be_of_no_use(strategy, cap, told):
    case = dictionary(0)
    embedded = strategies.ProxGradient() if strategy == "gradient" else (lambda u: u + 1.0)
    updates = {"W": tecu.ProxLinear(), "D": tecu.Embed(embedded, eta=1.0, c=0.25, max_inner=cap)}
    certificate = tecu.Solver(case.problem, updates).run(case.start, stop.MaxIter(12)).certificate
    assert certificate.holds
    assert (certificate.fallbacks > 6) == told
    assert [sentence.startswith("block 'D' fell back") for sentence in certificate.advice] == [True] * told
    assert ("advice: block 'D'" in certificate.summary()) == told
    assert ("Advice: block" in certificate._repr_html_()) == told


def test_tolerances_that_sum_up_are_counted_from_where_the_weight_is_settled():
    """With ``W = 0`` the coupling does not see ``D``: its weight is found at the second visit."""
    rng = np.random.default_rng(0)
    problem = tecu.Problem(
        couplings.MatrixFactorization(0.1 * rng.normal(size=(12, 15))),
        {"D": terms.UnitColumns(ball=True), "W": terms.L1(0.01)},
    )
    start = problem.project({"W": np.zeros((15, 4)), "D": rng.normal(size=(12, 4))})
    update = tecu.Embed(strategies.FISTA(), tolerance=tecu.SummableTolerance(10.0))
    result = tecu.Solver(problem, update).run(start, stop=stop.MaxIter(6))
    assert result.certificate.holds_from == 0, result.certificate.reason
    assert np.all(np.diff(result.history["lyapunov"]) < 0.0)


def test_a_block_that_finds_no_step_stays_where_it_is():
    H = couplings.Functions(lambda z: float(np.sum(np.cosh(z["x"]))), {"x": lambda z: -np.sinh(z["x"])})
    solver = tecu.Solver(tecu.Problem(H, {"x": terms.Zero()}), tecu.Embed(strategies.ProxGradient(), eta=1.0))
    start = {"x": np.array([1.0, 2.0])}
    result = solver.run(start, stop=stop.MaxIter(4))
    assert {visit.outcome for visit in result.state.visits} == {Outcome.RESTED}
    assert {visit.move for visit in result.state.visits} == {0.0}
    np.testing.assert_array_equal(result.z["x"], start["x"])
    assert not result.certificate.holds
    assert result.certificate.residual > 1.0  # and is not taken for critical


@pytest.mark.parametrize("seed", range(6))
def test_a_tau_of_ones_own_is_judged_in_a_visit_as_it_is_in_an_audit(seed):
    """The codes go to zero, and with them the curvature that the dictionary sees: ``tau = 1`` is too large by then."""
    rng = np.random.default_rng(seed)
    Y = np.random.default_rng(1).normal(size=(8, 10))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L1(1.0), "D": terms.SquaredL2(20.0)})
    start = {"W": rng.normal(size=(10, 3)).astype(np.float32), "D": rng.normal(size=(8, 3)).astype(np.float32)}
    embedded = tecu.Embed(strategies.ProxGradient(), eta=1e-3, c=1e-4, tau=1.0)
    certificate = tecu.Solver(problem, {"W": embedded, "D": tecu.ProxLinear()}).run(start).certificate
    assert certificate.holds, certificate.reason
