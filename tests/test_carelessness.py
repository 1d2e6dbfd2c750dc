"""What users do without meaning harm: memory under any name, work in place, one buffer for all gradients."""

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms

rng = np.random.default_rng(0)
A, b = rng.normal(size=(30, 20)), rng.normal(size=30)


def value(z):
    return 0.5 * float(np.sum((A @ z["x"] - b) ** 2))


def slope(z):
    return A.T @ (A @ z["x"] - b)


def solved(coupling, update, term=None, start=None, sweeps=60, **options):
    problem = tecu.Problem(coupling, {"x": terms.L1(0.1) if term is None else term})
    start = np.ones(20) if start is None else start
    return tecu.Solver(problem, update, **options).run({"x": start}, stop=stop.MaxIter(sweeps))


def two_wells(z):
    return float(np.sum((z["x"] ** 2 - 1) ** 2 + 0.1 * z["x"]))


NAMES = [
    "noise",
    "noise_visit",
    "measured_curvature",
    "curvature",
    "eta",
    "products",
    "coupling",
    "power",
    "nesterov",
    "astray",
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kept", [0.1, 1e6, "text", [1.0, 2.0]])
def test_a_strategy_may_keep_anything_under_any_name(name, kept):
    def other_well(sub, u):
        sub.memory[name] = kept
        while True:
            yield -np.sign(sub.previous) * 0.99

    H = couplings.Functions(two_wells, {"x": lambda z: 4 * z["x"] * (z["x"] ** 2 - 1) + 0.1})
    result = solved(H, tecu.Embed(other_well, eta=1e-2, c=4.9e-3), terms.Zero(), np.ones(3))
    assert result.state.memory["x"][name] == kept
    assert result.certificate.holds
    assert np.max(np.diff(result.history["lyapunov"])) <= 1e-9


def test_the_name_that_the_solver_uses_is_refused():
    def taking(sub, u):
        sub.memory["engine"] = 1.0
        yield u

    with pytest.raises(ValueError, match=r"block 'x': sub.memory\['engine'\] belongs to the solver"):
        solved(couplings.Functions(value, {"x": slope}), tecu.Embed(taking, eta=1.0))


UPDATES = [
    tecu.ProxLinear(),
    tecu.Embed(strategies.ProxGradient(), eta=1e-4),
    tecu.Embed(strategies.FISTA(), eta=1e-8),
]


@pytest.mark.parametrize("update", UPDATES, ids=["prox-linear", "prox-gradient", "fista"])
def test_gradients_may_all_be_written_to_the_same_array(update):
    buffer = np.empty(20)

    def reused(z):
        np.dot(A.T, A @ z["x"] - b, out=buffer)
        return buffer

    one, other = (solved(couplings.Functions(value, {"x": g}), update) for g in (reused, slope))
    np.testing.assert_array_equal(one.z["x"], other.z["x"])
    assert one.certificate.verdict is other.certificate.verdict


def descent(sub, u):
    constant = sub.lipschitz() or 200.0
    while True:
        u = sub.prox(u - sub.grad(u) / constant, 1.0 / constant)
        yield u


def descent_in_place(sub, u):
    constant = sub.lipschitz() or 200.0
    while True:
        u[:] = sub.prox(u - sub.grad(u) / constant, 1.0 / constant)
        yield u


WAYS = {
    "by itself": lambda strategy: [strategy],
    "bounded": lambda strategy: [strategies.steps(strategy, 20), strategies.ProxGradient()],
    "at first": lambda strategy: [strategies.first_visit(strategies.steps(strategy, 5)), strategies.ProxGradient()],
}


@pytest.mark.parametrize("way", WAYS)
def test_a_strategy_may_work_in_place(way):
    results = []
    for strategy in (descent, descent_in_place):
        seen = []

        def keep(state, seen=seen):
            seen.append((state.z["x"], state.z["x"].copy()))

        problem = tecu.Problem(couplings.Functions(value, {"x": slope}), {"x": terms.L1(0.1)})
        solver = tecu.Solver(problem, tecu.Embed(*WAYS[way](strategy), eta=1.0))
        results.append(solver.run({"x": np.ones(20)}, stop=stop.MaxIter(20), callbacks=[keep]))
        assert all(np.array_equal(kept, then) for kept, then in seen)  # states are not changed afterwards
    np.testing.assert_array_equal(results[0].z["x"], results[1].z["x"])
    assert results[1].certificate.verdict is results[0].certificate.verdict
    assert results[1].certificate.fallbacks == results[0].certificate.fallbacks


def test_the_gradient_at_the_start_is_computed_once_though_a_strategy_gets_a_copy():
    calls = []

    def counted(z):
        calls.append(1)
        return slope(z)

    def asking(sub, u):
        before = len(calls)
        sub.grad(sub.previous)
        sub.grad(u)
        assert len(calls) - before <= 1
        u += 1.0
        np.testing.assert_allclose(sub.grad(u), slope({"x": u}) + sub.eta)  # no longer where it came from
        yield sub.previous

    solved(couplings.Functions(value, {"x": counted}), tecu.Embed(asking, eta=1.0, max_inner=1), sweeps=1)


@pytest.mark.parametrize(("size", "wrong"), [(10_000, 1), (100_000, 30)])
@pytest.mark.parametrize("term", [terms.L1(1.0), terms.L0(0.5)])
def test_a_few_wrong_entries_of_a_large_gradient_are_found(size, wrong, term):
    found = 0
    for seed in range(4):
        y = 3 * np.random.default_rng(seed).normal(size=size)

        def forgetful(z, y=y):
            gradient = z["x"] - y
            gradient[:wrong] = 0
            return gradient

        H = couplings.Functions(
            lambda z, y=y: 0.5 * float(np.sum((z["x"] - y) ** 2)), {"x": forgetful}, lipschitz={"x": 1.0}
        )
        found += not solved(H, tecu.ProxLinear(), term, np.zeros(size), 5, seed=seed).certificate.holds
    assert found >= 3  # an entry that happens to be right is not wrong


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (lambda z: slope(z).tolist(), "block 'x': the coupling's gradient must be an array, got a list"),
        (lambda z: None, "block 'x': the coupling's gradient must be an array, got a NoneType"),
        (lambda z: slope(z) + 0j, "block 'x': the coupling's gradient is complex; take its real part"),
    ],
)
def test_what_is_no_gradient_is_refused(gradient, words):
    with pytest.raises(TypeError, match=words):
        solved(couplings.Functions(value, {"x": gradient}), tecu.ProxLinear())


