"""The named solvers of dictionary learning, each a :class:`tecu.Solver` with a start and a stop rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tecu import arrays, methods, stop, strategies, terms
from tecu.dictionary.coding import Matrix
from tecu.dictionary.confirmation import EmbeddedCodes
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.embedded import ColumnSweeps, strategy_of
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.sparse_codes import SparseFactorization
from tecu.dictionary.weights import EmbeddedAtoms
from tecu.dictionary.workers import Workers
from tecu.problem import Problem
from tecu.protocols import Blocks, Term
from tecu.solver import Solver
from tecu.state import Outcome, State, Status
from tecu.subproblem import SubProblem
from tecu.updates import Embed, ProxLinear
from tecu.updates.base import Step

NAMES = ("auto", "tecu", "tecu-pith", "palm", "ipalm", "bcu", "inv")

BATCH, LEAST_BATCH = 5.4, 2.7
"""Samples in a block of codes, as a multiple of the number of atoms: shorter blocks gain less than their visits cost.
Two blocks are worth more than one, so that the dictionary learns within a sweep, as long as each has this multiple."""

SMALLEST_BATCH = 1000
"""Samples; smaller blocks cost more in visits than they bring."""

ROOM_OF_TOTALS = 8.0
"""How much larger than their mean the totals of an atom may become."""


@dataclass(frozen=True)
class Plan:
    """A solver with the start that belongs to a dictionary, and the way back from its blocks."""

    solver: Solver
    rule: stop.Rule
    start: Callable[[Matrix], dict[str, Any]]  # atoms x features -> blocks
    square: float  # ||X||^2

    def components(self, z: Blocks) -> Matrix:
        """Atoms x features."""
        return np.ascontiguousarray(z["D"].T)

    def codes(self, z: Blocks) -> Any:
        """Samples x atoms, CSR."""
        from scipy.sparse import csr_array, vstack

        parts = [z[name] for name in z if name != "D"]
        codes = csr_array(parts[0]) if len(parts) == 1 else csr_array(vstack(parts, format="csr"))
        codes.eliminate_zeros()
        codes.sort_indices()
        return codes


@dataclass(frozen=True)
class SmallGain(stop.Rule):
    """A sweep lowered ``Psi`` by less than ``share`` of it."""

    share: float

    def check(self, state: State, problem: Problem) -> Status | None:
        """Whether the last sweep, which is not the first, gained little."""
        if state.t < 2:
            return None
        first = state.visits.of_sweep(state.t)[0].index
        before = state.visits[first - 1].value
        return Status.CONVERGED if before - state.value < self.share * before or state.value == 0.0 else None


def code_term(coder: Coder) -> Term:
    """The term of the codes: what is counted, and the bounds."""
    term: Any = terms.L0(coder.penalty) if coder.n_nonzero is None else terms.KSparse(coder.n_nonzero)
    if coder.upper < np.inf:
        term = term + terms.Box(coder.lower, coder.upper)
    elif coder.lower >= 0:
        term = term + terms.NonNegative()
    bounded: Term = term
    return bounded


def plan(
    name: str,
    rows: Rows,
    coder: Coder,
    n_components: int,
    *,
    ball: bool = False,
    seed: int = 0,
    max_iter: int = 100,
    tol: float = 1e-4,
    team: Workers | None = None,
    lipschitz: Any = "power",
) -> Plan:
    """The solver called ``name`` for these data."""
    if name == "auto":
        return _batched(rows, coder, n_components, ball, seed, max_iter, tol, team or Workers(1))
    square = rows.square()
    require_range(square, rows, n_components)
    Y = rows.X.T if rows.X.dtype == rows.dtype else rows.X.T.astype(rows.dtype)
    problem = Problem(
        SparseFactorization(Y, lipschitz=lipschitz, team=team),
        {"W": code_term(coder), "D": terms.UnitColumns(ball=ball)},
    )

    def start(D: Matrix) -> dict[str, Any]:
        from scipy.sparse import csr_array

        return {"W": csr_array((len(rows), n_components), dtype=rows.dtype), "D": np.ascontiguousarray(D.T)}

    rule = stop.RelativeChange(tol) | stop.MaxIter(max_iter)
    return Plan(_two_blocks(name, problem, ball, seed, square / n_components), rule, start, square)


def require_range(square: float, rows: Rows, m: int, weight: float = 1.0) -> None:
    """Refuse samples whose totals, about ``||Y||^2 / m`` an atom and some of them more, leave the range of numbers.

    In the totals they may count up to ``weight`` times.
    """
    limits = np.finfo(rows.dtype)
    if not square / m < float(limits.max) / ROOM_OF_TOTALS / weight:
        remedy = "divide X by a number, and the penalty by its square"
    elif square / m < float(limits.tiny) and any(np.any(rows[piece]) for piece in rows.pieces()):
        remedy = "multiply X by a number, and the penalty by its square"
    else:
        return
    raise ValueError(
        f"the squares of X sum to {square:.3g}, which leaves the range of {rows.dtype} in the sums of an "
        f"atom; {remedy}" + (", or give X in float64" if rows.dtype == np.float32 else "")
    )


def _two_blocks(name: str, problem: Problem, ball: bool, seed: int, total: float) -> Solver:
    """``total`` is about what the squares of an atom's coefficients sum to: a larger ``eta`` would hold atoms fast."""
    updates: dict[str, Any]
    if name == "tecu":
        eta = min(1.0, total) or 1.0
        updates = {"W": ProxLinear(), "D": Embed(strategies.ADMM(), eta=eta, c=0.25 * eta, max_inner=20)}
    elif name == "tecu-pith":
        updates = {"W": Embed(strategies.HardThresholding(), eta=1.0, c=0.25, max_inner=20), "D": ProxLinear()}
    elif name == "inv":
        updates = {"W": ProxLinear(), "D": ProjectedLeastSquares(ball)}
    else:
        named: dict[str, Callable[[Problem], Solver]] = {
            "palm": methods.palm,
            "ipalm": methods.ipalm,
            "bcu": methods.bcu,
        }
        updates = named[name](problem).updates
    return Solver(problem, updates, seed=seed)


