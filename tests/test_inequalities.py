"""The inequalities that the certificate rests on, one by one, on cases with numbers worked out by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

import tecu
from problems import dictionary, orthonormal_dictionary, retinex, three_blocks
from promises import promises
from tecu import Candidate, Outcome, couplings, methods, stop, strategies, terms
from tecu.audit import audit_claim, claim_of
from tecu.certificate import lyapunov, violations
from tecu.fingerprint import fingerprint
from tecu.inexact import Estimate, Judgement, Numbers, estimate, judge
from tecu.state import Visit
from tecu.updates.extrapolation import Nesterov

R = 2.0**-53  # the unit round-off of float64


def parabola(previous, *, eta=0.0, **known):
    """The sub-problem of ``H(x) = 1/2 ||x||^2`` at ``previous``, with what is ``known`` of earlier visits."""
    coupling = couplings.Functions(
        lambda z: 0.5 * float(z["x"] @ z["x"]), {"x": lambda z: z["x"]}, {"x": 1.0}, {"x": lambda z, v: v}
    )
    problem = tecu.Problem(coupling, {"x": terms.Zero()})
    z = {"x": np.atleast_1d(np.asarray(previous))}
    return replace(tecu.SubProblem.of(problem, "x", z, eta=eta), **known)


# -- the fall of the Lyapunov function --------------------------------------------------------------------------------


def visited(value, *, block="x", move=2.0, a=0.5, **own):
    return Visit(0, 1, block, "embed", Outcome.ACCEPTED, move, math.nan, 1.0, value, descent=a, **own)


@pytest.mark.parametrize(("share", "seen"), [(0.0, True), (0.5, True), (0.99, True), (1.01, False), (3.0, False)])
def test_a_fall_by_less_than_a_times_the_square_of_the_move_is_a_violation(share, seen):
    """``a move^2 = 0.5 * 2^2 = 2``, from ``Psi = 10``."""
    assert len(violations(10.0, [visited(10.0 - share * 2.0)])) == seen


@pytest.mark.parametrize(("slack", "seen"), [(0.0, True), (0.09, True), (0.11, False)])
def test_the_slack_is_what_may_be_missing_of_the_fall(slack, seen):
    """2 are promised, 1.9 come."""
    assert len(violations(10.0, [visited(8.1, slack=slack)])) == seen


@pytest.mark.parametrize(("value", "seen"), [(7.5, True), (7.01, True), (6.99, False)])
def test_a_visit_has_to_pay_for_what_it_holds(value, seen):
    """The weight 0.25 holds ``0.25 * 2^2 = 1``; with the 2 that are promised, ``Psi`` has to fall to 7."""
    visits = [visited(value, weight=0.25)]
    assert lyapunov(10.0, visits) == [10.0, value + 1.0]
    assert len(violations(10.0, visits)) == seen


@pytest.mark.parametrize(("rise", "seen"), [(0.24, False), (0.26, True)])
def test_what_is_held_for_a_block_pays_for_a_rise_at_its_next_visit_and_for_no_other(rise, seen):
    """A move of 1 after one of 2 sets ``0.25 (2^2 - 1^2) = 0.75`` free, and ``a = 0.5`` is promised: 0.25 are left."""
    first = visited(5.0, weight=0.25)
    own = visited(5.0 + rise, move=1.0, weight=0.25)
    assert len(violations(10.0, [first, own])) == seen
    other = replace(own, block="y")  # the same step of another block sets nothing free
    assert lyapunov(10.0, [first, other])[-1] == 5.0 + rise + 1.0 + 0.25
    assert len(violations(10.0, [first, other])) == 1


@pytest.mark.parametrize(("rise", "seen"), [(0.19, False), (0.21, True)])
def test_what_is_taken_out_of_the_reserve_pays_for_a_rise(rise, seen):
    """0.7 of the reserve are set free, and 0.5 are promised."""
    assert len(violations(10.0, [visited(10.0 + rise, move=1.0, reserve_before=1.0, reserve=0.3)])) == seen


# -- the acceptance tests ---------------------------------------------------------------------------------------------

RULE = tecu.MovingTolerance(0.49)


def judged(change, rule=RULE, *, previous=0.0, error=0.45, point=1.0, **known):
    """From ``previous`` to ``point``, with ``||e|| = <e, move> = error``."""
    sub = parabola(previous, eta=1.0, **known)
    point = np.array([point])
    numbers = Numbers(error_norm=error, error_along_move=error, change=change)
    return judge(sub, Estimate(sub, point, point, 2.0, None, numbers=numbers), rule).judgement


def test_at_a_first_visit_the_sub_problem_may_not_rise():
    """The error 0.45 is below ``0.49 * 1``, and ``<e, move> = 0.45`` would allow a rise by 0.4: there is no reserve."""
    assert judged(0.4) is Judgement.NO_DESCENT
    assert judged(-0.01) is Judgement.ACCEPT_BY_OWN_MOVE


def test_after_a_move_that_is_lost_in_rounding_the_sub_problem_may_not_rise():
    assert judged(0.4, visits=1, previous_move=0.0) is Judgement.NO_DESCENT
    assert judged(-0.01, visits=1, previous_move=0.0) is Judgement.ACCEPT_BY_OWN_MOVE


def test_at_a_later_visit_it_may_rise_by_the_error_along_the_move():
    """Now ``0.49 * 1`` was held for it at the last move, of 1; a last move of 0.9 allows ``||e|| = 0.441`` only."""
    assert judged(0.44, visits=1, previous_move=1.0) is Judgement.ACCEPT
    assert judged(0.46, visits=1, previous_move=1.0) is Judgement.NO_DESCENT
    assert judged(0.44, visits=1, previous_move=0.9) is Judgement.GO_ON


@pytest.mark.parametrize(
    "rule", [tecu.MovingTolerance(0.2), tecu.SummableTolerance(1e-20), tecu.FixedTolerance(1e-20)], ids=repr
)
@pytest.mark.parametrize("previous_move", [None, 0.0])
def test_every_rule_accepts_an_exact_minimiser_at_once(rule, previous_move):
    """At the start of ``1/2 ||x - b||^2`` from ``b`` nothing moves, and nothing is wrong with that."""
    b = np.array([3.0, -1.0])
    problem = tecu.Problem(couplings.Linear(np.eye(2), b), {"x": terms.Zero()})
    sub = replace(tecu.SubProblem.of(problem, "x", {"x": b}), previous_move=previous_move)
    step = tecu.Embed(strategies.ProxGradient(), eta=1.0, tolerance=rule).visit(sub)
    assert step.outcome in (Outcome.ACCEPTED_BY_OWN_MOVE, Outcome.ACCEPTED_BY_FLOOR)
    assert step.inner == 1
    np.testing.assert_allclose(step.u, b, rtol=1e-15)


@pytest.mark.parametrize("rule", [tecu.FixedTolerance(1e-20), tecu.SummableTolerance(1e3, power=77.0)], ids=repr)
def test_an_accuracy_below_rounding_is_not_a_licence_for_any_error(rule):
    """No error but one at the level of rounding is near 1e-20, however far the sub-problem falls."""
    known = {"visits": 1, "previous_move": 1.0}
    assert rule.bound(1, 1.0) < 1e-19
    assert judged(-1.0, rule, previous=1.0, error=1e-3, point=2.0, **known) is Judgement.GO_ON
    assert judged(-1.0, rule, previous=1.0, error=1e-16, point=2.0, **known) is Judgement.ACCEPT_BY_FLOOR


# -- how much passes for rounding -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("units", "judgement"), [(1, Judgement.ACCEPT_BY_FLOOR), (4, Judgement.ACCEPT_BY_FLOOR), (100, Judgement.GO_ON)]
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_error_well_above_rounding_is_not_taken_for_it(units, judgement, dtype):
    """``e = tau (u - u~) - (grad phi(u) - grad phi(u~))``.

    Two points that are off by ``r ||u||`` each and two gradients that are off by ``r ||grad||`` make
    ``2 r (tau ||u|| + ||grad||)`` of it, and the operations themselves as much again. In units of
    ``r (tau ||u|| + ||grad||)`` that is 4; at ``u = 3`` with ``H = u^2/2`` and ``tau = 2`` a unit is ``9 r``.
    """
    sub = parabola(np.array([3.0], dtype), eta=1.0, visits=1, previous_move=0.0)
    sub.coupling_at_previous()
    r = float(np.finfo(dtype).eps) / 2
    numbers = Numbers(error_norm=units * 9 * r, error_along_move=0.0, change=-1.0)
    found = Estimate(sub, sub.previous, sub.previous.copy(), 2.0, None, numbers=numbers)
    assert judge(sub, found, RULE).judgement is judgement


@pytest.mark.parametrize(("units", "outcome"), [(8, Outcome.KEPT), (100, Outcome.FELL_BACK)])
@pytest.mark.parametrize("entries", [1, 400])
def test_a_rise_well_above_rounding_is_not_kept(entries, units, outcome):
    """``H = 1/2 ||x||^2`` with ``||x|| = ||grad H|| = 1``, uphill by a share ``s`` of ``x``: ``H`` rises by ``s``.

    Entries that are off by ``r ||x||`` each are worth ``r sqrt(entries) ||grad H||``: the unit. With ``eta = 1`` and
    ``tau = 4`` the prox point of a proposal ``u`` is ``u - (2 u - x)/4``: from ``(3/2 + 2 s) x`` it is ``(1 + s) x``.
    """
    x = np.full(entries, 1 / math.sqrt(entries))
    s = units * math.sqrt(entries) * R
    update = tecu.Embed(lambda u: (1.5 + 2 * s) * u, eta=1.0, tau=4.0, max_inner=1, at_cap="keep_if_descends")
    step = update.visit(parabola(x))
    assert step.outcome is outcome
    if outcome is Outcome.KEPT:  # it did go uphill
        assert np.linalg.norm(step.u - (1 + s) * x) <= 0.25 * s


# -- the table of the constants ---------------------------------------------------------------------------------------

TABLE = {
    "proximal": (orthonormal_dictionary(), tecu.Proximal(0.3)),
    "prox-linear": (dictionary(), tecu.ProxLinear(1.3)),
    "prox-linear, convex": (retinex(), tecu.ProxLinear(1.3)),
    "inertial": (dictionary(), tecu.ProxLinear(1.3, tecu.Inertial(0.3, 0.1))),
    "inertial, not safeguarded": (dictionary(), tecu.ProxLinear(1.3, tecu.Inertial(0.3, 0.1), safeguard=False)),
    "embed": (dictionary(), tecu.Embed(strategies.FISTA(), eta=1.7, c=0.8)),
    "embed, settings found": (dictionary(), tecu.Embed(strategies.FISTA())),
    "embed, summable": (dictionary(), tecu.Embed(strategies.FISTA(), eta=1.7, tolerance=tecu.SummableTolerance(1.0))),
}


@pytest.mark.parametrize("name", TABLE)
def test_the_recorded_constants_are_those_of_the_documented_table(name):
    case, update = TABLE[name]
    updates = dict.fromkeys(case.problem.blocks, update)
    visits = tecu.Solver(case.problem, updates).run(case.start, stop=stop.MaxIter(8)).state.visits
    for visit, (a, weight) in zip(visits, promises(case.problem, updates, visits), strict=True):
        assert visit.descent == pytest.approx(a, rel=1e-9)
        assert visit.weight == pytest.approx(weight, rel=1e-9)
        if isinstance(update, tecu.Embed) and update.eta is not None:
            assert visit.tau - visit.lipschitz == pytest.approx(update.eta)
        if isinstance(update, tecu.ProxLinear):
            if visit.outcome is Outcome.STEP:
                assert visit.tau == pytest.approx(1.3 * visit.lipschitz)
            assert visit.tau >= 1.3 * visit.lipschitz * (1 - 1e-12)


@pytest.mark.parametrize(("alpha", "beta"), [(0.2, 0.2), (0.4, 0.0), (0.0, 0.4), (0.45, 1.0)])
@pytest.mark.parametrize("schedule", ["cyclic", ["x", "v", "w", "v"]], ids=["cyclic", "repeats"])
def test_the_published_inertial_method_is_covered_from_its_first_step_where_constants_stay(alpha, beta, schedule):
    """``delta/2 ||move||^2`` is what the second step may rise by: the first has to fall by that much, from rest."""
    case = three_blocks()
    solver = tecu.Solver(case.problem, tecu.ProxLinear(1.1, tecu.Inertial(alpha, beta), safeguard=False), schedule)
    result = solver.run(case.start, stop=stop.MaxIter(6))
    assert result.certificate.holds_from == 0, result.certificate.reason


# -- Nesterov's weights ------------------------------------------------------------------------------------------------


def growing(z):
    """A constant for ``x``, whose curvature is at most 1: from 1 to 10 while ``y`` goes to 0."""
    return 1 + 9 / (1 + float(z["y"][0]) ** 2)


def test_bcu_equals_its_twin_where_the_constant_grows():
    """``H = 1/2 (x_1^2 + x_2^2 / 50) + 1/2 y^2``: ``y`` falls to an eleventh at each visit, and ``L`` of ``x`` jumps.

    The weight that the growth of ``L`` bounds is no more than ``0.9999 sqrt(L_old / L)``.
    """
    curvatures = np.array([1.0, 0.02])
    coupling = couplings.Functions(
        lambda z: float(0.5 * np.sum(curvatures * z["x"] ** 2) + 0.5 * np.sum(z["y"] ** 2)),
        {"x": lambda z: curvatures * z["x"], "y": lambda z: z["y"]},
        {"x": growing, "y": 1.0},
    )
    problem = tecu.Problem(coupling, {"x": terms.Zero(), "y": terms.Zero()})
    updates = {"x": tecu.ProxLinear(1.1, Nesterov()), "y": tecu.ProxLinear(1.1)}
    start = {"x": np.array([1.0, 1.0]), "y": np.array([1e6])}
    x = older = start["x"]
    t, last, y, bounded, kept = 1.0, None, 1e6, 0, 0
    for k, state in enumerate(islice(tecu.Solver(problem, updates).iterate(start), 14)):
        L = growing({"y": [y]})
        omega = 0.0
        if k:
            following = (1 + math.sqrt(1 + 4 * t * t)) / 2
            free, bound = (t - 1) / following, 0.9999 * math.sqrt((last or L) / L)
            bounded += bound < free
            omega, t, last = min(free, bound), following, L
        center = x + omega * (x - older)
        new = center - curvatures * center / (1.1 * L)
        fall = 0.5 * np.sum(curvatures * (x**2 - new**2))
        if k and fall < 1e-3 * 1.1 * L * np.sum((new - x) ** 2):
            new = x - curvatures * x / (1.1 * L)
        elif omega > 0.5:
            kept += 1
        older, x, y = x, new, y - y / 1.1
        np.testing.assert_allclose(state.z["x"], x, rtol=1e-9)
        np.testing.assert_allclose(state.z["y"], y, rtol=1e-9, atol=1e-9)
    assert bounded >= 1
    assert kept >= 1


@pytest.mark.parametrize(("short", "outcome"), [(0.002, Outcome.REDONE), (0.01, Outcome.EXTRAPOLATED)])
def test_an_extrapolated_step_has_to_lower_the_objective_by_a_thousandth(short, outcome):
    """Over the minimum of ``H = x^2/2`` and up again from 1 to ``-(1 - short)``.

    ``H`` falls by ``short - short^2/2``, and ``1e-3 gamma move^2 = 1e-3 * 1.1 * (2 - short)^2`` is about 0.0044.
    A step from ``center`` leads to ``center (1 - 1/1.1) = center / 11``: so ``center`` is to be ``-11 (1 - short)``.
    At ``t = 10`` the weight is ``9 / t+`` with ``t+ = (1 + sqrt(401)) / 2``; the rest is where ``before`` has to be.
    """
    center = -11 * (1 - short)
    omega = 9 / ((1 + math.sqrt(401)) / 2)
    before = np.array([1 - (center - 1) / omega])
    sub = parabola(1.0, before=before, visits=1, previous_move=abs(before[0] - 1), notes={"nesterov": 10.0})
    step = tecu.ProxLinear(1.1, Nesterov()).visit(sub)
    assert step.outcome is outcome
    # redone: from 1 itself
    assert step.u[0] == pytest.approx(-(1 - short) if outcome is Outcome.EXTRAPOLATED else 1 / 11)


def test_a_step_by_nesterovs_weights_is_asked_for_no_more_than_a_plain_one_promises():
    """``1e-3 gamma`` with ``gamma = 1.1 * 2``; ``(gamma - L)/2 = 5e-4 * 2`` where ``gamma`` is ``1.001 * 2`` only."""
    assert Nesterov().plan({}, 2.0, 1.1).descent == pytest.approx(2.2e-3)
    assert Nesterov().plan({}, 2.0, 1.001).descent == pytest.approx(1e-3)


def test_a_redone_step_never_promises_less_than_nothing():
    """``H = 65/2 x^2`` without a constant: 100 is remembered, and back-tracking goes on from 70, which will do.

    Then ``gamma = 77`` and the step, of a non-convex term, promises ``a = (77 - 65)/2 = 6``. The inertial rule wants
    ``delta/2 = 100 (0.2 + 0.2) / (1 - 0.05 - 0.4) / 2 = 36`` of it for the next step: half is what it gets.
    The inertial step leads from ``1 + 0.2 (1 - 50) = -8.8`` far uphill, so it is redone.
    """
    coupling = couplings.Functions(lambda z: float(32.5 * np.sum(z["x"] ** 2)), {"x": lambda z: 65 * z["x"]})
    problem = tecu.Problem(coupling, {"x": terms.L0(1e-9)})
    known = {"before": np.array([50.0]), "visits": 1, "previous_move": 49.0, "notes": {"curvature": 100.0}}
    sub = replace(tecu.SubProblem.of(problem, "x", {"x": np.ones(1)}), **known)
    step = tecu.ProxLinear(1.1, tecu.Inertial(0.2, 0.2, 0.05)).visit(sub)
    assert step.outcome is Outcome.REDONE
    assert (step.tau, step.lipschitz) == pytest.approx((77.0, 65.0))
    assert (step.descent, step.weight) == pytest.approx((3.0, 3.0))


# -- embedded updates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("factor", "outcome"), [(1.9, Outcome.COVERED), (2.1, Outcome.FELL_BACK)])
def test_what_is_kept_as_covered_has_an_error_of_twice_tau_times_its_move_at_most(factor, outcome):
    """The fallback's own is at most ``(tau + L + eta) ||move||`` with ``tau >= L + eta``."""

    def claims(sub, u):
        point, tau = np.array([0.6]), 5.0  # a move of 0.4
        yield Candidate(u, prox_point=point, tau=tau, numbers=Numbers(factor * tau * 0.4, 0.0, -0.1))

    update = tecu.Embed(claims, eta=1.0, max_inner=1, at_cap="keep_if_covered")
    assert update.visit(parabola(1.0)).outcome is outcome


