"""Fits that were interrupted: what their checkpoints keep beside the state of the run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tecu.checkpoint import Checkpoint, load_state
from tecu.state import State


@dataclass
class FitCheckpoint:
    """A checkpoint that also keeps how many atoms the loose passes replaced, and the seed of the run.

    A resumed fit does not make the passes again; without a ``random_state`` it cannot find the seed anew.
    """

    checkpoint: Checkpoint
    replaced: int
    seed: int

    def __call__(self, state: State) -> None:
        """Save if it is time, with these two in the dictionary's memory."""
        memory = {**state.memory, "D": {**state.memory["D"], "replaced": self.replaced, "seed": self.seed}}
        self.checkpoint(replace(state, memory=memory))

    def close(self) -> None:
        """Save what has not been saved yet."""
        self.checkpoint.close()


class SavedFit(NamedTuple):
    """What a checkpoint holds."""

    state: State
    replaced: int
    seed: int | None


def saved_fit(path: Path | None) -> SavedFit | None:
    """The fit in a file, if there is one."""
    if path is None or not path.exists():
        return None
    state = load_state(path)
    kept = state.memory.get("D", {})
    seed = kept.get("seed")
    return SavedFit(state, int(kept.get("replaced", 0)), None if seed is None else int(seed))
