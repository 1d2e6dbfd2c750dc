"""The strategy for the codes: every chunk codes itself against ``D``; what comes back is their sum."""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tecu.arrays import Array
from tecu.dictionary.chunked import tasks
from tecu.dictionary.chunked.coupling import CodesOfAll, RowTerm
from tecu.dictionary.chunked.rowwise import Codes, Held, RowWise, compute, persist, summed, task
from tecu.inexact import Candidate, Numbers
from tecu.subproblem import SubProblem


@dataclass(frozen=True)
class ChunkCoder:
    """``strategy`` for each chunk by itself, judged there, then as a whole by the sums.

    With ``e = (e_k)`` over chunks ``||e||^2 = sum ||e_k||^2``; ``<e, move>`` and ``F(u~) - F(previous)`` are sums as
    well: the tests of the whole need nothing but these three numbers of each chunk.
    """

    strategy: Any
    c: float
    endless = True

    def __call__(self, sub: SubProblem, u: Array) -> Iterator[Array | Candidate]:
        """Yield the coded chunks, then prox-gradient steps from there."""
        candidate = self.code(sub, u.hold())
        while True:
            yield candidate
            step, _ = sub.prox_gradient_step(candidate.u)
            candidate = Candidate(step)

    def code(self, sub: SubProblem, old: RowWise) -> Candidate:
        """One round of coding."""
        smooth, term = sub.smooth, sub.term
        assert isinstance(smooth, CodesOfAll)
        assert isinstance(term, RowTerm)
        tau = sub.lipschitz()  # pieces may have used a smaller one where their error is zero: it is zero for this too
        assert tau is not None
        samples = old.samples
        move = None if sub.previous_move is None else sub.previous_move / math.sqrt(len(samples))
        coding = tasks.Coding(self.strategy, term.term, eta=sub.eta, c=self.c, visits=sub.visits, move=move)
        coded = [
            task(tasks.code)(coding, source, smooth.atoms.shared.part(k), old.held.part(k))
            for k, source in enumerate(samples.sources)
        ]
        parts, sums = ([task(tasks.pick)(result, place) for result in coded] for place in range(2))
        *kept, root = persist([*parts, summed(sums)])
        (tally,) = compute([root])
        numbers, held = tally.numbers, Held(kept)
        point = Codes(
            samples, old.shape[1], ("leaf", held), parent=weakref.ref(old), move=math.sqrt(numbers[tasks.MOVE]),
            norm=math.sqrt(numbers[tasks.SIZE]), term=float(numbers[tasks.TERM]), tally=tally,
            nonzeros=int(numbers[tasks.NONZEROS]),
        )  # fmt: skip
        source = point + point.of(("apart", held)) if numbers[tasks.APART] else point
        error = Numbers(math.sqrt(numbers[tasks.ERROR]), float(numbers[tasks.ALONG]), float(numbers[tasks.CHANGE]))
        return Candidate(source, prox_point=point, tau=tau, numbers=error)
