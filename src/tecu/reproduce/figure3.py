"""The figure of the low-light comparison: a contact sheet a set, NIQE and seconds below each picture."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from tecu.atomic import part_beside
from tecu.reproduce.table3 import INPUT, SetResult

WIDTH = 240  # of a picture on the sheet
GAP, LINE = 6, 16


def contact_sheet(result: SetResult) -> Any:
    """A PIL image: a row a photo, a column a method."""
    from PIL import Image, ImageDraw

    if not result.sheet:
        raise ValueError(f"figure3: set {result.name!r} has no photos for a contact sheet")
    heights = [round(WIDTH * p[INPUT if INPUT in p else next(iter(p))].shape[0] / _width(p)) for _, p in result.sheet]
    columns = max(len(pictures) for _, pictures in result.sheet)
    size = (GAP + columns * (WIDTH + GAP), GAP + sum(height + 2 * LINE + GAP for height in heights))
    sheet = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(sheet)
    top = GAP
    for row, ((_, pictures), height) in enumerate(zip(result.sheet, heights, strict=True)):
        for column, (method, pixels) in enumerate(pictures.items()):
            left = GAP + column * (WIDTH + GAP)
            small = Image.fromarray(np.ascontiguousarray(pixels)).resize((WIDTH, height), Image.Resampling.LANCZOS)
            sheet.paste(small, (left, top))
            draw.text((left, top + height + 2), f"{method}  {_caption(result, method, row, pixels)}", fill="black")
        top += height + 2 * LINE + GAP
    return sheet


def _width(pictures: dict[str, Any]) -> int:
    return int(next(iter(pictures.values())).shape[1])


def _caption(result: SetResult, method: str, row: int, pixels: Any) -> str:
    """NIQE / seconds, as below the paper's pictures."""
    if method not in result.scores:
        return ""
    score = result.scores[method][row]
    seconds = score.seconds_per_megapixel * pixels.shape[0] * pixels.shape[1] / 1e6
    niqe = "-" if math.isnan(score.niqe) else f"{score.niqe:.2f}"
    return f"{niqe} / {'-' if method == INPUT else f'{seconds:.2f} s'}"


def save(result: SetResult, folder: str | Path) -> Path:
    """Write the sheet of a set into ``folder``."""
    path = Path(folder) / f"figure3-{result.name}.jpg"
    with part_beside(path, overwrite=True) as part:
        contact_sheet(result).save(part, "JPEG", quality=88)
    return path
