"""Codes of new samples for a dictionary that is given, and the samples that codes stand for."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from sklearn.utils import check_array

from tecu.arrays import is_elsewhere
from tecu.dictionary.coding import Matrix
from tecu.dictionary.embedded import strategy_of
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import Workers


def encoded(rows: Rows, components: Matrix, coder: Coder, team: Workers) -> Any:
    """Codes (CSR) of all samples: each greedily, then refit, dropped and inserted while that pays.

    Of a given number of atoms none is exchanged afterwards: that takes three times as long and gains a thousandth.
    """
    from scipy.sparse import csr_array, vstack

    D = np.ascontiguousarray(components)
    m, n = D.shape
    gram = team.product(D, D.T)
    strategy = strategy_of(coder, min(n, m))

    def code(shift: int, piece: slice) -> Any:
        return strategy.from_scratch(rows[shift + piece.start : shift + piece.stop], D, gram)

    parts = []
    for piece in rows.pieces(max(256, m)):
        parts += team.map(partial(code, piece.start), piece.stop - piece.start)
    return csr_array(vstack(parts, format="csr"))


def decoded(codes: Any, components: Matrix) -> Matrix:
    """``codes @ components``, checked."""
    if is_elsewhere(codes):
        raise ValueError(
            "codes in chunks stay where they were made; bring them here chunk by chunk: "
            "[model.inverse_transform(part) for part in codes]"
        )
    codes = check_array(codes, accept_sparse="csr", dtype=[np.float64, np.float32])
    if codes.shape[1] != len(components):
        raise ValueError(f"codes has {codes.shape[1]} columns, but the dictionary has {len(components)} atoms")
    return np.asarray(codes @ components)
