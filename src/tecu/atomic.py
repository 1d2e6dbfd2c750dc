"""Write a file whole or not at all.

The bytes go to a temporary file in the target's folder, which is flushed to the disk and then renamed. Whatever happens
on the way (an error, Ctrl-C, a full disk, a power cut), the target's name holds either what it held before or all of
the new bytes. A process that is killed outright can leave a hidden ``.tecu-*.part`` file, never half a result.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

PART = ".part"
REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of its path is not a folder",
    errno.ENAMETOOLONG: "its name is too long",
    errno.EFBIG: "it is larger than the system allows",
    errno.EISDIR: "it is a folder",
    errno.ELOOP: "its path runs in circles",
}
# Control characters, separators of lines, marks and overrides of direction.
COMMANDING = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
BY_OPTION = "--overwrite replaces it"
BY_ARGUMENT = "overwrite=True (on the command line --overwrite) replaces it"
NO_LINKS = {
    errno.EPERM,
    errno.ENOTSUP,
    errno.EOPNOTSUPP,
    errno.ENOSYS,
    errno.EMLINK,
    errno.EACCES,
    errno.EINVAL,
}


class CannotWrite(OSError):
    """A file could not be written; its text is a sentence. Nothing is left that was not there before."""


class AlreadyThere(CannotWrite, FileExistsError):
    """The target exists and overwriting was not asked for."""


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
        write_part(part, data)


@contextlib.contextmanager
def part_beside(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[Path]:
    """A name in the folder of ``path`` to write to; at the end it becomes ``path``, after an error it is removed."""
    target = Path(path)
    if not overwrite and os.path.lexists(target):
        raise _exists(target)
    if os.path.isdir(target) and not os.path.islink(target):
        raise CannotWrite(f"{shown(target)} could not be written: it is a folder")
    part = target.parent / f".tecu-{secrets.token_hex(8)}{PART}"
    try:
        try:
            yield part
            _sync(part, os.O_RDWR)  # the bytes must be on the disk before the name is
            _publish(part, target, overwrite)
        finally:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
    except CannotWrite:
        raise
    except OSError as error:
        raise CannotWrite(f"{shown(target)} could not be written: {reason(error, target)}") from error
    with contextlib.suppress(OSError):  # not every system can sync a folder
        _sync(target.parent, os.O_RDONLY)


def reason(error: OSError, path: str | os.PathLike[str]) -> str:
    """Why the system refused to write ``path``, in words and without the names of temporary files.

    >>> reason(OSError(errno.ENOSPC, "no space"), "a.png")
    'the disk is full'
    >>> reason(FileNotFoundError(errno.ENOENT, "no such file"), "nowhere/a.png")
    'its folder does not exist'
    """
    if error.errno == errno.ENOENT:  # as some file systems say where no file can be made, such as /proc
        return "no file can be made there" if os.path.isdir(Path(path).parent) else "its folder does not exist"
    return REASONS.get(error.errno or 0) or error.strerror or str(error) or type(error).__name__


def as_text(path: str | bytes | os.PathLike[str]) -> str:
    """A file's name as it is, or with signs of replacement where it is not UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def escaped(text: str) -> str:
    r"""The text without what moves the cursor or turns the direction of reading: names could forge lines with it.

    >>> print(escaped("a.png\n1 done"))
    a.png\n1 done
    """
    return COMMANDING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def shown(path: str | bytes | os.PathLike[str]) -> str:
    """A file's name as text that can always be printed, also when it is not UTF-8 or would command the terminal."""
    return escaped(as_text(path))


def by_option(sentence: str) -> str:
    """The sentence for those who are on the command line.

    >>> by_option(f"a.png exists already; {BY_ARGUMENT}")
    'a.png exists already; --overwrite replaces it'
    """
    return sentence.removesuffix(BY_ARGUMENT) + BY_OPTION if sentence.endswith(BY_ARGUMENT) else sentence


def write_part(part: Path, data: bytes | memoryview) -> None:
    """Write to a new file; never through a link that someone else planted under its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(part, flags, 0o666)
    try:
        left = memoryview(data)
        while left:
            left = left[os.write(descriptor, left) :]
    finally:
        os.close(descriptor)


def _exists(target: Path) -> AlreadyThere:
    return AlreadyThere(f"{shown(target)} exists already; {BY_ARGUMENT}")


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
