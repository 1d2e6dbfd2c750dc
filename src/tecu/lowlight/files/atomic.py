"""Photos are written by :mod:`tecu.atomic`; here its errors become those of photo files."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from tecu import atomic
from tecu.atomic import PART, write_part
from tecu.lowlight.files.errors import TargetExists, UnwritableFile

__all__ = ["PART", "part_beside", "write_bytes"]


def write_bytes(path: str | os.PathLike[str], data: bytes | memoryview, *, overwrite: bool = False) -> None:
    """Put ``data`` under ``path``, whole or not at all; see :func:`tecu.atomic.write_bytes`."""
    with part_beside(path, overwrite=overwrite) as part:
        write_part(part, data)


@contextlib.contextmanager
def part_beside(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A name in the folder of ``path`` to write to; at the end it becomes ``path``, after an error it is removed."""
    try:
        with atomic.part_beside(path, overwrite=overwrite) as part:
            yield part
    except atomic.AlreadyThere as error:
        raise TargetExists(str(error)) from error
    except atomic.CannotWrite as error:
        raise UnwritableFile(str(error)) from error
