"""What the estimator promises, on small data with a known answer and on awkward data."""

import pickle
import subprocess
import sys
import time
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse import csr_array, random_array

import tecu
from tecu.certificate import Verdict
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.dictionary.embedded import strategy_of
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import NAMES, plan


@pytest.fixture(scope="module")
def planted():
    return make_sparse_data(2500, 16, 24, 2, snr_db=35, random_state=0)


def objective(model, X):
    misfit = X.astype(float) - (model.codes_ @ model.components_).astype(float)
    return model.penalty_ * model.codes_.nnz + 0.5 * np.sum(misfit**2)


def test_finds_the_planted_atoms(planted):
    X, components, codes = planted
    truth = 0.01 * codes.nnz + 0.5 * np.sum((X - codes @ components) ** 2)
    models = [L0DictionaryLearning(24, penalty=0.01, tol=1e-6, random_state=seed).fit(X) for seed in range(8)]
    cosines = [np.abs(model.components_ @ components.T).max(axis=0) for model in models]
    assert np.mean(np.array(cosines) > 0.98) > 0.85  # single starts find 80 to 100 %
    assert np.mean([model.objective_ for model in models]) < 1.15 * truth


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0, 3.0])
def test_finds_the_planted_atoms_with_a_penalty_that_is_small_or_large(share):
    found = []
    for seed in range(3):
        X, components, _ = make_sparse_data(2000, 32, 120, 4, snr_db=30, random_state=seed)
        model = L0DictionaryLearning(120, penalty=share * 0.012, random_state=seed).fit(X.astype(np.float32))
        found.append(np.mean(np.abs(model.components_ @ components.T).max(axis=0) > 0.95))
    assert np.mean(found) > 0.85  # 0.9 to 1; with gains in units of the penalty alone 0.15 of the smallest one's


@pytest.mark.parametrize("solver", ["auto", "palm"])
@pytest.mark.parametrize(
    ("dtype", "fits", "too_far", "word"),
    [
        (np.float32, 1e16, 1e20, "divide"),
        (np.float64, 1e150, 1e160, "divide"),
        (np.float32, 1e-18, 1e-22, "multiply"),
        (np.float64, 1e-150, 1e-160, "multiply"),
        (np.float64, 1e-150, 1e-200, "multiply"),  # all squares are zero
    ],
)
def test_samples_whose_squares_leave_the_range_are_refused_in_a_sentence(planted, solver, dtype, fits, too_far, word):
    X = planted[0][:400].astype(dtype)
    model = L0DictionaryLearning(24, solver=solver, max_iter=3, random_state=0)
    assert model.fit(X * dtype(fits)).certificate_.holds
    with pytest.raises(ValueError, match=f"leaves the range of float.*{word} X by a number"):
        model.fit(X * dtype(too_far))


