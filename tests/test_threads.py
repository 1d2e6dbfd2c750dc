"""The same result whatever the number of threads, the same bits for the same number; many runs leave nothing behind."""

import gc
import os
import subprocess
import sys
import textwrap

import numpy as np
import psutil
import pytest
from skimage import data

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.lowlight import Enhancer

COUNTS = (1, 2, 4)
# Sums in another order differ by rounding: 1e-12 after ten sweeps. The fast dictionary chooses atoms greedily, where
# rounding may tip a choice: then the codes differ and the objective by less than 1e-3.
ROUNDING, CHOICES = 1e-12, 1e-3
WORK = textwrap.dedent(
    """
    import sys, numpy as np, tecu
    from tecu import couplings, stop, strategies, terms
    from tecu.dictionary import L0DictionaryLearning, make_sparse_data
    from tecu.lowlight import Enhancer
    from skimage import data

    def everything(threads):
        Y = np.random.default_rng(0).normal(size=(64, 500))
        problem = tecu.Problem(
            couplings.MatrixFactorization(Y, codes="W", dictionary="D"), {"W": terms.L0(0.5), "D": terms.UnitColumns()}
        )
        updates = {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25)}
        start = problem.project({"W": np.zeros((500, 80)), "D": Y[:, :80]})
        result = tecu.Solver(problem, updates).run(start, stop=stop.MaxIter(10))
        X = make_sparse_data(600, 24, 32, 3, random_state=0)[0]
        model = L0DictionaryLearning(32, penalty=0.02, max_iter=6, random_state=0, n_jobs=threads).fit(X)
        codes = model.transform(X)
        photo = Enhancer()(data.astronaut()[:256] // 6)
        return {"D": result.z["D"], "value": result.value, "components": model.components_,
                "objective": model.objective_, "codes": codes.toarray(), "photo": photo}

    threads, target = int(sys.argv[1]), sys.argv[2]
    for k in range(2):
        np.savez(f"{target}-{k}.npz", **everything(threads))
    """
)


def twice(count, folder):
    """What the same work gives, twice, with so many threads of BLAS, of numba and our own."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    environment = os.environ | dict.fromkeys(names, str(count))
    subprocess.run([sys.executable, "-c", WORK, str(count), str(folder / str(count))], env=environment, check=True)
    return [dict(np.load(folder / f"{count}-{k}.npz")) for k in range(2)]


def test_the_same_number_of_threads_gives_the_same_bits_and_other_numbers_agree(tmp_path):
    found = {count: twice(count, tmp_path) for count in COUNTS}
    for first, second in found.values():
        for name in first:
            np.testing.assert_array_equal(first[name], second[name], err_msg=name)
    one = found[1][0]
    for many, _ in found.values():
        np.testing.assert_allclose(many["value"], one["value"], rtol=ROUNDING)
        np.testing.assert_allclose(many["D"], one["D"], atol=ROUNDING)
        np.testing.assert_allclose(many["objective"], one["objective"], rtol=CHOICES)
        assert np.max(np.abs(many["photo"].astype(int) - one["photo"].astype(int))) <= 1


def growth(work, warm=40, times=200):
    """Bytes by which the process is larger after ``times`` runs more, and how many threads and files it has more."""
    here = psutil.Process()
    figures = []
    for count in (warm, times):
        for k in range(count):
            work(k)
        gc.collect()
        figures.append((here.memory_info().rss, here.num_threads(), here.num_fds()))
    return np.subtract(figures[1], figures[0])


def solve(k):
    Y = np.random.default_rng(k).normal(size=(16, 80))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(0.1), "D": terms.UnitColumns()})
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25)})
    solver.run(problem.project({"W": np.zeros((80, 20)), "D": Y[:, :20]}), stop=stop.MaxIter(2)).summary()


def learn(k):
    X = make_sparse_data(150, 12, 16, 2, random_state=k)[0]
    L0DictionaryLearning(16, penalty=0.05, max_iter=2, random_state=0, n_jobs=1 + k % 2).fit(X).transform(X)


def brighten(k):
    Enhancer(strength=1 / (1 + k % 3))(data.astronaut()[: 60 + k % 7, :64] // 5)


@pytest.mark.parametrize("work", [solve, learn, brighten], ids=lambda work: work.__name__)
def test_two_hundred_runs_do_not_grow(work):
    memory, threads, files = growth(work)
    assert memory < 8e6  # 40 kB a run: less than any one of its arrays
    assert threads <= 0
    assert files <= 0
