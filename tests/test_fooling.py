"""Ways to be taken for converged without being it: huge ``tau``, false claims without a constant, wrong proxes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array

import tecu
from problems import dictionary
from tecu import Candidate, couplings, stop, strategies, terms
from tecu.inexact import Numbers, estimate, judge
from tecu.protocols import Restricted, treats_entries_alike
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


# -- what is not a strategy's fault -----------------------------------------------------------------------------------


def least_squares(**options):
    """``1/2 ||x - 2||^2`` by functions."""
    return couplings.Functions(
        lambda z: 0.5 * float(np.sum((z["x"] - 2.0) ** 2)), {"x": lambda z: z["x"] - 2.0}, **options
    )


@pytest.mark.parametrize("constant", [np.nan, np.inf, -1.0])
def test_a_constant_that_is_no_number_is_refused(constant):
    problem = tecu.Problem(least_squares(lipschitz={"x": constant}), {"x": terms.Zero()})
    with pytest.raises(ValueError, match="block 'x': the Lipschitz constant must be a finite number"):
        tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.ones(3)}, stop=stop.MaxIter(3))


def test_a_block_that_is_never_visited_is_named():
    problem, start = bare()
    result = tecu.Solver(problem, tecu.ProxLinear(), schedule=lambda t: ["A", "B"]).run(start, stop=stop.MaxIter(9))
    assert "block 's' was never visited" in result.certificate.reason
    assert not result.certificate.holds


def rubbish_after_a_false_step(sub, u):
    while True:
        sub.prox_gradient_step(u, -1e9 * sub.grad(u))
        sub.memory["curvature"] = HUGE
        yield u + 1e3


@pytest.mark.parametrize("block", ["A", "s", "B"])
def test_a_poisoned_memory_does_not_stop_the_fallback(block):
    problem, start = bare()
    updates = {name: tecu.ProxLinear() for name in problem.blocks}
    updates[block] = tecu.Embed(rubbish_after_a_false_step, eta=1.0, max_inner=2)
    result = tecu.Solver(problem, updates).run(start, stop=stop.MaxIter(40))
    assert problem.stationarity(result.z) < 0.2 * problem.stationarity(start)


class Poisson:
    """``sum x - y log x``, which is not a number outside its domain."""

    blocks = ("x",)
    y = np.array([3.0, 1.0, 2.0, 5.0])

    def value(self, z):
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.sum(z["x"] - self.y * np.log(z["x"])))

    def grad(self, block, z):
        with np.errstate(invalid="ignore", divide="ignore"):
            return 1 - self.y / z["x"]


@pytest.mark.parametrize(
    "strategy", [lambda u: -u, strategies.ProxGradient(), strategies.FISTA()], ids=["network", "pg", "fista"]
)
def test_proposals_outside_the_domain_do_not_stop_the_run(strategy):
    problem = tecu.Problem(Poisson(), {"x": terms.Box(1e-9, 100.0)})
    result = tecu.Solver(problem, tecu.Embed(strategy, eta=0.1)).run({"x": np.full(4, 0.01)}, stop=stop.MaxIter(400))
    assert result.certificate.holds, result.certificate.reason
    np.testing.assert_allclose(result.z["x"], Poisson.y, rtol=1e-3)


class TightBox:
    """A box whose prox clips its first entry too tightly."""

    is_convex = True

    def value(self, x):
        return terms.Box(-1.0, 1.0).value(x)

    def prox(self, x, step):
        clipped = np.clip(x, -1.0, 1.0)
        clipped.flat[0] = np.clip(clipped.flat[0], -0.3, 0.3)
        return clipped


class ClippedSimplex:
    """The simplex with the classic mistake for a projection: clip and divide by the sum."""

    is_convex = True

    def value(self, x):
        return terms.Simplex().value(x)

    def prox(self, x, step):
        clipped = np.maximum(x, 1e-12)
        return clipped / clipped.sum()


@pytest.mark.parametrize("term", [TightBox(), ClippedSimplex()], ids=["box", "simplex"])
@pytest.mark.parametrize(
    "update", [tecu.ProxLinear(), tecu.Embed(lambda u: u + 1e3, eta=1.0)], ids=["prox-linear", "fallback"]
)
def test_a_prox_that_is_wrong_in_one_place_or_inside_its_set_is_found_out(term, update):
    target = np.array([2.0, 0.7, -0.4, 0.1])
    coupling = couplings.Linear(np.eye(4), target)
    problem = tecu.Problem(coupling, {"x": term})
    result = tecu.Solver(problem, update).run({"x": np.full(4, 0.25)}, stop=stop.MaxIter(30))
    assert not result.certificate.holds
    assert "prox" in result.certificate.reason


class HalfInside(ScaledProduct):
    """A coupling that is another function when only one block is looked at."""

    def restrict(self, block, z):
        class Half(Restricted):
            def value_and_grad(self, u):
                value, gradient = super().value_and_grad(u)
                return 0.5 * value, 0.5 * gradient

        return Half(self, block, z)


class FalseHessian(ScaledProduct):
    def hessian(self, block, z, v):
        return 1e8 * v


@pytest.mark.parametrize(("kind", "word"), [(HalfInside, "block alone"), (FalseHessian, "hessian")])
def test_a_coupling_that_contradicts_itself_is_found_out(kind, word):
    problem, start = bare()
    problem = tecu.Problem(kind(problem.coupling.Y), problem.terms)
    result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(5))
    assert not result.certificate.holds
    assert word in result.certificate.reason


def test_a_residual_that_vanishes_raises_no_alarm():
    """Near an exact solution of a user's own least squares all numbers are rounding."""
    for dtype in (np.float64, np.float32):
        problem = tecu.Problem(least_squares(lipschitz={"x": 1.0}), {"x": terms.Zero()})
        for count in (5, 10, 15, 30):
            start = {"x": np.linspace(-1, 1, 5).astype(dtype)}
            result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(count))
            assert result.certificate.holds, result.certificate.reason


