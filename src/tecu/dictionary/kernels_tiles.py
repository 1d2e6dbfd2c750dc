"""Codes that threads have written tile by tile, each into memory of its own, brought into one piece."""

from __future__ import annotations

from tecu.dictionary.compiled import compiled
from tecu.kernels.words import Indices, Integer, IntegerMatrix, Integers, Vector


@compiled
def number_entries(edges: Integers, places: IntegerMatrix, ends: Indices, indptr: Indices) -> None:
    """``indptr``, as CSR has it, of samples whose codes end at ``ends``.

    Tile ``i`` is the samples from ``edges[i]`` to ``edges[i + 1]``; its first one begins at ``places[i, 1]``.
    """
    total = indptr.dtype.type(0)
    indptr[0] = total
    for i in range(edges.size - 1):
        begin = places[i, 1]
        for p in range(edges[i], edges[i + 1]):
            total += ends[p] - begin
            begin = ends[p]
            indptr[p + 1] = total


@compiled
def collect_entries(
    edges: Integers, places: IntegerMatrix, indptr: Indices, own: Integer, own_indices: Indices, own_data: Vector,
    indices: Indices, data: Vector,
) -> None:  # fmt: skip
    """Copy the tiles of one thread, those with ``places[i, 0] == own``, to where ``indptr`` says."""
    for i in range(edges.size - 1):
        if places[i, 0] == own:
            first = indptr[edges[i]]
            begin = places[i, 1]
            for s in range(indptr[edges[i + 1]] - first):
                indices[first + s] = own_indices[begin + s]
                data[first + s] = own_data[begin + s]
