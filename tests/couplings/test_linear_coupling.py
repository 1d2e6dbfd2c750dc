import numpy as np
import pylops
import pytest
import scipy.sparse as sp
from coupling_kinds import KINDS, close, tolerance
from scipy.sparse.linalg import aslinearoperator

from tecu import arrays, couplings, terms
from tecu.testing import check_coupling

A = np.random.default_rng(0).standard_normal((9, 6))
B = np.random.default_rng(1).standard_normal((3, 3))
X = np.random.default_rng(2).standard_normal((2, 3))
OPERATORS = {
    "dense": A,
    "csr": sp.csr_array(A),
    "csc": sp.csc_matrix(A),
    "scipy": aslinearoperator(A),
    "pylops": pylops.MatrixMult(A),
}


@pytest.mark.parametrize("operator", OPERATORS)
def test_every_operator_is_the_same_function_and_all_laws_hold(operator):
    H, z = couplings.Linear(OPERATORS[operator], B), {"x": X}
    assert H.value(z) == pytest.approx(0.5 * np.sum((A @ X.ravel() - B.ravel()) ** 2), rel=1e-13)
    assert close(H.grad("x", z), (A.T @ (A @ X.ravel() - B.ravel())).reshape(2, 3))
    check_coupling(H, z)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("operator", ["dense", "scipy"])
def test_every_kind_of_array_gives_what_numpy_gives(kind, operator):
    H, there = couplings.Linear(OPERATORS[operator], B), {"x": KINDS[kind](X)}
    gradient = H.grad("x", there)
    assert type(gradient) is type(there["x"])
    assert gradient.dtype == there["x"].dtype
    assert close(arrays.host(gradient), H.grad("x", {"x": X}), tolerance(kind))
    assert H.lipschitz("x", there) == pytest.approx(np.linalg.norm(A, 2) ** 2, rel=0.0101)


def test_exact_minimiser_without_a_proximal_term_solves_least_squares():
    best = couplings.Linear(A, B).minimize("x", {"x": X}, terms.Zero(), 0.0)
    assert close(best.ravel(), np.linalg.lstsq(A, B.ravel(), rcond=None)[0], 1e-10)
    assert couplings.Linear(A, B).minimize("x", {"x": X}, terms.L1(1.0), 0.0) is None
    assert couplings.Linear(sp.csr_array(A), B).minimize("x", {"x": X}, terms.Zero(), 0.0) is None


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="operator has 9 rows, but data has 4 entries"):
        couplings.Linear(A, np.ones(4))
    with pytest.raises(ValueError, match="operator must be a matrix"):
        couplings.Linear(np.ones(3), np.ones(3))
    with pytest.raises(ValueError, match="data has NaN or Inf"):
        couplings.Linear(A, np.full(9, np.nan))
    with pytest.raises(ValueError, match=r"block 'x' of Linear must have 6 entries.*got shape \(7,\)"):
        couplings.Linear(A, B).value({"x": np.ones(7)})
    with pytest.raises(ValueError, match="block 'x' of Linear is missing"):
        couplings.Linear(A, B).grad("x", {"y": X})
