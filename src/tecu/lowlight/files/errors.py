"""What can go wrong with a photo file: one family of exceptions, each with a sentence for the user."""

from __future__ import annotations

import os

from tecu import atomic


class PhotoError(Exception):
    """Anything that keeps a photo from being read or written; its text is a sentence."""


class UnreadableFile(PhotoError):
    """The file is missing, empty, damaged, not a photo, or of a kind that is not read."""


class TooManyPixels(PhotoError):
    """The photo is larger than the caller allowed; nothing was decoded."""


class MissingPart(PhotoError):
    """An optional package that this kind of file needs is not installed."""


class UnwritableFile(PhotoError):
    """The target could not be written; nothing is left under its name that was not there before."""


class TargetExists(UnwritableFile):
    """The target is there already and overwriting was not asked for."""


def shown(path: object) -> str:
    """A file's name as text that can always be printed, also when it is not UTF-8 or would command the terminal."""
    return atomic.shown(path) if isinstance(path, str | bytes | os.PathLike) else atomic.escaped(str(path))
