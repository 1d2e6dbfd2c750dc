"""What the convergence theorem needs and nobody can compute, with what a run has shown of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tecu.state import Visit

LOST = 1e-12  # of a block's norm: a move that rounding has a say in
USUAL = 0.9  # of the constants of the first half: a single step may need a large one anywhere
GROWN = 100.0  # times that constants may grow in the second half of a run without a word


def assumptions(visits: Sequence[Visit]) -> list[str]:
    """One sentence each."""
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
    grown = norms / start if start > 0.0 else math.inf
    allowed = GROWN * grown * grown * grown * grown  # a product becomes infinite where a power is an error
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
