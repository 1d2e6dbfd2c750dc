"""The laws of the solver on data that nobody would choose: any scale, denormal, zero or doubled columns, rank 1."""

import math
import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.certificate import violations
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.lipschitz import largest_singular_square, power_iteration, start_vector

pytestmark = pytest.mark.fuzz
FUZZ = int(os.environ.get("TECU_FUZZ", "1"))
OPTIONS = {"deadline": None, "suppress_health_check": list(HealthCheck), "derandomize": FUZZ == 1}
UPDATES = {
    "prox-linear": lambda: tecu.ProxLinear(),
    "inertial": lambda: tecu.ProxLinear(extrapolation=tecu.Inertial()),
    "ADMM": lambda: tecu.Embed(strategies.ADMM()),
    "FISTA": lambda: tecu.Embed(strategies.FISTA()),
    "gradient": lambda: tecu.Embed(strategies.ProxGradient()),
}
TERMS = {
    "l0": lambda size: terms.L0(0.1 * size**2),
    "l1": lambda size: terms.L1(0.1 * size**2),
    "zero": lambda size: terms.Zero(),
    "non-negative": lambda size: terms.NonNegative(),
}
ODDITIES = ["plain", "zero columns", "doubled columns", "rank one", "denormal", "all zero", "one entry", "mixed scales"]


def matrix(seed, rows, columns, exponent, oddity):
    rng = np.random.default_rng(seed)
    Y = rng.normal(size=(rows, columns))
    if oddity == "zero columns":
        Y[:, ::2] = 0
    elif oddity == "doubled columns":
        Y[:] = Y[:, :1]
    elif oddity == "rank one":
        Y = np.outer(rng.normal(size=rows), rng.normal(size=columns))
    elif oddity == "denormal":
        return Y * 1e-310
    elif oddity == "all zero":
        return 0 * Y
    elif oddity == "one entry":
        Y = np.zeros((rows, columns))
        Y[0, 0] = 1
    elif oddity == "mixed scales":
        return Y * 10.0 ** np.maximum(exponent + rng.uniform(-12, 0, size=columns), -150)
    return Y * 10.0**exponent


CASES = {
    "seed": st.integers(0, 2**20),
    "shape": st.tuples(st.integers(1, 9), st.integers(1, 12), st.integers(1, 6)),
    "exponent": st.floats(-150, 150),
    "oddity": st.sampled_from(ODDITIES),
    "updates": st.tuples(st.sampled_from(sorted(UPDATES)), st.sampled_from(sorted(UPDATES))),
    "term": st.sampled_from(sorted(TERMS)),
}


