"""Waiting for the workers of a Dask cluster, but not for ever: a cluster without any worker is given up after a while.

Dask itself waits until one comes. ``dask.config.set({"tecu.patience": 60})`` sets the seconds, 300 otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

LOOK = 2.0  # seconds between two looks at the workers
TICK = 0.02  # seconds between two looks at the results
PATIENCE = 300.0  # seconds without any worker


class NoWorkers(RuntimeError):
    """A cluster had no worker for too long."""


class Watch:
    """Looks at the workers of a client now and then."""

    def __init__(self, client: Any) -> None:
        import dask

        self.client, self.patience = client, float(dask.config.get("tecu.patience", PATIENCE))
        self.seen = self.looked = time.monotonic()

    def look(self) -> None:
        """Fails with :class:`NoWorkers` if there was none for too long."""
        now = time.monotonic()
        if now - self.looked < min(LOOK, self.patience):
            return
        self.looked = now
        if self.client.nthreads():
            self.seen = now
        elif now - self.seen >= self.patience:
            raise NoWorkers(
                f"the cluster at {self.client.scheduler.address} has had no worker for {self.patience:g} s; start some "
                "and try again (the patience is the setting tecu.patience of dask.config)"
            )


def gathered(client: Any, futures: Sequence[Any]) -> list[Any]:
    """The results of all futures."""
    from distributed import wait

    watch = Watch(client)
    while True:
        try:
            wait(futures, timeout=min(LOOK, watch.patience))
        except TimeoutError:
            watch.look()
        else:
            return list(client.gather(futures))  # an error of a task, a timeout too, is raised here


def one_by_one(client: Any, futures: Sequence[Any]) -> Iterator[Any]:
    """The futures as they are done."""
    from distributed import as_completed

    watch, coming = Watch(client), as_completed(futures)
    while coming.count():
        if coming.has_ready():
            yield next(coming)
        else:
            time.sleep(TICK)
            watch.look()