@pytest.mark.parametrize("seed", range(8))
def test_the_constant_of_nearly_orthogonal_columns_is_never_too_small(seed):
    """One entry a row: the Gram matrix of the codes is diagonal, and its largest entry changes from visit to visit."""
    rng = np.random.default_rng(seed)
    Y = 3 * rng.normal(size=(5, 3))[:, rng.integers(3, size=20)] + rng.normal(size=(5, 20))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.KSparse(1), "D": terms.Box(-20.0, 20.0)})
    start = problem.project({"W": np.abs(rng.normal(size=(20, 3))), "D": Y[:, :3]})
    for state in islice(tecu.Solver(problem, tecu.ProxLinear()).iterate(start), 25):
        used = [visit.lipschitz for visit in state.visits.of_sweep(state.t) if visit.block == "D"]
        assert used[0] >= np.linalg.norm(state.z["W"], 2) ** 2 * (1 - 1e-9)


class OnAHill(ScaledProduct):
    """``H + 1e14`` with its gradient reversed: differences of such values are rounding."""

    def value(self, z):
        return super().value(z) + 1e14

    def grad(self, block, z):
        return -super().grad(block, z)


def test_a_gradient_that_is_lost_in_the_values_rounding_is_said_to_be_untested():
    problem, start = bare()
    result = tecu.Solver(tecu.Problem(OnAHill(problem.coupling.Y), problem.terms), tecu.ProxLinear()).run(
        start, stop=stop.MaxIter(5)
    )
    told = " ".join(result.certificate.assumptions)
    assert "told nothing" in told
    assert "rounding of H" in told
    honest = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(5))
    assert "told nothing" not in " ".join(honest.certificate.assumptions)


