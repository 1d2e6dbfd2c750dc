"""Iterative hard thresholding."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tecu.arrays import Array
from tecu.inexact import Candidate
from tecu.protocols import Term, entrywise_of
from tecu.strategies.prox_gradient import REFRESH, claimed_step
from tecu.subproblem import SubProblem


class HardThresholding:
    """``u <- hard(u - grad phi(u) / tau)`` with ``tau`` fixed at the Lipschitz constant: the paper's PITH.

    The steps are those of :class:`ProxGradient`. The difference is that ``tau`` is never back-tracked, so the coupling
    must know its constant, and that the term must be one that counts non-zeros: for others the name would mislead.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> coupling = couplings.MatrixFactorization(np.diag([1.0, 0.1]))
    >>> problem = tecu.Problem(coupling, {"W": terms.L0(0.02), "D": terms.Zero()})
    >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 2)), "D": np.eye(2)}, eta=1.0)
    >>> proposals = strategies.HardThresholding()(sub, sub.previous)
    >>> for _ in range(20):
    ...     best = next(proposals).prox_point
    >>> (best.round(6) + 0.0).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """

    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield ``u`` with its prox point and error, then go on from the prox point."""
        tau = sub.lipschitz()
        if tau is None:
            raise ValueError(
                f"block {sub.block!r}: HardThresholding needs a coupling with a Lipschitz constant; "
                "strategies.ProxGradient finds its steps by back-tracking"
            )
        if not _counts_nonzeros(sub.term):
            raise ValueError(
                f"block {sub.block!r}: HardThresholding needs a term that counts non-zeros, such as terms.L0 or "
                f"terms.KSparse, got {sub.term!r}; use strategies.ProxGradient"
            )
        tau = tau if tau > 0.0 else 1.0  # H does not depend on the block: any step will do
        gradient = sub.grad(u)
        for k in count(1):
            candidate, gradient = claimed_step(sub, u, gradient, tau, refresh=k % REFRESH == 0)
            yield candidate
            u = candidate.prox_point

    def __repr__(self) -> str:
        return "HardThresholding()"


def _counts_nonzeros(term: Term) -> bool:
    from tecu import terms

    parts = getattr(term, "parts", (term,))
    if any(isinstance(part, terms.L0 | terms.BoundedL0 | terms.KSparse) for part in parts):
        return True
    entry = entrywise_of(term)
    return entry is not None and entry.l0 > 0.0
