"""``H(W, D) = 1/2 sum_k ||Y_k - W_k D'||^2`` over chunks ``k`` that live on workers.

``W`` is one block: given ``D``, ``H`` and the term are sums over the chunks, so visiting the chunks one after the other
or all at once is the same, and the numbers that the tests compare add up. For ``D`` the totals ``W'W`` and ``W'Y`` are
all that is needed, and they are here.
"""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from tecu.couplings.base import BlockCoupling, QuadraticRestricted
from tecu.dictionary.blocks import Dictionary
from tecu.dictionary.chunked import expressions
from tecu.dictionary.chunked.rowwise import Held, RowWise, Shared, compute
from tecu.dictionary.chunked.samples import Samples
from tecu.dictionary.coding import Matrix
from tecu.dictionary.totals import Atoms, Totals, rounding_scale
from tecu.dictionary.workers import Workers
from tecu.protocols import Blocks, Memory, Term


class SharedAtoms(Atoms):
    """The atoms here, and where workers find them."""

    @cached_property
    def shared(self) -> Shared:
        """The atoms for the workers."""
        return Shared(self.rows)


class ChunkedFactorization(BlockCoupling):
    """``H = 1/2 ||Y - W D'||^2``: codes ``W`` (samples x atoms) on the workers, ``D`` (features x atoms) here."""

    blocks = ("W", "D")

    def __init__(self, samples: Samples, squares: list[float], team: Workers | None = None) -> None:
        self.shape, self.dtype = samples.shape, str(samples.dtype)  # what a fingerprint of the problem looks at
        self.half_square = 0.5 * math.fsum(squares)
        self._samples, self._half_squares = samples, 0.5 * np.asarray(squares)
        self._team = team or Workers(1)
        self._lock = nullcontext()  # its blocks are visited, tested and audited in turn
        self._known: list[SharedAtoms] = []
        self._misfits: list[tuple[Any, Any, Matrix]] = []
        self._values: list[tuple[Any, Any, float]] = []

    def __repr__(self) -> str:
        return f"ChunkedFactorization({self._samples!r})"

    @property
    def team(self) -> Workers:
        """The threads of the dictionary update."""
        return self._team

    def atoms(self, D: Matrix) -> SharedAtoms:
        """The dictionary by rows, here and where workers find it."""
        for known in self._known:
            if known.source is D:
                return known
        self._known = [*self._known[-2:], SharedAtoms(D, self._team)]
        return self._known[-1]

    def totals(self, z: Blocks) -> Totals:
        """``A`` and ``B`` for the codes in ``z``."""
        codes: RowWise = z["W"]
        m, n = z["D"].shape[1], z["D"].shape[0]
        if codes.facts.get("nonzeros") == 0:
            return Totals(self.half_square, np.zeros((m, m)), np.zeros((m, n)), self._team)
        tally = codes.tally()
        return Totals(self.half_square, tally.folded, tally.B, self._team)

    def value_by_totals(self, block: str, z: Blocks) -> float:
        """``H(z)`` through the totals."""
        for codes, D, value in self._values:
            if codes is z["W"] and D is z["D"]:
                return value
        value = self.totals(z).value(self.atoms(z["D"]))
        self._values = [*self._values[-1:], (z["W"], z["D"], value)]
        return value

    def magnitude(self, value: float, u: Any) -> float:
        """The size of the numbers that were summed, by which rounding is judged."""
        return rounding_scale(value, self.half_square, u, self.shape[0])

    def value(self, z: Blocks) -> float:
        """``H(z)``, by residual, on the workers."""
        codes: RowWise = z["W"]
        if codes.facts.get("nonzeros") == 0:
            return self.half_square
        return math.fsum(self._misfits_of(codes, z["D"]))

    def _misfits_of(self, codes: RowWise, D: Matrix) -> Matrix:
        """``1/2 ||Y_k - W_k D'||^2`` by chunks; known ones that a test direction does not reach are not asked again."""
        for known, at, misfits in self._misfits:
            if known is codes and at is D:
                return misfits
        base, chunks = self._near(codes, D)
        fresh = compute(codes.run(expressions.reduce, "misfit", chunks=chunks, dictionary=self.atoms(D).shared))
        misfits = base.copy()
        misfits[chunks] = fresh
        if codes.node[0] == "leaf":
            self._misfits = [*self._misfits[-3:], (codes, D, misfits)]
        return misfits

    def _near(self, codes: RowWise, D: Matrix) -> tuple[Matrix, list[int]]:
        """Misfits of codes from which these differ in few chunks, and these chunks; else all chunks."""
        if codes.node[0] == "sum" and len(codes.node[1]) == 2:
            (factor, first), (_, second) = codes.node[1]
            known = [misfits for base, at, misfits in self._misfits if base.node is first and at is D]
            if first[0] == "leaf" and first[1].is_zero:
                known = [self._half_squares]
            if factor == 1.0 and second[0] == "leaf" and known:
                step: Held = second[1]
                return known[0], [k for k, part in enumerate(step.parts) if part is not None]
        return np.zeros(len(self._samples.rows)), list(range(len(self._samples.rows)))

    def restrict(self, block: str, z: Blocks) -> CodesOfAll | TotalsDictionary:
        """``H`` as a function of the codes, or of the dictionary."""
        self.require(block)
        return TotalsDictionary(self, block, z) if block == "D" else CodesOfAll(self, block, z)


