r"""HE: histogram equalisation, the base line that Cheng and Shi (2004) and many others refine.

``v -> (C(v) - C(v_min)) / (1 - C(v_min))``, ``C`` the share of pixels at most as bright as ``v``. It acts on the
brightest channel, and the gain is the same for all: hue stays, and nothing is clipped. (Their multi-peak variant,
which equalises the pieces between the valleys of the histogram, is not what tables of low-light methods call HE.)
"""

from __future__ import annotations

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


def enhance(image: Any) -> Picture:
    """The picture with an even histogram.

    >>> import numpy as np
    >>> enhance(np.array([[0.1, 0.2, 0.3]])).tolist()
    [[0.0, 0.5, 1.0]]
    """
    picture = checked(image, "he")
    value = brightest(picture)
    counts = np.bincount(levels(value).ravel(), minlength=LEVELS)
    if np.count_nonzero(counts) == 1:  # one level: there is nothing to spread
        return np.array(image)
    new = through_curve(np.rint(value * (LEVELS - 1)) / (LEVELS - 1), equalising_curve(counts))
    return finished(new if picture.ndim == 2 else with_value(picture, value, new), image)


def equalising_curve(counts: Picture) -> Picture:
    """The curve for 256 counts, from 0 at the darkest level that occurs to 1 at the brightest."""
    share = np.cumsum(counts) / counts.sum()
    darkest = share[np.flatnonzero(counts)[0]]
    return np.asarray(np.clip((share - darkest) / (1.0 - darkest), 0.0, 1.0))
