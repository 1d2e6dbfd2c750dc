"""What once went wrong for users of the engine: settings, domains, schedules, scales, arrays of other kinds."""

import numpy as np
import pytest
from scipy.sparse import csr_array

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.state import ForeignState, Status

RANDOM = np.random.default_rng(0)
A, B = RANDOM.normal(size=(30, 12)), RANDOM.normal(size=30)


def least_squares(A=A, b=B, offset=0.0, factor=1.0):
    return couplings.Functions(
        lambda z: 0.5 * float(np.sum((A @ z["x"] - b) ** 2)) + offset,
        {"x": lambda z: factor * (A.T @ (A @ z["x"] - b))},
    )


def scaled(z):
    return A @ (z["x"] * z["s"]) - B


PRODUCT = couplings.Functions(
    lambda z: 0.5 * float(scaled(z) @ scaled(z)),
    {"x": lambda z: z["s"] * (A.T @ scaled(z)), "s": lambda z: z["x"] * (A.T @ scaled(z))},
)


@pytest.mark.parametrize("c", [-1.0, 0.0, np.nan, np.inf])
def test_a_tolerance_needs_a_positive_factor(c):
    with pytest.raises(ValueError, match="positive c"):
        tecu.MovingTolerance(c)


def test_a_tolerance_is_compared_with_the_eta_that_was_found():
    problem = tecu.Problem(couplings.Linear(A, B), {"x": terms.L1(0.1)})
    solver = tecu.Solver(problem, tecu.Embed(strategies.FISTA(), tolerance=tecu.MovingTolerance(1e6)))
    with pytest.raises(ValueError, match=r"block 'x': Embed needs 0 < 2c < eta"):
        solver.run({"x": np.ones(12)}, stop=stop.MaxIter(3))


def test_an_inertial_step_that_is_redone_promises_descent():
    problem = tecu.Problem(PRODUCT, {"x": terms.L0(0.05), "s": terms.Box(0.0, 1.0)})
    solver = tecu.Solver(problem, tecu.ProxLinear(extrapolation=tecu.Inertial(0.45, 1.0)))
    result = solver.run({"x": np.ones(12), "s": np.full(12, 0.5)}, stop=stop.MaxIter(200))
    assert any(visit.outcome.name == "REDONE" for visit in result.state.visits)
    assert result.certificate.descent_a > 0
    assert result.certificate.holds


def test_a_step_that_promises_no_descent_is_a_violation():
    from dataclasses import replace

    from tecu.certificate import certify

    problem = tecu.Problem(couplings.Linear(A, B), {"x": terms.L1(0.1)})
    state = tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.ones(12)}, stop=stop.MaxIter(3)).state
    visits = tecu.state.VisitLog([replace(visit, descent=-1.0) for visit in state.visits], len(state.visits))
    assert not certify(replace(state, visits=visits)).holds


def test_a_test_that_cannot_tell_is_listed():
    """Beside 1e16 nothing is left of ``H`` in its values; beside 1e14 enough to refute a gradient of zero."""

    def certificate(offset):
        problem = tecu.Problem(least_squares(offset=offset, factor=0.0), {"x": terms.Zero()})
        return tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.ones(12)}, stop=stop.MaxIter(5)).certificate

    assert any("told nothing" in assumption for assumption in certificate(1e16).assumptions)
    assert "differences say" in certificate(1e14).reason


def test_a_state_of_other_functions_is_refused():
    def solver(A, b):
        return tecu.Solver(tecu.Problem(least_squares(A, b), {"x": terms.L1(0.1)}), tecu.ProxLinear())

    half = solver(A, B).run({"x": np.ones(12)}, stop=stop.MaxIter(20))
    assert solver(A, B).run(half.state, stop=stop.MaxIter(40)).certificate.holds
    with pytest.raises(ForeignState, match="had the objective"):
        solver(0.5 * A, 0.5 * B).run(half.state, stop=stop.MaxIter(40))


