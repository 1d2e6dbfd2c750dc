"""Bad input is refused before the first step, in a sentence that names the block and the argument."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.sparse import csr_array

import tecu
from problems import dictionary
from tecu import couplings, stop, strategies, terms

CASE = dictionary()


def with_block(block, value):
    return {**CASE.start, block: value}


def shape(block):
    return CASE.start[block].shape


@pytest.mark.parametrize(
    ("start", "error", "words"),
    [
        ({"W": CASE.start["W"]}, ValueError, ["'D'", "missing"]),
        ({**CASE.start, "Q": np.zeros(3)}, ValueError, ["'Q'", "does not know"]),
        (with_block("W", np.full(shape("W"), np.nan)), ValueError, ["'W'", "NaN"]),
        (with_block("W", np.full(shape("W"), np.inf)), ValueError, ["'W'", "Inf"]),
        (with_block("W", np.zeros(shape("W"), dtype=int)), TypeError, ["'W'", "int64", "float"]),
        (with_block("W", np.zeros((0, 16))), ValueError, ["'W'", "empty"]),
        (with_block("W", np.zeros((7, 16))), ValueError, ["'W'", "(7, 16)"]),
        (with_block("W", [[0.0] * 16] * 60), TypeError, ["'W'", "list"]),
        (with_block("D", 2 * CASE.start["D"]), ValueError, ["'D'", "outside the domain", "project"]),
        ([CASE.start], TypeError, ["dict", "list"]),
    ],
)
def test_bad_starts(start, error, words):
    with pytest.raises(error) as caught:
        tecu.methods.palm(CASE.problem).run(start, stop=stop.MaxIter(1))
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tecu.Embed(strategies.FISTA(), eta=1.0, c=0.6), ["0 < 2c < eta", "c=0.6", "eta=1.0"]),
        (lambda: tecu.Embed(strategies.FISTA(), eta=1.0, c=0.5), ["0 < 2c < eta"]),
        (lambda: tecu.Embed(strategies.FISTA(), eta=-1.0), ["eta"]),
        (lambda: tecu.Embed(strategies.FISTA(), c=0.1), ["without eta"]),
        (lambda: tecu.Embed(strategies.FISTA(), strategies.ADMM()), ["endless", "steps("]),
        (lambda: tecu.Embed(), ["at least one strategy"]),
        (lambda: tecu.Embed(strategies.FISTA(), at_cap="hope"), ["at_cap", "'hope'"]),
        (lambda: tecu.Embed(strategies.FISTA(), max_inner=0), ["max_inner"]),
        (lambda: tecu.ProxLinear(1.0), ["step_factor > 1"]),
        (lambda: tecu.Proximal(0.0), ["eta > 0"]),
        (lambda: tecu.Inertial(0.6, 0.2), ["alpha=0.6"]),
        (lambda: tecu.Solver(CASE.problem, {"W": tecu.ProxLinear()}), ["'D'", "no update"]),
        (lambda: tecu.Solver(CASE.problem, {"W": tecu.ProxLinear(), "Q": tecu.ProxLinear()}), ["'Q'"]),
        (lambda: tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule=["W"]), ["never visits", "'D'"]),
        (lambda: tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule=["W", "E"]), ["'E'"]),
        (lambda: tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule="random"), ["'random'", "cyclic"]),
        (lambda: tecu.Problem(CASE.problem.coupling, {"W": terms.L0(0.1)}), ["'D'", "terms.Zero()"]),
        (lambda: tecu.FixedTolerance(0.0), ["positive"]),
        (lambda: tecu.SummableTolerance(1.0, power=1.0), ["power"]),
        (lambda: stop.MaxIter(-1), ["-1"]),
        (lambda: tecu.Proximal(10**400), ["eta > 0"]),  # no float holds it
    ],
)
def test_bad_settings(make, words):
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tecu.Embed(strategies.FISTA), ["FISTA()"]),
        (lambda: tecu.Embed("FISTA"), ["callable"]),
        (lambda: tecu.Solver(CASE.problem, {"W": "palm", "D": tecu.ProxLinear()}), ["'W'", "not an update"]),
        (lambda: tecu.Solver(CASE.problem, tecu.ProxLinear), ["'W'", "not an update", "ProxLinear()"]),
        (lambda: tecu.Solver(None, tecu.ProxLinear()), ["must be a tecu.Problem", "None"]),
        (lambda: tecu.Problem(object(), {"W": terms.L0(0.1)}), ["no method 'value'"]),
        (lambda: tecu.Problem(CASE.problem.coupling, {"W": 3, "D": terms.Zero()}), ["'W'", "lacks value, prox"]),
        (lambda: tecu.Problem(CASE.problem.coupling, {}), ["non-empty dict"]),
        (lambda: tecu.methods.palm(CASE.problem).run(CASE.start, stop=10), ["stop must be a rule"]),
    ],
)
def test_bad_types(make, words):
    with pytest.raises(TypeError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)


NO_NUMBERS = [None, "1", [1.0], 1j, np.nan, True, np.ones(2)]


@pytest.mark.parametrize("wrong", NO_NUMBERS, ids=repr)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (tecu.Proximal, "Proximal needs eta"),
        (tecu.ProxLinear, "ProxLinear needs step_factor"),
        (tecu.Inertial, "Inertial needs .* alpha"),
        (tecu.Nesterov, "Nesterov needs .* bound"),
        (tecu.MovingTolerance, "MovingTolerance needs a positive c"),
        (tecu.FixedTolerance, "FixedTolerance needs a positive accuracy"),
        (tecu.SummableTolerance, "SummableTolerance needs first"),
        (lambda power: tecu.SummableTolerance(1.0, power), "SummableTolerance needs .* power"),
        (lambda c: tecu.Embed(strategies.FISTA(), eta=1.0, c=c), "Embed needs 0 < 2c < eta"),
        (lambda eta: tecu.Embed(strategies.FISTA(), eta=eta), "Embed needs eta"),
        (lambda tau: tecu.Embed(strategies.FISTA(), tau=tau), "Embed needs tau"),
        (lambda count: tecu.Embed(strategies.FISTA(), max_inner=count), "Embed needs max_inner"),
        (lambda count: strategies.steps(strategies.FISTA(), count), "steps"),
        (lambda seed: tecu.Solver(CASE.problem, tecu.ProxLinear(), seed=seed), "Solver: seed must be a whole number"),
        (stop.MaxIter, "MaxIter"),
        (stop.MaxTime, "MaxTime"),
        (stop.RelativeChange, "RelativeChange"),
        (lambda patience: stop.RelativeChange(1e-3, patience), "RelativeChange"),
        (stop.Stationarity, "Stationarity"),
        (stop.TargetValue, "TargetValue"),
    ],
)
def test_a_setting_that_is_no_number_is_named(make, name, wrong):
    """Except that ``None`` is how some say that they are to be chosen."""
    if wrong is None and name in ("Embed needs 0 < 2c < eta", "Embed needs eta", "Embed needs tau"):
        make(wrong)
        return
    with pytest.raises(ValueError, match=f"(?s){name}.*{re.escape(repr(wrong))}"):
        make(wrong)


@pytest.mark.parametrize("wrong", [None, "one", 1j, -1.0, np.nan, np.inf, np.ones(2)], ids=repr)
@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda alpha: couplings.Retinex(np.ones((2, 2)), alpha=alpha), "Retinex: alpha must be a finite number >= 0"),
        (lambda weight: couplings.Difference(weight=weight), "Difference: weight must be a finite number >= 0"),
        (lambda count: couplings.ColumnFactorization(np.eye(2), count), "ColumnFactorization: rank must be a whole"),
        (lambda strength: strategies.Denoiser(np.sort, strength), "Denoiser: strength must be a finite number >= 0"),
        (strategies.OrthogonalMatchingPursuit, "OrthogonalMatchingPursuit: n_nonzero must be a whole number >= 1"),
    ],
)
def test_a_setting_of_a_part_that_is_no_number_is_named(make, name, wrong):
    if wrong is None and name.startswith("Orthogonal"):
        make(wrong)
        return
    with pytest.raises((TypeError, ValueError), match=f"(?s){name}.*{re.escape(repr(wrong))}"):
        make(wrong)


SQUARE, SPARSE = np.eye(3), csr_array(np.eye(3))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: couplings.MatrixFactorization(SQUARE, mask=SPARSE), "MatrixFactorization: mask"),
        (lambda: couplings.MatrixFactorization(SQUARE, weights=SPARSE), "MatrixFactorization: weights"),
        (lambda: couplings.Convolution(SQUARE, kernel=SPARSE), "Convolution: kernel"),
        (lambda: couplings.Retinex(SQUARE, beta=1.0, anchor=SPARSE), "Retinex: anchor"),
        (lambda: couplings.Retinex(SQUARE).value({"I": SPARSE, "R": SQUARE}), "block 'I' of Retinex"),
        (lambda: couplings.Convolution(SQUARE).value({"x": SPARSE, "k": SQUARE}), "block 'x' of Convolution"),
        (lambda: couplings.Convolution(SQUARE).value({"x": SQUARE, "k": SPARSE}), "block 'k' of Convolution"),
    ],
)
def test_a_sparse_array_where_only_a_dense_one_will_do_is_named(make, name):
    with pytest.raises(TypeError, match=f"{name} must be .*dense.* got a .*; use .toarray"):
        make()


def test_a_rank_may_come_from_numpy():
    assert couplings.ColumnFactorization(np.eye(2), np.int64(2)).blocks == ("d0", "w0", "d1", "w1")


@pytest.mark.parametrize("seed", [-1, 1.5])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(ValueError, match=f"seed must be a whole number >= 0, got {seed}"):
        tecu.Solver(CASE.problem, tecu.ProxLinear(), seed=seed)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (None, "schedule must be 'cyclic', 'shuffled', a list of blocks or a function, got None"),
        (3, "a list of blocks or a function, got 3"),
        ({"W", "D"}, "a list of blocks or a function, got {"),
        (lambda: ["W", "D"], "function must take t, or t and rng; it takes ()"),
        (lambda a, b, c: ["W", "D"], "function must take t, or t and rng; it takes (a, b, c)"),
        (lambda t: None, "function must return a list of blocks, got None for sweep 1"),
        (lambda t: "WD", "function must return a list of blocks, got 'WD' for sweep 1"),
    ],
)
def test_a_schedule_that_names_no_blocks_is_refused(schedule, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule=schedule).run(CASE.start, stop=stop.MaxIter(1))


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        (print, "a list of functions of the state, got <built-in function print>; put it in brackets"),
        ("print", "a list of functions of the state, got 'print'"),
        (None, "a list of functions of the state, got None"),
        ([print, None], "number 2 of 2 must be a function, got None"),
    ],
)
def test_callbacks_that_cannot_be_called_are_refused_before_the_first_step(callbacks, words):
    with pytest.raises(TypeError, match=re.escape(words)):
        tecu.Solver(CASE.problem, tecu.ProxLinear()).run(CASE.start, stop=stop.MaxIter(1), callbacks=callbacks)


@pytest.mark.parametrize("ask", [CASE.problem.value, CASE.problem.stationarity, CASE.problem.project])
def test_a_problem_asked_about_a_block_that_is_missing_says_which(ask):
    with pytest.raises(ValueError, match="block 'D' is missing"):
        ask({"W": CASE.start["W"]})
    with pytest.raises(TypeError, match="must be a dict of block name to array, got NoneType"):
        ask(None)


def test_proximal_without_a_closed_form_proposes_embed():
    with pytest.raises(TypeError, match=r"block 'W'.*closed form.*Embed"):
        tecu.methods.pam(CASE.problem).run(CASE.start)


def test_a_gradient_of_the_wrong_shape_is_refused():
    coupling = couplings.Functions(value=lambda z: 0.0, grads={"x": lambda z: np.zeros(4)})
    problem = tecu.Problem(coupling, {"x": terms.Zero()})
    with pytest.raises(ValueError, match=r"block 'x'.*gradient.*\(4,\).*\(3,\)"):
        tecu.methods.palm(problem).run({"x": np.zeros(3)})


def test_a_proposal_of_the_wrong_shape_is_refused():
    update = tecu.Embed(lambda u: u[:-1], strategies.FISTA())
    with pytest.raises(ValueError, match=r"block 'D'.*proposed \(9, 16\)"):
        tecu.Solver(CASE.problem, {"W": tecu.ProxLinear(), "D": update}).run(CASE.start)


def test_project_makes_a_start_feasible():
    start = with_block("D", 2 * CASE.start["D"])
    projected = CASE.problem.project(start)
    np.testing.assert_allclose(projected["D"], CASE.start["D"], atol=1e-15)
    assert projected["W"] is start["W"]
    tecu.methods.palm(CASE.problem).run(projected, stop=stop.MaxIter(1))


def blow_up(after):
    """A coupling that turns NaN at its ``after``-th gradient."""
    count = {"n": 0}

    def grad(z):
        count["n"] += 1
        return np.full(3, np.nan) if count["n"] > after else z["x"]

    return couplings.Functions(
        value=lambda z: 0.5 * float(np.sum(z["x"] ** 2)), grads={"x": grad}, lipschitz={"x": 1.0}
    )


@pytest.mark.filterwarnings("ignore:invalid value")
def test_nan_in_mid_run_returns_the_last_good_state():
    solver = tecu.methods.palm(tecu.Problem(blow_up(6), {"x": terms.Zero()}))
    result = solver.run({"x": np.ones(3)}, stop=stop.MaxIter(100))
    assert result.status is tecu.Status.DIVERGED
    assert "last good state" in result.status.value
    assert np.isfinite(result.z["x"]).all()
    assert np.isfinite(result.value)
    assert len(result.history["value"]) == result.iterations + 1


@pytest.mark.filterwarnings("ignore:invalid value")
def test_iterate_ends_when_the_run_diverges():
    solver = tecu.methods.palm(tecu.Problem(blow_up(6), {"x": terms.Zero()}))
    states = list(solver.iterate({"x": np.ones(3)}))
    assert states
    assert np.isfinite(states[-1].z["x"]).all()


def test_a_block_that_never_moves_is_warned_about():
    problem = tecu.Problem(CASE.problem.coupling, {"W": terms.L0(1e9), "D": terms.UnitColumns()})
    with pytest.warns(RuntimeWarning, match="block 'W' never moved"):
        result = tecu.methods.palm(problem).run(CASE.start, stop=stop.MaxIter(3))
    assert result.certificate.holds
