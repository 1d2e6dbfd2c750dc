"""Norms and inner products of sparse arrays, which go by shorter ways than the dense ones, against NumPy."""

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array

from tecu import arrays


def sparse(rng, density, dtype=np.float64):
    return csr_array((rng.normal(size=(20, 30)) * (rng.random((20, 30)) < density)).astype(dtype))


@pytest.mark.parametrize("densities", [(0.3, 0.3), (0.3, 0.0), (0.0, 0.3), (0.0, 0.0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_distances_and_inner_products_of_sparse_arrays(densities, dtype):
    rng = np.random.default_rng(0)
    x, y = (sparse(rng, density, dtype) for density in densities)
    a, b = x.toarray().astype(float), y.toarray().astype(float)
    assert arrays.distance(x, y) == pytest.approx(np.linalg.norm(a - b), rel=1e-6)
    assert arrays.inner(x, y) == pytest.approx(np.sum(a * b), rel=1e-6)
    assert arrays.distance(x, x) == 0.0


@pytest.mark.parametrize("more_rows", [False, True])
def test_inner_products_with_whole_rows(more_rows):
    rng = np.random.default_rng(3)
    x, whole = sparse(rng, 0.1), rng.normal(size=sparse(rng, 0.1).shape)
    used = np.diff(x.indptr) > 0
    used[~used] = more_rows
    y = csr_array(whole * used[:, None])
    for a, b in ((x, y), (y, x)):
        np.testing.assert_allclose(arrays.inner(a, b), np.sum(x.toarray() * whole), rtol=1e-12)


def test_inner_products_of_arrays_that_share_their_places():
    rng = np.random.default_rng(1)
    x = sparse(rng, 0.3)
    y = csr_array((rng.normal(size=x.nnz), x.indices, x.indptr), shape=x.shape)
    assert arrays.inner(x, y) == pytest.approx(np.sum(x.toarray() * y.toarray()))
    twice = csr_array((np.ones(2), np.zeros(2, int), np.array([0, 2])), shape=(1, 3))  # one place, stored twice
    assert arrays.inner(twice, twice) == 4.0
    assert arrays.distance(twice, csr_array((1, 3))) == arrays.distance(csr_array((1, 3)), twice) == 2.0
    with pytest.raises(ValueError, match="inconsistent shapes"):
        arrays.distance(csr_array((1, 3)), csr_array((2, 3)))
    assert arrays.inner(coo_array(x), coo_array(x)) == pytest.approx(np.sum(x.toarray() ** 2))