class TotalsDictionary(Dictionary):
    """:class:`tecu.dictionary.blocks.Dictionary` over the totals of the chunks."""

    coupling: Any

    def __init__(self, coupling: Any, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)


class CodesOfAll(QuadraticRestricted):
    """``H`` as a function of all codes: gradient ``(W D' - Y) D``, row by row on the workers."""

    coupling: ChunkedFactorization

    def __init__(self, coupling: ChunkedFactorization, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.previous: RowWise = z[block]
        self.atoms = coupling.atoms(z["D"])

    def value(self, u: RowWise) -> float:
        """``H(u, others)``: the value at the old codes, plus what changes, chunk by chunk."""
        start = self.coupling.value_by_totals(self.block, self.z)
        if u is self.previous:
            return start
        gains = compute(u.run(expressions.reduce, "gain", [self.previous], dictionary=self.atoms.shared))
        return start + math.fsum(gains)

    def grad(self, u: RowWise) -> RowWise:
        """``(u D' - Y) D``, with a bound of its norm."""
        facts = {}
        if "norm" in u.facts:
            length = float(np.linalg.norm(self.atoms.rows))
            facts["bound"] = (u.facts["norm"] * length + math.sqrt(2 * self.coupling.half_square)) * length
        return u.grad(self.atoms.shared, **facts)

    def hessian(self, v: RowWise) -> RowWise:
        """``v D'D``."""
        return v.hessian(self.atoms.shared)

    def magnitude(self, value: float) -> float:
        """The size of the numbers that were summed."""
        return self.coupling.magnitude(value, self.previous)

    def lipschitz(self, memory: Memory) -> float:
        """``||D||_2^2``."""
        return self.atoms.lipschitz


class RowTerm:
    """A term that is a sum over samples, taken chunk by chunk where the codes are."""

    def __init__(self, term: Term) -> None:
        self.term = term

    def __repr__(self) -> str:
        return f"RowTerm({self.term!r})"

    @property
    def is_convex(self) -> bool:
        """Whether the term is a convex function."""
        return self.term.is_convex

    def value(self, x: RowWise) -> float:
        """The term at ``x``."""
        if "term" not in x.facts:
            x.facts["term"] = math.fsum(x.ask("term", term=self.term))
        return float(x.facts["term"])

    def prox(self, x: RowWise, step: float) -> RowWise:
        """The prox, held by the workers."""
        return x.hold(term=self.term, step=step)

    def subdiff_distance(self, x: RowWise, g: RowWise) -> float:
        """The distance of ``g`` to the subdifferential at ``x``."""
        return math.sqrt(math.fsum(x.ask("distance", g, term=self.term)))
