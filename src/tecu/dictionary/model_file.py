"""A fitted model as one ``.npz`` file: arrays and a JSON document, no pickle, written whole or not at all."""

from __future__ import annotations

import numbers
from pathlib import Path
from typing import Any

import numpy as np

from tecu.archive import MALFORMED, read_archive, write_archive
from tecu.atomic import shown
from tecu.dictionary.parameters import check_settings
from tecu.dictionary.partial import energy_of

MOST_JOBS = 1024  # of a file from a stranger
FORMAT = "tecu-dictionary-1"
SETTINGS = (
    "n_components", "penalty", "n_nonzero", "solver", "constraint", "positive", "code_bound", "max_iter", "tol",
    "verbose", "n_jobs",
)  # fmt: skip
NUMBERS = ("penalty_", "objective_", "n_iter_", "n_replaced_", "n_features_in_")


def save(model: Any, path: Path, blank: Any) -> None:
    """Write the settings, the dictionary, the codes and the certificate's summary, unless ``load`` would refuse them.

    Of a model without codes, how much each atom was used: ``partial_fit`` goes on from that. ``blank`` is an unfitted
    model, to try it with.
    """
    settings = {name: _plain(getattr(model, name)) for name in SETTINGS}
    settings["init"] = model.init if isinstance(model.init, str) else "auto"
    settings["dtype"] = None if model.dtype is None else np.dtype(model.dtype).name
    seed = model.random_state
    settings["random_state"] = int(seed) if isinstance(seed, int | np.integer) else None
    document = {
        "format": FORMAT,
        "settings": settings,
        "numbers": {name: _plain(getattr(model, name)) for name in NUMBERS if hasattr(model, name)},
        "certificate": str(model.certificate_.summary())
        if hasattr(model, "certificate_")
        else getattr(model, "certificate_summary_", None),
    }
    store = {"components": model.components_}
    if hasattr(model, "codes_"):
        codes = model.codes_
        store |= {"codes_data": codes.data, "codes_indices": codes.indices, "codes_indptr": codes.indptr}
    elif (energy := energy_of(model)) is not None:
        store["energy"] = energy.astype(np.float64)
    if hasattr(model, "feature_names_in_"):
        store["feature_names"] = np.asarray(model.feature_names_in_, dtype=str)
    try:
        _fill(blank, document, store)
    except MALFORMED as error:
        raise ValueError(f"the model was not saved, because load would refuse it: {_reason(error)}") from error
    write_archive(path, document, store)


def load(model: Any, path: Path) -> None:
    """Fill an unfitted model from a file; ``ValueError`` says why another file is not one."""
    document, store = read_archive(path, FORMAT, "a saved dictionary")
    try:
        _fill(model, document, store)
    except MALFORMED as error:
        raise ValueError(f"{shown(path)} is not a whole saved dictionary: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _fill(model: Any, document: dict[str, Any], store: dict[str, Any]) -> None:
    settings, found = document["settings"], document["numbers"]
    # Only what save() writes: a file must not choose a path to write to, nor replace a method.
    if unknown := (set(settings) - {*SETTINGS, "init", "dtype", "random_state"}) | (set(found) - set(NUMBERS)):
        raise ValueError(f"it sets {', '.join(sorted(unknown))}")
    if wrong := [name for name, value in settings.items() if not isinstance(value, numbers.Real | str | None)]:
        raise ValueError(f"{wrong[0]} is neither a number nor a name")
    if wrong := [name for name, value in found.items() if not isinstance(value, numbers.Real)]:
        raise ValueError(f"{wrong[0]} is not a number")
    if missing := {"penalty_", "n_features_in_"} - set(found):
        raise ValueError(f"it has no {' and no '.join(sorted(missing))}")
    components = store["components"]
    if components.ndim != 2 or components.dtype not in (np.float32, np.float64) or not np.isfinite(components).all():
        raise ValueError("its components are not a matrix of finite numbers")
    if 0 in components.shape or found["n_features_in_"] != components.shape[1]:
        features = found["n_features_in_"]
        raise ValueError(f"its components have the shape {components.shape}, and n_features_in_ is {features}")
    if not (0 <= found["penalty_"] < np.inf):
        raise ValueError(f"its penalty is {found['penalty_']}")
    if settings.get("dtype") not in (None, "float32", "float64"):
        raise ValueError(f"its dtype is {settings['dtype']!r}")
    model.set_params(**settings)
    check_settings(model)
    if model.n_jobs is not None and abs(model.n_jobs) > MOST_JOBS:
        raise ValueError(f"it asks for {model.n_jobs} threads")
    model.components_ = components
    for name, value in found.items():
        setattr(model, name, value)
    model.certificate_summary_ = document["certificate"]
    if "codes_data" in store:
        model.codes_ = _codes(store, len(components))
    elif "energy" in store:
        energy = store["energy"]
        if (
            energy.shape != components.shape[:1]
            or energy.dtype != np.float64
            or not np.all((energy >= 0) & (energy < np.inf))
        ):
            raise ValueError("its energies are not a positive number an atom")
        model._energy = energy
    if "feature_names" in store:
        model.feature_names_in_ = store["feature_names"].astype(object)


def _codes(store: dict[str, Any], atoms: int) -> Any:
    from scipy.sparse import csr_array

    parts = (store["codes_data"], store["codes_indices"], store["codes_indptr"])
    codes = csr_array(parts, shape=(len(parts[2]) - 1, atoms))
    codes.check_format(full_check=True)  # an index beyond its row would be followed by compiled code
    return codes


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
