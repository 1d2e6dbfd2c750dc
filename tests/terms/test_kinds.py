"""Every term on every kind of array: the same numbers as on NumPy, in the kind and precision they came in."""

import numpy as np
import pytest
from term_catalog import ALL, OWN_NUMPY_ONLY

from tecu import terms as t
from tecu.arrays import host
from tecu.testing import check_term

NAMES = sorted(set(ALL) - OWN_NUMPY_ONLY)
X = np.random.default_rng(21).standard_normal((4, 3))


def as_strict(x):
    import array_api_strict

    return array_api_strict.asarray(x)


def as_torch(x):
    import torch

    return torch.asarray(x)


def as_jax(x):
    import jax.numpy as jnp

    return jnp.asarray(x)


KINDS = {"strict": as_strict, "torch": as_torch, "jax": as_jax}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
def test_same_as_numpy(name, kind):
    term = ALL[name]
    for point in (X, np.zeros_like(X)):
        point = point.astype(np.float32)
        x = KINDS[kind](point)
        p, expected = term.prox(x, 0.6), term.prox(point, 0.6)
        assert type(p) is type(x)
        assert p.dtype == x.dtype
        if point.any() or name not in ("stiefel", "squared+stiefel"):  # any orthonormal basis is nearest to 0
            np.testing.assert_allclose(host(p), expected, atol=2e-6)
        assert term.value(p) == pytest.approx(term.value(expected), rel=1e-5)
        slope = KINDS[kind](X.astype(np.float32))
        assert term.subdiff_distance(p, slope) == pytest.approx(term.subdiff_distance(host(p), host(slope)))
        np.testing.assert_array_equal(host(x), point)


@pytest.mark.parametrize("kind", ["strict", "torch"])
@pytest.mark.parametrize("name", NAMES)
def test_float64_stays_float64(name, kind):
    x = KINDS[kind](X)
    p = ALL[name].prox(x, 0.6)
    assert p.dtype == x.dtype
    np.testing.assert_allclose(host(p), ALL[name].prox(X, 0.6), atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["l0", "unit-columns", "nuclear", "k-sparse+non-negative"])
def test_whole_suite(name, kind):
    check_term(ALL[name], KINDS[kind](X[:2].astype(np.float32)), trials=1)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_any_kind_fit_a_block_of_any_kind(kind):
    upper = np.abs(X).astype(np.float32)
    for bounds in (t.Box(-upper, upper), t.Box(KINDS[kind](-upper), KINDS[kind](upper))):
        for point in (X.astype(np.float32), X):
            expected = np.clip(point, -upper, upper)
            np.testing.assert_array_equal(bounds.prox(2 * point, 1.0), np.clip(2 * point, -upper, upper))
            p = bounds.prox(KINDS[kind](point.astype(np.float32)), 1.0)
            np.testing.assert_allclose(host(p), expected, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["stiefel", "rank-1", "nuclear", "l0", "l1", "simplex-columns", "unit-columns"])
def test_nan_is_passed_on(name, kind):
    x = X.astype(np.float32)
    x[1, 1] = np.nan
    assert np.isnan(host(ALL[name].prox(KINDS[kind](x), 0.5))).any()
