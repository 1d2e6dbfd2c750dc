"""A photo in memory: pixels, transparency, and what its file said beside them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[Any]
"""``uint8`` or ``uint16``; ``(rows, columns)`` for grey, ``(rows, columns, 3)`` for RGB."""


@dataclass(frozen=True)
class Metadata:
    """What travels with the pixels: EXIF (upright, no thumbnail), ICC profile, resolution in dots an inch.

    ``colour`` is what a PNG file says of its colours beside a profile: names and data of its chunks.
    """

    exif: bytes | None = None
    icc: bytes | None = None
    dpi: tuple[float, float] | None = None
    colour: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(frozen=True)
class Encoding:
    """How the file was packed, so that the result can be packed alike."""

    format: str
    quantization: dict[int, list[int]] | None = None
    subsampling: int | None = None
    progressive: bool = False
    lossless: bool = True


@dataclass(frozen=True)
class Photo:
    """Pixels as they are seen (upright), transparency apart, and what the file said beside them.

    ``notes`` are sentences about what was changed on reading: CMYK converted, a palette expanded, and so on.

    >>> import numpy as np
    >>> photo = Photo(np.zeros((2, 3, 3), np.uint8))
    >>> photo.size, photo.bits, photo.with_pixels(photo.pixels + 9).pixels.max()
    ((3, 2), 8, np.uint8(9))
    """

    pixels: Pixels
    alpha: Pixels | None = None
    metadata: Metadata = Metadata()
    encoding: Encoding = Encoding("PNG")
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        shape, kind = self.pixels.shape, self.pixels.dtype
        if kind not in (np.uint8, np.uint16):
            raise TypeError(f"pixels: expected uint8 or uint16, got {kind}")
        if not (len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)) or 0 in shape:
            raise ValueError(f"pixels: expected (rows, columns) or (rows, columns, 3), got {shape}")
        if self.alpha is not None and (self.alpha.shape != shape[:2] or self.alpha.dtype != kind):
            raise ValueError(
                f"alpha: expected {shape[:2]} of {kind} like the pixels, got {self.alpha.shape} of {self.alpha.dtype}"
            )

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return self.pixels.shape[1], self.pixels.shape[0]

    @property
    def bits(self) -> int:
        """Bits a channel: 8 or 16."""
        return 8 * self.pixels.dtype.itemsize

    def with_pixels(self, pixels: Pixels) -> Photo:
        """The same photo with other pixels of the same size; transparency and metadata stay."""
        return replace(self, pixels=pixels)
