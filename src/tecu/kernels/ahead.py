"""Bitcode that comes with the package, so that nobody's first call waits for numba.

One file a family, made when the package is built (``hatch_build.py``). Entries are named after the kernel, its
precision, a digest of its source and the kind of processor: a kernel that was changed since is not found, and numba
compiles it.
"""

from __future__ import annotations

import logging
import zipfile
from pathlib import Path

log = logging.getLogger("tecu")


def read(file: Path, name: str) -> tuple[str, bytes] | None:
    """The symbol and the bitcode of an entry; ``None`` if there is none."""
    try:
        with zipfile.ZipFile(file) as archive:
            symbol, bitcode = archive.read(name).split(b"\n", 1)
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as reason:
        log.debug("%s has no bitcode of %s: %s", file, name, reason)
        return None
    return symbol.decode(), bitcode


def write(file: Path, entries: dict[str, tuple[str, bytes]]) -> None:
    """All entries of a family. The same ones give the same bytes."""
    part = file.with_suffix(".part")
    with zipfile.ZipFile(part, "w", zipfile.ZIP_LZMA) as archive:
        for name, (symbol, bitcode) in sorted(entries.items()):
            archive.writestr(zipfile.ZipInfo(name), symbol.encode() + b"\n" + bitcode, zipfile.ZIP_LZMA)
    part.replace(file)


def names(file: Path) -> set[str]:
    """Of the entries that there are."""
    try:
        with zipfile.ZipFile(file) as archive:
            return set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return set()
