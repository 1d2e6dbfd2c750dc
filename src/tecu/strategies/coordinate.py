"""Coordinate descent, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.inexact import Candidate
from tecu.protocols import Term, entrywise_of, treats_entries_alike
from tecu.strategies.gram import Matrix, require_gram
from tecu.strategies.prox_gradient import REFRESH
from tecu.subproblem import SubProblem

ColumnProx = Callable[[Matrix, int, float], Matrix]
PANEL = 32  # columns whose mutual updates are done one by one; the others are told by one matrix product


class CoordinateDescent:
    r"""Exact moves of one column after the other, ``u_j <- prox(u_j - (u A - B)_j / A_jj, 1 / A_jj)``, in cycles.

    ``A`` is the Gram matrix of the other factor plus ``eta I`` and ``grad phi(u) = u A - B``. The entries of a column
    do not interact, so a move is exact for every term that acts on columns or entries: codes with ``L0`` or ``L1``,
    HALS with ``NonNegative``, a dictionary with ``UnitColumns``. The gradient is carried along and claimed. Blocks of
    other kinds than NumPy's are worked on as NumPy arrays.

    Examples
    --------
    >>> import numpy as np, tecu
    >>> from tecu import couplings, strategies, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(2)), {"W": terms.L1(0.5), "D": terms.Zero()})
    >>> sub = tecu.SubProblem.of(problem, "W", {"W": np.zeros((2, 2)), "D": np.eye(2)}, eta=1.0)
    >>> next(strategies.CoordinateDescent()(sub, sub.previous)).u.tolist()
    [[0.25, 0.0], [0.0, 0.25]]
    """

    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Candidate]:
        """Yield the block after each cycle over its columns, with its gradient."""
        prox = _column_prox(sub)
        gram = require_gram(sub, "CoordinateDescent")
        gradient = sub.grad(u)
        for k in count(1):
            u, gradient = _cycle(sub, u, gradient, gram, prox)
            if k % REFRESH == 0:
                gradient = sub.grad(u)
            yield Candidate(u, gradient)

    def __repr__(self) -> str:
        return "CoordinateDescent()"


def _cycle(sub: SubProblem, u: Array, gradient: Array, gram: Matrix, prox: ColumnProx) -> tuple[Array, Array]:
    """One pass over the columns, which are rows here, to lie together in memory."""
    columns = np.array(arrays.host(arrays.dense(u)).T, order="C")
    slopes = np.array(arrays.host(arrays.dense(gradient)).T, order="C")
    curvature = np.diagonal(gram)
    # A column that H does not see has slope 0: its own term may still move it, with any step.
    curvature = np.where(curvature > 0.0, curvature, max(float(np.max(curvature)), 0.0) or 1.0)
    for start in range(0, gram.shape[0], PANEL):
        panel = slice(start, start + PANEL)
        before = columns[panel].copy()
        inside = slopes[panel]
        for i in range(before.shape[0]):
            j = start + i
            c = float(curvature[j])
            move = prox(columns[j] - inside[i] / c, j, 1.0 / c) - columns[j]
            if move.any():
                columns[j] += move
                inside += gram[panel, j, None] * move
        change = columns[panel] - before
        slopes[:start] += gram[:start, panel] @ change
        slopes[start + PANEL :] += gram[start + PANEL :, panel] @ change
    like = sub.previous
    return arrays.as_kind(arrays.from_numpy(columns.T, like), like), arrays.from_numpy(slopes.T, arrays.dense(like))


def _column_prox(sub: SubProblem) -> ColumnProx:
    """The prox of one column of the block, or a sentence why the term has none."""
    from tecu.terms.separable import Separable

    term = sub.term
    entry = entrywise_of(term)
    if entry is not None and Separable(entry).has_array_bounds:
        shape = tuple(sub.previous.shape)
        lower, upper = (np.broadcast_to(arrays.host(bound), shape) for bound in (entry.lower, entry.upper))

        def bounded(column: Matrix, j: int, step: float) -> Matrix:
            answer: Matrix = Separable(replace(entry, lower=lower[:, j], upper=upper[:, j])).prox(column, step)
            return answer

        return bounded
    if entry is None and not all(_acts_on_columns(part) for part in getattr(term, "parts", (term,))):
        raise ValueError(
            f"block {sub.block!r}: CoordinateDescent needs a term that acts on entries or on columns (axis=0), "
            f"got {term!r}; use strategies.FISTA or strategies.ADMM"
        )

    def plain(column: Matrix, j: int, step: float) -> Matrix:
        answer: Matrix = term.prox(column[:, None], step)[:, 0]
        return answer

    return plain


def _acts_on_columns(term: Term) -> bool:
    axis = getattr(term, "axis", None)
    return treats_entries_alike(term) if axis is None else axis in (0, -2)
