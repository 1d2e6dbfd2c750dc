"""Data with a known answer, and the three kinds of data the paper's tables are checked on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from scipy.sparse import csr_array

SIZES = {64: (64, 600, 4000), 144: (144, 900, 10000), 256: (256, 1600, 16000)}
"""The paper's three sizes ``(n, m, p)``: features, atoms, samples."""

PLANTED = {64: 6, 144: 8, 256: 10}
"""Coefficients a sample of the data set ``S``, by the number of features."""


def make_sparse_data(
    n_samples: int,
    n_features: int,
    n_components: int,
    n_nonzero: int,
    snr_db: float | None = 30,
    random_state: Any = None,
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], csr_array]:
    """``X = codes @ components + noise``: unit atoms, ``n_nonzero`` N(0, 1) coefficients a sample.

    ``snr_db`` is ``10 log10`` of the signal's energy over the noise's; ``None`` leaves the noise out.

    >>> X, components, codes = make_sparse_data(50, 16, 24, 3, snr_db=None, random_state=0)
    >>> X.shape, components.shape, codes.nnz
    ((50, 16), (24, 16), 150)
    >>> bool(np.allclose(X, codes @ components))
    True
    """
    from scipy.sparse import csr_array
    from sklearn.utils import check_random_state

    sizes = {"n_samples": n_samples, "n_features": n_features, "n_components": n_components}
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")
    if not 0 <= n_nonzero <= n_components:
        raise ValueError(f"n_nonzero must lie in [0, n_components={n_components}], got {n_nonzero}")
    random = check_random_state(random_state)
    components = random.standard_normal((n_components, n_features))
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    support = np.argpartition(random.random_sample((n_samples, n_components)), n_nonzero - 1, axis=1)
    indices = np.sort(support[:, :n_nonzero], axis=1).astype(np.int32)
    values = random.standard_normal((n_samples, n_nonzero))
    starts = np.arange(0, n_samples * n_nonzero + 1, max(n_nonzero, 1), dtype=np.int32)
    if n_nonzero == 0:
        starts = np.zeros(n_samples + 1, dtype=np.int32)
    codes = csr_array((values.ravel(), indices.ravel(), starts), shape=(n_samples, n_components))
    signal = codes @ components
    if snr_db is None:
        return signal, components, codes
    noise = random.standard_normal(signal.shape)
    noise *= np.linalg.norm(signal) / np.linalg.norm(noise) * 10 ** (-snr_db / 20)
    return signal + noise, components, codes


@dataclass(frozen=True)
class TableData:
    """One data set of the paper's tables: ``Y`` (n x p), the start ``D0`` (n x m), ``penalty`` = lambda."""

    name: str
    Y: np.ndarray[Any, Any]
    D0: np.ndarray[Any, Any]
    penalty: float
    n_nonzero: int | None
    components: np.ndarray[Any, Any] | None


def table_data(name: str, n: int = 64, seed: int = 0, dtype: Any = np.float64) -> TableData:
    """The data set ``"U"`` (uniform), ``"P"`` (planted, exact) or ``"S"`` (planted, noisy) at one of the paper's sizes.

    >>> data = table_data("S", 64, seed=0)
    >>> data.Y.shape, data.D0.shape, round(data.penalty, 3)
    ((64, 4000), (64, 600), 0.018)
    """
    if name not in ("U", "P", "S"):
        raise ValueError(f"name must be 'U', 'P' or 'S', got {name!r}")
    if n not in SIZES:
        raise ValueError(f"n must be one of {sorted(SIZES)}, got {n}")
    n, m, p = SIZES[n]
    random = np.random.RandomState(seed)
    components, planted = None, None
    if name == "U":
        Y = random.random_sample((n, p))
        penalty = 1e-6 * float(np.mean(np.sum(Y * Y, axis=0)))
    else:
        planted = 6 if name == "P" else PLANTED[n]
        X, components, _ = make_sparse_data(p, n, m, planted, None if name == "P" else 30, random)
        Y = X.T
        penalty = 3e-3 * planted if name == "S" else 8e-6 * float(np.mean(np.sum(Y * Y, axis=0)))
    planted_start = name == "S"
    D0 = Y[:, random.choice(p, m, replace=False)].copy() if planted_start else random.standard_normal((n, m))
    D0 /= np.linalg.norm(D0, axis=0)
    return TableData(name, Y.astype(dtype), D0.astype(dtype), penalty, planted, components)
