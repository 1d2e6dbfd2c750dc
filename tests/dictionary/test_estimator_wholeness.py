"""What is left of a model when something breaks in on it: the old one or the new one, never parts of both."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from tecu.dictionary import L0DictionaryLearning, make_sparse_data

OPTIONS = {"n_components": 20, "penalty": 0.02, "random_state": 0}


@pytest.fixture(scope="module")
def X():
    return make_sparse_data(1500, 12, 20, 3, random_state=0)[0]


@pytest.fixture(scope="module")
def other():
    return make_sparse_data(600, 12, 20, 3, random_state=99)[0]


def broken_off(state):
    raise KeyboardInterrupt


def break_batch(model, batch, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("tecu.dictionary.online.OnlineDictionary._swept", lambda *_: broken_off(None))
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
