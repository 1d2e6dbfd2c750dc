"""Fits that were interrupted: what their checkpoints keep beside the state of the run."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tecu.atomic import CannotWrite, reason, shown
from tecu.checkpoint import Checkpoint, load_state
from tecu.dictionary.coding import Matrix
from tecu.dictionary.loose import COLUMNS
from tecu.dictionary.parameters import Checked, start_dictionary
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import Plan
from tecu.fingerprint import fingerprint
from tecu.state import ForeignState, Result, State

log = logging.getLogger("tecu")


class Origin(NamedTuple):
    """What a resumed fit cannot find anew.

    It does not make the start and the loose passes again, and without a ``random_state`` it draws another seed.
    """

    stages: Matrix  # what the loose passes have told
    seed: int | None
    init: str | None  # the digest of the parameter


class SavedFit(NamedTuple):
    """What a checkpoint holds."""

    path: Path
    state: State
    origin: Origin

    def require(self, init: str | None, atoms: int) -> None:
        """Refuse a fit that began elsewhere (a file of an earlier version does not tell) or has other atoms.

        Their number is no part of the problem, whose fingerprint the solver compares.
        """
        begun = self.state.z.get("D")
        if self.origin.init not in (None, init) or begun is None or begun.shape[1:] != (atoms,):
            raise _foreign(self.path)


@dataclass
class FitCheckpoint:
    """A checkpoint that also keeps the origin of the fit. If it cannot be written the fit goes on: it is worth more."""

    checkpoint: Checkpoint
    origin: Origin

    def __call__(self, state: State) -> None:
        """Save if it is time, with the origin in the dictionary's memory."""
        memory = {**state.memory, "D": {**state.memory["D"], **self.origin._asdict()}}
        with self._told():
            self.checkpoint(replace(state, memory=memory))

    def close(self) -> None:
        """Save what has not been saved yet."""
        with self._told():
            self.checkpoint.close()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except CannotWrite as error:
            log.warning("checkpoint: %s; the fit goes on without", error)


def saved_fit(path: Path | None) -> SavedFit | None:
    """The fit in a file, if there is one; where none can be written, that is found out before the fit."""
    if path is None:
        return None
    folder = path.absolute().parent
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        refused = OSError(errno.EACCES if folder.is_dir() else errno.ENOENT, "")
        raise CannotWrite(f"{shown(path)} could not be written: {reason(refused, path)}")
    if not path.exists():
        return None
    state = load_state(path)
    kept = state.memory.get("D", {})
    seed, init = kept.get("seed"), kept.get("init")
    try:
        stages = np.reshape(np.asarray(kept.get("stages", ()), np.float64), (-1, len(COLUMNS)))
    except (TypeError, ValueError):
        raise _foreign(path) from None
    origin = Origin(stages, None if seed is None else int(seed), None if init is None else str(init))
    return SavedFit(path, state, origin)


def digest_of_init(checked: Checked, rows: Rows) -> str:
    """Of its name, or of the atoms as the fit takes them: lists and arrays, in whatever unit, may be the same."""
    if isinstance(checked.init, str):
        return fingerprint(checked.init)
    return fingerprint(start_dictionary(checked, rows, np.random.RandomState(0)))


def run_saving(
    planned: Plan, start: Any, callbacks: Sequence[Any], progress: bool, path: Path, origin: Origin
) -> Result:
    """Run a plan from blocks or a state, with its state in a file now and then."""
    saving = FitCheckpoint(Checkpoint(path, seconds=5.0), origin)
    try:
        return planned.solver.run(start, planned.rule, [*callbacks, saving], progress=progress)
    except ForeignState:
        raise _foreign(path) from None


def _foreign(path: Path) -> ValueError:
    return ValueError(
        f"checkpoint {shown(path)} was written by a fit of other data or with other parameters; fit with "
        "those, remove the file, or name another one"
    )
