"""The records of a run: what one visit did, where the iteration stands, how it ended."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

from tecu.arrays import Array

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.figure import Figure

    from tecu.certificate import Certificate
    from tecu.history import History


class ForeignState(ValueError):
    """A state of another problem, or of other settings, was given to a solver to go on from."""


class Status(enum.Enum):
    """How a run ended. The value is the sentence shown to the user, with what to try next."""

    CONVERGED = "Converged: the stop rule's accuracy was reached."
    MAX_ITER = "Ran all the iterations it was given. Allow more, or loosen the accuracy, to end by convergence."
    MAX_TIME = "Stopped when the given time was used up. Resume from the result, with more time in all, to go on."
    TARGET = "Stopped because the target value was reached."
    STOPPED = "Stopped by a callback. Resume from the result to go on."
    STALLED = (
        "Stalled: no block moved in a whole sweep though the stop rule is not met. "
        "It is a fixed point of the updates; try another start or a smaller step_factor."
    )
    DIVERGED = (
        "Diverged: a value was not finite. The last good state is returned. "
        "The certificate says which. Check the coupling's Lipschitz constant or leave it out, so that steps are found "
        "by back-tracking."
    )


class Outcome(enum.Enum):
    """How a visit's update came to be."""

    EXACT = "exact minimiser"
    STEP = "prox-linear step"
    EXTRAPOLATED = "extrapolated prox-linear step"
    REDONE = "extrapolation did not lower the Lyapunov function; redone without"
    ACCEPTED = "error criterion met"
    ACCEPTED_BY_OWN_MOVE = "accepted against the block's own move (first visit, or the block had rested)"
    ACCEPTED_BY_FLOOR = "error at the level of rounding"
    FELL_BACK = "inner cap reached; replaced by a safe prox-gradient step"
    KEPT = "inner cap reached; kept because it descends, though its error is too large"
    COVERED = "inner cap reached; kept because it descends with an error bounded by its own move"
    RESTED = "no acceptable point; the block was left where it was"


@dataclass(frozen=True)
class Visit:
    """What one visit to one block did. All certificates, histories and plots are computed from these."""

    index: int  # 0, 1, 2, ... over the whole run
    sweep: int  # 1, 2, ...: the iteration it belongs to
    block: str
    kind: str  # "proximal", "prox-linear" or "embed"
    outcome: Outcome
    move: float  # ||u_new - u_old||
    previous_move: float  # the same at the block's previous visit; nan at the first
    norm: float  # ||u_old||
    value: float  # Psi after the visit
    error: float = float("nan")  # ||e||, an element of the sub-problem's subdifferential; nan where not computed
    tolerance: float = float("nan")  # what ||e|| was allowed to be
    inner: int = 0  # inner steps of an embedded strategy
    tau: float = float("nan")  # the step was 1 / tau
    lipschitz: float = float("nan")  # of the block's gradient, where known
    descent: float = 0.0  # a: Phi falls by at least a move^2
    weight: float = 0.0  # of move^2 in the Lyapunov function
    reserve: float = 0.0  # what the Lyapunov function holds for errors after this visit (summable tolerances);
    # NaN as long as eta is not settled
    reserve_before: float = 0.0  # the same before the visit
    slack: float = 0.0  # rounding allowed when Phi is compared
    fault: str | None = None  # why the theorem does not cover this visit
    audited: bool = False
    seconds: float = 0.0  # spent in the visit
    clock: float = 0.0  # of the run, at the end of the visit
    values: int = 0
    gradients: int = 0
    hessians: int = 0
    proxes: int = 0
    products: int = 0  # matrix products spent on Lipschitz constants
    strategy_calls: int = 0


class VisitLog(Sequence[Visit]):
    """An immutable view of the first visits of an append-only list: states share one list without copying it."""

    def __init__(self, visits: list[Visit], length: int) -> None:
        self._visits, self._length = visits, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Visit: ...
    @overload
    def __getitem__(self, index: slice) -> list[Visit]: ...
    def __getitem__(self, index: int | slice) -> Visit | list[Visit]:
        if isinstance(index, slice):
            return self._visits[: self._length][index]
        return self._visits[range(self._length)[index]]

    def __iter__(self) -> Iterator[Visit]:
        return iter(self._visits[: self._length])

    def of_sweep(self, sweep: int) -> list[Visit]:
        """The visits of one sweep, found from the end: stop rules ask for the latest."""
        found: list[Visit] = []
        for k in range(self._length - 1, -1, -1):
            if self._visits[k].sweep < sweep:
                break
            if self._visits[k].sweep == sweep:
                found.append(self._visits[k])
        return found[::-1]


