"""How small the error of an embedded strategy has to be.

The theorem needs ``Phi = Psi + (what is kept in reserve for later errors)`` to fall. What goes into the reserve is
the rule's business: for the paper's rule ``C^2/eta ||last move||^2`` for each block, for summable tolerances the tail
sum, and for fixed ones nothing helps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

from tecu.settings import is_number, make_plain


class Tolerance(Protocol):
    """An inexactness rule: what ``||e||`` may be at a block's ``k``-th visit (``k = 0, 1, ...``)."""

    def bound(self, k: int, previous_move: float | None) -> float | None:
        """The bound on ``||e||``, or ``None`` where the block's own move has to serve (its first visit)."""
        ...

    def weight(self, eta: float) -> float:
        """The weight of ``||move||^2`` in the Lyapunov function."""
        ...

    def reserve(self, k: int, eta: float) -> float:
        """What the Lyapunov function holds for the errors after visit ``k``."""
        ...

    def descent(self, eta: float) -> float:
        """``a``: the Lyapunov function falls by at least ``a ||move||^2``."""
        ...

    @property
    def own_move_factor(self) -> float:
        """``K`` of ``||e|| <= K ||own move||``, for a first visit and where the bound is lost in rounding.

        It has the unit of ``eta``. With 0, only an error at the level of rounding passes there.
        """
        ...

    @property
    def theorem(self) -> str | None:
        """``None`` if a convergence theorem covers the rule, else a sentence that says why not."""
        ...


@dataclass(frozen=True)
class MovingTolerance:
    """``||e|| <= c * (the block's last move)``, Criterion 1 of the paper; needs ``0 < 2c < eta``."""

    c: float

    def __post_init__(self) -> None:
        if not (is_number(self.c) and 0 < self.c < math.inf):
            raise ValueError(f"MovingTolerance needs a positive c, got {self.c!r}")
        make_plain(self, "c")

    def bound(self, k: int, previous_move: float | None) -> float | None:
        """``c * previous_move``."""
        return None if previous_move is None else self.c * previous_move

    def weight(self, eta: float) -> float:
        """``c^2 / eta``."""
        return self.c * (self.c / eta)  # in this order: no square that leaves the range

    def reserve(self, k: int, eta: float) -> float:
        """Nothing: the weight does it."""
        return 0.0

    def descent(self, eta: float) -> float:
        """``eta/4 - c^2/eta``."""
        return eta / 4 - self.c * (self.c / eta)

    @property
    def own_move_factor(self) -> float:
        """``c``."""
        return self.c

    theorem: ClassVar[str | None] = None


@dataclass(frozen=True)
class FixedTolerance:
    """``||e|| <= accuracy`` at every visit. No convergence theorem covers it; it is here for comparison."""

    accuracy: float
    theorem: ClassVar[str | None] = "a fixed inner accuracy has no convergence theorem: the errors do not vanish"

    def __post_init__(self) -> None:
        if not (is_number(self.accuracy) and 0 < self.accuracy < math.inf):
            raise ValueError(f"FixedTolerance needs a positive accuracy, got {self.accuracy!r}")
        make_plain(self, "accuracy")

    def bound(self, k: int, previous_move: float | None) -> float | None:
        """The fixed accuracy."""
        return self.accuracy

    def weight(self, eta: float) -> float:
        """Nothing helps."""
        return 0.0

    def reserve(self, k: int, eta: float) -> float:
        """Nothing helps."""
        return 0.0

    def descent(self, eta: float) -> float:
        """``eta/4``, up to the error."""
        return eta / 4

    @property
    def own_move_factor(self) -> float:
        """Nothing: where the accuracy is lost in rounding, the error has to be at the level of rounding."""
        return 0.0


@dataclass(frozen=True)
class SummableTolerance:
    """``||e|| <= first / (k + 1)^power`` at a block's ``k``-th visit; ``power > 1`` makes the errors summable.

    Then ``Phi = Psi + (1/eta) sum_{j > k} bound_j^2`` falls by ``eta/4 ||move||^2``; the tail sum is bounded by an
    integral, ``first^2 (k + 1)^(1 - 2 power) / (2 power - 1)``.
    """

    first: float
    power: float = 1.5
    theorem: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        if not (is_number(self.first) and is_number(self.power) and 0 < self.first < math.inf and self.power > 1):
            raise ValueError(
                f"SummableTolerance needs first > 0 and power > 1, got first={self.first!r}, power={self.power!r}"
            )
        make_plain(self, "first", "power")

    def bound(self, k: int, previous_move: float | None) -> float | None:
        """``first / (k + 1)^power``."""
        return self.first * math.pow(k + 1, -self.power)

    def weight(self, eta: float) -> float:
        """Nothing: the reserve does it."""
        return 0.0

    def reserve(self, k: int, eta: float) -> float:
        """``(1/eta) sum_{j > k} bound_j^2``, by its integral; ``k = -1`` is the start."""
        if k < 0:
            return self.reserve(0, eta) + self.first**2 / eta
        return self.first**2 * math.pow(k + 1, 1 - 2 * self.power) / (2 * self.power - 1) / eta

    def descent(self, eta: float) -> float:
        """``eta/4``."""
        return eta / 4

    @property
    def own_move_factor(self) -> float:
        """Nothing, as of a fixed accuracy: there is a bound at every visit, and ``first`` is an error, not a factor."""
        return 0.0
