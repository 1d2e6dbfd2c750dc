"""Blind deconvolution of a photograph against PyProximal's PALM and Richardson-Lucy
====================================================================================
``min over x in [0, 1], k on the simplex  1/2 ||k * x - y||^2 + WEIGHT sum sqrt(|grad x|^2 + EPS^2)``

PALM's steps for k are tiny, because the mean of x makes its constant huge. The embedded strategy leaves the mean out,
which the simplex does not see, and solves for the 49 entries of k. Richardson-Lucy is given k: the start's, the true.
"""

from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
from opponents import Bilinear
from pyproximal import Box, Simplex
from pyproximal.optimization.palm import PALM
from scipy.signal import convolve
from side_by_side import finish, gaussian, options, race, run, show, smooth_tv, with_psnr
from skimage import data, restoration

import tecu
from tecu import couplings, stop, terms

WEIGHT, EPS, SIZE, SIMPLEX = 2e-3, 1e-2, 7, terms.Simplex()
KERNEL = SimpleNamespace(  # a term of our own is anything with these three; here all entries lie on one simplex
    is_convex=True,
    value=lambda k: SIMPLEX.value(k.ravel()),
    prox=lambda k, step: SIMPLEX.prox(k.ravel(), step).reshape(k.shape),
)


def best_kernel(sub, k):
    """A strategy of our own: FISTA on the 49 x 49 system without its constant part."""
    center = np.eye(k.size) - 1 / k.size
    A = center @ np.array([sub.hessian(e.reshape(k.shape)).ravel() for e in np.eye(k.size)]) @ center
    slope, L, first = center @ sub.grad(k).ravel(), np.linalg.eigvalsh(A)[-1], k.ravel()
    u, ahead, t = first, first, 1.0
    while True:
        for _ in range(100):
            new = SIMPLEX.prox(ahead - (slope + A @ (ahead - first)) / L, 1 / L)
            t, last = 0.5 + np.sqrt(0.25 + t**2), t
            u, ahead = new, new + (last - 1) / t * (new - u)
        yield u.reshape(k.shape)


def main():
    """Race on a part of the cameraman."""
    args = options(__doc__)
    count, side, sweeps, palms = (1, 32, 2, 5) if args.quick else (5, 96, 12, 300)
    truth = data.camera()[60 : 60 + 2 * side : 2, 160 : 160 + 2 * side : 2] / 255.0
    k, noise = gaussian(SIZE, 1.5, 1.1), np.random.default_rng(0).normal(0, 0.005, truth.shape)
    y = np.clip(convolve(np.pad(truth, SIZE // 2, mode="wrap"), k, "valid") + noise, 0, 1)
    H = couplings.Convolution(y) + smooth_tv("x", WEIGHT, EPS)
    problem = tecu.Problem(H, {"x": terms.Box(0.0, 1.0), "k": KERNEL})
    embed, steps = tecu.Embed(best_kernel, eta=100.0, max_inner=3), tecu.ProxLinear(extrapolation=tecu.Nesterov())
    solver = tecu.Solver(problem, {"x": steps, "k": embed}, schedule=["x"] * 5 + ["k"])
    starts = [problem.project({"x": y, "k": gaussian(SIZE, s, s)}) for s in np.linspace(1.6, 2.4, count)]

    def palm(start):
        flat = [start[block].ravel() for block in "xk"]
        x, k = PALM(Bilinear(H, start), Box(0.0, 1.0), Simplex(SIZE**2, 1.0), *flat, niter=palms)
        z = problem.project({"x": x.reshape(y.shape), "k": k.reshape(SIZE, SIZE)})
        return problem.value(z), z

    found, theirs = race("blind deconvolution", run(solver, stop.MaxIter(sweeps)), palm, starts, "PALM")
    lucy = [restoration.richardson_lucy(y, kernel, num_iter=10) for kernel in (starts[0]["k"], k)]
    pictures = {
        "blurred": y,
        "tecu": found.z["x"],
        "PALM": theirs["x"],
        "RL, start's k": lucy[0],
        "RL, true k": lucy[1],
    }
    figure, axes = plt.subplots(1, 7, figsize=(20, 3))
    show(axes, with_psnr(pictures, truth, margin=SIZE), vmin=0, vmax=1)  # Richardson-Lucy errs at the border
    show(axes[5:], {"k found": found.z["k"], "k true": k})
    finish(figure, args.output)


if __name__ == "__main__":
    main()