@dataclass(frozen=True)
class Check:
    """A test made once at the start or the end of a run, such as a directional difference of a gradient."""

    name: str
    block: str
    passed: bool
    detail: str
    untold: bool = False  # it could not be made


@dataclass(frozen=True)
class Standing:
    """What the next visit to a block needs to know of the ones before."""

    term: float  # the term's value now
    size: float  # ||z_b|| now
    move: float | None = None  # at its latest visit; None before the first
    visits: int = 0
    weight: float = 0.0  # of that move in the Lyapunov function


@dataclass(frozen=True)
class State:
    """Where the iteration stands after ``t`` whole sweeps. Never mutated; enough to go on from."""

    t: int
    z: Mapping[str, Array]
    before: Mapping[str, Array]  # each block's value before its latest visit; missing until it was visited
    memory: Mapping[str, Mapping[str, Any]]  # what each block's update and strategy must remember
    standing: Mapping[str, Standing]
    value: float  # Psi(z)
    start_value: float  # Psi at the very start
    visits: VisitLog
    seconds: float  # spent in the sweeps of the whole run, over interruptions
    best_value: float
    best: Mapping[str, Array] = field(repr=False)  # the blocks with the lowest Psi seen
    checks: tuple[Check, ...] = ()
    fingerprint: str = ""  # of the problem and the settings
    coupling: float | None = None  # H(z), where it was computed
    elapsed: float = 0.0  # seconds since the run was begun, less its interruptions: callbacks and rules count too

    def __repr__(self) -> str:
        blocks = ", ".join(f"{name} {tuple(x.shape)}" for name, x in self.z.items())
        return f"State(t={self.t}, value={self.value:.6g}, blocks {blocks})"

    @property
    def lyapunov(self) -> float:
        """``Phi = Psi + sum_b weight_b ||z_b - before_b||^2`` (see :mod:`tecu.certificate`)."""
        from tecu.certificate import lyapunov

        return lyapunov(self.start_value, self.visits)[-1]


@dataclass(frozen=True)
class Result:
    """What :meth:`tecu.Solver.run` returns."""

    state: State
    status: Status
    certificate: Certificate

    @property
    def z(self) -> Mapping[str, Array]:
        """The blocks at the end."""
        return self.state.z

    @property
    def value(self) -> float:
        """``Psi(z)`` at the end."""
        return self.state.value

    @property
    def best(self) -> Mapping[str, Array]:
        """The blocks with the lowest ``Psi`` seen; the last ones whenever every step descends."""
        return self.state.best

    @property
    def iterations(self) -> int:
        """The number of whole sweeps."""
        return self.state.t

    @property
    def history(self) -> History:
        """Columns by name, row 0 is the start: ``result.history["value"]``."""
        from tecu.history import History

        return History.of(self.state)

    def summary(self) -> str:
        """Status, value and verdict in a few lines."""
        return (
            f"{self.status.value}\n"
            f"{self.iterations} iterations, {self.state.seconds:.3g} s, objective {self.value:.6g}\n"
            f"{self.certificate.summary()}"
        )

    def plot(self) -> Figure:
        """All plots of the run on one figure, for a notebook; needs ``tecu[report]``."""
        from tecu.report.plots import overview

        return overview(self.history)

    def report(
        self,
        path: str | os.PathLike[str],
        *,
        title: str = "A run of tecu",
        plots_folder: str | os.PathLike[str] | None = None,
    ) -> Path:
        """Write a self-contained HTML page: verdict, plots, work; needs ``tecu[report]``.

        ``plots_folder`` asks for the plots as SVG and PNG files too.
        """
        from tecu.report import write_run

        return write_run(self, path, title=title, plots_folder=plots_folder)

    def __repr__(self) -> str:
        return f"Result({self.status.name}, {self.certificate.verdict.name}, {self.state!r})"

    def _repr_html_(self) -> str:
        from tecu.report.words import result_html

        return result_html(self)
