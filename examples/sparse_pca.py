"""Sparse principal components against scikit-learn's SparsePCA
===============================================================
``min 1/2 ||X - U V^T||^2 + alpha ||V||_1,  the columns of U in the unit ball``

is what scikit-learn minimises; the columns of V are the components. With U orthonormal instead (a Stiefel manifold)
the scores are uncorrelated as in PCA. scikit-learn has no such model: its V is given the best orthonormal U.
"""

import matplotlib.pyplot as plt
import numpy as np
from side_by_side import finish, options, race, run, show, tiles
from sklearn.datasets import load_digits
from sklearn.decomposition import dict_learning

import tecu
from tecu import couplings, stop, strategies, terms


def main():
    """Race on the digits."""
    args = options(__doc__)
    X = load_digits().data[: 200 if args.quick else 1797]
    X, m, alpha = X - X.mean(axis=0), 8, 0.3 * np.sqrt(len(X))
    coupling = couplings.MatrixFactorization(X, codes="V", dictionary="U")
    ball = tecu.Problem(coupling, {"V": terms.L1(alpha), "U": terms.UnitColumns(ball=True)})
    stiefel = tecu.Problem(coupling, {"V": terms.L1(alpha), "U": terms.Stiefel()})
    starts = []
    for seed in range(1 if args.quick else 5):
        U = np.linalg.qr(X @ np.random.default_rng(seed).standard_normal((X.shape[1], m)))[0]
        starts.append({"V": X.T @ U, "U": U})
    descend = tecu.Embed(strategies.CoordinateDescent(), eta=1e-3, max_inner=2, at_cap="keep_if_covered")
    exact = tecu.Proximal(eta=1e-3)  # orthonormal U: soft thresholding for V, the polar factor for U

    def scikit(problem):
        def from_start(start):  # SparsePCA is this function on X^T; it changes the arrays that it starts from
            init = {"code_init": start["V"].copy(), "dict_init": start["U"].T.copy()}
            V, U, _ = dict_learning(X.T, m, alpha=alpha, method="cd", max_iter=200, tol=1e-8, **init)
            z = {"V": V, "U": U.T}
            if problem is stiefel:
                z["U"] = terms.Stiefel().prox(X @ V, 1.0)
            return problem.value(problem.project(z)), z

        return from_start

    rule = stop.RelativeChange(1e-4) | stop.MaxIter(200)
    first, theirs = race("unit ball", run(tecu.Solver(ball, descend), rule), scikit(ball), starts, "scikit-learn")
    second, _ = race("Stiefel", run(tecu.Solver(stiefel, exact), rule), scikit(stiefel), starts, "scikit-learn")
    figure, axes = plt.subplots(3, 1, figsize=(9, 5))
    pictures = {}
    for name, z in {"scikit-learn": theirs, "tecu, unit ball": first.z, "tecu, Stiefel": second.z}.items():
        pictures[f"{name}: {np.mean(z['V'] == 0):.0%} zeros in V"] = tiles(z["V"], (8, 8), 1)
    show(axes, pictures, cmap="RdBu", vmin=-1, vmax=1)
    finish(figure, args.output)


if __name__ == "__main__":
    main()
