"""Expressions in codes, evaluated by a worker for its chunk, row by row and piece by piece.

Pure functions, like those of :mod:`tecu.dictionary.chunked.tasks`. A dense gradient of a piece is all that is formed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from tecu import arrays
from tecu.dictionary.chunked.samples import load
from tecu.dictionary.chunked.tasks import codes_in, empty, pieces, stacked
from tecu.dictionary.coding import Matrix


class Job:
    """A question about expressions: opaque to Dask, which would look for tasks inside tuples and dataclasses."""

    def __init__(self, what: str, nodes: tuple[Any, ...], dtype: Any, **more: Any) -> None:
        self.what, self.nodes, self.dtype, self.more = what, nodes, np.dtype(dtype), more


def has_gradient(node: Any) -> bool:
    """Whether an expression needs the samples."""
    if node[0] == "sum":
        return any(has_gradient(part) for _, part in node[1])
    return node[0] == "grad" or (node[0] == "hessian" and has_gradient(node[1]))


class Rows:
    """Evaluates expressions for some samples ``Y`` of a chunk; ``leaves`` are codes of these samples, or dictionaries.

    ``("leaf", i)``, ``("apart", i)``, ``("sum", ((factor, node), ...))``, ``("grad", node, i)`` = ``(u D' - Y) D`` and
    ``("hessian", node, i)`` = ``v D'D``, with ``D'`` the leaf ``i``.
    """

    def __init__(self, Y: Any, leaves: list[Any], dtype: np.dtype[Any], grams: dict[int, Matrix]) -> None:
        self.Y, self.leaves, self.dtype = Y, leaves, dtype
        self.grams = grams  # of the dictionaries, made once for all pieces of a chunk
        self._known: dict[int, Any] = {}

    def __call__(self, node: Any) -> Any:
        """The value of a node."""
        if id(node) not in self._known:
            self._known[id(node)] = getattr(self, f"_{node[0]}")(*node[1:])
        return self._known[id(node)]

    def _leaf(self, place: int) -> Any:
        return codes_in(self.leaves[place])

    def _apart(self, place: int) -> Any:
        return self.leaves[place].apart

    def _sum(self, parts: Any) -> Any:
        total = None
        for factor, node in parts:
            value = self(node)
            if value is None:  # nothing is apart here, or a direction does not reach this chunk
                continue
            scaled = value if factor == 1.0 else value * self.dtype.type(factor)
            total = scaled if total is None else total + scaled
        return total

    def _grad(self, node: Any, place: int) -> Any:
        atoms = self.leaves[place]
        return np.asarray((self(node) @ atoms - self.Y) @ atoms.T)

    def _hessian(self, node: Any, place: int) -> Any:
        v, atoms = self(node), self.leaves[place]
        if not arrays.is_sparse(v):
            return np.asarray((v @ atoms) @ atoms.T)
        if place not in self.grams:
            self.grams[place] = atoms @ atoms.T
        return np.asarray(v @ self.grams[place]) if v.nnz else v  # the difference of two equal codes is empty

    def inner(self, first: Any, second: Any = None) -> float:
        """``<first, second>``, or ``||first||^2``; ``<(u D' - Y) D, v>`` with codes ``v`` is ``<u D' - Y, v D'>``."""
        if second is None:
            return arrays.inner(self(first), self(first))
        for x, y in ((first, second), (second, first)):
            if not has_gradient(y) and arrays.is_sparse(self(y)):
                return self._along(x, self(y))
        return arrays.inner(self(first), self(second))

    def _along(self, node: Any, v: Any) -> float:
        if node[0] == "sum":
            return math.fsum(factor * self._along(part, v) for factor, part in node[1])
        if node[0] == "grad":
            atoms = self.leaves[node[2]]
            return arrays.inner(self(node[1]) @ atoms - self.Y, v @ atoms)
        value = self(node)
        return 0.0 if value is None else arrays.inner(value, v)

    def misfit(self, node: Any, atoms: Matrix) -> float:
        """``1/2 ||u D' - Y||^2``, in the precision of the atoms if that is the finer one."""
        misfit = self(node) @ atoms - self.Y
        return 0.5 * arrays.inner(misfit, misfit)


def _by_pieces(job: Job, source: Any, leaves: tuple[Any, ...]) -> Iterator[tuple[slice, Rows]]:
    """The pieces of a chunk with their leaves. A source that is a number of samples says that none are needed."""
    Y = None if isinstance(source, int) else load(source, job.dtype)
    grams: dict[int, Matrix] = {}
    for piece in pieces(source if Y is None else len(Y), job.more["atoms"]):
        parts = [leaf if leaf is None or isinstance(leaf, np.ndarray) else leaf[piece] for leaf in leaves]
        yield piece, Rows(None if Y is None else Y[piece], parts, job.dtype, grams)


def reduce(job: Job, source: Any, *leaves: Any) -> float:
    """One number of a chunk."""
    total = []
    for _, rows in _by_pieces(job, source, leaves):
        first, *others = job.nodes
        if job.what == "inner":
            total.append(rows.inner(first, *others))
        elif job.what == "finite":
            total.append(0.0 if arrays.all_finite(rows(first)) else 1.0)
        elif job.what == "term":
            total.append(float(job.more["term"].value(rows(first))))
        elif job.what == "distance":
            total.append(float(job.more["term"].subdiff_distance(rows(first), rows(others[0]))) ** 2)
        elif job.what == "misfit":
            total.append(rows.misfit(first, rows.leaves[-1].astype(np.float64)))
        elif job.what == "gain":
            total.append(rows.misfit(first, rows.leaves[-1]) - rows.misfit(others[0], rows.leaves[-1]))
        else:
            raise ValueError(f"unknown question {job.what!r}")
    return math.fsum(total)


def codes_of(job: Job, source: Any, *leaves: Any) -> Any:
    """An expression, or its prox, as codes of a chunk."""
    step = job.more.get("step")
    parts = []
    for _, rows in _by_pieces(job, source, leaves):
        value = rows(job.nodes[0])
        if step is not None:
            value = job.more["term"].prox(value, step)
        parts.append(arrays.as_kind(value, empty(1, 1, job.dtype)))
    return stacked(parts, job.more["atoms"], job.dtype)


def direction(job: Job, source: Any, *leaves: Any) -> Any:
    """A direction for the gradient test: random on the codes' entries and a few more, and up the gradient there."""
    from scipy.sparse import csr_array

    rng = np.random.default_rng(job.more["seed"])
    parts = []
    for piece, rows in _by_pieces(job, source, leaves):
        count, m = piece.stop - piece.start, job.more["atoms"]
        codes, gradient = (arrays.as_kind(rows(node), np.empty(0, job.dtype)) for node in job.nodes)
        chosen = np.concatenate([np.flatnonzero(codes), rng.integers(count * m, size=100)])
        chosen = np.unique(chosen)
        along = gradient.ravel()[chosen].astype(np.float64)
        noise = rng.standard_normal(len(chosen))
        values = noise / np.linalg.norm(noise) + along / (np.linalg.norm(along) or 1.0)
        place = np.divmod(chosen, m)
        parts.append(csr_array((values.astype(job.dtype), place), shape=(count, m)))
    return stacked(parts, job.more["atoms"], job.dtype)
