"""The compiled kernels against their plain twins and against the laws they promise."""

import os
import subprocess
import sys
from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array, issparse

import tecu
from tecu import terms
from tecu.dictionary import coding, make_sparse_data, online, plain, replacement, solvers, sweeps
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.embedded import ColumnSweeps
from tecu.dictionary.judged import Judged, Worst
from tecu.dictionary.kernels_atoms import SPARSE_TOTALS, share_filled
from tecu.dictionary.replacement import free_slots, replace_atoms
from tecu.dictionary.workers import Workers
from tecu.inexact import estimate


def problem(seed=0, samples=40, n=12, m=20, k=3, dtype=np.float64):
    X, D, _ = make_sparse_data(samples, n, m, k, 25, seed)
    other = np.random.default_rng(seed).normal(size=D.shape)
    D = D + 0.3 * other / np.linalg.norm(other, axis=1, keepdims=True)
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return X.astype(dtype), D.astype(dtype)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("stop", "penalty", "cap"), [(0.02, 0.02, 12), (0.0, 0.05, 10), (0.0, 0.0, 3)])
@pytest.mark.parametrize("m", [20, 64, 150])  # fewer atoms than are compared side by side, as many, more
def test_greedy_agrees_with_its_twin(seed, stop, penalty, cap, m):
    X, D = problem(seed, m=m)
    G, C = D @ D.T, X @ D.T
    codes = coding.greedy(X, D, G, stop=stop, penalty=penalty, cap=cap).csr(len(D)).toarray()
    for c, w in zip(C, codes, strict=True):
        np.testing.assert_allclose(w, plain.greedy(G, c, stop, penalty, cap), atol=1e-8)


def test_float32_greedy_finds_what_float64_finds():
    X, D = problem(k=2)
    wide = coding.greedy(X, D, D @ D.T, stop=0.05, cap=8).csr(len(D))
    x, d = X.astype(np.float32), D.astype(np.float32)
    narrow = coding.greedy(x, d, d @ d.T, stop=0.05, cap=8).csr(len(D))
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.toarray(), wide.toarray(), atol=2e-4)


def test_positive_greedy_takes_positively_correlated_atoms_only():
    X, D = problem()
    codes = coding.greedy(X, D, D @ D.T, stop=0.0, cap=1, positive=True).csr(len(D))
    assert codes.nnz > 0
    assert codes.data.min() > 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("restart", [0, 1, 2])
@pytest.mark.parametrize("shift", [0.0, 0.2])
@pytest.mark.parametrize("m", [20, 150])
def test_polished_codes_are_settled_and_never_worse(seed, restart, shift, m):
    X, D = problem(seed, m=m)
    G, C, penalty = D @ D.T, X @ D.T, 0.03
    rng = np.random.default_rng(seed)
    old = np.where(rng.random((len(X), len(D))) < 0.1, rng.normal(size=(len(X), len(D))), 0.0)
    found = coding.polished(X, D, G, csr_array(old), penalty=penalty, cap=len(D), shift=shift, restart=restart)
    shifted, pulled = G + shift * np.eye(len(G)), C + shift * old
    new = found.codes.csr(len(D)).toarray()
    change = 0.0
    for c, w, v in zip(pulled, new, old, strict=True):
        assert plain.is_settled(shifted, c, w, penalty)
        change += plain.value(shifted, c, w, penalty) - plain.value(shifted, c, v, penalty)
    assert found.unsettled == 0
    assert change <= 1e-9
    np.testing.assert_allclose(found.change, change, rtol=1e-9)


