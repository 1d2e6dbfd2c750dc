"""``tecu score``: NIQE of photos, and PSNR, SSIM, LOE against a reference."""

from __future__ import annotations

import json
import math
import os
import warnings
from typing import Any

import click
import numpy as np

from tecu.atomic import escaped
from tecu.cli.main import INPUT_FAILED, PART_MISSING
from tecu.cli.outputs import unread
from tecu.lowlight.files import MAX_PIXELS, MissingPart, Photo, PhotoError, UnreadableFile, read_photo
from tecu.lowlight.files.errors import shown
from tecu.lowlight.plan import photos_in
from tecu.metrics import loe, niqe, psnr, ssim
from tecu.metrics.niqe import ORIGIN

PARAMETERS = {
    "niqe": f"luminance, blocks of 96 x 96, {ORIGIN}; lower is better, but never judge by it alone",
    "psnr": "dB, plain (nothing is scaled to the reference), all channels",
    "ssim": "uniform window 7 x 7, sample covariance, mean over the channels",
    "loe": "largest channel, shrunk to a shorter side of 50 pixels, 256 levels; the reference should be the dark input",
}
Scores = dict[str, float | None]


@click.command()
@click.argument("images", nargs=-1, required=True, metavar="IMAGE...")
@click.option("--reference", metavar="REF", help="A photo, or a folder with photos of the same names.")
@click.option("--max-pixels", type=click.IntRange(1), default=MAX_PIXELS, show_default=True, metavar="N",
              help="Refuse larger photos.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Figures as JSON.")
def score(images: tuple[str, ...], reference: str | None, max_pixels: int, as_json: bool) -> int:
    """Measure photos: NIQE alone; with --reference also PSNR, SSIM and LOE against it, and its own NIQE.

    IMAGE is a photo, or a folder: then the photos in it. Transparency is left out. A grey photo is compared with a
    coloured one as colour, 8 bits with 16 as 16.
    """
    warnings.filterwarnings("ignore", module="PIL")
    if reference is not None and not os.path.exists(reference):
        raise click.UsageError(f"--reference: there is no {shown(reference)}")
    rows: list[tuple[str, Scores]] = []
    failures: list[tuple[str, Exception]] = []
    seen: dict[str, Scores] = {}
    for image in _photos(images, failures):
        try:
            against = reference_of(image, reference)
            if against is not None and against not in seen:
                seen[against] = {"niqe": _niqe(read_photo(against, max_pixels=max_pixels))}
            rows.append((image, _scores(image, against, max_pixels)))
        except (PhotoError, ValueError) as error:
            failures.append((image, error))
    columns = ["niqe"] if reference is None else ["niqe", "psnr", "ssim", "loe"]
    if as_json:
        _print_json(rows, seen, failures, columns)
    else:
        _print_table(rows, seen, columns)
    for image, reason in failures:
        sentence = str(reason) if isinstance(reason, PhotoError) else f"{shown(image)}: {reason}"
        click.echo(click.style("failed: ", fg="red") + escaped(sentence), err=True)
    if failures and all(isinstance(reason, MissingPart) for _, reason in failures):
        return PART_MISSING
    return INPUT_FAILED if failures else 0


def _photos(images: tuple[str, ...], failures: list[tuple[str, Exception]]) -> list[str]:
    """The photos that are named, in folders' places those in them; what cannot be looked into goes to ``failures``."""
    photos: list[str] = []
    for image in images:
        try:
            found = photos_in(image) if os.path.isdir(image) else [image]
        except OSError as error:
            failures.append((image, UnreadableFile(unread(image, error))))
            continue
        photos += found
        if not found:
            failures.append((image, UnreadableFile(f"{shown(image)} holds no photos")))
    return photos


