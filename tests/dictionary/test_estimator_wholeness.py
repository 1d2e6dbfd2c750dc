"""What is left of a model when something breaks in on it: the old one or the new one, never parts of both."""

import copy
import gc
import pickle
import weakref

import joblib
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.exceptions import NotFittedError

from tecu.dictionary import L0DictionaryLearning, online, partial
from tecu.dictionary.absorption import absorb_all
from tecu.dictionary.workers import Workers

OPTIONS = {"n_components": 20, "penalty": 0.02, "random_state": 0}


def broken_off(state):
    raise KeyboardInterrupt


def break_batch(model, batch, monkeypatch):
    def absorb_and_break(absorptions, team):
        absorb_all(absorptions, team)  # totals and atoms hold the batch by now
        broken_off(None)

    with monkeypatch.context() as patch:
        patch.setattr(online, "absorb_all", absorb_and_break)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(batch)


def test_a_fit_that_is_broken_off_leaves_the_model_as_it_was(X, other, tmp_path):
    model = L0DictionaryLearning(**OPTIONS, max_iter=1).partial_fit(other)
    codes, features, learned = model.transform(other), other[:, :8], set(vars(model))
    for breaking in ({"callback": broken_off}, {"init": np.full((20, 8), np.nan)}):
        with pytest.raises((KeyboardInterrupt, ValueError)):
            model.set_params(**breaking).fit(features)
    assert set(vars(model)) == learned
    model.set_params(callback=None, init="auto").save(tmp_path / "model.npz")
    assert (L0DictionaryLearning.load(tmp_path / "model.npz").transform(other) != codes).nnz == 0
    unbroken = L0DictionaryLearning(**OPTIONS, max_iter=1).partial_fit(other).partial_fit(X)
    np.testing.assert_array_equal(model.partial_fit(X).components_, unbroken.components_)


def test_a_first_fit_that_is_broken_off_leaves_nothing(X, monkeypatch):
    model = L0DictionaryLearning(**OPTIONS, callback=broken_off)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    break_batch(model, X, monkeypatch)
    for method in (model.transform, model.score):
        with pytest.raises(NotFittedError):
            method(X)


def test_a_batch_that_is_broken_off_is_not_half_learned(X, other, monkeypatch, tmp_path):
    model = L0DictionaryLearning(**OPTIONS)
    for batch in np.array_split(X, 5):
        model.partial_fit(batch)
    model.save(tmp_path / "model.npz")
    break_batch(model, 100 * other, monkeypatch)
    loaded = L0DictionaryLearning.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(model.partial_fit(other).components_, loaded.partial_fit(other).components_)


def test_an_interruption_at_the_very_end_of_a_batch_leaves_atoms_and_totals_of_one_kind(X, other, monkeypatch):
    model = L0DictionaryLearning(**OPTIONS).partial_fit(X)
    learned = model.components_

    def interrupted(team):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Workers, "close", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.partial_fit(other)
    assert model.components_ is learned
    np.testing.assert_array_equal(model._online.D, learned)
    model._online.D[:] = -1.0  # as it is left by an interruption after the last line of all
    assert np.max(np.abs(model.partial_fit(other).components_)) <= 1.0 + 1e-6
    assert np.mean(np.abs(np.sum(model.components_ * learned, axis=1)) > 0.9) > 0.5  # it went on from those


def test_a_model_whose_arrays_are_maps_of_a_file_goes_on_learning(X, other, tmp_path):
    """As joblib hands it to other processes, which must not write into the file; kernels write all the same."""
    model = L0DictionaryLearning(**OPTIONS).partial_fit(X)
    joblib.dump(model, tmp_path / "model")
    mapped = joblib.load(tmp_path / "model", mmap_mode="r")
    assert not mapped.components_.flags.writeable
    assert mapped._online.A.flags.writeable  # or the process would end here
    np.testing.assert_array_equal(mapped.partial_fit(other).components_, model.partial_fit(other).components_)


