"""The plots of a run, one function each, from its history alone.

All are readable in print and by the colour-blind: every curve has a colour of Okabe and Ito's palette *and* a line
style or marker of its own. A :class:`Plot` shows itself in a notebook; ``plot.savefig("a.svg")`` writes it.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tecu.extras import how_to_get

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ModuleNotFoundError as missing:
    raise ImportError(f"plots need matplotlib, which is not installed: {how_to_get('report')}") from missing

Column = np.ndarray[Any, np.dtype[np.float64]]
Columns = Mapping[str, Column]

MOST_BLOCKS = 6  # drawn one by one; of more than these, the ones that took most of the time

OKABE_ITO = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)), (0, (1, 2)), (0, (8, 2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
HATCHES = ("", "//", "..", "xx", "\\\\", "++", "oo")
STYLE: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
    "svg.hashsalt": "tecu",  # the same plot is the same file
}


class Plot(Figure):
    """A figure that shows itself in a notebook, whatever its backend."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png")


def blocks_of(history: Columns) -> list[str]:
    """The blocks that a history has columns for, in the order of a sweep."""
    return [name.removeprefix("move_") for name in history if name.startswith("move_")]


def embedded_blocks(history: Columns) -> list[str]:
    """The blocks whose error was compared with a tolerance."""
    return [block for block in blocks_of(history) if np.isfinite(history[f"tolerance_{block}"]).any()]


def busiest(history: Columns, blocks: list[str]) -> list[str]:
    """At most ``MOST_BLOCKS`` of the blocks, those that took most of the time, in the order of a sweep."""
    seconds = {block: float(history[f"seconds_{block}"].sum()) for block in blocks}
    chosen = sorted(blocks, key=lambda block: -seconds[block])[:MOST_BLOCKS]
    return [block for block in blocks if block in chosen]


# ---- one function a plot ----


def objective(history: Columns, axes: Axes | None = None) -> Figure:
    """``Psi`` against the iterations."""
    with mpl.rc_context(STYLE):
        axes = axes or _axes()
        _curve(axes, history["iteration"], history["value"], 0)
        _fit_scale(axes, history["value"])
        return _finished(axes, "Objective", "iteration", r"$\Psi$")


def lyapunov(history: Columns, axes: Axes | None = None) -> Figure:
    """``Phi`` above its last value, on a logarithmic axis; iterations where it rose are crossed."""
    with mpl.rc_context(STYLE):
        axes = axes or _axes()
        phi, iteration = history["lyapunov"], history["iteration"]
        above = phi - phi[-1]
        visible = above > 0
        _curve(axes, iteration[visible], above[visible], 0)
        if visible.any():
            axes.set_yscale("log")
        rounding = 64 * np.finfo(np.float64).eps * np.abs(phi[:-1])
        rose = np.flatnonzero(np.diff(phi) > rounding) + 1
        if rose.size:
            shown = np.maximum(above[rose], above[visible].min() if visible.any() else 1.0)
            axes.plot(iteration[rose], shown, "x", color=OKABE_ITO[1], label="rose")
            axes.legend()
        return _finished(axes, "Lyapunov function above its last value", "iteration", r"$\Phi - \Phi_{end}$")


def error(history: Columns, block: str, axes: Axes | None = None) -> Figure:
    """``||e||`` of one block's sub-problem against what it was allowed to be."""
    with mpl.rc_context(STYLE):
        axes = axes or _axes()
        iteration = history["iteration"]
        found, allowed = history[f"error_{block}"], history[f"tolerance_{block}"]
        _curve(axes, iteration, _positive(found), 0, "error", markers=True)
        _curve(axes, iteration, _positive(allowed), 1, "tolerance")
        if (found > 0).any() or (allowed > 0).any():
            axes.set_yscale("log")
        axes.legend()
        return _finished(axes, f"Error of block {_plain(block)} against its tolerance", "iteration", r"$\|e\|$")


def inner_steps(history: Columns, axes: Axes | None = None) -> Figure:
    """Inner steps an iteration, a curve for each block with a strategy inside (the busiest, if there are many)."""
    with mpl.rc_context(STYLE):
        axes = axes or _axes()
        named = busiest(history, [block for block in blocks_of(history) if history[f"inner_{block}"].any()])
        for k, block in enumerate(named):
            _curve(axes, history["iteration"][1:], history[f"inner_{block}"][1:], k, f"block {block}", markers=True)
        if named:
            axes.set_ylim(bottom=0)
            axes.yaxis.set_major_locator(MaxNLocator(integer=True))
            axes.legend()
        else:
            _say(axes, "no block has a strategy inside")
        return _finished(axes, "Inner steps", "iteration", "steps")


