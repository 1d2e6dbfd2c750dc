"""A run as sections of a page: the verdict in words, the plots, where the work went."""

from __future__ import annotations

import html
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tecu.history import COUNTERS
from tecu.report.pages import Section, data_uri, write_page
from tecu.report.words import certificate_html, outcomes_html, result_html, table_html

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tecu.certificate import Certificate
    from tecu.history import History
    from tecu.state import Result, Visit

ALT = {
    "objective": "the objective against the iterations",
    "lyapunov": "the Lyapunov function above its last value, against the iterations",
    "inner_steps": "inner steps of each block against the iterations",
    "time_split": "seconds spent in each block",
}


def run(history: History, certificate: Certificate | None = None, *, visits: Iterable[Visit] = ()) -> list[Section]:
    """The sections of a run: verdict, plots, work. ``visits`` adds how each of them ended.

    >>> import numpy as np, tecu
    >>> from tecu import couplings, report, stop, terms
    >>> problem = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    >>> start = {"W": np.ones((3, 2)), "D": np.eye(3)[:, :2]}
    >>> result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(5))
    >>> [section.title for section in report.run(result.history, result.certificate)]
    ['Does the theorem cover it?', 'The run', 'The work']
    """
    if not isinstance(history, Mapping):
        raise TypeError(
            f"report.run takes a history and a certificate, got {type(history).__name__}; of a result these are "
            "result.history and result.certificate"
        )
    verdict = [] if certificate is None else [Section("Does the theorem cover it?", certificate_html(certificate))]
    return [*verdict, *_drawn(history), _work(history, visits)]


def write_run(
    result: Result,
    path: str | os.PathLike[str],
    *,
    title: str = "A run of tecu",
    plots_folder: str | os.PathLike[str] | None = None,
    more: Sequence[Section] = (),
) -> Path:
    """What :meth:`tecu.Result.report` does."""
    history = result.history
    sections = [Section("How it ended", result_html(result)), *_drawn(history), _work(history, result.state.visits)]
    if plots_folder is not None:
        from tecu.report.plots import save_plots

        save_plots(history, plots_folder)
    return write_page(path, title, [*sections, *more])


def compared_runs(histories: Mapping[str, History], verdicts: Mapping[str, str] | None = None) -> Section:
    """Several runs on one section: objective against iterations and seconds, final figures and a verdict each."""
    from tecu.report import plots

    rows = []
    for name, history in histories.items():
        figures = (f"{history['value'][-1]:.6g}", str(len(history["value"]) - 1), f"{history['seconds'][-1]:.3g}")
        rows.append((name, *figures, (verdicts or {}).get(name, "not known")))
    figures_html = _figures(
        {
            "the objective of each run against the iterations": plots.compared(histories),
            "the objective of each run against the seconds": plots.compared(histories, against="seconds"),
        }
    )
    body = table_html(("run", "objective", "iterations", "seconds", "verdict"), rows) + figures_html
    return Section("Runs", body)


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], note: str = "") -> Section:
    """A section with a table, numbers to the right.

    >>> table("Scores", ("method", "PSNR"), [("a < b", "19.1")]).body.count("a &lt; b")
    1
    """
    told = f'<p class="note">{html.escape(note)}</p>' if note else ""
    return Section(title, table_html(heads, rows) + told)


def _drawn(history: History) -> list[Section]:
    from tecu.report import plots

    named = {ALT.get(name, f"{name.replace('_', ' of block ')} against its tolerance"): figure
             for name, figure in plots.every(history).items()}  # fmt: skip
    return [Section("The run", _figures(named))]


def _figures(figures: Mapping[str, Figure]) -> str:
    from tecu.report.plots import rendered

    images = (
        f'<img src="{data_uri(rendered(figure, "svg"), "image/svg+xml")}" alt="{html.escape(alt)}">'
        for alt, figure in figures.items()
    )
    return f'<div class="plots">{"".join(images)}</div>'


def _work(history: History, visits: Iterable[Visit]) -> Section:
    counted = [(name.replace("_", " "), f"{int(history[name].sum())}") for name in COUNTERS if history[name].any()]
    return Section("The work", outcomes_html(visits) + table_html(("what was computed", "times"), counted))
