"""Two algorithms that should coincide are run side by side and compared, iterate by iterate."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import tecu
from problems import THREE_WITH_ALL_PAIRS, dictionary, unit_columns
from tecu import couplings, methods, stop, strategies, terms


def hard(x, weight, step):
    return np.where(x * x > 2 * weight * step, x, 0.0)


class Naive:
    """The dictionary problem by hand."""

    def __init__(self, Y, weight):
        self.Y, self.weight = Y, weight

    def lipschitz(self, factor):
        return np.linalg.norm(factor.T @ factor, 2)

    def step_w(self, center, source, D, gamma):
        gradient = (source @ D.T - self.Y.T) @ D
        return hard(center - gradient / gamma, self.weight, 1 / gamma)

    def step_d(self, center, source, W, gamma):
        gradient = (source @ W.T - self.Y) @ W
        return unit_columns(center - gradient / gamma)

    def value(self, W, D):
        return self.weight * np.count_nonzero(W) + 0.5 * np.linalg.norm(self.Y - D @ W.T) ** 2


def case_with_svd():
    """The dictionary problem with exact Lipschitz constants, and a start where neither factor is zero."""
    case = dictionary()
    Y = np.asarray(case.start["D"] @ np.random.default_rng(5).normal(size=(16, 60)))
    problem = tecu.Problem(couplings.MatrixFactorization(Y, lipschitz="svd"), case.problem.terms)
    W0 = np.random.default_rng(1).normal(size=(60, 16))
    return problem, Naive(Y, 0.02), {"W": W0, "D": case.start["D"]}


def compare(solver, start, twin, count=15):
    for state, (W, D) in zip(islice(solver.iterate(start), count), twin, strict=False):
        np.testing.assert_allclose(state.z["W"], W, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(state.z["D"], D, rtol=1e-9, atol=1e-11)


def test_palm_equals_its_twin():
    problem, naive, start = case_with_svd()

    def twin():
        W, D = start["W"], start["D"]
        while True:
            W = naive.step_w(W, W, D, 1.1 * naive.lipschitz(D))
            D = naive.step_d(D, D, W, 1.1 * naive.lipschitz(W))
            yield W, D

    compare(methods.palm(problem), start, twin())


def test_ipalm_equals_its_twin():
    problem, naive, start = case_with_svd()
    alpha = beta = 0.2
    eps = 0.05

    def twin():
        W = W_old = start["W"]
        D = D_old = start["D"]
        held = {"W": 0.0, "D": 0.0}

        def gamma(block, L):
            held[block] = max(held[block], L * (alpha + beta) / (1 - eps - 2 * alpha))
            return ((1 + eps) * held[block] + (1 + beta) * L) / (1 - alpha)

        while True:  # the first step is from rest, W_old = W
            y = W + alpha * (W - W_old)
            W_old, W = W, naive.step_w(y, y, D, gamma("W", naive.lipschitz(D)))
            y = D + alpha * (D - D_old)
            D_old, D = D, naive.step_d(y, y, W, gamma("D", naive.lipschitz(W)))
            yield W, D

    compare(methods.ipalm(problem, safeguard=False), start, twin())


def test_bcu_equals_its_twin():
    problem, naive, start = case_with_svd()

    def twin():
        W = W_old = start["W"]
        D = D_old = start["D"]
        weights = {"W": [1.0, None], "D": [1.0, None]}

        def omega(block, L):
            t, L_old = weights[block]
            t_new = (1 + np.sqrt(1 + 4 * t * t)) / 2
            weights[block] = [t_new, L]
            return min((t - 1) / t_new, 0.9999 * np.sqrt((L_old or L) / L))

        for first in [True] + [False] * 100:
            L = naive.lipschitz(D)
            gamma = 1.1 * L
            w = 0.0 if first else omega("W", L)
            y = W + w * (W - W_old)
            W_new = naive.step_w(y, y, D, gamma)
            need = min(1e-3 * gamma, (gamma - L) / 2) * np.linalg.norm(W_new - W) ** 2
            if naive.value(W_new, D) > naive.value(W, D) - need:
                W_new = naive.step_w(W, W, D, gamma)
            W_old, W = W, W_new
            L = naive.lipschitz(W)
            gamma = 1.1 * L
            w = 0.0 if first else omega("D", L)
            y = D + w * (D - D_old)
            D_new = naive.step_d(y, y, W, gamma)
            need = min(1e-3 * gamma, (gamma - L) / 2) * np.linalg.norm(D_new - D) ** 2
            if naive.value(W, D_new) > naive.value(W, D) - need:
                D_new = naive.step_d(D, D, W, gamma)
            D_old, D = D, D_new
            yield W, D

    compare(methods.bcu(problem), start, twin())


def test_pam_equals_its_twin():
    """Orthonormal dictionary: hard threshold and Procrustes."""
    rng = np.random.default_rng(3)
    eta, weight = 0.7, 0.05
    Y = rng.normal(size=(8, 30))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(weight), "D": terms.Stiefel()})
    start = {"W": np.zeros((30, 5)), "D": np.linalg.qr(rng.normal(size=(8, 5)))[0]}

    def twin():
        W, D = start["W"], start["D"]
        while True:
            W = hard((Y.T @ D + eta * W) / (1 + eta), weight, 1 / (1 + eta))
            U, _, V = np.linalg.svd(Y @ W + eta * D, full_matrices=False)
            D = U @ V
            yield W, D

    compare(methods.pam(problem, eta), start, twin())


class Exact:
    """A strategy that yields the sub-problem's exact minimiser."""

    endless = True

    def __call__(self, sub, u):
        while True:
            yield sub.smooth.minimize(sub.term, sub.eta)


