r"""How much codes are held back: the proximal weight ``eta`` of their blocks.

Any ``eta > 0`` serves the theorem. Codes that are held back by ``eta/2 ||w - w_prev||^2`` do not take up an atom that
gains less than about ``eta w_j^2``. Where coefficients are large against what is left of the samples, as with data that
have an offset, a fixed weight would keep them from ever fitting: so it is no more than that share.
"""

from __future__ import annotations

from typing import Any

from tecu import arrays
from tecu.dictionary.coding import Matrix
from tecu.dictionary.totals import half_misfit

CODES_ETA, LEAST_ETA = 0.01, 1e-5
"""At most; the atoms have length 1, so this holds the codes back by one percent. At least: less would be rounding."""

SHARE_OF_ETA = 0.45
"""The constant ``c`` of the error criterion, ``2c < eta``, as a share of ``eta``."""

SAMPLES_SEEN = 32
"""Samples that are coded to see how large codes and what is left of the samples are."""


def codes_eta(strategy: Any, Y: Matrix, D: Matrix, gram: Matrix) -> float:
    """``(penalty ||W||_0 + 1/2 ||Y - W D||^2) / (1/2 ||W||^2)`` of some samples, cut to its bounds.

    ``strategy`` codes them from scratch for the atoms ``D`` (rows), ``gram = D D'``.

    >>> import numpy as np
    >>> from tecu.dictionary.embedded import DescendedCodes
    >>> wave = np.sin(np.arange(8.0))[None]
    >>> atoms = np.vstack([np.full((1, 8), 8**-0.5), wave / np.linalg.norm(wave)])
    >>> codes_eta(DescendedCodes(n_nonzero=1), 1000.0 + wave, atoms, atoms @ atoms.T)
    1e-05
    """
    some = Y[:SAMPLES_SEEN]
    codes = strategy.from_scratch(some, D, gram)
    size = 0.5 * arrays.norm(codes) ** 2
    if not size > 0.0:
        return CODES_ETA
    left = half_misfit(some, codes, D) + strategy.penalty * codes.nnz
    return float(min(CODES_ETA, max(left / size, LEAST_ETA)))
