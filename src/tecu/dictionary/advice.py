"""What the estimator says of a penalty that leaves next to nothing of the codes, or was chosen from other samples."""

from __future__ import annotations

import math
import warnings
from typing import Any

from tecu.dictionary.parameters import AUTO_PENALTY
from tecu.dictionary.rows import Rows
from tecu.dictionary.scale import usual_distance

FEW = 0.1
"""Non-zeros a sample below which a penalty that was chosen here is doubted."""

OTHER_SCALE = 30.0
"""How many times larger or smaller a penalty is than the one that a later batch would have chosen, if it is doubted."""


def doubt_penalty(model: Any, square: float) -> None:
    """Warn if all codes are zero, or nearly all with ``penalty="auto"``; ``square`` is the samples' ``||X||^2``."""
    samples, count = model.codes_.shape[0], model.codes_.nnz
    if model.n_nonzero is not None or square == 0.0:
        return
    if count == 0:
        warnings.warn(
            f"penalty_={model.penalty_:.3g} is too large: all codes are zero; {_remedy(model, square / samples)}",
            UserWarning, stacklevel=4,
        )  # fmt: skip
    elif isinstance(model.penalty, str) and count < FEW * samples:
        warnings.warn(
            f"penalty='auto' chose penalty_={model.penalty_:.3g}, which leaves {count / samples:.2g} non-zeros a "
            "sample; give a smaller penalty, or n_nonzero",
            UserWarning, stacklevel=4,
        )  # fmt: skip


def _remedy(model: Any, mean_square: float) -> str:
    """By what a coefficient ``w`` can gain at most, ``w ||x|| - w^2 / 2``."""
    length = math.sqrt(mean_square)
    bound = math.inf if model.code_bound is None else float(model.code_bound)
    most = min(bound, length)
    gain = most * length - 0.5 * most**2
    if model.penalty_ <= gain:
        return "lower it"
    if bound < length:
        return f"lower it below about {gain:.3g}, which is all that code_bound={bound:.3g} leaves, or raise code_bound"
    return f"lower it below about {gain:.3g}, half the mean squared length of a sample"


def doubt_first_batch(model: Any, rows: Rows) -> None:
    """Warn if ``penalty="auto"`` of the first batch is of another scale than this batch is."""
    if model.n_nonzero is not None or not isinstance(model.penalty, str):
        return
    here = AUTO_PENALTY * usual_distance(rows)
    if here and not here / OTHER_SCALE <= model.penalty_ <= here * OTHER_SCALE:
        warnings.warn(
            f"penalty='auto' keeps penalty_={model.penalty_:.3g} of the samples before, but from this batch it would "
            f"have chosen {here:.3g}; give a number, or begin with a batch that is like the others",
            UserWarning, stacklevel=4,
        )  # fmt: skip
