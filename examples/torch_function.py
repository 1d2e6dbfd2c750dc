"""A problem stated only as a torch function, against proxmin's proximal Adam
=============================================================================
``min over |U| <= 1, V  sum softplus(U V^T) - B * (U V^T) + ||V||_1``

is logistic factorisation of a binary matrix: entry (i, j) is 1 with probability sigmoid(u_i . v_j). No derivative and
no Lipschitz constant is given: torch differentiates, and the steps are found by back-tracking. Adam's step has to be
found by hand: 0.3 was the best of 0.01, 0.03, 0.1 and 0.3.
"""

import matplotlib.pyplot as plt
import numpy as np
import torch
from proxmin.algorithms import adaprox
from side_by_side import finish, options, race, run, show, tiles
from sklearn.datasets import load_digits

import tecu
from tecu import couplings, methods, stop, terms


def main():
    """Race on the digits, black or white."""
    args = options(__doc__)
    count, rows, sweeps, theirs = (1, 100, 20, 20) if args.quick else (5, 1000, 140, 400)
    B, m = torch.tensor(load_digits().data[:rows] > 8, dtype=torch.float64), 6

    def misfit(U, V):
        logits = U @ V.T
        return torch.sum(torch.nn.functional.softplus(logits) - B * logits)

    problem = tecu.Problem(couplings.Autodiff(misfit), {"U": terms.Box(-1.0, 1.0), "V": terms.L1(1.0)})
    random = torch.Generator().manual_seed(0)
    starts = []
    for _ in range(count):
        U, V = (torch.rand(n, m, generator=random, dtype=torch.float64) - 0.5 for n in B.shape)
        starts.append({"U": U, "V": V})

    def proximal_adam(start):
        X = [start["U"].numpy().copy(), start["V"].numpy().copy()]  # they are changed in place

        def gradients(*X):
            U, V = (torch.from_numpy(x.copy()).requires_grad_() for x in X)
            return [g.numpy() for g in torch.autograd.grad(misfit(U, V), (U, V))]

        proxes = [
            lambda U, step: np.clip(U, -1.0, 1.0),
            lambda V, step: np.sign(V) * np.maximum(np.abs(V) - step, 0.0),  # the step is an array: one for each entry
        ]
        adaprox(X, gradients, lambda *X, it: (0.3, 0.3), prox=proxes, max_iter=theirs, check_convergence=False)
        z = {"U": torch.from_numpy(X[0]), "V": torch.from_numpy(X[1])}
        return problem.value(problem.project(z)), z

    rule = stop.RelativeChange(1e-4) | stop.MaxIter(sweeps)
    found, other = race(
        "logistic factorisation", run(methods.bcu(problem), rule), proximal_adam, starts, "proximal Adam"
    )
    figure, axes = plt.subplots(1, 3, figsize=(12, 3))
    axes[0].semilogy(found.history["seconds"], found.history["value"])
    axes[0].set(xlabel="seconds", ylabel="objective")
    pictures = {"tecu: V": found.z["V"], "proximal Adam: V": other["V"]}
    show(axes[1:], {name: tiles(V.numpy(), (8, 8), 2) for name, V in pictures.items()}, cmap="RdBu", vmin=-1, vmax=1)
    finish(figure, args.output)


if __name__ == "__main__":
    main()
