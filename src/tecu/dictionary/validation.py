"""Samples as a user gives them: a matrix of finite numbers, dense or CSR, in the precision that is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from tecu.arrays import canonical, is_sparse
from tecu.dictionary.parameters import checked_dtype, kept_precision


def validated(model: Any, X: Any, reset: bool) -> Any:
    """``X`` after scikit-learn's checks; with ``reset`` the model learns its features, without they are compared."""
    if np.ma.is_masked(X):  # scikit-learn would take what stands behind the mask
        raise ValueError("X has masked entries, and all are needed; drop these samples or features, or use .filled()")
    kind = getattr(X, "dtype", None)  # data frames have one a column, and scikit-learn looks at all of them
    own = kept_precision(kind) if isinstance(kind, np.dtype) else [np.float64, np.float32]
    wanted = checked_dtype(model.dtype) or own
    X = validate_data(model, X, reset=reset, accept_sparse="csr", dtype=wanted, order="C")
    return canonical(X) if is_sparse(X) else X
