"""Write a file whole or not at all.

The bytes go to a temporary file in the target's folder, which is flushed to the disk and then renamed.
Whatever happens on the way (an error, Ctrl-C, a full disk, a power cut), the target's name holds either what
it held before or all of the new bytes. A process that is killed outright can leave a hidden ``.tecu-*.part``
file behind, never a half photo.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from tecu.lowlight.files.errors import TargetExists, UnwritableFile, shown

PART = ".part"
REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOENT: "its folder does not exist",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EFBIG: "it is larger than the system allows",
    errno.EISDIR: "it is a folder",
}
NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EACCES,
    errno.EINVAL,
}


def write_bytes(path: str | os.PathLike[str], data: bytes | memoryview, *, overwrite: bool = False) -> None:
    """Put ``data`` under ``path``, whole or not at all.

    Without ``overwrite`` an existing target (a dangling link too) is never replaced, not even when it appears
    while this runs. With it a link is replaced, not what it points to.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = Path(folder) / "a.bin"
    ...     write_bytes(target, b"one")
    ...     write_bytes(target, b"two", overwrite=True)
    ...     target.read_bytes()
    b'two'
    """
    with part_beside(path, overwrite=overwrite) as part:
        _write_part(part, data)


@contextlib.contextmanager
def part_beside(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A name in the folder of ``path`` to write to; at the end it becomes ``path``, after an error it is removed."""
    target = Path(path)
    if not overwrite and os.path.lexists(target):
        raise _exists(target)
    if os.path.isdir(target) and not os.path.islink(target):
        raise UnwritableFile(f"{shown(target)} could not be written: it is a folder")
    part = target.parent / f".tecu-{secrets.token_hex(8)}{PART}"
    try:
        try:
            yield part
            _sync(part, os.O_RDWR)  # the bytes must be on the disk before the name is
            _publish(part, target, overwrite)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    except OSError as error:
        reason = REASONS.get(error.errno or 0, error.strerror or str(error))
        raise UnwritableFile(f"{shown(target)} could not be written: {reason}") from error
    with contextlib.suppress(OSError):  # not every system can sync a folder
        _sync(target.parent, os.O_RDONLY)


def _exists(target: Path) -> TargetExists:
    return TargetExists(f"{shown(target)} exists already; overwriting it was not asked for")


def _write_part(part: Path, data: bytes | memoryview) -> None:
    # O_EXCL: never write through a link that someone else planted under this name.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(part, flags, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _publish(part: Path, target: Path, overwrite: bool) -> None:
    if overwrite:
        os.replace(part, target)
        return
    try:
        os.link(part, target)  # unlike a rename, fails when the target has appeared meanwhile
    except FileExistsError as error:
        raise _exists(target) from error
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(target):  # no hard links here (FAT, some network drives): the best that is left
            raise _exists(target) from error
        os.rename(part, target)


def _sync(path: Path, flags: int) -> None:
    """Make what was written last through a power cut."""
    descriptor = os.open(path, flags | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
