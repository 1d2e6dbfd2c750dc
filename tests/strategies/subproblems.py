"""Sub-problems that the strategies are tried on."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

import tecu
from tecu import couplings, terms


class Logistic:
    """``sum log(1 + exp(-labels * (A x)))``: smooth, not quadratic; with or without a Lipschitz constant."""

    blocks = ("x",)

    def __init__(self, A, labels, knows_constant=True):
        self.A, self.labels = A, labels
        if knows_constant:
            self.lipschitz = lambda block, z: float(np.linalg.norm(A, 2) ** 2 / 4)

    def value(self, z):
        return float(np.sum(np.logaddexp(0.0, -self.labels * (self.A @ z["x"]))))

    def grad(self, block, z):
        return -self.A.T @ (self.labels / (1.0 + np.exp(self.labels * (self.A @ z["x"]))))


class LeastSquares:
    """``1/2 ||A x - b||^2``: quadratic, with a Hessian but no Gram matrix to factor."""

    blocks = ("x",)

    def __init__(self, A, b):
        self.A, self.b = A, b

    def value(self, z):
        return 0.5 * float(np.sum((self.A @ z["x"] - self.b) ** 2))

    def grad(self, block, z):
        return self.A.T @ (self.A @ z["x"] - self.b)

    def hessian(self, block, z, v):
        return self.A.T @ (self.A @ v)

    def lipschitz(self, block, z):
        return float(np.linalg.norm(self.A, 2) ** 2)


def factorization(block, term, *, eta=0.3, dtype=np.float64, kind=np.asarray, seed=0, sizes=(8, 30, 6)):
    """One factor of ``1/2 ||Y - D W^T||^2``."""
    n, p, m = sizes
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((n, m))
    D /= np.linalg.norm(D, axis=0)
    W = rng.standard_normal((p, m)) * (rng.random((p, m)) < 0.4)
    Y = (D @ W.T + 0.1 * rng.standard_normal((n, p))).astype(dtype)
    z = {"W": W + 0.2 * rng.standard_normal(W.shape) * (W != 0), "D": D + 0.2 * rng.standard_normal(D.shape)}
    z = {name: values.astype(dtype) for name, values in z.items()}
    z[block] = term.prox(z[block], 1.0)
    only = (block,) if kind is csr_array else ("W", "D")  # the codes may be sparse, the other factor stays dense
    z = {name: kind(values) if name in only else values for name, values in z.items()}
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.Zero(), "D": terms.Zero(), block: term})
    return tecu.SubProblem.of(problem, block, z, eta=eta)


def vector(kind, term, *, eta=0.1, seed=0):
    """A block of one axis: ``logistic``, ``logistic-backtracked`` or ``least-squares``."""
    rng = np.random.default_rng(seed)
    A, b = rng.standard_normal((30, 10)) / 4, np.sign(rng.standard_normal(30))
    coupling = LeastSquares(A, b) if kind == "least-squares" else Logistic(A, b, kind == "logistic")
    start = term.prox(rng.standard_normal(10), 1.0)
    return tecu.SubProblem.of(tecu.Problem(coupling, {"x": term}), "x", {"x": start}, eta=eta)
