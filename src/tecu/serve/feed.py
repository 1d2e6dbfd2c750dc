"""News of a page for its browser: the latest of each subject, as server-sent events."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

PING = 5.0  # seconds; a connection whose browser has gone is noticed when something is sent
PAUSE = 0.1  # seconds between two batches of news: what changes faster is sent once


class Feed:
    """The latest news by subject. Any thread may tell; a listener that comes late or again gets them all.

    >>> feed = Feed()
    >>> feed.tell("photo 1", {"state": "queued"}); feed.tell("photo 1", {"state": "ready"})
    >>> feed.since(0)
    (2, [{'state': 'ready'}])
    """

    def __init__(self) -> None:
        self._news: dict[str, tuple[int, dict[str, Any]]] = {}
        self._count = 0
        self._lock = threading.Lock()
        self._listeners: set[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = set()
        self.closed = False

    @property
    def listeners(self) -> int:
        """How many browsers are connected."""
        return len(self._listeners)

    def tell(self, subject: str, news: dict[str, Any]) -> None:
        """Put ``news`` in the place of what was known about ``subject``."""
        with self._lock:
            self._count += 1
            self._news.pop(subject, None)  # so that the order is that of the latest
            self._news[subject] = (self._count, news)
        self._wake()

    def forget(self, subject: str) -> None:
        """There is no more to say about it."""
        with self._lock:
            self._news.pop(subject, None)

    def close(self) -> None:
        """End all connections."""
        self.closed = True
        self._wake()

    def since(self, count: int) -> tuple[int, list[dict[str, Any]]]:
        """What has been told after the first ``count`` news, and the number to ask for next."""
        with self._lock:
            return self._count, [news for number, news in self._news.values() if number > count]

    async def stream(self) -> AsyncIterator[str]:
        """Server-sent events until the feed is closed or the browser goes away."""
        wake = asyncio.Event()
        listener = (asyncio.get_running_loop(), wake)
        self._listeners.add(listener)
        seen = 0
        try:
            yield "retry: 1000\n\n"
            while not self.closed:
                wake.clear()
                seen, news = self.since(seen)
                for item in news:
                    yield f"data: {json.dumps(item)}\n\n"
                if news:
                    await asyncio.sleep(PAUSE)
                try:
                    await asyncio.wait_for(wake.wait(), PING)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(listener)

    def _wake(self) -> None:
        for loop, event in list(self._listeners):
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
