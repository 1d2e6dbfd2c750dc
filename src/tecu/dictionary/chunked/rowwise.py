"""Arrays with a row a sample that live on the workers, by chunks: the codes, and expressions in them.

The solver sees a block of which it knows the shape, the precision and what it asks for: norms and inner products. Codes
are held by the workers. All else (gradients, differences, sums) is an expression, computed row by row when a number of
it is wanted, and never formed as a whole. Only these numbers travel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np

from tecu.cluster import gathered
from tecu.dictionary.chunked import expressions, tasks
from tecu.dictionary.chunked.expressions import Job
from tecu.dictionary.chunked.samples import Samples, current_client, large_graphs
from tecu.dictionary.chunked.tasks import Tally
from tecu.dictionary.coding import Matrix

FAN_IN = 8  # tallies that one task adds up
TESTED_CHUNKS = 1  # chunks that the gradient test moves


def persist(collections: Sequence[Any]) -> list[Any]:
    """The results of tasks, kept where they are made; by threads at once, on a cluster in the background."""
    import dask

    with large_graphs():
        return list(dask.persist(*collections, optimize_graph=False))


def compute(collections: Sequence[Any]) -> list[Any]:
    """The results of tasks, here."""
    import dask

    client = current_client()
    with large_graphs():
        if client is None:
            return list(dask.compute(*collections, optimize_graph=False))
        return gathered(client, client.compute(list(collections), optimize_graph=False))


def task(function: Callable[..., Any]) -> Any:
    """``function`` as a task of its own."""
    from dask import delayed

    return delayed(function, pure=False, traverse=False)


class Held:
    """Codes that the workers hold: one part a chunk; ``None`` where there is nothing."""

    def __init__(self, parts: Sequence[Any], is_zero: bool = False) -> None:
        self.parts, self.is_zero = list(parts), is_zero

    def part(self, chunk: int) -> Any:
        """The codes of a chunk."""
        return self.parts[chunk]


class Shared:
    """A dictionary that every worker can fetch."""

    def __init__(self, atoms: Matrix) -> None:
        (self._part,) = persist([task(tasks.publish)(atoms)])

    def part(self, chunk: int) -> Any:
        """The atoms, the same for every chunk."""
        return self._part


class RowWise:
    """``samples x atoms``, by chunks, elsewhere (see :func:`tecu.arrays.is_elsewhere`)."""

    is_elsewhere: ClassVar[bool] = True

    def __init__(self, samples: Samples, atoms: int, node: tuple[Any, ...], **facts: Any) -> None:
        self.samples, self.node = samples, node
        self.shape, self.dtype = (len(samples), atoms), samples.dtype
        self.facts = facts  # what is known of it without asking

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}, {len(self.samples.rows)} chunks)"

    # -- expressions ---------------------------------------------------------------------------------------------

    def of(self, node: tuple[Any, ...], **facts: Any) -> RowWise:
        """Another expression of the same shape."""
        return RowWise(self.samples, self.shape[1], node, **facts)

    def _parts(self) -> tuple[tuple[float, Any], ...]:
        return tuple(self.node[1]) if self.node[0] == "sum" else ((1.0, self.node),)

    def __add__(self, other: RowWise) -> RowWise:
        return self.of(("sum", (*self._parts(), *other._parts())))

    def __sub__(self, other: RowWise) -> RowWise:
        facts = {"norm": self.facts["move"]} if self.facts.get("parent", _nobody)() is other else {}
        return self.of(("sum", (*self._parts(), *(-other)._parts())), **facts)

    def __mul__(self, factor: float) -> RowWise:
        known = {"norm": abs(factor) * self.facts["norm"]} if "norm" in self.facts else {}
        return self.of(("sum", tuple((factor * own, node) for own, node in self._parts())), **known)

    __rmul__ = __mul__

    def __truediv__(self, number: float) -> RowWise:
        return self * (1.0 / number)

    def __neg__(self) -> RowWise:
        return self * -1.0

    def grad(self, dictionary: Shared, **facts: Any) -> RowWise:
        """``(u D' - Y) D`` here."""
        return self.of(("grad", self.node, dictionary), **facts)

    def hessian(self, dictionary: Shared) -> RowWise:
        """``v D'D`` here."""
        return self.of(("hessian", self.node, dictionary))

    # -- what the solver asks for --------------------------------------------------------------------------------

    def norm(self) -> float:
        """The Frobenius norm."""
        if "norm" not in self.facts:
            self.facts["norm"] = math.sqrt(max(0.0, math.fsum(self.ask("inner"))))
        return float(self.facts["norm"])

    def inner(self, other: RowWise) -> float:
        """``<self, other>``."""
        return self.norm() ** 2 if other is self else math.fsum(self.ask("inner", other))

    def all_finite(self) -> bool:
        """Whether no entry is NaN or infinite; a finite bound of the norm says so without a look."""
        bound = self.facts.get("norm", self.facts.get("bound", math.inf))
        return bool(bound < np.finfo(self.dtype).max / 2) or not any(self.ask("finite"))

    def direction(self, gradient: RowWise, rng: np.random.Generator) -> RowWise:
        """A direction to test the gradient along, not zero in a few chunks only."""
        chunks = len(self.samples.rows)
        seed = int(rng.integers(2**31))
        chosen = sorted(rng.permutation(chunks)[:TESTED_CHUNKS].tolist())
        made = self.run(expressions.direction, "direction", [gradient], chosen, seed=seed)
        parts: list[Any] = [None] * chunks
        for chunk, part in zip(chosen, persist(made), strict=True):
            parts[chunk] = part
        return self.of(("leaf", Held(parts)))

    # -- asking the workers --------------------------------------------------------------------------------------

    def run(
        self,
        function: Callable[..., Any],
        what: str,
        others: Sequence[RowWise] = (),
        chunks: Sequence[int] | None = None,
        dictionary: Shared | None = None,
        **more: Any,
    ) -> list[Any]:
        """One task a chunk on this and other expressions, where none is zero; ``dictionary`` becomes the last leaf."""
        leaves: list[Any] = []
        nodes = tuple(_bound(x.node, leaves) for x in (self, *others))
        if dictionary is not None:
            leaves.append(dictionary)
        job = Job(what, nodes, self.dtype, atoms=self.shape[1], **more)
        reached = [x.reached() for x in (self, *others)]
        # What needs no samples does not make a worker read them.
        sources = self.samples.sources if dictionary or any(map(expressions.has_gradient, nodes)) else self.samples.rows
        return [
            task(function)(job, sources[k], *(leaf.part(k) for leaf in leaves))
            for k in (range(len(self.samples.rows)) if chunks is None else chunks)
            if all(where[k] for where in reached)
        ]

    def reached(self) -> list[bool]:
        """By chunks, whether it is not zero by construction, as directions are in most chunks."""
        leaves: list[Any] = []
        _bound(self.node, leaves)
        return [any(leaf.part(k) is not None for leaf in leaves) for k in range(len(self.samples.rows))]

    def ask(self, what: str, *others: RowWise, **more: Any) -> list[float]:
        """A number of each chunk."""
        return compute(self.run(expressions.reduce, what, others, **more))

    def hold(self, **more: Any) -> RowWise:
        """The expression, or its prox (``term``, ``step``), as codes that the workers keep."""
        if self.node[0] == "leaf" and not more:
            return self
        return self.of(("leaf", Held(persist(self.run(expressions.codes_of, "codes", **more)))))

    @property
    def held(self) -> Held:
        """The codes behind it."""
        assert self.node[0] == "leaf", "an expression is held nowhere"
        held: Held = self.node[1]
        return held

    def tally(self) -> Tally:
        """``A``, ``B`` and numbers of the codes, here."""
        if "tally" not in self.facts:
            made = [
                task(tasks.total)(self.dtype, source, self.held.part(k))
                for k, source in enumerate(self.samples.sources)
            ]
            (self.facts["tally"],) = compute([summed(made)])
        found: Tally = self.facts["tally"]
        return found


class Codes(RowWise):
    """Codes by chunks that stay on the workers.

    ``nnz`` and ``shape`` are known; iterating brings the codes here one chunk (CSR) at a time; :meth:`to_zarr` writes
    them from where they are.
    """

    @property
    def nnz(self) -> int:
        """The number of non-zeros."""
        if "nonzeros" not in self.facts:
            from tecu import terms

            self.facts["nonzeros"] = int(math.fsum(self.ask("term", term=terms.L0(1.0))))
        return int(self.facts["nonzeros"])

    def __iter__(self) -> Iterator[Any]:
        for part in self.held.parts:
            yield tasks.codes_in(compute([part])[0])

    def usage(self) -> Matrix:
        """How many samples use each atom."""
        counts = compute([task(tasks.usage)(part) for part in self.held.parts])
        return np.asarray(sum(counts))

    def to_zarr(self, store: Any) -> None:
        """Write the codes to a zarr store, chunk by chunk, each by the worker that has it."""
        from tecu.dictionary.chunked.store import write_codes

        write_codes(store, self)


def _nobody() -> None:
    """The parent of an array without one."""


def zeros(samples: Samples, atoms: int) -> RowWise:
    """Codes that are zero."""
    parts = persist([task(tasks.empty)(rows, atoms, samples.dtype) for rows in samples.rows])
    return RowWise(samples, atoms, ("leaf", Held(parts, is_zero=True)), norm=0.0, nonzeros=0)


def summed(tallies: Sequence[Any]) -> Any:
    """The sum of tallies as a tree of tasks, the same one whoever does them."""
    while len(tallies) > 1:
        tallies = [task(tasks.add)(*tallies[k : k + FAN_IN]) for k in range(0, len(tallies), FAN_IN)]
    return tallies[0]


def _bound(node: Any, leaves: list[Any]) -> Any:
    """The expression with its leaves replaced by their places in a list."""

    def place(leaf: Any) -> int:
        for k, known in enumerate(leaves):
            if known is leaf:
                return k
        leaves.append(leaf)
        return len(leaves) - 1

    kind = node[0]
    if kind in ("leaf", "apart"):
        return (kind, place(node[1]))
    if kind == "sum":
        return ("sum", tuple((factor, _bound(part, leaves)) for factor, part in node[1]))
    return (kind, _bound(node[1], leaves), place(node[2]))