def test_a_block_whose_eta_was_not_settled_is_judged_by_its_own_move():
    """``Phi`` holds ``1/16 move^2`` of the first visit, with ``eta = 1``: too little for the error that 83 would allow.

    ``H = 1000/2 y^2 x_1^2 + 1/2 (y - 1)^2`` with ``||x||_1``. First ``y = 0``: ``H`` does not depend on ``x``, and
    ``x_2`` goes down by 1. Then ``y = 1/1.1``: ``L = 826``, ``eta = 83``, ``c = 21``. A strategy that goes up again by
    0.15 makes an error of ``1 + 0.15 eta = 13``, less than ``c`` times the last move. But ``Psi`` rises by 0.15 and the
    weight ``c^2/eta = 5.2`` puts ``5.2 * 0.15^2 = 0.12`` on top of it, where only ``1/16`` is set free.
    """
    coupling = couplings.Functions(
        lambda z: float(500 * z["y"][0] ** 2 * z["x"][0] ** 2 + 0.5 * (z["y"][0] - 1) ** 2),
        {
            "x": lambda z: np.array([1000 * z["y"][0] ** 2 * z["x"][0], 0.0]),
            "y": lambda z: 1000 * z["x"][0] ** 2 * z["y"] + z["y"] - 1,
        },
        {"x": lambda z: 1000 * float(z["y"][0]) ** 2, "y": lambda z: 1000 * float(z["x"][0]) ** 2 + 1},
    )

    def uphill_at_the_second_visit(sub, u):
        if sub.visits == 1:
            # up by m = 0.15: u~_2 + 1/tau = u_2 - eta (u_2 - previous_2) / tau, and tau - eta = L
            tau = sub.lipschitz()
            target = sub.previous[1] + 0.15
            yield np.array([0.0, (tau * target + 1 - sub.eta * sub.previous[1]) / (tau - sub.eta)])
        while True:
            u, _ = sub.prox_gradient_step(u)
            yield u

    problem = tecu.Problem(coupling, {"x": terms.L1(1.0), "y": terms.Zero()})
    updates = {"x": tecu.Embed(uphill_at_the_second_visit), "y": tecu.ProxLinear()}
    result = tecu.Solver(problem, updates).run({"x": np.array([0.0, 9.0]), "y": np.zeros(1)}, stop=stop.MaxIter(6))
    first, _, second = result.state.visits[:3]
    assert (first.weight, first.move) == pytest.approx((1 / 16, 1.0))
    assert second.weight == pytest.approx(0.1 * 1000 / 1.1**2 / 16)
    assert second.error <= 4 * second.weight * second.move  # c = eta/4, c^2/eta = eta/16
    assert result.certificate.violations == []


