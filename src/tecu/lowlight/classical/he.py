r"""HE: multi-peak generalised histogram equalisation (Cheng and Shi, 2004).

1. *Local information.* ``G = u + w v``, stretched to 256 levels: ``u`` is the brightness from its lowest to its
   highest value, ``v`` the Laplacian over its largest size, halved. So detail counts, not brightness alone.
2. *Peaks* of the histogram of ``G`` by the rules of Cheng and Sun (2000): peaks among the peaks; none below a
   twentieth of the highest; of two within 15 levels, or with only a shallow valley between (its mean above three
   quarters of theirs), the higher one stays.
3. *Equalisation, piece by piece.* The lowest level between two peaks is a valley. From one valley ``a`` to the next
   ``b``, ``v -> a + (b - a) (C(v) - C(a)) / (C(b) - C(a))``, ``C`` the cumulative histogram: no piece leaves its
   range, so the histogram keeps its shape. With one peak it is plain equalisation.

We could not read the publication; this follows its abstract (multi-peak equalisation combined with local
information) and what implementations by others say of its steps. Which local information is taken and ``w = 0.1``
are ours. It acts on the brightest channel, and the gain is the same for all: hue stays. Tables of low-light methods
often call plain equalisation HE: that is :func:`plain`, ``--method tecu.lowlight.classical.he:plain``.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tecu.lowlight.classical.pictures import (
    LEVELS,
    Picture,
    brightest,
    checked,
    finished,
    levels,
    through_curve,
    with_value,
)

LOCAL = 0.1  # w
SMALL = 0.05  # of the highest peak
CLOSE = 15  # levels
SHALLOW = 0.75  # mean between two peaks over the mean of the two


def enhance(image: Any) -> Picture:
    """The picture with each piece of its histogram evened out.

    >>> import numpy as np
    >>> enhance(np.array([[0.1, 0.2]])).tolist()
    [[0.0, 1.0]]
    """
    picture = checked(image, "he")
    value = brightest(picture)
    if _one_level(value):
        return np.array(image)
    level = generalised(value)
    new = through_curve(level, multi_peak_curve(np.bincount(levels(level).ravel(), minlength=LEVELS)))
    return finished(with_value(picture, value, new), image)


def plain(image: Any) -> Picture:
    """Plain equalisation: ``v -> (C(v) - C(v_min)) / (1 - C(v_min))``, ``C`` the share of pixels at most as bright.

    >>> import numpy as np
    >>> plain(np.array([[0.1, 0.2, 0.3]])).tolist()
    [[0.0, 0.5, 1.0]]
    """
    picture = checked(image, "he")
    value = brightest(picture)
    if _one_level(value):
        return np.array(image)
    counts = np.bincount(levels(value).ravel(), minlength=LEVELS)
    darkest = int(np.flatnonzero(counts)[0])
    curve = _equalised(counts, darkest, LEVELS - 1, 0.0, 1.0)
    curve = np.concatenate([np.zeros(darkest), curve])
    new = through_curve(np.rint(value * (LEVELS - 1)) / (LEVELS - 1), curve)
    return finished(new if picture.ndim == 2 else with_value(picture, value, new), image)


def _one_level(value: Picture) -> bool:
    """Whether there is nothing to spread."""
    found = levels(value)
    return bool(found.min() == found.max())


def generalised(value: Picture, weight: float = LOCAL) -> Picture:
    """``G`` in [0, 1]: the brightness with some of its Laplacian."""
    from scipy.ndimage import laplace

    low, high = float(value.min()), float(value.max())
    g = (value - np.float32(low)) / np.float32(high - low)
    sharp = -laplace(value, mode="nearest")  # positive on what is brighter than its surroundings
    largest = float(np.abs(sharp).max())
    if largest > 0.0:
        g = g + np.float32(0.5 * weight / largest) * sharp
    return np.asarray((g - g.min()) / (g.max() - g.min()))


def multi_peak_curve(counts: Picture) -> Picture:
    """The curve of steps 2 and 3 for 256 counts, in [0, 1]."""
    edges = [0, *valleys(counts), LEVELS - 1]
    curve = np.zeros(LEVELS)
    for a, b in pairwise(edges):
        curve[a : b + 1] = _equalised(counts, a, b, a / (LEVELS - 1), b / (LEVELS - 1))
    return curve


def _equalised(counts: Picture, a: int, b: int, low: float, high: float) -> Picture:
    """From ``low`` at level ``a`` to ``high`` at level ``b``, in proportion to the pixels between."""
    share = np.cumsum(counts[a + 1 : b + 1], dtype=np.float64)
    if share[-1] == 0.0:
        return np.linspace(low, high, b - a + 1)
    return np.concatenate([[low], low + (high - low) * share / share[-1]])


def valleys(counts: Picture) -> list[int]:
    """The lowest level between each two neighbouring peaks."""
    found = []
    for a, b in pairwise(peaks(counts)):
        lowest = a + 1 + int(np.argmin(counts[a + 1 : b]))
        found.append(lowest)
    return found


def peaks(counts: Picture) -> list[int]:
    """The significant peaks of the histogram, in order."""
    found = _tops(counts, list(range(len(counts))))
    found = _tops(counts, found) if len(found) > 2 else found
    highest = max(counts[found])
    found = [i for i in found if counts[i] >= SMALL * highest]
    found = _higher_of_pairs(counts, found, lambda a, b: b - a <= CLOSE)
    return _higher_of_pairs(
        counts, found, lambda a, b: counts[a : b + 1].mean() > SHALLOW * 0.5 * (counts[a] + counts[b])
    )


def _tops(counts: Picture, places: list[int]) -> list[int]:
    """Those of ``places`` higher than the one before and at least as high as the one after; the ends have no rival."""
    heights = [-1, *(int(counts[i]) for i in places), -1]
    return [i for k, i in enumerate(places, 1) if heights[k] > heights[k - 1] and heights[k] >= heights[k + 1]]


def _higher_of_pairs(counts: Picture, places: list[int], one: Any) -> list[int]:
    """From left to right, the higher of each two neighbours that ``one(a, b)`` calls a single peak."""
    kept: list[int] = []
    for place in places:
        while kept and one(kept[-1], place):
            if counts[place] <= counts[kept[-1]]:
                break
            kept.pop()
        else:
            kept.append(place)
    return kept
