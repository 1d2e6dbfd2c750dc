"""Coordinate descent and greedy coding."""

from itertools import islice, pairwise

import numpy as np
import pytest
from sklearn.linear_model import orthogonal_mp_gram
from subproblems import factorization, vector

import tecu
from tecu import couplings, strategies, terms
from tecu.inexact import estimate


def naive_cycle(sub, u):
    """One column after the other, the gradient computed anew for each."""
    gram = sub.smooth.gram_matrix() + sub.eta * np.eye(u.shape[1])
    u = u.copy()
    for j in range(u.shape[1]):
        step = 1.0 / gram[j, j]
        u[:, [j]] = sub.term.prox(u[:, [j]] - step * sub.grad(u)[:, [j]], step)
    return u


@pytest.mark.parametrize("block", ["W", "D"])
@pytest.mark.parametrize(
    "term", [terms.L0(0.02), terms.L1(0.1), terms.NonNegative(), terms.UnitColumns(), terms.Zero()], ids=repr
)
@pytest.mark.parametrize("sizes", [(8, 30, 6), (9, 12, 70)], ids=str)
def test_coordinate_descent_equals_its_twin(block, term, sizes):
    sub = factorization(block, term, sizes=sizes)
    u = sub.previous
    for candidate in islice(strategies.CoordinateDescent()(sub, u), 5):
        u = naive_cycle(sub, u)
        np.testing.assert_allclose(candidate.u, u, atol=1e-9)


@pytest.mark.parametrize("term", [terms.L0(0.02), terms.L1(0.1), terms.UnitColumns()], ids=repr)
def test_coordinate_descent_never_rises(term):
    sub = factorization("D", term)
    values = [sub.value(c.u) for c in islice(strategies.CoordinateDescent()(sub, sub.previous), 30)]
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise([sub.value(sub.previous), *values]))


def test_coordinate_descent_keeps_bounds_that_differ_from_entry_to_entry():
    rng = np.random.default_rng(1)
    lower, upper = -rng.random((30, 6)), rng.random((1, 6))
    sub = factorization("W", terms.Box(lower, upper))
    *_, last = islice(strategies.CoordinateDescent()(sub, sub.previous), 100)
    assert np.all(last.u >= lower)
    assert np.all(last.u <= upper)
    assert estimate(sub, last).error_norm <= 1e-10


@pytest.mark.parametrize("term", [terms.UnitRows(), terms.Rank(2), terms.KSparse(2, axis=1)], ids=repr)
def test_coordinate_descent_refuses_terms_that_mix_columns(term):
    sub = factorization("W", term)
    with pytest.raises(
        ValueError, match="block 'W': CoordinateDescent needs a term that acts on entries or on columns"
    ):
        next(strategies.CoordinateDescent()(sub, sub.previous))


@pytest.mark.parametrize("strategy", [strategies.CoordinateDescent(), strategies.OrthogonalMatchingPursuit()], ids=repr)
def test_a_block_without_gram_matrix_is_refused(strategy):
    sub = vector("least-squares", terms.L0(0.1))
    with pytest.raises(ValueError, match=r"block 'x': .* needs the Gram matrix"):
        next(strategy(sub, sub.previous))
    H = couplings.MatrixFactorization(np.ones((3, 4)), weights=np.ones((3, 4)))
    problem = tecu.Problem(H, {"W": terms.L0(0.1), "D": terms.Zero()})
    sub = tecu.SubProblem.of(problem, "W", {"W": np.ones((4, 2)), "D": np.ones((3, 2))}, eta=1.0)
    with pytest.raises(ValueError, match=r"block 'W': .* needs the Gram matrix"):
        next(strategy(sub, sub.previous))


# -- greedy ---------------------------------------------------------------------------------------------------------


def coding(term, eta=0.0, dtype=np.float64, previous=None, seed=0):
    rng = np.random.default_rng(seed)
    n, p, m = 20, 60, 32
    D = rng.standard_normal((n, m))
    D /= np.linalg.norm(D, axis=0)
    W = rng.standard_normal((p, m)) * (rng.random((p, m)) < 0.1)
    Y = D @ W.T + 0.02 * rng.standard_normal((n, p))
    z = {"W": np.zeros((p, m)) if previous is None else previous(W, rng), "D": D}
    problem = tecu.Problem(couplings.MatrixFactorization(Y.astype(dtype)), {"W": term, "D": terms.UnitColumns()})
    return tecu.SubProblem.of(problem, "W", {name: x.astype(dtype) for name, x in z.items()}, eta=eta), D, Y


