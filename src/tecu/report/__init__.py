"""Plots of a run and self-contained pages: curves, verdicts, pictures, atoms. Nothing on a page calls outside.

The plots are in :mod:`tecu.report.plots`; they and the pages need ``pip install tecu[report]``.
"""

from tecu.report.images import atoms, pictures
from tecu.report.pages import Section, page, write_page
from tecu.report.runs import compared_runs, run, table, write_run

__all__ = ["Section", "atoms", "compared_runs", "page", "pictures", "run", "table", "write_page", "write_run"]