@pytest.mark.parametrize("solver", NAMES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_solver_reports_what_it_ended_with(planted, solver, dtype):
    X = planted[0][:400].astype(dtype)
    model = L0DictionaryLearning(24, penalty=0.02, solver=solver, max_iter=8, random_state=0).fit(X)
    assert model.components_.dtype == model.codes_.dtype == dtype
    assert model.codes_.shape == (400, 24)
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(model.objective_, objective(model, X), rtol=1e-4)
    assert len(model.history_["value"]) == model.n_iter_ + 1
    assert model.objective_ < model.history_["value"][0]
    assert model.certificate_.holds == (solver != "inv"), model.certificate_.reason


def test_the_objective_never_rises_and_the_certificate_covers_the_whole_run(planted):
    X = planted[0].astype(np.float32)
    model = L0DictionaryLearning(24, penalty=0.01, max_iter=20, tol=0, random_state=0).fit(X)
    values, lyapunov = model.history_["value"], model.history_["lyapunov"]
    assert np.all(np.diff(values) <= 1e-5 * values[:-1])
    assert np.all(np.diff(lyapunov) <= 1e-5 * lyapunov[:-1])
    assert model.certificate_.holds_from == 0
    assert not model.certificate_.violations


@pytest.mark.parametrize("solver", ["auto", "palm"])
@pytest.mark.parametrize(
    ("options", "law"),
    [
        ({"n_nonzero": 2}, lambda m: np.diff(m.codes_.indptr).max() <= 2),
        ({"positive": True, "penalty": 0.02}, lambda m: m.codes_.data.min() > 0),
        ({"code_bound": 0.5, "penalty": 0.02}, lambda m: np.abs(m.codes_.data).max() <= 0.5 + 1e-12),
        (
            {"n_nonzero": 3, "positive": True, "code_bound": 1.0},
            lambda m: 0 < m.codes_.data.min() <= m.codes_.data.max() <= 1,
        ),
        ({"constraint": "ball", "penalty": 0.02}, lambda m: np.linalg.norm(m.components_, axis=1).max() <= 1 + 1e-9),
    ],
)
def test_constraints_hold_in_fit_and_transform(planted, solver, options, law):
    X = planted[0][:300]
    model = L0DictionaryLearning(20, solver=solver, max_iter=5, random_state=0, **options).fit(X)
    assert law(model)
    model.codes_ = model.transform(X)
    assert law(model)
    assert model.certificate_.holds, model.certificate_.reason


def test_sparse_data_give_the_dense_answer(planted):
    X = planted[0][:300] * (np.abs(planted[0][:300]) > 0.3)
    dense = L0DictionaryLearning(20, penalty=0.02, random_state=0, max_iter=4).fit(X)
    sparse = L0DictionaryLearning(20, penalty=0.02, random_state=0, max_iter=4).fit(csr_array(X))
    np.testing.assert_array_equal(dense.components_, sparse.components_)
    assert (dense.transform(X) != sparse.transform(csr_array(X))).nnz == 0


def test_a_memory_map_gives_the_same_answer(planted, tmp_path):
    X = planted[0][:300]
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    models = [L0DictionaryLearning(20, penalty=0.02, random_state=0, max_iter=3).fit(x) for x in (X, mapped)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_repeats_bit_by_bit(planted, n_jobs):
    X = planted[0].astype(np.float32)
    first, second = (L0DictionaryLearning(24, random_state=3, n_jobs=n_jobs).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.components_, second.components_)
    assert (first.codes_ != second.codes_).nnz == 0


def test_one_and_two_threads_agree(planted):
    X = planted[0].astype(np.float32)
    one, two = (L0DictionaryLearning(24, penalty=0.01, random_state=3, n_jobs=count).fit(X) for count in (1, 2))
    np.testing.assert_allclose(one.objective_, two.objective_, rtol=1e-3)
    np.testing.assert_allclose(np.abs(np.sum(one.components_ * two.components_, axis=1)), 1, atol=1e-3)


def temperatures(dtype):
    """Of many days, hour by hour in kelvin: an offset that is large against all that differs."""
    rng, hours = np.random.default_rng(0), np.arange(24)
    days = np.sin(2 * np.pi * (hours - rng.normal(9, 1.5, (1500, 1))) / 24)
    days = 288 + rng.normal(0, 4, (1500, 1)) + rng.gamma(2, 2, (1500, 1)) * days
    return (days + rng.normal(0, 0.3, days.shape)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("options", [{"n_nonzero": 3}, {"penalty": 0.5}])
@pytest.mark.parametrize("in_chunks", [False, True])
def test_data_with_an_offset_end_with_codes_as_good_as_new_ones(options, dtype, in_chunks):
    X = temperatures(dtype)
    data = iter(np.array_split(X, 3)) if in_chunks else X
    model = L0DictionaryLearning(32, random_state=0, **options).fit(data)
    D, coder = model.components_, Coder(options.get("penalty", 0.0), options.get("n_nonzero"))
    codes = strategy_of(coder, min(D.shape)).from_scratch(X, D, D @ D.T)
    misfit = (X - codes @ model.components_).astype(np.float64)
    new = 0.5 * np.sum(misfit**2) + options.get("penalty", 0.0) * codes.nnz
    assert model.objective_ <= 1.05 * new
    assert model.certificate_.verdict in (Verdict.HOLDS, Verdict.HOLDS_TO_ROUNDING)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_atom_that_carries_most_of_the_data_does_not_hold_the_others_back(dtype):
    # One more feature, by itself, with an atom of its own: to all other atoms nothing has changed.
    X, D, codes = make_sparse_data(200, 8, 9, 2, random_state=0)
    X, D, W = (array.astype(dtype) for array in (X, D, codes.toarray()))
    weights = []
    for size in (1.0, 10.0, 100.0):
        samples = np.hstack([X, np.full((200, 1), size, dtype)])
        atoms = np.block([[D, np.zeros((9, 1), dtype)], [np.zeros((1, 8), dtype), np.ones((1, 1), dtype)]])
        codes = csr_array(np.hstack([W, np.full((200, 1), size, dtype)]))
        planned = plan("auto", Rows(samples), Coder(0.01), 10)
        z = planned.start(atoms)
        edges = np.cumsum([0, *(z[name].shape[0] for name in z if name != "D")])
        z |= {name: codes[a:b] for name, (a, b) in zip(z, pairwise(edges), strict=False) if name != "D"}
        sub = tecu.SubProblem.of(planned.solver.problem, "D", z)
        weights.append(planned.solver.updates["D"].first_eta(sub))
    np.testing.assert_allclose(weights, weights[0], rtol=1e-6)
    assert 0.0 < weights[0] <= 0.5 * np.median(np.sum(W**2, axis=0))


def test_transform_lowers_the_objective_of_each_sample_below_that_of_no_code(planted):
    X = planted[0]
    model = L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
    codes = model.transform(X)
    each = 0.01 * np.diff(codes.indptr) + 0.5 * np.sum((X - model.inverse_transform(codes)) ** 2, axis=1)
    assert np.all(each <= 0.5 * np.sum(X**2, axis=1) + 1e-12)
    np.testing.assert_allclose(model.score(X), -each.mean())
    assert each.sum() <= 1.05 * model.objective_


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_score_of_sparse_data_takes_no_dense_copy_of_them(dtype):
    X = random_array((20_000, 200), density=0.005, format="csr", rng=np.random.default_rng(0), dtype=dtype)
    model = L0DictionaryLearning(12, penalty=0.01, random_state=0, max_iter=2).fit(X[:2000])
    model.score(X[:10])  # imports and compiles
    tracemalloc.start()
    score = model.score(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * X.shape[0] * X.shape[1] * X.dtype.itemsize
    codes = model.transform(X)
    misfit = (codes @ model.components_).astype(float) - X.toarray().astype(float)
    plain = -(0.01 * codes.nnz + 0.5 * np.sum(misfit**2)) / len(misfit)
    np.testing.assert_allclose(score, plain, rtol=1e-6 if dtype is np.float32 else 1e-12)


def test_partial_fit_learns_from_batches(planted):
    X = planted[0]
    model = L0DictionaryLearning(24, penalty=0.01, random_state=0)
    scores = []
    for _ in range(4):
        for batch in np.array_split(X, 15):
            model.partial_fit(batch)
        scores.append(model.score(X))
    assert scores[-1] > scores[0]
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)


def test_save_and_load(planted, tmp_path):
    X = planted[0][:300]
    model = L0DictionaryLearning(20, penalty=0.02, random_state=0, max_iter=3).fit(X)
    model.save(tmp_path / "model.npz")
    loaded = L0DictionaryLearning.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.components_, model.components_)
    assert (loaded.transform(X) != model.transform(X)).nnz == 0
    assert loaded.get_params() == model.get_params()
    (tmp_path / "junk.npz").write_bytes(b"junk")
    with pytest.raises(ValueError, match=r"junk\.npz"):
        L0DictionaryLearning.load(tmp_path / "junk.npz")


@pytest.mark.parametrize("solver", ["auto", "palm"])
def test_a_given_dictionary_is_where_it_starts(planted, solver):
    X, components, _ = planted
    model = L0DictionaryLearning(24, penalty=0.01, solver=solver, init=2 * components, max_iter=3, random_state=0).fit(
        X
    )
    cosines = np.sum(model.components_ * components, axis=1)
    assert np.median(cosines) > 0.99
    assert model.n_replaced_ == 0


def test_callback_sees_every_sweep_and_may_stop(planted):
    seen = []

    def stop_at_two(state):
        seen.append(state.t)
        return state.t == 2

    model = L0DictionaryLearning(20, tol=0, callback=stop_at_two, random_state=0).fit(planted[0][:300])
    assert seen == [1, 2]
    assert model.status_ is tecu.Status.STOPPED


def test_a_partly_fitted_model_goes_on_after_pickling(planted):
    X = planted[0].astype(np.float32)
    model = L0DictionaryLearning(24, penalty=0.01, random_state=0).partial_fit(X[:500])
    copy = pickle.loads(pickle.dumps(model))
    assert "_room" in vars(model._online)
    assert "_room" not in vars(copy._online)  # scratch stays behind
    for batch in (X[500:1000], X[1000:1500]):
        np.testing.assert_array_equal(model.partial_fit(batch).components_, copy.partial_fit(batch).components_)


def test_a_resumed_fit_ends_where_the_whole_one_does(planted, tmp_path):
    X = planted[0].astype(np.float32)
    options = {"penalty": 0.01, "tol": 0, "max_iter": 6, "random_state": 4}
    whole = L0DictionaryLearning(24, **options).fit(X)
    assert whole.n_replaced_ > 0
    path = tmp_path / "run.npz"
    L0DictionaryLearning(24, **options, checkpoint=path, callback=lambda state: state.t == 3).fit(X)
    resumed = L0DictionaryLearning(24, **options, checkpoint=path).fit(X)
    np.testing.assert_array_equal(resumed.components_, whole.components_)
    assert (resumed.codes_ != whole.codes_).nnz == 0
    assert resumed.n_replaced_ == whole.n_replaced_
    for name in ("value", "nonzeros", "replaced"):
        np.testing.assert_array_equal(resumed.start_history_[name], whole.start_history_[name])
    with pytest.raises(ValueError, match="other data or with other parameters"):
        L0DictionaryLearning(24, **options, checkpoint=path).fit(X[:-1])


KILLS = """
import os, random, signal, sys, time, numpy as np
import tecu.dictionary.estimator as e, tecu.dictionary.resumption as resumption
from tecu.checkpoint import Checkpoint
resumption.Checkpoint = lambda path, seconds: Checkpoint(path, seconds=0.0)
X = np.load(sys.argv[1])
def fit(**options):
    return e.L0DictionaryLearning(24, penalty=0.01, tol=0, max_iter=40, random_state=1, **options).fit(X)
fit()
began = time.perf_counter()
whole = fit()
longest = max(0.4, 0.5 * (time.perf_counter() - began))
killed, moments = 0, random.Random(int(sys.argv[3]))
for _ in range(10):
    child = os.fork()
    if child == 0:
        fit(checkpoint=sys.argv[2], callback=lambda state: time.sleep(0.05))
        os._exit(0)
    time.sleep(moments.uniform(0.0, longest))
    os.kill(child, signal.SIGKILL)
    killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    if not os.path.exists(sys.argv[2]):
        longest *= 2  # the machine has other things to do: nothing is to be resumed yet
resumed_from = []
resumed = fit(checkpoint=sys.argv[2], callback=lambda state: resumed_from.append(state.t))
assert np.array_equal(resumed.components_, whole.components_), "another dictionary"
assert (resumed.codes_ != whole.codes_).nnz == 0, "other codes"
print(killed, resumed_from[0] if resumed_from else 41)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="os.fork and SIGKILL")
def test_a_fit_killed_ten_times_resumes_to_the_same_result(planted, tmp_path):
    np.save(tmp_path / "X.npy", planted[0].astype(np.float32))
    seed = time.time_ns() % 2**31  # another ten moments each time
    command = [sys.executable, "-W", "ignore", "-c", KILLS, tmp_path / "X.npy", tmp_path / "run.npz", str(seed)]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    killed, resumed_from = map(int, done.stdout.split())
    assert killed >= 3, f"seed {seed}"  # the last ones may find it finished, on a slow machine
    assert resumed_from > 1, f"seed {seed}"


AWKWARD = {
    "zero columns": lambda r: np.hstack([r.normal(size=(40, 5)), np.zeros((40, 3))]),
    "zero samples": lambda r: np.vstack([r.normal(size=(40, 5)), np.zeros((10, 5))]),
    "all zero": lambda r: np.zeros((30, 5)),
    "duplicate samples": lambda r: np.repeat(r.normal(size=(4, 6)), 20, axis=0),
    "one sample": lambda r: r.normal(size=(1, 6)),
    "one feature": lambda r: r.normal(size=(30, 1)),
    "fewer samples than atoms": lambda r: r.normal(size=(5, 4)),
    "rank one": lambda r: np.outer(r.normal(size=30), r.normal(size=6)),
    "integers": lambda r: r.integers(-5, 6, size=(30, 6)),
    "huge": lambda r: 1e12 * r.normal(size=(30, 6)),
    "tiny": lambda r: 1e-12 * r.normal(size=(30, 6)),
}


@pytest.mark.filterwarnings("ignore:block .* never moved:RuntimeWarning")
@pytest.mark.parametrize("solver", ["auto", "palm", "tecu"])
@pytest.mark.parametrize("kind", AWKWARD)
def test_awkward_data_give_a_good_result(solver, kind):
    X = AWKWARD[kind](np.random.default_rng(0))
    model = L0DictionaryLearning(8, solver=solver, max_iter=10, random_state=0).fit(X)
    assert np.all(np.isfinite(model.components_))
    assert model.objective_ <= 0.5 * np.sum(X.astype(float) ** 2) * (1 + 1e-9)
    np.testing.assert_allclose(model.objective_, objective(model, X), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("solver", ["palm", "tecu"])
def test_a_fit_of_sparse_samples_with_many_features_takes_no_dense_copy_of_them(solver):
    X = random_array((3000, 5000), density=0.002, format="csr", rng=np.random.default_rng(0))
    model = L0DictionaryLearning(10, penalty=0.1, solver=solver, max_iter=2, random_state=0)
    model.fit(X[:30])  # imports and compiles
    tracemalloc.start()
    model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.2 * X.shape[0] * X.shape[1] * X.dtype.itemsize


@pytest.mark.parametrize("solver", ["palm", "bcu", "tecu"])
@pytest.mark.parametrize("sweeps", [3, 5, 20])
def test_the_objective_of_sparse_samples_in_float32_is_that_of_the_arrays(solver, sweeps):
    X = csr_array(np.full((120, 1), -417.0, np.float32))  # all sums are rounded to one side
    model = L0DictionaryLearning(30, n_nonzero=10, solver=solver, tol=0, max_iter=sweeps, random_state=0).fit(X)
    misfit = X.toarray().astype(float) - model.codes_.astype(float) @ model.components_.astype(float)
    np.testing.assert_allclose(model.objective_, 0.5 * np.sum(misfit**2), rtol=2e-5)


@pytest.mark.parametrize("solver", NAMES)
def test_a_penalty_too_large_for_any_code_gives_no_code_and_says_so(solver, planted):
    X = planted[0][:100]
    model = L0DictionaryLearning(8, penalty=1e6, solver=solver, max_iter=4, random_state=0)
    with pytest.warns(UserWarning, match="penalty_=1e.06 is too large: all codes are zero") as told:
        model.fit(X)
    assert len(told) == 1
    assert told[0].filename == __file__
    assert f"{0.5 * np.mean(np.sum(X**2, axis=1)):.3g}" in str(told[0].message)
    assert model.codes_.nnz == 0
    np.testing.assert_allclose(model.objective_, 0.5 * np.sum(X**2))


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"penalty": -1.0}, "penalty"),
        ({"penalty": "big"}, "penalty"),
        ({"penalty": 0.1, "n_nonzero": 2}, "not both"),
        ({"n_nonzero": 0}, "n_nonzero"),
        ({"solver": "adam"}, "solver"),
        ({"constraint": "cube"}, "constraint"),
        ({"n_components": 0}, "n_components"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1}, "tol"),
        ({"init": "zeros"}, "init"),
        ({"init": np.ones((2, 2))}, "init"),
        ({"dtype": np.int32}, "dtype"),
        ({"code_bound": 0}, "code_bound"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_wrong_parameters_are_named(options, word):
    options = {"n_components": 4, **options}
    with pytest.raises(ValueError, match=word):
        L0DictionaryLearning(**options).fit(np.random.default_rng(0).normal(size=(20, 5)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(value):
    X = np.ones((10, 3))
    X[4, 1] = value
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        L0DictionaryLearning(3).fit(X)


@pytest.mark.parametrize("seed", [0, 11, 16])
def test_a_fit_that_is_almost_exact_is_certified(seed):
    # H is a hundred-thousandth of what the totals sum up, and their rounding is all that is left of a comparison.
    X = np.random.default_rng(seed).normal(size=(600, 16))
    model = L0DictionaryLearning(130, penalty=1e-5 * 16, random_state=seed).fit(X)
    assert model.certificate_.holds, model.certificate_.reason


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fewer_samples_than_atoms_of_very_different_sizes_leave_unit_atoms(dtype):
    for seed in range(5):
        X = np.random.default_rng(seed).normal(size=(5, 16))
        X[0] *= 1e4
        model = L0DictionaryLearning(70, n_nonzero=3, max_iter=2, random_state=seed).fit(X.astype(dtype))
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1, rtol=1e-5)


def test_squares_of_batches_that_are_finite_while_their_sum_is_not_give_a_sentence():
    X = np.random.default_rng(0).normal(size=(3000, 10))
    X *= 2e154 / np.linalg.norm(X)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="the squares of X sum to inf"):
        L0DictionaryLearning(1, penalty=1e300).fit(X)


@pytest.mark.parametrize("samples", ["constant", "equal"])
def test_many_equal_samples_are_certified(samples):
    # Long sums of equal numbers are rounded to one side: they are off by more than sums of random numbers.
    row = np.full(16, 0.3) if samples == "constant" else np.random.default_rng(0).normal(size=16)
    model = L0DictionaryLearning(8, random_state=0, max_iter=5).fit(np.repeat(row[None], 6000, axis=0))
    assert model.certificate_.holds, model.certificate_.reason
