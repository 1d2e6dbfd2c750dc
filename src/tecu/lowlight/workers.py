"""Worker processes: their share of the processors, and what they do about Ctrl-C and the end of their parent."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


@contextlib.contextmanager
def shared_threads(jobs: int) -> Iterator[None]:
    """Workers started inside take an equal share of the processors each."""
    kept = {name: os.environ.get(name) for name in THREADS}
    share = str(max(1, (os.cpu_count() or 1) // jobs))
    os.environ.update({name: share for name in THREADS if kept[name] is None})
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name, None)


@contextlib.contextmanager
def held_interrupts() -> Iterator[None]:
    """Ctrl-C waits until the end of this, where the system can hold signals back."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker() -> None:
    """Leave Ctrl-C to the parent, and do not outlive it."""
    import multiprocessing
    from multiprocessing import connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
