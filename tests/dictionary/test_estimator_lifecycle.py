"""An estimator over time: fit and partial_fit in turn, files, checkpoints, other parameters, fits side by side."""

import threading

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.linear_model import orthogonal_mp_gram
from threadpoolctl import threadpool_info

from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.dictionary.embedded import DescendedCodes

OPTIONS = {"n_components": 20, "penalty": 0.02, "random_state": 0}


def test_fit_forgets_what_partial_fit_has_seen(X, other):
    fresh = L0DictionaryLearning(**OPTIONS).fit(X).partial_fit(X[:200])
    used = L0DictionaryLearning(**OPTIONS).partial_fit(other).fit(X).partial_fit(X[:200])
    np.testing.assert_array_equal(used.components_, fresh.components_)
    narrow = L0DictionaryLearning(**OPTIONS).partial_fit(X).fit(X[:, :8]).partial_fit(X[:, :8])
    assert narrow.components_.shape == (20, 8)


def test_a_small_batch_hardly_moves_what_many_samples_have_taught(X):
    model = L0DictionaryLearning(**OPTIONS).fit(X)
    before = model.score(X)
    assert model.partial_fit(X[:20]).score(X) > 1.02 * before  # scores are negative


def test_a_saved_model_learns_on_as_the_one_in_memory(X, other, tmp_path):
    model = L0DictionaryLearning(**OPTIONS)
    for batch in np.array_split(X, 15):
        model.partial_fit(batch)
    model.save(tmp_path / "model.npz")
    loaded = L0DictionaryLearning.load(tmp_path / "model.npz").partial_fit(other[:20])
    assert loaded.score(X) == pytest.approx(model.partial_fit(other[:20]).score(X), rel=0.01)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_large_first_batch_is_learned_about_as_well_as_by_a_fit(seed):
    X = make_sparse_data(3000, 16, 24, 2, random_state=seed)[0]
    options = {"n_components": 24, "penalty": 0.01, "random_state": 0}
    model = L0DictionaryLearning(**options).partial_fit(X[:1000])
    for batch in np.array_split(X[1000:2500], 15):
        model.partial_fit(batch)
    whole = L0DictionaryLearning(**options).fit(X[:2500])
    assert model.score(X[2500:]) > 1.5 * whole.score(X[2500:])  # scores are negative


def test_partial_fit_leaves_nothing_of_another_dictionary(X, other):
    model = L0DictionaryLearning(**OPTIONS).fit(X).partial_fit(other)
    assert not {"codes_", "objective_", "certificate_", "history_", "status_"} & set(vars(model))


def test_what_a_loaded_model_says_of_its_certificate_survives_another_file(X, tmp_path):
    L0DictionaryLearning(**OPTIONS).fit(X).save(tmp_path / "one.npz")
    loaded = L0DictionaryLearning.load(tmp_path / "one.npz")
    loaded.save(tmp_path / "two.npz")
    assert L0DictionaryLearning.load(tmp_path / "two.npz").certificate_summary_ == loaded.certificate_summary_


def test_fit_leaves_nothing_of_the_file_that_a_model_came_from(X, other, tmp_path):
    fresh = L0DictionaryLearning(**OPTIONS).fit(X)
    fresh.save(tmp_path / "one.npz")
    again = L0DictionaryLearning.load(tmp_path / "one.npz").fit(other)
    assert set(vars(again)) == set(vars(fresh))
    with pytest.raises(ValueError, match="NaN"):
        (loaded := L0DictionaryLearning.load(tmp_path / "one.npz")).fit(np.full_like(X, np.nan))
    assert loaded.certificate_summary_  # of the dictionary that it still has


def test_parameters_set_after_a_fit_are_used(X):
    model = L0DictionaryLearning(20, n_nonzero=3, max_iter=2, random_state=0).fit(X)
    dear = model.set_params(n_nonzero=None, penalty=0.05).transform(X)
    cheap = model.set_params(penalty=0.001).transform(X)
    assert dear.nnz < cheap.nnz < 12 * len(X)
    with pytest.raises(ValueError, match="give a number"):
        model.set_params(penalty="auto").transform(X)
    learning = L0DictionaryLearning(20, n_nonzero=3, random_state=0).partial_fit(X)
    learning.set_params(n_nonzero=1, positive=True).partial_fit(X)
    assert learning._online.coder.n_nonzero == 1
    assert learning._online.coder.lower == 0.0


