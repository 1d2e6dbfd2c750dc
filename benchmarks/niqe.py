"""NIQE against the authors' program: ``python benchmarks/niqe.py --data FOLDER`` (or ``TECU_DATA=FOLDER``).

The folder holds ``calib/*.png`` and ``calib/official_matlab_scores.csv`` (row ``niqe``), and the authors'
``modelparameters.mat``. The second column of figures shows what the sign of rounding errors in flat regions
does to the score: the same program with all deviations moved by 1e-12 of a grey level down and up, and not at
all.
"""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from pathlib import Path

import numpy as np
from PIL import Image

from tecu.metrics import niqe

module = sys.modules["tecu.metrics.niqe"]  # the package's name `niqe` is the function


def spread(image: np.ndarray) -> tuple[float, float]:
    """The lowest and highest score when rounding decides the sign of flat pixels, as in the original."""
    kept = module.FLAT
    original = module._normalised
    module.FLAT = 0.0
    scores = []
    try:
        for nudge in (-1e-12, 0.0, 1e-12):
            module._normalised = lambda grey, nudge=nudge: original(grey) + nudge
            scores.append(niqe(image))
    finally:
        module.FLAT, module._normalised = kept, original
    return min(scores), max(scores)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("TECU_DATA"))
    folder = parser.parse_args().data
    if folder is None:
        parser.error("give --data FOLDER or set TECU_DATA")
    folder = Path(folder)
    folder = folder if (folder / "calib").is_dir() else folder / "niqe"
    from scipy.io import loadmat

    theirs = loadmat(folder / "modelparameters.mat")
    mean, covariance = module._parameters()
    same = np.array_equal(theirs["mu_prisparam"][0], mean) and np.array_equal(theirs["cov_prisparam"], covariance)
    print(f"parameters equal to the authors' release, bit for bit: {same}")
    rows = list(csv.reader((folder / "calib" / "official_matlab_scores.csv").open()))
    official = dict(zip(rows[0], next(row for row in rows if row[0] == "niqe"), strict=True))
    print(f"{'image':8}{'official':>10}{'ours':>10}{'apart':>9}{'%':>8}{'signs by rounding':>22}{'CPU s':>8}")
    failed = not same
    for path in sorted((folder / "calib").glob("*.png")):
        image, expected = np.asarray(Image.open(path).convert("RGB")), float(official[path.stem + ".bmp"])
        started = time.process_time()
        score = niqe(image)
        seconds = time.process_time() - started
        low, high = spread(image)
        print(
            f"{path.stem:8}{expected:10.4f}{score:10.4f}{score - expected:9.4f}"
            f"{100 * (score / expected - 1):8.2f}{low:11.4f} to {high:.4f}{seconds:8.3f}"
        )
        failed |= path.stem in ("I04", "I06") and abs(score - expected) > 0.005
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