@pytest.mark.parametrize("quadratic", [True, False])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=["float64", "float32"])
@pytest.mark.parametrize("factor", [0.9, 1.1])
def test_a_gradient_ten_percent_wrong_never_counts_as_tested(factor, dtype, quadratic):
    """Under whatever offset of ``H``: it is found out, or the test is said to have told nothing."""
    y = np.random.default_rng(0).normal(size=20)

    def value(x):
        return 0.5 * np.sum((x - y) ** 2) if quadratic else np.sum(np.log1p((x - y) ** 2))

    def gradient(x):
        return x - y if quadratic else 2 * (x - y) / (1 + (x - y) ** 2)

    def first_check(offset, factor):
        H = couplings.Functions(
            lambda z: float(dtype(offset + value(z["x"]))),
            {"x": lambda z: (factor * gradient(z["x"])).astype(dtype)},
            hessian={"x": lambda z, v: dtype(factor) * v} if quadratic else None,
        )
        solver = tecu.Solver(tecu.Problem(H, {"x": terms.Zero()}), tecu.ProxLinear())
        start = {"x": np.random.default_rng(1).normal(size=20).astype(dtype)}
        return solver.run(start, stop=stop.MaxIter(0)).state.checks[0]

    honest = first_check(0.0, 1.0)
    assert honest.passed
    assert not honest.untold
    for power in range(-2, 16 if dtype is np.float64 else 8):
        check = first_check(10.0**power, factor)
        assert check.untold or not check.passed, f"1e{power}: {check}"


def test_a_run_that_converges_is_not_said_to_be_untested():
    """Its last gradient is lost in rounding; the first one was not."""
    rng = np.random.default_rng(0)
    H = couplings.MatrixFactorization(1e3 * rng.normal(size=(20, 30)))
    problem = tecu.Problem(H, {"W": terms.SquaredL2(0.1), "D": terms.UnitColumns()})
    D = rng.normal(size=(20, 3))
    start = {"W": rng.normal(size=(30, 3)), "D": D / np.linalg.norm(D, axis=0)}
    result = tecu.Solver(problem, {"W": tecu.Proximal(), "D": tecu.ProxLinear()}).run(start, stop=stop.MaxIter(300))
    assert "told nothing" not in " ".join(result.certificate.assumptions)


class Distance:
    """``1/2 ||x - y||^2``, whose second derivative times ``v`` is ``v`` itself, not a copy."""

    blocks = ("x",)

    def __init__(self, y):
        self.y = y

    def value(self, z):
        return 0.5 * float(np.sum((z["x"] - self.y) ** 2))

    def grad(self, block, z):
        return z["x"] - self.y

    def lipschitz(self, block, z):
        return 1.0

    def hessian(self, block, z, v):
        return v


def test_a_hessian_that_hands_back_its_argument_does_no_harm():
    y = np.linspace(-2.0, 2.0, 9)
    problem = tecu.Problem(Distance(y), {"x": terms.L1(0.5)})
    solver = tecu.Solver(problem, tecu.Embed(strategies.ProxGradient(), eta=0.5))
    result = solver.run({"x": np.ones(9)}, stop=stop.MaxIter(60))
    assert result.certificate.verdict.name.startswith("HOLDS"), result.certificate.reason
    np.testing.assert_allclose(result.z["x"], np.sign(y) * np.maximum(np.abs(y) - 0.5, 0.0), atol=1e-8)


@pytest.mark.parametrize("field", ["gradient", "prox_point", "error"])
def test_a_claim_of_the_wrong_shape_is_named(field):
    problem, start = factorisation()

    def strategy(sub, u):
        fine = {"gradient": sub.grad(u), "prox_point": u, "error": 0 * u}
        yield Candidate(u, **{**fine, field: fine[field][:-1]}, tau=1.0)

    with pytest.raises(ValueError, match=f"block 'W'.*{field}.*shape"):
        tecu.Solver(problem, {"W": tecu.Embed(strategy), "D": tecu.ProxLinear()}).run(start, stop=stop.MaxIter(1))


