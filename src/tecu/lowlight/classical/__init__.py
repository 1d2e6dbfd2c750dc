"""The classical methods of low-light enhancement, one file each; a method is imported when it is asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np

Method = Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]

METHODS: dict[str, str] = {
    "he": "multi-peak generalised histogram equalisation (Cheng and Shi, 2004)",
    "bpdhe": "brightness preserving dynamic fuzzy histogram equalisation (Sheet et al., 2010)",
    "msrcr": "multi-scale Retinex with colour restoration (Rahman et al., 2004)",
    "golw": "globally optimised linear windowed tone mapping (Shan et al., 2010)",
    "npea": "naturalness preserved enhancement (Wang et al., 2013)",
    "srie": "simultaneous reflectance and illumination estimation (Fu et al., 2015)",
    "wvm": "weighted variational model (Fu et al., 2016)",
    "jiep": "joint intrinsic-extrinsic prior (Cai et al., 2017)",
    "hdrnet": "deep bilateral learning (Gharbi et al., 2017), our small network and training",
    "lime": "illumination map estimation (Guo et al., 2017)",
}
"""Names, and what they stand for."""


def get(name: str) -> Method:
    """The function ``image -> image`` of a method; ``"module:function"`` names one of your own.

    It takes and gives floats in [0, 1], ``height x width`` or ``height x width x 3``.

    >>> import numpy as np
    >>> get("he")(np.array([[0.1, 0.2]])).tolist()
    [[0.0, 1.0]]
    >>> get("numpy:sqrt")(np.array([[0.25]])).tolist()
    [[0.5]]
    """
    if name in METHODS:
        return cast(Method, importlib.import_module(f"{__name__}.{name}").enhance)
    module, separator, function = name.partition(":")
    if not (module and separator and function):
        known = ", ".join(METHODS)
        raise ValueError(f"method {name!r} is not known; there are {known}, and module:function for one of your own")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"method {name!r}: {error}") from error
    if not callable(found):
        raise TypeError(f"method {name!r} is not a function but {type(found).__name__}")
    return cast(Method, found)
