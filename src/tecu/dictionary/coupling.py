"""``H = 1/2 sum_b ||Y_b - W_b D'||^2``: samples in batches, each batch's codes a block of their own.

What makes it fast: a batch's gradient needs only that batch; the dictionary needs only the totals
``A = sum W_b'W_b`` and ``B = sum W_b'Y_b``, kept exact by taking a batch's old share out and its new share in. No
residual of the size of the data is ever formed but in :meth:`BatchedFactorization.value`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any, TypeVar

import numpy as np

from tecu.arrays import inner
from tecu.couplings.base import BlockCoupling
from tecu.dictionary.blocks import CodesOfBatch, Dictionary
from tecu.dictionary.coding import Matrix
from tecu.dictionary.rows import Rows
from tecu.dictionary.totals import Atoms, FollowingTotals, Totals, half_misfit, rounding_scale
from tecu.dictionary.workers import Workers
from tecu.protocols import Blocks

P = TypeVar("P")
T = TypeVar("T")


class BatchedFactorization(BlockCoupling):
    r"""``H(W_0, W_1, ..., D) = 1/2 sum_b ||Y_b - W_b D'||^2``.

    Blocks ``"W0"``, ``"W1"``, ... hold the codes of a batch of samples (CSR, samples x atoms), ``"D"`` the dictionary
    (features x atoms). ``Y`` is samples x features: dense, CSR or a memory map. Blocks are replaced, never changed in
    place: what is known of a block is known by its identity.

    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> H = BatchedFactorization(np.eye(4), batches=[slice(0, 2), slice(2, 4)])
    >>> z = {"W0": csr_array(np.ones((2, 1))), "W1": csr_array((2, 1)), "D": np.eye(4)[:, :1]}
    >>> H.value(z)
    2.0
    """

    def __init__(self, Y: Any, batches: Sequence[slice], team: Workers | None = None) -> None:
        self._rows = Y if isinstance(Y, Rows) else Rows(Y)
        self.data, self.dtype = self._rows.X, str(self._rows.dtype)  # what a fingerprint of the problem looks at
        self.batches = list(batches)
        self.names = [f"W{i}" for i in range(len(batches))]
        self.blocks = (*self.names, "D")
        self._team = team or Workers(1)
        # By one thread: several would spend longer on the interpreter's lock, for which such sums ask all the time.
        self._half_squares = {name: self._half_square(name) for name in self.names}
        self.half_square = sum(self._half_squares.values())  # inf is an answer, which the caller looks for
        self._totals: FollowingTotals | None = None
        self._sweep_begins = False
        self._lock = RLock()  # blocks are tested and audited side by side
        self._atoms: Atoms | None = None
        self._visited: dict[str, tuple[dict[str, Any], float]] = {}
        self._misfits: dict[str, tuple[Any, Matrix, float]] = {}
        self._atom_rows: tuple[Matrix, Matrix] | None = None  # the dictionary of the last value, and its atoms by rows

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=RLock())

    def __repr__(self) -> str:
        return f"BatchedFactorization({self.rows!r}, {len(self.batches)} batches)"

    @property
    def rows(self) -> Rows:
        """``Y`` by slices."""
        return self._rows

    @property
    def team(self) -> Workers:
        """The threads that share a batch; no part of the problem."""
        return self._team

    def batch(self, name: str) -> Matrix:
        """The samples of a block of codes, dense."""
        return self.rows[self.batches[self.names.index(name)]]

    def _half_square(self, name: str) -> float:
        """``1/2 ||Y_b||^2``."""
        Y = self.batch(name)
        return 0.5 * inner(Y, Y)

    def atoms(self, D: Matrix) -> Atoms:
        """The dictionary by rows, with its Gram matrix; computed once for a dictionary."""
        atoms = self._atoms
        if atoms is None or atoms.source is not D:
            atoms = self._atoms = Atoms(D, self.team)
        return atoms

    def totals(self, z: Blocks) -> Totals:
        """``A`` and ``B`` for the codes in ``z``."""
        with self._lock:
            held = self._totals
            if held is None or not held.fits(z["D"]):
                held = self._totals = FollowingTotals(self, z)
            elif held.is_spoiled or (self._sweep_begins and not held.is_sum_of(z)):
                held.begin_anew()
            self._sweep_begins = False
            held.follow(z)
            return held

    def value_by_totals(self, block: str, z: Blocks) -> float:
        """``H(z)`` through the totals; at the place of any block's latest visit it is known from then."""
        with self._lock:
            for visited, value in self._visited.values():
                if all(visited[name] is z[name] for name in self.blocks):
                    return value
            value = self.totals(z).value(self.atoms(z["D"]))
            self._visited[block] = (dict(z), value)
            return value

    def magnitude(self, value: float, u: Any) -> float:
        """The size of the numbers that were summed, by which rounding is judged."""
        return rounding_scale(value, self.half_square, u, len(self.rows))

    def value(self, z: Blocks) -> float:
        """``H(z)``, by residual; a batch whose codes and dictionary are those of the last call is known."""
        D, held = z["D"], self._atom_rows
        if held is None or held[0] is not D:
            held = self._atom_rows = (D, np.ascontiguousarray(D.T))
        rows, known = held[1], dict(self._misfits)
        known |= {name: (z[name], D, half) for name, half in self._half_squares.items() if not z[name].nnz}
        fresh = [name for name in self.names if not _holds(known.get(name), z[name], D)]
        team = self.team if len(fresh) == 1 else None  # of several, each is for one thread

        def of_batch(name: str) -> float:
            return half_misfit(self.batch(name), z[name], rows, team)

        for name, half in zip(fresh, self.team.each(of_batch, fresh), strict=True):
            known[name] = (z[name], D, half)
        changed = [name for name in self.names if name not in self._misfits or self._misfits[name][0] is not z[name]]
        if len(changed) > 1:  # one block alone is mostly a trial, and the old one will be asked for again
            self._misfits = known
        return math.fsum(known[name][2] for name in self.names)

    def restrict(self, block: str, z: Blocks) -> CodesOfBatch | Dictionary:
        """``H`` as a function of one batch's codes, or of the dictionary."""
        self.require(block)
        return Dictionary(self, block, z) if block == "D" else CodesOfBatch(self, block, z)

    def begin_sweep(self, z: Blocks) -> None:
        """Totals that are no plain sum will be summed anew: a resumed run repeats every bit."""
        self._sweep_begins = True
        self._visited.clear()

    def each(self, function: Callable[[P], T], items: Sequence[P]) -> list[T]:
        """``function`` of each of some items, by the threads that share a batch."""
        return self.team.each(function, items)


def _holds(known: tuple[Any, Matrix, float] | None, codes: Any, D: Matrix) -> bool:
    return known is not None and known[0] is codes and known[1] is D
