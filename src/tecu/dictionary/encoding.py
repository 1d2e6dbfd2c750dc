"""Codes of new samples for a dictionary that is given."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tecu.dictionary.coding import Matrix, polished
from tecu.dictionary.embedded import DescendedCodes
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import Workers


def encoded(rows: Rows, components: Matrix, coder: Coder, team: Workers) -> Any:
    """Codes (CSR) of all samples: each greedily, then refit, dropped and inserted while that pays."""
    from scipy.sparse import csr_array, vstack

    D = np.ascontiguousarray(components)
    m, n = D.shape
    gram = team.product(D, D.T)
    plain = coder.n_nonzero is None and coder.lower == -np.inf and coder.upper == np.inf
    if not plain:
        boxed = DescendedCodes(coder.penalty, coder.n_nonzero, coder.lower, coder.upper)

    def code(shift: int, piece: slice) -> Any:
        Y = rows[shift + piece.start : shift + piece.stop]
        if plain:
            return polished(Y, D, gram, penalty=coder.penalty, cap=min(n, m)).codes.csr(m)
        return boxed.from_scratch(Y, D, gram)

    parts = []
    for piece in rows.pieces(max(256, m)):
        parts += team.map(partial(code, piece.start), piece.stop - piece.start)
    return csr_array(vstack(parts, format="csr"))
