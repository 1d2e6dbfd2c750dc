"""Samples that share an offset, each at a level of its own: one atom takes it, and the others are found as without."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.dictionary.parameters import OFFSET, offset_apart

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


def test_samples_without_an_offset_are_begun_with_as_they_are(textures):
    np.testing.assert_array_equal(offset_apart(textures), textures)


def test_what_samples_share_is_one_atom_and_no_part_of_the_others(textures):
    apart = offset_apart(textures + 10.0)
    assert len(apart) == SAMPLES
    shared = np.mean((textures + 10.0) / np.linalg.norm(textures + 10.0, axis=1, keepdims=True), axis=0)
    assert shared @ shared > OFFSET
    np.testing.assert_allclose(apart[0], shared / np.linalg.norm(shared))
    np.testing.assert_allclose(apart[1:] @ apart[0], 0.0, atol=1e-12)
    assert len(offset_apart(np.full((5, 3), 7.0))) == 1  # what rounding leaves is no atom
