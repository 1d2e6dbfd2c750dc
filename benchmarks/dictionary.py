"""The figures of dictionary learning: floors, PALM, SPAMS, scikit-learn, threads, compiling, memory.

CPU seconds of one thread unless stated, runs that are compared take turns. ``python -m benchmarks.dictionary
--seeds 21 22`` takes other seeds, ``--only spams patches`` some of the figures.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._timing import interleaved, stolen
from benchmarks.dictionary_judge import photo_patches, planted
from benchmarks.dictionary_rivals import (
    against_palm,
    against_scikit_learn,
    against_spams,
    many_samples,
    other_passes,
    other_penalties,
    patches,
    shared_offset,
)
from tecu import stop
from tecu.dictionary import L0DictionaryLearning, coding, solvers, sweeps
from tecu.dictionary.data import SIZES
from tecu.dictionary.embedded import strategy_of
from tecu.dictionary.encoding import half_misfits, likeness, score_of
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import plan
from tecu.dictionary.workers import Workers


def floors(seeds):
    """One iteration against the one float32 matrix product that it cannot avoid."""
    X, D0, penalty, *_ = planted(144, seeds[0])
    transposed = np.ascontiguousarray(D0.T)
    iterations = {}
    for name in ("palm", "auto"):
        planned = plan(name, Rows(X), Coder(penalty), len(D0))
        iterations[name] = planned.solver.iterate(planned.start(D0))
        for _ in range(4):
            next(iterations[name])

    def coordinate_descent():
        gram = D0 @ D0.T
        old = coding.greedy(X, D0, gram, stop=8 * penalty, cap=8).csr(len(D0))
        began = time.process_time()
        coding.polished(X, D0, D0 @ D0.T, old, penalty=8 * penalty, cap=40, restart=0)
        sweeps.sweep(D0.copy(), D0, gram, D0)
        return time.process_time() - began

    best = interleaved(
        {"floor": lambda: X @ transposed, **{name: (lambda it=it: next(it)) for name, it in iterations.items()}}, 9
    )
    descent = min(coordinate_descent() for _ in range(5))
    print(f"floor, one float32 product {X.shape} x {transposed.shape}: {best['floor'] * 1e3:.1f} ms")
    print(f"one PALM iteration: {best['palm'] / best['floor']:.2f} floors (goal 2.0)")
    print(f"one pass of refit, drop, insert and a column sweep: {descent / best['floor']:.2f} floors (goal 3.0)")
    print(f"one certified sweep of auto, the dictionary after every batch: {best['auto'] / best['floor']:.2f} floors")


def threads(seeds):
    """One and two threads: wall-clock seconds, and what the CPU seconds inside shared work say they should be."""
    for n, rounds in ((144, 25), (256, 7)):
        two_threads(n, rounds, seeds[0])


FITTER = """
import sys
from threadpoolctl import threadpool_limits
from benchmarks.dictionary_judge import planted
from tecu.dictionary import L0DictionaryLearning
X, D0, penalty, *_ = planted(int(sys.argv[1]), int(sys.argv[2]))
with threadpool_limits(1):
    for asked in sys.stdin:
        L0DictionaryLearning(len(D0), penalty=penalty, random_state=0).fit(X)
        print("fitted", flush=True)
