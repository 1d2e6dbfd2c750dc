"""The compiled search for doubles and for clusters among unit vectors. Its readable twins are in the tests."""

from __future__ import annotations

import numpy as np

from tecu.dictionary.compiled import compiled
from tecu.kernels.words import Double, Doubles, Flags, Integer, Integers, Matrix, Vector


@compiled
def free_doubles(cosines: Matrix, similar: Double, energy: Doubles, free: Flags) -> None:
    """Of each pair with ``|cosine| > similar`` that is not ``free``, pair by pair, the one of less ``energy`` is."""
    for a in range(cosines.shape[0]):
        row, alike = cosines[a], 0
        for b in range(a + 1, row.size):  # vectors are taken at once: mostly there is none
            alike += abs(row[b]) > similar
        if alike == 0:
            continue
        for b in range(a + 1, row.size):
            if abs(row[b]) > similar and not free[a] and not free[b]:
                free[a if energy[a] < energy[b] else b] = True


@compiled
def add_up_clusters(
    unit: Matrix, cosines: Matrix, similar: Double, least: Integer, refinements: Integer, free: Flags, near: Vector,
    members: Integers, signs: Vector, sums: Matrix,
) -> Integer:  # fmt: skip
    """The signed sum of each cluster among the rows of ``unit``; returns how many rows of ``sums``, zeros, were used.

    From each vector that is still ``free`` (as are all, at first) a cluster begins: the free ones whose ``|cosine|``
    with it is above ``similar``, then those that are so near to the mean ``sum_i s_i r_i`` of these, ``s_i`` the
    signs of their cosines, and so on. One of ``least`` members or more is taken out. The mean is not formed on the
    way: its inner products are sums of ``cosines``, and so is its length. ``near``, ``members`` and ``signs`` are
    scratch, an entry for each vector.
    """
    count, features = unit.shape
    found = 0
    for seed in range(count):
        if not free[seed]:
            continue
        row, alike = cosines[seed], 0
        limit = similar * np.sqrt(np.float64(row[seed]))
        for i in range(count):  # vectors are taken at once: most seeds have none but themselves
            alike += free[i] & (abs(row[i]) > limit)
        if alike < least:
            continue
        members[0], signs[0], size = seed, 1, 1  # the seed alone is its own mean
        for _ in range(refinements):
            for i in range(count):
                near[i] = 0
            for k in range(size):
                row, sign = cosines[members[k]], signs[k]
                for i in range(count):
                    near[i] += sign * row[i]
            square = 0.0
            for k in range(size):
                square += signs[k] * near[members[k]]
            limit = similar * np.sqrt(square)
            size = 0
            for i in range(count):
                members[size] = i
                size += free[i] & (abs(near[i]) > limit)
            for k in range(size):
                signs[k] = 1 if near[members[k]] > 0 else -1
            if size < least:
                break
        if size < least:
            continue
        for k in range(size):
            row, sign = unit[members[k]], signs[k]
            free[members[k]] = False
            for f in range(features):
                sums[found, f] += sign * row[f]
        found += 1
    return found
