"""The run in columns, computed from its visits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tecu.certificate import lyapunov
from tecu.state import State, Visit

Column = np.ndarray[Any, np.dtype[np.float64]]
COUNTERS = ("values", "gradients", "hessians", "proxes", "products", "strategy_calls")


class History(Mapping[str, Column]):
    """Columns by name; row 0 is the start, one row an iteration.

    ``iteration``, ``seconds``, ``value``, ``lyapunov``; for each block ``move_<block>``, ``error_<block>``,
    ``tolerance_<block>``, ``inner_<block>``, ``seconds_<block>``; and the counters ``values``, ``gradients``,
    ``hessians``, ``proxes``, ``products``, ``strategy_calls``. Of a block that is visited several times in an
    iteration the moves, inner steps and seconds are summed, error and tolerance are the last.
    """

    def __init__(self, columns: Mapping[str, Column]) -> None:
        self._columns = dict(columns)

    @classmethod
    def of(cls, state: State) -> History:
        """The history up to a state."""
        rows = state.t + 1
        blocks = list(state.z)
        nan = np.full(rows, np.nan)
        columns: dict[str, Column] = {
            "iteration": np.arange(rows, dtype=np.float64),
            "seconds": np.zeros(rows),
            "value": nan.copy(),
            "lyapunov": nan.copy(),
        }
        for block in blocks:
            columns |= {f"{name}_{block}": np.zeros(rows) for name in ("move", "inner", "seconds")}
            columns |= {f"{name}_{block}": nan.copy() for name in ("error", "tolerance")}
        columns |= {name: np.zeros(rows) for name in COUNTERS}
        phi = lyapunov(state.start_value, state.visits)
        columns["value"][0], columns["lyapunov"][0] = state.start_value, phi[0]
        for visit, after in zip(state.visits, phi[1:], strict=True):
            _add(columns, visit, after)
        return cls(columns)

    def __getitem__(self, name: str) -> Column:
        if name not in self._columns:
            raise KeyError(f"history has no column {name!r}; it has {', '.join(self._columns)}")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __repr__(self) -> str:
        return f"History({len(self['iteration'])} rows: {', '.join(self._columns)})"


def _add(columns: dict[str, Column], visit: Visit, phi: float) -> None:
    row, block = visit.sweep, visit.block
    columns["value"][row], columns["lyapunov"][row], columns["seconds"][row] = visit.value, phi, visit.clock
    columns[f"move_{block}"][row] += visit.move
    columns[f"inner_{block}"][row] += visit.inner
    columns[f"seconds_{block}"][row] += visit.seconds
    columns[f"error_{block}"][row], columns[f"tolerance_{block}"][row] = visit.error, visit.tolerance
    for name in COUNTERS:
        columns[name][row] += getattr(visit, name)