class CountsWithoutAProx:
    """``0.5 ||x||_0`` with the identity for a prox."""

    is_convex = False

    def value(self, x):
        return 0.5 * np.count_nonzero(x)

    def prox(self, x, step):
        return x.copy()


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())])
def test_a_prox_that_never_drops_what_is_counted_is_found_out(update):
    random = np.random.default_rng(0)
    problem = tecu.Problem(
        couplings.MatrixFactorization(random.normal(size=(20, 60))),
        {"W": CountsWithoutAProx(), "D": terms.UnitColumns()},
    )
    start = problem.project({"W": random.normal(size=(60, 5)), "D": random.normal(size=(20, 5))})
    result = tecu.Solver(problem, {"W": update, "D": tecu.ProxLinear()}).run(start, stop=stop.MaxIter(60))
    assert "prox of block 'W' is not a minimiser" in result.certificate.reason


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_factorisation_that_shrinks_to_zero_converges(dtype):
    random = np.random.default_rng(0)
    problem = tecu.Problem(
        couplings.MatrixFactorization((0.1 * random.normal(size=(20, 25))).astype(dtype)),
        {"W": terms.SquaredL2(10.0), "D": terms.SquaredL2(10.0)},
    )
    start = {"W": random.normal(size=(25, 3)).astype(dtype), "D": random.normal(size=(20, 3)).astype(dtype)}
    result = tecu.Solver(problem, tecu.ProxLinear()).run(start)
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert result.certificate.holds


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())])
def test_a_coupling_with_a_domain_is_not_left(update):
    c = np.array([0.5, -0.3, 0.8, -12.0])

    def value(z):
        return float(np.sum(z["x"] * np.log(z["x"]) - c * z["x"])) if np.all(z["x"] > 0) else np.inf

    def gradient(z):
        with np.errstate(invalid="ignore"):
            return np.log(z["x"]) + 1 - c

    problem = tecu.Problem(couplings.Functions(value, {"x": gradient}), {"x": terms.Zero()})
    result = tecu.Solver(problem, update).run({"x": np.array([10.0, 10.0, 10.0, 1e-4])}, stop=stop.MaxIter(200))
    assert result.certificate.holds, result.certificate.reason
    assert np.all(result.z["x"] > 0)


@pytest.mark.parametrize("scale", [1e-30, 1e-12, 1.0, 1e12])
@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())])
def test_the_unit_of_a_bilinear_coupling_does_not_matter(scale, update):
    Q = np.random.default_rng(3).normal(size=(8, 9))
    H = couplings.Functions(
        lambda z: scale * float(z["u"] @ Q @ z["v"]),
        {"u": lambda z: scale * (Q @ z["v"]), "v": lambda z: scale * (Q.T @ z["u"])},
    )
    problem = tecu.Problem(H, {"u": terms.UnitColumns(), "v": terms.UnitColumns()})
    result = tecu.Solver(problem, update).run({"u": np.eye(8)[0], "v": np.eye(9)[0]}, stop=stop.MaxIter(200))
    assert result.value / scale == pytest.approx(-np.linalg.norm(Q, 2), rel=1e-6)
    assert result.certificate.holds


@pytest.mark.filterwarnings("ignore:block .* never moved:RuntimeWarning")
def test_blocks_that_rest_in_a_sweep_are_not_taken_for_converged():
    H = couplings.Functions(
        lambda z: 0.5 * float(z["x"] @ z["x"] + (z["y"] - 3) @ (z["y"] - 3)),
        {"x": lambda z: z["x"], "y": lambda z: z["y"] - 3},
    )
    problem = tecu.Problem(H, {"x": terms.Zero(), "y": terms.Zero()})
    start = {"x": np.zeros(3), "y": np.zeros(3)}
    for schedule in (lambda t: ["x"] if t % 2 else ["y"], lambda t: ["x"] if t % 5 == 1 else ["y"]):
        result = tecu.Solver(problem, tecu.ProxLinear(), schedule=schedule).run(start)
        assert result.status is Status.CONVERGED
        np.testing.assert_allclose(result.z["y"], 3, atol=1e-2)


