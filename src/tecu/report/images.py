"""Pictures on a page: two under one draggable divider, and the atoms of a dictionary on a grid."""

from __future__ import annotations

import html
import io
import math
from typing import Any

import numpy as np

from tecu.report.pages import Section, data_uri

Pixels = np.ndarray[Any, Any]
LONGEST = 1200  # the longer side of a picture on a page


def pictures(
    before: Any,
    after: Any,
    *,
    title: str = "Before and after",
    names: tuple[str, str] = ("before", "after"),
    caption: str = "",
    longest: int = LONGEST,
    profiles: tuple[bytes | None, bytes | None] = (None, None),
) -> Section:
    """Two pictures of the same size under one divider, which mouse, finger and arrow keys move.

    ``before`` and ``after`` are ``h x w``, ``h x w x 3`` or ``h x w x 4`` arrays (uint8, uint16, floats in [0, 1]) or
    PIL images. They are shrunk to a longer side of ``longest`` pixels; in print they stand side by side. ``profiles``
    are the ICC profiles of arrays, which make a browser show their true colours; PIL images bring their own.

    >>> import numpy as np
    >>> dark = np.zeros((4, 6, 3), np.uint8)
    >>> pictures(dark, dark + 200).body.count("<img")
    2
    """
    first, second = map(_image, (before, after), names, profiles)
    if first.size != second.size:
        raise ValueError(
            f"pictures must have the same size, got {first.size} ({names[0]}) and {second.size} ({names[1]})"
        )
    left, right, about = html.escape(names[0]), html.escape(names[1]), html.escape(title)
    told = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    body = (
        f'<figure class="divider"><span class="stage">'
        f'<img src="{_encoded(first, longest)}" alt="{left}"><img src="{_encoded(second, longest)}" alt="{right}">'
        f'<input type="range" min="0" max="100" value="50" '
        f'aria-label="{about}: how much of {left} is shown, against {right}">'
        f'<span class="edge"></span><span class="name first">{left}</span><span class="name second">{right}</span>'
        f"</span>{told}</figure>"
    )
    return Section(title, body)


def reduced(picture: Any, profile: bytes | None = None, longest: int = LONGEST) -> Any:
    """A picture as a PIL image of the size it has on a page, so that the large one need not be held for long.

    >>> import numpy as np
    >>> reduced(np.zeros((400, 800, 3), np.uint8), longest=200).size
    (200, 100)
    """
    return _smaller(_image(picture, "picture", profile), longest)


def atoms(components: Any, shape: tuple[int, ...] | None = None, *, title: str = "Atoms", usage: Any = None) -> Section:
    """The atoms of a dictionary on a grid, each stretched to its own largest entry.

    Parameters
    ----------
    components
        ``n_components x n_features``, as a fitted estimator has them.
    shape
        Of one atom: ``(height, width)`` or ``(height, width, 3)``. ``None`` takes a square where the number of
        features is one, otherwise a strip.
    usage
        How often each atom is used; the most used come first.

    Examples
    --------
    >>> import numpy as np
    >>> atoms(np.eye(16), (4, 4)).body.count("<img")
    1
    """
    from PIL import Image

    grid = mosaic(components, shape, usage)
    stream = io.BytesIO()
    Image.fromarray(grid).save(stream, "PNG", optimize=True)
    count, features = np.shape(components)
    said = f"{count} atoms of {features} entries each"
    if usage is not None:
        said += f", the most used first; never used: {int(np.count_nonzero(np.asarray(usage) == 0))}"
    source = data_uri(stream.getvalue(), "image/png")
    body = f'<figure class="atoms"><img src="{source}" alt="{said}"><figcaption>{said}.</figcaption></figure>'
    return Section(title, body)


