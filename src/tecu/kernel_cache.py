"""Saying that kernels are being compiled: the first use after an install is silent for seconds otherwise."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path

log = logging.getLogger("tecu")


@lru_cache
def announce_compiling(package: str, what: str, takes: str) -> bool:
    """Log a line, once a process, if no kernel of a package (its folder) is on disk yet; whether that is so."""
    own, elsewhere = Path(package), os.environ.get("NUMBA_CACHE_DIR")
    found = (own / "__pycache__").glob("kernels*.nbi")
    if elsewhere is not None:
        found = Path(elsewhere).glob(f"{own.name}_*/kernels*.nbi")
    cold = not any(True for _ in found)
    if cold:
        log.warning("compiling the kernels of %s, once after an install; this takes %s", what, takes)
    return cold