# -- claims -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [-0.5, -0.01, 0.0, 0.01, 0.5])
@pytest.mark.parametrize("name", ["error_norm", "error_along_move", "slope", "change"])
def test_a_claim_that_is_off_by_a_hundredth_is_false(name, share):
    """``H = x^2/2`` from 1 with ``eta = 1``, ``tau = 4``: 2 is proposed, ``2 - (2 + 1)/4 = 1.25`` its prox point.

    There the gradient of the sub-problem, which is the error, is ``1.25 + 0.25 = 1.5``. Along the move of 0.25 that is
    0.375, and the sub-problem rises by ``(1.25^2 - 1)/2 + 0.25^2/2 = 0.3125``.
    """
    sub = parabola(1.0, eta=1.0)
    sub.coupling_at_previous()
    truth = {"error_norm": 1.5, "error_along_move": 0.375, "slope": 0.375, "change": 0.3125}
    found = estimate(sub, Candidate(np.array([2.0])), 4.0)
    claim = replace(claim_of(found), change=0.3125)
    for known, value in truth.items():
        assert getattr(claim, known) == pytest.approx(value)
    said = replace(claim, **{name: (1 + share) * truth[name]})
    fault = audit_claim(sub, said, found.point)
    assert (fault is None) == (share == 0.0)
    assert fault is None or "claimed a wrong" in fault


# -- what an update is cannot be set ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["kind", "theorem"])
@pytest.mark.parametrize("update", [tecu.Proximal, tecu.ProxLinear])
def test_kind_and_theorem_belong_to_the_class(update, name):
    with pytest.raises(TypeError, match=name):
        update(**{name: "anything"})
    assert name not in repr(update())


def test_the_fingerprint_of_an_update_is_that_of_its_class_and_settings():
    with pytest.raises(TypeError):
        tecu.Proximal(1.0, "anything")
    marks = [fingerprint(update) for update in (tecu.Proximal(1.5), tecu.Proximal(2.0), tecu.ProxLinear(1.5))]
    assert len(set(marks)) == 3
    assert fingerprint(tecu.Proximal(1.5)) == marks[0]
    assert tecu.Solver(orthonormal_dictionary().problem, tecu.Proximal(1.5)).updates["W"].kind == "proximal"
    assert methods.palm(dictionary().problem).updates["W"].kind == "prox-linear"
