"""The laws of a strategy, for a user's own ones."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.audit import audit_claim, claim_of
from tecu.inexact import Candidate, Estimate, estimate
from tecu.protocols import Memory, Restricted
from tecu.state import Outcome
from tecu.strategies import ProxGradient
from tecu.strategies.compose import Once, as_strategy
from tecu.subproblem import SubProblem
from tecu.updates import Embed
from tecu.visited import Counters

PROPOSALS = 6  # looked at one by one
ACCURACY = 1e-3  # of the first error, which a strategy must reach if it tends to zero


def check_strategy(strategy: Any, sub: SubProblem, *, seed: int = 0, max_steps: int = 500) -> None:
    """Check everything the solver relies on in a strategy, on the sub-problem ``sub`` (see ``SubProblem.of``).

    It is a generator that ends only if it says so; its proposals have the shape, precision and kind of the block; what
    it claims of them is true; it leaves earlier proposals alone; what it keeps in ``sub.memory`` can be
    saved, and arrays there are replaced, not changed; two runs from the same memory are the same. An endless strategy
    must bring the error estimate to (nearly) zero within ``max_steps`` proposals and be accepted. One that ends, or a
    function ``u -> u``, must leave a point from which :class:`~tecu.strategies.ProxGradient` gets accepted.

    Raises
    ------
    AssertionError
        In a sentence that says what was found and what should have been.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> from tecu.testing import check_strategy
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.ones((3, 2)), "D": np.eye(3)[:, :2]}, eta=0.5)
    >>> check_strategy(strategies.FISTA(), sub)
    >>> def liar(sub, u):
    ...     while True:
    ...         yield strategies.Candidate(u, gradient=0 * u)
    >>> check_strategy(liar, sub)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: proposal 1: the claimed gradient is 2 away from the true one, ...
    """
    if not sub.eta > 0.0:
        raise ValueError(f"check_strategy needs a sub-problem with eta > 0, got eta={sub.eta}")
    strategy = as_strategy(strategy)
    rng = np.random.default_rng(seed)
    first = _Run(strategy, sub, sub.previous, {})
    first.check()
    # As after another strategy, and at a block's second visit.
    _Run(strategy, sub, _nearby(sub, rng), copy.deepcopy(first.sub.memory)).check()
    if getattr(strategy, "endless", True):
        _check_convergence(strategy, sub, max_steps)
        _check_acceptance(strategy, sub, max_steps)
    else:
        _check_acceptance(strategy, sub, max_steps, ProxGradient())


@dataclass
class _Run:
    """The first proposals of a strategy from ``start``, and what they must not touch."""

    strategy: Any
    given: SubProblem
    start: Array
    memory: Memory
    kept: list[tuple[str, Array, Array]] = field(default_factory=list)  # name, array, and a copy of it

    def __post_init__(self) -> None:
        self.endless = bool(getattr(self.strategy, "endless", True))
        self.sub = _fresh(self.given, copy.deepcopy(self.memory))
        for name, block in self.sub.others.items():
            self.keep(f"block {name!r}", block)
        self.keep("the start u", self.start)
        self.keep("sub.previous", self.sub.previous)

    def keep(self, name: str, array: Array) -> None:
        self.kept.append((name, array, arrays.copy(array)))

    def check(self) -> None:
        """Everything that one run shows."""
        iterator = self.strategy(self.sub, self.start)
        assert hasattr(iterator, "__next__"), (
            f"the strategy must return an iterator (be a generator), it returned {type(iterator).__name__}"
        )
        seen: list[Array] = []
        for number, proposal in enumerate(islice(iterator, PROPOSALS), 1):
            candidate = self.candidate(proposal)
            for name in ("u", "gradient", "prox_point", "error"):
                value = getattr(candidate, name)
                if value is not None or name == "u":
                    self.check_form(f"proposal {number}: {name}", value, name in ("u", "prox_point"))
                    self.keep(f"{name} of proposal {number}", value)
            _check_claims(_fresh(self.given, copy.deepcopy(self.memory)), candidate, number)
            self.check_memory(self.sub.memory, "sub.memory")
            seen.append(candidate.u)
        assert len(seen) == PROPOSALS or not self.endless, (
            "a strategy counts as endless unless its attribute endless is False, but this one ended: it made "
            f"{len(seen)} of {PROPOSALS} proposals; set endless = False on the function or class"
        )
        for name, array, before in self.kept:
            assert _same(array, before), f"{name} was changed in place; make a new array instead"
        again = self.strategy(_fresh(self.given, copy.deepcopy(self.memory)), self.start)
        for number, (mine, other) in enumerate(zip(seen, again, strict=False), 1):
            other = other.u if isinstance(other, Candidate) else other
            assert _same(mine, arrays.as_kind(other, mine)), (
                f"proposal {number} differs between two runs from the same memory; keep what must survive in "
                "sub.memory and draw random numbers from sub.rng"
            )

    def candidate(self, proposal: Any) -> Candidate:
        """The proposal with its claims; a plain function's answer is put into the block's kind by the update."""
        if isinstance(proposal, Candidate):
            return proposal
        if isinstance(self.strategy, Once) and hasattr(proposal, "dtype"):
            proposal = arrays.as_kind(proposal, self.sub.previous)
        return Candidate(proposal)

    def check_form(self, name: str, value: Array, in_kind: bool) -> None:
        """Shape, precision and kind; a gradient or an error may be dense for a CSR block."""
        like = self.sub.previous
        assert hasattr(value, "dtype"), f"{name} must be an array, got {type(value).__name__}"
        shape = tuple(value.shape)
        assert shape == tuple(like.shape), f"{name} has shape {shape}, the block has {tuple(like.shape)}"
        assert value.dtype == like.dtype, f"{name} is {value.dtype}, the block is {like.dtype}"
        kind = arrays.namespace(value) is arrays.namespace(like)
        if in_kind:
            kind = kind and arrays.is_sparse(value) == arrays.is_sparse(like)
        assert kind, f"{name} is a {type(value).__name__}, the block is a {type(like).__name__}"
        assert arrays.all_finite(value), f"{name} has NaN or Inf"

    def check_memory(self, value: Any, name: str) -> None:
        """Only what can be saved, and arrays that stay as they are."""
        if isinstance(value, Mapping):
            for key, item in value.items():
                assert isinstance(key, str), f"{name} has the key {key!r}; keys must be strings"
                self.check_memory(item, f"{name}[{key!r}]")
        elif isinstance(value, list | tuple):
            for position, item in enumerate(value):
                self.check_memory(item, f"{name}[{position}]")
        elif hasattr(value, "shape") and hasattr(value, "dtype"):
            assert getattr(value, "format", "csr") == "csr", (
                f"{name} is a {type(value).__name__}; a memory can keep sparse arrays as CSR only, so use .tocsr()"
            )
            if getattr(value, "ndim", 0) > 0:
                self.keep(name, value)
        else:
            assert value is None or isinstance(value, bool | int | float | str), (
                f"{name} is a {type(value).__name__}; a memory can keep numbers, strings, lists, dicts and arrays"
            )


def _check_claims(sub: SubProblem, candidate: Candidate, number: int) -> None:
    """Recompute what the candidate says of itself."""
    name = f"proposal {number}"
    assert candidate.prox_point is None or candidate.tau is not None, f"{name} claims a prox_point without its tau"
    assert candidate.error is None or candidate.prox_point is not None, f"{name} claims an error without a prox_point"
    truth = estimate(sub, Candidate(candidate.u), candidate.tau)
    allowed = 1e-3 * truth.error_norm + 64 * truth.floor

    def compare(what: str, claimed: Array, true: Array, scale: float = 1.0) -> None:
        gap = scale * arrays.distance(claimed, true)
        assert gap <= allowed, (
            f"{name}: the claimed {what} is {gap:.3g} away from the true one, {allowed:.3g} is allowed"
        )

    if candidate.gradient is not None:
        compare("gradient", candidate.gradient, sub.grad(candidate.u))
    if candidate.prox_point is not None:
        if not _is_tie(sub, candidate, truth):
            compare("prox_point", candidate.prox_point, truth.point, truth.tau)
        truth = estimate(sub, Candidate(candidate.u, prox_point=candidate.prox_point, tau=candidate.tau))
    if candidate.error is not None:
        compare("error", candidate.error, truth.error)
    if candidate.numbers is not None:
        assert candidate.tau is not None, f"{name} claims numbers without a prox_point and its tau"
        claim = claim_of(estimate(sub, candidate))
        fault = audit_claim(sub, claim, candidate.prox_point)
        assert fault is None, f"{name}: {fault}"


def _is_tie(sub: SubProblem, candidate: Candidate, truth: Estimate) -> bool:
    """Whether the claimed prox point is another one of the same value, as a non-convex term may have."""
    if sub.term.is_convex:
        return False
    center = candidate.u - sub.grad(candidate.u) / truth.tau
    mine, best = (
        float(sub.term.value(point)) + 0.5 * truth.tau * arrays.distance(point, center) ** 2
        for point in (candidate.prox_point, truth.point)
    )
    slack = 64.0 * math.sqrt(math.prod(sub.previous.shape)) * arrays.unit_roundoff(sub.previous)
    return mine <= best + slack * max(abs(mine), abs(best))


def _check_convergence(strategy: Any, sub: SubProblem, max_steps: int) -> None:
    """The error tends to zero."""
    sub = _fresh(sub, {})
    first = estimate(sub, Candidate(sub.previous))
    goal = ACCURACY * first.error_norm
    smallest = math.inf
    for candidate in _candidates(strategy, sub, max_steps):
        found = estimate(sub, candidate)
        smallest = min(smallest, found.error_norm)
        if found.error_norm <= max(goal, 64 * found.floor):
            return
    raise AssertionError(
        f"the error does not tend to zero: it begins with {first.error_norm:.3g} at the start and is never below "
        f"{smallest:.3g} in {max_steps} proposals"
    )


def _check_acceptance(strategy: Any, sub: SubProblem, max_steps: int, *others: Any) -> None:
    """The update accepts a proposal: its error is small enough and the sub-problem descends."""
    sub = _fresh(sub, {})
    step = Embed(strategy, *others, eta=sub.eta, max_inner=max_steps).visit(sub)
    names = " followed by ProxGradient()" if others else ""
    assert step.outcome not in (Outcome.FELL_BACK, Outcome.RESTED), (
        f"no proposal of {strategy!r}{names} was accepted in {max_steps} steps: either the error stays too large, or "
        "the points are stationary but higher than where the block came from"
    )


def _candidates(strategy: Any, sub: SubProblem, number: int) -> Iterator[Candidate]:
    for proposal in islice(strategy(sub, sub.previous), number):
        yield proposal if isinstance(proposal, Candidate) else Candidate(proposal)


def _fresh(sub: SubProblem, memory: Memory) -> SubProblem:
    """The same sub-problem as at the beginning of a visit: nothing cached, nothing counted."""
    coupling = sub.smooth.coupling
    own = getattr(coupling, "restrict", None)
    smooth = Restricted(coupling, sub.block, sub.others) if own is None else own(sub.block, sub.others)
    return replace(sub, smooth=smooth, memory=memory, notes={}, counters=Counters(), _cache={})


def _nearby(sub: SubProblem, rng: np.random.Generator) -> Array:
    """Another point of the term's domain."""
    noise = rng.standard_normal(tuple(sub.previous.shape))
    noise *= 0.1 * max(arrays.norm(sub.previous), 1.0) / np.linalg.norm(noise)
    return sub.prox(arrays.dense(sub.previous) + arrays.from_numpy(noise, arrays.dense(sub.previous)), 1.0)


def _same(x: Array, y: Array) -> bool:
    return np.array_equal(arrays.host(arrays.dense(x)), arrays.host(arrays.dense(y)))
