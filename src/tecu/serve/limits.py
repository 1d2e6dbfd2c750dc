"""What one page may ask of the server, and how a request is refused."""

from __future__ import annotations

from dataclasses import dataclass


class Refused(Exception):
    """A request that is not granted; its text is a sentence for the user, ``status`` the answer's HTTP status."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Limits:
    """Bounds on what is kept and decoded.

    >>> Limits().file_bytes // 2**20
    200
    """

    file_bytes: int = 200 << 20  # of one upload
    page_bytes: int = 2 << 30  # of all files of a page, on the disk
    photos: int = 100  # of a page
    pixels: int = 100_000_000  # of one photo, decoded
    pages: int = 8  # open at a time
    matrix_entries: int = 20_000_000  # of a matrix to learn from
    cache_bytes: int = 400 << 20  # of pictures in memory, all pages together
    idle_seconds: float = 180.0  # after which a page that has gone without a word is forgotten

    def too_long(self, name: str) -> Refused:
        """The refusal of a file that is too long."""
        return Refused(413, f"{name} is longer than {self.file_bytes >> 20} MB, the limit for one file.")
