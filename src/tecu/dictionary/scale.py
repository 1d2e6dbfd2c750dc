r"""What ``penalty="auto"`` goes by: ``min ||x - a mu||^2`` over ``0 <= a <= 2``, ``mu`` the mean sample, averaged.

An offset that all samples share, each at a level of its own as the brightness of patches is, takes one atom however
large it is, and should not decide what the other coefficients cost. Where there is none ``mu`` is next to nothing, and
so is what twice of it takes away: what is left is the squared length of a sample.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tecu import arrays
from tecu.dictionary.coding import Matrix
from tecu.dictionary.rows import Rows

CUT = 8.0
"""A sample counts as no more than this many times the median."""

HIGHEST = 2.0
"""The level of a sample, as a multiple of the mean sample, lies between none and this."""

ALL_ALIKE = 1e-8
"""Samples that differ by no more than this share of their squared length are taken to differ by rounding only."""


def usual_square(rows: Rows) -> float:
    """The squared distance of a sample to the mean one at the sample's level, averaged without samples that are zero.

    Each is cut at ``CUT`` times the median, and the mean is that of samples whose squared length is not. Where samples
    differ by their level only it is their squared length; 0 if all are zero. Sparse samples stay sparse.

    >>> import numpy as np
    >>> X = np.tile(np.eye(2), (50, 1))
    >>> [round(usual_square(Rows(data)), 1) for data in (X, X + 100.0, np.vstack([X, [[1e6, 0.0]]]))]
    [0.5, 0.5, 0.5]
    """
    distance, length = _distance_and_length(rows)
    return distance or length


def usual_distance(rows: Rows) -> float:
    """The same, but 0 where samples differ by their level only: a single one does not tell how far others are."""
    return _distance_and_length(rows)[0]


def _distance_and_length(rows: Rows) -> tuple[float, float]:
    pieces = rows.pieces()
    largest = max((float(abs(rows.X[piece]).max()) for piece in pieces), default=0.0)
    unit = math.ldexp(1.0, min(math.frexp(largest)[1], 1023))  # squares stay in range, and no bit is lost
    squares = np.concatenate([_squares(_some(rows, piece, unit)) for piece in pieces])
    used = squares > 0.0
    if not np.any(used):
        return 0.0, 0.0
    most = CUT * np.median(squares[used])
    usual = used & (squares <= most)
    total = np.zeros(rows.shape[1])
    for piece in pieces:
        total += usual[piece].astype(np.float64) @ _some(rows, piece, unit)
    mean = total / np.count_nonzero(usual)
    along = np.concatenate([_some(rows, piece, unit) @ mean for piece in pieces])
    own = np.clip(along / (mean @ mean or 1.0), 0.0, HIGHEST)
    apart = np.maximum(squares - 2.0 * own * along + own * own * (mean @ mean), 0.0)[used]
    length, distance = (
        float(np.mean(np.minimum(found, CUT * np.median(found)))) for found in (squares[used], apart)
    )  # fmt: skip
    return (distance if distance > ALL_ALIKE * length else 0.0) * unit * unit, length * unit * unit


def _some(rows: Rows, piece: slice, unit: float) -> Any:
    part = rows.X[piece] if arrays.is_sparse(rows.X) else rows[piece]
    return part.astype(np.float64) / unit


def _squares(part: Any) -> Matrix:
    if arrays.is_sparse(part):
        return np.asarray(part.multiply(part).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", part, part))
