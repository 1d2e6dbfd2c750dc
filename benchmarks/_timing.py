"""Interleaved CPU timing."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from typing import Any


def interleaved(runs: dict[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """The best CPU seconds of each run; the runs take turns, so that noise hits all alike."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.process_time()
            run()
            best[name] = min(best[name], time.process_time() - began)
    return best


def cpu(run: Callable[[], Any]) -> tuple[Any, float]:
    """What a run returns, and its CPU seconds."""
    began = time.process_time()
    answer = run()
    return answer, time.process_time() - began


def stolen() -> float:
    """Seconds of all processors that other guests of this machine's host had so far; NaN where nobody counts them."""
    try:
        with open("/proc/stat") as counters:
            return int(counters.readline().split()[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return math.nan
