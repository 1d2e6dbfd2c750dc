"""What the engine costs: against a twin written by hand, and with its certificate against without; and its import."""

from __future__ import annotations

import subprocess
import sys
from itertools import islice

import numpy as np
from threadpoolctl import threadpool_limits

import tecu
from benchmarks._timing import interleaved
from tecu import couplings, methods, stop, strategies, terms

N, M, P, LAMBDA = 64, 600, 4000, 0.018


def data(N=N, M=M, P=P, seed=0):
    """Planted codes, 6 coefficients a sample, 30 dB; random data columns as the first dictionary."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(N, M))
    D /= np.linalg.norm(D, axis=0)
    W = np.zeros((P, M))
    for row in W:
        row[rng.choice(M, 6, replace=False)] = rng.normal(size=6)
    Y = D @ W.T
    Y += rng.normal(size=Y.shape) * np.linalg.norm(Y) / np.sqrt(Y.size) * 10 ** (-30 / 20)
    D0 = Y[:, rng.choice(P, M, replace=False)]
    return Y, np.zeros((P, M)), D0 / np.linalg.norm(D0, axis=0)


def power(A, v, steps=10):
    """The largest eigenvalue of ``A^T A`` with a warm start and a margin."""
    for _ in range(steps):
        w = A.T @ (A @ v)
        size = np.linalg.norm(w)
        if size == 0:
            return 0.0, v
        v = w / size
    return 1.01 * size, v


def naive_palm(Y, W, D, iterations):
    """PALM as people write it: steps, an objective, a stop rule."""
    rng = np.random.default_rng(1)
    vD, vW = rng.normal(size=M), rng.normal(size=M)
    value = np.inf
    for _ in range(iterations):
        L, vD = power(D, vD)
        gamma = 1.1 * L
        X = W - ((D @ W.T - Y).T @ D) / gamma
        W_new = np.where(2 * LAMBDA / gamma < X * X, X, 0.0)
        L, vW = power(W_new, vW)
        gamma = 1.1 * L
        X = D - ((D @ W_new.T - Y) @ W_new) / gamma
        D_new = X / np.linalg.norm(X, axis=0)
        last, value = value, LAMBDA * np.count_nonzero(W_new) + 0.5 * np.sum((Y - D_new @ W_new.T) ** 2)
        change = max(
            np.linalg.norm(W_new - W) / max(np.linalg.norm(W), 1e-300),
            np.linalg.norm(D_new - D) / np.linalg.norm(D),
            abs(value - last) / value,
        )
        W, D = W_new, D_new
        if change < 1e-12:
            break
    return W, D


def overhead():
    Y, W0, D0 = data()
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(LAMBDA), "D": terms.UnitColumns()})
    rule = stop.RelativeChange(1e-12) | stop.MaxIter(40)
    best = interleaved(
        {
            "engine": lambda: methods.palm(problem).run({"W": W0, "D": D0}, stop=rule),
            "twin": lambda: naive_palm(Y, W0, D0, 40),
        }
    )
    print(
        f"PALM, 40 iterations, n={N} m={M} p={P}, float64: engine {best['engine']:.3f} s, hand-written twin "
        f"{best['twin']:.3f} s, ratio {best['engine'] / best['twin']:.3f} (at most 1.10)"
    )


def small_blocks(sweeps=500):
    """What a visit costs by itself: blocks so small that the mathematics takes no time, in a user's own coupling."""
    rng = np.random.default_rng(0)
    A, y, start = rng.normal(size=(100, 100)) / 10, rng.normal(size=100), {"x": np.zeros(100), "v": np.zeros(100)}
    constants = {"x": np.linalg.norm(A, 2) ** 2 + 1.0, "v": 1.0}
    coupling = couplings.Functions(
        lambda z: 0.5 * float(np.sum((A @ z["x"] - y) ** 2) + np.sum((z["x"] - z["v"]) ** 2)),
        {"x": lambda z: A.T @ (A @ z["x"] - y) + z["x"] - z["v"], "v": lambda z: z["v"] - z["x"]},
        lipschitz=constants,
    )
    solver = methods.palm(tecu.Problem(coupling, {"x": terms.L1(0.1), "v": terms.NonNegative()}))

    def by_hand():
        x, v = start["x"], start["v"]
        gx, gv = (1.1 * constants[block] for block in "xv")
        for _ in range(sweeps):
            moved = x - (A.T @ (A @ x - y) + x - v) / gx
            x = np.sign(moved) * np.maximum(np.abs(moved) - 0.1 / gx, 0.0)
            v = np.maximum(v - (v - x) / gv, 0.0)
            0.5 * float(np.sum((A @ x - y) ** 2) + np.sum((x - v) ** 2)) + 0.1 * float(np.sum(np.abs(x)))

    best = interleaved({"engine": lambda: solver.run(start, stop=stop.MaxIter(sweeps)), "twin": by_hand})
    apart = (best["engine"] - best["twin"]) / (2 * sweeps)
    print(f"blocks of 100 entries, {sweeps} sweeps: a visit costs {1e3 * apart:.2f} ms more than by hand")