def code(sub, **options):
    (candidate,) = strategies.OrthogonalMatchingPursuit(**options)(sub, sub.previous)
    return candidate.u


@pytest.mark.parametrize("k", [1, 4, 9])
def test_greedy_equals_that_of_scikit_learn(k):
    sub, D, Y = coding(terms.KSparse(k))
    theirs = orthogonal_mp_gram(D.T @ D, D.T @ Y, n_nonzero_coefs=k).T
    mine = code(sub)
    assert np.array_equal(mine != 0, theirs != 0)
    np.testing.assert_allclose(mine, theirs, atol=1e-10)


def naive_pursuit(A, b, weight):
    """One row: add the most correlated atom and fit, while the fit gains more than the weight."""
    support, w, value = [], np.zeros_like(b), 0.0
    while len(support) < b.size:
        left = np.abs(b - A @ w) / np.sqrt(np.diag(A))
        left[support] = -1.0
        trial = [*support, int(np.argmax(left))]
        fit = np.zeros_like(b)
        fit[trial] = np.linalg.solve(A[np.ix_(trial, trial)], b[trial])
        now = -0.5 * fit @ b
        if value - now <= weight:
            break
        support, w, value = trial, fit, now
    return w, value + weight * len(support)


@pytest.mark.parametrize("eta", [0.0, 0.5])
def test_greedy_stops_when_an_atom_is_not_worth_its_weight(eta):
    sub, D, Y = coding(terms.L0(0.01), eta)
    A = D.T @ D + eta * np.eye(D.shape[1])
    mine = code(sub)
    for row, y in zip(mine, Y.T, strict=True):
        w, _ = naive_pursuit(A, D.T @ y, 0.01)
        np.testing.assert_allclose(row, w, atol=1e-9)


@pytest.mark.parametrize("term", [terms.L0(0.01), terms.KSparse(4)], ids=repr)
@pytest.mark.parametrize("eta", [0.1, 3.0])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_greedy_never_rises(term, eta, dtype):
    def previous(W, rng):
        return term.prox(W + 0.3 * rng.standard_normal(W.shape) * (rng.random(W.shape) < 0.1), 1.0)

    sub, _, _ = coding(term, eta, dtype, previous)
    codes = code(sub)
    assert sub.value(codes) <= sub.value(sub.previous)
    assert codes.dtype == dtype
    gradient = sub.grad(codes)
    assert np.max(np.abs(gradient[codes != 0])) <= 1e3 * np.finfo(dtype).eps  # fitted on its support


def test_greedy_is_no_worse_than_the_present_support():
    sub, D, Y = coding(terms.L0(0.01), 0.1, previous=lambda W, rng: W)
    A = D.T @ D + 0.1 * np.eye(D.shape[1])
    b = Y.T @ D + 0.1 * sub.previous
    for row, right, old in zip(code(sub), b, sub.previous, strict=True):
        S = np.flatnonzero(old)
        fitted = 0.01 * S.size - 0.5 * right[S] @ np.linalg.solve(A[np.ix_(S, S)], right[S])
        assert 0.01 * np.count_nonzero(row) + 0.5 * row @ A @ row - right @ row <= fitted + 1e-12


def test_greedy_keeps_to_its_bound():
    sub, _, _ = coding(terms.L0(1e-6), previous=lambda W, rng: W)
    assert np.max(np.count_nonzero(code(sub, n_nonzero=2), axis=1)) == 2


def test_greedy_survives_equal_and_empty_atoms():
    D = np.array([[1.0, 1.0, 0.0, 0.6], [0.0, 0.0, 0.0, 0.8]])
    problem = tecu.Problem(
        couplings.MatrixFactorization(np.array([[1.0], [2.0]])), {"W": terms.L0(1e-9), "D": terms.Zero()}
    )
    sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((1, 4)), "D": D}, eta=0.0)
    row = code(sub)[0]
    assert row[2] == 0.0
    assert np.count_nonzero(row) == 2
    np.testing.assert_allclose(D @ row, [1.0, 2.0])


def test_greedy_says_what_it_needs():
    sub, _, _ = coding(terms.L1(0.1))
    with pytest.raises(ValueError, match="block 'W': OrthogonalMatchingPursuit needs"):
        code(sub)
    for wrong in (0, 1.5, True):
        with pytest.raises(ValueError, match="n_nonzero must be a whole number"):
            strategies.OrthogonalMatchingPursuit(wrong)
