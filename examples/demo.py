"""What ``make demo`` runs: a dictionary problem with a certificate, a dark photo made bright, a page with the plots."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_sample_image
from sklearn.feature_extraction.image import extract_patches_2d
from threadpoolctl import threadpool_limits

import tecu
from tecu import couplings, report, stop, strategies, terms
from tecu.lowlight import Enhancer
from tecu.metrics import psnr


def learn_dictionary() -> tuple[tecu.Result, report.Section]:
    """``min 0.02 ||W||_0 + 1/2 ||Y - D W^T||^2`` over unit columns of ``D``, with ADMM inside the block ``D``."""
    grey = load_sample_image("china.jpg").mean(axis=2) / 255
    patches = extract_patches_2d(grey, (8, 8), max_patches=800, random_state=0).reshape(800, 64)
    Y = (patches - patches.mean(axis=1, keepdims=True)).T
    problem = tecu.Problem(
        couplings.MatrixFactorization(Y, codes="W", dictionary="D"),
        terms={"W": terms.L0(0.02), "D": terms.UnitColumns()},
    )
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25)})
    start = problem.project({"W": np.zeros((800, 64)), "D": Y[:, :64]})
    with threadpool_limits(1):  # matrices this small are slower on several threads
        result = solver.run(start, stop=stop.RelativeChange(1e-4) | stop.MaxIter(60))
    usage = np.count_nonzero(result.z["W"], axis=0)
    return result, report.atoms(result.z["D"].T, (8, 8), title="The atoms it learned", usage=usage)


def brighten_photo() -> report.Section:
    """A photo of scikit-learn, darkened by a known smooth light, and what the enhancer makes of it."""
    photo = load_sample_image("china.jpg")
    rows, columns = photo.shape[:2]
    light = 0.1 + 0.4 * np.exp(-6 * (np.arange(columns) / columns - 0.7) ** 2)
    dark = np.rint(photo * light[:, None]).astype(np.uint8)
    enhancer = Enhancer()
    bright, parts = enhancer(dark), enhancer.decompose(dark)
    caption = (
        f"{columns} x {rows} pixels; PSNR to the photo before it was darkened: {psnr(dark, photo):.1f} dB dark, "
        f"{psnr(bright, photo):.1f} dB enhanced. The certificate of the decomposition {parts.certificate.reason}"
    )
    print(f"\nPhoto: {caption}")
    return report.pictures(dark, bright, title="A dark photo", caption=caption)


def main(folder: str = "demo-out") -> None:
    """Run both and write ``index.html`` and the plots to ``folder``."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    result, atoms = learn_dictionary()
    print(result.summary())
    page = report.write_run(
        result,
        target / "index.html",
        title="tecu: what the demo did",
        plots_folder=target / "plots",
        more=[atoms, brighten_photo()],
    )
    print(f"\nThe page with the plots: {page.resolve()}")


if __name__ == "__main__":
    if any(argument.startswith("-") for argument in sys.argv[1:]):
        sys.exit("demo.py takes one argument, the folder for its page, and no options")
    main(*sys.argv[1:])
