"""What the examples share: their options, a race of two methods from the same starts, pictures, a smoothed TV."""

import argparse
import logging
import time
import warnings
from statistics import median

import numpy as np
from scipy.sparse.linalg import LinearOperator
from threadpoolctl import threadpool_limits

from tecu import couplings


def options(description):
    """``-o FILE`` for the plot, ``--quick`` for a run of a few seconds, which compares nothing.

    The opponents' warnings are silenced.
    """
    logging.getLogger("proxmin").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", "Maximum number of iterations|Objective did not converge")
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", help="where the plot goes, such as plot.png")
    parser.add_argument("--quick", action="store_true", help="small and short, to see that it runs")
    chosen = parser.parse_args()
    if chosen.quick:
        print("--quick: too small and too short to compare times and objectives")
    return chosen


def run(solver, rule):
    """A function of the start that gives ``(objective, result)``, as :func:`race` wants it."""

    def from_start(start):
        result = solver.run(solver.problem.project(start), stop=rule)
        return result.value, result

    return from_start


def race(title, ours, theirs, starts, opponent):
    """Run both from every start, in turns and on one thread; each gives ``(objective, result)``.

    Print the medians of the ratios and our first certificate; return the first pair of results.
    """
    kept, values, seconds = [], [], []
    with threadpool_limits(1):
        for start in starts:
            row = []
            for method in (theirs, ours):
                began = time.process_time()
                value, result = method(start)
                row.append((value, time.process_time() - began, result))
            kept.append((row[1][2], row[0][2]))
            values.append(row[1][0] / row[0][0])
            seconds.append(row[1][1] / row[0][1])
    print(
        f"{title}: objective / {opponent}'s {median(values):.4f} ({min(values):.4f} to {max(values):.4f}), "
        f"CPU time / {opponent}'s {median(seconds):.2f} ({min(seconds):.2f} to {max(seconds):.2f}), "
        f"{len(values)} starts, {opponent} took {row[0][1]:.3g} s"
    )
    print(kept[0][0].certificate.summary())
    return kept[0]


def smooth_tv(block, weight, eps):
    """``weight * sum sqrt(|grad u|^2 + eps^2)`` as a coupling of one block."""

    def slopes(u):
        dx, dy = np.diff(u, axis=0, append=u[-1:]), np.diff(u, axis=1, append=u[:, -1:])
        size = np.sqrt(dx**2 + dy**2 + eps**2)
        return dx / size, dy / size, size

    def value(z):
        return weight * float(np.sum(slopes(z[block])[2] - eps))

    def grad(z):
        px, py, _ = slopes(z[block])
        return -weight * (np.diff(px, axis=0, prepend=0.0) + np.diff(py, axis=1, prepend=0.0))

    return couplings.Functions(value, {block: grad}, lipschitz={block: 8 * weight / eps})


def gaussian(size, high, wide):
    """A blur kernel of these widths."""
    lines = [np.exp(-((np.arange(size) - size // 2) ** 2) / (2 * width**2)) for width in (high, wide)]
    return np.outer(*lines) / np.outer(*lines).sum()


def blur_and_sample(side, factor):
    """Gaussian blur of a square picture, then every ``factor``-th pixel: a SciPy operator."""
    waves = np.exp(-2 * (np.pi * 1.2) ** 2 * (np.fft.fftfreq(side)[:, None] ** 2 + np.fft.rfftfreq(side) ** 2))

    def forth(x):
        return np.fft.irfft2(waves * np.fft.rfft2(x.reshape(side, side)))[::factor, ::factor].ravel()

    def back(y):
        spread = np.zeros((side, side))
        spread[::factor, ::factor] = y.reshape(side // factor, -1)
        return np.fft.irfft2(waves * np.fft.rfft2(spread)).ravel()

    return LinearOperator(((side // factor) ** 2, side**2), forth, back, dtype=float)


def show(axes, pictures, **settings):
    """One picture on each of the first axes."""
    for axis, (title, picture) in zip(np.ravel(axes), pictures.items(), strict=False):
        axis.imshow(picture, **{"cmap": "gray", **settings})
        axis.set_title(title, fontsize=9)
        axis.set(xticks=[], yticks=[])


def tiles(columns, shape, rows):
    """The columns as pictures of their own, in a grid."""
    scaled = columns / np.maximum(np.abs(columns).max(axis=0), 1e-12)
    pictures = np.pad(scaled.T.reshape(-1, *shape), ((0, 0), (1, 1), (1, 1)), constant_values=np.nan)
    return np.concatenate([np.concatenate(list(row), axis=1) for row in np.array_split(pictures, rows)])


def with_psnr(pictures, truth, margin=0):
    """The pictures with their PSNR, without a margin, in their titles, which are printed."""
    titled, inside = {}, np.s_[margin : len(truth) - margin, margin : len(truth) - margin]
    for name, picture in pictures.items():
        error = np.mean((np.clip(picture, 0.0, 1.0)[inside] - truth[inside]) ** 2)
        titled[f"{name}: {-10 * np.log10(error):.2f} dB"] = picture
    print("; ".join(titled))
    return titled


def finish(figure, output):
    """Save the plot, if asked."""
    if output:
        figure.savefig(output, dpi=110, bbox_inches="tight")
        print(f"plot: {output}")
