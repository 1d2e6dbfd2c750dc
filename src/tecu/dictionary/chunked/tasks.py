"""What a worker does with one chunk. Pure functions: of the chunk, the dictionary, the old codes and a small job.

So a task that is lost with its worker is done again elsewhere, with the same answer. A chunk is gone through in pieces
of about as many samples as there are atoms: a dense gradient of a piece is all that is ever formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from tecu import arrays
from tecu.dictionary.blocks import CodesOfBatch
from tecu.dictionary.chunked.samples import load
from tecu.dictionary.coding import Matrix
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.workers import Workers
from tecu.inexact import Candidate, estimate, judge
from tecu.protocols import Term
from tecu.subproblem import SubProblem
from tecu.tolerance import MovingTolerance

PIECE = 0.9  # samples of a piece, as a multiple of the atoms; the batches of the run in memory have the same size
SMALLEST_PIECE = 500
LOCAL_STEPS = 10  # proposals of a strategy for a piece before the whole is judged

ERROR, ALONG, CHANGE, MOVE, SIZE, TERM, NONZEROS, APART = range(8)
"""What :class:`Tally` counts: ``||e||^2``, ``<e, move>``, ``F(u~) - F(previous)``, ``||move||^2``, ``||u~||^2``,
``term(u~)``, non-zeros, samples with ``u != u~``."""


def pieces(samples: int, atoms: int) -> list[slice]:
    """The pieces of a chunk.

    >>> pieces(1000, 600)
    [slice(0, 500, None), slice(500, 1000, None)]
    """
    count = max(1, round(samples / max(PIECE * atoms, SMALLEST_PIECE)))
    edges = [samples * i // count for i in range(count + 1)]
    return [slice(first, last) for first, last in pairwise(edges)]


def publish(atoms: Matrix) -> Matrix:
    """The dictionary as a task of its own: fetched once a worker, and made anew if lost."""
    return atoms


def pick(result: Any, place: int) -> Any:
    """One part of a task's result."""
    return result[place]


def empty(samples: int, atoms: int, dtype: Any) -> Any:
    """Codes that are zero."""
    from scipy.sparse import csr_array

    return csr_array((samples, atoms), dtype=dtype)


@dataclass(frozen=True)
class Kept:
    """What a worker keeps of a coded chunk."""

    codes: Any  # u~
    apart: Any  # u - u~, what they came from; None where nothing is
    moves: Matrix  # of the pieces

    def __getitem__(self, piece: slice) -> Kept:
        return Kept(self.codes[piece], None if self.apart is None else self.apart[piece], self.moves)


def codes_in(part: Any) -> Any:
    """The codes of a chunk, however they are kept."""
    return part.codes if isinstance(part, Kept) else part


def own(codes: Any) -> Any:
    """Codes in memory that may be written to, as kernels are compiled for; what came by the network is not."""
    from scipy.sparse import csr_array

    if codes.data.flags.writeable and codes.indices.flags.writeable and codes.indptr.flags.writeable:
        return codes
    return csr_array(tuple(np.array(part) for part in (codes.data, codes.indices, codes.indptr)), shape=codes.shape)


def usage(part: Any) -> Matrix:
    """How many samples of a chunk use each atom."""
    codes = codes_in(part)
    return np.bincount(codes.indices, minlength=codes.shape[1])


def stacked(parts: list[Any], atoms: int, dtype: Any) -> Any:
    """Pieces of codes one below the other."""
    from scipy.sparse import csr_array, vstack

    if not parts:
        return empty(0, atoms, dtype)
    return parts[0] if len(parts) == 1 else csr_array(vstack(parts, format="csr"))


# -- the first look ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Look:
    """What is learnt of a chunk at the start."""

    square: float  # ||Y_k||^2
    bad: int  # samples with NaN or Inf
    sample: Matrix  # a few samples


def look(source: Any, dtype: Any, count: int, seed: tuple[int, ...]) -> Look:
    """Measure a chunk and draw ``count`` samples of it."""
    Y = load(source, dtype)
    chosen = np.sort(np.random.default_rng(seed).permutation(len(Y))[:count])
    bad = 0 if arrays.all_finite(Y) else int(np.count_nonzero(~np.isfinite(Y).all(axis=1)))
    return Look(arrays.inner(Y, Y) if not bad else math.nan, bad, Y[chosen])


# -- totals --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tally:
    """``A = W'W`` (folded), ``B = W'Y`` and a few numbers of some chunks; tallies add up."""

    folded: Matrix
    B: Matrix
    numbers: Matrix


def tally(codes: Any, Y: Matrix, numbers: Matrix) -> Tally:
    """The tally of one chunk."""
    from tecu.dictionary.kernels_atoms import add_totals

    m = codes.shape[1]
    folded, B = np.zeros((m, m)), np.zeros((m, Y.shape[1]))
    add_totals([(codes, Y, 1.0)], folded, B)
    return Tally(folded, B, numbers)


