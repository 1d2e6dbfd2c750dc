"""Problems that change while a solver runs, bend sharply or count their calls; callbacks, schedules and starts in the
kinds that users have them in.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from threading import Thread

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.certificate import Verdict
from tecu.state import ForeignState, Status
from tecu.testing import check_coupling, check_term

A = np.random.default_rng(0).normal(size=(40, 20))
Y = A @ np.ones(20)


class Split:
    """``1/2 ||A x - y||^2 + mu/2 ||x - v||^2``: half-quadratic splitting, by a user's own hand."""

    blocks = ("x", "v")

    def __init__(self, mu=10.0):
        self.mu, self.calls = mu, 0

    def value(self, z):
        self.calls += 1
        return 0.5 * float(np.sum((A @ z["x"] - Y) ** 2)) + 0.5 * self.mu * float(np.sum((z["x"] - z["v"]) ** 2))

    def grad(self, block, z):
        pull = self.mu * (z["x"] - z["v"])
        return A.T @ (A @ z["x"] - Y) + pull if block == "x" else -pull


class Weighted:
    """``weight ||x||_1``, with a weight that can be changed."""

    is_convex = True

    def __init__(self, weight):
        self.weight = weight

    def value(self, x):
        return self.weight * float(np.sum(np.abs(x)))

    def prox(self, x, step):
        return np.sign(x) * np.maximum(np.abs(x) - step * self.weight, 0.0)


ZEROS = {"x": np.zeros(20), "v": np.zeros(20)}


def run(coupling, term=None, update=None, **options):
    problem = tecu.Problem(coupling, {"x": terms.Zero(), "v": terms.L1(1.0) if term is None else term})
    return tecu.Solver(problem, update or tecu.ProxLinear()).run(ZEROS, stop.MaxIter(40), **options)


@pytest.mark.parametrize("until", [5, 39, 40])
@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())], ids=["prox-linear", "embed"])
def test_a_coupling_that_a_callback_changes_costs_the_certificate(until, factor, update):
    coupling = Split()

    def change(state):
        coupling.mu *= factor if state.t < until else 1.0

    found = run(coupling, update=update, callbacks=[change]).certificate
    assert found.verdict is Verdict.DOES_NOT_HOLD
    assert "the problem was changed during the run" in found.reason


def test_a_term_that_is_changed_costs_the_certificate():
    class Shrinking(Weighted):
        def prox(self, x, step):
            self.weight *= 0.99
            return super().prox(x, step)

    term = Weighted(1.0)
    by_callback = run(Split(), term, callbacks=[lambda state: setattr(term, "weight", 0.9 * term.weight)])
    for found in (by_callback, run(Split(), Shrinking(1.0))):
        assert "the problem was changed during the run" in found.certificate.reason


def test_a_problem_that_only_counts_its_calls_is_certified_and_can_be_watched():
    coupling = Split()
    found = run(coupling, Weighted(1.0), callbacks=[lambda state: None])
    assert coupling.calls > 0
    assert found.certificate.verdict is Verdict.HOLDS


def test_a_state_that_is_refused_says_which_settings_differ():
    coupling = Split()
    problem = tecu.Problem(coupling, {"x": terms.Zero(), "v": terms.L1(1.0)})
    solver = tecu.Solver(problem, tecu.ProxLinear())
    state = solver.run(ZEROS, stop.MaxIter(2)).state
    with pytest.raises(ForeignState, match=r"the coupling's attributes are not .* begin with an underscore"):
        solver.run(state)  # it has counted its calls
    coupling.calls = 0
    again = tecu.Solver(problem, tecu.ProxLinear()).run(ZEROS, stop.MaxIter(2)).state
    coupling.calls = 0
    with pytest.raises(ForeignState, match="the updates and the schedule or seed are not what they were"):
        tecu.Solver(problem, tecu.ProxLinear(1.5), seed=1).run(again)


# -- gradients of couplings with a sharp bend -------------------------------------------------------------------------


