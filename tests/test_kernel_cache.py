"""Whoever has to wait for a compiler is told so, once a precision; who need not wait is told nothing."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from numba import typeof
from numba.core import event

from tecu.dictionary import estimator
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


@pytest.mark.parametrize(("task", "module"), [(estimator.KERNELS, estimator), (kernels.KERNELS, kernels)])
def test_tasks_name_the_package_of_their_kernels(task, module):
    assert task[0] == module.__package__


ONE_KERNEL = """
import numpy as np
from tecu.dictionary.estimator import KERNELS
from tecu.kernel_cache import announce_compiling
announce_compiling(*KERNELS)
from tecu.dictionary.kernels_atoms import inner_product
for dtype in (np.float32, np.float64):
    inner_product(np.ones((2, 2), dtype), np.ones((2, 2), dtype), False, 0, 2)
"""


def test_a_kernel_on_disk_is_no_news(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first, later = (
        subprocess.run([sys.executable, "-c", ONE_KERNEL], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    )
    assert [first.stderr.count(f"for {name}") for name in ("float32", "float64")] == [1, 1]
    assert "compiling" not in later.stderr
