"""Table 3, the figure of PSNR against iterations and the figure with times as files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from tecu.atomic import write_bytes
from tecu.reproduce import figure2 as curves
from tecu.reproduce import figure3 as sheet
from tecu.reproduce import table3 as table
from tecu.reproduce.photo_sets import from_folder, inside_packages
from tecu.reproduce.table3 import METHODS, Say, SetResult

QUICK = 2  # photos of each set


def table3(
    folder: Path, quick: bool, say: Say, images: Iterable[str | Path] = (), methods: Sequence[str] = ()
) -> list[Path]:
    """Write ``table3.md`` and ``table3.json`` into ``folder``.

    ``images`` are folders of dark photos, or of pairs in ``low`` and ``high``; ``methods`` are rows besides the usual
    ones, such as ``module:function``.
    """
    results = _results(tuple(map(str, images)), tuple(methods), quick, say)
    folder.mkdir(parents=True, exist_ok=True)
    page, data = folder / "table3.md", folder / "table3.json"
    write_bytes(page, ("# Table 3\n\n" + table.markdown(results)).encode("utf-8"), overwrite=True)
    write_bytes(data, table.as_json(results).encode("utf-8"), overwrite=True)
    return [page, data]


def figure2(
    folder: Path, quick: bool, say: Say, images: Iterable[str | Path] = (), methods: Sequence[str] = ()
) -> list[Path]:
    """Write the curves of PSNR against iterations into ``folder``, with what they say; ``methods`` play no part."""
    folders = [from_folder(image) for image in images]
    photos = [photo for photo_set in folders or inside_packages() for photo in photo_set]
    say(f"figure2: {QUICK if quick else len(photos)} photos")
    found = curves.run(photos[:QUICK] if quick else photos)
    folder.mkdir(parents=True, exist_ok=True)
    return curves.save(found, folder)


def figure3(
    folder: Path, quick: bool, say: Say, images: Iterable[str | Path] = (), methods: Sequence[str] = ()
) -> list[Path]:
    """Write a contact sheet for each set into ``folder``."""
    results = _results(tuple(map(str, images)), tuple(methods), quick, say)
    folder.mkdir(parents=True, exist_ok=True)
    return [sheet.save(result, folder) for result in results]


@cache
def _results(images: tuple[str, ...], methods: tuple[str, ...], quick: bool, say: Say) -> list[SetResult]:
    """One run serves table and figure."""
    rows = [*METHODS, *(method for method in methods if method not in METHODS)]
    return table.run(images, rows, limit=QUICK if quick else None, say=say)
