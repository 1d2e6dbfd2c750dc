r"""How much codes and atoms are held back: the proximal weights ``eta`` of their blocks.

Any ``eta > 0`` serves the theorem. Codes that are held back by ``eta/2 ||w - w_prev||^2`` do not take up an atom that
gains less than about ``eta w_j^2``. Where coefficients are large against what is left of the samples, as with data that
have an offset, a fixed weight would keep them from ever fitting: so it is no more than that share.

An atom sees the curvature ``A_jj``, the sum of the squares of its coefficients. Where few atoms carry most of the data,
as the mean does in data that have one, a weight by the mean of these would hold all others where they are: so it goes
by the atoms that are used little.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu import arrays
from tecu.dictionary.blocks import Dictionary
from tecu.dictionary.coding import Matrix
from tecu.dictionary.totals import half_misfit
from tecu.subproblem import SubProblem
from tecu.updates import Embed

CODES_ETA, LEAST_ETA = 0.01, 1e-5
"""At most; the atoms have length 1, so this holds the codes back by one percent. At least: less would be rounding."""

SHARE_OF_ETA = 0.45
"""The constant ``c`` of the error criterion, ``2c < eta``, as a share of ``eta``."""

SAMPLES_SEEN = 32
"""Samples that are coded to see how large codes and what is left of the samples are."""

LITTLE_USED = 0.25
"""Of the atoms that are used at all, one of this rank tells the weight of the dictionary."""


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


class EmbeddedAtoms(Embed):
    """:class:`tecu.Embed` for the dictionary: ``eta`` is ``share`` of the curvature that a little used atom sees.

    Beside huge outliers sweeps converge slowly, and a gradient step, by the largest curvature, hardly moves the other
    atoms: what sweeps have reached is kept wherever the theorem covers it.
    """

    share_of_eta = SHARE_OF_ETA

    def __init__(self, strategy: Any, share: float = 0.5) -> None:
        super().__init__(strategy, at_cap="keep_if_covered")
        self.share = share

    def first_eta(self, sub: SubProblem) -> float:
        """By the totals of the codes; zero as long as there are none."""
        assert isinstance(sub.smooth, Dictionary)
        return self.share * little_used(np.diagonal(sub.smooth.A).astype(np.float64))


def little_used(curvatures: Matrix) -> float:
    """The lower quartile of those that are not zero, but at least what rounding leaves of their mean.

    >>> little_used(np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5000.0])), little_used(np.zeros(3))
    (2.0, 0.0)
    """
    used = curvatures[curvatures > 0.0]
    return max(float(np.quantile(used, LITTLE_USED)), LEAST_ETA * float(np.mean(used))) if used.size else 0.0