def time_split(history: Columns, axes: Axes | None = None) -> Figure:
    """Where the seconds went: a bar a block, and the rest."""
    with mpl.rc_context(STYLE):
        axes = axes or _axes()
        shown = busiest(history, blocks_of(history))
        seconds = {f"block {block}": float(history[f"seconds_{block}"].sum()) for block in shown}
        if others := [block for block in blocks_of(history) if block not in shown]:
            spent = sum(float(history[f"seconds_{block}"].sum()) for block in others)
            seconds[f"{len(others)} other blocks"] = spent
        seconds["the rest"] = max(float(history["seconds"].max()) - sum(seconds.values()), 0.0)
        for k, (name, spent) in enumerate(seconds.items()):
            style: dict[str, Any] = {"color": "white", "edgecolor": OKABE_ITO[k % 7], "hatch": HATCHES[k % 7]}
            axes.barh(_plain(name), spent, height=0.6, linewidth=1.2, **style)
            axes.annotate(f" {spent:.3g} s", (spent, k), va="center", ha="left")
        axes.invert_yaxis()
        axes.margins(x=0.2)
        axes.grid(visible=False, axis="y")
        return _finished(axes, "Time split", "seconds", "", whole_x=False)


def compared(
    histories: Mapping[str, Columns], column: str = "value", against: str = "iteration", axes: Axes | None = None
) -> Figure:
    """One column of several runs, against ``"iteration"`` or ``"seconds"``."""
    with mpl.rc_context(STYLE):
        axes = axes or _axes()
        for k, (name, history) in enumerate(histories.items()):
            _curve(axes, history[against], history[column], k, name)
        _fit_scale(axes, np.concatenate([history[column] for history in histories.values()]))
        axes.legend()
        label = {"value": "Objective", "lyapunov": "Lyapunov function"}.get(column, _plain(column))
        return _finished(axes, f"{label} of {len(histories)} runs", against, label, whole_x=against == "iteration")


# ---- all of them ----


def every(history: Columns) -> dict[str, Figure]:
    """Each plot by its name: ``objective``, ``lyapunov``, ``error_<block>``, ``inner_steps``, ``time_split``."""
    plots = {"objective": objective(history), "lyapunov": lyapunov(history)}
    plots |= {f"error_{block}": error(history, block) for block in busiest(history, embedded_blocks(history))}
    return plots | {"inner_steps": inner_steps(history), "time_split": time_split(history)}


def overview(history: Columns) -> Figure:
    """All plots of a run on one figure, for a notebook.

    >>> import numpy as np, tecu
    >>> from tecu import couplings, stop, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    >>> start = {"W": np.ones((3, 2)), "D": np.eye(3)[:, :2]}
    >>> result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(5))
    >>> len(overview(result.history).axes)
    4
    """
    blocks = busiest(history, embedded_blocks(history))
    draw: list[Callable[[Axes], Figure]] = [
        lambda axes: objective(history, axes),
        lambda axes: lyapunov(history, axes),
        *(lambda axes, block=block: error(history, block, axes) for block in blocks),
        lambda axes: inner_steps(history, axes),
        lambda axes: time_split(history, axes),
    ]
    rows = (len(draw) + 1) // 2
    with mpl.rc_context(STYLE):
        figure = Plot(figsize=(9.0, 2.8 * rows), layout="constrained")
        for k, fill in enumerate(draw):
            fill(figure.add_subplot(rows, 2, k + 1))
    return figure


def save_plots(
    history: Columns, folder: str | os.PathLike[str], formats: tuple[str, ...] = ("svg", "png")
) -> list[Path]:
    """Write each plot to a folder, made if need be, as ``<name>.<format>``; the paths are returned."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in every(history).items():
        safe = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in name)
        for kind in formats:
            path = target / f"{safe}.{kind}"
            path.write_bytes(rendered(figure, kind))
            written.append(path)
    return written


def rendered(figure: Figure, kind: str) -> bytes:
    """A figure as the bytes of an ``"svg"`` or ``"png"`` file, the same each time."""
    stream = io.BytesIO()
    with mpl.rc_context(STYLE):
        figure.savefig(stream, format=kind, dpi=150, metadata={"Date": None} if kind == "svg" else None)
    return stream.getvalue()


# ---- how they look ----


def _axes() -> Axes:
    return Plot(figsize=(5.2, 3.1), layout="constrained").add_subplot()


def _curve(axes: Axes, x: Column, y: Column, k: int, label: str | None = None, markers: bool = False) -> None:
    few = len(x) <= 40
    axes.plot(
        x, y, color=OKABE_ITO[k % 7], linestyle=LINES[k % 7], linewidth=1.5,
        label=None if label is None else _plain(label),
        marker=MARKERS[k % 7] if few or markers else None, markersize=3.5, markevery=max(1, len(x) // 40),
    )  # fmt: skip


def _plain(name: str) -> str:
    """A name to be shown as it is: matplotlib takes what stands between dollars for TeX, and ``_a`` for no label."""
    return (" " if name.startswith("_") else "") + name.replace("$", r"\$")


def _positive(column: Column) -> Column:
    """What a logarithmic axis can show."""
    return np.where(column > 0, column, np.nan)


def _fit_scale(axes: Axes, values: Column) -> None:
    finite = values[np.isfinite(values)]
    if finite.size and finite.min() > 0 and finite.max() > 30 * finite.min():
        axes.set_yscale("log")


def _say(axes: Axes, sentence: str) -> None:
    axes.annotate(sentence, (0.5, 0.5), xycoords="axes fraction", ha="center", va="center", color="#555555")


def _finished(axes: Axes, title: str, x: str, y: str, whole_x: bool = True) -> Figure:
    axes.set_title(title, loc="left")
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if whole_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    return figure
