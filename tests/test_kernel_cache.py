"""Whoever has to wait for a compiler is told so, once."""

from __future__ import annotations

import numpy as np
import pytest

from tecu.dictionary import estimator
from tecu.kernel_cache import announce_compiling
from tecu.lowlight import kernels


@pytest.mark.parametrize(("task", "folder"), [(estimator.KERNELS, "dictionary"), (kernels.KERNELS, "lowlight")])
def test_compiling_is_announced_where_no_kernel_is_on_disk(task, folder, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    announce_compiling.cache_clear()
    assert announce_compiling(*task)
    assert announce_compiling(*task)
    assert caplog.text.count("compiling") == 1
    for place in ("another_1a2b", f"{folder}_1a2b"):
        announce_compiling.cache_clear()
        assert announce_compiling(*task)
        (tmp_path / place).mkdir()
        (tmp_path / place / "kernels_any.name-1.py311.nbi").touch()
    announce_compiling.cache_clear()
    assert not announce_compiling(*task)


def test_the_pattern_finds_what_the_compiler_leaves(tmp_path, monkeypatch):
    """A kernel that has run is on disk, in the folder that is looked at."""
    kernels.shrink(np.zeros((200, 300, 3), np.uint8), (20, 30))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    announce_compiling.cache_clear()
    assert not announce_compiling(*kernels.KERNELS)