"""


@contextlib.contextmanager
def fitters(n, seed):
    """Two processes with one thread each; yields the seconds that it takes some of them to fit at once."""
    command = [sys.executable, "-c", FITTER, str(n), str(seed)]
    children = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) for _ in range(2)
    ]

    def seconds(count):
        began = time.perf_counter()
        for child in children[:count]:
            child.stdin.write("fit\n")
        for child in children[:count]:
            assert child.stdout.readline() == "fitted\n"
        return time.perf_counter() - began

    seconds(2)  # what is loaded at first
    try:
        yield seconds
    finally:
        for child in children:
            child.communicate()


def two_threads(n, rounds, seed):
    X, D0, penalty, *_ = planted(n, seed)

    def fitted(count):
        began, cpu_began, stolen_before = time.perf_counter(), time.thread_time(), stolen()
        model = L0DictionaryLearning(len(D0), penalty=penalty, random_state=0, n_jobs=count).fit(X)
        seconds = time.perf_counter() - began
        lost[count].append((stolen() - stolen_before, seconds))
        return seconds, time.thread_time() - cpu_began, model

    lost = {1: [], 2: []}
    clock, alone, shares, models = {1: np.inf, 2: np.inf}, np.inf, [], {1: [], 2: []}
    separate = {1: np.inf, 2: np.inf}
    with fitters(n, seed) as seconds_of:
        for _ in range(rounds):
            for count in clock:
                seconds, cpu, model = fitted(count)
                clock[count] = min(clock[count], seconds)
                alone = min(alone, cpu) if count == 1 else alone
                models[count].append((model.components_, model.objective_))
                separate[count] = min(separate[count], seconds_of(count))
            with timed_pieces() as pieces:  # by itself: to look at the clock for each piece takes time
                unshared = fitted(2)[1] - pieces["own"]
            shares.append((unshared + pieces["longest"], pieces["sum"] / (unshared + pieces["sum"])))
    ideal, share = min(shares)
    away = {count: np.sum(fits, axis=0) / (count, 1) for count, fits in lost.items()}
    apart = abs(models[1][0][1] / models[2][0][1] - 1)
    same = all(np.array_equal(fits[0][0], atoms) for fits in models.values() for atoms, _ in fits)
    print(
        f"two threads, n = {n}: {clock[1] / clock[2]:.2f} times faster than one by the clock (goal 1.6; two separate "
        f"fits at once, all that these cores give: {2 * separate[1] / separate[2]:.2f}), {alone / ideal:.2f} by CPU "
        f"seconds, {share:.0%} of which are in shared work; meanwhile the host gave {away[1][0] / away[1][1]:.0%} and "
        f"{away[2][0] / away[2][1]:.0%} of the time of the processors in use to others; fits of one count "
        f"{'repeat bit by bit' if same else 'DIFFER'}, objectives of one and two threads agree to {apart:.0e}",
        flush=True,
    )


@contextlib.contextmanager
def timed_pieces():
    """CPU seconds of work that threads share: all of them, the busiest thread's, the caller's with its waiting."""
    found, real = {"sum": 0.0, "longest": 0.0, "own": 0.0}, Workers.each

    def share(team, function, pieces, *give_up):
        if team.count == 1 or team._busy or len(pieces) <= 1:  # done by one thread
            return real(team, function, pieces, *give_up)
        spent = collections.Counter()  # by threads

        def timed(piece):
            began = time.thread_time()
            answer = function(piece)
            spent[threading.get_ident()] += time.thread_time() - began
            return answer

        entered = time.thread_time()
        answers = real(team, timed, pieces, *give_up)
        found["own"] += time.thread_time() - entered
        found["sum"] += sum(spent.values())
        found["longest"] += max(spent.values())
        return answers

    Workers.each = share
    try:
        yield found
    finally:
        Workers.each = real


def criterion(seeds):
    """Violations of the criterion and rises of Phi."""
    for n in (64, 144):
        X, D0, penalty, *_ = planted(n, seeds[0])
        auto = L0DictionaryLearning(len(D0), penalty=penalty, random_state=0, tol=0, max_iter=40).fit(X)
        planned = plan("tecu", Rows(X), Coder(penalty), len(D0), max_iter=20, tol=0)
        ours = planned.solver.run(planned.start(D0), stop.MaxIter(20))
        for name, certificate, history in (
            ("auto", auto.certificate_, auto.history_),
            ("tecu", ours.certificate, ours.history),
        ):
            phi = history["lyapunov"]
            rise = float(np.max(np.diff(phi) / phi[:-1]))
            print(
                f"{name}, n = {n}: {certificate.reason} {len(certificate.violations)} violations, "
                f"{certificate.fallbacks} fallbacks; largest relative rise of Phi in a sweep {max(rise, 0.0):.1e}"
            )


FIRST_FIT = """
import os, pathlib, sys, time
os.environ["NUMBA_CACHE_DIR"] = sys.argv[1]
import numpy as np
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.dictionary.compiled import family
if sys.argv[2] == "source":
    family.ahead = pathlib.Path("none")