def bent(eps, wrong=1.0):
    """Denoising with a smoothed total variation; its gradient, of which ``wrong`` times the variation's part."""
    rng = np.random.default_rng(0)
    y = np.repeat(rng.normal(size=10), 10) + 0.05 * rng.normal(size=100)

    def value(z):
        return 0.5 * float(np.sum((z["x"] - y) ** 2)) + 0.1 * float(np.sum(np.sqrt(np.diff(z["x"]) ** 2 + eps**2)))

    def grad(z):
        d = np.diff(z["x"])
        pull, g = 0.1 * wrong * d / np.sqrt(d * d + eps**2), z["x"] - y
        g[1:] += pull
        g[:-1] -= pull
        return g

    return couplings.Functions(value, {"x": grad}), y


@pytest.mark.parametrize("eps", [1e-3, 1e-4, 1e-5, 1e-6])
def test_a_right_gradient_of_a_sharply_bent_coupling_is_certified(eps):
    coupling, y = bent(eps)
    for seed in range(4):
        found = tecu.Solver(tecu.Problem(coupling, {"x": terms.Zero()}), tecu.ProxLinear(), seed=seed)
        found = found.run({"x": y}, stop.MaxIter(60))
        assert found.certificate.verdict is Verdict.HOLDS, found.certificate.reason
    check_coupling(coupling, found.z)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-5])
def test_a_wrong_one_is_not(eps):
    coupling, y = bent(eps, wrong=1.1)
    with pytest.raises(AssertionError, match="slope along"):
        check_coupling(coupling, {"x": y})
    for seed in range(4):
        found = tecu.Solver(tecu.Problem(coupling, {"x": terms.Zero()}), tecu.ProxLinear(), seed=seed)
        assert not found.run({"x": y}, stop.MaxIter(60)).certificate.holds


# -- what is asked of a coupling --------------------------------------------------------------------------------------


class Watched:
    """``sum cosh(x v)``, which notes the points at which it is asked for its value."""

    blocks = ("x", "v")

    def __init__(self, constant=None):
        self.points = Counter()
        if constant is not None:
            self.lipschitz = lambda block, z: constant

    def value(self, z):
        self.points[z["x"].tobytes() + z["v"].tobytes()] += 1
        return float(np.sum(np.cosh(z["x"] * z["v"])))

    def grad(self, block, z):
        return np.sinh(z["x"] * z["v"]) * z["v" if block == "x" else "x"]


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.ProxGradient())], ids=["step", "embed"])
def test_a_value_that_is_known_is_not_asked_for_again(update):
    coupling = Watched(constant=20.0)
    problem = tecu.Problem(coupling, {"x": terms.Box(-2.0, 2.0), "v": terms.Box(-2.0, 2.0)})
    rng = np.random.default_rng(0)
    start = {block: rng.uniform(0.5, 2.0, size=8) for block in coupling.blocks}
    result = tecu.Solver(problem, update).run(start, stop.MaxIter(30))
    assert result.certificate.verdict is Verdict.HOLDS
    visited = len(result.state.visits)
    repeated = sum(coupling.points.values()) - len(coupling.points)
    assert visited == 60
    assert repeated <= 12  # those of the tests at start and end; every visit asked once more before


# -- kinds --------------------------------------------------------------------------------------------------------


def test_callbacks_stop_by_any_kind_of_truth():
    torch = pytest.importorskip("torch")
    for answer, stops in (
        (True, True), (np.bool_(True), True), (np.array(True), True), (torch.tensor(True), True),
        (False, False), (torch.tensor(False), False), (1, False), (None, False), (np.array([True, True]), False),
    ):  # fmt: skip
        found = run(Split(), callbacks=[lambda state, answer=answer: answer])
        assert (found.state.t == 1) == stops, answer


def test_names_from_a_random_schedule_are_the_problem_s_own():
    problem = tecu.Problem(Split(), {"x": terms.Zero(), "v": terms.L1(1.0)})
    solver = tecu.Solver(problem, tecu.ProxLinear(), schedule=lambda t, rng: rng.permutation(["x", "v"]))
    visits = solver.run(ZEROS, stop.MaxIter(3)).state.visits
    assert {type(visit.block) for visit in visits} == {str}


