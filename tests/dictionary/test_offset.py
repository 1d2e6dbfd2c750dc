"""Samples that share an offset, each at a level of its own: one atom takes it, and the others are found as without."""

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_breast_cancer, load_wine

from tecu.dictionary import L0DictionaryLearning, make_sparse_data, offset
from tecu.dictionary.offset import SHARED, better_start, offset_apart, shared_part
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows

SAMPLES, ATOMS, PENALTY = 2000, 24, 0.01


@pytest.fixture(scope="module")
def textures():
    """Planted, but without what all pixels share."""
    X = make_sparse_data(SAMPLES, 16, ATOMS, 2, random_state=0)[0]
    return X - X.mean(axis=1, keepdims=True)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("brightness", [10.0, 100.0])
@pytest.mark.parametrize("kind", ["dense", "sparse", "chunks"])
def test_an_offset_costs_little_more_than_a_coefficient_a_sample(textures, brightness, dtype, kind):
    levels = np.random.default_rng(0).uniform(0.5, 1.0, (SAMPLES, 1))
    raw = (textures + brightness * levels).astype(dtype)
    data = {"dense": raw, "sparse": csr_array(raw), "chunks": iter([raw])}[kind]
    options = {"penalty": PENALTY, "random_state": 0}
    without = L0DictionaryLearning(ATOMS, **options).fit(textures.astype(dtype)).objective_
    assert L0DictionaryLearning(ATOMS + 1, **options).fit(data).objective_ < 2.0 * (without + PENALTY * SAMPLES)


def started(X, penalty):
    return better_start(X[:ATOMS], Rows(X), np.arange(ATOMS, len(X)), Coder(penalty))


def test_samples_without_an_offset_are_begun_with_as_they_are(textures):
    assert shared_part(textures) <= SHARED
    np.testing.assert_array_equal(started(textures, PENALTY), textures[:ATOMS])


@pytest.mark.parametrize("scale", [1.0, 2.0**60, 2.0**-60])
@pytest.mark.parametrize(("penalty", "is_apart"), [(1.0, True), (3000.0, False)])
def test_an_offset_is_taken_apart_where_samples_are_worth_more_than_one_coefficient(textures, penalty, is_apart, scale):
    raw = (10.0 * textures + 100.0).astype(np.float32) * np.float32(scale)
    atoms = raw[:ATOMS]
    np.testing.assert_array_equal(started(raw, penalty * scale**2), offset_apart(atoms) if is_apart else atoms)


def test_few_samples_are_begun_with_as_they_are(textures):
    raw = textures[: 3 * ATOMS] + 100.0
    np.testing.assert_array_equal(started(raw, PENALTY), raw[:ATOMS])


@pytest.mark.parametrize("load", [load_wine, load_breast_cancer])
@pytest.mark.parametrize("atoms", [4, 8, 20])
def test_tables_with_one_large_column_begin_as_if_nothing_could_be_taken_apart(load, atoms, monkeypatch):
    """A sample is mostly that column; one coefficient with the right one of the atoms serves best."""
    X = load().data
    penalty = 3e-3 * float(np.mean(np.sum((X - X.mean(axis=0)) ** 2, axis=1)))
    assert shared_part(X) > SHARED
    model = L0DictionaryLearning(atoms, penalty=penalty, random_state=0).fit(X)
    monkeypatch.setattr(offset, "SHARED", 1.0)
    assert model.objective_ == L0DictionaryLearning(atoms, penalty=penalty, random_state=0).fit(X).objective_


def test_what_samples_share_is_one_atom_and_no_part_of_the_others(textures):
    apart = offset_apart(textures + 10.0)
    assert len(apart) == SAMPLES
    shared = np.mean((textures + 10.0) / np.linalg.norm(textures + 10.0, axis=1, keepdims=True), axis=0)
    assert shared_part(textures + 10.0) == pytest.approx(shared @ shared)
    np.testing.assert_allclose(apart[0], shared / np.linalg.norm(shared))
    np.testing.assert_allclose(apart[1:] @ apart[0], 0.0, atol=1e-12)
    assert len(offset_apart(np.full((5, 3), 7.0))) == 1  # what rounding leaves is no atom
