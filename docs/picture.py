"""Draws ``picture.png``: ``python docs/picture.py`` (needs the extras ``report`` and ``test``)."""

import io
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from skimage import data
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d
from threadpoolctl import threadpool_limits

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.lowlight import enhance
from tecu.report import plots


def embedded_run() -> tecu.Result:
    """A dictionary for patches of a photo, ADMM inside the block ``D``."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    patches = extract_patches_2d(grey, (8, 8), max_patches=800, random_state=0).reshape(800, 64)
    Y = (patches - patches.mean(axis=1, keepdims=True)).T
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(0.02), "D": terms.UnitColumns()})
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25)})
    with threadpool_limits(1):
        return solver.run(problem.project({"W": np.zeros((800, 64)), "D": Y[:, :64]}), stop=stop.MaxIter(60))


def halves() -> np.ndarray:
    """A photo darkened by a known light: its left half so, its right half enhanced."""
    photo = data.astronaut()[:400, 40:440]
    light = 0.1 + 0.25 * np.exp(-6 * (np.linspace(0, 1, photo.shape[1]) - 0.6) ** 2)
    dark = np.rint(photo * light[:, None]).astype(np.uint8)
    middle = photo.shape[1] // 2
    return np.hstack([dark[:, :middle], enhance(dark)[:, middle:]])


def draw() -> bytes:
    """The picture as a PNG file of 256 colours."""
    history = embedded_run().history
    with mpl.rc_context(plots.STYLE):
        figure = Figure(figsize=(10.0, 4.1), layout="constrained")
        grid = figure.add_gridspec(2, 2, width_ratios=(1.45, 1))
        plots.error(history, "D", figure.add_subplot(grid[0, 0]))
        plots.lyapunov(history, figure.add_subplot(grid[1, 0]))
        figure.axes[0].set_title(
            "ADMM inside a block: its error, computed, against what the theorem allows", loc="left"
        )
        figure.axes[0].set_xlabel("")
        figure.axes[1].set_title("so the Lyapunov function falls at every visit", loc="left")
        photo = figure.add_subplot(grid[:, 1])
        picture = halves()
        photo.imshow(picture, aspect="equal")
        photo.axvline(picture.shape[1] / 2, color="white", linewidth=2)
        box = {"facecolor": "black", "alpha": 0.7, "edgecolor": "none", "pad": 2}
        photo.text(10, 18, "a dark photo", color="white", va="center", bbox=box)
        photo.text(picture.shape[1] - 10, 18, "tecu.lowlight.enhance", color="white", va="center", ha="right", bbox=box)
        photo.set_axis_off()
        stream = io.BytesIO()
        figure.savefig(stream, format="png", dpi=110)
    small = io.BytesIO()
    image = Image.open(stream).convert("RGB").quantize(256, dither=Image.Dither.FLOYDSTEINBERG)
    image.save(small, "PNG", optimize=True)
    return small.getvalue()


if __name__ == "__main__":
    Path(__file__).with_suffix(".png").write_bytes(draw())
