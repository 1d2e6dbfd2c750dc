"""Seconds of the classical methods at 0.2 and 1 megapixel, and their scores on pairs.

    python -m benchmarks classical                       # times on a photo inside scikit-learn
    python -m benchmarks classical --data FOLDER ...     # also scores on FOLDER/low against FOLDER/high or ref

Times are processor seconds, the best of some interleaved runs. The paper's, on two photos of
unknown size: SRIE 0.13 and 0.51, WVM 2.08 and 5.90, JIEP 1.11 and 3.12, HDRNet 4.94 and 13.79.
Commonly quoted PSNR on the 15 test pairs of LOL: multi-scale Retinex 13.17, NPE 16.97, SRIE 11.86, LIME 16.76.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from PIL import Image

from tecu.lowlight.classical import METHODS, get
from tecu.reproduce import table3

SIZES = {"0.2 MP": (548, 365), "1 MP": (1225, 816)}


def photo(size: tuple[int, int]) -> np.ndarray:
    from sklearn.datasets import load_sample_image

    resized = Image.fromarray(load_sample_image("china.jpg")).resize(size, Image.Resampling.BICUBIC)
    noise = np.random.default_rng(0).normal(0, 0.01, (size[1], size[0], 3))
    return np.clip(np.asarray(resized) / 255.0 * 0.2 + noise, 0, 1).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="*", default=[], help="folders with pairs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    options = parser.parse_args()
    functions = {name: get(name) for name in options.methods}
    pictures = {label: photo(size) for label, size in SIZES.items()}
    best: dict[tuple[str, str], float] = {}
    for function in functions.values():
        function(pictures["0.2 MP"][:64, :64])  # compiles and loads
    for _ in range(options.runs):
        for name, function in functions.items():
            for label, picture in pictures.items():
                began = time.process_time()
                function(picture)
                seconds = time.process_time() - began
                best[name, label] = min(seconds, best.get((name, label), np.inf))
    print("| method | " + " | ".join(f"{label} (s)" for label in SIZES) + " |\n|---|" + "---|" * len(SIZES))
    for name in functions:
        print(f"| {name} | " + " | ".join(f"{best[name, label]:.2f}" for label in SIZES) + " |")
    for folder in options.data:
        print(table3.markdown(table3.run([folder], ["input", *functions, "tecu"])))


if __name__ == "__main__":
    main()