def run(seed, shape, exponent, oddity, updates, term, sweeps=8):
    n, p, m = shape
    Y = matrix(seed, n, p, exponent, oddity)
    size = float(np.max(np.abs(Y)))
    problem = tecu.Problem(
        couplings.MatrixFactorization(Y, codes="W", dictionary="D"),
        {"W": TERMS[term](min(size, 1e150)), "D": terms.UnitColumns()},
    )
    rng = np.random.default_rng(seed + 1)
    start = problem.project({"W": size * rng.random((p, m)) / m, "D": rng.normal(size=(n, m))})
    solver = tecu.Solver(problem, dict(zip("WD", (UPDATES[name]() for name in updates), strict=True)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="block .* never moved", category=RuntimeWarning)
        return solver.run(start, stop=stop.MaxIter(sweeps))


@settings(max_examples=120 * FUZZ, **OPTIONS)
@given(**CASES)
def test_descent_and_finite_values_at_every_scale(seed, shape, exponent, oddity, updates, term):
    result = run(seed, shape, exponent, oddity, updates, term)
    state = result.state
    assert result.status is not tecu.Status.DIVERGED
    assert math.isfinite(result.value)
    assert all(np.isfinite(block).all() for block in result.z.values())
    assert violations(state.start_value, state.visits) == []
    assert result.value <= state.start_value * (1 + 1e-12)
    assert result.certificate.holds, result.certificate.reason
    lengths = np.linalg.norm(result.z["D"], axis=0)
    np.testing.assert_allclose(lengths, 1, rtol=1e-12)


@settings(max_examples=60 * FUZZ, **OPTIONS)
@given(**{**CASES, "exponent": st.integers(-490, 490)})
@example(seed=4316, shape=(1, 1, 6), exponent=-39, oddity="plain", updates=("ADMM", "ADMM"), term="l0")
def test_only_the_unit_changes_with_the_scale(seed, shape, exponent, oddity, updates, term):
    """Data times ``2^k`` give codes times ``2^k`` and the same dictionary: no threshold is hidden anywhere."""
    n, p, m = shape
    Y = matrix(seed, n, p, 0, "plain" if oddity == "denormal" else oddity)
    rng = np.random.default_rng(seed + 1)
    start = {"W": rng.random((p, m)), "D": rng.normal(size=(n, m))}
    found = []
    for k in (0, exponent):
        unit = 2.0**k
        price = {"l0": terms.L0(0.1 * unit**2), "l1": terms.L1(0.1 * unit)}.get(term, terms.NonNegative())
        problem = tecu.Problem(
            couplings.MatrixFactorization(Y * unit, codes="W", dictionary="D"), {"W": price, "D": terms.UnitColumns()}
        )
        solver = tecu.Solver(problem, dict(zip("WD", (UPDATES[name]() for name in updates), strict=True)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="block .* never moved", category=RuntimeWarning)
            result = solver.run(problem.project({"W": unit * start["W"], "D": start["D"]}), stop=stop.MaxIter(3))
        found.append((result.z["W"] / unit, result.z["D"], result.value / unit**2))
    for plain, scaled in zip(*found, strict=True):
        np.testing.assert_allclose(scaled, plain, rtol=1e-6, atol=1e-9)


# ---- other couplings ----


def least_squares(rng, size, oddity):
    A = matrix(int(rng.integers(2**20)), 5, 7, 0, oddity)
    term = [terms.Zero(), terms.L1(0.1 * size), terms.NonNegative(), terms.L0(0.1 * size**2)][rng.integers(4)]
    problem = tecu.Problem(couplings.Linear(A, rng.normal(size=5) * size), {"x": term})
    return problem, {"x": size * rng.random(7)}


def columns(rng, size, oddity):
    coupling = couplings.ColumnFactorization(np.abs(matrix(int(rng.integers(2**20)), 6, 8, 0, oddity)) * size, 2)
    problem = tecu.Problem(coupling, {block: terms.NonNegative() for block in coupling.blocks})
    lengths = {block: 8 if block.lower().startswith("w") else 6 for block in coupling.blocks}
    return problem, {block: math.sqrt(size) * rng.random(length) for block, length in lengths.items()}


def three_blocks(rng, size, oddity):
    A = matrix(int(rng.integers(2**20)), 5, 4, 0, oddity)
    coupling = couplings.Linear(A, rng.normal(size=5) * size)
    coupling = coupling + couplings.Difference("x", "v") + couplings.Difference("v", "w")
    priced = {"x": terms.L1(0.1 * size), "v": terms.L0(0.05 * size**2), "w": terms.NonNegative()}
    return tecu.Problem(coupling, priced), {block: size * rng.random(4) for block in priced}


def without_constants(rng, size, oddity):
    Y = matrix(int(rng.integers(2**20)), 4, 5, 0, oddity) * size

    def misfit(z):
        return np.outer(z["x"], z["y"]) - Y

    coupling = couplings.Functions(
        value=lambda z: 0.5 * float(np.sum(misfit(z) ** 2)),
        grads={"x": lambda z: misfit(z) @ z["y"], "y": lambda z: misfit(z).T @ z["x"]},
    )
    start = {"x": math.sqrt(size) * rng.normal(size=4), "y": math.sqrt(size) * rng.random(5)}
    return tecu.Problem(coupling, {"x": terms.Zero(), "y": terms.NonNegative()}), start


@settings(max_examples=60 * FUZZ, **OPTIONS)
@given(
    seed=st.integers(0, 2**20),
    make=st.sampled_from([least_squares, columns, three_blocks, without_constants]),
    exponent=st.floats(-70, 70),
    oddity=st.sampled_from([name for name in ODDITIES if name not in ("denormal", "mixed scales")]),
    update=st.sampled_from(sorted(UPDATES)),
)
@pytest.mark.filterwarnings("ignore:block .* never moved:RuntimeWarning")
def test_other_couplings_descend_at_every_scale(seed, make, exponent, oddity, update):
    # A coupling that is given by functions does not say how its values round: one that reaches 0 is left to the others.
    assume(make is not without_constants or oddity in ("plain", "zero columns"))
    problem, start = make(np.random.default_rng(seed), 10.0**exponent, oddity)
    result = tecu.Solver(problem, UPDATES[update]()).run(start, stop=stop.MaxIter(8))
    assert result.status is not tecu.Status.DIVERGED
    assert result.certificate.holds, result.certificate.reason
    assert result.value <= result.state.start_value * (1 + 1e-12)


# ---- faults that this once found ----


@pytest.mark.parametrize("exponent", [-150, -80, 0, 80, 150])
def test_lipschitz_constants_of_any_size(exponent):
    """Lengths of vectors, not their squares, must be in range."""
    F = np.random.default_rng(0).normal(size=(30, 7)) * 10.0**exponent
    truth = np.linalg.svd(F, compute_uv=False)[0]
    found = math.sqrt(largest_singular_square(F))
    assert truth <= found <= 1.02 * truth


@pytest.mark.parametrize("size", [2, 5, 40])
def test_a_vector_kept_from_before_may_belong_to_a_small_eigenvalue_now(size):
    rng = np.random.default_rng(size)
    U = np.linalg.qr(rng.normal(size=(size, size)))[0]
    memory = {}
    for order in (1, -1, 1):  # the eigenvalues change places
        A = U @ np.diag(np.linspace(1, 2, size)[::order]) @ U.T
        found = power_iteration(lambda v, A=A: A @ v, start_vector(size), memory)
        assert 2 * (1 - 1e-3) <= found <= 2 * 1.02


@pytest.mark.parametrize("exponent", [-300, 300])
def test_the_slack_for_rounding_keeps_its_proportion(exponent):
    """A slack of zero sees faults everywhere, one of infinity sees none."""
    slack = []
    for unit in (1.0, 2.0**exponent):
        result = run_scaled(unit)
        slack.append(np.array([visit.slack for visit in result.state.visits]) / unit**2)
    np.testing.assert_allclose(slack[1], slack[0], rtol=1e-6)


def run_scaled(unit):
    Y = np.random.default_rng(0).normal(size=(6, 20)) * unit
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(0.1 * unit**2), "D": terms.UnitColumns()})
    return tecu.methods.palm(problem).run(problem.project({"W": Y.T @ Y[:, :4] / unit, "D": Y[:, :4]}), stop.MaxIter(4))