@pytest.mark.parametrize("room", [60, 10**6])  # entries: codes fill their memory many times, or not at all
@pytest.mark.parametrize("threads", [2, 3])
def test_codes_do_not_depend_on_which_thread_makes_them(threads, room, monkeypatch):
    monkeypatch.setattr(coding, "ENTRIES", room)
    X, D = problem(samples=700, n=20, m=60, k=4)
    old = coding.greedy(X, D, D @ D.T, stop=0.2, cap=4).csr(len(D))
    team, answers = Workers(threads), []
    tiles = team.tapering(len(X), most=40)
    for who in (Workers(1), team, team):
        options = {"stop": 0.01, "penalty": 0.01, "cap": 12, "shift": 0.1, "restart": 1, "polished": True}
        found = coding.Coding(X, D, D @ D.T, old, tiles, **options).shared_by(who)
        answers.append((*vars(found.codes).values(), found.change, found.unsettled))
    team.close()
    codes = coding.Codes(*answers[0][:3]).csr(len(D))
    assert codes.shape == (len(X), len(D))
    assert codes.nnz > len(X)
    assert all(
        np.array_equal(mine, theirs) for other in answers[1:] for mine, theirs in zip(answers[0], other, strict=True)
    )


def test_no_samples_have_no_codes():
    found = coding.polished(np.zeros((0, 5)), np.eye(5), np.eye(5), penalty=0.1, cap=3)
    assert found.codes.csr(5).shape == (0, 5)
    assert (found.change, found.unsettled) == (0.0, 0)


def test_codes_cut_short_are_not_said_to_be_settled():
    X, D = problem(samples=200, n=30, m=90, k=6)
    G, C, penalty, cap = D @ D.T, X @ D.T, 0.03, 6
    claims = 0
    for p in range(len(X)):
        found = coding.polished(X[p : p + 1], D, G, penalty=penalty, cap=cap)
        w = found.codes.csr(len(D)).toarray()[0]
        outside = (C[p] - G @ w)[w == 0]
        assert np.count_nonzero(w) <= cap
        if not found.unsettled:  # then no entry outside would come in by a prox step of length 1
            assert 0.5 * np.max(outside**2) <= penalty * (1 + 1e-9)
            claims += 1
    assert 0 < claims < len(X)


@pytest.mark.parametrize("reach", [3.0, 20.0])
@pytest.mark.parametrize("others", [1, 67])  # between b and c: c is compared together with b, or not
def test_an_atom_almost_in_the_span_is_passed_over(reach, others):
    # a, and b = a + 0.02 u: once one of them is in, the other is too close. A third, c, comes in all the same.
    a, u, c = np.eye(100)[:3]
    b = (a + 0.02 * u) / np.linalg.norm(a + 0.02 * u)
    D = np.concatenate([[a, b], np.eye(100)[3 : 3 + others], [c]])
    y = (a + reach * u + 0.3 * c)[None]
    found = coding.polished(y, D, D @ D.T, penalty=0.03, cap=20)
    codes = found.codes
    assert len(D) - 1 in codes.indices
    assert np.count_nonzero(codes.indices < 2) == 1
    left_out = 0.5 * np.max((D @ (y[0] - codes.csr(len(D)).toarray()[0] @ D)) ** 2)
    assert bool(found.unsettled) == (left_out > 0.03)


def test_polished_codes_are_their_own_prox_point():
    X, D = problem()
    G, C, penalty = D @ D.T, X @ D.T, 0.03
    w = coding.polished(X, D, G, penalty=penalty, cap=12).codes.csr(len(D)).toarray()
    step = w - (w @ G - C)  # tau = 1: the atoms have unit length
    np.testing.assert_allclose(np.where(step**2 > 2 * penalty, step, 0.0), w, atol=1e-9)


@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, np.inf), (-0.4, 0.4)])
@pytest.mark.parametrize(("penalty", "cap"), [(0.03, 20), (0.0, 3)])
def test_coordinate_descent_agrees_with_its_twin(bounds, penalty, cap):
    X, D = problem(1, samples=12)
    G, C = D @ D.T, X @ D.T
    codes = coding.descend(
        C.copy(),
        G,
        csr_array(C.shape),
        penalty=penalty,
        cap=cap,
        lower=bounds[0],
        upper=bounds[1],
        moves=12,
        accuracy=0.0,
    ).toarray()
    assert np.count_nonzero(codes, axis=1).max() <= cap
    for c, w in zip(C, codes, strict=True):
        twin = plain.descend(G, c, np.zeros(len(c)), penalty, cap, *bounds, 12)
        np.testing.assert_allclose(plain.value(G, c, w, penalty), plain.value(G, c, twin, penalty), atol=1e-9)
        assert np.all((w >= bounds[0] - 1e-12) & (w <= bounds[1] + 1e-12))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [1, 63, 64, 65, 128, 200])
