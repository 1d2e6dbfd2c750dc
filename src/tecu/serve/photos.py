"""A photo of a page: its file, its preview, and what the methods make of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tecu.lowlight import Enhancer
from tecu.lowlight.batch import Outcome, Settings, process
from tecu.lowlight.enhancer import Parts
from tecu.lowlight.files import Photo, PhotoError, encode_photo, read_photo
from tecu.lowlight.files.photo import Encoding
from tecu.lowlight.plan import Task, plan
from tecu.serve.limits import Limits, Refused
from tecu.serve.preview import ORIGINAL, Look, Scene, blended, layer, rendered, smaller

Pixels = np.ndarray[Any, Any]
THUMBNAIL = 240


class PictureCache:
    """The full-size pictures that were looked at last, within so many bytes (one is always kept).

    >>> cache = PictureCache(10)
    >>> [len(cache.get(key, lambda: np.zeros(8, np.uint8))) for key in "ab"], len(cache)
    ([8, 8], 1)
    """

    def __init__(self, most_bytes: int) -> None:
        self._most, self._kept = most_bytes, OrderedDict[Any, Pixels]()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Any, make: Callable[[], Pixels]) -> Pixels:
        """The picture under ``key``, made if it is not there."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        made = make()
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > 1 and sum(picture.nbytes for picture in self._kept.values()) > self._most:
                self._kept.popitem(last=False)
        return made

    def drop(self, photo: str) -> None:
        """Forget the pictures of a photo; keys begin with its name."""
        with self._lock:
            for key in [key for key in self._kept if key[0] == photo]:
                del self._kept[key]


@dataclass
class StoredPhoto:
    """One uploaded file. ``state`` is ``"queued"``, ``"ready"`` or ``"failed"``, then with a ``reason``."""

    id: str
    name: str
    path: Path
    length: int
    tag: str = ""  # what the page calls it
    state: str = "queued"
    reason: str = ""
    notes: tuple[str, ...] = ()
    size: tuple[int, int] = (0, 0)
    preview: Photo | None = None
    _scenes: dict[str, Scene] = field(default_factory=dict, repr=False)
    _classical: dict[str, Pixels] = field(default_factory=dict, repr=False)
    _parts: dict[str, Parts] = field(default_factory=dict, repr=False)

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

    def prepare(self, limits: Limits) -> None:
        """Read the file, find its light, keep the preview; a file that cannot be read says why."""
        try:
            photo = read_photo(self.path, max_pixels=limits.pixels)
            self.size, self.notes = photo.size, photo.notes
            self._scenes["tecu"] = Scene.of(photo.pixels, "tecu")
            self.preview, self.state = smaller(photo), "ready"
        except PhotoError as error:
            self.state, self.reason = "failed", self.sentence(str(error))
        except Exception as error:  # one odd photo must not cost the others
            self.state = "failed"
            self.reason = self.sentence(f"{self.path} could not be enhanced: {type(error).__name__}: {error}")

    def sentence(self, reason: str) -> str:
        """A reason under the name that the user knows, in one line with a full stop."""
        line = (reason.replace(str(self.path), self.name).splitlines() or [""])[0].rstrip(".")
        return f"{line}."

    def shown(self, look: Look) -> Photo:
        """The preview as ``look`` asks."""
        preview = self._ready()
        if look.what == ORIGINAL:
            return preview
        if look.is_layer:
            return Photo(layer(getattr(self.parts("tecu"), look.what)), None, preview.metadata)
        if look.is_model:
            return preview.with_pixels(rendered(preview, self._scene(look.what), look))
        if look.what not in self._classical:
            self._classical[look.what] = Enhancer(look.what)(preview.pixels)
        return preview.with_pixels(blended(preview.pixels, self._classical[look.what], look.strength))

    def is_quick(self, look: Look) -> bool:
        """Whether :meth:`shown` has all it needs."""
        if look.is_layer:
            return look.what == ORIGINAL or "tecu" in self._parts
        return look.what in self._scenes or look.what in self._classical

    def thumbnail(self, look: Look) -> Photo:
        """The result, very small."""
        return smaller(self.shown(look), THUMBNAIL)

    def full(self, look: Look, cache: PictureCache, limits: Limits) -> Pixels:
        """All pixels of what ``look`` asks for."""
        self._ready()

        def make() -> Pixels:
            pixels = read_photo(self.path, max_pixels=limits.pixels).pixels
            if look.what == ORIGINAL:
                return pixels
            if look.is_layer:
                return layer(getattr(Enhancer().decompose(pixels), look.what))
            enhanced: Pixels = look.enhancer()(pixels)
            return enhanced

        return cache.get((self.id, look.key), make)

    def parts(self, method: str) -> Parts:
        """Layers, certificate and history of a method of the model, on the preview."""
        if method not in self._parts:
            self._parts[method] = Enhancer(method).decompose(self._ready().pixels)
        return self._parts[method]

    def write(self, look: Look, folder: Path, limits: Limits) -> Path:
        """The result as a file, by the very function that ``tecu enhance`` calls."""
        self._ready()
        tasks, _ = plan([str(self.path)], None)
        target = folder / Path(tasks[0].target).name
        settings = Settings(
            look.what, look.strength, look.denoise, overwrite=True, max_pixels=limits.pixels, headroom=look.headroom
        )
        outcome: Outcome = process(Task(str(self.path), str(target)), settings)
        if outcome.status != "done":
            raise Refused(422, self.sentence(outcome.reason or f"{self.path} could not be enhanced"))
        return target

    def _scene(self, method: str) -> Scene:
        if method not in self._scenes:  # on the preview: the light is found on a still smaller grid
            self._scenes[method] = Scene.of(self._ready().pixels, method)
        return self._scenes[method]

    def _ready(self) -> Photo:
        if self.preview is None:
            raise Refused(409, self.reason or f"{self.name} is not read yet.")
        return self.preview


def jpeg(photo: Photo, *, quick: bool = False) -> bytes:
    """A picture for the browser, with its colour profile; ``quick`` takes half the time for coarser colours."""
    if quick:
        photo = replace(photo, encoding=Encoding("JPEG", subsampling=2))
    return encode_photo(photo, "JPEG")[0]


def warm_up() -> None:
    """Load networks and compiled code before the first photo comes: that takes longer than the photo."""
    grey = np.random.default_rng(0).integers(0, 40, (1000, 800, 3), dtype=np.uint8)
    Enhancer()(grey)
