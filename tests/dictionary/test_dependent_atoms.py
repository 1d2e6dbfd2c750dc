"""Codes of atoms that depend on each other, or nearly: there coordinates one by one would take thousands of moves."""

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from tecu.dictionary import L0DictionaryLearning, coding

DIGITS = load_digits().data[:600]


def alike(seed, atoms=12, features=16):
    """Samples, and atoms of length 1 that differ by a hundredth."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=features) + 0.01 * rng.normal(size=(atoms, features))
    return rng.normal(size=(20, features)), D / np.linalg.norm(D, axis=1, keepdims=True)


def test_descended_codes_of_atoms_that_are_much_alike_are_least_squares():
    Y, D = alike(0)
    codes = coding.descend(Y @ D.T, D @ D.T, csr_array(np.ones((20, 12))), penalty=0.0, cap=12).toarray()
    best = np.linalg.lstsq(D.T, Y.T, rcond=None)[0].T
    misfits, least = (np.sum((Y - W @ D) ** 2, axis=1) for W in (codes, best))
    np.testing.assert_allclose(misfits, least, rtol=1e-6)


@pytest.mark.parametrize("bounds", [(0.0, np.inf), (-0.3, 0.5)])
def test_within_bounds_they_are_least_squares_on_their_supports(bounds):
    Y, D = alike(1)
    start = np.full((20, 12), 0.1)
    codes = coding.descend(
        Y @ D.T, D @ D.T, csr_array(start), penalty=0.0, cap=12, lower=bounds[0], upper=bounds[1]
    ).toarray()
    assert np.all((codes >= bounds[0]) & (codes <= bounds[1]))
    for y, w in zip(Y, codes, strict=True):
        best = lsq_linear(D.T, y, bounds, tol=1e-12, method="bvls").x
        np.testing.assert_allclose(np.sum((y - w @ D) ** 2), np.sum((y - best @ D) ** 2), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_as_many_coefficients_as_atoms_the_fit_is_exact(dtype):
    X = DIGITS.astype(dtype)
    model = L0DictionaryLearning(64, n_nonzero=64, max_iter=3, random_state=0).fit(X)
    assert model.objective_ < 1e-4 * np.sum(X.astype(float) ** 2)
    assert model.certificate_.fallbacks == 0


def test_the_smaller_the_penalty_the_lower_the_objective():
    fits = [L0DictionaryLearning(64, penalty=penalty, random_state=0).fit(DIGITS) for penalty in (1.0, 1e-2, 1e-4)]
    found = [model.objective_ for model in fits]
    assert found[0] > 2 * found[1] > 4 * found[2]
    assert all(model.certificate_.fallbacks == 0 for model in fits)
