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
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from tecu.assumptions import assumptions
from tecu.schedule import largest_gap_allowed
from tecu.state import Check, Outcome, State, Visit

TAIL_SWEEPS, TAIL_SHARE = 5, 0.2  # "holds from k on" needs this much of the run behind k
SEEN = 1e-6  # a rise of Phi by more than this share of it is told, even where rounding explains it
MOST = 0.5  # of the visits to a block: where more of them fell back, its strategy is of no use
# The residual of the start would be no measure to compare with: where codes start from zero and their non-zeros are
# counted, it is zero.
MEANING = (
    '"Holds" means that the conditions of the theorem were met (errors small enough, Phi falling), not that the run '
    "has converged: how far it has come is what its residual and its stop status say."
)


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
    advice: list[str]  # what the run did in vain; the theorem does not mind
    _residual: Callable[[], float] = field(repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether the theorem covers the run, at least from some iteration on; not whether the run has converged."""
        return self.verdict is not Verdict.DOES_NOT_HOLD

    @cached_property
    def residual(self) -> float:
        """``||P||``, ``P`` an element of the subdifferential of ``Phi`` at the end; computed when first asked for."""
        return self._residual()

    def summary(self) -> str:
        """The verdict in words a user understands."""
        lines = [f"Certificate: {self.reason}", *([f"  {MEANING}"] if self.holds else [])]
        falls = f"Phi falls by at least {self.descent_a:.3g} ||move||^2 a visit; " if self.visits else ""
        lines.append(
            f"  {self.visits} visits in {self.iterations} iterations, {self.fallbacks} fallbacks, "
            f"{len(self.violations)} violations; {falls}residual ||P|| = {self.residual:.3g}"
        )
        lines += [f"  advice: {sentence}" for sentence in self.advice]
        lines += [f"  assumed: {assumption}" for assumption in self.assumptions]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from tecu.report.words import certificate_html

        return certificate_html(self)


def lyapunov(start_value: float, visits: Sequence[Visit]) -> list[float]:
    """``Phi`` at the start and after each visit.

    As long as a block's ``eta`` is not settled, its reserve is that of the first visit with one.
    """
    reserves: dict[str, float] = {}
    for visit in visits:
        if not math.isnan(visit.reserve_before):
            reserves.setdefault(visit.block, visit.reserve_before)
    held: dict[str, float] = {}
    values = [start_value + math.fsum(reserves.values())]
    for visit in visits:
        held[visit.block] = visit.weight * visit.move * visit.move
        if not math.isnan(visit.reserve):
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
        assumptions=[*assumptions(visits), *notes, *_untold(state.checks)],
        iterations=state.t,
        visits=len(visits),
        advice=_overruled(visits),
        _residual=residual,
    )


def _verdict(
    state: State, visits: Sequence[Visit], bad: Sequence[Visit], no_theorem: Sequence[str], changes: Sequence[str]
) -> tuple[Verdict, str, int | None]:
    failed = [check for check in state.checks if not check.passed]
    # A claim that an audit has found to be false makes the visits that were not audited worthless. Some claim nothing.
    silent = (Outcome.KEPT, Outcome.RESTED)
    false = [visit for visit in visits if visit.audited and visit.fault and visit.outcome not in silent]
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
    if gap > largest_gap_allowed(len(state.z)):
        return [f"the schedule is not essentially cyclic: block {block!r} rested for {gap} iterations"]
    return []


def _overruled(visits: Sequence[Visit]) -> list[str]:
    """Blocks whose strategy works for nothing: most of their visits fell back."""
    steps: dict[str, int] = {}
    fallen = Counter(visit.block for visit in visits if visit.outcome is Outcome.FELL_BACK)
    for visit in visits:
        steps[visit.block] = max(steps.get(visit.block, 0), visit.inner)
    return [
        f"block {block!r} fell back at {fallen[block]} of {count} visits, after at most {steps[block]} proposals "
        "that met no test; raise max_inner, put strategies.FISTA() behind it, or take ProxLinear(), which costs less"
        for block, count in Counter(visit.block for visit in visits).items()
        if fallen[block] > MOST * count
    ]