X = make_sparse_data(300, 16, 24, 2, random_state=0)[0].astype(np.float32)
began = time.process_time()
L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
first = time.process_time() - began
began = time.process_time()
model = L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
print(first - (time.process_time() - began), "numba" in sys.modules, model.components_.tobytes().hex())
"""


def compiling(seeds):
    """The price of the first fit in an empty cache, and in a later process; whether both learn the same.

    From bitcode, as the package comes, and from the source, as where bitcode is of no use.
    """
    for made_of, goals in (("bitcode", ("goal 10", "goal 0.5")), ("source", ("by numba", "the same"))):
        cold, later = [], []
        for _ in range(3):
            with tempfile.TemporaryDirectory() as folder:
                command = [sys.executable, "-c", FIRST_FIT, folder, made_of]
                runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(4)]
            first, *others = [run.stdout.split() for run in runs]
            cold.append(first)
            later += others
        compiled = sorted(float(run[0]) for run in cold)
        same = all(run[2] == cold[0][2] for run in [*cold, *later])
        print(
            f"kernels, from {made_of}: {compiled[0]:.1f} to {compiled[-1]:.1f} s to compile in three empty caches "
            f"({goals[0]}), {min(float(run[0]) for run in later):.2f} s to load later ({goals[1]}); numba is imported "
            f"by {sum(run[1] == 'True' for run in cold)} of 3 first and {sum(run[1] == 'True' for run in later)} of 9 "
            f"later processes; they learn {'the same dictionary' if same else 'DIFFERENT dictionaries'}",
            flush=True,
        )


def new_codes(seeds):
    """What exchanging atoms gains in ``transform``, and its price, by a penalty, against the greedy codes alone."""
    from sklearn.datasets import load_digits, load_sample_image
    from sklearn.feature_extraction.image import extract_patches_2d

    def patches_of(name, side):
        grey = load_sample_image(name).mean(axis=2) / 255.0
        return extract_patches_2d(grey, (side, side), max_patches=6000, random_state=seeds[0]).reshape(6000, -1)

    china, flower = patches_of("china.jpg", 8), patches_of("flower.jpg", 8)
    sets = {
        "raw patches of china": (china, 128),
        "raw patches of flower": (flower, 128),
        "centred patches of flower": (flower - flower.mean(axis=1, keepdims=True), 128),
        "digits": (load_digits().data, 64),
        "planted, n = 64": (planted(64, seeds[0])[0], 600),
    }
    for name, (data, atoms) in sets.items():
        X = data.astype(np.float32)
        model = L0DictionaryLearning(atoms, random_state=0, n_jobs=1).fit(X)
        D, rows, coder = model.components_, Rows(X), Coder(model.penalty_)
        start = strategy_of(coder, min(D.shape))
        gram = D @ D.T
        runs = {"greedy": partial(start.from_scratch, X, D, gram), "transform": partial(model.transform, X)}
        codes = {key: run() for key, run in runs.items()}
        value = {key: -score_of(half_misfits(rows, found, D), found, model.penalty_) for key, found in codes.items()}
        best = interleaved(runs, repeats=3)
        print(
            f"new codes, {name}: {value['transform'] / value['greedy']:.3f} of the objective of greedy codes in "
            f"{best['transform'] / best['greedy']:.1f} times their time; atoms are {likeness(gram, D.shape[1]):.1f} "
            "times as alike as random ones"
        )


def memory(seeds):
    """Peak of a fit against the arrays that it cannot do without."""
    X, D0, penalty, *_ = planted(144, seeds[0])
    L0DictionaryLearning(len(D0), penalty=penalty, random_state=0, max_iter=2).fit(X[:2000])
    tracemalloc.start()
    model = L0DictionaryLearning(len(D0), penalty=penalty, random_state=0).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    codes = model.codes_
    needed = (
        X.nbytes + codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes + D0.nbytes + 2 * 4 * len(D0) ** 2
    )
    print(f"memory: peak {(peak + X.nbytes) / needed:.2f} times Y + codes + D + Gram matrices (goal 3)")


def blocks(seeds):
    """What more blocks of codes gain, and their price; and what one block loses, which is what two are there for."""
    data = {f"S, n = {n}": planted(n, seeds[0])[:3] for n in SIZES}
    data["patches"] = photo_patches(seeds[0])[:3]
    for name, (X, D0, penalty) in data.items():
        usual, objective = solvers.blocks_of_codes(len(X), len(D0)), {}

        def fit(count, X=X, D0=D0, penalty=penalty, objective=objective):
            with mock.patch.object(solvers, "blocks_of_codes", return_value=count):
                model = L0DictionaryLearning(len(D0), penalty=penalty, random_state=0).fit(X)
            objective[count] = model.objective_

        counts = sorted({1, usual, 2 * usual})
        best = interleaved({count: partial(fit, count) for count in counts}, 3)
        others = ", ".join(
            f"{count}: {objective[count] / objective[usual]:.4f} of the objective in {best[count] / best[usual]:.2f} "
            "of the time"
            for count in counts
            if count != usual
        )
        print(f"{name}, {usual} blocks of codes; {others}", flush=True)


FIGURES = {
    "floors": floors, "palm": against_palm, "spams": against_spams, "patches": patches,
    "scikit-learn": against_scikit_learn, "many": many_samples, "penalties": other_penalties,
    "threads": threads, "criterion": criterion, "compiling": compiling, "memory": memory,
    "codes": new_codes, "offset": shared_offset, "blocks": blocks, "passes": other_passes,
}  # fmt: skip


def main(arguments=()) -> None:
    parser = argparse.ArgumentParser(prog=Path(__file__).stem)
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13])
    parser.add_argument("--only", nargs="+", choices=FIGURES, default=list(FIGURES))
    parser.add_argument("--sizes", type=int, nargs="+", choices=SIZES, default=list(SIZES), help="for spams")
    chosen = parser.parse_args(list(arguments))
    for name in chosen.only:
        options = {"sizes": chosen.sizes} if name == "spams" else {}
        try:
            with threadpool_limits(1):
                FIGURES[name](chosen.seeds, **options)
        except ImportError as reason:
            print(f"{name}: left out, {reason}")


if __name__ == "__main__":
    main(sys.argv[1:])
