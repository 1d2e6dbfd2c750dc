"""``tecu compare``: photos, methods or saved runs against each other, on one page."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from tecu.atomic import as_text, escaped
from tecu.cli.main import INPUT_FAILED, PART_MISSING, report_problem
from tecu.cli.outputs import check_outputs, unread, unwritten
from tecu.cli.score import PARAMETERS, Scores, photo_scores, reference_of, shown_score
from tecu.lowlight.classical import EndsProgram
from tecu.lowlight.files import MAX_PIXELS, MissingPart, Photo, PhotoError, UnreadableFile, read_photo
from tecu.lowlight.files.errors import shown
from tecu.lowlight.images import on_visible

Sections = list[Any]
RUN = ".npz"


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="A B...")
@click.option("-o", "--output", "out", required=True, metavar="PAGE", help="The page to write, such as page.html.")
@click.option("--method", "methods", multiple=True, metavar="NAME",
              help="Enhance each photo by this method; may be given several times.")  # fmt: skip
@click.option("--reference", metavar="REF", help="What the photos should look like: a photo, or a folder of them.")
@click.option("--overwrite", is_flag=True, help="Replace the page if it exists.")
@click.option("--max-pixels", type=click.IntRange(1), default=MAX_PIXELS, show_default=True, metavar="N",
              help="Refuse larger photos.")  # fmt: skip
def compare(
    files: tuple[str, ...],
    out: str,
    methods: tuple[str, ...],
    reference: str | None,
    overwrite: bool,
    max_pixels: int,
) -> int:
    """Compare photos, methods or saved runs on one self-contained page.

    Two or more photos of the same size: each against the first, under a divider, with their scores. Photos and
    --method: what each method makes of each photo. Saved runs (.npz, from tecu.save_state): their curves together.
    """
    warnings.filterwarnings("ignore", module="PIL")
    if reference is not None and not os.path.exists(reference):
        raise click.UsageError(f"--reference: there is no {shown(reference)}")
    runs = [file for file in files if file.lower().endswith(RUN)]
    if runs and (methods or len(runs) < len(files)):
        raise click.UsageError("saved runs are compared with saved runs: give only .npz files, without --method")
    if len(files) < 2 and not methods:
        raise click.UsageError("give at least two files, or --method NAME")
    check_outputs({"-o": out}, [*files, reference], overwrite)
    if (missing := report_problem()) is not None:
        click.echo(missing, err=True)
        return PART_MISSING
    failures: list[PhotoError] = []
    try:
        if runs:
            sections = _compared_runs(files, failures)
        elif methods:
            sections = _compared_methods(files, methods, reference, max_pixels, failures)
        else:
            sections = _compared_photos(files, reference, max_pixels, failures)
        if sections:
            _write(out, sections, overwrite)
    except ImportError as error:
        click.echo(str(error), err=True)
        return PART_MISSING
    except OSError as error:
        raise unwritten(out, error) from error
    for failure in failures:
        click.echo(click.style("failed: ", fg="red") + escaped(str(failure)), err=True)
    if failures and all(isinstance(failure, MissingPart) for failure in failures):
        return PART_MISSING
    return INPUT_FAILED if failures else 0


def _write(out: str, sections: Sections, overwrite: bool) -> None:
    from tecu.report import write_page

    write_page(out, "Comparison", sections, overwrite=overwrite)
    click.echo(shown(out))


def _compared_photos(
    files: Sequence[str], reference: str | None, max_pixels: int, failures: list[PhotoError]
) -> Sections:
    photos: list[tuple[str, Photo]] = []
    for file in files:
        try:
            photo = read_photo(file, max_pixels=max_pixels)
            if photos and photo.size != photos[0][1].size:
                raise UnreadableFile(
                    f"{shown(file)} has {_size(photo)} pixels, {photos[0][0]} has {_size(photos[0][1])}; "
                    "only photos of the same size can be compared"
                )
            photos.append((as_text(file), photo))
        except PhotoError as error:
            failures.append(error)
    if len(photos) < 2:
        return []
    against = _reference(files[0], photos[0][1], reference, max_pixels, failures)
    try:
        return _against_first("Photos", photos, against)
    except PhotoError as error:
        failures.append(error)
        return []


def _compared_methods(
    files: Sequence[str],
    methods: Sequence[str],
    reference: str | None,
    max_pixels: int,
    failures: list[PhotoError],
) -> Sections:
    from tecu.lowlight import Enhancer

    try:
        enhancers = {method: Enhancer(method) for method in methods}
    except (ValueError, TypeError) as error:
        raise click.UsageError(str(error)) from error
    sections: Sections = []
    for file in files:
        try:
            photo = read_photo(file, max_pixels=max_pixels)
        except PhotoError as error:
            failures.append(error)
            continue
        try:
            results = {method: _timed(enhancer, photo) for method, enhancer in enhancers.items()}
        except EndsProgram as error:
            raise click.UsageError(str(error)) from error
        except ImportError as error:
            failures.append(MissingPart(f"{shown(file)}: {error}"))
            continue
        except Exception as error:  # a method of somebody's own may raise anything
            failures.append(UnreadableFile(f"{shown(file)} could not be enhanced: {type(error).__name__}: {error}"))
            continue
        against = _reference(file, photo, reference, max_pixels, failures)
        named = [("input", photo), *((method, result) for method, (result, _) in results.items())]
        seconds = {method: spent for method, (_, spent) in results.items()}
        try:
            sections += _against_first(as_text(file), named, against, seconds)
        except PhotoError as error:
            failures.append(error)
    return sections


def _timed(enhancer: Callable[[Any], Any], photo: Photo) -> tuple[Photo, float]:
    started = time.process_time()
    result = photo.with_pixels(on_visible(photo.alpha, photo.pixels, enhancer))
    return result, time.process_time() - started


def _against_first(
    title: str,
    photos: Sequence[tuple[str, Photo]],
    reference: Photo | None,
    seconds: dict[str, float] | None = None,
) -> Sections:
    from tecu.report import pictures, table

    columns = ["niqe"] if reference is None else ["niqe", "psnr", "ssim", "loe"]
    heads = ["photo", *(column.upper() for column in columns), *(["CPU seconds"] if seconds else [])]
    rows = []
    for name, photo in photos:
        try:
            scores: Scores = photo_scores(photo, reference)
        except ValueError as error:  # too small for a window of the score
            raise UnreadableFile(f"{title}: {name} cannot be measured: {error}") from error
        spent = [f"{seconds[name]:.2f}" if name in seconds else "-"] if seconds else []
        rows.append((name, *(shown_score(column, scores[column]) for column in columns), *spent))
    note = ". ".join(f"{column.upper()}: {PARAMETERS[column]}" for column in columns) + "."
    first, base = photos[0]
    dividers = [
        pictures(
            base.pixels,
            photo.pixels,
            title=f"{first} and {name}",
            names=(first, name),
            profiles=(base.metadata.icc, photo.metadata.icc),
        )
        for name, photo in photos[1:]
    ]
    return [table(title, heads, rows, note), *dividers]


def _reference(
    file: str, photo: Photo, reference: str | None, max_pixels: int, failures: list[PhotoError]
) -> Photo | None:
    try:
        path = reference_of(file, reference)
        if path is None:
            return None
        found = read_photo(path, max_pixels=max_pixels)
        if found.size != photo.size:
            raise UnreadableFile(f"{shown(path)} has {_size(found)} pixels, {shown(file)} has {_size(photo)}")
        return found
    except PhotoError as error:
        failures.append(error)
        return None


def _compared_runs(files: Sequence[str], failures: list[PhotoError]) -> Sections:
    from tecu.certificate import violations
    from tecu.checkpoint import load_state
    from tecu.history import History
    from tecu.report import compared_runs

    histories, verdicts = {}, {}
    for file in files:
        try:
            state = load_state(file)
        except (OSError, ValueError) as error:
            failures.append(UnreadableFile(unread(file, error)))
            continue
        name = Path(as_text(file)).stem
        name = as_text(file) if name in histories else name
        histories[name] = History.of(state)
        broken = len(violations(state.start_value, state.visits))
        verdicts[name] = f"{broken} of {len(state.visits)} visits break the descent that the theorem needs"
    return [compared_runs(histories, verdicts)] if histories else []


def _size(photo: Photo) -> str:
    return f"{photo.size[0]} x {photo.size[1]}"
