"""A photo of a page: its file, its preview, and what the methods make of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tecu.lowlight import Enhancer
from tecu.lowlight.batch import Settings, process
from tecu.lowlight.files import Photo, PhotoError, UnreadableFile, encode_photo, read_photo
from tecu.lowlight.files.photo import Encoding
from tecu.lowlight.images import on_visible, visible_pixels
from tecu.lowlight.plan import Task, plan
from tecu.report.words import certificate_html
from tecu.serve.limits import Limits, Refused
from tecu.serve.preview import (
    ORIGINAL,
    Look,
    Scene,
    blended,
    layer_part,
    rendered,
    smaller,
)

Pixels = np.ndarray[Any, Any]
Kept = TypeVar("Kept", Pixels, Photo)
THUMBNAIL = 240
COLUMNS = ("iteration", "value", "lyapunov", "error_I", "tolerance_I")


class PictureCache:
    """The pictures that were looked at last, within so many bytes (one is always kept); others are made anew.

    Keys are tuples that begin with the name of a photo.

    >>> cache = PictureCache(10)
    >>> [len(cache.get((key, "preview"), lambda: np.zeros(8, np.uint8))) for key in "ab"], len(cache)
    ([8, 8], 1)
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._kept = most_bytes, OrderedDict[tuple[Hashable, ...], Any]()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: tuple[Hashable, ...]) -> bool:
        return key in self._kept

    def get(self, key: tuple[Hashable, ...], make: Callable[[], Kept]) -> Kept:
        """The picture under ``key``, made if it is not there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                found: Kept = self._kept[key]
                return found
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > 1 and sum(map(_bytes, self._kept.values())) > self._most:
                self._kept.popitem(last=False)
        return made

    def drop(self, photo: str) -> None:
        """Forget the pictures of a photo."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == photo]:
                del self._kept[key]


def _bytes(picture: Pixels | Photo) -> int:
    if isinstance(picture, Photo):
        return picture.pixels.nbytes + (0 if picture.alpha is None else picture.alpha.nbytes)
    return picture.nbytes


