"""A compiled wait: threads that meet every millisecond must not fall asleep in between.

To wake a thread takes a tenth of a millisecond where processors are virtual. Waiting here, a thread holds no lock of
the interpreter, and gives its processor away to whoever else wants it. This module imports numba: import it lazily.
"""

from __future__ import annotations

import os
from typing import Any

from numba import types

from tecu.dictionary.compiled import compiled

_give_way = types.ExternalFunction("sched_yield" if os.name == "posix" else "SwitchToThread", types.int32())


@compiled
def tell_and_wait(told: Any, own: Any, number: Any, other: Any, awaited: Any, patience: Any) -> Any:
    """``told[own] = number``; then wait until ``told[other] >= awaited``, or give way ``patience`` times in vain.

    The numbers are hints, and may be seen late: what threads hand over goes through a queue.
    """
    told[own] = number
    for _ in range(patience):
        if told[other] >= awaited:
            return True
        _give_way()  # the compiler can't know what it does, so the numbers are read anew
    return False
