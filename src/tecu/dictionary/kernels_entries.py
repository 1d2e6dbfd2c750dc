"""The compiled part of tests of a gradient: some of its entries.

This module imports numba: import it lazily.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu.dictionary.compiled import compiled


@compiled
def products_at(left: Any, right: Any, rows: Any, columns: Any, products: Any) -> Any:
    """``<left_i, right_j>`` for some pairs ``(i, j)``."""
    for k in range(rows.size):
        a, b = left[rows[k]], right[columns[k]]
        total = 0.0
        for f in range(a.size):
            total += np.float64(a[f]) * np.float64(b[f])
        products[k] = total