@pytest.mark.parametrize("case", THREE_WITH_ALL_PAIRS, ids=str)
def test_exact_strategies_give_pam(case):
    pam = methods.pam(case.problem, eta=0.5)
    embedded = tecu.Solver(case.problem, tecu.Embed(Exact(), eta=0.5))
    for one, other in zip(islice(pam.iterate(case.start), 20), embedded.iterate(case.start), strict=False):
        for block in case.problem.blocks:
            np.testing.assert_allclose(one.z[block], other.z[block], rtol=1e-8, atol=1e-10)


def test_fixed_step_palm_equals_pyproximals():
    """The matrix-factorisation tutorial of PyProximal: non-negative factors, fixed steps."""
    import pyproximal
    from pyproximal.optimization.palm import PALM
    from pyproximal.utils.bilinear import LowRankFactorizedMatrix

    rng = np.random.default_rng(10)
    n, m, k = 10, 8, 3
    X, Y = np.abs(rng.normal(size=(n, k))), np.abs(rng.normal(size=(k, m)))
    data = X @ Y
    X0, Y0 = rng.random((n, k)), rng.random((k, m))
    iterates = []
    H = LowRankFactorizedMatrix(X0, Y0, data.ravel())
    box = pyproximal.Box(lower=0.0, upper=1e10)
    PALM(
        H, box, box, X0.ravel(), Y0.ravel(), gammaf=1.1, gammag=1.1, niter=12,
        callback=lambda x, y: iterates.append((x.copy(), y.copy())),
    )  # fmt: skip

    class FrobeniusBound:
        """``H`` with PyProximal's Lipschitz bound, the Frobenius norm of the other factor's Gram matrix."""

        def __init__(self, own):
            self.own, self.blocks = own, own.blocks

        def value(self, z):
            return self.own.value(z)

        def grad(self, block, z):
            return self.own.grad(block, z)

        def lipschitz(self, block, z):
            other = z["W" if block == "D" else "D"]
            return np.linalg.norm(other.T @ other)

    coupling = FrobeniusBound(couplings.MatrixFactorization(data, codes="W", dictionary="D"))
    problem = tecu.Problem(coupling, {"D": terms.NonNegative(), "W": terms.NonNegative()})
    solver = methods.palm(problem)
    compared = 0
    for state, (x, y) in zip(solver.iterate({"D": X0, "W": Y0.T}), iterates, strict=False):
        np.testing.assert_allclose(state.z["D"], x.reshape(n, k), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(state.z["W"], y.reshape(k, m).T, rtol=1e-9, atol=1e-12)
        compared += 1
    assert compared >= 10


def test_nmf_is_no_worse_than_scikit_learns():
    from sklearn.decomposition import non_negative_factorization

    ratios = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = rng.random((30, 4)) @ rng.random((4, 25)) + 0.1 * rng.random((30, 25))
        W0, H0 = rng.random((30, 4)), rng.random((4, 25))
        W, H, _ = non_negative_factorization(
            X, W=W0.copy(), H=H0.copy(), n_components=4, init="custom", solver="cd", tol=1e-6, max_iter=20000
        )
        theirs = 0.5 * np.linalg.norm(X - W @ H) ** 2
        problem = tecu.Problem(couplings.MatrixFactorization(X), {"W": terms.NonNegative(), "D": terms.NonNegative()})
        solver = tecu.Solver(problem, tecu.Embed(strategies.CoordinateDescent()))
        ours = solver.run({"D": W0, "W": H0.T}, stop=stop.RelativeChange(1e-6) | stop.MaxIter(1000))
        assert ours.certificate.holds, ours.certificate.reason
        ratios.append(ours.value / theirs)
    assert np.median(ratios) <= 1.001
