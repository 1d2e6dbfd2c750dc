"""The one rule for what the commands write.

An output that is also an input (by another name or a link too) is always refused; one that exists is replaced only with
``--overwrite``; one that cannot be made is refused as well. All before any work is done.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tecu.atomic import PART, by_option, escaped, reason, shown
from tecu.cli.main import Unwritable

Name = str | os.PathLike[str]


def check_outputs(
    outputs: Mapping[str, Name | None],
    inputs: Iterable[Name | None],
    overwrite: bool,
    resumed: Mapping[str, Name | None] | None = None,
) -> None:
    """Refuse outputs, named by the options that gave them, which may not or cannot be written.

    ``resumed`` are those that are read first if they exist, such as a checkpoint.

    >>> check_outputs({"-o": "no-such-folder/model.npz"}, ["X.npy"], overwrite=False)
    Traceback (most recent call last):
    tecu.cli.main.Unwritable: no-such-folder/model.npz could not be written: its folder does not exist
    """
    resumed = resumed or {}
    given = {option: path for option, path in {**outputs, **resumed}.items() if path is not None}
    refuse_inputs(given.items(), inputs)
    taken: dict[str, str] = {}
    for option, path in given.items():
        place = os.path.realpath(path)
        if place in taken:
            raise Unwritable(f"{taken[place]} and {option} both name {shown(path)}; give each a file of its own")
        taken[place] = option
        if os.path.lexists(path) and not (overwrite or option in resumed or os.path.isdir(path)):
            raise Unwritable(f"{shown(path)} exists already; --overwrite replaces it")
        _try(path)


def refuse_inputs(outputs: Iterable[tuple[str, Name]], inputs: Iterable[Name | None]) -> None:
    """Refuse outputs that are inputs, or that lie as files in a folder which is one."""
    kept = {identity for path in inputs if path is not None for identity in _identities(path)}
    for option, path in outputs:
        if kept.intersection(_identity(path)):
            raise Unwritable(f"{option}: {shown(path)} is an input, which is never written over; choose another name")


def unwritten(path: Name, error: OSError) -> Unwritable:
    """The error that says why ``path`` could not be written."""
    sentence = str(error) if error.errno is None and error.args else ""
    return Unwritable(by_option(sentence) or f"{shown(path)} could not be written: {reason(error, path)}")


def unread(path: Name, error: Exception) -> str:
    """Why ``path`` could not be read, in a sentence without numbers of the system."""
    if isinstance(error, FileNotFoundError):
        return f"{shown(path)} could not be read: there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return f"{shown(path)} could not be read: {error.strerror[:1].lower()}{error.strerror[1:]}"
    sentence = (str(error).splitlines() or [type(error).__name__])[0]
    return escaped(sentence if sentence.startswith(shown(path)) else f"{shown(path)} could not be read: {sentence}")


def _try(path: Name) -> None:
    """Make a file in the folder of ``path`` and remove it: no rule foretells what every file system allows."""
    if os.path.isdir(path) and not os.path.islink(path):
        raise unwritten(path, IsADirectoryError(errno.EISDIR, "is a folder"))
    try:
        with contextlib.suppress(FileNotFoundError):
            os.lstat(path)  # a name that is too long
        _make_and_remove(Path(path).parent)
    except OSError as error:
        raise unwritten(path, error) from error


def check_place(path: Name) -> None:
    """Refuse a file, whose folders may still have to be made, if nothing can be made in the nearest that is there."""
    folder = Path(path).absolute().parent
    while not os.path.lexists(folder):
        folder = folder.parent
    try:
        _make_and_remove(folder)
    except OSError as error:
        raise Unwritable(f"{shown(path)} could not be written: {reason(error, folder / 'file')}") from error


def _make_and_remove(folder: Path) -> None:
    part = folder / f".tecu-{secrets.token_hex(8)}{PART}"
    os.close(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
    part.unlink(missing_ok=True)


def _identities(path: Name) -> Iterator[Any]:
    yield from _identity(path)
    if os.path.isdir(path):
        for folder, _, files in os.walk(path):
            for name in files:
                yield from _identity(os.path.join(folder, name))


def _identity(path: Name) -> set[Any]:
    """What a file is, whatever its name; nothing if there is none."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return set()
    return {(status.st_dev, status.st_ino)}
