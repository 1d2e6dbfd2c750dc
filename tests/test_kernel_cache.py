"""Whoever has to wait for a compiler is told so, once a precision; who need not wait is told nothing."""

from __future__ import annotations

import numpy as np
from numba import typeof
from numba.core import event

from tecu.kernel_cache import announce_compiling
from tecu.lowlight import kernels

FLOAT32, FLOAT64, BYTES = (typeof(np.zeros((2, 2), dtype)) for dtype in (np.float32, np.float64, np.uint8))


class Kernel:
    """Of a kernel, what an event tells."""

    def __init__(self, module):
        self.py_func = lambda: None
        self.py_func.__module__ = module


def test_compiling_is_announced_once_a_precision(caplog):
    def compiles(where, *arguments):
        caplog.clear()
        with event.trigger_event("numba:compile", data={"dispatcher": Kernel(where), "args": arguments}):
            pass
        return caplog.text

    for _ in range(2):  # whoever needs kernels asks for it each time
        announce_compiling("pretended", "nothing", "no time")
    assert not compiles("somebody.else", FLOAT32)
    assert not compiles("pretendedness.kernels", FLOAT32)
    assert compiles("pretended.kernels", FLOAT64, FLOAT32).count("for float32, once after an install") == 1
    assert not compiles("pretended.kernels", FLOAT32)
    assert not compiles("pretended.kernels", BYTES)  # no second line for the parts of the same kernels
    assert compiles("pretended.kernels", FLOAT64).count("for float64, once after an install") == 1


def test_the_task_names_the_package_of_its_kernels():
    assert kernels.KERNELS[0] == kernels.__package__