def test_the_argmax_of_the_coder_is_that_of_numpy(m, dtype):
    from numba import njit

    from tecu.dictionary.kernels_code import _largest

    largest = _largest.by_numba
    find = njit(lambda c, bits, mask: largest(c, bits, mask))
    masks = {positive: coding.sign_mask(dtype, positive) for positive in (False, True)}
    rng = np.random.default_rng(m)
    for place in range(m):
        c = rng.normal(size=m).astype(dtype)
        c[place] *= 100
        for positive, mask in masks.items():
            key = c if positive else np.abs(c)
            expected = int(np.argmax(key)) if key.max() > 0 else -1
            assert find(c, c.view(mask.dtype), mask) == expected
    for c, expected in ((np.zeros(m, dtype), -1), (np.full(m, -2, dtype), 0), (np.full(m, np.nan, dtype), 0)):
        assert find(c, c.view(masks[False].dtype), masks[False]) == expected


@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("eta", [0.0, 3.0])
@pytest.mark.parametrize(("m", "share"), [(5, 0.2), (150, 0.2), (150, 0.02)])
def test_column_sweep_agrees_with_its_twin_and_reports_its_descent(ball, eta, m, share):
    rng = np.random.default_rng(m)
    W, Y = rng.normal(size=(300, m)) * (rng.random((300, m)) < share), rng.normal(size=(300, 10))
    D = rng.normal(size=(m, 10))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    A, B = plain.totals(W, Y)
    A[:, 1], A[1] = 0, 0  # an atom that no code uses
    B[1] = 0
    assert (np.count_nonzero(A) < SPARSE_TOTALS * A.size) == (share == 0.02)  # either way of the sweep
    new = D.copy()
    descent = sweeps.sweep(new, D, A, B, eta, ball)
    np.testing.assert_allclose(new, plain.sweep(D, A, B, eta, ball), atol=1e-10)

    def objective(x):
        return 0.5 * np.sum((A @ x) * x) - np.sum(B * x) + 0.5 * eta * np.sum((x - D) ** 2)

    np.testing.assert_allclose(descent, objective(D) - objective(new), rtol=1e-9)


def test_totals_from_sparse_codes():
    from tecu.dictionary.kernels_atoms import add_totals, inner_product, unfold

    rng = np.random.default_rng(0)
    W = rng.normal(size=(30, 70)) * (rng.random((30, 70)) < 0.2)
    Y = rng.normal(size=(30, 4))
    codes = csr_array(W)
    folded, A, B = np.zeros((70, 70)), np.empty((70, 70)), np.zeros((70, 4))
    add_totals([(codes, Y, 1.0)], folded, B)
    for rows in (slice(0, 40), slice(40, 70)):
        unfold(folded, A, rows.start, rows.stop)
    expected = plain.totals(W, Y)
    np.testing.assert_allclose(A, expected[0], atol=1e-12)
    np.testing.assert_allclose(B, expected[1], atol=1e-12)
    whole, again = np.zeros((70, 70)), np.zeros((70, 4))
    add_totals([(codes, Y, 1.0)], whole, again, fold=False)
    np.testing.assert_allclose(whole, expected[0], atol=1e-12)
    np.testing.assert_allclose(again, expected[1], atol=1e-12)
    G = expected[0]
    parts = [inner_product(folded, G, True, *rows) for rows in ((0, 30), (30, 70))]
    np.testing.assert_allclose(sum(parts), np.sum(G * G))
    np.testing.assert_allclose(inner_product(G, G, False, 0, 70), np.sum(G * G))
    add_totals([(codes, Y, -1.0)], folded, B)
    assert np.abs(folded).max() < 1e-12
    assert np.abs(B).max() < 1e-12


