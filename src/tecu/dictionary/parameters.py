"""The estimator's parameters, checked; what ``"auto"`` means for given data."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tecu.arrays import dense
from tecu.dictionary.coding import Matrix
from tecu.dictionary.mailbox import processors
from tecu.dictionary.offset import better_start
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.scale import usual_square
from tecu.dictionary.solvers import NAMES
from tecu.settings import is_number, is_whole

log = logging.getLogger("tecu")
AUTO_PENALTY = 0.003  # of a sample's usual squared distance to the mean: a coefficient must explain twice that much
INITS = ("auto", "greedy", "data", "random")


@dataclass(frozen=True)
class Checked:
    """Parameters in the form the code uses."""

    n_components: int
    coder: Coder
    ball: bool
    init: Any
    threads: int

    @property
    def is_greedy(self) -> bool:
        """Whether loose passes lead to the start."""
        return isinstance(self.init, str) and self.init == "greedy"


def checked_dtype(dtype: Any) -> np.dtype[Any] | None:
    """The precision that is asked for, if one is."""
    if dtype is None:
        return None
    try:
        wanted: np.dtype[Any] = np.dtype(dtype)
    except TypeError:
        wanted = np.dtype(object)
    if wanted not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise ValueError(f"dtype must be float32, float64 or None, got {dtype!r}")
    return wanted


def kept_precision(kind: Any) -> type[np.floating[Any]]:
    """The precision of data of a kind: float32 stays, in whatever order of bytes; all other becomes float64.

    >>> kept_precision(">f4").__name__, kept_precision("f2").__name__, kept_precision(int).__name__
    ('float32', 'float64', 'float64')
    """
    return np.float32 if np.dtype(kind).newbyteorder("=") == np.float32 else np.float64


def check_settings(model: Any) -> None:
    """Refuse parameters that are wrong whatever the data."""
    checked_dtype(model.dtype)
    if not (isinstance(model.solver, str) and model.solver in NAMES):
        raise ValueError(f"solver must be one of {', '.join(NAMES)}; got {model.solver!r}")
    if not (isinstance(model.constraint, str) and model.constraint in ("sphere", "ball")):
        raise ValueError(f"constraint must be 'sphere' or 'ball', got {model.constraint!r}")
    if not isinstance(model.positive, bool | np.bool_):
        raise ValueError(f"positive must be True or False, got {model.positive!r}")
    if model.callback is not None and not callable(model.callback):
        raise ValueError(f"callback must be a function of the state or None, got {model.callback!r}")
    _check_file(model.checkpoint, "checkpoint")
    if isinstance(model.init, str) and model.init not in INITS:
        raise ValueError(f"init must be one of {', '.join(INITS)} or an array, got {model.init!r}")
    _at_least(model.max_iter, "max_iter", 1)
    if not (is_number(model.tol) and model.tol >= 0):
        raise ValueError(f"tol must be a number >= 0, got {model.tol!r}")
    if model.n_components is not None:
        _at_least(model.n_components, "n_components", 1)
    if model.code_bound is not None and not (is_number(model.code_bound) and 0 < model.code_bound < np.inf):
        raise ValueError(f"code_bound must be a positive number or None, got {model.code_bound!r}")
    is_auto = isinstance(model.penalty, str) and model.penalty == "auto"
    if model.n_nonzero is not None:
        _at_least(model.n_nonzero, "n_nonzero", 1)
        if not is_auto:
            raise ValueError(
                f"give penalty or n_nonzero, not both; got penalty={model.penalty!r}, n_nonzero={model.n_nonzero!r}"
            )
    elif not is_auto and not (is_number(model.penalty) and 0 < model.penalty < np.inf):
        raise ValueError(f"penalty must be a positive number or 'auto', got {model.penalty!r}")
    _threads(model.n_jobs)


def checked_parameters(model: Any, rows: Rows, penalty: float | None = None) -> Checked:
    """Check a model's parameters against its data; a fitted model gives the ``penalty`` it was fitted with.

    It has the atoms that it has: what ``n_components`` says by now is for the next ``fit``.
    """
    check_settings(model)
    m = asked_atoms(model, rows) if penalty is None else len(model.components_)
    init = model.init
    if isinstance(init, str) and init == "auto":
        init = "greedy" if model.solver == "auto" else "data"
    return Checked(
        int(m), _checked_coder(model, rows, int(m), penalty), model.constraint == "ball", init, _threads(model.n_jobs)
    )


def asked_atoms(model: Any, rows: Rows) -> int:
    """The atoms that ``n_components`` asks for: without a number as many as features."""
    return rows.shape[1] if model.n_components is None else int(model.n_components)


def _checked_coder(model: Any, rows: Rows, m: int, fitted: float | None) -> Coder:
    bound = np.inf if model.code_bound is None else _held(float(model.code_bound), rows.dtype)
    lower = 0.0 if model.positive else -bound
    if model.n_nonzero is not None:
        return Coder(0.0, min(int(model.n_nonzero), m), lower, bound)
    return Coder(_penalty(model, rows, fitted), None, lower, bound)


def _held(bound: float, dtype: np.dtype[Any]) -> float:
    """The largest number of a precision that is within a bound: codes rounded to it are, too.

    >>> _held(0.1, np.dtype(np.float64)), _held(0.1, np.dtype(np.float32)) < 0.1
    (0.1, True)
    """
    nearest = dtype.type(min(bound, float(np.finfo(dtype).max)))
    return float(nearest if float(nearest) <= bound else np.nextafter(nearest, dtype.type(0))) or bound


def _penalty(model: Any, rows: Rows, fitted: float | None) -> float:
    given = model.penalty
    if not (isinstance(given, str) and given == "auto"):
        return float(given)
    if fitted is not None:
        if fitted == 0.0:
            raise ValueError("penalty='auto' is chosen by fit, and this model was fitted with n_nonzero; give a number")
        return fitted
    chosen = AUTO_PENALTY * usual_square(rows) or 1.0
    log.info("penalty='auto' chose %.6g, %g of a sample's usual squared distance to the mean", chosen, AUTO_PENALTY)
    return chosen


def _check_file(path: Any, name: str) -> None:
    if path is None:
        return
    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"{name} must be the name of a file or None, got {path!r}")
    if Path(path).is_dir():
        raise ValueError(f"{name} must be a file, got the folder {os.fspath(path)!r}")


def _at_least(value: Any, name: str, least: int) -> None:
    if not is_whole(value) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")


def _threads(n_jobs: Any) -> int:
    if n_jobs is None:
        return 1
    if not is_whole(n_jobs) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a non-zero integer or None, got {n_jobs!r}")
    return max(1, int(n_jobs) if n_jobs > 0 else processors() + 1 + int(n_jobs))


def start_dictionary(checked: Checked, rows: Rows, random: np.random.RandomState) -> Matrix:
    """Unit atoms to begin with: given, random, or samples; random ones where there are too few samples.

    Loose passes begin without an offset that samples share, where that is the better start.
    """
    m, n = checked.n_components, rows.shape[1]
    if not isinstance(checked.init, str):
        D = _given_atoms(checked.init, (m, n))
        largest = np.max(np.abs(D), axis=1, keepdims=True)
        if checked.ball and np.max(largest) <= 1 and np.all(np.linalg.norm(D, axis=1) <= 1):
            return np.asarray(D, dtype=rows.dtype)
        D = np.ldexp(D, -np.frexp(largest)[1])  # by powers of two: squares stay in range, and no bit is lost
    else:
        D = np.empty((0, n), rows.dtype)
        if checked.init != "random":
            order = random.permutation(len(rows))
            samples = rows[np.sort(order[:m])]
            D = samples[np.linalg.norm(samples, axis=1) > 0]
            if checked.is_greedy:
                D = better_start(D, rows, order[m:], checked.coder)
        if len(D) < m:
            D = np.concatenate([D, random.standard_normal((m - len(D), n)).astype(rows.dtype)])
    lengths = np.linalg.norm(D, axis=1, keepdims=True)
    D[lengths[:, 0] == 0] = np.eye(1, n, dtype=D.dtype)
    lengths[lengths == 0] = 1
    return np.asarray(D / lengths, dtype=rows.dtype)


def _given_atoms(init: Any, shape: tuple[int, int]) -> Matrix:
    """The array ``init``, in float64."""
    try:
        D = np.array(dense(init), dtype=np.float64, order="C")
    except (TypeError, ValueError, OverflowError):
        raise ValueError("init must be an array of numbers, n_components x n_features") from None
    if D.shape != shape:
        raise ValueError(f"init must have the shape n_components x n_features = {shape}, got {D.shape}")
    if not np.all(np.isfinite(D)):
        raise ValueError("init has NaN or Inf")
    return D