def test_a_function_that_works_in_place_changes_no_state():
    def shrunk(u):
        u *= 0.9
        return u

    problem = tecu.Problem(couplings.Linear(A, B), {"x": terms.L1(0.1)})
    solver = tecu.Solver(problem, tecu.Embed(shrunk, strategies.FISTA()))
    states = solver.iterate({"x": np.ones(12)})
    first = next(states)
    before = first.z["x"].copy()
    for _ in range(3):
        next(states)
    np.testing.assert_array_equal(first.z["x"], before)
    assert solver.run({"x": np.ones(12)}, stop=stop.MaxIter(20)).certificate.holds


def test_results_stay_in_the_kind_precision_and_shape_of_the_block():
    torch = pytest.importorskip("torch")
    problem = tecu.Problem(couplings.Linear(A, B), {"x": terms.L1(0.1)})
    guess = tecu.Embed(lambda u: 0.9 * torch.as_tensor(u).to(torch.float32), strategies.FISTA())
    result = tecu.Solver(problem, guess).run({"x": np.ones(12)}, stop=stop.MaxIter(10))
    assert type(result.z["x"]) is np.ndarray
    assert result.z["x"].dtype == np.float64
    H = couplings.Functions(
        lambda z: 0.5 * float(np.sum(z["x"] ** 2)),
        {"x": lambda z: z["x"]},
        minimize={"x": lambda z, term, eta: np.zeros(1)},
    )
    with pytest.raises(ValueError, match=r"minimize returned \(1,\), the block has shape \(5,\)"):
        tecu.Solver(tecu.Problem(H, {"x": terms.Zero()}), tecu.Proximal()).run({"x": np.ones(5)}, stop=stop.MaxIter(2))
    with pytest.raises(TypeError, match="one library"):
        tecu.Solver(tecu.Problem(PRODUCT, {"x": terms.Zero(), "s": terms.Zero()}), tecu.ProxLinear()).run(
            {"x": np.ones(12), "s": torch.ones(12, dtype=torch.float64)}
        )


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: stop.MaxIter(2.5), "whole count"),
        (lambda: stop.MaxIter(float("nan")), "whole count"),
        (lambda: stop.Stationarity(1e-3, every=0), "every >= 1"),
        (lambda: stop.MaxIter(3) | 5, "another rule"),
        (lambda: stop.When(3), "function of the state"),
        (lambda: stop.RelativeChange("a"), "tol >= 0"),
        (lambda: tecu.Embed(strategies.FISTA(), max_inner=float("nan")), "max_inner >= 1"),
    ],
)
def test_what_a_setting_may_be_is_said(make, word):
    with pytest.raises((ValueError, TypeError), match=word):
        make()


def test_a_step_found_among_noise_is_not_held_against_the_run():
    from scipy.special import expit

    for seed in range(7):
        random = np.random.default_rng(seed)
        X, y = random.normal(size=(80, 15)).astype(np.float32), np.sign(random.normal(size=80)).astype(np.float32)

        def margin(z, X=X, y=y):
            return y * (X @ z["w"] + z["b"])

        H = couplings.Functions(
            lambda z, m=margin: float(np.logaddexp(0, -m(z)).sum(dtype=np.float64)),
            {
                "w": lambda z, m=margin, X=X, y=y: X.T @ (-y * expit(-m(z))),
                "b": lambda z, m=margin, y=y: (-y * expit(-m(z))).sum(keepdims=True),
            },
        )
        problem = tecu.Problem(H, {"w": terms.L1(0.5), "b": terms.Zero()})
        start = {"w": np.zeros(15, np.float32), "b": np.zeros(1, np.float32)}
        result = tecu.Solver(problem, tecu.Embed(strategies.FISTA()), seed=seed).run(start, stop=stop.MaxIter(150))
        assert result.certificate.holds, result.certificate.reason


def test_keys_that_a_file_cannot_keep_are_refused(tmp_path):
    from dataclasses import replace

    problem = tecu.Problem(couplings.Linear(A, B), {"x": terms.L1(0.1)})
    state = tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.ones(12)}, stop=stop.MaxIter(1)).state
    with pytest.raises(TypeError, match="the key 0"):
        tecu.save_state(tmp_path / "s.npz", replace(state, memory={"x": {"seen": {0: 1.0}}}))