def mosaic(components: Any, shape: tuple[int, ...] | None = None, usage: Any = None) -> Pixels:
    """The picture that :func:`atoms` shows, ``uint8``: zero is mid-grey, atoms are framed by white lines."""
    D = np.asarray(components, dtype=np.float64)
    if D.ndim != 2 or 0 in D.shape:
        raise ValueError(f"components must be n_components x n_features, got shape {D.shape}")
    shape = _atom_shape(D.shape[1]) if shape is None else tuple(shape)
    fits = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not fits or math.prod(shape) != D.shape[1]:
        raise ValueError(f"shape must be (h, w) or (h, w, 3) with a product of {D.shape[1]}, got {shape}")
    if usage is not None:
        if len(usage) != len(D):
            raise ValueError(f"usage must have one number an atom, {len(D)}, got {len(usage)}")
        D = D[np.argsort(-np.asarray(usage), kind="stable")]
    height, width = shape[:2]
    columns = max(1, min(len(D), round(math.sqrt(len(D) * height / width)))) if height > 1 else 1
    rows = -(-len(D) // columns)
    canvas = np.full((rows * (height + 1) + 1, columns * (width + 1) + 1, *shape[2:]), 255, np.uint8)
    for k, atom in enumerate(D):
        largest = np.abs(atom).max() or 1.0
        top, left = 1 + (k // columns) * (height + 1), 1 + (k % columns) * (width + 1)
        canvas[top : top + height, left : left + width] = np.rint(127.5 + 127.5 * atom / largest).reshape(shape)
    return canvas


def _atom_shape(features: int) -> tuple[int, ...]:
    side = math.isqrt(features)
    if side * side == features:
        return side, side
    side = math.isqrt(features // 3)
    return (side, side, 3) if 3 * side * side == features else (1, features)


def _image(picture: Any, name: str, profile: bytes | None) -> Any:
    """The PIL image of a picture, with its profile."""
    from PIL import Image

    if isinstance(picture, Image.Image):
        if not picture.mode.startswith(("I;16", "F")):
            return picture if picture.mode in ("L", "RGB", "RGBA") else picture.convert("RGB")
        profile = picture.info.get("icc_profile")  # Pillow would clip these at 255
    pixels = np.asarray(picture)
    pixels = pixels.astype(pixels.dtype.newbyteorder("="), copy=False)
    if pixels.ndim == 3 and pixels.shape[2] == 1:
        pixels = pixels[..., 0]
    if not (pixels.ndim == 2 or (pixels.ndim == 3 and pixels.shape[2] in (3, 4))) or 0 in pixels.shape:
        raise ValueError(f"{name}: a picture is h x w, h x w x 3 or h x w x 4, got shape {pixels.shape}")
    if pixels.dtype == np.uint16:
        pixels = (pixels // 257).astype(np.uint8)
    elif np.issubdtype(pixels.dtype, np.floating):
        pixels = np.rint(255 * np.clip(np.nan_to_num(pixels), 0.0, 1.0)).astype(np.uint8)
    elif pixels.dtype != np.uint8:
        raise TypeError(f"{name}: pixels must be uint8, uint16 or floats in [0, 1], got {pixels.dtype}")
    image = Image.fromarray(np.ascontiguousarray(pixels))
    image.info["icc_profile"] = profile
    return image


def _smaller(image: Any, longest: int) -> Any:
    scale = longest / max(image.size)
    if scale >= 1:
        return image
    size = [max(1, round(scale * side)) for side in image.size]
    return image.resize(size, 1, reducing_gap=3.0)  # 1: Lanczos, after means of whole cells


def _encoded(image: Any, longest: int) -> str:
    """JPEG where there is no transparency; small pictures as PNG, so that no artefact of ours is compared."""
    image = _smaller(image, longest)
    profile = image.info.get("icc_profile") or b""
    if profile[16:20] != (b"GRAY" if image.mode == "L" else b"RGB "):  # of the colours before a conversion, say
        profile = b""
    stream = io.BytesIO()
    if image.mode == "RGBA" or max(image.size) <= 256:
        image.save(stream, "PNG", icc_profile=profile)
        return data_uri(stream.getvalue(), "image/png")
    image.save(stream, "JPEG", quality=90, icc_profile=profile)
    return data_uri(stream.getvalue(), "image/jpeg")
