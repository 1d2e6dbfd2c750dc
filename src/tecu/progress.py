"""A progress line for long runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

from tecu.state import State


class ProgressLine:
    """A callback that keeps one line on standard error up to date: iteration, objective, largest move, seconds."""

    def __init__(self) -> None:
        from rich.console import Console

        self._status = Console(stderr=True).status("starting")
        self._status.start()

    def __call__(self, state: State) -> None:
        """Show where the run stands."""
        moves = ", ".join(f"{v.block} {v.move:.2e}" for v in state.visits.of_sweep(state.t)[-4:])
        self.show(f"iteration {state.t}  objective {state.value:.6g}  moves {moves}  {state.seconds:.1f} s")

    def show(self, sentence: str) -> None:
        """Show a sentence."""
        self._status.update(sentence)

    def close(self) -> None:
        """Remove the line."""
        self._status.stop()


@contextlib.contextmanager
def progress_line(wanted: bool) -> Iterator[Callable[[str], None]]:
    """What shows sentences on such a line, if one is wanted, and else does nothing."""
    if not wanted:
        yield lambda sentence: None
        return
    with contextlib.closing(ProgressLine()) as line:
        yield line.show