def test_factors_that_nearly_cancel_leave_no_more_rounding_than_is_said():
    # H is a billionth of what the products of the factors sum up to, and their rounding is seen in its digits.
    random = np.random.default_rng(0)
    D = random.normal(size=(4, 9))
    away = np.linalg.svd(D)[2][4:]  # D x = 0 for these x
    W = 100 * random.normal(size=(6, 5)) @ away
    H = couplings.MatrixFactorization(csr_array(1e-6 * random.normal(size=(4, 6))))  # sparse: by Gram matrices
    z = {"W": W, "D": D}
    codes = H.restrict("W", z)
    true = 0.5 * float(np.sum((H.data.values.toarray() - D @ W.T) ** 2))
    room = 64 * 2.0**-53 * np.sqrt(W.size) * codes.magnitude(true)
    assert abs(codes.value(W) - true) <= room
    assert room < 1e-12 * np.linalg.norm(W) ** 2 * np.linalg.norm(D) ** 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("target", [-1.0, 1.0])
def test_a_block_of_one_entry_shows_its_curvature_wherever_its_slope_points(target, dtype):
    """What no constant is trusted far beyond: seen as none at all, it let no step of such a block be made."""
    coupling = couplings.Functions(
        lambda z: 50.0 * float(z["x"][0] - target) ** 2, {"x": lambda z: 100 * (z["x"] - dtype(target))}
    )
    problem = tecu.Problem(coupling, {"x": terms.SquaredL2(0.2)})
    start = {"x": np.array([0.01], dtype)}
    assert tecu.SubProblem.of(problem, "x", start).measure_curvature() == pytest.approx(100.0, rel=1e-2)
    result = tecu.Solver(problem, tecu.Embed(strategies.ADMM(), eta=0.1)).run(start, stop=stop.MaxIter(30))
    assert result.certificate.holds, result.certificate.reason
    assert result.z["x"][0] == pytest.approx(target * 100 / 100.2, rel=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("kind", "scale"), [("huber", 1.0), ("huber", 1e8), ("quartic", 1.0), ("quartic", 1e5)])
def test_what_is_flat_where_a_run_starts_and_bends_farther_off_is_minimised_whatever_its_unit(kind, scale, dtype):
    """No curvature at the start, that of a robust loss far from its data, once left no step that could be trusted."""
    target, unit = np.array([3.0, -2.0, 0.5], dtype), dtype(scale)

    def huber(z):
        away = np.abs(z["x"] - target)
        return float(unit * np.sum(np.where(away < 0.01, 50 * away * away, away - dtype(0.005))))

    functions = {
        "huber": (huber, lambda z: unit * np.clip(100 * (z["x"] - target), -1, 1)),
        "quartic": (
            lambda z: float(unit * np.sum(z["x"] ** 4 / 4 - target * z["x"])),
            lambda z: unit * (z["x"] ** 3 - target),
        ),
    }
    value, grad = functions[kind]
    problem = tecu.Problem(couplings.Functions(value, {"x": grad}), {"x": terms.L1(0.1 * scale)})
    solver = tecu.Solver(problem, tecu.Embed(strategies.FISTA()))
    start = {"x": np.zeros(3, dtype)}
    result = solver.run(start, stop=stop.MaxIter(60))
    assert result.certificate.holds, result.certificate.reason
    assert problem.stationarity(result.z) <= 1e-3 * problem.stationarity(start)


@pytest.mark.parametrize("cancelled", [0.0, 1e3])
def test_a_run_by_safe_steps_that_has_converged_to_rounding_is_not_accused(cancelled):
    """There back-tracking finds only noise, and more of it where ``H`` is a small difference of large numbers."""
    random = np.random.default_rng(0)
    A, b = random.normal(size=(5, 4)), random.normal(size=5)
    coupling = couplings.Functions(
        lambda z: float(0.5 * np.sum((A @ z["x"] - b) ** 2) + cancelled) - cancelled,
        {"x": lambda z: A.T @ (A @ z["x"] - b)},
    )
    problem = tecu.Problem(coupling, {"x": terms.L1(0.1)})
    useless = tecu.Embed(lambda u: u + 1.0, max_inner=1)
    result = tecu.Solver(problem, useless).run({"x": np.zeros(4)}, stop=stop.MaxIter(500))
    assert result.certificate.holds, result.certificate.reason
    assert problem.stationarity(result.z) <= 1e-9


