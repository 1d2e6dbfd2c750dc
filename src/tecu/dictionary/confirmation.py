r"""The audit of polished codes, piece by piece.

A polished code ``u`` claims to be its own prox point, with no error, and tells the change of its sub-problem. To
recompute that takes the gradient at ``u``, the largest array of all, which need not be kept: for a piece of the samples
it is made, compared and forgotten. What is not confirmed here is for the solver's own audit to judge.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from tecu import arrays, terms
from tecu.audit import Claim
from tecu.dictionary.blocks import CodesOfBatch
from tecu.dictionary.coding import Codes, Matrix, room_for_correlations, tile_height
from tecu.dictionary.compiled import address_of_gemm
from tecu.dictionary.totals import Atoms, is_for_kernels, misfits_of
from tecu.dictionary.weights import SHARE_OF_ETA, codes_eta
from tecu.subproblem import SubProblem
from tecu.updates import Embed
from tecu.updates.base import Step

SAMPLE_STRIDE = 8
"""One sample in so many tells how large gradients are."""


class EmbeddedCodes(Embed):
    """:class:`tecu.Embed` for a batch of codes: the same visits and tests, a weight that suits, a quicker audit."""

    share_of_eta = SHARE_OF_ETA

    def first_eta(self, sub: SubProblem) -> float:
        """By how large codes are against what is left of the samples."""
        smooth = sub.smooth
        assert isinstance(smooth, CodesOfBatch)
        return codes_eta(self.strategies[0], smooth.samples, smooth.atoms.rows, smooth.gram)

    def audit(self, sub: SubProblem, step: Step, thorough: bool = True) -> str | None:
        """Recompute what the strategy claimed, in full where the quick way does not confirm it.

        A code without error is its own prox point for any ``tau`` from :func:`_least_tau` on. In full it is looked at
        with that one, which allows for the least rounding.
        """
        claim = step.claim
        if claim is not None and claim.u is step.u and claim.change is not None:
            own = sub.with_eta(step.eta)
            if confirmed(own, claim):
                return None
            step = replace(step, claim=replace(claim, tau=min(claim.tau, _least_tau(own))))
        return super().audit(sub, step, thorough)


def _least_tau(sub: SubProblem) -> float:
    """The square of the longest atom, and ``eta``."""
    assert isinstance(sub.smooth, CodesOfBatch)
    return _longest(sub.smooth) ** 2 + sub.eta


def _longest(smooth: CodesOfBatch) -> float:
    rows = smooth.atoms.rows
    return math.sqrt(float(np.max(np.einsum("ij,ij->i", rows, rows))))


def confirmed(sub: SubProblem, claim: Claim) -> bool:
    """Whether codes are their own prox point and change the sub-problem as they say; ``False`` where that is not told.

    The bounds are those of :func:`tecu.audit.audit_claim`, which says no more than that of such a point.
    """
    smooth, u, previous, tau = sub.smooth, claim.u, sub.previous, claim.tau
    if not isinstance(smooth, CodesOfBatch) or type(sub.term) is not terms.L0 or claim.change is None:
        return False
    if not all(_is_plain(codes) for codes in (u, previous)):
        return False
    # The curvature is at least the square of the longest atom: this bound is within the one that the solver trusts.
    longest = _longest(smooth)
    if not 0.0 < tau <= math.pow(arrays.unit_roundoff(u), -1.0 / 3.0) * longest**2:
        return False
    gap, squares, slope = _recomputed(smooth, u, previous, longest, sub.eta, tau, sub.term.weight)
    r, size, move = arrays.unit_roundoff(u), sub.size_of_previous(), arrays.distance(u, previous)
    # A large tau rounds away no more of the gradient on the support, and none of the change.
    floor = 8.0 * r * (min(tau, _least_tau(sub)) * size + slope)
    before, after = sub.term_at_previous(), float(sub.term.value(u))
    change = after - before + 0.5 * squares + 0.5 * sub.eta * move * move
    slack = 8.0 * r * max(abs(after), abs(before)) + floor * move
    hidden = tau * (8.0 * r * arrays.norm(u)) ** 2
    sums = 8.0 * sub.value_slack(smooth.coupling.half_square)  # it is a difference of sums of this size
    return (
        math.isfinite(slope)  # room without end would confirm everything
        and tau * gap <= 64.0 * floor
        and abs(claim.error_norm) <= 64.0 * floor
        and abs(claim.error_along_move) <= 64.0 * floor * move
        and abs(claim.change - change) <= 1e-3 * abs(change) + 64.0 * slack + hidden + sums
    )


def _is_plain(codes: arrays.Array) -> bool:
    """Whether the kernels can read such codes."""
    return bool(codes.has_canonical_format and is_for_kernels(codes))


def _recomputed(
    smooth: CodesOfBatch, u: arrays.Array, previous: arrays.Array, longest: float, eta: float, tau: float, weight: float
) -> tuple[float, float, float]:
    """``||u - prox(u)||``, ``||Y - u D'||^2 - ||Y - previous D'||^2`` and at most ``||grad H(previous)||``.

    The last is the room for rounding. It is taken from some of the samples: less than there is, and so no false claim
    gains by it.
    """
    from tecu.dictionary.kernels_audit import own_prox_gap

    Y, D, team = smooth.samples, smooth.atoms.rows, smooth.coupling.team
    weights, gemm = (D.dtype.type(eta), float(tau), float(weight)), address_of_gemm(D.itemsize)

    def part(piece: slice) -> tuple[float, float, float]:
        new, old = Codes.rows_of(u, piece), Codes.rows_of(previous, piece)
        (rest, squares), (old_rest, old_squares) = (misfits_of(Y[piece], codes, D) for codes in (new, old))
        gap = own_prox_gap(
            gemm, rest, squares, D, longest, new.indptr, new.indices, new.data, old.indptr, old.indices, old.data,
            *weights, np.empty(len(rest), np.int32), *room_for_correlations(len(rest), D),
        )  # fmt: skip
        return gap, float(np.sum(squares - old_squares)), _square_of_slopes(old_rest[::SAMPLE_STRIDE], smooth.atoms)

    parts = team.each(part, team.tapering(len(Y), tile_height(len(D))))
    gap, change, slope = np.sum(parts, axis=0).tolist()
    return math.sqrt(gap), change, math.sqrt(max(0.0, slope))


def _square_of_slopes(rest: Matrix, atoms: Atoms) -> float:
    """``||R D||^2 = <R'R, D D'>``; by the second, of the size of the features, if they are fewer than atoms."""
    exact = rest.astype(np.float64)  # squares of large samples leave the range of float32
    if exact.shape[1] > len(atoms.rows):
        return float(np.sum(np.square(exact @ atoms.rows.T)))
    return float(np.sum((exact.T @ exact) * atoms.spread))