def test_a_change_of_the_objective_that_is_no_number_is_never_accepted():
    problem, z = factorisation()
    sub = tecu.SubProblem.of(problem, "W", z, eta=1.0)
    point, tau = sub.prox_gradient_step(z["W"])
    claim = Numbers(error_norm=0.0, error_along_move=0.0, change=float("nan"))
    found = estimate(sub, Candidate(z["W"], prox_point=point, tau=tau, numbers=claim))
    assert not judge(sub, found, MovingTolerance(0.2)).accepted


def test_a_prox_point_in_another_precision_is_taken_in_the_blocks_own():
    problem, start = factorisation(np.float32)

    def strategy(sub, u):
        for candidate in strategies.ProxGradient()(sub, u):
            yield Candidate(candidate.u, candidate.gradient, candidate.prox_point.astype(np.float64), tau=candidate.tau)

    solver = tecu.Solver(problem, {"W": tecu.Embed(strategy), "D": tecu.ProxLinear()})
    result = solver.run(start, stop=stop.MaxIter(3))
    assert result.z["W"].dtype == np.float32


class RowWise(terms.L1):
    """A prox of its own that is no sum over entries, in a class that inherits what says so."""

    def value(self, x):
        return 0.0

    def prox(self, x, step):
        return x - np.mean(x, axis=-1, keepdims=True) if np.ndim(x) == 2 else np.full_like(x, np.nan)


def test_only_who_wrote_the_prox_may_say_that_it_treats_entries_alike():
    assert treats_entries_alike(terms.L1(0.1))
    assert treats_entries_alike(terms.NonNegative())
    assert not treats_entries_alike(RowWise(0.1))
    assert not treats_entries_alike(terms.UnitColumns())
    assert not treats_entries_alike(terms.Box(np.zeros(3), np.ones(3)))
    rng = np.random.default_rng(0)
    problem = tecu.Problem(
        couplings.MatrixFactorization(rng.normal(size=(4, 300))), {"W": RowWise(0.1), "D": terms.Zero()}
    )
    sub = tecu.SubProblem.of(problem, "W", {"W": rng.normal(size=(300, 200)), "D": rng.normal(size=(4, 200))})
    point, _ = sub.prox_gradient_step(sub.previous)
    np.testing.assert_allclose(np.sum(point, axis=1), 0.0, atol=1e-9)


STIFF, WANTED = np.array([1.0, 0.01]), np.array([1.0, 50.0])


def stiff_and_soft(constant=1.0, **parts):
    """``1/2 sum d (x - y)^2`` with a stiff and a soft direction."""
    return couplings.Functions(
        lambda z: 0.5 * float(np.sum(STIFF * (z["x"] - WANTED) ** 2)),
        {"x": lambda z: (STIFF * (z["x"] - WANTED)).astype(z["x"].dtype)},
        {"x": constant},
        **parts,
    )


