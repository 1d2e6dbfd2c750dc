"""The pages that are open: what each has uploaded, in a folder of its own, until it is closed."""

from __future__ import annotations

import contextlib
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath

from tecu.serve.feed import Feed
from tecu.serve.learning import Learning
from tecu.serve.limits import Limits, Refused
from tecu.serve.photos import PictureCache, StoredPhoto
from tecu.serve.preview import Look

LONGEST_NAME = 120


class Page:
    """One open page: its photos, its matrix, its news."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.id = secrets.token_urlsafe(18)
        self.folder, self.limits = folder / self.id, limits
        self.folder.mkdir()
        self.feed = Feed()
        self.photos: dict[str, StoredPhoto] = {}
        self.learning: Learning | None = None
        self.archives: dict[str, list[tuple[str, Look]]] = {}
        self.heard = time.monotonic()
        self.kept = 0  # bytes on the disk, those of files on their way too
        self.awaited = 0  # photos on their way

    def photo(self, id: str) -> StoredPhoto:
        """The photo called ``id``."""
        if id not in self.photos:
            raise Refused(404, "This photo is not here any more.")
        return self.photos[id]

    @contextlib.asynccontextmanager
    async def receiving(self, name: str, chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Path, int]]:
        """A new id, the file under it, and its length; the file is removed again if the body raises."""
        id = secrets.token_urlsafe(9)
        place = self.folder / id
        place.mkdir()
        path, length = place / safe_name(name), 0
        try:
            with path.open("xb") as file:
                async for chunk in chunks:
                    length += len(chunk)
                    self.kept += len(chunk)
                    if length > self.limits.file_bytes:
                        raise self.limits.too_long(name)
                    if self.kept > self.limits.page_bytes:
                        most = self.limits.page_bytes >> 20
                        raise Refused(413, f"{name} does not fit: a page may hold {most} MB; remove some photos.")
                    file.write(chunk)
            yield id, path, length
        except BaseException:
            self.kept -= length
            shutil.rmtree(place, ignore_errors=True)
            raise

    def remove(self, id: str) -> None:
        """Forget a photo and its files."""
        photo = self.photo(id)
        del self.photos[id]
        self.kept -= photo.length
        self.feed.forget(f"photo {id}")
        shutil.rmtree(photo.path.parent, ignore_errors=True)

    def close(self) -> None:
        """Forget everything."""
        if self.learning is not None:
            self.learning.stop()
        self.feed.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Pages:
    """All open pages, and the workers they share: few, so that twenty photos at once wait on the disk, not in memory.

    >>> with Pages(Limits()) as pages:
    ...     page = pages.open()
    ...     pages.get(page.id) is page, page.folder.exists()
    (True, True)
    >>> page.folder.exists()
    False
    """

    def __init__(self, limits: Limits, *, workers: int = 2) -> None:
        self.limits = limits
        self.cache = PictureCache(limits.cache_bytes)
        self._folder = tempfile.TemporaryDirectory(prefix="tecu-serve-", ignore_cleanup_errors=True)
        self._pages: dict[str, Page] = {}
        self._lock = threading.Lock()
        self.reading = ThreadPoolExecutor(workers, "reading")  # photos that have come in
        self.quick = ThreadPoolExecutor(2, "preview")  # what a slider waits for
        self.slow = ThreadPoolExecutor(1, "full-size")  # full-size results, one at a time

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> Page:
        """A new page, if there is room for one more."""
        with self._lock:
            self._forget_silent()
            if len(self._pages) >= self.limits.pages:
                raise Refused(503, f"{len(self._pages)} pages are open already; close one and load this one again.")
            page = Page(Path(self._folder.name), self.limits)
            self._pages[page.id] = page
            return page

    def get(self, id: str) -> Page:
        """The page called ``id``."""
        page = self._pages.get(id)
        if page is None:
            raise Refused(410, "The server has forgotten this page; load it again.")
        page.heard = time.monotonic()
        return page

    def forget(self, id: str) -> None:
        """Close a page, if it is still open."""
        with self._lock:
            page = self._pages.pop(id, None)
        if page is not None:
            self._dispose(page)

    def forget_silent(self) -> None:
        """Close the pages whose browser has gone without a word."""
        with self._lock:
            self._forget_silent()

    def _forget_silent(self) -> None:
        now = time.monotonic()
        for page in list(self._pages.values()):
            if page.feed.listeners:
                page.heard = now
            elif now - page.heard > self.limits.idle_seconds:
                del self._pages[page.id]
                self._dispose(page)

    def _dispose(self, page: Page) -> None:
        for id in list(page.photos):  # this may be a thread, while an upload ends in the server's own
            self.cache.drop(id)
        page.close()

    def end_streams(self) -> None:
        """Let the connections that wait for news end: the server is about to stop."""
        for page in list(self._pages.values()):
            page.feed.close()

    def close(self) -> None:
        """Forget all pages and remove their files."""
        for id in list(self._pages):
            self.forget(id)
        for pool in (self.reading, self.quick, self.slow):
            pool.shutdown(wait=False, cancel_futures=True)
        self._folder.cleanup()


def safe_name(name: str) -> str:
    """A name without folders and odd characters, for the disk.

    >>> safe_name("../../etc/passwd"), safe_name("C:\\\\photos\\\\a b.JPG"), safe_name("..")
    ('passwd', 'a b.JPG', 'photo')
    """
    plain = PurePosixPath(name.replace("\\", "/")).name
    plain = re.sub(r'[\x00-\x1f\x7f<>:"|?*]', "_", plain).strip(" .") or "photo"
    stem, dot, suffix = plain.rpartition(".")
    if len(plain.encode()) > LONGEST_NAME:
        cut = (stem or suffix).encode()[:LONGEST_NAME].decode("utf-8", "ignore")
        plain = f"{cut}.{suffix[:10]}" if dot else cut
    return plain
