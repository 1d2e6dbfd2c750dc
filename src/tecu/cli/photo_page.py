"""The page that ``tecu enhance --report`` writes: each photo before and after, and what the certificate says."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tecu.atomic import as_text
from tecu.lowlight.batch import Outcome, Settings, make_enhancer
from tecu.lowlight.files import Photo, PhotoError, read_photo
from tecu.lowlight.grid import LONGEST_SIDE
from tecu.lowlight.images import visible_pixels
from tecu.lowlight.model import MODELS
from tecu.lowlight.plan import Task

if TYPE_CHECKING:
    from tecu.report import Section

TITLE = "Enhanced photos"
MOST_PHOTOS = 50  # on one page: beyond that no browser is happy
MOST_PLOTTED = 5  # photos whose convergence is drawn


def write_photo_page(path: str, outcomes: Sequence[Outcome], settings: Settings) -> None:
    """Write the page; needs ``tecu[report]``. Photos that were skipped stand there with the results they had."""
    from tecu.report import write_page

    done = [outcome for outcome in outcomes if outcome.status != "failed" and not _is_video(outcome)]
    failed = [as_text(outcome.reason or outcome.source) for outcome in outcomes if outcome.status == "failed"]
    absent = [
        f"{as_text(outcome.source)} is a video."
        for outcome in outcomes
        if outcome.status != "failed" and _is_video(outcome)
    ]
    enhancer = make_enhancer(settings)
    sections: list[Section] = []
    for outcome in done[:MOST_PHOTOS]:
        try:
            sections += _sections(outcome, enhancer, settings, plots=len(done) <= MOST_PLOTTED)
        except PhotoError as error:  # someone moved it since; the others can still be shown
            absent.append(as_text(str(error)))
    absent += [f"{as_text(outcome.source)}: a page shows {MOST_PHOTOS} photos." for outcome in done[MOST_PHOTOS:]]
    lists = [*_listed("What failed", failed), *sections, *_listed("What is not shown", absent)]
    lead = _lead(len(done), len(failed), settings)
    write_page(path, TITLE, lists, lead, overwrite=settings.overwrite or is_made_anew(path, settings))


def is_made_anew(path: str, settings: Settings) -> bool:
    """Whether the file is the page of an earlier run, which a run that goes on from its results makes anew."""
    if not settings.skip_existing:
        return False
    try:
        with open(path, "rb") as file:
            return f"<title>{TITLE}</title>".encode() in file.read(4096)
    except OSError:
        return False


def _is_video(outcome: Outcome) -> bool:
    return Task(outcome.source, outcome.target).is_video


def _lead(photos: int, failed: int, settings: Settings) -> str:
    """How the photos were made, in so far as it had a say, and how many there are."""
    said = [f"Method {settings.method}", f"strength {settings.strength:g}"]
    if settings.method in MODELS:
        said += [f"headroom {settings.headroom:g}", "noise removed" if settings.denoise else "noise left as it is"]
    if settings.model is not None:
        said.append(f"network {as_text(settings.model)}")
    count = f"{photos} photo{'' if photos == 1 else 's'}" + (f", {failed} failed" if failed else "")
    lead = f"{', '.join(said)}; {count}."
    if settings.method in MODELS and photos:
        lead += (
            f" A certificate is that of the run behind the result: the light of a photo is found on a grid of at most "
            f"{LONGEST_SIDE} pixels a side."
        )
    return lead


def _listed(title: str, sentences: Sequence[str]) -> list[Section]:
    from tecu.report import Section

    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return [Section(title, f"<ul>{items}</ul>")] if sentences else []


def _sections(outcome: Outcome, enhancer: Any, settings: Settings, plots: bool) -> list[Section]:
    """A photo before and after; of each file at a time only one is held at its full size."""
    from tecu.report import pictures, run
    from tecu.report.images import reduced

    before = read_photo(outcome.source, max_pixels=settings.max_pixels)
    size, small = before.size, reduced(before.pixels, before.metadata.icc)
    skipped = outcome.status == "skipped"
    found = None if skipped or settings.method not in MODELS else enhancer.on_grid(_visible(before))
    del before
    after = read_photo(outcome.target, max_pixels=settings.max_pixels)
    if after.size != size:  # a file that was there already may be anything
        columns, rows = size
        raise PhotoError(f"{as_text(outcome.target)} does not have the {columns} x {rows} pixels of its photo")
    verdict = "" if found is None else f" The certificate of its decomposition {found.certificate.reason}"
    how = "its result was there already" if skipped else f"{outcome.seconds:.2f} s"
    title = as_text(outcome.source)
    noted = f" Note: {'; '.join(outcome.notes)}." if outcome.notes else ""
    caption = f"{size[0]} x {size[1]} pixels, {how}.{verdict}{noted}"
    sections = [pictures(small, reduced(after.pixels, after.metadata.icc), title=title, caption=caption)]
    if found is not None and plots:
        sections += [replace(s, title=f"{title}: {s.title}") for s in run(found.history, found.certificate)]
    return sections


def _visible(photo: Photo) -> Any:
    return visible_pixels(photo.alpha, photo.pixels)
