"""Models and states are written whole or not at all, and what cannot be is said in a sentence."""

import errno
import os
import signal
import stat
import subprocess
import sys
import time

import numpy as np
import pytest

from tecu.archive import read_archive, write_archive
from tecu.atomic import AlreadyThere, CannotWrite, write_bytes

DOCUMENT = {"format": "test-1", "text": "grün"}
ARRAYS = {
    "floats": np.linspace(0, 1, 7), "by columns": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "small/whole": np.arange(5, dtype=np.int8), "text": np.array(["ä", "bc"]), "one": np.array(3.5, np.float32),
    "none": np.zeros((0, 4)), "truth": np.array([True, False]),
}  # fmt: skip


def test_what_is_written_is_read(tmp_path):
    write_archive(tmp_path / "a.npz", DOCUMENT, ARRAYS)
    document, store = read_archive(tmp_path / "a.npz", "test-1", "a test")
    assert document == DOCUMENT
    assert set(store) == set(ARRAYS)
    for name, values in ARRAYS.items():
        assert store[name].dtype == values.dtype
        np.testing.assert_array_equal(store[name], values)
        assert store[name].flags.writeable
    with np.load(tmp_path / "a.npz", allow_pickle=False) as archive:  # an ordinary file of NumPy's
        np.testing.assert_array_equal(archive["floats"], ARRAYS["floats"])


def test_python_objects_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        write_archive(tmp_path / "a.npz", DOCUMENT, {"x": np.array([object()])})
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_arrays_would_begin_before_it_is_damaged(tmp_path):
    path = tmp_path / "a.npz"
    write_archive(path, DOCUMENT, ARRAYS)
    data = bytearray(path.read_bytes())
    table = int.from_bytes(data[-6:-2], "little")  # where the table of contents begins: all places count from there
    data[-6:-2] = (table + 5).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(ValueError, match="is damaged or not an"):
        read_archive(path, "test-1", "a test")
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "b.npz", "test-1", "a test")


@pytest.mark.parametrize(
    ("call", "code", "words"),
    [
        ("fsync", errno.ENOSPC, "the disk is full"),
        ("fsync", errno.EDQUOT, "quota"),
        ("replace", errno.EROFS, "the file system is read-only"),
        ("replace", errno.EACCES, "permission denied"),
    ],
)
def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch, call, code, words):
    path = tmp_path / "a.npz"
    write_archive(path, DOCUMENT, {"x": np.zeros(3)})

    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(CannotWrite, match=words) as error:
        write_archive(path, DOCUMENT, {"x": np.ones(3)})
    assert ".part" not in str(error.value)
    monkeypatch.undo()
    assert not read_archive(path, "test-1", "a test")[1]["x"].any()
    assert os.listdir(tmp_path) == ["a.npz"]


def test_rights_are_those_of_ordinary_files(tmp_path):
    before = os.umask(0o027)
    try:
        write_archive(tmp_path / "a.npz", DOCUMENT, {})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.npz").stat().st_mode) == 0o640


@pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")
def test_where_no_file_can_be_made(tmp_path):
    with pytest.raises(CannotWrite, match=r"/proc/a\.npz could not be written: no file can be made there"):
        write_archive("/proc/a.npz", DOCUMENT, {})
    with pytest.raises(CannotWrite, match="its folder does not exist"):
        write_archive(tmp_path / "no" / "a.npz", DOCUMENT, {})


def test_an_existing_file_is_an_error_of_its_own(tmp_path):
    write_bytes(tmp_path / "a", b"old")
    with pytest.raises(AlreadyThere, match="--overwrite"):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"


WRITER = """
import sys, numpy as np
from tecu.archive import write_archive
for k in range(100_000):
    write_archive(sys.argv[1], {"format": "test-1", "k": k}, {"x": np.full(200_000, float(k))})
    print(k, flush=True)
"""


def test_sigkill_at_any_moment_leaves_a_whole_file(tmp_path):
    rng = np.random.default_rng(0)
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path / "a.npz")], stdout=subprocess.PIPE) as child:
            child.stdout.readline()
            time.sleep(float(rng.uniform(0, 0.1)))
            child.send_signal(signal.SIGKILL)
        document, store = read_archive(tmp_path / "a.npz", "test-1", "a test")
        assert np.all(store["x"] == document["k"])
