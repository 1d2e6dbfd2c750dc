"""The laws of the theory, on every problem and every combination of updates it admits."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tecu
from problems import ALL, GENERAL, KINDS, THREE_WITH_ALL_PAIRS, dictionary, three_blocks
from promises import promises, room
from tecu import stop, strategies
from tecu.certificate import lyapunov, violations

NINE_PAIRS = list(itertools.product(KINDS, repeat=2))
THREE_STRATEGIES = [strategies.ProxGradient(), strategies.FISTA(), strategies.ADMM()]


def run(problem, updates, start, rule, **options):
    """A run, at every visit of which the descent inequality holds, with the documented ``a`` and weights."""
    solver = tecu.Solver(problem, updates, **options)
    result = solver.run(start, stop=rule)
    state = result.state
    phi = lyapunov(state.start_value, state.visits)
    promised = promises(problem, solver.updates, state.visits)
    slack = room(state)
    for before, after, visit, (a, weight) in zip(phi[:-1], phi[1:], state.visits, promised, strict=True):
        assert visit.weight == pytest.approx(weight, rel=1e-6), visit
        assert after <= before - (1 - 1e-6) * a * visit.move**2 + slack, visit
        assert visit.slack <= slack
    assert violations(state.start_value, state.visits) == []
    return result


@pytest.mark.parametrize("case", THREE_WITH_ALL_PAIRS, ids=str)
@pytest.mark.parametrize("pair", NINE_PAIRS, ids="+".join)
def test_all_nine_pairs_descend(case, pair):
    updates = {block: KINDS[kind]() for block, kind in zip(case.problem.blocks, pair, strict=True)}
    result = run(case.problem, updates, case.start, stop.MaxIter(25))
    assert result.certificate.holds, result.certificate.reason
    assert result.certificate.descent_a > 0
    assert result.value < result.state.start_value


@pytest.mark.parametrize("case", GENERAL, ids=str)
@pytest.mark.parametrize("kinds", list(itertools.product(["prox-linear", "embed"], repeat=2)), ids="+".join)
@pytest.mark.parametrize("schedule", ["cyclic", "shuffled", "repeats"])
def test_embedded_and_prox_linear_mixes_descend(case, kinds, schedule):
    blocks = case.problem.blocks
    updates = {block: KINDS[kinds[i % 2]]() for i, block in enumerate(blocks)}
    order = [*blocks, blocks[-1], blocks[0]] if schedule == "repeats" else schedule
    result = run(case.problem, updates, case.start, stop.MaxIter(20), schedule=order)
    assert result.certificate.holds, result.certificate.reason


@pytest.mark.parametrize("strategy", THREE_STRATEGIES, ids=repr)
@pytest.mark.parametrize("case", [c for c in ALL if c.name != "without-lipschitz"], ids=str)
def test_every_strategy_descends_in_every_block(case, strategy):
    result = run(case.problem, tecu.Embed(strategy), case.start, stop.MaxIter(15))
    assert result.certificate.holds, result.certificate.reason


def test_three_kinds_on_three_blocks():
    case = three_blocks()
    updates = {"x": KINDS["embed"](), "v": KINDS["proximal"](), "w": KINDS["prox-linear"]()}
    result = run(case.problem, updates, case.start, stop.Stationarity(1e-7) | stop.MaxIter(2000))
    assert result.status is tecu.Status.CONVERGED
    assert result.certificate.holds


@pytest.mark.parametrize("rule", [tecu.SummableTolerance(1.0), tecu.MovingTolerance(0.1)], ids=repr)
def test_inexactness_rules_descend(rule):
    case = dictionary()
    update = tecu.Embed(strategies.ProxGradient(), eta=1.0, tolerance=rule, max_inner=50)
    result = run(case.problem, update, case.start, stop.MaxIter(25))
    assert result.certificate.holds, result.certificate.reason


def test_residual_vanishes_with_the_moves():
    """``||P||`` is bounded by the moves, so it falls as the run converges; and it measures stationarity of ``Psi``."""
    case = three_blocks()
    solver = tecu.Solver(case.problem, KINDS["embed"]())
    early, late = (solver.run(case.start, stop=stop.MaxIter(n)) for n in (5, 300))
    assert late.certificate.residual < 1e-4 * early.certificate.residual
    assert late.certificate.residual == pytest.approx(case.problem.stationarity(late.z), abs=1e-5)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_inputs_are_left_alone(case):
    kept = {block: x.copy() for block, x in case.start.items()}
    states = list(itertools.islice(tecu.Solver(case.problem, KINDS["embed"]()).iterate(case.start), 4))
    snapshots = [{b: np.array(x) for b, x in state.z.items()} for state in states]
    tecu.Solver(case.problem, KINDS["embed"]()).run(states[-1], stop=stop.MaxIter(8))
    for block, x in kept.items():
        np.testing.assert_array_equal(case.start[block], x)
    for state, snapshot in zip(states, snapshots, strict=True):
        for block, x in snapshot.items():
            np.testing.assert_array_equal(state.z[block], x)


@pytest.mark.parametrize("case", ALL, ids=str)
def test_history_and_values_agree_with_the_problem(case):
    result = tecu.Solver(case.problem, KINDS["embed"]()).run(case.start, stop=stop.MaxIter(7))
    history = result.history
    assert len(history["value"]) == result.iterations + 1
    assert history["value"][0] == pytest.approx(case.problem.value(case.start), rel=1e-12)
    assert history["value"][-1] == pytest.approx(case.problem.value(result.z), rel=1e-10)
    assert (np.diff(history["seconds"]) > 0).all()
    assert history["gradients"].sum() > 0
    for block in case.problem.blocks:
        assert history[f"inner_{block}"][1:].min() >= 1


def test_values_after_each_visit_are_those_of_the_problem():
    """``Psi`` after a visit is read off at the next one's start; recompute it by stopping there."""
    case = dictionary()
    updates = {"W": tecu.ProxLinear(), "D": tecu.ProxLinear()}
    one = tecu.Solver(case.problem, updates).run(case.start, stop=stop.MaxIter(1))
    z = {"W": one.z["W"], "D": case.start["D"]}
    assert one.state.visits[0].value == pytest.approx(case.problem.value(z), rel=1e-12)
