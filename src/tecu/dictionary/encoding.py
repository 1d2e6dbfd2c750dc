"""Codes of new samples for a dictionary that is given."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tecu.dictionary.coding import Matrix
from tecu.dictionary.embedded import strategy_of
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import Workers


def encoded(rows: Rows, components: Matrix, coder: Coder, team: Workers) -> Any:
    """Codes (CSR) of all samples: each greedily, then refit, dropped and inserted while that pays."""
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
