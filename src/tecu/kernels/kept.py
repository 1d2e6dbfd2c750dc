"""Machine code on disk: beside the source if that can be written, else in the user's folder for such things.

``NUMBA_CACHE_DIR`` names another folder, as it does for numba's own.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from hashlib import blake2b
from pathlib import Path

log = logging.getLogger("tecu")


def digest(data: bytes) -> str:
    """A name for some bytes."""
    return blake2b(data, digest_size=16).hexdigest()


def read(source: Path, name: str) -> tuple[str, bytes] | None:
    """The symbol and the object file that were kept by a name; ``None`` if there are none, or not whole."""
    for folder in _folders(source):
        try:
            check, symbol, code = (folder / name).read_bytes().split(b"\n", 2)
        except (OSError, ValueError):
            continue
        if check.decode("ascii", "replace") == digest(symbol + b"\n" + code):
            return symbol.decode(), code
    return None


def write(source: Path, name: str, symbol: str, code: bytes) -> None:
    """Keep them. Where no folder can be written, the next process compiles again."""
    content = symbol.encode() + b"\n" + code
    for folder in _folders(source):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=folder, prefix=name, delete=False) as file:
                file.write(digest(content).encode() + b"\n" + content)
            os.chmod(file.name, 0o644)  # for everybody who shares the folder
            os.replace(file.name, folder / name)  # whole or not at all
            return
        except OSError as reason:
            log.debug("kernels cannot be kept in %s: %s", folder, reason)


def _folders(source: Path) -> list[Path]:
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    return [Path(chosen)] if chosen else [source.parent / "__pycache__", _of_user()]


def _of_user() -> Path:
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        home = Path.home() / "Library" / "Caches"
    else:
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "tecu"
