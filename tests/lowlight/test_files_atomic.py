"""A file is written whole or not at all, and nothing that was there is lost."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from tecu.lowlight.files import Photo, TargetExists, UnwritableFile, atomic, read_photo, write_photo
from tecu.lowlight.files.atomic import write_bytes

PHOTO = Photo(np.random.default_rng(0).integers(0, 255, (40, 50, 3), dtype=np.uint8))


def leftovers(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def test_the_target_is_new_and_alone(tmp_path):
    write_bytes(tmp_path / "a", b"data")
    assert (tmp_path / "a").read_bytes() == b"data"
    assert leftovers(tmp_path) == ["a"]
    mask = os.umask(0o022)
    os.umask(mask)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o666 & ~mask


def test_an_existing_target_is_kept_unless_told(tmp_path):
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(TargetExists, match="exists already"):
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    write_bytes(tmp_path / "a", b"new", overwrite=True)
    assert (tmp_path / "a").read_bytes() == b"new"
    assert leftovers(tmp_path) == ["a"]


def test_links_are_replaced_not_followed(tmp_path):
    (tmp_path / "original").write_bytes(b"original")
    (tmp_path / "link").symlink_to("original")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name in ("link", "dangling"):
        with pytest.raises(TargetExists):
            write_bytes(tmp_path / name, b"new")
    write_bytes(tmp_path / "link", b"new", overwrite=True)
    assert (tmp_path / "original").read_bytes() == b"original"
    assert (tmp_path / "link").read_bytes() == b"new"
    assert not (tmp_path / "nowhere").exists()


def test_a_target_that_appears_meanwhile_is_kept(tmp_path, monkeypatch):
    written = atomic.write_part

    def slow(part, data):
        written(part, data)
        (tmp_path / "a").write_bytes(b"someone else")

    monkeypatch.setattr(atomic, "write_part", slow)
    with pytest.raises(TargetExists):
        write_bytes(tmp_path / "a", b"ours")
    assert (tmp_path / "a").read_bytes() == b"someone else"
    assert leftovers(tmp_path) == ["a"]


def test_of_many_writers_one_wins(tmp_path):
    outcomes, start = [], threading.Barrier(8)

    def write(k):
        start.wait()
        try:
            write_bytes(tmp_path / "a", bytes([k]) * 100_000)
            outcomes.append(k)
        except TargetExists:
            pass

    threads = [threading.Thread(target=write, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert (tmp_path / "a").read_bytes() == bytes(outcomes) * 100_000
    assert leftovers(tmp_path) == ["a"]


@pytest.mark.parametrize("taken", [False, True])
def test_without_hard_links_a_rename_serves(tmp_path, monkeypatch, taken):
    def no_links(*_):
        if taken:
            (tmp_path / "a").write_bytes(b"old")
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", no_links)
    if taken:
        with pytest.raises(TargetExists):
            write_bytes(tmp_path / "a", b"new")
    else:
        write_bytes(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == (b"old" if taken else b"new")
    assert leftovers(tmp_path) == ["a"]


@pytest.mark.parametrize(
    ("call", "code", "reason"),
    [
        ("open", errno.EROFS, "read-only"),
        ("open", errno.EACCES, "permission denied"),
        ("write", errno.ENOSPC, "disk is full"),
        ("write", errno.EDQUOT, "quota"),
        ("fsync", errno.ENOSPC, "disk is full"),
        ("fsync", errno.EIO, "rror"),
        ("replace", errno.EACCES, "permission denied"),
    ],
)
def test_what_the_system_refuses_is_said_and_leaves_nothing(tmp_path, monkeypatch, call, code, reason):
    (tmp_path / "a.png").write_bytes(b"old")
    real = getattr(os, call)

    def refuse(*arguments, **options):
        if call == "open" and not str(arguments[0]).endswith(atomic.PART):
            return real(*arguments, **options)
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(UnwritableFile, match=reason):
        write_photo(PHOTO, tmp_path / "a.png", overwrite=True)
    assert (tmp_path / "a.png").read_bytes() == b"old"
    assert leftovers(tmp_path) == ["a.png"]


def test_a_disk_that_fills_up_midway(tmp_path, monkeypatch):
    """The first piece is written, the second is not: nothing may stay."""
    real, calls = os.write, []

    def short(descriptor, data):
        calls.append(len(data))
        if len(calls) == 1:
            return real(descriptor, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "write", short)
    with pytest.raises(UnwritableFile, match="disk is full"):
        write_bytes(tmp_path / "a", b"x" * 1000)
    assert leftovers(tmp_path) == []


def test_short_writes_are_completed(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:7]))
    write_bytes(tmp_path / "a", bytes(range(256)))
    assert (tmp_path / "a").read_bytes() == bytes(range(256))


def test_an_interrupt_midway_leaves_nothing(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a", b"data")
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize("parent", ["missing", "file", "long"])
def test_targets_that_cannot_be(tmp_path, parent):
    (tmp_path / "file").write_bytes(b"")
    path = {
        "missing": tmp_path / "no" / "a.png",
        "file": tmp_path / "file" / "a.png",
        "long": tmp_path / ("x" * 300 + ".png"),
    }[parent]
    with pytest.raises(UnwritableFile, match="could not be written"):
        write_photo(PHOTO, path)


def test_a_folder_is_not_replaced(tmp_path):
    (tmp_path / "a.png").mkdir()
    with pytest.raises(UnwritableFile):
        write_photo(PHOTO, tmp_path / "a.png")
    with pytest.raises(UnwritableFile, match="folder"):
        write_photo(PHOTO, tmp_path / "a.png", overwrite=True)


def test_names_that_are_not_utf8(tmp_path):
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 \xff.png")
    write_photo(PHOTO, path)
    assert np.array_equal(read_photo(path).pixels, PHOTO.pixels)
    with pytest.raises(TargetExists) as error:
        write_photo(PHOTO, path)
    str(error.value).encode("utf-8")  # can be printed


WRITER = """
import sys, numpy as np
from tecu.lowlight.files import Photo, write_photo
rng = np.random.default_rng(0)
photo = Photo(rng.integers(0, 65535, (300, 400, 3), dtype=np.uint16))
print("ready", flush=True)
for k in range(100_000):
    write_photo(photo, f"{sys.argv[1]}/{k % 5}.png", overwrite=True)
    print(k, flush=True)
"""


def test_sigkill_at_any_moment_leaves_only_whole_files(tmp_path):
    rng = np.random.default_rng(1)
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        with process:
            for _ in range(2):
                process.stdout.readline()
            time.sleep(float(rng.uniform(0.02, 0.2)))
            process.send_signal(signal.SIGKILL)
    finals = [path for path in tmp_path.iterdir() if path.suffix == ".png"]
    assert finals
    for path in finals:
        assert read_photo(path).pixels.shape == (300, 400, 3)
    others = [path for path in tmp_path.iterdir() if path.suffix != ".png"]
    assert all(path.name.startswith(".tecu-") and path.suffix == atomic.PART for path in others)


LIMITED = """
import resource, sys, numpy as np
from tecu.lowlight.files import Photo, UnwritableFile, write_photo
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
try:
    write_photo(Photo(np.random.default_rng(0).integers(0, 255, (200, 200, 3), dtype=np.uint8)), sys.argv[1])
except UnwritableFile as error:
    print(error)
"""


def test_a_real_limit_of_the_system(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", LIMITED, str(tmp_path / "a.png")], capture_output=True, text=True, check=True
    )
    assert "larger than the system allows" in run.stdout
    assert leftovers(tmp_path) == []