@dataclass
class StoredPhoto:
    """One uploaded file. ``state`` is ``"queued"``, ``"ready"`` or ``"failed"``, then with a ``reason``."""

    id: str
    name: str
    path: Path
    length: int
    cache: PictureCache
    limits: Limits
    tag: str = ""  # what the page calls it
    state: str = "queued"
    reason: str = ""
    notes: tuple[str, ...] = ()
    size: tuple[int, int] = (0, 0)
    _scenes: dict[str, Scene] = field(default_factory=dict, repr=False)
    _runs: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    def told(self) -> dict[str, Any]:
        """What the browser needs to know."""
        return {
            "subject": "photo",
            "id": self.id,
            "tag": self.tag,
            "name": self.name,
            "state": self.state,
            "reason": self.reason,
            "notes": list(self.notes),
            "width": self.size[0],
            "height": self.size[1],
        }

    def prepare(self) -> None:
        """Read the file, find its light, keep the preview; a file that cannot be read says why."""
        try:
            photo = self._read()
            self.size, self.notes = photo.size, photo.notes
            self._scenes["tecu"] = Scene.of(photo, "tecu")
            self.cache.get((self.id, "preview"), lambda: smaller(photo))
            self.state = "ready"
        except PhotoError as error:
            self.state, self.reason = "failed", self.sentence(str(error))
        except Exception as error:  # one odd photo must not cost the others
            self.state = "failed"
            self.reason = self.sentence(f"{self.path} could not be enhanced: {type(error).__name__}: {error}")

    def sentence(self, reason: str) -> str:
        """A reason under the name that the user knows, in one line with a full stop."""
        line = (reason.replace(str(self.path), self.name).splitlines() or [""])[0].rstrip(".")
        return f"{line}."

    # ---- the preview ----

    @property
    def preview(self) -> Photo:
        """The photo made small; read again if the cache has lost it."""
        self._demand_ready()
        return self.cache.get((self.id, "preview"), lambda: smaller(self._read()))

    def shown(self, look: Look) -> Photo:
        """The preview as ``look`` asks."""
        preview = self.preview
        if look.what == ORIGINAL:
            return preview
        if look.is_layer:
            return Photo(
                layer_part(self._seen(preview), self._scene("tecu").at(look), look.what), None, preview.metadata
            )
        if look.is_model:
            return preview.with_pixels(rendered(preview, self._scene(look.what), look))
        full: Pixels = self.cache.get(
            (self.id, look.what), lambda: on_visible(preview.alpha, preview.pixels, Enhancer(look.what))
        )
        return preview.with_pixels(blended(preview.pixels, full, look.strength))

    def is_quick(self, look: Look) -> bool:
        """Whether :meth:`shown` has all it needs."""
        known = look.is_layer or look.what in self._scenes or (self.id, look.what) in self.cache
        return known and (self.id, "preview") in self.cache

    def thumbnail(self, look: Look) -> Photo:
        """The result, very small."""
        return smaller(self.shown(look), THUMBNAIL)

    def run(self, method: str) -> dict[str, Any]:
        """How a method of the model found the light of the preview: the certificate in words, the curves in numbers."""
        if method not in self._runs:
            parts = Enhancer(method).on_grid(self._seen(self.preview))
            history = parts.history
            columns = {name: [_number(value) for value in history[name]] for name in COLUMNS if name in history}
            words = certificate_html(parts.certificate)
            self._runs[method] = {"holds": parts.certificate.holds, "words": words, "columns": columns}
        return self._runs[method]

    # ---- full size ----

    def part(self, look: Look, rows: slice, columns: slice) -> Photo:
        """A part of what ``look`` asks for, pixel by pixel."""
        preview = self.preview
        photo: Photo = self.cache.get((self.id, "full size"), self._read)
        original, alpha = photo.pixels, photo.alpha
        if rows.start >= self.size[1] or columns.start >= self.size[0]:
            raise Refused(422, f"{self.name} has {self.size[0]} x {self.size[1]} pixels; this part is outside.")
        if look.what == ORIGINAL:
            pixels = original[rows, columns]
        elif look.is_layer:
            seen = self._seen(photo, "full size, seen")
            pixels, alpha = layer_part(seen, self._scene("tecu").at(look), look.what, rows, columns), None
        else:
            full: Pixels = self.cache.get((self.id, look.key), lambda: on_visible(alpha, original, look.enhancer()))
            pixels = full[rows, columns]
        return Photo(pixels.copy(), None if alpha is None else alpha[rows, columns].copy(), preview.metadata)

    def write(self, look: Look, folder: Path) -> Path:
        """The result as a file, by the very function that ``tecu enhance`` calls."""
        self._demand_ready()
        tasks, _ = plan([str(self.path)], None)
        target = folder / Path(tasks[0].target).name
        settings = Settings(
            look.what,
            look.strength,
            look.denoise,
            overwrite=True,
            max_pixels=self.limits.pixels,
            headroom=look.headroom,
        )
        outcome = process(Task(str(self.path), str(target)), settings)
        if outcome.status != "done":
            raise Refused(422, self.sentence(outcome.reason or f"{self.path} could not be enhanced"))
        return target

    def _demand_ready(self) -> None:
        if self.state != "ready":
            raise Refused(409, self.reason or f"{self.name} is not read yet.")

    def _read(self) -> Photo:
        """The photo; a file with a video's name is none: ``process`` would hand it to ffmpeg, which opens what it says.

        What is uploaded may come from anywhere, and a playlist names other files.
        """
        if Task(str(self.path), "").is_video:
            raise UnreadableFile(f"{self.path} has the name of a video; the page takes photos, tecu enhance videos too")
        return read_photo(self.path, max_pixels=self.limits.pixels)

    def _seen(self, photo: Photo, key: str = "seen") -> Pixels:
        """The pixels of the preview, or of the whole under another key, without those that transparency hides."""
        if photo.alpha is None:
            return photo.pixels
        return self.cache.get((self.id, key), lambda: visible_pixels(photo.alpha, photo.pixels))

    def _scene(self, method: str) -> Scene:
        if method not in self._scenes:  # on the preview: the light is found on a still smaller grid
            self._scenes[method] = Scene.of(self.preview, method)
        return self._scenes[method]


def _number(value: float) -> float | None:
    return float(value) if -1e300 < value < 1e300 else None  # JSON knows no NaN


def jpeg(photo: Photo, *, quick: bool = False) -> bytes:
    """A picture for the browser, with its colour profile; ``quick`` takes half the time for coarser colours."""
    if quick:
        photo = replace(photo, encoding=Encoding("JPEG", subsampling=2))
    return encode_photo(photo, "JPEG")[0]


def warm_up() -> None:
    """Load networks and compiled code before the first photo comes: that takes longer than the photo."""
    grey = np.random.default_rng(0).integers(0, 40, (1000, 800, 3), dtype=np.uint8)
    Enhancer()(grey)
