"""1,000 photos in one run of ``tecu enhance``: is memory flat, do threads pile up with ``--jobs``?

``python -m benchmarks batch [--photos 1000] [--jobs 1 2]`` makes small photos from those inside scikit-image, runs the
command line on them and samples memory and threads of its whole process tree while it works.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil
from PIL import Image
from skimage import data

SPANS = ((0.05, 0.2), (0.6, 0.75), (0.9, 1.0))  # of the photos, between which memory is looked at


def make_photos(folder: Path, count: int) -> None:
    """Dark photos of several sizes: memory that depends on the size must not grow from photo to photo."""
    rng = np.random.default_rng(0)
    originals = [data.astronaut(), data.coffee(), data.chelsea()]
    for k in range(count):
        original = originals[k % len(originals)]
        rows, columns = rng.integers(200, 300, 2)
        dark = np.clip(original[:rows, :columns] * rng.uniform(0.1, 0.4) + rng.normal(0, 2, (rows, columns, 3)), 0, 255)
        Image.fromarray(dark.astype(np.uint8)).save(folder / f"{k:05}.jpg", quality=92)


def sample(process: psutil.Process) -> tuple[float, int, int]:
    """Memory (MB), threads and processes of the whole tree."""
    memory, threads, processes = 0.0, 0, 0
    for each in [process, *process.children(recursive=True)]:
        try:
            memory, threads, processes = (
                memory + each.memory_info().rss / 1e6,
                threads + each.num_threads(),
                processes + 1,
            )
        except psutil.NoSuchProcess:
            continue
    return memory, threads, processes


def run(photos: Path, out: Path, jobs: int) -> int:
    command = [sys.executable, "-m", "tecu.cli.main", "enhance", str(photos), "-o", str(out), "--jobs", str(jobs)]
    started, samples = time.perf_counter(), []
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as running:
        process = psutil.Process(running.pid)
        while running.poll() is None:
            try:
                done = sum(1 for _ in out.iterdir()) if out.is_dir() else 0
                samples.append((done, *sample(process)))
            except psutil.NoSuchProcess:
                break
            time.sleep(0.2)
        message = running.stderr.read().strip() if running.stderr else ""
    seconds, total = time.perf_counter() - started, sum(1 for _ in photos.iterdir())
    table = np.array([row for row in samples if row[0] > 0.05 * total and row[3] > (1 if jobs > 1 else 0)])
    # Many small photos are left to the compiled kernels after a while: what these need is there once and for all.
    first, early, late = (table[(a * total < table[:, 0]) & (table[:, 0] < b * total)] for a, b in SPANS)
    landed = sum(1 for path in out.iterdir() if _whole(path))
    print(f"jobs {jobs}: {message}; {landed} of {total} results can be read; {1000 * seconds / total:.0f} ms a photo")
    numpy, compiled, end = (np.median(span[:, 1]) for span in (first, early, late))
    print(f"  memory (MB): median {numpy:.0f} by NumPy, {compiled:.0f} once the kernels are loaded, {end:.0f} late")
    print(
        f"  threads: at most {table[:, 2].max():.0f} in {table[:, 3].max():.0f} processes; late {late[:, 2].max():.0f}"
    )
    grown = float(end - compiled)
    return int(running.returncode != 0 or landed != total or grown > 30 * jobs)


def _whole(path: Path) -> bool:
    try:
        with Image.open(path) as image:
            image.load()
    except OSError:
        return False
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=1000)
    parser.add_argument("--jobs", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        make_photos(folder / "in", options.photos)
        return max(run(folder / "in", folder / f"out{jobs}", jobs) for jobs in options.jobs)


if __name__ == "__main__":
    sys.exit(main())