def test_dead_and_double_atoms_are_free_and_hidden_directions_fill_them():
    D = np.eye(6)
    D[4] = D[0]
    D[4, 5] = 0.1
    D[4] /= np.linalg.norm(D[4])
    energy = np.array([5.0, 4.0, 5.0, 4.0, 3.0, 0.1])
    assert free_slots(D, energy).tolist() == [5, 4]
    hidden = np.zeros((20, 6))
    hidden[:10, 4] = np.linspace(1, 2, 10)
    hidden[10:, 5] = -np.linspace(1, 2, 10)
    used = replace_atoms(D, energy, hidden)
    assert sorted(used.tolist()) == [4, 5]
    np.testing.assert_allclose(np.sort(np.abs(D[[4, 5]]).argmax(axis=1)), [4, 5])
    np.testing.assert_allclose(np.linalg.norm(D, axis=1), 1)


@pytest.mark.parametrize("dead", range(8))
def test_atoms_that_nobody_uses_are_free_however_many_there_are(dead):
    energy = np.r_[np.full(8 - dead, 2.0), np.zeros(dead)]
    assert free_slots(np.eye(8), energy).tolist() == list(range(8 - dead, 8))


def naive_free_slots(D, energy):
    free = energy < 0.5 * np.median(energy)
    for a, b in np.argwhere(np.triu(np.abs(D @ D.T) > replacement.DOUBLE, 1)):
        if not free[a] and not free[b]:
            free[a if energy[a] < energy[b] else b] = True
    return sorted(np.flatnonzero(free), key=lambda atom: energy[atom])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_free_slots_agree_with_their_twin(seed, threads, dtype):
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(300, 15))
    D[100:] = D[rng.integers(100, size=200)] * rng.choice([-1, 1], size=(200, 1)) + 0.4 * rng.normal(size=(200, 15))
    D = (D / np.linalg.norm(D, axis=1, keepdims=True)).astype(dtype)
    energy = rng.uniform(0.0, 2.0, size=300)
    team = Workers(threads)
    slots = free_slots(D, energy, team)
    team.close()
    assert slots.tolist() == naive_free_slots(D, energy)
    assert 100 < len(slots) < 250  # of the doubles some, but not all


def naive_clusters(residuals, atoms, count):
    unit = residuals / np.linalg.norm(residuals, axis=1, keepdims=True)
    free, found = np.ones(len(unit), dtype=bool), []
    for seed in range(len(unit)):
        center = unit[seed]
        for _ in range(replacement.REFINEMENTS):
            near = free & (np.abs(unit @ center) > replacement.SIMILAR)
            if not free[seed] or near.sum() < replacement.SMALLEST_CLUSTER:
                break
            center = np.sign(unit[near] @ center) @ unit[near]
            center /= np.linalg.norm(center)
        else:
            free &= ~near
            if np.all(np.abs([*atoms, *found] @ center) <= replacement.DOUBLE):
                found.append(center)
    return np.reshape(found[:count], (-1, residuals.shape[1]))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("seed", "count"), [(0, 40), (1, 40), (2, 3), (3, 0)])
