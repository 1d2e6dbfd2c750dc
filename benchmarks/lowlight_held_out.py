"""What choosing the settings on the pairs themselves is worth.

``TECU_DATA=FOLDER python -m benchmarks lowlight_held_out``. The rule of the tone (its exponent, its share of the
decision, its target) was chosen with LOL and SICE pairs in view. Here it is chosen again, among 60 settings: on one set
and measured on the other, and on four fifths of a set and measured on the last fifth. All is measured on the grid
of the decomposition, without denoising, which is quick; the figures are not those of whole pictures, only their
differences are of use.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path

import numpy as np

from tecu.lowlight import Enhancer, tone
from tecu.lowlight.exposure import illumination_at
from tecu.lowlight.grid import following, shrink
from tecu.lowlight.model import illumination
from tecu.reproduce.photo_sets import from_folder

EXPONENTS, SHARES, TARGETS = (0.6, 0.65, 0.7, 0.75, 0.85), (0.25, 0.5, 0.75, 1.0), (-0.03, 0.0, 0.03)
FOLDS = 5


def scores(photos, settings) -> np.ndarray:
    """PSNR, a row a photo and a column a setting."""
    network, aimed = Enhancer().network, tone.target_luma
    rows = []
    try:
        for photo in photos:
            small, wanted = shrink(photo.dark), shrink(photo.reference)
            brightest, proposal = np.ascontiguousarray(small.max(axis=-1)), network(small)
            slope, offset = following(illumination(brightest, proposal.illumination, "tecu"), brightest)
            light = illumination_at(brightest, slope, offset)
            row = []
            for exponent, share, shift in settings:
                tone.RULE_EXPONENT, tone.RULE_WEIGHT = exponent, share
                tone.target_luma = lambda mean, shift=shift: aimed(mean) + shift
                found = tone.by_network(small, light, proposal.exponent, proposal.knots)
                raised = np.clip(small * light[..., None] ** np.float32(-found.exponent), 0.0, 1.0)
                result = np.interp(raised, np.linspace(0.0, 1.0, len(found.curve)), found.curve)
                row.append(-10.0 * np.log10(np.mean((result - wanted) ** 2)))
            rows.append(row)
    finally:
        tone.target_luma = aimed
    return np.array(rows)


def main() -> None:
    data = os.environ.get("TECU_DATA")
    if not data:
        print("this needs TECU_DATA=FOLDER with lol_pairs and sice_pairs")
        return
    default = (tone.RULE_EXPONENT, tone.RULE_WEIGHT, 0.0)
    settings = list(product(EXPONENTS, SHARES, TARGETS))
    here = settings.index(default)
    try:
        found = {name: scores(from_folder(Path(data) / name), settings) for name in ("lol_pairs", "sice_pairs")}
    finally:
        tone.RULE_EXPONENT, tone.RULE_WEIGHT = default[:2]
    for name, table in found.items():
        (other,) = (rest for label, rest in found.items() if label != name)
        elsewhere, best = int(other.mean(axis=0).argmax()), int(table.mean(axis=0).argmax())
        folds = np.arange(len(table)) % FOLDS
        inside = [table[folds == k, table[folds != k].mean(axis=0).argmax()].mean() for k in range(FOLDS)]
        mean = table.mean(axis=0)
        print(
            f"{name}: shipped {mean[here]:.2f} dB; chosen on the other set {mean[elsewhere]:.2f} "
            f"{settings[elsewhere]}; chosen on four fifths of this one {np.mean(inside):.2f}; best in hindsight "
            f"{mean[best]:.2f} {settings[best]}; worst of the {len(settings)} {mean.min():.2f}"
        )
    both = np.mean([table.mean(axis=0) for table in found.values()], axis=0)
    print(f"both sets weighed alike: shipped {both[here]:.2f}, best {both.max():.2f} {settings[int(both.argmax())]}")


if __name__ == "__main__":
    main()
