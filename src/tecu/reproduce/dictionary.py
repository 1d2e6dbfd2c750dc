"""The dictionary-learning experiment: tables 1 and 2 and figure 1, run again.

The paper does not say what its data, penalty and constants are, nor how PALM gets its Lipschitz constants, on which the
claim "TECU is faster" depends. So three data sets (``U``, ``P``, ``S`` of :mod:`tecu.dictionary.data`) and three
ways of computing the constants are run, and each claim gets a verdict that names the conditions under which it holds.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tecu import stop
from tecu.dictionary.data import SIZES, table_data
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import plan
from tecu.dictionary.workers import workers

Say = Callable[[str], None]
METHODS = ("palm/svd", "palm/gram", "palm/power", "inv", "bcu", "ipalm", "tecu")
OTHERS = ("palm", "inv", "bcu", "ipalm")
LABELS = {
    "palm": "PALM",
    "inv": "INV",
    "bcu": "BCU",
    "ipalm": "iPALM",
    "tecu": "TECU",
    "tecu-pith": "TECU-PITH",
    "auto": "auto",
}

# n -> algorithm -> (iterations, seconds, seconds a step) as printed; TECU also made 54, 152, 153 propagations.
PAPER: dict[int, dict[str, tuple[int, float, float]]] = {
    64: {
        "palm": (21, 4.45, 0.21), "inv": (109, 16.20, 0.15), "bcu": (19, 3.87, 0.20), "ipalm": (21, 4.68, 0.22),
        "tecu": (12, 2.22, 0.04),
    },
    144: {
        "palm": (21, 17.16, 0.82), "inv": (35, 21.40, 0.61), "bcu": (18, 14.45, 0.80), "ipalm": (21, 18.01, 0.86),
        "tecu": (14, 11.96, 0.08),
    },
    256: {
        "palm": (22, 121.47, 5.52), "inv": (39, 137.27, 3.52), "bcu": (18, 100.19, 5.57), "ipalm": (22, 124.67, 5.67),
        "tecu": (17, 75.19, 0.49),
    },
}  # fmt: skip
PAPER_PROPAGATIONS = {64: 54, 144: 152, 256: 153}

LIMITS = {64: 100, 144: 100, 256: 40}
"""Iterations at most: at the largest size one of them takes seconds."""

PITH_SHARE = 4
"""TECU-PITH gets this part of the iterations above the smallest size: one of them is twenty gradient steps."""

SVD_SAMPLE = 4
"""Iterations of PALM with singular value decompositions that are timed above the smallest size, where each takes many
seconds. Its iterates are those of the Gram matrix's eigenvalues, the same numbers by another way: only time differs."""


@dataclass(frozen=True)
class Run:
    """One algorithm on one data set at one size."""

    data: str
    n: int
    method: str  # "palm/svd": the Lipschitz method after the slash
    iterations: int
    propagations: int  # inner steps of embedded blocks; the iterations where nothing is embedded
    seconds: float  # of processor time
    step_seconds: float  # of one iteration; of one propagation where something is embedded
    objective: float
    density: float  # non-zeros of W, as a share
    stationarity: float
    converged: bool
    history: Any
    timed: int = 0  # iterations behind ``seconds`` where not all were run

    @property
    def algorithm(self) -> str:
        """The name without the Lipschitz method."""
        return self.method.split("/")[0]


def run(data: str, n: int, method: str, *, seed: int = 0, max_iter: int = 100, tol: float = 1e-4) -> Run:
    """One algorithm on one data set, until the paper's rule (largest relative change below 1e-4) or ``max_iter``."""
    given = table_data(data, n, seed)
    name, _, lipschitz = method.partition("/")
    rows = Rows(np.ascontiguousarray(given.Y.T))
    with workers(1) as team:
        planned = plan(
            name, rows, Coder(given.penalty), SIZES[n][1], max_iter=max_iter, tol=tol, team=team,
            lipschitz=lipschitz or "power",
        )  # fmt: skip
        start = planned.start(np.ascontiguousarray(given.D0.T))
        if data != "S" and name != "auto":
            start["W"] = start["W"].toarray()  # these codes are three quarters dense and more
        began = time.process_time()
        result = planned.solver.run(start, stop.RelativeChange(tol) | stop.MaxIter(max_iter))
        seconds = time.process_time() - began
        stationarity = planned.solver.problem.stationarity(result.z)
        codes = planned.codes(result.z)
    history = result.history
    inner = {b: float(np.nansum(history[f"inner_{b}"])) for b in result.z}
    embedded = [b for b, steps in inner.items() if steps > 0]
    propagations, step_seconds = result.iterations, seconds / max(result.iterations, 1)
    if embedded:
        propagations = int(sum(inner.values()))
        share = sum(float(np.nansum(history[f"seconds_{b}"])) for b in embedded) / float(history["seconds"][-1])
        step_seconds = share * seconds / max(propagations, 1)
    return Run(
        data, n, method, result.iterations, propagations, seconds, step_seconds, result.value,
        codes.nnz / (codes.shape[0] * codes.shape[1]), stationarity, result.status.name == "CONVERGED", history,
    )  # fmt: skip