def plain_prox_gradient(sub, u):
    tau = sub.lipschitz()
    while True:
        u = sub.prox(u - sub.grad(u) / tau, 1.0 / tau)
        yield u


def certificate_cost(N, M, P, sweeps, repeats):
    """Embedded prox-gradient steps, l1 codes and unit atoms: the run with all its tests against the bare steps."""
    Y, _, D0 = data(N, M, P)
    W0 = np.random.default_rng(2).normal(size=(P, M)) * 0.01
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L1(0.05), "D": terms.UnitColumns()})
    solver = tecu.Solver(problem, tecu.Embed(strategies.ProxGradient(), max_inner=30))
    result = solver.run({"W": W0, "D": D0}, stop=stop.MaxIter(sweeps))
    inner = [(v.block, v.inner) for v in result.state.visits]
    eta = {block: result.state.memory[block]["engine"]["eta"] for block in "WD"}

    def bare():
        z = {"W": W0, "D": D0}
        memory = {"W": {}, "D": {}}
        for block, count in inner:
            sub = tecu.SubProblem.of(problem, block, z, eta[block], memory[block])
            *_, u = islice(plain_prox_gradient(sub, z[block]), count)
            z = {**z, block: u}
            if block == "D":
                value = problem.value(z)  # any run looks at its objective once a sweep
        return value

    def certified():
        return solver.run({"W": W0, "D": D0}, stop=stop.MaxIter(sweeps))

    best = interleaved({"certified": certified, "bare": bare}, repeats)
    print(
        f"Embedded prox-gradient steps ({sum(n for _, n in inner)} in {sweeps} sweeps), n={N} m={M} p={P}: certified "
        f"{best['certified']:.3f} s, bare steps {best['bare']:.3f} s, "
        f"ratio {best['certified'] / best['bare']:.3f} (at most 1.25)"
    )


def import_cost():
    def seconds(module):
        code = f"import time; t = time.process_time(); import {module}; print(time.process_time() - t)"
        return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)

    pairs = [(seconds("tecu"), seconds("scipy.optimize")) for _ in range(9)]
    ours, theirs = (min(column) for column in zip(*pairs, strict=True))
    print(f"import tecu {ours:.3f} s, import scipy.optimize {theirs:.3f} s, ratio {ours / theirs:.2f} (at most 1.5)")


def main():
    with threadpool_limits(1):
        overhead()
        small_blocks()
        for n, m in ((144, 300), (64, 600)):
            certificate_cost(n, m, 4000, 15, repeats=7)  # a short run: the tests at its ends weigh more
            certificate_cost(n, m, 4000, 40, repeats=2)
    import_cost()
