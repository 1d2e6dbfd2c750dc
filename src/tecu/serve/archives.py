"""A zip file that is made while it is sent: neither it nor its photos are ever in memory as a whole."""

from __future__ import annotations

import shutil
import time
import zipfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import IO, TypeVar, cast

from tecu.serve.limits import Refused

CHUNK = 1 << 18
FAILURES = "what-failed.txt"
Item = TypeVar("Item")


async def zipped(items: Iterable[Item], write: Callable[[Item], Awaitable[Path]], folder: Path) -> AsyncIterator[bytes]:
    """The bytes of a zip file. ``write`` makes a file in ``folder`` of each item; what is refused is listed inside."""
    sink, failures, used = _Sink(), list[str](), set[str]()
    folder.mkdir()
    try:
        with zipfile.ZipFile(cast("IO[bytes]", sink), "w", zipfile.ZIP_STORED) as archive:
            for item in items:
                try:
                    path = await write(item)
                except Refused as reason:  # it was removed meanwhile, or could not be written
                    failures.append(str(reason))
                    continue
                for _ in _copied(archive, path, _unused(path.name, used)):
                    yield sink.taken()
                path.unlink()
            if failures:
                archive.writestr(FAILURES, "\n".join(failures) + "\n")
        yield sink.taken()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Sink:
    """What a zip file is written to: it keeps only what has not been sent, and cannot go back."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def write(self, data: bytes) -> int:
        self._waiting += data
        return len(data)

    def flush(self) -> None:
        """Nothing waits elsewhere."""

    def taken(self) -> bytes:
        data = bytes(self._waiting)
        self._waiting.clear()
        return data


def _copied(archive: zipfile.ZipFile, path: Path, name: str) -> Iterable[None]:
    """Copy a file into the archive piece by piece."""
    info = zipfile.ZipInfo(name, time.localtime()[:6])
    info.external_attr = 0o644 << 16
    with path.open("rb") as source, archive.open(info, "w", force_zip64=True) as target:
        while piece := source.read(CHUNK):
            target.write(piece)
            yield
    yield


def _unused(name: str, used: set[str]) -> str:
    """A name that is not in the archive yet: ``a.jpg``, ``a-2.jpg``, ...

    >>> used = set()
    >>> [_unused("a.jpg", used) for _ in range(3)]
    ['a.jpg', 'a-2.jpg', 'a-3.jpg']
    """
    stem, dot, suffix = name.rpartition(".")
    candidate, k = name, 1
    while candidate.lower() in used:
        k += 1
        candidate = f"{stem}-{k}{dot}{suffix}"
    used.add(candidate.lower())
    return candidate
