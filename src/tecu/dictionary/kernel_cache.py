"""Saying that kernels are being compiled: the first fit after an install is silent for seconds otherwise."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from pathlib import Path

log = logging.getLogger("tecu")


@lru_cache(maxsize=1)
def announce_compiling() -> bool:
    """Log a line, once a process, if no compiled kernel is on disk yet; whether that is so."""
    own = Path(__file__).parent / "__pycache__"
    elsewhere = os.environ.get("NUMBA_CACHE_DIR")
    folders = [own] if elsewhere is None else [Path(elsewhere)]
    cold = not any(True for folder in folders if folder.is_dir() for _ in folder.rglob("kernels_*.nbi"))
    if cold:
        log.warning("compiling the kernels of dictionary learning, once after an install; this takes some seconds")
    return cold
