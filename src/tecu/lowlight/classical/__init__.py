"""The classical methods of low-light enhancement, one file each; a method is imported when it is asked for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, cast

import numpy as np

Pixels = np.ndarray[Any, Any]
Method = Callable[[Pixels], Pixels]

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


class EndsProgram(ValueError):
    """A method of somebody's own wanted to end the program, which is not only its own."""


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
        found = getattr(_own_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"method {name!r}: {error}") from error
    except (Exception, SystemExit) as error:  # the module is someone's own: anything may happen in it
        raise ValueError(f"method {name!r}: the module {module} could not be imported: {reason(error)}") from error
    if not callable(found):
        kind = type(found).__name__
        raise ValueError(f"method {name!r} must name a function that takes and gives a picture; it is a {kind}")
    return cast(Method, found)


def applied(method: Method, picture: Pixels, name: str) -> Pixels:
    """What ``method`` makes of a copy of ``picture``: finite floats of the same shape, or it is refused by its name.

    >>> import numpy as np
    >>> applied(np.sqrt, np.array([[0.25]]), "numpy:sqrt").tolist()
    [[0.5]]
    >>> applied(np.max, np.array([[0.25]]), "numpy:max")
    Traceback (most recent call last):
    ValueError: method 'numpy:max' must give floats in [0, 1] of shape (1, 1), got float64 of shape ()
    """
    try:
        given = method(picture.copy())  # it may work in place
    except SystemExit as error:
        raise EndsProgram(f"method {name!r}: {reason(error)}") from error
    try:
        result = np.asarray(given)
    except Exception as error:  # rows of different lengths, a tensor on another device
        raise ValueError(f"method {name!r} must give an array, got {type(given).__name__}") from error
    if result.dtype.kind != "f" or result.shape != picture.shape:
        kind = type(given).__name__ if result.dtype == object else f"{result.dtype} of shape {result.shape}"
        raise ValueError(f"method {name!r} must give floats in [0, 1] of shape {picture.shape}, got {kind}")
    if not np.isfinite(result).all():
        raise ValueError(f"method {name!r} gave values that are not finite")
    return result


def _own_module(module: str) -> Any:
    """A module that is installed or lies in the current folder.

    ``python`` looks there, and so does every command. What is installed goes first: a folder of photos may hold a file
    with the name of a library.
    """
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
    return importlib.import_module(module)


def reason(error: BaseException) -> str:
    """What went wrong in somebody's own code, in one line.

    >>> reason(ValueError("rows differ")), reason(SystemExit(2)), reason(SystemExit())
    ('ValueError: rows differ', 'it ends the program, with the code 2', 'it ends the program')
    """
    if isinstance(error, SystemExit):
        known = isinstance(error.code, int | str)  # ``builtins:exit`` takes the picture for its code
        return "it ends the program" + (f", with the code {error.code!r}" if known else "")
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}".removesuffix(": ")