def runs(
    sizes: Sequence[int],
    methods: Sequence[str],
    datasets: Sequence[str],
    max_iter: int | None,
    say: Say,
) -> list[Run]:
    """All combinations, one after the other; ``max_iter=None`` takes :data:`LIMITS`."""
    found = []
    for n in sizes:
        for data in datasets:
            group: dict[str, Run] = {}
            for method in sorted(methods, key="palm/svd".__eq__):  # by SVD last: it may need the run by Gram matrix
                limit = _limit(n, method) if max_iter is None else max_iter
                one = run_or_sample(data, n, method, limit, group, quick=max_iter is not None)
                say(
                    f"n={n} data {data} {method}: {one.iterations} iterations, {one.seconds:.1f} s, "
                    f"objective {one.objective:.5g}" + ("" if one.converged else " (stopped at the limit)")
                )
                group[method] = one
            found += [group[method] for method in methods]
    return found


def _limit(n: int, method: str) -> int:
    return LIMITS[n] // PITH_SHARE if method == "tecu-pith" and n > min(SIZES) else LIMITS[n]


def run_or_sample(data: str, n: int, method: str, max_iter: int, known: dict[str, Run], *, quick: bool = False) -> Run:
    """A run; with SVD above the smallest size its first iterations, timed, and the rest from the run by Gram matrix."""
    whole = known.get("palm/gram")
    feasible = n == min(SIZES) and not quick
    if method != "palm/svd" or feasible or whole is None or whole.iterations <= SVD_SAMPLE:
        return run(data, n, method, max_iter=max_iter)
    step = run(data, n, method, max_iter=SVD_SAMPLE).step_seconds
    return replace(whole, method=method, seconds=step * whole.iterations, step_seconds=step, timed=SVD_SAMPLE)


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and what came of it."""

    text: str
    verdict: str  # "reproduced", "reproduced only if ...", "not reproduced"
    found: str


def claims(found: Sequence[Run]) -> list[Claim]:
    """The paper's claims, judged on these runs."""
    judged = []
    cells = sorted({(r.n, r.data) for r in found})
    judged.append(_claim("TECU needs fewer iterations than PALM, INV, BCU and iPALM", found, cells, _fewer_iterations))
    for way in ("svd", "gram", "power"):
        text = f"TECU takes less time than PALM, whose constants are computed by {way}"
        judged.append(_claim(text, found, cells, functools.partial(_faster, rival=f"palm/{way}")))
    judged.append(
        _claim("One propagation of TECU is cheaper than one iteration of the others", found, cells, _cheaper_steps)
    )
    if any(r.method == "tecu-pith" for r in found):
        judged.append(
            _claim("TECU-PITH reaches the cap of 20 inner steps at almost every iteration", found, cells, _at_cap)
        )
        judged.append(_claim("TECU-PITH is about 270 times slower than TECU", found, cells, _far_slower))
    return judged


Test = Callable[[dict[str, Run]], tuple[bool, str] | None]


def _claim(text: str, found: Sequence[Run], cells: Sequence[tuple[int, str]], test: Test) -> Claim:
    answers = {}
    for n, data in cells:
        group = {r.method: r for r in found if (r.n, r.data) == (n, data)}
        answer = test(group)
        if answer is not None:
            answers[n, data] = answer
    if not answers:
        return Claim(text, "not tested", "")
    true = [cell for cell, (holds, _) in answers.items() if holds]
    details = "; ".join(f"n={n} {data}: {words}" for (n, data), (_, words) in answers.items())
    if len(true) == len(answers):
        return Claim(text, "reproduced", details)
    if not true:
        return Claim(text, "not reproduced", details)
    where = ", ".join(f"n={n} data {data}" for n, data in true)
    return Claim(text, f"reproduced only if {where}", details)


def _fewer_iterations(group: dict[str, Run]) -> tuple[bool, str] | None:
    others = [r for m, r in group.items() if r.algorithm in OTHERS]
    if "tecu" not in group or not others:
        return None
    own, best = group["tecu"], min(others, key=lambda r: r.iterations)
    holds = own.converged and own.iterations < best.iterations
    return holds, f"{own.iterations} against {best.iterations} ({best.method})" + (
        "" if own.converged else ", not converged"
    )


def _faster(group: dict[str, Run], rival: str) -> tuple[bool, str] | None:
    if "tecu" not in group or rival not in group:
        return None
    own, other = group["tecu"], group[rival]
    return own.seconds < other.seconds, f"time ratio {own.seconds / other.seconds:.2f}"


def _cheaper_steps(group: dict[str, Run]) -> tuple[bool, str] | None:
    others = [r for r in group.values() if r.algorithm in OTHERS]
    if "tecu" not in group or not others:
        return None
    own, best = group["tecu"], min(others, key=lambda r: r.step_seconds)
    return (
        own.step_seconds < best.step_seconds,
        f"{own.step_seconds:.3g} s against {best.step_seconds:.3g} s ({best.method})",
    )


def _at_cap(group: dict[str, Run]) -> tuple[bool, str] | None:
    if "tecu-pith" not in group:
        return None
    inner = np.asarray(group["tecu-pith"].history["inner_W"])[1:]
    share = float(np.mean(inner >= 20))
    return share > 0.8, f"{share:.0%} of the iterations"


def _far_slower(group: dict[str, Run]) -> tuple[bool, str] | None:
    if "tecu-pith" not in group or "tecu" not in group:
        return None
    ratio = group["tecu-pith"].seconds / group["tecu"].seconds
    return ratio > 100, f"{ratio:.1f} times"
