"""The residual of a fit, computed when first asked for: it takes a good part of the time of a fit, and few ask."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tecu.certificate import Certificate
from tecu.solver import Solver
from tecu.state import Result


def with_late_residual(result: Result, solver: Solver) -> Certificate:
    """The certificate of a run, with a residual that knows whether the data are still those of the run."""

    def is_unchanged() -> bool:
        return solver.fingerprint() == result.state.fingerprint

    late = LateResidual(lambda: result.certificate.residual, is_unchanged)
    return replace(result.certificate, _residual=late)


class LateResidual:
    """A number that takes the caller's own array to compute. Until it is known the array is held, then no more.

    The array may be written to meanwhile, and a copy of it may not fit in memory. So it is looked at before it is used,
    and if it is another one the number is not known.

    >>> LateResidual(lambda: 0.5, lambda: True)()
    0.5
    """

    def __init__(self, compute: Callable[[], float], is_unchanged: Callable[[], bool]) -> None:
        self._asked: tuple[Callable[[], float], Callable[[], bool]] | None = (compute, is_unchanged)
        self._known = math.nan

    def __call__(self) -> float:
        """The number, or NaN with a warning."""
        if self._asked is not None:
            compute, is_unchanged = self._asked
            if is_unchanged():
                self._known = compute()
            else:
                warnings.warn(
                    "X was changed after fit, so the residual of its certificate cannot be computed; ask for "
                    "certificate_.residual before X is changed, or fit a copy",
                    RuntimeWarning,
                    stacklevel=4,
                )
            self._asked = None
        return self._known

    def __reduce__(self) -> tuple[Any, ...]:
        return functools.partial, (float, self())  # a copy, perhaps in a file, has the number and not the data
