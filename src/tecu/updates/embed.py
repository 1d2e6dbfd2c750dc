"""The embedded update: any strategy inside a block, run until its computed error is small enough."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal

from tecu import arrays, noise
from tecu.arrays import Array
from tecu.audit import audit_claim, claim_of, prox_fault
from tecu.inexact import Candidate, Estimate, Judgement, estimate, judge
from tecu.problem import SubProblem
from tecu.settings import is_number, is_whole, plain
from tecu.state import Outcome
from tecu.strategies.compose import as_strategy, begun
from tecu.tolerance import MovingTolerance, Tolerance
from tecu.updates.base import Step

AtCap = Literal["fallback", "keep_if_descends", "keep_if_covered"]
OUTCOMES = {
    Judgement.ACCEPT: Outcome.ACCEPTED,
    Judgement.ACCEPT_BY_OWN_MOVE: Outcome.ACCEPTED_BY_OWN_MOVE,
    Judgement.ACCEPT_BY_FLOOR: Outcome.ACCEPTED_BY_FLOOR,
}
LARGEST_GROWTH = 1e6  # a proposal this many times larger than the block ends its strategy: iterates stay bounded


class Embed:
    r"""Strategies, one after the other, on ``min term(u) + H(u, others) + eta/2 ||u - previous||^2``.

    Each proposal ``u`` is mapped to its prox point ``u~`` with error ``e`` in the sub-problem's subdifferential
    (:mod:`tecu.inexact`). It is accepted when ``||e|| <= c * (the block's last move)`` and the sub-problem descends;
    ``Phi`` then falls by ``a ||move||^2``, ``a = eta/4 - c^2/eta``.

    Parameters
    ----------
    *strategies
        Strategies (generators, see :mod:`tecu.strategies`) or plain functions ``u -> u`` such as a network or a
        denoiser. Only the last may be endless.
    eta
        Weight of the proximal term; ``None`` takes 0.1 times the Lipschitz constant at the block's first visit.
    c
        The constant of the criterion, ``0 < 2c < eta``; ``None`` takes ``eta / 4``.
    max_inner
        After this many proposals ``at_cap`` decides.
    at_cap
        ``"fallback"``: one prox-gradient step on the sub-problem, which the theorem covers. ``"keep_if_descends"``: the
        last proposal if the sub-problem descends, counted as a violation. ``"keep_if_covered"``: the last proposal if
        it descends *and* ``||e||`` is bounded by the move as it is for the fallback, so that the theorem covers it too.
        If the condition is not met, both fall back.
    tolerance
        Another inexactness rule than :class:`~tecu.MovingTolerance`.
    tau
        The constant of the error estimate: ``None`` takes the Lipschitz constant of the sub-problem or back-tracking,
        ``1.0`` is the paper's choice.
    extrapolation
        The strategies start at ``u + extrapolation (u - w)``, ``w`` the value before the latest visit. What they
        propose is judged as ever. It saves inner steps where a block goes on in its direction.

    Examples
    --------
    >>> import tecu
    >>> from tecu import strategies
    >>> tecu.Embed(strategies.FISTA(), eta=1.0, c=0.6)
    Traceback (most recent call last):
    ...
    ValueError: Embed needs 0 < 2c < eta for its error criterion, got c=0.6, eta=1.0
    """

    kind = "embed"
    share_of_eta = 0.25  # c, where it was not given

    def __init__(
        self,
        *strategies: Any,
        eta: float | None = None,
        c: float | None = None,
        max_inner: int = 20,
        at_cap: AtCap = "fallback",
        tolerance: Tolerance | None = None,
        tau: float | None = None,
        extrapolation: float = 0.0,
    ) -> None:
        if not strategies:
            raise ValueError("Embed needs at least one strategy, such as strategies.ProxGradient()")
        self.strategies = tuple(as_strategy(s) for s in strategies)
        for position, strategy in enumerate(self.strategies[:-1], 1):
            if getattr(strategy, "endless", True):
                raise ValueError(
                    f"Embed: strategy {position} of {len(self.strategies)}, {strategy!r}, is endless, so the ones "
                    "after it would never run; bound it with strategies.steps(strategy, n) or put it last"
                )
        if eta is not None and not (is_number(eta) and 0 < eta < math.inf):
            raise ValueError(f"Embed needs eta > 0, a finite number, got eta={eta!r}")
        if c is not None and not (is_number(c) and c > 0 and (eta is None or 2 * c < eta)):
            raise ValueError(f"Embed needs 0 < 2c < eta for its error criterion, got c={c!r}, eta={eta}")
        if c is not None and eta is None:
            raise ValueError(f"Embed: c={c} is given without eta; give both (0 < 2c < eta) or neither")
        if not (is_whole(max_inner) and max_inner >= 1):
            raise ValueError(f"Embed needs max_inner >= 1, a whole number, got max_inner={max_inner!r}")
        if at_cap not in ("fallback", "keep_if_descends", "keep_if_covered"):
            raise ValueError(f"at_cap must be 'fallback', 'keep_if_descends' or 'keep_if_covered', got {at_cap!r}")
        if tolerance is not None and not callable(getattr(tolerance, "bound", None)):
            raise TypeError(f"Embed: tolerance must be a rule such as MovingTolerance(0.1), got {tolerance!r}")
        if not (is_number(extrapolation) and math.isfinite(extrapolation)):
            raise TypeError(f"Embed: extrapolation must be a finite number, got {extrapolation!r}")
        if tau is not None and not (is_number(tau) and 0 < tau < math.inf):
            raise ValueError(f"Embed needs tau > 0, a finite number, got tau={tau!r}")
        if isinstance(tolerance, MovingTolerance) and eta is not None and not 0 < 2 * tolerance.c < eta:
            raise ValueError(f"Embed needs 0 < 2c < eta for its error criterion, got c={tolerance.c}, eta={eta}")
        self.eta, self.c, self.max_inner, self.at_cap = plain(eta), plain(c), max_inner, at_cap
        self.tolerance, self.tau, self.extrapolation = tolerance, plain(tau), plain(extrapolation)

    def __repr__(self) -> str:
        names = ", ".join(repr(s) for s in self.strategies)
        return (
            f"Embed({names}, eta={self.eta}, c={self.c}, max_inner={self.max_inner}, at_cap={self.at_cap!r}, "
            f"tolerance={self.tolerance!r}, tau={self.tau}, extrapolation={self.extrapolation})"
        )

    @property
    def theorem(self) -> str | None:
        """``None``, or why no convergence theorem covers the inexactness rule."""
        return None if self.tolerance is None else self.tolerance.theorem

    # -- one visit ----------------------------------------------------------------------------------------------

    def visit(self, sub: SubProblem) -> Step:
        """Run the strategies until a proposal is accepted or the cap is reached."""
        sub, rule = self._with_eta(sub)
        inner, last, start = 0, None, self._start(sub)
        u = start
        for strategy in self.strategies:
            sub.counters.strategy_calls += 1
            for proposal in begun(strategy, sub, u):
                candidate = _checked(proposal if isinstance(proposal, Candidate) else Candidate(proposal), sub)
                u = candidate.u
                inner += 1
                astray = candidate.prox_point is None and not _is_sane(u, sub)
                if not astray:
                    found = estimate(sub, candidate, self.tau)
                    verdict = judge(sub, found, rule)
                    if verdict.accepted:
                        step = self._step(sub, rule, found, OUTCOMES[verdict.judgement], verdict.tolerance, inner)
                        return replace(step, fault=prox_fault(sub, found), claim=claim_of(found))
                    last = found if math.isfinite(found.error_norm) else last
                    astray = _has_huge_error(found) and not _is_sane(u, sub)
                if astray:
                    sub.notes["astray"] = int(sub.notes.get("astray", 0)) + 1
                if inner >= self.max_inner:
                    return self._at_cap(sub, rule, last, inner)
                if astray:  # it does not come back, and from there no other strategy would
                    u = start
                    break
        return self._at_cap(sub, rule, last, inner)

    def _with_eta(self, sub: SubProblem) -> tuple[SubProblem, Tolerance]:
        eta = self.eta
        if eta is None:
            eta = sub.notes.get("eta")
            if eta is None:
                eta = self.first_eta(sub)
                if eta > 0.0:
                    sub.notes["eta"] = eta
                else:  # H does not depend on the block yet: any weight serves, and the next visit looks again
                    eta = 1.0
                # Until eta is settled the last move carries another weight: judge the block by its own move.
                sub = replace(sub, previous_move=None)
        c = self.share_of_eta * eta if self.c is None else self.c
        rule = MovingTolerance(c) if self.tolerance is None else self.tolerance
        if isinstance(rule, MovingTolerance) and not 2 * rule.c < eta:
            raise ValueError(
                f"block {sub.block!r}: Embed needs 0 < 2c < eta for its error criterion, got c={rule.c}, and a tenth "
                f"of the curvature, {eta:.6g}, as eta; give a smaller c, or eta"
            )
        return sub.with_eta(float(eta)), rule

    def first_eta(self, sub: SubProblem) -> float:
        """The weight ``eta`` where none was given, at the block's first visit: a tenth of the curvature."""
        return 0.1 * _curvature(sub)

    def _start(self, sub: SubProblem) -> Array:
        """Where the first strategy starts; the others do where the one before ended."""
        if self.extrapolation and sub.before is not None:
            return sub.previous + self.extrapolation * (sub.previous - sub.before)
        return sub.previous

    def _step(
        self,
        sub: SubProblem,
        rule: Tolerance,
        found: Estimate,
        outcome: Outcome,
        tolerance: float,
        inner: int,
    ) -> Step:
        own_move = outcome in (Outcome.FELL_BACK, Outcome.COVERED)
        is_settled = self.eta is not None or "eta" in sub.notes
        reserve_before, reserve = (
            rule.reserve(k, sub.eta) if is_settled else math.nan for k in (sub.visits - 1, sub.visits)
        )
        return Step(
            found.point, outcome, sub.eta, center=found.source, source=found.source, tau=found.tau,
            descent=rule.descent(sub.eta), weight=rule.weight(sub.eta),
            reserve=reserve, reserve_before=reserve_before,
            error=found.error_norm, tolerance=math.nan if own_move else tolerance, inner=inner,
            term=found.term, move=found.move, lipschitz=found.tau - sub.eta, coupling=found.known_coupling,
        )  # fmt: skip

    # -- after the inner cap ------------------------------------------------------------------------------------

    def _at_cap(self, sub: SubProblem, rule: Tolerance, last: Estimate | None, inner: int) -> Step:
        bound = rule.bound(sub.visits, sub.previous_move)
        tolerance = math.nan if bound is None else bound
        if last is not None and self.at_cap != "fallback":
            change, slack = last.rise
            covered = last.error_norm <= 2 * last.tau * last.move
            if change <= slack and last.move > 0 and (covered or self.at_cap == "keep_if_descends"):
                if self.at_cap == "keep_if_covered":
                    step = self._step(sub, rule, last, Outcome.COVERED, tolerance, inner)
                    return replace(step, fault=prox_fault(sub, last), claim=claim_of(last))
                step = self._step(sub, rule, last, Outcome.KEPT, tolerance, inner)
                return replace(
                    step,
                    fault=f"the error {last.error_norm:.3g} exceeds {tolerance:.3g} after {inner} inner steps",
                )
        return self._fall_back(sub, rule, inner)

    def _fall_back(self, sub: SubProblem, rule: Tolerance, inner: int) -> Step:
        """A prox-gradient step on the sub-problem from ``previous``, ``tau >= L + eta``; grows if ``L`` was wrong."""
        gradient = sub.grad(sub.previous)
        point, tau = sub.prox_gradient_step(sub.previous, gradient)
        if not sub.trusts(tau):  # a strategy's false gradient may have left a constant behind
            sub.notes.pop("curvature", None)
            point, tau = sub.prox_gradient_step(sub.previous, gradient)
        if not sub.trusts(tau):  # back-tracking among values that are all noise
            point, tau = sub.prox_gradient_step(sub.previous, gradient, sub.largest_tau())
        while sub.trusts(tau):
            found = estimate(sub, Candidate(sub.previous, gradient, point, tau=tau))
            if found.is_finite:
                change, slack = found.rise
                if change <= slack:
                    step = self._step(sub, rule, found, Outcome.FELL_BACK, math.nan, inner)
                    return replace(step, fault=prox_fault(sub, found), claim=claim_of(found))
            tau *= 2.0
            point, tau = sub.prox_gradient_step(sub.previous, gradient, tau)
        if noise.measure(sub, coarse=False):  # H may round more than was known
            return self._fall_back(sub, rule, inner)
        fault = (
            f"no step of block {sub.block!r} lowers its sub-problem: gradient, prox, values and constants do not agree"
        )
        stay = Estimate(sub, sub.previous, sub.previous, tau, None, gradient, error_norm=math.nan)
        return replace(self._step(sub, rule, stay, Outcome.RESTED, math.nan, inner), center=point, fault=fault)

    def audit(self, sub: SubProblem, step: Step, thorough: bool = True) -> str | None:
        """Recompute what the strategy claimed."""
        if step.claim is None:
            return None
        return audit_claim(sub.with_eta(step.eta), step.claim, step.u, thorough)


def _curvature(sub: SubProblem) -> float:
    constant = sub.lipschitz()
    if constant is None:
        sub.prox_gradient_step(sub.previous)  # back-tracking leaves the curvature it found in the notes
        constant = float(sub.notes.get("curvature", 1.0))
    return constant


def _checked(candidate: Candidate, sub: SubProblem) -> Candidate:
    """The candidate with its points in the block's own kind and precision; refused if a shape does not fit."""
    for name in ("u", "gradient", "prox_point", "error"):
        given = getattr(candidate, name)
        if given is None and name != "u":
            continue
        sub.require_shape(given, "the strategy proposed" + ("" if name == "u" else f" as {name}"))
    u = arrays.as_kind(candidate.u, sub.previous)
    point = candidate.prox_point if candidate.prox_point is None else arrays.as_kind(candidate.prox_point, sub.previous)
    same = u is candidate.u and point is candidate.prox_point
    return candidate if same else replace(candidate, u=u, prox_point=point)


def _has_huge_error(found: Estimate) -> bool:
    """Whether ``||e||`` is out of all proportion to the block: a cheap sign that the proposal may be, too."""
    usual = found.floor / (8.0 * found.sub.roundoff) + found.tau
    return not found.error_norm <= LARGEST_GROWTH * usual


def _is_sane(u: Array, sub: SubProblem) -> bool:
    size = arrays.norm(u)
    if size <= LARGEST_GROWTH * (1.0 + sub.size_of_previous()):
        return True
    # The block may just have another scale than 1: compare with where a gradient step would go.
    reach = arrays.norm(sub.prox_gradient_step(sub.previous)[0])
    return math.isfinite(size) and size <= LARGEST_GROWTH * (reach + sub.size_of_previous())
