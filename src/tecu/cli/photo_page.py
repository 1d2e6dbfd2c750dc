"""The page that ``tecu enhance --report`` writes: each photo before and after, and what the certificate says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tecu.atomic import as_text
from tecu.lowlight.batch import Outcome, Settings, make_enhancer
from tecu.lowlight.files import PhotoError, read_photo
from tecu.lowlight.images import visible_pixels
from tecu.lowlight.plan import STREAM, Task

TITLE = "Enhanced photos"
MOST_PHOTOS = 50  # on one page: beyond that no browser is happy
MOST_PLOTTED = 5  # photos whose convergence is drawn


def write_photo_page(path: str, outcomes: Sequence[Outcome], settings: Settings) -> None:
    """Write the page; needs ``tecu[report]``. Photos that were skipped stand there with the results they had."""
    from tecu.report import Section, write_page

    done = [outcome for outcome in outcomes if _is_photo(outcome)]
    enhancer = make_enhancer(settings)
    sections: list[Section] = []
    for outcome in done[:MOST_PHOTOS]:
        sections += _sections(outcome, enhancer, settings, plots=len(done) <= MOST_PLOTTED)
    left_out = len(done) - MOST_PHOTOS
    lead = (
        f"Method {settings.method}, strength {settings.strength:g}; {len(done)} photo{'' if len(done) == 1 else 's'}."
    )
    lead += f" The last {left_out} are not shown." if left_out > 0 else ""
    write_page(path, TITLE, sections, lead, overwrite=settings.overwrite or is_made_anew(path, settings))


def is_made_anew(path: str, settings: Settings) -> bool:
    """Whether the file is the page of an earlier run, which a run that goes on from its results makes anew."""
    if not settings.skip_existing:
        return False
    try:
        with open(path, "rb") as file:
            return f"<title>{TITLE}</title>".encode() in file.read(4096)
    except OSError:
        return False


def _is_photo(outcome: Outcome) -> bool:
    return (
        outcome.status != "failed"
        and STREAM not in (outcome.source, outcome.target)
        and not Task(outcome.source, outcome.target).is_video
    )


def _sections(outcome: Outcome, enhancer: Any, settings: Settings, plots: bool) -> list[Any]:
    from tecu.report import pictures, run

    try:
        before = read_photo(outcome.source, max_pixels=settings.max_pixels)
        after = read_photo(outcome.target, max_pixels=settings.max_pixels)
    except PhotoError:  # someone moved it since; the others can still be shown
        return []
    if after.size != before.size:  # a file that was there already may be anything
        return []
    skipped = outcome.status == "skipped"
    parts = None if skipped else _parts(enhancer, visible_pixels(before.alpha, before.pixels))
    verdict = "" if parts is None else f" The certificate of its decomposition {parts.certificate.reason}"
    how = "its result was there already" if skipped else f"{outcome.seconds:.2f} s"
    title = as_text(outcome.source)
    caption = " ".join([f"{before.size[0]} x {before.size[1]} pixels, {how}.{verdict}", *outcome.notes])
    profiles = (before.metadata.icc, after.metadata.icc)
    sections = [pictures(before.pixels, after.pixels, title=title, caption=caption, profiles=profiles)]
    if parts is not None and plots:
        sections += [replace(s, title=f"{title}: {s.title}") for s in run(parts.history, parts.certificate)]
    return sections


def _parts(enhancer: Any, pixels: Any) -> Any:
    """The decomposition of a method that has one."""
    try:
        parts = enhancer.decompose(pixels)
    except (ValueError, AttributeError):
        return None
    return parts if getattr(parts, "certificate", None) is not None else None
