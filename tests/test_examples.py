"""The examples run, in their quick mode, and leave a plot."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = [
    "nmf", "sparse_pca", "blind_deconvolution", "plug_and_play", "low_rank_plus_sparse", "torch_function",
    "denoise_china",
]  # fmt: skip
OUTSIDE = ["matplotlib", "proxmin", "pyproximal", "skimage", "torch"]


@pytest.mark.parametrize("name", NAMES)
def test_an_example_runs_and_its_certificate_holds(name, tmp_path):
    for package in OUTSIDE:
        pytest.importorskip(package)
    plot = tmp_path / "plot.png"
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--quick", "-o", str(plot)],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert plot.stat().st_size > 1000
    assert "holds" in done.stdout
    assert "does not hold" not in done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_an_example_stays_short(name):
    assert len((EXAMPLES / f"{name}.py").read_text().splitlines()) <= 80


def test_the_experiments_behind_the_guide_run(tmp_path):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "choosing.py"), "--quick"],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| setting |") == 10
