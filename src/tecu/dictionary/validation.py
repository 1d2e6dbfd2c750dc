"""Samples as a user gives them: a matrix of finite numbers, dense or CSR, in the precision that is asked for."""

from __future__ import annotations

import warnings
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
    if is_frame_of_dask(X):  # scikit-learn would take its numbers without their names
        X = X.compute()
    kind = getattr(X, "dtype", None)  # data frames have one a column, and scikit-learn looks at all of them
    own = kept_precision(kind) if isinstance(kind, np.dtype) else [np.float64, np.float32]
    wanted = checked_dtype(model.dtype) or own
    X = validate_data(model, X, reset=reset, accept_sparse="csr", dtype=wanted, order="C")
    return canonical(X) if is_sparse(X) else X


def is_frame_of_dask(X: Any) -> bool:
    """Whether ``X`` is a data frame of Dask."""
    return hasattr(X, "to_dask_array")


def feature_names(X: Any) -> Any:
    """The columns of a Dask data frame if they have names, else ``None``: scikit-learn sees those in memory only."""
    return names_of(X) if is_frame_of_dask(X) else None


def names_of(frame: Any) -> Any:
    """The columns of any data frame if they have names, else ``None``; an array has none."""
    names = list(getattr(frame, "columns", ()))
    named = [isinstance(name, str) for name in names]
    if any(named) and not all(named):
        other = names[named.index(False)]
        raise TypeError(
            f"X: the names of its columns must be all strings or none, got {names[named.index(True)]!r} and {other!r}; "
            "X.columns = X.columns.astype(str) makes strings of them"
        )
    return np.array(names, dtype=object) if any(named) else None


def compare_names(model: Any, names: Any) -> None:
    """Refuse data in chunks with other names than those of ``fit``; warn, as scikit-learn does, if only one has names.

    How many features there are is looked at elsewhere.
    """
    known = getattr(model, "feature_names_in_", None)
    who = type(model).__name__
    if known is None and names is not None:
        warnings.warn(f"X has feature names, but {who} was fitted without feature names", stacklevel=5)
    elif known is not None and names is None:
        warnings.warn(f"X has no feature names, but {who} was fitted with feature names", stacklevel=5)
    elif known is not None and len(known) == len(names):
        for place, (name, other) in enumerate(zip(known, names, strict=True)):
            if name != other:
                raise ValueError(
                    f"X must have the features of fit in their order: column {place + 1} is {other!r}, and {who} was "
                    f"fitted with {name!r} there"
                )
