"""A video as background, moving things and a gain of each frame, against proxmin
=================================================================================
``min 1/2 ||Y - L diag(g) - S||^2 + 0.6 ||L||_* + 0.02 ||S||_1,  g >= 0 with mean 1``

One column of Y is one frame. The light flickers, which plain low-rank plus sparse takes for rank or for movement.
"""

from functools import partial

import matplotlib.pyplot as plt
import numpy as np
from proxmin.algorithms import pgm
from side_by_side import finish, options, race, run, show

import tecu
from tecu import couplings, stop, terms


def make_video(frames, side, random):
    """A textured background, a bright square that moves, a flickering gain, noise; one frame a column."""
    rows, columns = np.mgrid[:side, :side] / side
    still = 0.5 + 0.2 * np.sin(7 * rows) * np.cos(5 * columns) + 0.1 * columns
    moving, gain = np.zeros((frames, side, side)), 1 + 0.25 * np.sin(0.9 * np.arange(frames))
    for t in range(frames):
        top = 4 + t * (side - 12) // frames
        moving[t, top : top + side // 8, side // 6 : side // 3] = 0.4
    video = gain[:, None, None] * still + moving + 0.01 * random.standard_normal(moving.shape)
    return video.reshape(frames, -1).T, moving.reshape(frames, -1).T, gain


def main():
    """Race from five starts."""
    args = options(__doc__)
    count, frames, side, sweeps, theirs = (1, 12, 16, (10, 10), 10) if args.quick else (5, 40, 48, (24, 34), 70)
    Y, moving, gain = make_video(frames, side, np.random.default_rng(0))
    blocks = {"g": terms.Simplex(total=float(frames)), "L": terms.NuclearNorm(0.6), "S": terms.L1(0.02)}

    def misfit(z):
        return z["L"] * z["g"] + z["S"] - Y

    H = couplings.Functions(
        lambda z: 0.5 * float(np.linalg.norm(misfit(z))) ** 2,
        {"L": lambda z: misfit(z) * z["g"], "S": misfit, "g": lambda z: np.sum(misfit(z) * z["L"], axis=0)},
        {"L": lambda z: np.max(z["g"]) ** 2, "S": 1.0, "g": lambda z: np.max(np.sum(z["L"] ** 2, axis=0))},
        minimize={"S": lambda z, term, eta: term.prox(z["S"] - misfit(z) / (1 + eta), 1 / (1 + eta))},
    )
    problem = tecu.Problem(H, blocks)
    steps = tecu.ProxLinear(step_factor=1.5, extrapolation=tecu.Nesterov())  # longer steps send g astray at first
    solver = tecu.Solver(problem, {"L": steps, "S": tecu.Proximal(eta=1e-3), "g": steps})
    still, random = np.repeat(Y.mean(axis=1, keepdims=True), frames, axis=1), np.random.default_rng(1)
    starts = [problem.project({"L": still, "S": 0 * Y, "g": random.uniform(0.8, 1.2, frames)}) for _ in range(count)]

    def proxmin(start, accelerated):
        z = {block: start[block].copy() for block in blocks}  # changed in place

        def gradients(*X):
            return [H.grad(block, dict(zip(blocks, X, strict=True))) for block in blocks]

        def steps(*X, it):  # all blocks move at once: half of each one's own step (accelerated diverges at 2/3)
            return [1 / H.lipschitz(block, dict(zip(blocks, X, strict=True))) / 2 for block in blocks]

        proxes = [term.prox for term in blocks.values()]
        pgm(list(z.values()), gradients, steps, prox=proxes, accelerated=accelerated, max_iter=theirs, e_rel=1e-9)
        return problem.value(problem.project(z)), z

    for accelerated, opponent in enumerate(("proxmin", "accelerated proxmin")):
        other, ours = partial(proxmin, accelerated=bool(accelerated)), run(solver, stop.MaxIter(sweeps[accelerated]))
        z = race("low rank + sparse", ours, other, starts, opponent)[0].z
    print(f"correlation of g with the true gain {np.corrcoef(z['g'], gain)[0, 1]:.4f}, ", end="")
    print(f"error of S {np.linalg.norm(z['S'] - moving) / np.linalg.norm(moving):.1%} of the moving part")
    figure, axes = plt.subplots(1, 4, figsize=(13, 3))
    parts = {"frame": Y, "background": z["L"], "moving": z["S"]}
    show(axes, {title: part[:, frames // 2].reshape(side, side) for title, part in parts.items()})
    axes[3].plot(np.stack([gain, z["g"]], axis=1), label=["true gain", "g"])
    axes[3].legend()
    finish(figure, args.output)


if __name__ == "__main__":
    main()