def test_starts_of_another_kind_are_refused_with_what_to_do():
    torch = pytest.importorskip("torch")
    problem = tecu.Problem(couplings.Difference("x", "v"), {"x": terms.Zero(), "v": terms.Zero()})
    for x, words in (
        (np.ones(3, complex), "last axis of two"),
        (np.ones(3, int), r"\.astype\(float\)"),
        ([1.0, 2.0], "a list; make it one with np.asarray"),
        (torch.ones(3, dtype=torch.float16), r"\.double\(\)"),
        (torch.eye(3).double().to_sparse(), "sparse torch tensor"),
    ):
        with pytest.raises(TypeError, match=words):
            problem.check_start({"x": x, "v": np.ones(3)})


def test_a_set_without_room_for_rounding_is_named():
    class Sphere:
        is_convex = False
        _exact = True

        def value(self, x):
            return 0.0 if np.linalg.norm(x) == 1.0 else np.inf

        def prox(self, x, step):
            return np.eye(3)[0] * (1.0 if self._exact else 1.0 + 1e-15)

    sphere = Sphere()
    solver = tecu.Solver(
        tecu.Problem(couplings.Difference("x", "v"), {"x": terms.Zero(), "v": sphere}), tecu.ProxLinear()
    )
    start = {"x": np.ones(3), "v": np.eye(3)[0]}
    result = solver.run(start, stop.MaxIter(9), callbacks=[lambda state: setattr(sphere, "_exact", False)])
    assert result.status is Status.DIVERGED
    with pytest.raises(ValueError, match=r"block 'v' is inf at the start.*room for rounding"):
        solver.run(start)
    assert "the term of block 'v' is inf at the point that its update returned" in result.certificate.reason


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_simplex_of_the_whole_block_is_that_of_its_entries_in_a_row(dtype):
    rng = np.random.default_rng(0)
    x, g = rng.normal(size=(2, 3, 4)).astype(dtype)
    whole, row = terms.Simplex(axis=None, total=2.0), terms.Simplex(total=2.0)
    point = whole.prox(x, 1.0)
    np.testing.assert_array_equal(point.ravel(), row.prox(x.ravel(), 1.0))
    assert whole.value(point) == 0.0 == row.value(point.ravel())
    assert whole.value(1.01 * point) == np.inf
    assert whole.subdiff_distance(point, g) == row.subdiff_distance(point.ravel(), g.ravel())
    check_term(whole, x)


def test_one_state_can_be_resumed_by_several_threads_at_once():
    problem = tecu.Problem(couplings.MatrixFactorization(A), {"W": terms.L0(0.02), "D": terms.UnitColumns()})
    solver = tecu.Solver(problem, tecu.ProxLinear())
    start = problem.project({"W": np.ones((20, 4)), "D": np.random.default_rng(0).normal(size=(40, 4))})
    state = solver.run(start, stop.MaxIter(3)).state
    alone = solver.run(state, stop.MaxIter(20))
    results, interval = [], sys.getswitchinterval()

    def go_on():
        results.append(solver.run(state, stop.MaxIter(20)))

    sys.setswitchinterval(1e-6)  # threads take turns as often as they can
    try:
        for _ in range(3):
            threads = [Thread(target=go_on) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(results) == 9
    for found in results:
        assert [visit.index for visit in found.state.visits] == list(range(40))
        assert found.certificate.reason == alone.certificate.reason
        np.testing.assert_array_equal(found.z["D"], alone.z["D"])


def test_every_callback_is_closed_even_if_another_one_cannot_be():
    closed = []

    class Callback:
        def __init__(self, name):
            self.name = name

        def __call__(self, state):
            return False

        def close(self):
            closed.append(self.name)
            if self.name == "first":
                raise OSError("the disk is full")

    with pytest.raises(OSError, match="the disk is full"):
        run(Split(), callbacks=[Callback("first"), Callback("second")])
    assert closed == ["first", "second"]


def test_pictures_in_several_threads_leave_warnings_as_they_were():
    from tecu.lowlight.model import solve

    dark = np.full((8, 8), 0.25)
    before = list(warnings.filters)
    threads = [Thread(target=solve, args=(dark, np.full((8, 8), 0.5))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve(np.zeros((8, 8)), np.full((8, 8), 0.5))  # where no block has to move
