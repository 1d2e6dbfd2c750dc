"""Plug-and-play deblurring and super-resolution, a denoiser embedded
=====================================================================
``min over x, v in [0, 1]  1/2 ||A x - b||^2 + W/2 ||x - v||^2 + W WEIGHT TV(v),  TV smoothed by EPS``

The denoiser proposes v at every visit; gradient steps finish what it leaves. Plain plug-and-play takes its word:
v = D(x), then x = argmin 1/2 ||A x - b||^2 + W/2 ||x - v||^2. That is deepinv's HQS, which is run too if installed.
"""

from functools import partial
from importlib.util import find_spec

import matplotlib.pyplot as plt
import numpy as np
from opponents import deepinv_hqs, plain_plug_and_play
from side_by_side import blur_and_sample, finish, options, show, smooth_tv
from skimage import data, metrics, restoration

import tecu
from tecu import couplings, interop, stop, strategies, terms

W, WEIGHT, EPS = 0.1, 0.025, 5e-3
DENOISERS = {
    "TV": (lambda u, s: restoration.denoise_tv_chambolle(u, s, max_num_iter=300, eps=1e-6), WEIGHT),
    "non-local means": (lambda u, s: restoration.denoise_nl_means(u, 5, 6, h=s), 0.06),
}


def main():
    """Both tasks with both denoisers."""
    args = options(__doc__)
    side, count = (32, 8) if args.quick else (96, 60)
    truth = data.camera()[60 : 60 + 2 * side : 2, 160 : 160 + 2 * side : 2] / 255.0
    figure, axes = plt.subplots(2, 4, figsize=(14, 6.5))
    for row, (task, factor) in zip(axes, (("deblurring", 1), ("super-resolution", 2)), strict=True):
        A = blur_and_sample(side, factor)
        b = A.matvec(truth.ravel()) + 0.01 * np.random.default_rng(0).standard_normal(A.shape[0])
        start = np.clip(A.rmatvec(b).reshape(side, side) * factor**2, 0, 1)
        H = couplings.Linear(interop.operator(A), b) + couplings.Difference("x", "v", W)
        problem = tecu.Problem(H + smooth_tv("v", W * WEIGHT, EPS), {"x": terms.Zero(), "v": terms.Box(0.0, 1.0)})
        for name, (function, strength) in DENOISERS.items():
            denoiser, curves = interop.strategy(function, strength=strength), {"tecu": [], "plain": []}

            def note(v, curve):
                curve.append(metrics.peak_signal_noise_ratio(truth, np.clip(v, 0, 1), data_range=1.0))

            embed = tecu.Embed(denoiser, strategies.FISTA(), eta=0.02, c=0.009, max_inner=60)
            solver = tecu.Solver(problem, {"x": tecu.Embed(strategies.PCG(), eta=1e-3), "v": embed})
            callback = partial(lambda curve, state: note(state.z["v"], curve), curves["tecu"])
            result = solver.run({"x": start, "v": start}, stop=stop.MaxIter(count), callbacks=[callback])
            for v in plain_plug_and_play(A, b, start, denoiser, W, count):
                note(v, curves["plain"])
            last = {kind: f"{curve[-1]:.2f} dB (best {max(curve):.2f})" for kind, curve in curves.items()}
            if find_spec("deepinv"):
                note(deepinv_hqs(A, b, start, function, strength, W, count), theirs := [])
                last["deepinv"] = f"{theirs[0]:.2f} dB"
            visits = [visit for visit in result.state.visits if visit.block == "v"]
            obeyed = sum(v.inner == 1 for v in visits)
            overruled = sum(v.outcome is tecu.Outcome.FELL_BACK for v in visits)
            steps = np.mean([v.inner for v in visits]) - 1
            print(f"{task}, {name}: " + ", ".join(f"{kind} {text}" for kind, text in last.items()))
            print(f"  {len(visits)} visits: the denoiser was obeyed at once at {obeyed} and overruled at {overruled};")
            print(
                f"  {steps:.1f} gradient steps a visit finished its proposals. Certificate: {result.certificate.reason}"
            )
            row[3].plot(np.stack(list(curves.values()), axis=1), label=[f"{kind}, {name}" for kind in curves])
        show(row, {f"{task}: start": start, "tecu": result.z["v"], f"plain, {name}": v}, vmin=0, vmax=1)
        row[3].legend(title="PSNR over the iterations", fontsize=7)
    finish(figure, args.output)


if __name__ == "__main__":
    main()
