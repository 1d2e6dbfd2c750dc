"""The figures of dictionary learning: floors, PALM, SPAMS, scikit-learn, threads, compiling, memory.

CPU seconds of one thread unless stated, runs that are compared take turns. ``python -m benchmarks.dictionary
--seeds 21 22`` takes other seeds, ``--only spams patches`` some of the figures.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._timing import interleaved
from benchmarks.dictionary_judge import error_at, judged, photo_patches, plain_palm, planted, recovered, spams
from tecu import stop
from tecu.dictionary import L0DictionaryLearning, coding, make_sparse_data, online
from tecu.dictionary.data import SIZES
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import plan
from tecu.dictionary.workers import Workers


def cpu(run):
    """What a run returns, and its CPU seconds."""
    began = time.process_time()
    answer = run()
    return answer, time.process_time() - began


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
        gram, correlations = D0 @ D0.T, X @ transposed
        old = coding.greedy(correlations.copy(), gram, stop=8 * penalty, cap=8).csr(len(D0))
        began = time.process_time()
        coding.polish_samples(X, D0, D0 @ D0.T, old, slice(0, len(X)), penalty=8 * penalty, cap=40, restart=0)
        coding.sweep(D0.copy(), D0, gram, D0)
        return time.process_time() - began

    best = interleaved(
        {"floor": lambda: X @ transposed, **{name: (lambda it=it: next(it)) for name, it in iterations.items()}}, 9
    )
    descent = min(coordinate_descent() for _ in range(5))
    print(f"floor, one float32 product {X.shape} x {transposed.shape}: {best['floor'] * 1e3:.1f} ms")
    print(f"one PALM iteration: {best['palm'] / best['floor']:.2f} floors (goal 2.0)")
    print(f"one pass of refit, drop, insert and a column sweep: {descent / best['floor']:.2f} floors (goal 3.0)")
    print(f"one certified sweep of auto, the dictionary after every batch: {best['auto'] / best['floor']:.2f} floors")


ROUNDS = 6


def against_palm(seeds):
    """``auto`` against PALM-40, ours and a plain one.

    Who is faster to PALM-40's objective is read in two ways. *Whole fits*: the shortest ``fit`` of ``auto`` that ends
    below it, with all tests at its start and end, against the whole ``fit`` of ``palm``. *On the way*: the CPU second
    since ``fit`` was called at which a state below it is there, against the one at which ``palm`` has its 40th; within
    that shortest fit, and within one of default length, whose four loose passes come first.
    """
    for seed in seeds:
        X, D0, penalty, *_ = planted(144, seed)
        common = {"penalty": penalty, "random_state": seed}
        fits = {"palm": {"solver": "palm", "init": D0, "tol": 0, "max_iter": 40, **common}, "auto": common}
        goal = L0DictionaryLearning(len(D0), **fits["palm"]).fit(X).objective_
        for budget in range(1, 9):  # growing budgets, until a fit of auto ends below PALM-40
            fits["quick"] = {"tol": 0, "max_iter": budget, **common}
            quick = L0DictionaryLearning(len(D0), **fits["quick"]).fit(X)
            if quick.objective_ <= goal:
                break
        seconds, way, plain_seconds = {}, {}, math.inf
        for repeat in range(ROUNDS):  # in turn, so that all of them meet the same minutes of the machine
            for name, options in fits.items():
                model, taken, reached = timed_fit(X, goal, len(D0), **options)
                seconds[name] = min(taken, seconds.get(name, math.inf))
                way[name] = min(reached, way.get(name, math.inf))
                if name == "auto":
                    final = model.objective_ / goal
            if repeat % 2 == 0:
                _, plain3 = cpu(
                    lambda X=X, D0=D0, penalty=penalty: plain_palm(X.T.astype(float), D0.T.astype(float), penalty, 3)
                )
                plain_seconds = min(plain_seconds, plain3 / 3 * 40)
        print(
            f"seed {seed}: palm {plain_seconds / seconds['palm']:.1f} times faster than plain (goal 12); auto ends at "
            f"{final:.3f} of PALM-40's objective (goal 0.20) in "
            f"{seconds['auto'] / seconds['palm']:.2f} of its time (goal 1.5)\n"
            f"seed {seed}, to PALM-40's objective, whole fits: the shortest of auto that ends below it is "
            f"max_iter={budget}, at {quick.objective_ / goal:.3f} of it, {seconds['quick']:.2f} s: "
            f"{seconds['palm'] / seconds['quick']:.1f} times faster than palm (goal 8), "
            f"{plain_seconds / seconds['quick']:.0f} than plain (goal 70)\n"
            f"seed {seed}, the same on the way: that fit is below it after {way['quick']:.2f} s, "
            f"{way['palm'] / way['quick']:.1f} times faster than palm has its 40th iteration ({way['palm']:.2f} s), "
            f"{plain_seconds / way['quick']:.0f} than plain; a fit of default length after {way['auto']:.2f} s, "
            f"{way['palm'] / way['auto']:.1f} times, {plain_seconds / way['auto']:.0f} times",
            flush=True,
        )


def timed_fit(X, goal, *arguments, **options):
    """A fitted model, its CPU seconds, and those until a state was at ``goal`` or the last."""
    way, began = [], time.process_time()

    def look(state):
        if not way or way[-1][1] > goal:
            way.append((time.process_time() - began, state.value))

    model, seconds = cpu(lambda: L0DictionaryLearning(*arguments, callback=look, **options).fit(X))
    return model, seconds, way[-1][0]


def against_spams(seeds, sizes=tuple(SIZES)):
    """Judged objective and CPU time against the better SPAMS mode, data S."""
    for n in sizes:
        for seed in seeds:
            compare_with_spams(f"S, n = {n}, seed {seed}", planted(n, seed), seed, "goals 0.96, 0.65")


def patches(seeds):
    """The same on patches of photographs, at three penalties."""
    for seed in seeds:
        for relative in (1e-3, 3e-3, 1e-2):
            data = photo_patches(seed, relative=relative)
            compare_with_spams(
                f"patches, penalty {relative:g} of the energy, seed {seed}", data, seed, "goals 1.00, 0.65"
            )


def many_samples(seeds):
    """Loose passes over a part of many samples, as they are, against loose passes over all of them."""
    data = {
        "50,000 patches of 8 x 8": lambda seed: photo_patches(seed, 50_000, side=8, atoms=256),
        "40,000 planted samples": lambda seed: planted_samples(40_000, 32, 300, 4, seed),
    }
    for name, make in data.items():
        objectives, seconds = [], []
        for seed in seeds:
            X, D0, penalty, *_ = make(seed)
            for share in (online.SAMPLES_AN_ATOM, len(X)):
                with patched(online, SAMPLES_AN_ATOM=share):
                    model, taken, _ = timed_fit(X, 0.0, len(D0), penalty=penalty, random_state=seed)
                objectives.append(model.objective_)
                seconds.append(taken)
        by_pairs = (np.log(found).reshape(-1, 2) for found in (objectives, seconds))
        ratios = [np.exp(np.mean(pairs[:, 0] - pairs[:, 1])) for pairs in by_pairs]
        print(f"loose passes over a part, {name}: {ratios[0]:.3f} of the objective and {ratios[1]:.2f} of the time "
              f"with passes over all of them, the mean of {len(seeds)} seeds", flush=True)  # fmt: skip


def planted_samples(samples, n, atoms, nonzero, seed):
    X, D, _ = make_sparse_data(samples, n, atoms, nonzero, 30, seed)
    return X.astype(np.float32), D, 3e-3 * nonzero


@contextlib.contextmanager
def patched(module, **values):
    kept = {name: getattr(module, name) for name in values}
    vars(module).update(values)
    try:
        yield
    finally:
        vars(module).update(kept)


def compare_with_spams(name, data, seed, goals):
    X, D0, penalty, nonzero, truth = data
    L0DictionaryLearning(len(D0), penalty=penalty, max_iter=2, random_state=0).fit(
        X[: 2 * len(D0)]
    )  # kernels are loaded
    value, seconds, D = spams(X, D0, penalty, nonzero)
    own, own_seconds = cpu(lambda: L0DictionaryLearning(len(D0), penalty=penalty, random_state=seed).fit(X))
    found = (
        ""
        if truth is None
        else f"; planted atoms found {recovered(own.components_, truth):.1%} against {recovered(D, truth):.1%}"
    )
    print(
        f"{name}: objective {judged(X, own.components_, penalty) / value:.3f} of SPAMS' at "
        f"{own_seconds / seconds:.2f} of its time ({goals}){found}",
        flush=True,
    )


def against_scikit_learn(seeds):
    """MiniBatchDictionaryLearning until its dictionary codes as well with as many atoms a sample."""
    from sklearn.decomposition import MiniBatchDictionaryLearning

    for seed in seeds:
        X, D0, penalty, nonzero, _ = planted(64, seed)
        fits = [timed_fit(X, 0.0, len(D0), penalty=penalty, random_state=seed) for _ in range(3)]
        own, own_seconds = fits[0][0], min(seconds for _, seconds, _ in fits)
        target = error_at(X, own.components_, nonzero)
        found = []
        for alpha in (0.1, 0.3, 1.0):  # the best of three: its penalty is of another kind
            other = MiniBatchDictionaryLearning(
                len(D0), alpha=alpha, batch_size=512, max_iter=2, dict_init=D0, random_state=0, tol=0,
                max_no_improvement=None, fit_algorithm="cd",
            )  # fmt: skip
            wide = X.astype(np.float64)  # its coordinate descent does not converge in float32
            _, seconds = cpu(lambda other=other, wide=wide: other.fit(wide))
            found.append((error_at(X, other.components_, nonzero) / target, seconds / own_seconds, alpha))
        error, seconds, alpha = min(found)
        print(
            f"scikit-learn, n = 64, seed {seed}: after {seconds:.1f} times our time (goal 5) its error with {nonzero} "
            f"atoms a sample is {error:.2f} of ours (alpha = {alpha}, 2 passes)",
            flush=True,
        )


def threads(seeds):
    """One and two threads: wall-clock seconds, and what the CPU seconds inside shared work say they should be."""
    X, D0, penalty, *_ = planted(144, seeds[0])
    best, shares, models = {1: np.inf, 2: np.inf}, [], {}
    spent = {1: np.inf, 2: np.inf}
    for _ in range(5):
        for count in best:
            with timed_pieces() as pieces:
                began, cpu_began = time.perf_counter(), time.process_time()
                model = L0DictionaryLearning(len(D0), penalty=penalty, random_state=0, n_jobs=count).fit(X)
                best[count] = min(best[count], time.perf_counter() - began)
                seconds = time.process_time() - cpu_began
            spent[count] = min(spent[count], seconds)
            if count == 2:
                shares.append((seconds - pieces["overlap"], pieces["sum"] / seconds))
            models.setdefault(count, []).append(model)
    ideal, share = min(shares)
    apart = abs(models[1][0].objective_ / models[2][0].objective_ - 1)
    same = all(np.array_equal(fits[0].components_, fit.components_) for fits in models.values() for fit in fits)
    print(
        f"two threads: {best[1] / best[2]:.2f} times faster than one by the clock (goal 1.6; needs two idle cores), "
        f"{spent[1] / ideal:.2f} by CPU seconds, {share:.0%} of which are in shared work; fits of one count "
        f"{'repeat bit by bit' if same else 'DIFFER'}, objectives of one and two threads agree to {apart:.0e}"
    )


@contextlib.contextmanager
def timed_pieces():
    """CPU seconds inside work that threads share, and how many of them overlap if each has a core of its own."""
    pieces, real = {"sum": 0.0, "overlap": 0.0}, Workers._share

    def share(team, function, slices):
        spent = []

        def timed(piece):
            began = time.thread_time()
            answer = function(piece)
            spent.append(time.thread_time() - began)
            return answer

        answers = real(team, timed, slices)
        pieces["sum"] += sum(spent)
        pieces["overlap"] += sum(spent) - max(spent)
        return answers

    Workers._share = share
    try:
        yield pieces
    finally:
        Workers._share = real


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
import os, sys, tempfile, time
os.environ["NUMBA_CACHE_DIR"] = sys.argv[1]
import numpy as np
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
began = time.process_time()
import numba
from numba.core.registry import cpu_target
cpu_target.target_context.refresh()
numba_alone = time.process_time() - began
X = make_sparse_data(300, 16, 24, 2, random_state=0)[0].astype(np.float32)
began = time.process_time()
L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
first = time.process_time() - began
began = time.process_time()
model = L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
print(first - (time.process_time() - began), numba_alone, model.components_.tobytes().hex())
"""


def compiling(seeds):
    """The price of the first fit in an empty cache, and in a later process; whether both learn the same."""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_FIT, folder]
        runs = [subprocess.run(command, capture_output=True, text=True, check=True).stdout.split() for _ in range(6)]
    cold, *later = runs
    kernels, numba = min(float(run[0]) for run in later), min(float(run[1]) for run in later)
    same = all(run[2] == cold[2] for run in later)
    print(
        f"kernels: {float(cold[0]):.1f} s to compile (goal 10), {kernels + numba:.2f} s to load later (goal 0.5), "
        f"{numba:.2f} of them numba's own import and start; the processes learn "
        f"{'the same dictionary' if same else 'DIFFERENT dictionaries'}"
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


FIGURES = {
    "floors": floors, "palm": against_palm, "spams": against_spams, "patches": patches,
    "scikit-learn": against_scikit_learn, "many": many_samples,
    "threads": threads, "criterion": criterion, "compiling": compiling, "memory": memory,
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
