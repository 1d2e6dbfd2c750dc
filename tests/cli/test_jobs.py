"""``tecu enhance --jobs``: the whole thing, with the real enhancer, in processes of its own."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest
from PIL import Image
from skimage import data

from stand_ins import hear_interrupts
from tecu.lowlight.files import read_photo

DARK = (data.astronaut()[60:220, 150:330] // 5).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    for k in range(40):
        Image.fromarray(DARK).save(tmp_path / "in" / f"{k:02}.png")
    return tmp_path


def start(folder, *more):
    command = [sys.executable, "-m", "tecu.cli.main", "enhance", str(folder / "in"), "-o", str(folder / "out"), *more]
    return subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        preexec_fn=hear_interrupts,
    )


@pytest.mark.parametrize("command", [["enhance"], ["enhance", "--jobs", "2"], ["compare"]])
def test_a_method_that_ends_the_program_is_a_bad_argument(folder, command):
    """``exit`` takes the picture for its code."""
    arguments = [*command, "in/00.png", "in/01.png", "-o", "out.html" if command == ["compare"] else "out"]
    command = [sys.executable, "-m", "tecu.cli.main", *arguments, "--method", "builtins:exit"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert run.returncode == 1
    assert "method 'builtins:exit': it ends the program\n" in run.stderr
    assert not list(folder.glob("out*/*"))


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_method_may_lie_in_the_current_folder(folder, jobs):
    """There ``tecu reproduce`` finds it as well. What is installed is not hidden by a file beside the photos."""
    (folder / "mine.py").write_text("import scipy.ndimage\n\ndef lifted(picture):\n    return picture ** 0.5\n")
    (folder / "scipy.py").write_text("raise RuntimeError")
    code = "import sys; sys.path.remove(''); from tecu.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-c", code]
    inputs = ["in/00.png", "in/01.png"]
    for method, code in (("mine:lifted", 0), ("mine:nonesuch", 1), ("tecu", 0)):
        arguments = ["enhance", *inputs, "-o", f"out-{method[:4]}", "--method", method, "--jobs", jobs]
        run = subprocess.run([*command, *arguments], cwd=folder, capture_output=True, text=True)
        assert run.returncode == code, run.stderr
    made = read_photo(folder / "out-mine" / "00.png").pixels
    assert np.abs(made - 255 * np.sqrt(DARK / 255)).max() <= 0.5 + 1e-3


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def results(folder):
    return sorted((folder / "out").iterdir()) if (folder / "out").is_dir() else []


def test_all_are_brightened(folder):
    for path in sorted((folder / "in").iterdir())[4:]:
        path.unlink()
    process = start(folder, "--jobs", "2")
    errors = process.communicate()[1]
    assert process.returncode == 0, errors
    assert [path.name for path in results(folder)] == ["00.png", "01.png", "02.png", "03.png"]
    for path in results(folder):
        assert read_photo(path).pixels.mean() > 1.5 * DARK.mean()


def test_ctrl_c_leaves_whole_files_only(folder):
    process = start(folder, "--jobs", "2")
    wait_for(lambda: len(results(folder)) >= 2)
    os.killpg(process.pid, signal.SIGINT)  # a terminal sends it to every process
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert f"{len(results(folder))} of 40 done; no half file was left".encode() in errors
    assert b"Traceback" not in errors
    assert 2 <= len(results(folder)) < 40
    for path in results(folder):
        assert path.suffix == ".png"
        assert read_photo(path).pixels.shape == DARK.shape


def test_ctrl_c_while_the_workers_start(folder):
    process = start(folder, "--jobs", "2")
    wait_for(lambda: psutil.Process(process.pid).children())
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert b"Traceback" not in errors
    assert all(read_photo(path).pixels.shape == DARK.shape for path in results(folder))


def test_workers_do_not_outlive_a_parent_that_is_killed(folder):
    process = start(folder, "--jobs", "2")
    wait_for(lambda: len(results(folder)) >= 1)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) >= 2
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert alive == []
    finals = [path for path in results(folder) if path.suffix == ".png"]
    for path in finals:
        assert read_photo(path).pixels.shape == DARK.shape
