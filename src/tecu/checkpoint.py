"""Saving and loading a state: one ``.npz`` file, no pickle, written whole or not at all."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from tecu import arrays
from tecu.archive import MALFORMED, Store, read_archive, write_archive
from tecu.atomic import shown
from tecu.settings import is_number
from tecu.state import Check, Outcome, Result, Standing, State, Visit, VisitLog

FORMAT = "tecu-state-3"
DOCUMENT = {
    "t": "int", "value": "float", "start_value": "float", "seconds": "float", "best_value": "float",
    "fingerprint": "str", "standing": "dict", "visits": "dict", "memory": "dict", "checks": "list",
    "coupling": "float | None", "elapsed": "float",
}  # fmt: skip
TYPES: dict[str, Any] = {
    "int": int, "float": int | float, "bool": bool, "str": str, "dict": dict, "list": list, "Outcome": str,
    "str | None": str | None, "float | None": int | float | None,
}  # fmt: skip
NUMBERS = {"int": "i", "float": "f", "bool": "b"}  # columns of visits that are kept as arrays, and their kind


def save_state(path: str | os.PathLike[str], state: State | Result) -> None:
    """Write a state, or that of a result, to one file, atomically: a killed writer leaves the old file whole.

    >>> import tempfile, numpy as np, tecu
    >>> from tecu import couplings, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    >>> solver = tecu.Solver(problem, tecu.ProxLinear())
    >>> state = next(solver.iterate({"W": np.ones((3, 2)), "D": np.eye(3)[:, :2]}))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tecu.save_state(folder + "/run.npz", state)
    ...     tecu.load_state(folder + "/run.npz").t
    1
    """
    state = state.state if isinstance(state, Result) else state
    if not isinstance(state, State):
        raise TypeError(f"save_state takes a state or a result of a run, got a {type(state).__name__}")
    store: dict[str, np.ndarray[Any, Any]] = {}
    document = {
        "format": FORMAT,
        "t": state.t,
        "z": _pack(dict(state.z), store),
        "before": _pack(dict(state.before), store),
        "memory": _pack({block: dict(kept) for block, kept in state.memory.items()}, store),
        "standing": {block: asdict(standing) for block, standing in state.standing.items()},
        "value": state.value,
        "start_value": state.start_value,
        "seconds": state.seconds,
        "best_value": state.best_value,
        "best": None if state.best is state.z else _pack(dict(state.best), store),
        "checks": [asdict(check) for check in state.checks],
        "fingerprint": state.fingerprint,
        "coupling": state.coupling,
        "elapsed": state.elapsed,
        "visits": _pack_visits(state.visits, store),
    }
    write_archive(path, document, store)


def load_state(path: str | os.PathLike[str]) -> State:
    """Read a state that :func:`save_state` wrote; ``ValueError`` says why another file is not one."""
    document, store = read_archive(path, FORMAT, "a saved state")
    try:
        return _state(document, store)
    except MALFORMED as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"{shown(path)} is not a whole saved state: {reason}") from error


def _state(document: Mapping[str, Any], store: Store) -> State:
    for name, kind in DOCUMENT.items():
        _check_type(document[name], kind, name)
    z = _blocks(document["z"], store)
    visits = _unpack_visits(document["visits"], store)
    state = State(
        t=document["t"], z=z, before=_blocks(document["before"], store), memory=_unpack(document["memory"], store),
        standing={block: _record(Standing, values) for block, values in document["standing"].items()},
        value=document["value"], start_value=document["start_value"], visits=VisitLog(visits, len(visits)),
        seconds=document["seconds"], best_value=document["best_value"],
        best=z if document["best"] is None else _blocks(document["best"], store),
        checks=tuple(_record(Check, values) for values in document["checks"]), fingerprint=document["fingerprint"],
        coupling=document["coupling"], elapsed=document["elapsed"],
    )  # fmt: skip
    _check_whole(state)
    return state


def _check_whole(state: State) -> None:
    """Whether the parts of a state fit together: what follows takes that for granted."""
    if not (set(state.z) == set(state.standing) == set(state.memory) == set(state.best)):
        raise ValueError("its blocks do not fit together")
    if not all(isinstance(kept, dict) for kept in state.memory.values()):
        raise TypeError("memory is of the wrong type")
    for block, values in [*state.before.items(), *state.best.items()]:
        if tuple(values.shape) != tuple(state.z[block].shape):
            raise ValueError(f"the shapes of block {block!r} do not fit together")
    sweeps = [visit.sweep for visit in state.visits]
    if sorted(sweeps) != sweeps or set(sweeps) != set(range(1, state.t + 1) if state.t <= len(sweeps) else [-1]):
        raise ValueError(f"its visits are not those of {state.t} iterations")
    if any(visit.index != k or visit.block not in state.z for k, visit in enumerate(state.visits)):
        raise ValueError("its visits are out of order")


def _record(kind: type[Any], values: Mapping[str, Any]) -> Any:
    for column in fields(kind):
        if column.name in values:
            _check_type(values[column.name], str(column.type), column.name)
    return kind(**values)


def _check_type(value: Any, kind: str, name: str) -> None:
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "bool"):
        raise TypeError(f"{name} is of the wrong type")


def _blocks(tree: Any, store: Store) -> dict[str, Any]:
    blocks = _unpack(tree, store)
    if not isinstance(blocks, dict) or not all(arrays.is_real_float(block) for block in blocks.values()):
        raise TypeError("the blocks are not arrays of floats")
    return blocks


class Checkpoint:
    """A callback that saves the state at most every ``seconds`` seconds, and when the run ends.

    ``solver.run(start, callbacks=[tecu.Checkpoint("run.npz")])``, and after a crash
    ``solver.run(tecu.load_state("run.npz"))``.
    """

    def __init__(self, path: str | os.PathLike[str], seconds: float = 30.0) -> None:
        if not is_number(seconds):
            raise TypeError(f"Checkpoint: seconds must be a number, got {seconds!r}")
        self.path, self.seconds = Path(path), seconds
        self._due = time.monotonic() + seconds
        self._unsaved: State | None = None

    def __call__(self, state: State) -> None:
        """Save if it is time."""
        self._unsaved = state
        if time.monotonic() >= self._due:
            self.close()

    def close(self) -> None:
        """Save what has not been saved yet."""
        if self._unsaved is not None:
            save_state(self.path, self._unsaved)
            self._unsaved = None
        self._due = time.monotonic() + self.seconds


# -- a tree of plain values and arrays ----------------------------------------------------------------------------


def _pack(value: Any, store: dict[str, np.ndarray[Any, Any]]) -> Any:
    """A JSON tree; arrays go to ``store`` and leave a note of their kind."""
    if isinstance(value, np.generic) and not isinstance(value, str):  # np.float64 is a float, but one that widens
        return {"array": _put(np.asarray(value), store), "kind": "scalar"}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        if odd := [key for key in value if not isinstance(key, str)]:
            raise TypeError(f"a state can keep dicts whose keys are strings, not one with the key {odd[0]!r}")
        return {"dict": {str(key): _pack(item, store) for key, item in value.items()}}
    if isinstance(value, list | tuple):
        return {"list" if isinstance(value, list) else "tuple": [_pack(item, store) for item in value]}
    if arrays.is_sparse(value):
        if value.format != "csr":  # the parts of a CSC array are those of its transpose
            raise TypeError(f"a state can keep sparse arrays as CSR, not a {type(value).__name__}; use .tocsr()")
        parts = {name: _put(getattr(value, name), store) for name in ("data", "indices", "indptr")}
        return {"csr": parts, "shape": list(value.shape), "class": type(value).__name__}
    masked = isinstance(value, np.ma.MaskedArray)  # whose mask would be lost
    if masked or (isinstance(value, np.ndarray) and value.dtype.hasobject):
        raise TypeError(f"a state can keep arrays of numbers, not {'masked ones' if masked else 'ones of objects'}")
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return {"array": _put(arrays.host(value), store), "kind": arrays.library(value)}
    raise TypeError(f"a state can keep numbers, strings, lists, dicts and arrays, not {type(value).__name__}")


def _put(value: np.ndarray[Any, Any], store: dict[str, np.ndarray[Any, Any]]) -> str:
    name = f"a{len(store)}"
    store[name] = value
    return name


def _unpack(tree: Any, store: Store) -> Any:
    if not isinstance(tree, dict):
        return tree
    if "dict" in tree:
        return {key: _unpack(item, store) for key, item in tree["dict"].items()}
    if "list" in tree:
        return [_unpack(item, store) for item in tree["list"]]
    if "tuple" in tree:
        return tuple(_unpack(item, store) for item in tree["tuple"])
    if "csr" in tree:
        from scipy.sparse import csr_array, csr_matrix

        of_class = csr_matrix if tree.get("class") == "csr_matrix" else csr_array  # ``*`` of theirs differs
        parts = tuple(store[tree["csr"][name]] for name in ("data", "indices", "indptr"))
        matrix = of_class(parts, shape=tuple(tree["shape"]))
        matrix.check_format(full_check=True)  # an index beyond its row would be followed by compiled code
        return matrix
    return _as_kind(store[tree["array"]], tree["kind"])


def _as_kind(value: np.ndarray[Any, Any], kind: str) -> Any:
    if kind == "numpy":
        return value
    if kind == "scalar":
        return value[()]
    if kind == "torch":
        import torch

        return torch.from_numpy(value)
    if kind == "jax":
        import jax.numpy

        block = jax.numpy.asarray(value)
        if block.dtype != value.dtype:
            raise ValueError(
                f"it has JAX arrays of {value.dtype}, and JAX makes {block.dtype} of them here; turn "
                "on jax_enable_x64 before it is loaded"
            )
        return block
    import importlib

    if kind != "array_api_strict":
        raise ValueError(f"the saved state holds an array of the unknown kind {kind!r}")
    return importlib.import_module(kind).asarray(value)


def _pack_visits(visits: VisitLog, store: dict[str, np.ndarray[Any, Any]]) -> dict[str, Any]:
    """Visits as columns: numbers as arrays, the rest as lists."""
    columns: dict[str, Any] = {}
    for column in fields(Visit):
        values = [getattr(visit, column.name) for visit in visits]
        if column.type in NUMBERS:
            columns[column.name] = {"array": _put(np.asarray(values, dtype=column.type), store)}
        else:
            columns[column.name] = [value.name if isinstance(value, enum.Enum) else value for value in values]
    return columns


def _unpack_visits(columns: Mapping[str, Any], store: Store) -> list[Visit]:
    plain = {}
    for column in fields(Visit):
        found = columns[column.name]
        if column.type in NUMBERS:
            values = store[found["array"]]
            if values.ndim != 1 or values.dtype.kind != NUMBERS[str(column.type)]:
                raise TypeError(f"{column.name} is of the wrong type")
            found = values.tolist()
        else:
            for value in found:
                _check_type(value, str(column.type), column.name)
        plain[column.name] = found
    plain["outcome"] = [Outcome[name] for name in plain["outcome"]]
    names = list(plain)
    return [Visit(**dict(zip(names, row, strict=True))) for row in zip(*plain.values(), strict=True)]
