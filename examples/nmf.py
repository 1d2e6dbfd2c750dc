"""Non-negative matrix factorisation, plain and with l0, against scikit-learn and proxmin
=========================================================================================
``min 1/2 ||Y - D W^T||^2  with W, D >= 0;  and with 0.02 ||W||_0 added, the columns of D of unit length``

The strategy embedded in the first is our own: a compiled HALS, each row of a factor improved entry by entry.
"""

import matplotlib.pyplot as plt
import numpy as np
from numba import njit
from proxmin.nmf import nmf
from side_by_side import finish, options, race, run, show, tiles
from sklearn.datasets import load_sample_image
from sklearn.decomposition import NMF
from sklearn.feature_extraction.image import extract_patches_2d

import tecu
from tecu import couplings, methods, stop, terms


@njit(fastmath=True)
def cycle(U, slopes, A, count):
    """``count`` exact moves of every entry: ``u_j <- max(0, u_j - slope_j / A_jj)``."""
    for i in range(U.shape[0]):
        u, slope = U[i], slopes[i]
        for step in range(count * len(A)):
            j = step % len(A)
            move = max(-u[j], -slope[j] / A[j, j])
            if move != 0.0:
                u[j] += move
                for k in range(len(A)):
                    slope[k] += move * A[j, k]


def hals(sub, u):
    """A strategy is a generator of better and better points, here with the gradient that it knows anyway."""
    # The second derivative acts on every row by the same small matrix: read it off the first rows.
    A, slopes = sub.hessian(np.eye(*u.shape))[: u.shape[1]].copy(), np.array(sub.grad(u), order="C")
    while True:
        u, slopes = np.array(u, order="C"), slopes.copy()
        cycle(u, slopes, A, 6 if len(u) > 1000 else 32)  # cheap where the rows are few
        yield tecu.Candidate(u, gradient=slopes)


def main():
    """Race on patches of a photograph."""
    args = options(__doc__)
    count, patches, sweeps, theirs = (1, 300, 5, 10) if args.quick else (5, 4000, 34, 200)
    picture = load_sample_image("china.jpg").mean(2) / 255
    X = extract_patches_2d(picture, (12, 12), max_patches=patches, random_state=0).reshape(patches, -1)
    H, m, random = couplings.MatrixFactorization(X.T.copy()), 24, np.random.default_rng(0)
    starts = [
        {b: np.abs(random.normal(0, 0.15, (n, m))) for b, n in zip("WD", X.shape, strict=True)} for _ in range(count)
    ]
    plain = tecu.Problem(H, {"W": (positive := terms.NonNegative()), "D": positive})
    sparse = tecu.Problem(H, {"W": (W := terms.L0(0.02) + positive), "D": (D := terms.UnitColumns() + positive)})
    embedded = tecu.Solver(plain, tecu.Embed(hals, eta=1e-3, max_inner=1, at_cap="keep_if_covered"))
    embedded.run(starts[0], stop=stop.MaxIter(1))  # compiles

    def scikit(start):
        model = NMF(m, init="custom", max_iter=theirs)
        W = model.fit_transform(X, W=start["W"].copy(), H=start["D"].T.copy())
        return plain.value({"W": W, "D": model.components_.T}), model

    def proxmin(start):
        z = {b: u.copy() for b, u in sparse.project(start).items()}  # they are changed in place
        nmf(X.T, z["D"], z["W"].T, prox_A=D.prox, prox_S=lambda S, step: W.prox(S.T, step).T, max_iter=100, e_rel=0)
        return sparse.value(sparse.project(z)), None

    first, _ = race("NMF", run(embedded, stop.MaxIter(sweeps)), scikit, starts, "scikit-learn")
    second, _ = race("l0 NMF", run(methods.bcu(sparse), stop.MaxIter(60)), proxmin, starts, "proxmin")
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8))
    show(axes[1:], {"NMF: D": tiles(first.z["D"], (12, 12), 4), "l0 NMF: D": tiles(second.z["D"], (12, 12), 4)})
    axes[0].semilogy(first.history["value"], "b", second.history["value"], "r")
    axes[0].set_title("objective: NMF, l0 NMF (above)", fontsize=9)
    finish(figure, args.output)


if __name__ == "__main__":
    main()