def test_clusters_of_residuals_agree_with_their_twin(seed, count, threads):
    rng = np.random.default_rng(seed)
    hidden, atoms = rng.normal(size=(30, 20)), rng.normal(size=(15, 20))
    atoms[0] = hidden[0]  # a direction that is known already
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    residuals = hidden[rng.integers(30, size=250)] * rng.normal(size=(250, 1)) + 0.6 * rng.normal(size=(250, 20))
    expected = naive_clusters(residuals, atoms, count)
    assert len(expected) == count or 3 < len(expected) < count
    team = Workers(threads)
    np.testing.assert_allclose(replacement.cluster_means(residuals, atoms, count, team), expected, atol=1e-12)
    team.close()


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("size", [1e-60, 1.0, 1e60, 1e150])
def test_what_a_column_sweep_says_of_its_dictionary_is_what_the_engine_finds_by_itself(size, ball, threads):
    rng = np.random.default_rng(0)
    codes = rng.normal(size=(300, 200)) * (rng.random((300, 200)) < 0.05)
    D = rng.normal(size=(12, 200))
    D *= rng.uniform(0.2 if ball else 1.0, 1.0, size=200) / np.linalg.norm(D, axis=0)
    team = Workers(threads)
    H = BatchedFactorization(size * rng.normal(size=(300, 12)), [slice(0, 300)], team)
    problem = tecu.Problem(H, {"W0": terms.L0(1.0), "D": terms.UnitColumns(ball=ball)})
    sub = tecu.SubProblem.of(problem, "D", {"W0": csr_array(size * codes), "D": D}, eta=3.0 * size**2)
    for said in islice(ColumnSweeps(ball)(sub, D), 3):  # the first pass in halves, then in turn
        found = estimate(sub, tecu.Candidate(said.u), said.tau)
        np.testing.assert_allclose(said.prox_point, found.point, atol=1e-13)
        np.testing.assert_allclose(said.numbers.error_norm, found.error_norm, rtol=1e-9)
        np.testing.assert_allclose(said.numbers.error_along_move, found.error_along_move, rtol=1e-9)
        np.testing.assert_allclose(said.numbers.change, found.rise[0], rtol=1e-9)
    team.close()


@pytest.mark.parametrize("share", [0.01, 0.3])
def test_the_judge_sees_the_atoms_that_a_batch_was_coded_with_however_many_threads_there_are(share):
    rng = np.random.default_rng(0)
    D = rng.normal(size=(150, 20))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    Y = (rng.normal(size=(400, 150)) * (rng.random((400, 150)) < share)) @ D
    seen = []
    for threads in (1, 2):
        team = Workers(threads)
        learner = online.OnlineDictionary(D, online.Coder(0.01), team=team)
        judged = Judged(D)
        learner.absorb([learner.coder.batch(Y)], 0.0, judged)
        assert np.abs(learner.D - D).max() > 1e-3  # it has been swept over
        squares = judged.largest_misfits()[1]
        seen.append((judged.energy, squares, learner.D))
        codes = coding.greedy(Y, D, D @ D.T, stop=0.01, cap=6).csr(150)
        np.testing.assert_allclose(judged.energy, (codes**2).sum(axis=0), rtol=1e-9)
        largest = np.sort(np.sum((Y - codes @ D) ** 2, axis=1))[::-1][:150]
        np.testing.assert_allclose(squares, largest, atol=1e-12)
        team.close()
    for one, two in zip(*seen, strict=True):
        np.testing.assert_allclose(one, two, atol=1e-9)


@pytest.mark.parametrize("used", [0, 3, 40])
def test_the_hessian_of_codes_is_the_gram_matrix_however_few_rows_a_direction_has(used):
    rng = np.random.default_rng(5)
    H = BatchedFactorization(rng.normal(size=(50, 8)), [slice(0, 50)])
    z = {"W0": csr_array((50, 12)), "D": rng.normal(size=(8, 12))}
    v = rng.normal(size=(50, 12)) * (rng.random((50, 12)) < 0.5)
    v[rng.permutation(50)[used:]] = 0
    product = H.restrict("W0", z).hessian(csr_array(v))
    dense = product.toarray() if issparse(product) else product
    np.testing.assert_allclose(dense, v @ z["D"].T @ z["D"], atol=1e-12)


def test_threads_give_the_same_gram_matrix():
    D, team = np.random.default_rng(0).normal(size=(500, 130)), Workers(2)
    np.testing.assert_allclose(team.gram(D), D @ D.T, atol=1e-12)
    team.close()