def test_a_gradient_of_denormal_numbers_is_not_called_wrong():
    result = run(3, (5, 8, 3), 0, "denormal", ("prox-linear", "prox-linear"), "l1")
    assert all(check.passed for check in result.state.checks)


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-320, 1e-308, 1e-300])
def test_a_block_next_to_nothing_is_tested_like_one_that_is_zero(size):
    H = couplings.Functions(lambda z: float(0.5 * np.sum(z["x"] ** 2)), {"x": lambda z: z["x"]}, lipschitz={"x": 1.0})
    problem = tecu.Problem(H, {"x": terms.Zero()})
    result = tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.full(3, size)}, stop=stop.MaxIter(5))
    assert all(check.passed for check in result.state.checks)


# ---- dictionaries ----

ODD_DATA = {
    "rank one": lambda rng: np.outer(rng.normal(size=30), rng.normal(size=6)),
    "doubled samples": lambda rng: np.repeat(rng.normal(size=(3, 6)), 10, axis=0),
    "zero features": lambda rng: rng.normal(size=(30, 6)) * np.array([1, 0, 0, 1, 0, 1]),
    "one sample": lambda rng: np.ones((1, 6)),
    "one feature": lambda rng: rng.normal(size=(30, 1)),
    "mixed scales": lambda rng: rng.normal(size=(30, 6)) * 10.0 ** rng.uniform(-8, 8, (30, 1)),
    "constant": lambda rng: np.full((30, 6), 3.0),
    "zero": lambda rng: np.zeros((30, 6)),
}


@pytest.mark.parametrize("solver", ["auto", "tecu", "palm"])
def test_denormal_data_for_a_dictionary_are_refused(solver):
    # All their squares are zero: no code would explain anything of them.
    X = np.random.default_rng(0).normal(size=(30, 6)) * 1e-310
    with pytest.raises(ValueError, match="multiply X by a number"):
        L0DictionaryLearning(8, solver=solver, max_iter=4, random_state=0).fit(X)


@pytest.mark.parametrize("name", ODD_DATA)
@pytest.mark.parametrize("solver", ["auto", "tecu", "palm"])
@pytest.mark.filterwarnings("ignore:block .* never moved:RuntimeWarning")
def test_dictionaries_of_odd_data(name, solver):
    X = ODD_DATA[name](np.random.default_rng(0))
    for more in ({}, {"n_nonzero": 2}, {"positive": True}, {"constraint": "ball"}, {"dtype": np.float32}):
        model = L0DictionaryLearning(8, solver=solver, max_iter=4, random_state=0, **more).fit(X)
        assert model.certificate_.holds, (more, model.certificate_.reason)
        assert np.isfinite(model.components_).all()
        assert np.isfinite(model.objective_)
        assert np.isfinite(model.transform(X).data).all()


@pytest.mark.parametrize(
    ("dtype", "k"), [("float64", -480), ("float64", 480), ("float32", -50), ("float32", 30), ("float32", 50)]
)
@pytest.mark.parametrize("solver", ["auto", "palm", "ipalm", "bcu"])
def test_dictionaries_at_every_scale(solver, dtype, k):
    """In float32 that is data of 1e-15 or 1e15: samples in odd units are no reason to fail."""
    X = make_sparse_data(150, 12, 16, 2, random_state=0)[0].astype(dtype)
    unit = X.dtype.type(2.0**k)
    plain, scaled = (
        L0DictionaryLearning(16, solver=solver, max_iter=5, random_state=0).fit(data) for data in (X, X * unit)
    )
    close = {"rtol": 1e-9, "atol": 1e-12} if dtype == "float64" else {"rtol": 1e-3, "atol": 1e-4}
    np.testing.assert_allclose(scaled.components_, plain.components_, **close)
    np.testing.assert_allclose(scaled.codes_.toarray() / unit, plain.codes_.toarray(), **close)
    assert scaled.certificate_.holds, scaled.certificate_.reason
    np.testing.assert_allclose(scaled.score(X * unit) / float(unit) ** 2, plain.score(X), rtol=1e-4)
