"""Tables 1 and 2 and figure 1 as Markdown, CSV and SVG, the paper's numbers beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tecu.atomic import part_beside, write_bytes
from tecu.dictionary.data import SIZES
from tecu.reproduce.dictionary import (
    LABELS,
    METHODS,
    OTHERS,
    PAPER,
    PAPER_PROPAGATIONS,
    SVD_SAMPLE,
    Claim,
    Run,
    Say,
    claims,
    runs,
)

FIGURE_METHODS = ("palm/power", "inv", "bcu", "ipalm", "tecu", "tecu-pith", "auto")


def table1(folder: Path, quick: bool, say: Say) -> list[Path]:
    """Iterations and seconds to the paper's stop rule."""
    found = _measured(quick, say)
    head = (
        "| n | data | algorithm | iterations (paper) | propagations (paper) | seconds (paper) | objective | non-zeros "
        "| stationarity |\n"
        "|---|---|---|---|---|---|---|---|---|\n"
    )
    lines = []
    for r in found:
        iterations, seconds, _ = PAPER[r.n].get(r.algorithm, (0, math.nan, math.nan))
        steps = f"{r.propagations} ({PAPER_PROPAGATIONS[r.n]})" if r.algorithm == "tecu" else "-"
        limit = "" if r.converged else "+"
        lines.append(
            f"| {r.n} | {r.data} | {_label(r)} | {r.iterations}{limit} ({iterations or '-'}) | {steps} "
            f"| {'~' if r.timed else ''}{r.seconds:.2f} ({seconds:.2f}) "
            f"| {r.objective:.5g} | {r.density:.1%} | {r.stationarity:.2e} |"
        )
    note = "A + marks a run that did not meet the stop rule within the limit.\n"
    if any(r.timed for r in found):
        note += (
            f"\nA ~ marks PALM with singular value decompositions, where they take long: {SVD_SAMPLE} iterations were "
            "timed and their mean multiplied; the iterates are those of PALM with the Gram matrix.\n"
        )
    return _write(folder, "table1", "Iterations and computation time", head + "\n".join(lines) + "\n\n" + note, found)


def table2(folder: Path, quick: bool, say: Say) -> list[Path]:
    """Seconds of one iteration, or of one propagation of TECU."""
    found = _measured(quick, say)
    head = "| n | data | algorithm | seconds a step | paper |\n|---|---|---|---|---|\n"
    lines = [
        f"| {r.n} | {r.data} | {_label(r)} | {r.step_seconds:.4f} "
        f"| {PAPER[r.n].get(r.algorithm, (0, 0, math.nan))[2]:.2f} |"
        for r in found
    ]
    return _write(folder, "table2", "Seconds of one step", head + "\n".join(lines) + "\n", found)


def figure1(folder: Path, quick: bool, say: Say) -> list[Path]:
    """The four convergence plots of each size, on the data ``S``."""
    import matplotlib  # an optional part: asked for before minutes are spent

    matplotlib.use("Agg", force=False)
    sizes = [64] if quick else list(SIZES)
    found = runs(sizes, FIGURE_METHODS, ["S"], 12 if quick else None, say)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for n in sizes:
        path = folder / f"figure1-n{n}.svg"
        drawn = draw([r for r in found if r.n == n])
        with part_beside(path, overwrite=True) as part:
            drawn.savefig(part, format="svg")
        files.append(path)
    return files + _write(folder, "figure1", "Convergence on the data S", "", found)


def draw(found: Sequence[Run]) -> Any:
    """Objective, moves of W and of D, and inner steps against the iteration; ``auto`` without its loose passes."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 3.4), layout="constrained")
    axes = figure.subplots(1, 4)
    for r in found:
        looks = {
            "label": LABELS[r.algorithm] + (", same start" if r.algorithm == "auto" else ""),
            "color": f"C{list(LABELS).index(r.algorithm)}",  # the same in every plot
            "linestyle": "-" if r.algorithm in OTHERS else "--",
        }
        values = np.asarray(r.history["value"])
        axes[0].semilogy(values, **looks)
        for axis, block in ((axes[1], "W"), (axes[2], "D")):
            moves = _moves(r, block)
            axis.semilogy(np.arange(1, len(moves) + 1), np.maximum(moves, 1e-16), **looks)
        inner = _columns(r, "inner_", lambda name: True)
        if inner.any():
            axes[3].plot(np.arange(1, len(inner) + 1), inner, **looks)
    for axis, title in zip(axes, ("objective", "move of W", "move of D", "inner steps"), strict=True):
        axis.set_title(title)
        axis.set_xlabel("iteration")
    axes[0].legend(fontsize=7)
    figure.suptitle(f"n = {found[0].n}, data {found[0].data}")
    return figure


def _moves(r: Run, block: str) -> Any:
    squares = _columns(r, "move_", lambda name: (name == "D") == (block == "D"), power=2)
    return np.sqrt(squares)


def _columns(r: Run, prefix: str, wanted: Any, power: int = 1) -> Any:
    names = [name for name in r.history if name.startswith(prefix) and wanted(name.removeprefix(prefix))]
    return np.sum([np.nan_to_num(np.asarray(r.history[name])[1:]) ** power for name in names], axis=0)


_RUNS: dict[bool, list[Run]] = {}


def _measured(quick: bool, say: Say) -> list[Run]:
    """The runs behind both tables; made once a process."""
    if quick not in _RUNS:
        sizes = [64] if quick else list(SIZES)
        _RUNS[quick] = runs(sizes, METHODS, ["U", "P", "S"], 25 if quick else None, say)
    return _RUNS[quick]


def _label(r: Run) -> str:
    _, _, way = r.method.partition("/")
    return LABELS[r.algorithm] + (f" (constants by {way})" if way else "")


def verdicts(judged: Sequence[Claim]) -> str:
    """The claims and what came of them."""
    rows = ["| claim | verdict | found |", "|---|---|---|"]
    return "\n".join([*rows, *(f"| {c.text} | **{c.verdict}** | {c.found} |" for c in judged)]) + "\n"


def _write(folder: Path, name: str, title: str, body: str, found: Sequence[Run]) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / f"{name}.md", folder / f"{name}.csv"
    text = f"# {title}\n\n{body}\n## Claims\n\n{verdicts(claims(found))}"
    write_bytes(page, text.encode("utf-8"), overwrite=True)
    columns = (
        "data", "n", "method", "iterations", "propagations", "seconds", "step_seconds", "objective", "density",
        "stationarity", "converged",
    )  # fmt: skip
    lines = [",".join(columns), *(",".join(str(getattr(r, c)) for c in columns) for r in found)]
    write_bytes(table, ("\n".join(lines) + "\n").encode("utf-8"), overwrite=True)
    return [page, table]