@pytest.mark.parametrize("made", [np.atleast_1d, complex])
def test_what_is_no_value_is_refused(made):
    with pytest.raises(TypeError, match="Functions: value must return a number that is real, got"):
        solved(couplings.Functions(lambda z: made(value(z)), {"x": slope}), tecu.ProxLinear())


def test_a_run_that_diverged_can_be_summed_up():
    H = couplings.Functions(lambda z: float(-np.sum(z["x"] ** 4)), {"x": lambda z: -4 * z["x"] ** 3})
    with np.errstate(all="ignore"):
        result = solved(H, tecu.ProxLinear(), terms.Zero(), np.ones(3), 200)
        assert "Diverged" in str(result.summary())
        assert result.certificate.residual > 1e100


@pytest.mark.parametrize(("growth", "told"), [(1.0, False), (1.05, True), (1.3, True), (2.0, True)])
def test_constants_that_grow_without_end_are_told(growth, told):
    true, visits = np.linalg.norm(A, 2) ** 2, []

    def growing(z):
        visits.append(1)
        return true * growth ** len(visits)

    result = solved(couplings.Functions(value, {"x": slope}, lipschitz={"x": growing}), tecu.ProxLinear(), sweeps=200)
    assert told == any("grew from" in assumed for assumed in result.certificate.assumptions)
    assert any("constants of the steps stay bounded" in assumed for assumed in result.certificate.assumptions)


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())], ids=["prox-linear", "embed"])
def test_an_h_with_a_kink_is_found_out(update):
    """``|<w, x>|`` added to a square: steps are the shorter the nearer the kink is, and the run ends there anyhow."""
    w = np.random.default_rng(1).normal(size=20)
    H = couplings.Functions(
        lambda z: value(z) + 20 * abs(float(w @ z["x"])), {"x": lambda z: slope(z) + 20 * np.sign(w @ z["x"]) * w}
    )
    result = solved(H, update, sweeps=100)
    assert not result.certificate.holds
    assert "the gradient jumps by" in result.certificate.reason


def test_constants_of_steps_that_are_lost_in_rounding_are_not_spoken_of():
    """Near a solution with ``H = 0`` differences of values are noise; that says nothing of ``H``."""
    rng = np.random.default_rng(0)
    M, x = rng.normal(size=(80, 10)), rng.normal(size=10)
    b = (M @ x) ** 2
    H = couplings.Functions(
        lambda z: 0.25 * float(np.mean(((M @ z["x"]) ** 2 - b) ** 2)),
        {"x": lambda z: M.T @ (((M @ z["x"]) ** 2 - b) * (M @ z["x"])) / 80},
    )
    for seed in range(4):
        start = {"x": x + 0.1 * np.random.default_rng(seed).normal(size=10)}
        solver = tecu.Solver(tecu.Problem(H, {"x": terms.Zero()}), tecu.Embed(strategies.FISTA()))
        certificate = solver.run(start, stop=stop.RelativeChange(1e-6) | stop.MaxIter(300)).certificate
        assert not any("grew from" in said for said in certificate.assumptions)


def test_a_strategy_tried_by_hand_keeps_its_memory_where_the_caller_has_it():
    memory = {}
    problem = tecu.Problem(couplings.Functions(value, {"x": slope}), {"x": terms.L1(0.1)})
    tecu.SubProblem.of(problem, "x", {"x": np.ones(20)}, 1.0, memory).memory["dual"] = 2.0
    assert memory == {"dual": 2.0}