def test_the_penalty_of_a_model_is_the_one_that_was_used(X, other, tmp_path):
    model = L0DictionaryLearning(20, random_state=0).partial_fit(X[:500])
    chosen = model.penalty_
    assert model.partial_fit(3 * other).penalty_ == chosen  # "auto" is not chosen anew
    assert model.set_params(penalty=0.05).partial_fit(X[:500]).penalty_ == 0.05
    model.save(tmp_path / "model.npz")
    assert L0DictionaryLearning.load(tmp_path / "model.npz").penalty_ == 0.05
    assert model.set_params(penalty="auto").partial_fit(X[:500]).penalty_ == 0.05
    assert model.set_params(n_nonzero=2).partial_fit(X[:500]).penalty_ == 0.0


def test_a_number_of_atoms_is_begun_by_orthogonal_matching_pursuit_and_never_worse(X):
    model = L0DictionaryLearning(20, n_nonzero=3, max_iter=2, random_state=0).fit(X)
    D, some = model.components_, X[:300]
    theirs = orthogonal_mp_gram(D @ D.T, D @ some.T, n_nonzero_coefs=3).T
    np.testing.assert_allclose(DescendedCodes(n_nonzero=3).greedy_code(some, D, D @ D.T).toarray(), theirs, atol=1e-6)
    mine, greedy = (np.sum((some - codes @ D) ** 2, axis=1) for codes in (model.transform(some), theirs))
    assert np.all(mine <= greedy * (1 + 1e-9))


@pytest.mark.parametrize("method", ["fit", "fit_transform", "partial_fit"])
def test_an_argument_that_is_not_known_is_refused(X, method):
    with pytest.raises(TypeError, match="sample_weight"):
        getattr(L0DictionaryLearning(**OPTIONS, max_iter=1), method)(X[:300], sample_weight=np.ones(300))


@pytest.mark.parametrize("random_state", [None, "used"])
def test_a_checkpoint_is_gone_on_from_without_a_seed(X, tmp_path, random_state):
    options = {"penalty": 0.02, "tol": 0, "checkpoint": tmp_path / "run.npz"}
    state = np.random.RandomState(1) if random_state == "used" else None
    first = L0DictionaryLearning(20, **options, max_iter=2, random_state=state).fit(X)
    second = L0DictionaryLearning(20, **options, max_iter=4, random_state=state).fit(X)
    assert second.n_iter_ == 4
    assert second.history_["value"][: len(first.history_["value"])].tolist() == first.history_["value"].tolist()


@pytest.mark.filterwarnings("ignore:penalty_=.* is too large:UserWarning")
@pytest.mark.parametrize("solver", ["auto", "palm"])
@pytest.mark.parametrize("penalty", [0.02, 1.0])  # with the larger one no block moves, and the fit ends by that
def test_the_checkpoint_of_a_fit_that_has_ended_is_not_gone_on_from(solver, penalty, tmp_path):
    model = L0DictionaryLearning(
        2, penalty=penalty, solver=solver, tol=0, max_iter=9, random_state=0, checkpoint=tmp_path / "run.npz"
    )
    ended = [model.fit(np.eye(4)).history_["value"].tolist()]
    sweeps, status = model.n_iter_, model.status_
    ended.append(model.fit(np.eye(4)).history_["value"].tolist())
    assert ended[0] == ended[1]
    assert (model.n_iter_, model.status_) == (sweeps, status)


def test_a_checkpoint_of_other_data_is_refused_wherever_they_differ(tmp_path):
    X = np.random.default_rng(0).normal(size=(32768, 64))  # so many that only some entries are kept
    options = {"n_components": 20, "n_nonzero": 2, "random_state": 0, "max_iter": 1, "solver": "palm"}
    L0DictionaryLearning(**options, checkpoint=tmp_path / "run.npz").fit(X)
    for change in (lambda Y: Y[:, 1:8].__imul__(-1), lambda Y: Y[12345:12346, 17].__imul__(1.5)):
        Y = X.copy()
        change(Y)
        with pytest.raises(ValueError, match=r"run\.npz was written by a fit of other data"):
            L0DictionaryLearning(**options, checkpoint=tmp_path / "run.npz").fit(Y)


