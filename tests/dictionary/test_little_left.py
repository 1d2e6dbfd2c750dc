"""Samples of which too little is left for another atom are coded, and audited, without their correlations."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tecu.dictionary import coding, make_sparse_data, plain
from tecu.dictionary.coding import room_for_correlations
from tecu.dictionary.compiled import address_of_gemm

PENALTY = 0.05


def quiet_and_loud(seed, dtype=np.float64, m=60, cap=6):
    """Samples, atoms and old codes: nearly exact ones, ones that lack an atom, silent samples, ones never coded."""
    rng = np.random.default_rng(seed)
    X, D, codes = make_sparse_data(200, 24, m, 3, 30, seed)
    old = np.array(codes.toarray() if hasattr(codes, "toarray") else codes)
    X = X + 0.01 * rng.normal(size=X.shape)
    old[old != 0] += 0.02 * rng.normal(size=np.count_nonzero(old))
    for p in range(50, 100):
        old[p, np.flatnonzero(old[p])[0]] = 0.0
    for p in range(100, 150):  # atoms that do not pay
        old[p, rng.choice(m, 2, replace=False)] += 0.01
    X[150:175] *= 0.05
    old[150:] = 0.0
    return X.astype(dtype), D.astype(dtype), old.astype(dtype)


def left_of(X, D, w):
    return 0.5 * np.sum((X - w @ D) ** 2, axis=1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("restart", [0, 1, 2])
@pytest.mark.parametrize("shift", [0.0, 0.1])
@pytest.mark.parametrize("rows", [1, 24, 1000])  # gathered few at a time, some, all at once
def test_codes_are_settled_whatever_is_left(seed, restart, shift, rows, monkeypatch):
    X, D, old = quiet_and_loud(seed)
    assert 40 < np.count_nonzero(left_of(X, D, old) < PENALTY) < 160
    monkeypatch.setattr(coding, "TILE", rows * X.shape[1])
    monkeypatch.setattr(coding, "tile_height", lambda atoms: 90)
    G, C = D @ D.T, X @ D.T
    found = coding.polished(X, D, G, csr_array(old), penalty=PENALTY, cap=12, shift=shift, restart=restart)
    new = found.codes.csr(len(D)).toarray()
    shifted, change = G + shift * np.eye(len(G)), 0.0
    for c, w, v in zip(C + shift * old, new, old, strict=True):
        assert plain.is_settled(shifted, c, w, PENALTY)
        change += plain.value(shifted, c, w, PENALTY) - plain.value(shifted, c, v, PENALTY)
    assert found.unsettled == 0
    np.testing.assert_allclose(found.change, change, rtol=1e-9)


def test_a_coefficient_that_has_grown_little_by_little_is_not_taken_for_what_it_was():
    # What is left of the sample itself is little; what the proximal term holds back is not.
    D = np.eye(4)
    old = csr_array(np.array([[3.0, 0.0, 0.0, 0.0]]))
    y = np.array([[1.0, 0.0, 0.0, 0.0]])
    found = coding.polished(y, D, np.eye(4), old, penalty=PENALTY, cap=4, shift=1.0)
    np.testing.assert_allclose(found.codes.csr(4).toarray(), [[2.0, 0.0, 0.0, 0.0]])
    np.testing.assert_allclose(found.change, 1.0 * (0.5 * 1 + 0.5 * 1 - 0.5 * 4))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_silent_samples_have_no_atoms_and_the_others_have_theirs(dtype):
    X, D, _ = quiet_and_loud(0, dtype)
    G, stop = D @ D.T, 0.2
    found = coding.greedy(X, D, G, stop=stop, cap=8).csr(len(D))
    silent = left_of(X, D, np.zeros((len(X), len(D)))) <= stop
    assert 20 < np.count_nonzero(silent) < 100
    assert not np.any(np.diff(found.indptr)[silent])
    alone = coding.greedy(np.ascontiguousarray(X[~silent]), D, G, stop=stop, cap=8).csr(len(D))
    np.testing.assert_allclose(found.toarray()[~silent], alone.toarray(), atol=2e-5 if dtype == np.float32 else 1e-12)


def test_samples_that_are_not_numbers_are_not_quiet():
    X, D, old = quiet_and_loud(0)
    X[3, 2] = np.nan
    found = coding.polished(X, D, D @ D.T, csr_array(old), penalty=PENALTY, cap=12)
    assert not np.isfinite(found.change)


def gap_of(X, D, u, old, eta, tau, longest):
    from tecu.dictionary.kernels_audit import own_prox_gap

    misfits, number = X - u @ D, X.dtype.type
    new, before = csr_array(u), csr_array(old)
    loud = np.empty(len(X), np.int32)
    gap = own_prox_gap(
        address_of_gemm(X.itemsize), misfits, np.sum(misfits.astype(float) ** 2, axis=1), D, longest,
        new.indptr, new.indices, new.data, before.indptr, before.indices, before.data,
        number(eta), tau, PENALTY, loud, *room_for_correlations(len(X), D),
    )  # fmt: skip
    return gap, loud


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_the_gap_of_codes_is_that_of_the_definition_whatever_is_left(seed, dtype):
    X, D, u = quiet_and_loud(seed, dtype)
    rng = np.random.default_rng(seed)
    old = np.where(rng.random(u.shape) < 0.9, u, 0) + np.where(rng.random(u.shape) < 0.02, 0.3, 0).astype(dtype)
    eta, tau = 0.02, 1.1
    slope = (X - u @ D).astype(float) @ D.T.astype(float) + eta * (old - u)
    x = u + slope / tau
    prox = np.where(x * x > 2 * PENALTY / tau, x, 0.0)
    gap, loud = gap_of(X, D, u, old.astype(dtype), eta, tau, 1.0)
    assert 20 < np.count_nonzero(loud) < 180
    np.testing.assert_allclose(gap, np.sum((u - prox) ** 2), rtol=1e-4 if dtype == np.float32 else 1e-10)


@pytest.mark.parametrize("delta", [0.02, 0.03, 0.1])
@pytest.mark.parametrize("share", [3e-6, 1e-5, 1e-4])
@pytest.mark.parametrize("old", [True, False])
def test_rounding_hides_no_atom_where_others_are_much_alike(delta, share, old):
    # Pairs of atoms with cosines of 0.98 to 0.999 have large coefficients of opposite sign: in float32 the energy that
    # they explain is wrong by more than a penalty. The third atom of each sample gains three penalties.
    pairs, n = 12, 64
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    close, apart = Q[: 2 * pairs : 2], delta * Q[1 : 2 * pairs : 2]
    D = np.concatenate([close + apart, close - apart, Q[2 * pairs :]])
    D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(np.float32)
    k, third = rng.integers(pairs, size=600), rng.integers(2 * pairs, n, size=600)
    X = Q[2 * k + 1] + 0.3 * rng.normal(size=(600, 1)) * Q[2 * k] + np.sqrt(6 * share) * Q[third]
    start = np.zeros((600, n))
    for p in range(600 if old else 0):
        both = [k[p], pairs + k[p]]
        start[p, both] = np.linalg.lstsq(D[both].T.astype(float), X[p], rcond=None)[0]
    before = csr_array(start.astype(np.float32)) if old else None
    X = X.astype(np.float32)
    codes = coding.polished(X, D, D @ D.T, before, penalty=share, cap=12).codes.csr(n).toarray()
    assert np.all(codes[np.arange(600), third] != 0)


@pytest.mark.parametrize("level", [1.0, 200.0])
def test_rounding_hides_no_atom_where_there_are_many_features(level):
    n, share = 100_000, 1e-5
    D = np.stack([np.ones(n), np.where(np.arange(n) % 2, 1.0, -1.0)]) / np.sqrt(n)
    heights = level * np.linspace(1.0, 2.0, 30)
    X = np.stack([heights, heights * np.sqrt(2.4 * share)], axis=1) @ D
    found = coding.polished(
        X[15:].astype(np.float32), D.astype(np.float32), (D @ D.T).astype(np.float32),
        csr_array(np.stack([heights[15:], np.zeros(15)], axis=1).astype(np.float32)),
        penalty=share * heights[15] ** 2, cap=2,
    )  # fmt: skip
    assert found.codes.indptr[-1] == 2 * 15  # the second atom gains 1.2 penalties or more


@pytest.mark.parametrize("samples", [1, 8, 9, 61, 200])
def test_codes_do_not_depend_on_which_samples_are_beside_them(samples):
    X, D, _ = quiet_and_loud(0)
    X = X[:samples]
    quieter = X.copy()
    quieter[::5] *= 1e-3
    found, beside = (
        coding.polished(some, D, D @ D.T, penalty=PENALTY, cap=12).codes.csr(len(D)).toarray() for some in (X, quieter)
    )
    same = np.arange(samples) % 5 != 0
    np.testing.assert_array_equal(found[same], beside[same])
