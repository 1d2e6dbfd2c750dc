"""``index.html`` of a folder of tables and figures: all of them on one self-contained page."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from tecu.report import Section, write_page
from tecu.report.pages import data_uri

KINDS = {".svg": "image/svg+xml", ".png": "image/png", ".jpg": "image/jpeg"}


def write_index(folder: Path) -> Path:
    """Collect the tables (``.md``) and figures of ``folder``; needs ``tecu[report]``."""
    sections = [
        replace(section, title=f"{path.stem}: {section.title}")
        for path in sorted(folder.glob("*.md"))
        for section in sections_of(path.read_text("utf-8"))
    ]
    pictures = [path for path in sorted(folder.iterdir()) if path.suffix in KINDS]
    sections += [Section(path.stem, _figure(path)) for path in pictures]
    return write_page(folder / "index.html", "The paper's experiments, run again", sections)


def sections_of(text: str) -> list[Section]:
    """Headings, tables, lists and paragraphs of a Markdown text; each heading begins a section.

    >>> [section] = sections_of("# Found\\n\\n| a | b |\\n|---|---|\\n| **1** | x < y |\\n")
    >>> section.title, "<strong>1</strong>" in section.body, "x &lt; y" in section.body
    ('Found', True, True)
    """
    sections: list[Section] = []
    title, body = "", ""
    for line_kind, lines in groupby(text.splitlines(), _kind):
        if line_kind != "heading":
            body += _html(line_kind, list(lines))
            continue
        for line in lines:
            sections += [Section(title, body)] if body else []
            title, body = line.lstrip("# "), ""
    return [*sections, Section(title, body)] if body else sections


def _kind(line: str) -> str:
    starts = {"#": "heading", "|": "table", "- ": "list"}
    return next((kind for start, kind in starts.items() if line.startswith(start)), "text" if line.strip() else "gap")


def _html(kind: str, lines: list[str]) -> str:
    if kind == "table":
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines]
        return f'<div class="wide"><table>{"".join(_rows(rows))}</table></div>'
    if kind == "list":
        return f"<ul>{''.join(f'<li>{_inline(line[2:])}</li>' for line in lines)}</ul>"
    return f"<p>{_inline(' '.join(lines))}</p>" if kind == "text" else ""


def _rows(rows: list[list[str]]) -> Iterator[str]:
    for k, row in enumerate(rows):
        if all(set(cell) <= set("-: ") and "-" in cell for cell in row) and k == 1:
            continue
        tag = "th" if k == 0 else "td"
        yield f"<tr>{''.join(f'<{tag}>{_inline(cell)}</{tag}>' for cell in row)}</tr>"


def _inline(text: str) -> str:
    strong = re.sub(r"\*\*(.+?)\*\*", r"<strong>\1</strong>", html.escape(text))
    return re.sub(r"`(.+?)`", r"<code>\1</code>", strong)


def _figure(path: Path) -> str:
    source = data_uri(path.read_bytes(), KINDS[path.suffix])
    return f'<figure class="plots"><img src="{source}" alt="{html.escape(path.stem)}"></figure>'