def test_a_checkpoint_of_another_start_is_refused(X, tmp_path):
    atoms = np.random.default_rng(0).normal(size=(20, 12))
    starts = {"greedy": "auto", "data": "data", "random": "random", "atoms": atoms, "others": -atoms[:, ::-1]}
    options = {**OPTIONS, "tol": 0, "checkpoint": tmp_path / "run.npz"}
    for written, init in starts.items():
        (tmp_path / "run.npz").unlink(missing_ok=True)
        first = L0DictionaryLearning(**options, max_iter=1, init=init).fit(X)
        for wanted in starts.keys() - {written}:
            with pytest.raises(ValueError, match=r"run\.npz was written by .* with other parameters"):
                L0DictionaryLearning(**options, max_iter=2, init=starts[wanted]).fit(X)
        same = {"greedy": "greedy", "atoms": (2 * atoms).tolist()}.get(written, init)
        second = L0DictionaryLearning(**options, max_iter=2, init=same).fit(X)
        assert second.history_["value"][:2].tolist() == first.history_["value"].tolist()


@pytest.mark.parametrize(
    "other",
    [
        {"n_components": 19}, {"n_components": 21}, {"n_components": None}, {"penalty": 0.021}, {"penalty": "auto"},
        {"penalty": "auto", "n_nonzero": 3}, {"solver": "palm"}, {"constraint": "ball"}, {"positive": True},
        {"code_bound": 1.0}, {"dtype": np.float32}, {"random_state": 1},
    ],
    ids=str,
)  # fmt: skip
def test_a_checkpoint_with_another_parameter_is_refused(X, tmp_path, other):
    options = {**OPTIONS, "checkpoint": tmp_path / "run.npz"}
    L0DictionaryLearning(**options, max_iter=1).fit(X[:300])
    with pytest.raises(ValueError, match=r"run\.npz was written by a fit of other data or with other parameters"):
        L0DictionaryLearning(**{**options, **other}, max_iter=2).fit(X[:300])


@pytest.mark.parametrize("solver", ["auto", "palm", "tecu"])
@pytest.mark.filterwarnings("ignore:block .* never moved:RuntimeWarning")
def test_sparse_samples_with_entries_given_twice_are_their_sums(solver):
    twice = csr_array(([1.0, 1.0, 2.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    options = {"penalty": 0.01, "solver": solver, "random_state": 0, "max_iter": 30}
    found = L0DictionaryLearning(2, **options).fit(twice)
    assert found.objective_ == pytest.approx(L0DictionaryLearning(2, **options).fit(2 * np.eye(2)).objective_)
    assert twice.nnz == 3  # the caller's own stays as it was


def test_fits_in_several_threads_give_blas_its_threads_back(X):
    def blas():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = blas()
    fits = [threading.Thread(target=L0DictionaryLearning(**OPTIONS, max_iter=k).fit, args=(X,)) for k in (1, 2, 3)]
    for fit in fits:
        fit.start()
    for fit in fits:
        fit.join()
    assert blas() == before


def test_numbers_that_a_precision_cannot_hold_are_refused(X):
    with pytest.raises(ValueError, match="leaves the range of float32"):
        L0DictionaryLearning(20, random_state=0).partial_fit((1e18 * X).astype(np.float32))
    model = L0DictionaryLearning(20, random_state=0, max_iter=1).fit(X.astype(np.float32))
    with pytest.raises(ValueError, match=r"beyond 3\.4e\+38"):
        model.transform(1e300 * X)
    with pytest.raises(ValueError, match="first batch of zeros"):
        L0DictionaryLearning(20).partial_fit(np.zeros((30, 4)))


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"dtype": "foo"}, "dtype must be float32"),
        ({"callback": 3}, "callback must be a function"),
        ({"penalty": 10**400}, "penalty must be a positive number"),
        ({"checkpoint": "."}, "checkpoint must be a file"),
        ({"checkpoint": 3}, "checkpoint must be the name of a file or None, got 3"),
        ({"constraint": np.ones(2)}, r"constraint must be 'sphere' or 'ball', got array\("),
        ({"solver": np.ones(2)}, r"solver must be one of .*; got array\("),
        ({"positive": "no"}, "positive must be True or False"),
        ({"init": [[1.0], [2.0, 3.0]]}, "init must be an array of numbers"),
        ({"init": [[10**400]]}, "init must be an array of numbers"),
    ],
)
def test_what_a_parameter_may_be_is_said(X, option, word):
    with pytest.raises(ValueError, match=word):
        L0DictionaryLearning(20, **option).fit(X)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("constraint", ["sphere", "ball"])
def test_a_start_is_the_same_whatever_the_unit_of_its_atoms(X, dtype, constraint):
    atoms = 4 * np.random.default_rng(0).normal(size=(20, 12))

    def found(init):
        options = {"penalty": 0.02, "max_iter": 1, "constraint": constraint, "random_state": 0}
        return L0DictionaryLearning(20, init=init, **options).fit(X[:300].astype(dtype)).components_

    units = [2.0**665] if constraint == "ball" else [2.0**665, 2.0**100, 2.0**-100, 2.0**-665]  # small ones are inside
    for unit in units:
        np.testing.assert_array_equal(found(unit * atoms), found(atoms))


