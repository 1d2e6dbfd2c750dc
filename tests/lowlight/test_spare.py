"""Memory that is kept for the next photo: never in two hands, and not too much of it."""

from __future__ import annotations

import gc
import io
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
from PIL import Image

from tecu.lowlight import enhance, spare
from tecu.lowlight.files import read_photo


@pytest.fixture(autouse=True)
def nothing_kept():
    gc.collect()
    spare._spare.clear()


def test_memory_in_use_is_never_lent_again():
    held = [spare.room((50, 40, 4)) for _ in range(5)]
    assert not any(np.shares_memory(a, b) for a, b in combinations(held, 2))
    view = held.pop()[10:, ::2, :3]
    again = spare.room((50, 40, 4))
    assert not np.shares_memory(view, again)  # a view is a use


def test_memory_comes_back_when_its_last_view_is_gone():
    first = spare.room((50, 40, 4))
    place, view = first.ctypes.data, first[1:]
    del first
    assert not spare._spare
    del view
    assert [memory.ctypes.data for memory in spare._spare] == [place]
    assert spare.room((50, 40, 4)).ctypes.data == place


def test_little_is_kept_and_nothing_of_another_size():
    held = [spare.room((50, 40, 4)) for _ in range(5)]
    held.clear()
    assert len(spare._spare) == spare.MOST
    other = spare.room((50, 41, 4))
    assert other.shape == (50, 41, 4)
    assert not spare._spare
    large = spare.room((1, spare.LARGEST + 1))
    del large
    assert not spare._spare


def test_threads_do_not_get_the_same():
    def work(number):
        for _ in range(200):
            mine = spare.room((30, 20, 4))
            mine[:] = number
            if not np.all(mine == number):
                return False
        return True

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_photos_and_results_that_are_held_stay_as_they_are():
    rng = np.random.default_rng(0)
    files, truths = [], []
    for _ in range(4):
        out = io.BytesIO()
        Image.fromarray(rng.integers(0, 60, (840, 850, 3), dtype=np.uint8)).save(out, "PNG")
        files.append(out.getvalue())
        truths.append(np.asarray(Image.open(out)))
    photos = [read_photo(file).pixels for file in files]
    results = [enhance(pixels) for pixels in (*photos, *truths)]
    copies = [result.copy() for result in results]
    for file, truth in zip(files, truths, strict=True):  # more photos of the same size come and go
        enhance(read_photo(file).pixels)
        enhance(truth)
    assert all(np.array_equal(a, b) for a, b in zip(photos, truths, strict=True))
    assert all(np.array_equal(a, b) for a, b in zip(results, copies, strict=True))
    assert np.array_equal(results[0], enhance(truths[0]))


def test_nothing_is_said_when_the_interpreter_ends():
    script = "from tecu.lowlight import spare; a = spare.room((50, 40, 4)); b = [a[1:]]; b.append(b)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