def blocks_of_codes(samples: int, atoms: int) -> int:
    """Into how many blocks the codes of all samples are cut."""
    usual, most = (round(samples / max(multiple * atoms, SMALLEST_BATCH)) for multiple in (BATCH, LEAST_BATCH))
    return max(1, usual, min(2, most))


def _batched(rows: Rows, coder: Coder, m: int, ball: bool, seed: int, max_iter: int, tol: float, team: Workers) -> Plan:
    """Batches of codes and the dictionary in turn: polished codes, column sweeps."""
    samples, n = rows.shape
    count = blocks_of_codes(samples, m)
    edges = [samples * i // count for i in range(count + 1)]
    batches = [slice(a, b) for a, b in pairwise(edges)]
    coupling = BatchedFactorization(rows, batches, team)
    square = 2 * coupling.half_square
    require_range(square, rows, m)
    names = coupling.names
    problem = Problem(coupling, {**dict.fromkeys(names, code_term(coder)), "D": terms.UnitColumns(ball=ball)})
    updates = {
        **dict.fromkeys(names, EmbeddedCodes(strategy_of(coder, min(n, m)))),
        "D": EmbeddedAtoms(ColumnSweeps(ball)),
    }

    def batch_schedule(t: int) -> list[str]:
        """All codes before the first dictionary update, then the dictionary after every batch."""
        return [*names, "D"] if t == 1 else [block for name in names for block in (name, "D")]

    def start(D: Matrix) -> dict[str, Any]:
        from scipy.sparse import csr_array

        empty = {
            name: csr_array((batch.stop - batch.start, m), dtype=rows.dtype)
            for name, batch in zip(names, batches, strict=True)
        }
        return {**empty, "D": np.ascontiguousarray(D.T)}

    rule = SmallGain(200 * tol) | stop.MaxIter(max_iter)
    return Plan(Solver(problem, updates, batch_schedule, seed), rule, start, square)


@dataclass(frozen=True)
class ProjectedLeastSquares:
    """``D = Y W (W'W)^{-1}``, each column then divided by its length: the dictionary update of INV (Bao et al.).

    It leaves the constraint out and projects afterwards, which need not descend; no theorem covers it.
    """

    ball: bool = False
    kind: str = "embed"
    theorem: str | None = "INV projects a least-squares dictionary on the constraint, which need not descend"

    def visit(self, sub: SubProblem) -> Step:
        """Least squares, then the projection; atoms that no code uses stay."""
        previous = sub.previous
        gradient = sub.coupling_at_previous()[1]
        codes = sub.others["W"]
        gram = arrays.dense(codes.T @ codes).astype(np.float64)
        scale = float(np.max(np.diagonal(gram), initial=0.0))
        used = np.diagonal(gram) > 0.0
        D = np.array(previous, dtype=np.float64)
        if scale > 0.0:
            system = gram[np.ix_(used, used)] + 1e-10 * scale * np.eye(int(used.sum()))
            D[:, used] -= np.linalg.solve(system, gradient[:, used].T.astype(np.float64)).T
        u = arrays.as_kind(sub.prox(D, 1.0), previous)
        fault = "INV's dictionary update satisfies no descent or error condition"
        return Step(u, Outcome.KEPT, 0.0, center=u, source=u, tau=1.0, descent=0.0, fault=fault)

    def audit(self, sub: SubProblem, step: Step, thorough: bool = True) -> str | None:
        """Nothing was claimed."""
        return None
