"""What every kind of update promises the solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tecu.arrays import Array
from tecu.audit import Claim
from tecu.problem import SubProblem
from tecu.state import Outcome


@dataclass(frozen=True)
class Step:
    """The new value of a block and how it came about; the solver turns it into a :class:`~tecu.state.Visit`.

    ``tau (center - u) - grad phi(source)`` is an element of the term's subdifferential at the new ``u``; the
    certificate's residual is built from it. Where a block rests, ``center`` is the last step that was refused.
    """

    u: Array
    outcome: Outcome
    eta: float  # of the sub-problem that was solved; 0 for a prox-linear step
    center: Array
    source: Array
    tau: float
    descent: float
    weight: float = 0.0
    reserve: float = 0.0
    reserve_before: float = 0.0
    error: float = float("nan")
    tolerance: float = float("nan")
    inner: int = 0
    lipschitz: float = float("nan")
    term: float = float("nan")  # term(u), where known
    move: float = float("nan")  # ||u - previous||, where known
    coupling: float | None = None  # H(u, others), where known
    slope: float = float("nan")  # <grad H(previous), u - previous>, where the coupling made the step and says so
    room: float = 0.0  # what rounding of the step may let Psi rise, beside that of values
    fault: str | None = None
    claim: Claim | None = None  # what the strategy said, kept for the audit


class Update(Protocol):
    """A way to update one block."""

    @property
    def kind(self) -> str:
        """``"proximal"``, ``"prox-linear"`` or ``"embed"``."""
        ...

    @property
    def theorem(self) -> str | None:
        """``None``, or why no convergence theorem covers this update."""
        ...

    def visit(self, sub: SubProblem) -> Step:
        """Update the block of ``sub`` once. ``sub.eta`` is 0; the update adds its own."""
        ...

    def audit(self, sub: SubProblem, step: Step, thorough: bool = True) -> str | None:
        """Recompute what ``visit`` claimed; ``None`` or a sentence that says what is false.

        ``thorough`` at a block's last visit; the random ones on the way cost less.
        """
        ...