@pytest.mark.parametrize("numbers", [True, False])
@pytest.mark.parametrize(
    ("dtype", "far", "constant"),
    [(np.float64, 1e13, 1.0), (np.float32, 1e5, 1.0), (np.float32, 300.0, 1e3), (np.float64, 300.0, 1e12)],
)
def test_a_proposal_far_away_gives_a_lie_no_room(numbers, dtype, far, constant):
    """Along the stiff direction ``u`` is far from its prox point, which costs no error but would look like rounding."""

    def liar(sub, u):
        while True:
            tau, u = 1.0 + sub.eta, np.array([far, sub.previous[1]], dtype)
            point, _ = sub.prox_gradient_step(u, sub.grad(u), tau)
            if numbers:
                claim = Numbers(0.0, 0.0, sub.value(point) - sub.value(sub.previous))
                yield Candidate(u, prox_point=point, tau=tau, numbers=claim)
            else:
                yield Candidate(u, gradient=sub.grad(u), prox_point=point, tau=tau, error=np.zeros(2, dtype))

    H = stiff_and_soft(constant, hessian={"x": lambda z, v: (STIFF * v).astype(v.dtype)})
    problem = tecu.Problem(H, {"x": terms.Zero()})
    result = tecu.Solver(problem, tecu.Embed(liar, eta=0.05)).run({"x": np.zeros(2, dtype)}, stop=stop.MaxIter(10))
    assert result.certificate.verdict is tecu.Verdict.DOES_NOT_HOLD


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("quadratic", [True, False])
def test_a_prox_point_that_is_not_finite_is_not_looked_at(bad, quadratic):
    def value(z):
        assert np.all(np.isfinite(z["x"])), "H was asked for its value at a point that is not finite"
        return 0.5 * float(np.sum((z["x"] - 1.0) ** 2))

    def broken(sub, u):
        yield Candidate(u, sub.grad(u), np.full(3, bad), error=np.zeros(3), tau=1.0 + sub.eta)

    broken.endless = False
    hessian = {"x": lambda z, v: 1.0 * v} if quadratic else None
    H = couplings.Functions(value, {"x": lambda z: z["x"] - 1.0}, {"x": 1.0}, hessian=hessian)
    solver = tecu.Solver(tecu.Problem(H, {"x": terms.Zero()}), tecu.Embed(broken, eta=1.0))
    result = solver.run({"x": np.zeros(3)}, stop=stop.MaxIter(3))
    assert [visit.outcome.name for visit in result.state.visits] == ["FELL_BACK"] * 3


def test_a_hessian_that_hands_back_its_argument_does_no_harm_in_a_sum():
    own = couplings.Functions(
        lambda z: 0.5 * float(np.sum(z["x"] ** 2)), {"x": lambda z: z["x"]}, {"x": 1.0}, hessian={"x": lambda z, v: v}
    )
    other = couplings.Functions(lambda z: 0.5 * float(np.sum(z["w"] ** 2)), {"w": lambda z: z["w"]}, {"w": 1.0})
    z = {"x": np.zeros(4), "w": np.zeros(3)}
    sub = tecu.SubProblem.of(tecu.Problem(own + other, {"x": terms.L1(0.1), "w": terms.L1(0.1)}), "x", z, eta=1.0)
    v = np.ones(4)
    np.testing.assert_array_equal(sub.hessian(v), 2.0 * np.ones(4))
    np.testing.assert_array_equal(v, np.ones(4))


class WrongHere(Restricted):
    """A restriction of which one of the two ways to the gradient is wrong."""

    def value_and_grad(self, u):
        value, gradient = super().value_and_grad(u)
        return value, 0.5 * gradient


@pytest.mark.parametrize("fault", ["value_and_grad", "sign", "nan"])
def test_a_wrong_gradient_of_a_sparse_block_is_found_out(fault):
    rng = np.random.default_rng(0)
    dtype = np.float64 if fault == "value_and_grad" else np.float32  # half of it is lost in float32's rounding of H
    Y = rng.normal(size=(60, 80)).astype(dtype)

    def gradient(z):
        answer = np.asarray(z["W"].toarray() - Y)
        if fault == "nan":
            answer[3, 4] = np.nan
        return -answer if fault == "sign" else answer

    H = couplings.Functions(
        lambda z: 0.5 * float(np.sum((z["W"].toarray() - Y).astype(float) ** 2)), {"W": gradient}, {"W": 1.0}
    )
    if fault == "value_and_grad":
        H.restrict = lambda block, z: WrongHere(H, block, z)
    W = np.where(rng.random(Y.shape) < 0.1, rng.normal(size=Y.shape), 0.0).astype(dtype)
    solver, start = tecu.Solver(tecu.Problem(H, {"W": terms.L0(0.5)}), tecu.ProxLinear()), {"W": csr_array(W)}
    if fault == "nan":
        with pytest.raises(ValueError, match="NaN or Inf"):
            solver.run(start, stop=stop.MaxIter(3))
    else:
        result = solver.run(start, stop=stop.MaxIter(3))
        assert not all(check.passed for check in result.state.checks)
        assert result.certificate.verdict is tecu.Verdict.DOES_NOT_HOLD