def test_a_truth_value_of_numpy_stops_a_fit(X):
    assert L0DictionaryLearning(**OPTIONS, callback=lambda state: np.float64(state.value) < 1e9).fit(X).n_iter_ == 1


def test_a_batch_that_is_refused_leaves_nothing(X):
    model = L0DictionaryLearning(20, random_state=0)
    with pytest.raises(ValueError, match=r"sum to 9\.\d+e\+39, which leaves the range of float32"):
        model.partial_fit((1e18 * X).astype(np.float32))
    assert not hasattr(model, "components_")


def test_partial_fit_refuses_an_iterator_in_a_sentence(X):
    with pytest.raises(TypeError, match=r"partial_fit takes one batch.*call it for each chunk"):
        L0DictionaryLearning(**OPTIONS).partial_fit(iter([X]))


@pytest.mark.parametrize("options", [{"penalty": 0.001}, {"n_nonzero": 3}, {"penalty": 0.001, "solver": "palm"}])
@pytest.mark.parametrize("bound", [0.1, 0.7, 1 / 3, 1e-3])
def test_no_coefficient_in_float32_is_larger_than_its_bound(X, options, bound):
    model = L0DictionaryLearning(20, code_bound=bound, max_iter=2, random_state=0, **options).fit(X.astype(np.float32))
    for codes in (model.codes_, model.transform(X.astype(np.float32))):
        assert codes.dtype == np.float32
        assert 0.99 * bound < np.max(np.abs(codes.data.astype(np.float64))) <= bound


def test_a_bound_beyond_float32_is_one_that_no_coefficient_comes_to(X):
    model, other = (
        L0DictionaryLearning(20, code_bound=bound, max_iter=2, random_state=0).fit(X.astype(np.float32))
        for bound in (1e300, 1e30)
    )
    np.testing.assert_array_equal(model.components_, other.components_)


@pytest.mark.parametrize("in_chunks", [False, True])
def test_float32_stays_float32_in_any_order_of_bytes(X, in_chunks):
    """As FITS and IDL files have it."""
    little, big = X[:300].astype("<f4"), X[:300].astype(">f4")
    models = [L0DictionaryLearning(**OPTIONS, max_iter=2).fit(iter([Y]) if in_chunks else Y) for Y in (little, big)]
    assert [model.components_.dtype for model in models] == [np.float32, np.float32]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)


@pytest.mark.parametrize("method", ["fit", "partial_fit", "transform", "score"])
def test_what_stands_behind_a_mask_is_not_taken_for_data(X, method):
    model = L0DictionaryLearning(**OPTIONS, max_iter=2).fit(np.ma.masked_array(X[:100], False))  # nothing is masked
    with pytest.raises(ValueError, match="X has masked entries"):
        getattr(model, method)(np.ma.masked_array(X[:100], X[:100] > 1.0))


@pytest.mark.parametrize(("name", "values"), [("penalty", [0.01, 0.03, 0.1]), ("n_nonzero", [3, 2, 1])])
def test_the_score_does_not_compare_penalties(X, name, values):
    scores = []
    for value in values:
        options = {"n_components": 20, "random_state": 0, name: value}
        scores.append(L0DictionaryLearning(**options).fit(X[:1500]).score(X[1500:]))
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("asked", [9, None])
def test_another_number_of_atoms_is_refused_by_the_next_batch_and_does_not_touch_codes(X, learn, asked):
    model = getattr(L0DictionaryLearning(14, n_nonzero=3, random_state=0), learn)(X)
    before, codes = model.components_.copy(), model.transform(X)
    model.set_params(n_components=asked)
    wanted = X.shape[1] if asked is None else asked
    sentence = f"n_components={asked} asks for {wanted} atoms, but the model has learned 14.*set n_components=14, or"
    with pytest.raises(ValueError, match=sentence):
        model.partial_fit(X)
    np.testing.assert_array_equal(model.components_, before)
    model.set_params(n_components=1)  # fewer than n_nonzero
    assert abs(model.transform(X) - codes).max() == 0
    assert model.set_params(n_components=14).partial_fit(X).components_.shape == before.shape
    assert model.set_params(n_components=9).fit(X).components_.shape[0] == 9
