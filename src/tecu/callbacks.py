"""The callbacks of a run: called with each state, asked whether to stop, closed at the end."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tecu.state import State

Callback = Callable[[State], bool | None]


def checked_callbacks(callbacks: Any) -> list[Callback]:
    """The callbacks of a run as a list; refused if one cannot be called."""
    if isinstance(callbacks, str) or not isinstance(callbacks, Iterable):
        hint = "; put it in brackets" if callable(callbacks) else ""
        raise TypeError(f"callbacks must be a list of functions of the state, got {callbacks!r}{hint}")
    found = list(callbacks)
    for position, callback in enumerate(found, 1):
        if not callable(callback):
            raise TypeError(f"callbacks: number {position} of {len(found)} must be a function, got {callback!r}")
    return found


def says_stop(answer: Any) -> bool:
    """Whether a callback returned a truth value that is true, Python's own or that of an array; others mean nothing."""
    is_truth = isinstance(answer, bool) or str(getattr(answer, "dtype", "")).endswith("bool")
    return is_truth and math.prod(getattr(answer, "shape", ())) == 1 and bool(answer)


def close_all(callbacks: Sequence[Callback]) -> None:
    """Close those that have a ``close()``, in their order; each, even if another one cannot be."""
    with contextlib.ExitStack() as ended:
        for callback in reversed(callbacks):
            ended.callback(getattr(callback, "close", lambda: None))
