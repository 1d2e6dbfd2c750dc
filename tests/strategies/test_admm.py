"""ADMM: its duals, its penalty, its x-step."""

from itertools import islice

import numpy as np
import pytest
from subproblems import factorization, vector

import tecu
from tecu import arrays, couplings, stop, strategies, terms
from tecu.inexact import estimate


def naive(sub, gram, right, rho, steps):
    """The textbook's three lines, with a dense inverse."""
    inverse = np.linalg.inv(gram + rho * np.eye(len(gram)))
    v, w = sub.previous, np.zeros_like(sub.previous)
    for _ in range(steps):
        x = (right + rho * (v - w)) @ inverse
        v = sub.term.prox(x + w, 1 / rho)
        w = w + x - v
        yield v


@pytest.mark.parametrize("term", [terms.L1(0.1), terms.UnitColumns(), terms.L0(0.02)], ids=repr)
def test_equals_the_textbook(term):
    sub = factorization("D", term)
    W, D = sub.others["W"], sub.previous
    gram = W.T @ W + sub.eta * np.eye(W.shape[1])
    right = D @ gram - sub.grad(D)
    for candidate, v in zip(strategies.ADMM(rho=3.0)(sub, D), naive(sub, gram, right, 3.0, 40), strict=False):
        np.testing.assert_allclose(candidate.u, v, atol=1e-10)


def test_conjugate_gradients_end_where_cholesky_does():
    term = terms.L1(0.1)
    sub = factorization("W", term)
    plain = type(sub.smooth)(sub.smooth.coupling, "W", sub.others)
    plain.gram_matrix = lambda: None
    other = tecu.SubProblem("W", term, plain, sub.previous, sub.eta, {}, sub.others)
    ends = [list(islice(strategies.ADMM()(s, s.previous), 300))[-1].u for s in (sub, other)]
    assert arrays.distance(*ends) <= 1e-9


def test_the_dual_is_minus_the_gradient_at_the_end():
    sub = factorization("W", terms.L1(0.1))
    *_, last = islice(strategies.ADMM()(sub, sub.previous), 200)
    np.testing.assert_allclose(sub.memory["admm_dual"], -sub.grad(last.u), atol=1e-9)


def test_a_second_visit_begins_with_the_dual():
    sub = factorization("W", terms.L1(0.1))
    *_, last = islice(strategies.ADMM()(sub, sub.previous), 100)
    warm = next(strategies.ADMM()(sub, last.u))
    cold = next(strategies.ADMM()(tecu.SubProblem(**{**vars(sub), "memory": {}}), last.u))
    assert estimate(sub, warm).error_norm < 1e-3 * estimate(sub, cold).error_norm


def test_a_resumed_run_keeps_its_duals(tmp_path):
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((8, 30))
    problem = tecu.Problem(tecu.couplings.MatrixFactorization(Y), {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM())})
    start = problem.project({"W": rng.standard_normal((30, 5)), "D": rng.standard_normal((8, 5))})
    whole = solver.run(start, stop=stop.MaxIter(12))
    half = solver.run(start, stop=stop.MaxIter(5))
    tecu.save_state(tmp_path / "half.npz", half.state)
    state = tecu.load_state(tmp_path / "half.npz")
    assert state.memory["D"]["admm_dual"].shape == (8, 5)
    resumed = solver.run(state, stop=stop.MaxIter(12))
    for block in ("W", "D"):
        assert np.array_equal(whole.z[block], resumed.z[block])


def test_the_sphere_is_solved_and_certified():
    sub = factorization("D", terms.UnitColumns())
    *_, last = islice(strategies.ADMM()(sub, sub.previous), 200)
    found = estimate(sub, last)
    assert found.error_norm <= 1e-8
    assert sub.value(found.point) < sub.value(sub.previous)
    np.testing.assert_allclose(np.linalg.norm(found.point, axis=0), 1.0, atol=1e-12)


@pytest.mark.parametrize("kind", ["logistic", "least-squares"])
def test_a_penalty_that_was_given_is_kept(kind):
    sub = vector(kind, terms.L0(0.05))
    list(islice(strategies.ADMM(rho=1e-3)(sub, sub.previous), 60))
    assert "admm_growth" not in sub.memory


def test_a_cycling_run_raises_its_penalty():
    sub = factorization("W", terms.KSparse(3, axis=0))
    list(islice(strategies.ADMM()(sub, sub.previous), 200))
    assert 1.0 < sub.memory["admm_growth"] <= 64.0


@pytest.mark.parametrize("rho", [0.0, -1.0, float("nan"), float("inf"), "large"])
def test_a_bad_penalty_is_refused(rho):
    with pytest.raises(ValueError, match="ADMM needs a finite rho > 0"):
        strategies.ADMM(rho=rho)


def test_a_penalty_that_is_lost_in_the_rounding_of_the_gram_matrix_gets_another_way():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(30, 40)).astype(np.float32)
    D = (1e4 * (1 + 1e-4 * rng.normal(size=(30, 5)))).astype(np.float32)  # its Gram matrix is no longer positive
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L1(0.1), "D": terms.Zero()})
    updates = {"W": tecu.Embed(strategies.ADMM(rho=1.0), eta=0.01), "D": tecu.ProxLinear()}
    result = tecu.Solver(problem, updates).run({"W": np.ones((40, 5), np.float32), "D": D}, stop=stop.MaxIter(5))
    assert result.certificate.holds
    assert result.value < 1e-3 * result.history["value"][0]
