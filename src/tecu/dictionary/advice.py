"""What the estimator says of a penalty that leaves next to nothing of the codes."""

from __future__ import annotations

import warnings
from typing import Any

FEW = 0.1
"""Non-zeros a sample below which a penalty that was chosen here is doubted."""


def doubt_penalty(model: Any, square: float) -> None:
    """Warn if all codes are zero, or nearly all with ``penalty="auto"``; ``square`` is the samples' ``||X||^2``."""
    samples, count = model.codes_.shape[0], model.codes_.nnz
    if model.n_nonzero is not None or square == 0.0:
        return
    if count == 0:
        warnings.warn(
            f"penalty_={model.penalty_:.3g} is too large: all codes are zero; lower it below about "
            f"{0.5 * square / samples:.3g}, half the mean squared length of a sample",
            UserWarning, stacklevel=4,
        )  # fmt: skip
    elif isinstance(model.penalty, str) and count < FEW * samples:
        warnings.warn(
            f"penalty='auto' chose penalty_={model.penalty_:.3g}, which leaves {count / samples:.2g} non-zeros a "
            "sample; give a smaller penalty, or n_nonzero",
            UserWarning, stacklevel=4,
        )  # fmt: skip
