"""Dictionary learning against others: PALM, SPAMS, scikit-learn, and itself with other loose passes."""

from __future__ import annotations

import contextlib
import logging
import math
import time
import warnings
from functools import partial
from itertools import product
from unittest import mock

import numpy as np

from benchmarks._timing import cpu
from benchmarks.dictionary_judge import error_at, judged, photo_patches, plain_palm, planted, recovered, spams
from tecu.dictionary import L0DictionaryLearning, coding, loose, make_sparse_data, offset
from tecu.dictionary.data import SIZES
from tecu.dictionary.online import OnlineDictionary

ROUNDS = 6


def against_palm(seeds):
    """``auto`` against PALM-40, ours and a plain one.

    Who is faster to PALM-40's objective is read in several ways. *Whole fits*: the shortest ``fit`` of ``auto`` that
    ends below it, with all tests at its start and end, against the whole ``fit`` of ``palm``. *On the way*: the CPU
    second since ``fit`` was called at which a state below it is there, against the one at which ``palm`` has its 40th;
    within that shortest fit, and within one of default length: there the first loose pass whose codes are below it, and
    the first state of the run that is certified, which comes after five loose passes and a sweep.
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
        seconds, way, loose_way, plain_seconds = {}, {}, math.inf, math.inf
        for repeat in range(ROUNDS):  # in turn, so that all of them meet the same minutes of the machine
            for name, options in fits.items():
                with loose_ends() as ends:
                    model, taken, reached = timed_fit(X, goal, len(D0), **options)
                seconds[name] = min(taken, seconds.get(name, math.inf))
                way[name] = min(reached, way.get(name, math.inf))
                if name == "auto":
                    final, told = model.objective_ / goal, model.start_history_["value"] / goal
                    number = int(np.argmax(told <= 1.0))
                    loose_way = min(loose_way, ends[number])
            if repeat % 2 == 0:
                _, plain3 = cpu(
                    lambda X=X, D0=D0, penalty=penalty: plain_palm(X.T.astype(float), D0.T.astype(float), penalty, 3)
                )
                plain_seconds = min(plain_seconds, plain3 / 3 * 40)
        exact = loose_objectives(X, len(D0), **common)[number] / goal
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
            f"{plain_seconds / way['quick']:.0f} than plain\n"
            f"seed {seed}, on the way of a fit of default length: loose pass {number + 1} is below it after "
            f"{loose_way:.2f} s, {way['palm'] / loose_way:.1f} times faster than palm has its 40th iteration, "
            f"{plain_seconds / loose_way:.0f} than plain, at {exact:.2f} of it with its codes and the atoms at its end "
            f"({told[number]:.2f} with the atoms that samples were coded with); the first certified state after "
            f"{way['auto']:.2f} s, {way['palm'] / way['auto']:.1f} times, {plain_seconds / way['auto']:.0f} times",
            flush=True,
        )


@contextlib.contextmanager
def loose_ends():
    """The CPU seconds since now at which loose passes end: each tells the log."""
    ends, began = [], time.process_time()

    class Clock(logging.Handler):
        def emit(self, record):
            if record.msg.startswith("loose stage"):
                ends.append(time.process_time() - began)

    log, clock = logging.getLogger("tecu"), Clock()
    level = log.level
    log.addHandler(clock)
    log.setLevel(logging.INFO)
    try:
        yield ends
    finally:
        log.removeHandler(clock)
        log.setLevel(level)


def loose_objectives(X, atoms, *, penalty, random_state):
    """The objective after each loose pass, of its codes and the atoms at its end: batch by batch, codes made again."""
    found, absorb = [], OnlineDictionary.absorb

    def watched(online, batches, keep, judged=None):
        coded = []
        for batch in batches:
            D = online.D
            codes = coding.greedy(batch.samples, D, D @ D.T, stop=batch.stop, cap=batch.cap).csr(len(D))
            coded.append((batch.samples, codes))
            absorb(online, [batch], keep, judged)
        misfits = ((Y - codes @ online.D).astype(np.float64) for Y, codes in coded)
        nonzeros = sum(codes.nnz for _, codes in coded)
        found.append(penalty * nonzeros + 0.5 * sum(float(np.sum(misfit**2)) for misfit in misfits))

    with mock.patch.object(OnlineDictionary, "absorb", watched):
        L0DictionaryLearning(atoms, penalty=penalty, random_state=random_state).fit(X)
    return np.array(found)


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
            for share in (loose.SAMPLES_AN_ATOM, len(X)):
                with patched(loose, SAMPLES_AN_ATOM=share):
                    model, taken, _ = timed_fit(X, 0.0, len(D0), penalty=penalty, random_state=seed)
                objectives.append(model.objective_)
                seconds.append(taken)
        by_pairs = (np.log(found).reshape(-1, 2) for found in (objectives, seconds))
        ratios = [np.exp(np.mean(pairs[:, 0] - pairs[:, 1])) for pairs in by_pairs]
        print(f"loose passes over a part, {name}: {ratios[0]:.3f} of the objective and {ratios[1]:.2f} of the time "
              f"with passes over all of them, the mean of {len(seeds)} seeds", flush=True)  # fmt: skip


def other_passes(seeds):
    """Loose passes as they are against others.

    Of fits of one and of two sweeps: against passes that are not cut. Of fits of default length: fewer and more against
    five, by the time until the first state, which is after the first sweep, and by what the fits end with.
    """
    fewer = {"LOOSEST_BATCHES": 0, "LEAST_MORE": 0}
    others = [
        ("one sweep, a cut pass against a whole one", {"max_iter": 1}, {}, {"STAGES_OF_ONE": ()}),
        ("two sweeps, two cut passes against whole ones", {"max_iter": 2}, {}, {"STAGES_OF_TWO": ()}),
        ("three loose passes against five", {}, {**fewer, "STAGES": (loose.STAGES[0], *loose.STAGES[2:])}, {}),
        ("four loose passes against five", {}, fewer, {}),
        ("six loose passes against five", {}, {"LEAST_MORE": 2}, {}),
    ]
    data = {
        "planted, n = 64": partial(planted, 64), "planted, n = 144": partial(planted, 144),
        "patches": partial(photo_patches, relative=3e-3),
        "planted, 3,000 samples of length 32": partial(planted_samples, 3000, 32, 300, 4),
    }  # fmt: skip
    for (what, options, own, other), (name, make) in product(others, data.items()):
        ratios = []
        for seed in seeds:
            X, D0, penalty, *_ = make(seed=seed)
            found = [[math.inf, math.inf, 0.0] for _ in range(2)]
            for _ in range(ROUNDS // 2):
                for row, changes in zip(found, (own, other), strict=True):
                    with patched(loose, **changes):
                        model, seconds, way = timed_fit(
                            X, math.inf, len(D0), penalty=penalty, random_state=seed, **options
                        )
                    row[:] = min(way, row[0]), min(seconds, row[1]), model.objective_
            ratios.append(np.divide(*found))
        first, seconds, objective = np.exp(np.mean(np.log(ratios), axis=0))
        print(f"{what}, {name}: first state after {first:.2f} of the time, end after {seconds:.2f} of it at "
              f"{objective:.3f} of the objective, the mean of {len(seeds)} seeds", flush=True)  # fmt: skip


def other_penalties(seeds):
    """First gains that are a share of the samples, as they are, against gains in units of the penalty alone."""
    for share in (0.1, 0.3, 1.0, 3.0):
        objectives, found = [], []
        for seed in seeds:
            X, D0, penalty, _, truth = planted(64, seed)
            for limits in ({}, {"LEAST_SHARE": 0.0, "MOST_SHARE": math.inf}):
                with patched(loose, **limits):
                    model = L0DictionaryLearning(len(D0), penalty=share * penalty, random_state=seed).fit(X)
                objectives.append(model.objective_)
                found.append(recovered(model.components_, truth))
        ratio = np.exp(np.mean(np.diff(np.log(objectives).reshape(-1, 2)[:, ::-1])))
        own, other = np.mean(np.reshape(found, (-1, 2)), axis=0)
        print(f"{share:g} of the penalty, n = 64: objective {ratio:.3f} of that with gains in units of the penalty "
              f"alone; planted atoms found {own:.1%} against {other:.1%}", flush=True)  # fmt: skip


def shared_offset(seeds):
    """Raw patches, which share brightness, against centred ones; and begun as random patches, without a trial."""
    for seed in seeds:
        make = partial(photo_patches, seed, 8000, side=8, atoms=128)
        (X, D0, penalty, *_), (centred, *_) = make(raw=True), make()
        fit = partial(timed_fit, goal=0.0, penalty=penalty, random_state=seed)
        least = fit(centred, n_components=len(D0) - 1)[0].objective_ + penalty * len(X)
        model, seconds, _ = fit(X, n_components=len(D0))
        with patched(offset, SHARED=1.0):
            plain, plain_seconds, _ = fit(X, n_components=len(D0))
        print(
            f"raw patches, seed {seed}: {model.objective_ / least:.3f} of the objective of centred ones and a "
            f"coefficient a sample; begun as random patches {plain.objective_ / least:.3f}, in "
            f"{plain_seconds / seconds:.2f} times the time",
            flush=True,
        )


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
    from sklearn.exceptions import ConvergenceWarning

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
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # of its lasso, in single batches
                _, seconds = cpu(lambda other=other, wide=wide: other.fit(wide))
            found.append((error_at(X, other.components_, nonzero) / target, seconds / own_seconds, alpha))
        error, seconds, alpha = min(found)
        print(
            f"scikit-learn, n = 64, seed {seed}: after {seconds:.1f} times our time (goal 5) its error with {nonzero} "
            f"atoms a sample is {error:.2f} of ours (alpha = {alpha}, 2 passes)",
            flush=True,
        )
