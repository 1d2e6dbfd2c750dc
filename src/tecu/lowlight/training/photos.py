"""Clean photos from a folder, with their licences."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tecu.lowlight.files import PhotoError, read_photo
from tecu.lowlight.files.write import eight_bits

SUFFIXES = frozenset({".jpg", ".jpeg", ".png", ".tif", ".tiff", ".webp", ".bmp"})
LONGEST_SIDE = 1280
LICENCE_FILE = "licences.csv"


@dataclass(frozen=True)
class Photo:
    """A clean photo: 8-bit RGB pixels, its file name, and what ``licences.csv`` says about it."""

    name: str
    pixels: np.ndarray[Any, Any]
    licence: str = "not stated"
    author: str = "not stated"
    source: str = ""


def load_photos(folder: str | Path) -> list[Photo]:
    """The photos below ``folder`` in the order of their names, each at most 1280 pixels long.

    As in ``tecu enhance``, hidden names and folders with the name of a picture are left out. A file ``licences.csv`` in
    the folder (columns ``file``, ``licence``, ``author``, ``source``) tells the licence of each photo; it ends up in
    the model's card.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"photos: {str(folder)!r} is not a folder")
    stated = _licences(folder / LICENCE_FILE)
    photos = []
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or path.suffix.lower() not in SUFFIXES or path.is_dir():
            continue
        row = stated.get(path.name, {})
        photos.append(
            Photo(
                name=path.name,
                pixels=_pixels(path),
                licence=row.get("licence") or "not stated",
                author=row.get("author") or "not stated",
                source=row.get("source") or "",
            )
        )
    if len(photos) < 2:
        raise ValueError(f"photos: {str(folder)!r} holds {len(photos)} picture files, at least 2 are needed")
    return photos


def _licences(path: Path) -> dict[str, dict[str, str]]:
    if not path.is_file():
        return {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as handle:  # Excel begins with a mark of the encoding
            return {row.get("file", ""): row for row in csv.DictReader(handle)}
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        why = getattr(error, "strerror", None) or error  # the system's words without its number
        raise ValueError(f"photos: {str(path)!r} cannot be read: {why}") from error


def _pixels(path: Path) -> np.ndarray[Any, Any]:
    try:
        pixels = read_photo(path).pixels
    except PhotoError as error:  # which names the file
        raise ValueError(f"photos: {error}") from error
    eight = pixels if pixels.dtype == np.uint8 else eight_bits(pixels)
    rgb = Image.fromarray(eight).convert("RGB")
    rgb.thumbnail((LONGEST_SIDE, LONGEST_SIDE), Image.Resampling.LANCZOS)
    return np.asarray(rgb, dtype=np.uint8)