def masked(x):
    return np.ma.masked_array(x, [True] + [False] * (x.size - 1))


class Masking:
    """A term whose prox is a masked array."""

    is_convex = True

    def value(self, x):
        return 0.0

    def prox(self, x, step):
        return masked(x)


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())], ids=["prox-linear", "embed"])
@pytest.mark.parametrize("part", ["the coupling's gradient is", "the prox of .* returned", "the strategy proposed"])
def test_masked_arrays_are_refused_wherever_they_come_from(part, update):
    term, coupling = terms.L1(0.1), couplings.Linear(A, B)
    if "gradient" in part:
        coupling = couplings.Functions(lambda z: 0.5 * float(z["x"] @ z["x"]), {"x": lambda z: masked(z["x"].copy())})
    elif "prox" in part:
        term = Masking()
    else:
        update = tecu.Embed(lambda u: masked(0.5 * u), strategies.FISTA())
    with pytest.raises(TypeError, match=f"block 'x': {part} a masked array; use .filled"):
        tecu.Solver(tecu.Problem(coupling, {"x": term}), update).run({"x": np.ones(12)}, stop=stop.MaxIter(2))


class MaskingBoth(Masking):
    """The same, with the value in one call."""

    def prox(self, x, step):
        return x

    def prox_and_value(self, x, step):
        return masked(x), 0.0


def half_square(gradient=lambda x: 1.0 * x, hessian=lambda v: 1.0 * v):
    """``||x||^2 / 2`` with answers that are made something of."""
    return couplings.Functions(
        lambda z: 0.5 * float((z["x"] * z["x"]).sum()),
        {"x": lambda z: gradient(z["x"])},
        lipschitz={"x": 1.0},
        hessian={"x": lambda z, v: hessian(v)},
    )


@pytest.mark.parametrize(
    ("coupling", "term", "update", "sentence"),
    [
        (half_square(), MaskingBoth(), tecu.ProxLinear(), "the prox_and_value of .* returned a masked array"),
        (half_square(hessian=masked), terms.Zero(), tecu.ProxLinear(), "the coupling's hessian is a masked array"),
        (half_square(hessian=lambda v: v + 0j), terms.Zero(), tecu.ProxLinear(), "the coupling's hessian is complex"),
        (half_square(hessian=list), terms.Zero(), tecu.ProxLinear(), "the coupling's hessian must be an array"),
        (half_square(hessian=lambda v: v[:, None]), terms.Zero(), tecu.ProxLinear(), "the coupling's hessian returned"),
        (
            half_square(),
            terms.Zero(),
            tecu.Embed(lambda sub, u: iter([tecu.Candidate(u, gradient=masked(u))])),
            "the strategy proposed as gradient a masked array",
        ),
    ],
)
def test_who_gave_an_array_of_another_kind_is_named(coupling, term, update, sentence):
    with pytest.raises((TypeError, ValueError), match=f"block 'x': {sentence}"):
        tecu.Solver(tecu.Problem(coupling, {"x": term}), update).run({"x": np.ones(12)}, stop=stop.MaxIter(2))


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())], ids=["prox-linear", "embed"])
def test_gradients_may_be_of_torch_where_blocks_are_of_numpy_and_the_other_way_round(update):
    torch = pytest.importorskip("torch")
    ends = []
    for start, other in ((np.ones(12), torch.from_numpy), (torch.ones(12, dtype=torch.float64), lambda x: x.numpy())):
        for coupling in (half_square(), half_square(other, other)):
            problem = tecu.Problem(coupling, {"x": terms.L1(0.1)})
            result = tecu.Solver(problem, update).run({"x": start}, stop=stop.MaxIter(3))
            assert result.certificate.holds, result.certificate.reason
            assert type(result.z["x"]) is type(start)
            ends.append(np.asarray(result.z["x"]))
    assert all(np.array_equal(ends[0], end) for end in ends)