def test_a_long_batch_is_learned_in_parts_that_forget_once(X, monkeypatch):
    model = L0DictionaryLearning(**OPTIONS).partial_fit(X)
    parts, kept, batch, forget = [], [], online.Coder.batch, online.OnlineDictionary._forget
    for name in ("SAMPLES_AN_ATOM", "LEAST_SAMPLES"):
        monkeypatch.setattr(partial, name, 4)
    monkeypatch.setattr(online.Coder, "batch", lambda coder, Y: parts.append(Y) or batch(coder, Y))
    monkeypatch.setattr(online.OnlineDictionary, "_forget", lambda own, keep: kept.append(keep) or forget(own, keep))
    before = np.trace(model._online.A) / model._online.weight
    model.partial_fit(csr_array(X))
    assert [len(part) for part in parts] == [80] * (len(X) // 80) + [len(X) % 80] * (len(X) % 80 > 0)
    np.testing.assert_allclose(np.vstack(parts), X)
    assert kept[0] < 1.0
    assert set(kept[1:]) == {1.0}
    assert np.trace(model._online.A) / model._online.weight > before / 2 + np.sum(X**2) / 2


@pytest.mark.parametrize(
    ("name", "value", "word"),
    [
        ("components_", np.eye(3), r"shape \(3, 3\), and n_features_in_ is 12"),
        ("components_", np.full((20, 12), np.nan), "finite numbers"),
        ("penalty_", np.nan, "its penalty is nan"),
        ("n_jobs", 5000, "asks for 5000 threads"),
    ],
)
def test_what_load_would_refuse_is_not_saved(other, tmp_path, name, value, word):
    model = L0DictionaryLearning(**OPTIONS, max_iter=1).fit(other)
    setattr(model, name, value)
    with pytest.raises(ValueError, match=f"load would refuse it: .*{word}"):
        model.save(tmp_path / "model.npz")
    assert not (tmp_path / "model.npz").exists()


@pytest.mark.parametrize("solver", ["auto", "tecu", "tecu-pith", "palm", "ipalm", "bcu", "inv"])
@pytest.mark.parametrize("kind", [np.array, csr_array])
@pytest.mark.filterwarnings("ignore:X was changed after fit:RuntimeWarning")
def test_the_residual_is_that_of_the_samples_that_were_fitted_or_none(other, solver, kind):
    X = kind(other)
    asked, late = (L0DictionaryLearning(**OPTIONS, solver=solver, max_iter=2).fit(X).certificate_ for _ in range(2))
    residual = asked.residual
    assert residual > 0
    (X.data if kind is csr_array else X)[-1:] = 0
    assert asked.residual == residual
    assert late.residual == residual or np.isnan(late.residual)  # some solvers make a copy anyway


def test_samples_that_were_changed_are_told(other, tmp_path):
    X = other.copy()
    model = L0DictionaryLearning(**OPTIONS, max_iter=2).fit(X)
    X[7, 3] += 1e-9
    with pytest.warns(RuntimeWarning, match="X was changed after fit"):
        model.save(tmp_path / "model.npz")
    assert "residual ||P|| = nan" in L0DictionaryLearning.load(tmp_path / "model.npz").certificate_summary_


def test_a_model_lets_go_of_its_samples_when_the_residual_is_known(other):
    X = other.copy()
    held = weakref.ref(X)
    model = L0DictionaryLearning(**OPTIONS, max_iter=2).fit(X)
    del X
    gc.collect()
    assert held() is not None
    residual = model.certificate_.residual
    gc.collect()
    assert held() is None
    assert copy.deepcopy(model).certificate_.residual == residual


def test_a_copy_has_the_residual_and_not_the_samples(other):
    X = other.copy()
    model = L0DictionaryLearning(**OPTIONS, max_iter=2).fit(X)
    copies = pickle.loads(pickle.dumps(model)), copy.deepcopy(model), model
    X[:] = 0
    assert len({own.certificate_.residual for own in copies}) == 1
    assert len(pickle.dumps(copies[0])) < other.nbytes + copies[0].codes_.nnz * 12


def test_a_checkpoint_that_cannot_be_written_is_told_before_the_fit(other, tmp_path):
    sweeps = []
    model = L0DictionaryLearning(20, penalty=0.02, checkpoint=tmp_path / "none" / "run.npz", callback=sweeps.append)
    with pytest.raises(OSError, match=r"run\.npz could not be written: its folder does not exist"):
        model.fit(other)
    assert not sweeps


def test_a_checkpoint_that_can_no_longer_be_written_does_not_take_the_fit_with_it(other, tmp_path, caplog):
    folder = tmp_path / "soon gone"
    folder.mkdir()
    options = {"n_components": 20, "penalty": 0.02, "max_iter": 3, "random_state": 0}
    model = L0DictionaryLearning(**options, checkpoint=folder / "run.npz", callback=lambda state: _remove(folder))
    model.fit(other)
    assert "run.npz could not be written: its folder does not exist; the fit goes on without" in caplog.text
    np.testing.assert_array_equal(model.components_, L0DictionaryLearning(**options).fit(other).components_)


def _remove(folder):
    if folder.exists():
        folder.rmdir()
