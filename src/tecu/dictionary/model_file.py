"""A fitted model as one ``.npz`` file: arrays and a JSON document, no pickle, written atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tecu.checkpoint import read_arrays, write_atomically

FORMAT = "tecu-dictionary-1"
SETTINGS = (
    "n_components", "penalty", "n_nonzero", "solver", "constraint", "positive", "code_bound", "max_iter", "tol",
    "verbose", "n_jobs",
)  # fmt: skip
NUMBERS = ("penalty_", "objective_", "n_iter_", "n_replaced_", "n_features_in_")


def save(model: Any, path: Path) -> None:
    """Write the settings, the dictionary, the codes and the run's history."""
    settings = {name: _plain(getattr(model, name)) for name in SETTINGS}
    settings["init"] = model.init if isinstance(model.init, str) else "auto"
    settings["dtype"] = None if model.dtype is None else np.dtype(model.dtype).name
    seed = model.random_state
    settings["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
    document = {
        "format": FORMAT,
        "settings": settings,
        "numbers": {name: _plain(getattr(model, name)) for name in NUMBERS if hasattr(model, name)},
        "certificate": str(model.certificate_.summary()) if hasattr(model, "certificate_") else None,
    }
    store = {"components": model.components_, "document": np.frombuffer(json.dumps(document).encode(), np.uint8)}
    if hasattr(model, "codes_"):
        codes = model.codes_
        store |= {"codes_data": codes.data, "codes_indices": codes.indices, "codes_indptr": codes.indptr}
    if hasattr(model, "feature_names_in_"):
        store["feature_names"] = np.asarray(model.feature_names_in_, dtype=str)
    write_atomically(path, store)


def load(model: Any, path: Path) -> None:
    """Fill an unfitted model from a file."""
    store = read_arrays(path)
    try:
        document = json.loads(bytes(store["document"]))
        kind = document["format"]
    except (KeyError, ValueError, TypeError) as reason:
        raise ValueError(f"{path} is not a saved dictionary") from reason
    if kind != FORMAT:
        raise ValueError(f"{path} has the format {kind!r}, this version reads {FORMAT!r}")
    model.set_params(**document["settings"])
    model.components_ = store["components"]
    for name, value in document["numbers"].items():
        setattr(model, name, value)
    model.certificate_summary_ = document["certificate"]
    if "codes_data" in store:
        from scipy.sparse import csr_array

        shape = (len(store["codes_indptr"]) - 1, len(model.components_))
        parts = (store["codes_data"], store["codes_indices"], store["codes_indptr"])
        model.codes_ = csr_array(parts, shape=shape)
    if "feature_names" in store:
        model.feature_names_in_ = store["feature_names"].astype(object)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
