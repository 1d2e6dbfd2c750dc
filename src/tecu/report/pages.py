"""A self-contained HTML page made of sections: one file, no outside call, light and dark, readable in print."""

from __future__ import annotations

import base64
import html
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tecu.atomic import write_bytes
from tecu.extras import how_to_get


@dataclass(frozen=True)
class Section:
    """A part of a page: a title, and a body that is HTML already (everything in it escaped by its maker)."""

    title: str
    body: str

    def _repr_html_(self) -> str:
        return f"<h3>{html.escape(self.title)}</h3>{self.body}"


def page(title: str, sections: Sequence[Section], lead: str = "") -> str:
    """The page as text.

    >>> text = page("A run", [Section("Verdict", "<p>It holds.</p>")], lead="Two blocks & a network")
    >>> "<p>It holds.</p>" in text, "Two blocks &amp; a network" in text
    (True, True)
    """
    from tecu import __version__

    template = _environment().get_template("page.html")
    return str(template.render(title=title, lead=lead, sections=sections, version=__version__))


def write_page(
    path: str | os.PathLike[str], title: str, sections: Sequence[Section], lead: str = "", overwrite: bool = True
) -> Path:
    """Write the page, whole or not at all, and return its path."""
    target = Path(path)
    text = page(title, sections, lead)
    write_bytes(target, text.encode("utf-8"), overwrite=overwrite)
    return target


def data_uri(data: bytes, kind: str) -> str:
    """A file's bytes as an address that a page can hold, such as ``data:image/png;base64,...``."""
    return f"data:{kind};base64,{base64.b64encode(data).decode('ascii')}"


def _environment() -> Any:
    try:
        import jinja2
    except ModuleNotFoundError as missing:
        raise ImportError(f"a report needs jinja2, which is not installed: {how_to_get('report')}") from missing
    loader = jinja2.PackageLoader("tecu.report", "templates")
    return jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
