"""``python -m benchmarks.soak --minutes 30``: mixed work in one process until the time is up, and what it did to it.

Each round enhances photos (some broken) in worker processes, learns a dictionary and codes with it, saves a run, goes
on from the file and compares, kills a fit in mid-run and resumes it, feeds the loaders damaged files, and runs the
engine on data of odd scales. Every result is checked. Memory, threads and open files are read after each round.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import psutil
from PIL import Image
from sklearn.datasets import load_sample_image

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.lowlight import Enhancer
from tecu.lowlight.batch import Settings
from tecu.lowlight.batch import run as run_batch
from tecu.lowlight.files import PhotoError, read_photo
from tecu.lowlight.plan import plan

PHOTO = load_sample_image("china.jpg")
KILLED = """
import sys, numpy as np
from tecu.dictionary import L0DictionaryLearning
print("ready", flush=True)
L0DictionaryLearning(48, penalty=0.02, solver="palm", tol=0, max_iter=100000, random_state=0,
                     checkpoint=sys.argv[2]).fit(np.load(sys.argv[1]))
"""


def enhance_folder(folder, rng):
    """Photos of random sizes with two broken ones among them, over two processes."""
    source, out = folder / "in", folder / "out"
    source.mkdir()
    for k in range(6):
        rows, columns = rng.integers(40, 400, 2)
        Image.fromarray(PHOTO[:rows, :columns] // int(rng.integers(2, 9))).save(source / f"{k}.jpg")
    whole = (source / "0.jpg").read_bytes()
    (source / "cut.jpg").write_bytes(whole[: len(whole) // 3])
    (source / "empty.png").write_bytes(b"")
    before = {path.name: path.read_bytes() for path in source.iterdir()}
    tasks, _ = plan([str(source)], str(out))
    states = Counter(outcome.status for outcome in run_batch(tasks, Settings(), jobs=2))
    assert states == {"done": 6, "failed": 2}, states
    assert before == {path.name: path.read_bytes() for path in source.iterdir()}, "an original was touched"
    assert sorted(path.name for path in out.iterdir()) == [f"{k}.jpg" for k in range(6)]
    return 8


def enhance_arrays(folder, rng):
    """The same photo twice gives the same bits; any strength gives a picture."""
    enhancer = Enhancer(strength=float(rng.uniform(0, 1)))
    dark = PHOTO[: int(rng.integers(60, 427))] // 6
    assert np.array_equal(enhancer(dark), enhancer(dark))
    return 2


def learn(folder, rng):
    """A dictionary, its file, and codes by it."""
    X = make_sparse_data(400, 16, 24, 3, random_state=int(rng.integers(2**31)))[0] * 10.0 ** rng.uniform(-6, 6)
    model = L0DictionaryLearning(24, random_state=0, max_iter=10, n_jobs=int(rng.integers(1, 3))).fit(X)
    assert model.certificate_.holds, model.certificate_.reason
    model.save(folder / "model.npz")
    again = L0DictionaryLearning.load(folder / "model.npz").set_params(n_jobs=model.n_jobs)
    assert (again.transform(X) != model.transform(X)).nnz == 0
    return 3


def resume(folder, rng):
    """A run that was saved and taken up again has the same iterates."""
    Y = rng.normal(size=(12, 60))
    problem = tecu.Problem(
        couplings.MatrixFactorization(Y, codes="W", dictionary="D"), {"W": terms.L0(0.05), "D": terms.UnitColumns()}
    )
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25)})
    states = list(islice(solver.iterate(problem.project({"W": np.zeros((60, 16)), "D": Y[:, :16]})), 20))
    tecu.save_state(folder / "state.npz", states[9])
    *_, last = islice(solver.iterate(tecu.load_state(folder / "state.npz")), 10)
    assert np.array_equal(last.z["D"], states[-1].z["D"])
    assert np.array_equal(last.z["W"], states[-1].z["W"])
    return 2


def kill_and_resume(folder, rng):
    """A fit that was killed leaves a whole checkpoint, from which it goes on."""
    X = make_sparse_data(2000, 32, 48, 4, random_state=int(rng.integers(2**31)))[0]
    data, checkpoint = folder / "X.npy", folder / "fit.npz"
    np.save(data, X)
    child = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(data), str(checkpoint)], stdout=subprocess.PIPE, text=True
    )
    with child:
        child.stdout.readline()
        end = time.monotonic() + 120
        while not checkpoint.exists() and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(float(rng.uniform(0, 1)))
        child.send_signal(signal.SIGKILL)
    state = tecu.load_state(checkpoint)
    model = L0DictionaryLearning(
        48, penalty=0.02, solver="palm", tol=0, max_iter=state.t + 2, random_state=0, checkpoint=checkpoint
    )
    assert model.fit(X).n_iter_ == state.t + 2
    return 2


def damaged_files(folder, rng):
    """Loaders give their object or say in a sentence what is wrong."""
    Image.fromarray(PHOTO[:100, :100]).save(folder / "a.png")
    model = L0DictionaryLearning(6, random_state=0, max_iter=1).fit(rng.normal(size=(30, 5)))
    model.save(folder / "m.npz")
    count = 0
    for name, load, refused in (
        ("a.png", read_photo, PhotoError),
        ("m.npz", L0DictionaryLearning.load, ValueError),
        ("m.npz", tecu.load_state, ValueError),
    ):
        whole = (folder / name).read_bytes()
        for _ in range(20):
            content = bytearray(whole)
            for place in rng.integers(0, len(content), 4):
                content[place] = int(rng.integers(256))
            (folder / f"bad-{name}").write_bytes(content[: int(rng.uniform(0.5, 1) * len(content))])
            with contextlib.suppress(refused):  # any other exception ends the soak
                load(folder / f"bad-{name}")
            count += 1
    return count


def odd_scales(folder, rng):
    """Data of any scale, with zero and doubled columns: the objective never rises and stays finite."""
    Y = rng.normal(size=(8, 20)) * 10.0 ** rng.uniform(-60, 60)
    Y[:, 0], Y[:, 1] = 0, Y[:, 2]
    size = float(np.mean(Y**2))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(size), "D": terms.UnitColumns()})
    start = problem.project({"W": np.zeros((20, 6)), "D": Y[:, 2:8]})
    for solver in (tecu.methods.palm(problem), tecu.Solver(problem, tecu.Embed(strategies.FISTA()))):
        values = solver.run(start, stop=stop.MaxIter(15)).history["value"]
        assert np.all(np.isfinite(values))
        assert np.all(np.diff(values) <= 1e-12 * values[0])
    return 2


WORK = (enhance_folder, enhance_arrays, learn, resume, kill_and_resume, damaged_files, odd_scales)


def soak(minutes, seed=0):
    """Rounds of all the work until the time is up; at least two."""
    here, rng = psutil.Process(), np.random.default_rng(seed)
    began, done, rounds = time.monotonic(), Counter(), []
    while len(rounds) < 2 or time.monotonic() - began < 60 * minutes:
        for work in WORK:
            with tempfile.TemporaryDirectory() as folder:
                done[work.__name__] += work(Path(folder), rng)
        rounds.append((here.memory_info().rss / 2**20, here.num_threads(), here.num_fds()))
    spent = time.monotonic() - began
    assert not here.children(recursive=True) or all(_is_tracker(child) for child in here.children(recursive=True))
    # By the first quarter all code is loaded and compiled.
    quarters = [rounds[max(1, len(rounds) * k // 4 - 1)] for k in (1, 2, 3, 4)]
    first, last = quarters[0], quarters[-1]
    print(f"{spent / 60:.1f} minutes, {len(rounds)} rounds, {os.cpu_count()} cores, no check failed")
    for name, count in done.items():
        print(f"  {name}: {count} runs")
    print("  memory at each quarter:", ", ".join(f"{row[0]:.0f}" for row in quarters), "MB", end="; ")
    print(f"most: {max(row[0] for row in rounds):.0f} MB")
    print(f"  threads: {first[1]} and {last[1]}; open files: {first[2]} and {last[2]}; no process left behind")


def _is_tracker(child):
    """Python's own helper of multiprocessing, which lives as long as its parent."""
    return any("resource_tracker" in part for part in child.cmdline())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    soak(given.minutes, given.seed)
