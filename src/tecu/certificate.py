r"""Whether the convergence theorem covers a run, computed from its visits.

The theorem. Each visit to a block ``b`` lowers

    ``Phi = Psi(z) + sum_b weight_b ||z_b - before_b||^2 + sum_b reserve_b``

by at least ``a ||move||^2``, with ``before_b`` the block's value before its latest visit; and some element ``P`` of the
subdifferential of ``Phi`` is bounded by the latest moves. If moreover ``Psi`` is coercive and has the
Kurdyka-Lojasiewicz property, the iterates converge to a critical point of ``Psi``.

| update | weight | a |
|---|---|---|
| proximal | 0 | ``eta/2`` |
| prox-linear | 0 | ``(gamma - L)/2``; ``gamma - L/2`` for a convex term |
| inertial (iPALM) | ``delta/2`` | ``((1 - alpha) gamma - (1 + beta) L - delta)/2`` |
| embed | ``c^2/eta`` | ``eta/4 - c^2/eta`` |
| embed, summable tolerances | 0, tail sum in reserve | ``eta/4`` |

Everything that can be computed is: the fall of ``Phi`` at every visit, the size of every error, the truth of a
strategy's claims at some visits, the gradients against differences. What cannot is listed as assumed.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from tecu.schedule import LARGEST_GAP
from tecu.state import Check, Outcome, State, Visit

TAIL_SWEEPS, TAIL_SHARE = 5, 0.2  # "holds from k on" needs this much of the run behind k
SEEN = 1e-6  # a rise of Phi by more than this share of it is told, even where rounding explains it
LOST = 1e-12  # of a block's norm: a move that rounding has a say in
USUAL = 0.9  # of the constants of the first half: a single step may need a large one anywhere
GROWN = 100.0  # times that constants may grow in the second half of a run without a word


class Verdict(enum.Enum):
    """What the certificate says."""

    HOLDS = "The convergence theorem covers the whole run."
    HOLDS_TO_ROUNDING = "The convergence theorem covers the whole run, some errors being at the level of rounding."
    HOLDS_FROM = "The convergence theorem covers the run from some iteration on."
    DOES_NOT_HOLD = "The convergence theorem does not cover the run."


@dataclass(frozen=True)
class Certificate:
    """The verdict on a run, and what it rests on."""

    verdict: Verdict
    reason: str  # one sentence: from when on, or why not
    holds_from: int | None  # the iteration from which the theorem covers the run; 0: all of it; None: never
    violations: list[Visit]  # visits that the theorem does not cover, each with its fault
    fallbacks: int  # visits whose strategy was overruled by a safe step; covered by the theorem
    descent_a: float  # the smallest constant a of all visits
    slack: float  # the largest rounding allowed in a comparison of Phi
    assumptions: list[str]  # what the theorem needs and nobody can compute
    iterations: int
    visits: int
    _residual: Callable[[], float] = field(repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether the theorem covers the run, at least from some iteration on."""
        return self.verdict is not Verdict.DOES_NOT_HOLD

    @cached_property
    def residual(self) -> float:
        """``||P||``, ``P`` an element of the subdifferential of ``Phi`` at the end; computed when first asked for."""
        return self._residual()

    def summary(self) -> str:
        """The verdict in words a user understands."""
        lines = [f"Certificate: {self.reason}"]
        falls = f"Phi falls by at least {self.descent_a:.3g} ||move||^2 a visit; " if self.visits else ""
        lines.append(
            f"  {self.visits} visits in {self.iterations} iterations, {self.fallbacks} fallbacks, "
            f"{len(self.violations)} violations; {falls}residual ||P|| = {self.residual:.3g}"
        )
        lines += [f"  assumed: {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from tecu.report.words import certificate_html

        return certificate_html(self)


def lyapunov(start_value: float, visits: Sequence[Visit]) -> list[float]:
    """``Phi`` at the start and after each visit."""
    reserves: dict[str, float] = {}
    for visit in visits:
        reserves.setdefault(visit.block, visit.reserve_before)
    held: dict[str, float] = {}
    values = [start_value + math.fsum(reserves.values())]
    for visit in visits:
        held[visit.block] = visit.weight * visit.move * visit.move
        reserves[visit.block] = visit.reserve
        values.append(visit.value + math.fsum(held.values()) + math.fsum(reserves.values()))
    return values


def violations(start_value: float, visits: Sequence[Visit]) -> list[Visit]:
    """The visits that the theorem does not cover: those with a fault, and those where ``Phi`` fell too little."""
    found = []
    phi = lyapunov(start_value, visits)
    for before, after, visit in zip(phi[:-1], phi[1:], visits, strict=True):
        if visit.fault is not None:
            found.append(visit)
            continue
        if visit.move > 0.0 and not visit.descent > 0.0:
            sentence = f"the step promises a descent of {visit.descent:.3g} ||move||^2, which is none"
            found.append(replace(visit, fault=sentence))
            continue
        missing = after - before + visit.descent * visit.move * visit.move
        if not missing <= visit.slack + 2 * math.ulp(before):  # Phi is a number itself, and may be far larger than Psi
            sentence = (
                f"the Lyapunov function fell {missing:.3g} less than the theorem says ({visit.outcome.value}); "
                "a Lipschitz constant, a gradient or a prox is wrong"
            )
            if visit.outcome is Outcome.EXTRAPOLATED:
                sentence = f"an extrapolated step let the Lyapunov function rise by {missing:.3g} more than allowed"
            found.append(replace(visit, fault=sentence))
    return found


def largest_rise(start_value: float, visits: Sequence[Visit]) -> float:
    """The largest rise of ``Phi`` in a visit among those that are more than a millionth of it; 0 if there is none."""
    phi = lyapunov(start_value, visits)
    return max((after - before for before, after in pairwise(phi) if after - before > SEEN * abs(before)), default=0.0)


def certify(
    state: State,
    theorem: Sequence[str] = (),
    residual: Callable[[], float] = lambda: math.nan,
    notes: Sequence[str] = (),
    changes: Sequence[str] = (),
) -> Certificate:
    """The certificate of a run.

    ``theorem`` lists reasons why no theorem covers the settings; ``notes`` what could not be checked; ``changes`` what
    somebody did to the problem during the run, which explains all the rest.
    """
    visits = list(state.visits)
    bad = violations(state.start_value, visits)
    no_theorem = [*theorem, *_schedule_faults(state, visits)]
    verdict, reason, holds_from = _verdict(state, visits, bad, no_theorem, changes)
    return Certificate(
        verdict=verdict,
        reason=reason,
        holds_from=holds_from,
        violations=bad,
        fallbacks=sum(visit.outcome is Outcome.FELL_BACK for visit in visits),
        descent_a=min((visit.descent for visit in visits), default=math.nan),
        slack=max((visit.slack for visit in visits), default=0.0),
        assumptions=[*_assumptions(visits), *notes, *_untold(state.checks)],
        iterations=state.t,
        visits=len(visits),
        _residual=residual,
    )


def _verdict(
    state: State, visits: Sequence[Visit], bad: Sequence[Visit], no_theorem: Sequence[str], changes: Sequence[str]
) -> tuple[Verdict, str, int | None]:
    failed = [check for check in state.checks if not check.passed]
    # A claim that an audit has found to be false makes the visits that were not audited worthless.
    false = [visit for visit in visits if visit.audited and visit.fault and visit.outcome is not Outcome.KEPT]
    blocking = [*changes, *(_failure(check) for check in failed), *no_theorem]
    blocking += [
        f"at iteration {visit.sweep}, block {visit.block!r}, {visit.fault} "
        f"({len(bad)} of {len(visits)} visits are not covered)"
        for visit in false[-1:]
    ]
    if not visits:
        blocking.append(
            "the run ended where it started: no block was visited, so there is nothing that the theorem could cover; "
            "the residual says how far the start is from a critical point. A rule that the start meets already lets a "
            "sweep be made first as `rule & stop.MaxIter(1)`"
        )
    if blocking:
        return Verdict.DOES_NOT_HOLD, f"does not hold, because {blocking[0]}.", None
    if not bad:
        rise = largest_rise(state.start_value, visits)
        if rise > 0.0:
            return (
                Verdict.HOLDS_TO_ROUNDING,
                f"holds to rounding: Phi rose by up to {rise:.3g} in a visit, which rounding of its sums explains.",
                0,
            )
        if any(visit.outcome is Outcome.ACCEPTED_BY_FLOOR for visit in visits):
            return (
                Verdict.HOLDS_TO_ROUNDING,
                "holds to rounding: some errors are too small to be told from zero.",
                0,
            )
        return Verdict.HOLDS, "holds for the whole run.", 0
    last = bad[-1]
    tail = state.t - last.sweep
    if tail >= max(TAIL_SWEEPS, TAIL_SHARE * state.t):
        return (
            Verdict.HOLDS_FROM,
            f"holds from iteration {last.sweep} on ({len(bad)} earlier visits are not covered).",
            last.sweep,
        )
    reason = (
        f"does not hold, because at iteration {last.sweep}, block {last.block!r}, {last.fault} "
        f"({len(bad)} of {len(visits)} visits are not covered)."
    )
    return Verdict.DOES_NOT_HOLD, reason, None


def _untold(checks: Sequence[Check]) -> list[str]:
    """The blocks that no test could tell anything of."""
    told = {check.block for check in checks if not check.untold}
    last = {check.block: _failure(check) for check in checks if check.block not in told}
    return list(last.values())


def _failure(check: Check) -> str:
    return f"{check.name} {'told nothing' if check.untold else 'failed'} for block {check.block!r}: {check.detail}"


def largest_gap(visits: Sequence[Visit]) -> tuple[str, int]:
    """The block that rested longest and for how many sweeps."""
    if not visits:
        return "", 0
    last: dict[str, int] = {}
    worst, gap = visits[0].block, 1
    end = visits[-1].sweep
    for visit in visits:
        rest = visit.sweep - last.get(visit.block, 0)
        if rest > gap:
            worst, gap = visit.block, rest
        last[visit.block] = visit.sweep
    for block, sweep in last.items():
        if end - sweep > gap:
            worst, gap = block, end - sweep
    return worst, gap


def _schedule_faults(state: State, visits: Sequence[Visit]) -> list[str]:
    never = sorted(set(state.z) - {visit.block for visit in visits})
    if visits and never:
        return [f"block {never[0]!r} was never visited"]
    block, gap = largest_gap(visits)
    if gap > LARGEST_GAP:
        return [f"the schedule is not essentially cyclic: block {block!r} rested for {gap} iterations"]
    return []


def _assumptions(visits: Sequence[Visit]) -> list[str]:
    norms: dict[str, float] = {}
    for visit in visits:
        norms[visit.block] = max(norms.get(visit.block, 0.0), visit.norm)
    seen = ", ".join(f"||{block}|| <= {size:.3g}" for block, size in norms.items())
    seen = f" (largest norms seen: {seen})" if seen else ""
    largest = ", ".join(f"{block} {max(found):.3g}" for block, found in _constants(visits).items())
    return [
        "Psi has the Kurdyka-Lojasiewicz property (true of semi-algebraic functions: polynomials, norms, l0, rank, "
        "boxes, spheres, Stiefel manifolds)",
        f"Psi is coercive, or the iterates stay bounded for another reason{seen}",
        "the gradient of H is Lipschitz continuous on bounded sets, and each prox is a global minimiser",
        *([f"the constants of the steps stay bounded (largest seen: {largest})"] if largest else []),
        *_growing(visits),
        *_leaving(visits),
    ]


def _leaving(visits: Sequence[Visit]) -> list[str]:
    """Blocks that have grown much in the second half of the run: ``Psi`` may fall for ever."""
    norms: dict[str, list[float]] = {}
    for visit in visits:
        norms.setdefault(visit.block, []).append(visit.norm)
    said = []
    for block, found in norms.items():
        before = max(found[: len(found) // 2], default=0.0)
        if before > 0.0 and found[-1] > GROWN * before:
            said.append(
                f"block {block!r}, whose norm grew from {before:.3g} to {found[-1]:.3g} in the second half of the run, "
                "stays bounded; if it does not, nothing converges: give it a term or a set that bounds it"
            )
    return said


def _constants(visits: Sequence[Visit]) -> dict[str, list[float]]:
    """The Lipschitz constants of each block's visits, where they are known."""
    found: dict[str, list[float]] = {}
    for visit in visits:
        if math.isfinite(visit.lipschitz):
            found.setdefault(visit.block, []).append(visit.lipschitz)
    return found


def _growing(visits: Sequence[Visit]) -> list[str]:
    """Constants that have grown much in the second half of the run, more than norms explain: shorter and shorter steps.

    A descent by such steps ends anywhere. No finite run shows whether they are bounded: it is said, not judged.
    """
    norms = max((visit.norm for visit in visits), default=0.0)
    start = max((visit.norm for visit in visits[: len(visits) // 2]), default=0.0)
    allowed = GROWN * (norms / start) ** 4 if start > 0.0 else math.inf
    said = []
    # Of a step that is lost in the rounding of its block the constant tells nothing, if the steps before were not.
    seen = [visit for visit in visits if visit.move > LOST * visit.norm]
    for block, found in _constants(seen).items():
        first = sorted(found[: len(found) // 2])
        before = first[int(USUAL * len(first))] if first else 0.0
        if before > 0.0 and found[-1] > allowed * before:
            said.append(
                f"the constants of block {block!r}, which grew from {before:.3g} to {found[-1]:.3g} in the second half "
                "of the run, are bounded; by ever shorter steps a run ends where nothing is critical: see the residual"
            )
    return said