def reference_of(image: str, reference: str | None) -> str | None:
    """The reference itself, or the photo of the same name if it is a folder."""
    if reference is None or not os.path.isdir(reference):
        return reference
    exact = os.path.join(reference, os.path.basename(image))
    if os.path.exists(exact):
        return exact
    stem = os.path.splitext(os.path.basename(image))[0]
    try:
        alike = [path for path in photos_in(reference) if os.path.splitext(os.path.basename(path))[0] == stem]
    except OSError as error:
        raise UnreadableFile(unread(reference, error)) from error
    if not alike:
        raise UnreadableFile(f"{shown(image)}: {shown(reference)} holds no photo of that name")
    if len(alike) > 1:
        raise UnreadableFile(f"{shown(image)}: {shown(reference)} holds {len(alike)} photos of that name")
    return alike[0]


def _scores(image: str, reference: str | None, max_pixels: int) -> Scores:
    photo = read_photo(image, max_pixels=max_pixels)
    return photo_scores(photo, None if reference is None else read_photo(reference, max_pixels=max_pixels))


def photo_scores(photo: Photo, reference: Photo | None) -> Scores:
    """NIQE alone, or all scores against a reference."""
    scores: Scores = {"niqe": _niqe(photo)}
    if reference is None:
        return scores
    first, second = _alike(photo, reference)
    return scores | {"psnr": psnr(first, second), "ssim": ssim(first, second), "loe": loe(first, second)}


def _niqe(photo: Photo) -> float | None:
    """The score, or none for a picture that is too small or too flat to have one."""
    try:
        return niqe(photo.pixels)
    except ValueError:
        return None


def _alike(first: Photo, second: Photo) -> tuple[Any, Any]:
    """Both in colour if one is, both with 16 bits if one is."""
    arrays = [first.pixels, second.pixels]
    if arrays[0].ndim != arrays[1].ndim:
        arrays = [np.repeat(a[..., np.newaxis], 3, axis=2) if a.ndim == 2 else a for a in arrays]
    if first.bits != second.bits:
        arrays = [a if a.dtype == np.uint16 else a.astype(np.uint16) * 257 for a in arrays]
    return arrays[0], arrays[1]


def _print_table(rows: list[tuple[str, Scores]], references: dict[str, Scores], columns: list[str]) -> None:
    lines = [(shown(name), scores) for name, scores in rows]
    if len(rows) > 1:
        lines.append(("mean", {c: _mean([scores[c] for _, scores in rows]) for c in columns}))
    lines += [(f"{shown(name)} (reference)", scores) for name, scores in references.items()]
    if not lines:
        return
    width = max(len("image"), *(len(name) for name, _ in lines))
    click.echo("  ".join(["image".ljust(width), *(column.upper().rjust(8) for column in columns)]))
    for name, scores in lines:
        click.echo("  ".join([name.ljust(width), *(shown_score(c, scores.get(c)).rjust(8) for c in columns)]).rstrip())
    click.echo()
    for column in columns:
        click.echo(f"{column.upper()}: {PARAMETERS[column]}")
    if any(shown_score("niqe", scores["niqe"]) == "-" for _, scores in lines):
        click.echo("A photo that is too small or too flat has no NIQE, and no say in the mean.")


def shown_score(column: str, value: float | None) -> str:
    """A score with as many digits as mean something."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{ {'niqe': 4, 'psnr': 2, 'ssim': 4, 'loe': 1}[column] }f}"


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return sum(known) / len(known) if known else None


def _print_json(
    rows: list[tuple[str, Scores]],
    references: dict[str, Scores],
    failures: list[tuple[str, Exception]],
    columns: list[str],
) -> None:
    def entry(name: str, scores: Scores) -> dict[str, Any]:
        # JSON knows neither nan nor inf
        return {"image": name} | {c: v if v is not None and math.isfinite(v) else None for c, v in scores.items()}

    document = {
        "parameters": {column: PARAMETERS[column] for column in columns},
        "results": [entry(name, scores) for name, scores in rows],
        "references": [entry(name, scores) for name, scores in references.items()],
        "failures": [{"image": name, "reason": str(error)} for name, error in failures],
    }
    click.echo(json.dumps(document, indent=2))
