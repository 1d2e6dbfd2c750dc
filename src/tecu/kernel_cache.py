"""Saying that kernels are being compiled: the first use after an install is silent for seconds otherwise."""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any

log = logging.getLogger("tecu")


@lru_cache
def announce_compiling(package: str, what: str, takes: str) -> None:
    """From now on log a line when a kernel of a package has to be compiled, once a process and precision.

    A kernel that is found on disk is not compiled. Each precision has kernels of its own.
    """
    from numba.core import event

    class Listener(event.Listener):  # type: ignore[misc]  # numba has no types
        told: set[str]

        def on_start(self, started: Any) -> None:
            if started.data["dispatcher"].py_func.__module__.startswith(package + "."):
                types = str(started.data["args"])
                precision = next((name for name in ("float32", "float64") if f"Array({name}" in types), "")
                # A kernel of whole numbers is a part of what has been told already, if anything has.
                if precision not in self.told and (precision or not self.told):
                    self.told.add(precision)
                    kernels = f"kernels of {what}" + (f" for {precision}" if precision else "")
                    log.warning("compiling the %s, once after an install; this takes %s", kernels, takes)

        def on_end(self, ended: Any) -> None:
            pass

    listener = Listener()
    listener.told = set()
    event.register("numba:compile", listener)