def total(dtype: Any, source: Any, part: Any) -> Tally:
    """The tally of codes that came without one."""
    return tally(own(codes_in(part)), load(source, dtype), np.zeros(APART + 1))


def add(first: Tally, *others: Tally) -> Tally:
    """The sum; always in this order, so that it does not depend on the workers."""
    folded, B, numbers = first.folded.copy(), first.B.copy(), first.numbers.copy()
    for other in others:
        folded += other.folded
        B += other.B
        numbers += other.numbers
    return Tally(folded, B, numbers)


# -- coding --------------------------------------------------------------------------------------------------------


class Coding:
    """How chunks are coded at one visit: the strategy, the sub-problem's constants, what the tests compare to."""

    def __init__(self, strategy: Any, term: Term, *, eta: float, c: float, visits: int, move: float | None) -> None:
        self.strategy, self.term, self.eta, self.c = strategy, term, eta, c
        self.visits = visits
        self.move = move  # of the block's previous visit, a sample's share of it


class CodesOfPiece(CodesOfBatch):
    """:class:`CodesOfBatch` for a piece that knows nothing of the others: its values are those of the piece."""

    def value(self, u: Any) -> float:
        """``1/2 ||Y_k - u D'||^2``."""
        misfit = u @ self.atoms.rows - self.samples
        return 0.5 * arrays.inner(misfit, misfit)


def code(coding: Coding, source: Any, atoms: Matrix, before: Any) -> tuple[Kept, Tally]:
    """New codes of a chunk, and its tally.

    The tests of :mod:`tecu.inexact` are made piece by piece, each against its own last move, or its share of the
    whole's where that is not known. Where every piece passes so does the whole: the squares of ``||e||`` and of the
    moves add up, and so do the two sides of the descent test.
    """
    Y, atoms = load(source, atoms.dtype), np.require(atoms, requirements=["C", "W"])
    m = len(atoms)
    batches = pieces(len(Y), m)
    coupling = BatchedFactorization(Y, batches, Workers(1))
    D, old = atoms.T, own(codes_in(before))
    points, apart = [], []
    numbers = np.zeros(APART + 1)
    moved = np.zeros(len(batches))
    for k, (name, piece) in enumerate(zip(coupling.names, batches, strict=True)):
        move = None if coding.move is None else coding.move * math.sqrt(piece.stop - piece.start)
        if isinstance(before, Kept) and move is not None:
            move = float(before.moves[k])
        point, difference, counted = _code_piece(coding, coupling, name, old[piece], D, move)
        moved[k] = math.sqrt(counted[MOVE])
        points.append(point)
        apart.append(difference)
        numbers += counted
    codes = stacked(points, m, atoms.dtype)
    difference = stacked(apart, m, atoms.dtype) if numbers[APART] else None
    return Kept(codes, difference, moved), tally(codes, Y, numbers)


def _code_piece(
    coding: Coding, coupling: BatchedFactorization, name: str, old: Any, D: Matrix, move: float | None
) -> tuple[Any, Any, Matrix]:
    z = {name: old, "D": D}
    smooth = CodesOfPiece(coupling, name, z)
    sub = SubProblem(
        name, coding.term, smooth, old, coding.eta, {}, z, visits=coding.visits, previous_move=move
    )  # fmt: skip
    rule = MovingTolerance(coding.c)
    for step, proposal in enumerate(coding.strategy(sub, old), 1):
        candidate = proposal if isinstance(proposal, Candidate) else Candidate(proposal)
        found = estimate(sub, candidate)
        if judge(sub, found, rule).accepted or step >= LOCAL_STEPS:
            break
    change, _ = found.rise
    difference = (
        found.source - found.point if found.source is not found.point else empty(old.shape[0], old.shape[1], old.dtype)
    )
    difference.eliminate_zeros()
    counted = np.zeros(APART + 1)
    counted[[ERROR, ALONG, CHANGE, MOVE]] = found.error_norm**2, found.error_along_move, change, found.move**2
    counted[[SIZE, TERM]] = arrays.norm(found.point) ** 2, found.term
    counted[[NONZEROS, APART]] = found.point.nnz, np.count_nonzero(np.diff(difference.indptr))
    return found.point, difference, counted


def encode(coder: Any, source: Any, atoms: Matrix) -> Any:
    """Codes of a chunk from scratch, as ``transform`` makes them."""
    from tecu.dictionary.encoding import encoded
    from tecu.dictionary.rows import Rows as AllRows

    atoms, Y = np.require(atoms, requirements=["C", "W"]), load(source, atoms.dtype)
    if not np.isfinite(Y).all():
        raise ValueError(f"Input X contains NaN or infinity, or numbers that {atoms.dtype} cannot hold")
    rows = AllRows(Y)
    rows.require_squares(small=False)  # other chunks may have larger numbers
    return encoded(rows, atoms, coder, Workers(1))


def largest(source: Any, dtype: Any) -> float:
    """The largest number of a chunk, in size; 0 where none is finite."""
    Y = load(source, dtype)
    return float(np.max(np.abs(Y), initial=0.0, where=np.isfinite(Y)))
