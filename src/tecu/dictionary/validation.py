"""Samples as a user gives them: a matrix of finite numbers, dense or CSR, in the precision that is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from tecu.arrays import canonical, is_sparse
from tecu.dictionary.parameters import checked_dtype, kept_precision


def require_all_entries(X: Any) -> None:
    """Refuse masked ones: NumPy would take what stands behind the mask."""
    if np.ma.is_masked(X):
        raise ValueError("X has masked entries, and all are needed; drop these samples or features, or use .filled()")


def validated(model: Any, X: Any, reset: bool) -> Any:
    """``X`` after scikit-learn's checks; with ``reset`` the model learns its features, without they are compared."""
    require_all_entries(X)
    kind = getattr(X, "dtype", None)  # data frames have one a column, and scikit-learn looks at all of them
    own = kept_precision(kind) if isinstance(kind, np.dtype) else [np.float64, np.float32]
    wanted = checked_dtype(model.dtype) or own
    X = validate_data(model, X, reset=reset, accept_sparse="csr", dtype=wanted, order="C")
    return canonical(X) if is_sparse(X) else X
