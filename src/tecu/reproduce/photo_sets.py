"""Sets of dark photos, with or without a reference: folders, or the photos inside scikit-learn and scikit-image."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Pixels = np.ndarray[Any, Any]

DARK_FOLDERS = ("low", "dark", "input")
BRIGHT_FOLDERS = ("high", "ref", "reference", "normal", "clean", "gt")
LONGEST_SIDE = 600  # of the photos that are darkened here
BUILT_IN = ("astronaut", "coffee", "chelsea", "rocket")  # of scikit-image; all but chelsea without a download
UNSEEN = ("stereo_motorcycle", "coins")


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


def inside_packages() -> list[PhotoSet]:
    """The sets that are taken when no folder is named; those that the networks have not seen come last."""
    return [photos for photos in (built_in(), unseen()) if len(photos)]


def built_in() -> PhotoSet:
    """The photos inside scikit-learn, and inside scikit-image where it is installed, darkened by a known light.

    The light falls off to one side, by 1 to 4 stops; noise and 8-bit rounding follow. The clean photo is the reference.
    The default weights were trained on pictures made from these photos: see :func:`unseen` for others.
    """
    from sklearn.datasets import load_sample_images

    clean = dict(zip(("china", "flower"), load_sample_images().images, strict=True))
    return _darkened("built-in", clean | _of_skimage(BUILT_IN))


def unseen() -> PhotoSet:
    """Photos inside scikit-image and Matplotlib, if installed, that no network was trained on; darkened alike."""
    clean = _of_skimage(UNSEEN)
    with contextlib.suppress(ImportError, OSError):
        from matplotlib import get_data_path
        from PIL import Image

        with Image.open(Path(get_data_path()) / "sample_data" / "grace_hopper.jpg") as portrait:
            clean["grace_hopper"] = np.asarray(portrait.convert("RGB"))
    return _darkened("built-in-unseen", clean)


def _of_skimage(names: Sequence[str]) -> dict[str, Pixels]:
    try:
        from skimage import data
    except ImportError:
        return {}
    found = {}
    for name in names:
        with contextlib.suppress(OSError, ImportError):  # scikit-image fetches some, and there may be no network
            picture = getattr(data, name)()
            found[name] = picture[0] if isinstance(picture, tuple) else picture  # the left one of a stereo pair
    return found


def _darkened(name: str, clean: Mapping[str, Pixels]) -> PhotoSet:
    photos = []
    for place, (title, image) in enumerate(clean.items()):
        pixels = np.asarray(image)
        pixels = np.repeat(pixels[..., None], 3, axis=2) if pixels.ndim == 2 else pixels[..., :3]
        reference = _at_most(pixels, LONGEST_SIDE)
        photos.append(DarkPhoto(title, darkened(reference, np.random.default_rng(place)), reference))
    return PhotoSet(name, photos=photos)


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
