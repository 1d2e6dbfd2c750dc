r"""BPDFHE: brightness preserving dynamic fuzzy histogram equalisation (Sheet et al., 2010).

1. *Fuzzy histogram.* A pixel of level ``v`` counts for level ``i`` by ``max(0, 1 - |v - i| / 4)``: smooth, no
   missing levels.
2. *Partition* at its local maxima.
3. *Dynamic equalisation.* The part from ``low`` to ``high`` with ``M`` pixels gets a share of the range in
   proportion to ``(high - low) log10 M``, and is equalised in there.
4. *Brightness.* The result is scaled to the mean of the input.

It acts on the luma; all channels get its gain.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tecu.lowlight.classical.pictures import LEVELS, Picture, checked, finished, levels, luma, through_curve, with_value

SUPPORT = 4  # levels over which a pixel spreads


def enhance(image: Any) -> Picture:
    """The picture with its contrast spread and its brightness kept.

    >>> import numpy as np
    >>> dark = np.linspace(0.1, 0.3, 64).reshape(8, 8)
    >>> bool(abs(enhance(dark).mean() - dark.mean()) < 1e-3)
    True
    """
    picture = checked(image, "bpdhe")
    grey = luma(picture)
    new = through_curve(grey, dynamic_curve(np.bincount(levels(grey).ravel(), minlength=LEVELS)))
    mean = float(new.mean(dtype=np.float64))
    if mean > 0.0:
        new = new * np.float32(float(grey.mean(dtype=np.float64)) / mean)
    return finished(new if picture.ndim == 2 else with_value(picture, grey, new), image)


def fuzzy_histogram(counts: Picture) -> Picture:
    """``h(i) = sum_v counts(v) max(0, 1 - |v - i| / 4)``."""
    spread = 1.0 - np.abs(np.arange(1 - SUPPORT, SUPPORT)) / SUPPORT
    return np.convolve(counts, spread, mode="same")


def partition(histogram: Picture) -> list[int]:
    """Where the parts begin and end: the first and last level that count, and the local maxima between."""
    used = np.flatnonzero(histogram)
    first, last = int(used[0]), int(used[-1])
    slope = np.sign(np.diff(histogram))
    peaks = [i for i in range(1, LEVELS - 1) if slope[i - 1] > 0 and slope[i] <= 0]
    return [first, *(peak for peak in peaks if first < peak < last), last]


def dynamic_curve(counts: Picture) -> Picture:
    """The curve of steps 1 to 3 for 256 counts."""
    histogram = fuzzy_histogram(counts)
    edges = partition(histogram)
    curve = np.linspace(0.0, 1.0, LEVELS)
    if len(edges) < 2 or edges[0] == edges[-1]:
        return curve
    spans = np.diff(edges)
    sums = np.array([histogram[a : b + 1].sum() for a, b in pairwise(edges)])
    factors = spans * np.log10(np.maximum(sums, 1.0) + 1.0)  # + 1: a part of one pixel keeps some range
    ends = np.concatenate([[0.0], np.cumsum(factors) / factors.sum()])
    for (a, b), low, high in zip(pairwise(edges), ends, ends[1:], strict=False):
        share = np.cumsum(histogram[a + 1 : b + 1])
        curve[a] = low
        curve[a + 1 : b + 1] = low + (high - low) * share / share[-1]
    curve[: edges[0]], curve[edges[-1] :] = 0.0, 1.0
    return curve