@pytest.mark.parametrize("scale", [1.0, 2.0**60])  # the lengths of large totals leave the range of float32
@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("share", [0.02, 0.2])  # entry by entry; by matrix products
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_sweep_in_halves_shows_each_half_the_other_as_it_was(threads, share, ball, scale):
    rng = np.random.default_rng(2)
    m, eta = 251, 3.0
    W, Y = rng.normal(size=(300, m)) * (rng.random((300, m)) < share), rng.normal(size=(300, 10))
    D = rng.normal(size=(m, 10))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    A, B = plain.totals(W, Y)
    assert (share_filled(A, 0, m) < SPARSE_TOTALS) == (share == 0.02)
    halves = np.arange(125), np.arange(125, m)
    expected = np.empty_like(D)
    for own, other in (halves, halves[::-1]):
        order = np.concatenate([own, other])  # those that come first see the rest as it was
        expected[own] = plain.sweep(D[order], A[np.ix_(order, order)], B[order], eta, ball)[: len(own)]

    def objective(x):
        return 0.5 * np.sum((A @ x) * x) - np.sum(B * x) + 0.5 * eta * np.sum((x - D) ** 2)

    new, team = D.astype(np.float32), Workers(threads)
    old, totals = new.copy(), [total.astype(np.float32) * np.float32(scale) for total in (A, B)]
    descent, answers = sweeps.sweep_in_halves(new, old, *totals, eta * scale, ball, team, [lambda: "ahead"])
    bent = sum(call() for call in sweeps.bend_between_halves(totals[0], new - old, team))
    team.close()
    np.testing.assert_allclose(new, expected, atol=1e-5)
    np.testing.assert_allclose((descent - bent) / scale, objective(D) - objective(expected), rtol=1e-4)
    assert abs(bent) > 1e-3 * abs(descent)  # or this would not see that it was left out
    assert answers == ["ahead"]
    assert np.abs(expected - plain.sweep(D, A, B, eta, ball)).max() > 1e-3  # another sweep than in turn


ONCE = """
import numpy as np
from tecu.dictionary import coding, sweeps
rng = np.random.default_rng(0)
D = rng.normal(size=(70, 20)).astype(np.float32)
D /= np.linalg.norm(D, axis=1, keepdims=True)
codes = coding.greedy(rng.normal(size=(50, 20)).astype(np.float32), D, D @ D.T, stop=0.05, cap=8).csr(70)
sweeps.sweep(D, D, np.abs(D @ D.T), rng.normal(size=D.shape).astype(np.float32))
sweeps.sweep(D, D, np.diag(np.diagonal(D @ D.T)).copy(), rng.normal(size=D.shape).astype(np.float32))
print(codes.data.tobytes().hex(), D.tobytes().hex())
"""


def test_kernels_just_compiled_and_loaded_from_disk_give_the_same_bits(tmp_path):
    command, settings = [sys.executable, "-c", ONCE], {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    answers = [subprocess.run(command, env=settings, capture_output=True, text=True, check=True) for _ in range(2)]
    assert list(tmp_path.rglob("codes_of-float32-*"))
    assert answers[0].stdout == answers[1].stdout


@pytest.mark.parametrize("samples", [1, 999, 1600, 4000, 16000, 10**6])
@pytest.mark.parametrize("atoms", [1, 200, 600, 3000])
def test_blocks_of_codes_are_worth_a_visit_and_two_are_better_than_one(samples, atoms):
    count = solvers.blocks_of_codes(samples, atoms)
    least = max(solvers.LEAST_BATCH * atoms, solvers.SMALLEST_BATCH)
    assert count == 1 or samples / count >= 0.75 * least  # numbers of blocks are rounded
    assert (count > 1) == (samples > 1.5 * least)


@pytest.mark.parametrize("count", [1, 10, 200])
def test_the_worst_residuals_are_kept_whatever_order_they_come_in(count):
    rng = np.random.default_rng(count)
    residuals = rng.normal(size=(150, 6))
    residuals[::7] = 0
    worst = Worst(count, 6, np.float64)
    for some in np.array_split(residuals, 5):
        worst.add(some, np.sum(some**2, axis=1))
    lengths = np.linalg.norm(residuals, axis=1)
    order = np.argsort(-lengths)[: min(count, np.count_nonzero(lengths))]
    np.testing.assert_array_equal(worst.largest_first()[0], residuals[order])
