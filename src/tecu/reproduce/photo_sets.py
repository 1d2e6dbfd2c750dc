"""Sets of dark photos, with or without a reference: folders, or the photos inside scikit-learn and scikit-image."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]

DARK_FOLDERS = ("low", "dark", "input")
BRIGHT_FOLDERS = ("high", "ref", "reference", "normal", "clean", "gt")
LONGEST_SIDE = 600  # of the photos that are darkened here
BUILT_IN = ("astronaut", "coffee", "chelsea", "rocket")  # of scikit-image; all but chelsea without a download


@dataclass(frozen=True)
class DarkPhoto:
    """An 8-bit RGB photo and, where there is one, what it should look like."""

    name: str
    dark: Pixels
    reference: Pixels | None = None


@dataclass(frozen=True)
class PhotoSet:
    """A named list of photos; those of a folder are read when they are asked for."""

    name: str
    paths: Sequence[tuple[Path, Path | None]] = ()
    photos: Sequence[DarkPhoto] = ()

    def __len__(self) -> int:
        return len(self.paths) + len(self.photos)

    def __iter__(self) -> Iterator[DarkPhoto]:
        yield from self.photos
        for dark, reference in self.paths:
            yield DarkPhoto(dark.stem, read_rgb(dark), None if reference is None else read_rgb(reference))


def from_folder(folder: str | Path) -> PhotoSet:
    """The photos of a folder; one with sub-folders ``low`` and ``high`` (or ``ref`` ...) holds pairs of equal names."""
    from tecu.lowlight.files import READABLE

    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"images: {str(folder)!r} is not a folder")

    def photos(inside: Path) -> list[Path]:
        return sorted(path for path in inside.iterdir() if path.suffix.lower() in READABLE)

    low = next((folder / name for name in DARK_FOLDERS if (folder / name).is_dir()), None)
    high = next((folder / name for name in BRIGHT_FOLDERS if (folder / name).is_dir()), None)
    found: list[tuple[Path, Path | None]]
    if low is not None and high is not None:
        references = {path.stem: path for path in photos(high)}
        found = [(path, references[path.stem]) for path in photos(low) if path.stem in references]
    else:
        found = [(path, None) for path in photos(folder)]
    if not found:
        raise ValueError(f"images: {str(folder)!r} holds no photos, nor pairs in 'low' and 'high'")
    return PhotoSet(folder.resolve().name, paths=found)


def built_in() -> PhotoSet:
    """The photos inside scikit-learn, and inside scikit-image where it is installed, darkened by a known light.

    The light falls off to one side, by 1 to 4 stops; noise and 8-bit rounding follow. The clean photo is the reference.
    """
    from sklearn.datasets import load_sample_images

    clean = {
        Path(name).stem: image for name, image in zip(("china", "flower"), load_sample_images().images, strict=True)
    }
    try:
        from skimage import data
    except ImportError:
        pass
    else:
        for name in BUILT_IN:
            try:
                clean[name] = getattr(data, name)()
            except (OSError, ImportError):  # scikit-image fetches some photos, and there may be no network
                continue
    photos = []
    for place, (name, image) in enumerate(clean.items()):
        reference = _at_most(np.asarray(image)[..., :3], LONGEST_SIDE)
        photos.append(DarkPhoto(name, darkened(reference, np.random.default_rng(place)), reference))
    return PhotoSet("built-in", photos=photos)


def darkened(clean: Pixels, rng: np.random.Generator) -> Pixels:
    """``clean`` times a light that falls off across the picture, with noise, in 8 bits."""
    height, width = clean.shape[:2]
    angle = rng.uniform(0.0, 2.0 * np.pi)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    across = (np.cos(angle) * x + np.sin(angle) * y) / np.sqrt(2.0)  # -1 to 1
    light = 2.0 ** -(rng.uniform(2.0, 3.0) + across)
    noisy = clean / 255.0 * light[..., None] + rng.normal(0.0, 0.004, clean.shape)
    return np.asarray(np.rint(np.clip(noisy, 0.0, 1.0) * 255.0), dtype=np.uint8)


def read_rgb(path: Path) -> Pixels:
    """A photo as 8-bit RGB."""
    from tecu.lowlight.files import read_photo

    pixels = read_photo(path).pixels
    if pixels.dtype != np.uint8:
        pixels = np.asarray(np.rint(pixels / 257.0), dtype=np.uint8)
    pixels = pixels[..., None] if pixels.ndim == 2 else pixels
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels[..., :3]


def _at_most(image: Pixels, longest: int) -> Pixels:
    from PIL import Image

    picture = Image.fromarray(image)
    picture.thumbnail((longest, longest), Image.Resampling.LANCZOS)
    return np.asarray(picture)
