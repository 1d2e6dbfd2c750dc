"""A progress line for long runs."""

from __future__ import annotations

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
        self._status.update(f"iteration {state.t}  objective {state.value:.6g}  moves {moves}  {state.seconds:.1f} s")

    def close(self) -> None:
        """Remove the line."""
        self._status.stop()
