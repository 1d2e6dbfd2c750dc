"""The codes' own prox-linear step against gradient and prox, and liars that make one up."""

import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array

import tecu
from tecu import arrays, couplings, gradient_tests, methods, stop, terms
from tecu.dictionary import L0DictionaryLearning, kernels_atoms, make_sparse_data, sparse_codes
from tecu.dictionary.blocks import CodesOfBatch
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.sparse_codes import SparseCodes, SparseFactorization
from tecu.dictionary.totals import FollowingTotals
from tecu.dictionary.workers import Workers
from tecu.protocols import ProxStep
from tecu.testing import check_coupling


def blocks(seed=0, samples=300, n=12, m=70, dtype=np.float64):
    X, D, codes = make_sparse_data(samples, n, m, 3, 25, seed)
    rng = np.random.default_rng(seed)
    W = codes.toarray() * (rng.random(codes.shape) < 0.7) + rng.normal(size=codes.shape) * (
        rng.random(codes.shape) < 0.05
    )
    return X.T.astype(dtype), {"W": csr_array(W.astype(dtype)), "D": np.ascontiguousarray(D.T, dtype=dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("weight", [0.0, 1e-4, 0.05, 1e9])
@pytest.mark.parametrize("threads", [1, 2])
def test_the_own_step_is_the_prox_of_a_gradient_step(dtype, weight, threads, monkeypatch):
    monkeypatch.setattr(sparse_codes, "PIECE", 1000)
    Y, z = blocks(dtype=dtype)
    team = Workers(threads)
    smooth = SparseFactorization(Y, team=team).restrict("W", z)
    gamma = 1.1 * np.linalg.norm(z["D"], 2) ** 2
    step = smooth.prox_linear(terms.L0(weight), gamma)
    team.close()
    gradient = couplings.MatrixFactorization(Y).grad("W", z)
    W = z["W"].toarray()
    truth = terms.L0(weight).prox(W - gradient / dtype(gamma), 1 / gamma)
    tolerance = 1e-5 if dtype is np.float32 else 1e-12
    assert step.u.dtype == dtype
    assert step.u.has_sorted_indices
    assert np.all(step.u.data != 0)
    np.testing.assert_allclose(step.u.toarray(), truth, atol=tolerance)
    np.testing.assert_allclose(step.slope, np.sum(gradient.astype(float) * (truth - W)), rtol=100 * tolerance)
    np.testing.assert_allclose(step.move, np.linalg.norm(truth - W), rtol=100 * tolerance)


def test_palm_takes_the_same_steps_with_and_without_it():
    Y, z = blocks()
    z["W"] = csr_array(z["W"].shape)
    runs = []
    for coupling in (SparseFactorization(Y), couplings.MatrixFactorization(Y)):
        problem = tecu.Problem(coupling, {"W": terms.L0(0.01), "D": terms.UnitColumns()})
        runs.append(methods.palm(problem).run(z, stop=stop.MaxIter(30)))
    own, plain = runs
    np.testing.assert_allclose(own.history["value"], plain.history["value"], rtol=1e-10)
    np.testing.assert_allclose(own.z["D"], plain.z["D"], atol=1e-10)
    assert own.certificate.holds
    assert [v.proxes for v in own.state.visits] == [v.proxes for v in plain.state.visits]


def test_other_terms_go_the_usual_way():
    Y, z = blocks()
    smooth = SparseFactorization(Y).restrict("W", z)
    assert smooth.prox_linear(terms.L1(0.1), 1.0) is None
    assert couplings.MatrixFactorization(Y).restrict("W", z).prox_linear(terms.L0(0.1), 1.0) is None


def half_way(step, previous):
    return ProxStep(0.5 * (step.u + previous), 0.5 * step.slope, 0.5 * step.move)


LIES = {
    "is not a minimiser": half_way,
    "wrong slope": lambda step, previous: step._replace(slope=2 * step.slope),
    "wrong move": lambda step, previous: step._replace(move=0.5 * step.move),
}


@pytest.mark.parametrize("sentence", LIES)
def test_a_coupling_that_lies_about_its_step_is_found_out(sentence, monkeypatch):
    honest = SparseCodes.prox_linear
    monkeypatch.setattr(
        SparseCodes, "prox_linear", lambda self, term, gamma: LIES[sentence](honest(self, term, gamma), self.z["W"])
    )
    Y, z = blocks()
    problem = tecu.Problem(SparseFactorization(Y), {"W": terms.L0(0.01), "D": terms.UnitColumns()})
    result = methods.palm(problem).run(z, stop=stop.MaxIter(5))
    assert not result.certificate.holds
    assert any(visit.fault is not None and sentence in visit.fault for visit in result.state.visits)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [0.3, 1e-6, 700.0])
def test_a_step_that_has_become_as_short_as_rounding_is_no_lie(dtype, size):
    X = np.full((40, 3), size, dtype)  # each step is a tenth of the one before
    for sweeps in range(6, 17):
        model = L0DictionaryLearning(
            1, penalty=0.003 * size**2, solver="palm", constraint="ball", tol=0, max_iter=sweeps, random_state=0
        )
        assert model.fit(X).certificate_.holds, model.certificate_.reason


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("seed", [2, 3, 6])
def test_nor_is_one_that_rounding_takes_back(dtype, seed):
    X = (np.random.default_rng(seed).random((40, 3)) < 0.4).astype(dtype)
    for sweeps in (60, 100):
        model = L0DictionaryLearning(
            1, penalty=1e-9, solver="palm", constraint="ball", tol=0, max_iter=sweeps, random_state=0
        )
        assert model.fit(X).certificate_.holds, model.certificate_.reason


def batched():
    rng = np.random.default_rng(0)
    H = BatchedFactorization(rng.normal(size=(9, 5)), [slice(0, 4), slice(4, 9)])
    W0, W1 = (csr_array(np.where(rng.random((k, 7)) < 0.4, rng.normal(size=(k, 7)), 0.0)) for k in (4, 5))
    return H, {"W0": W0, "W1": W1, "D": rng.normal(size=(5, 7))}


def test_the_batched_coupling_is_sound():
    check_coupling(*batched())


@pytest.mark.parametrize("dtypes", [(np.float32, np.float32), (np.float64, np.float32), (np.float32, np.float64)])
def test_entries_of_a_gradient_in_any_precisions(dtypes):
    rng = np.random.default_rng(5)
    data, block = dtypes
    H = BatchedFactorization(rng.normal(size=(300, 7)).astype(data), [slice(0, 300)])
    W = csr_array(rng.normal(size=(300, 9)) * (rng.random((300, 9)) < 0.3)).astype(block)
    codes = H.restrict("W0", {"W0": W, "D": rng.normal(size=(7, 9)).astype(block)})
    rows, columns = np.divmod(np.sort(rng.choice(2700, 700, replace=False)), 9)  # more than are taken at a time
    np.testing.assert_allclose(codes.grad_entries(W, rows, columns), codes.grad(W)[rows, columns], rtol=1e-4, atol=1e-4)


def test_wrong_entries_of_a_gradient_are_found_out(monkeypatch):
    right = CodesOfBatch.grad_entries
    monkeypatch.setattr(CodesOfBatch, "grad_entries", lambda self, u, rows, cols: right(self, u, rows, cols - 1))
    with pytest.raises(AssertionError, match="grad_entries"):
        check_coupling(*batched())


@pytest.mark.parametrize("order", [("W0", "W1", "W2"), ("W2", "W0", "W1"), ("W0", "W1", "W2", "W1"), ("W0", "W1")])
def test_totals_are_kept_only_where_to_sum_them_anew_gives_the_same_bits(order, monkeypatch):
    right, summed_anew = FollowingTotals.begin_anew, []
    monkeypatch.setattr(FollowingTotals, "begin_anew", lambda self: (right(self), summed_anew.append(self)))
    rng = np.random.default_rng(3)
    H = BatchedFactorization(rng.normal(size=(90, 7)), [slice(0, 30), slice(30, 60), slice(60, 90)])
    W = {name: csr_array(rng.normal(size=(30, 9)) * (rng.random((30, 9)) < 0.3)) for name in order}
    z = {name: csr_array((30, 9)) for name in H.names} | {"D": rng.normal(size=(7, 9))}
    H.begin_sweep(z)
    totals = H.totals(z)
    for name in order:
        z = z | {name: W[name] * rng.normal()}
        H.totals(z)
    in_order = order == tuple(sorted(set(order)))
    assert totals.is_sum_of(z) is in_order
    assert not totals.is_sum_of(z | {"W0": z["W0"].copy()})
    H.begin_sweep(z)
    again = H.totals(z)
    assert (summed_anew == []) is in_order
    fresh = BatchedFactorization(H.data, H.batches).totals(z)
    assert np.array_equal(again.folded, fresh.folded)
    assert np.array_equal(again.B, fresh.B)


@pytest.mark.parametrize("threads", [1, 2])
def test_totals_that_were_interrupted_half_way_are_summed_anew(monkeypatch, threads):
    rng = np.random.default_rng(0)
    team = Workers(threads)
    H = BatchedFactorization(rng.normal(size=(60, 7)), [slice(0, 30), slice(30, 60)], team)
    codes = [csr_array(rng.normal(size=(30, 400)) * (rng.random((30, 400)) < 0.1)) for _ in range(3)]
    z = {"W0": codes[0], "W1": codes[1], "D": rng.normal(size=(7, 400))}
    right = kernels_atoms.inner_product

    def interrupted(left, right_, upper, first, end):
        if first > 0 or threads == 1:
            raise KeyboardInterrupt
        return right(left, right_, upper, first, end)

    H.value_by_totals("D", z)
    z = z | {"W0": codes[2]}
    monkeypatch.setattr(kernels_atoms, "inner_product", interrupted)
    with pytest.raises(KeyboardInterrupt):
        H.value_by_totals("D", z)
    monkeypatch.undo()
    assert H.value_by_totals("D", z) == pytest.approx(H.value(z))
    team.close()


@pytest.mark.parametrize("used", [0, 1, 8, 9])
def test_the_dictionarys_gradient_is_right_however_few_atoms_are_used(used):
    rng = np.random.default_rng(used)
    Y = rng.normal(size=(20, 7))
    W = rng.normal(size=(20, 9)) * (np.arange(9) < used)
    H = BatchedFactorization(Y, [slice(0, 12), slice(12, 20)])
    z = {"W0": csr_array(W[:12]), "W1": csr_array(W[12:]), "D": rng.normal(size=(7, 9))}
    smooth, v = H.restrict("D", z), rng.normal(size=(7, 9))
    np.testing.assert_allclose(smooth.grad(z["D"]), (z["D"] @ W.T - Y.T) @ W, atol=1e-12)
    np.testing.assert_allclose(smooth.hessian(v), v @ W.T @ W, atol=1e-12)


def test_codes_with_unsorted_indices_are_taken_for_what_they_are():
    rng = np.random.default_rng(5)
    W = csr_array(rng.normal(size=(12, 9)))
    turned = csr_array(
        (W.data.reshape(12, 9)[:, ::-1].ravel(), W.indices.reshape(12, 9)[:, ::-1].ravel(), W.indptr), shape=W.shape
    )
    H = BatchedFactorization(rng.normal(size=(12, 7)), [slice(0, 12)])
    D = rng.normal(size=(7, 9))
    found, truth = (H.restrict("D", {"W0": codes, "D": D}).grad(D).copy() for codes in (turned, W))
    np.testing.assert_allclose(found, truth, atol=1e-12)


FALSEHOODS = {
    "twice": lambda g, row: 2 * g,
    "turned": lambda g, row: -g,
    "ten times": lambda g, row: 10 * g,
    "ten times in late rows": lambda g, row: np.where(row > 0.9 * row.max(), 10 * g, g),
}


@pytest.mark.parametrize("solver", ["auto", "palm"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("lie", [None, *FALSEHOODS])
def test_a_false_gradient_of_many_sparse_codes_is_found(monkeypatch, solver, dtype, lie):
    right = gradient_tests._sparse_gradient

    def told(restricted, x, rng):
        value, gradient = right(restricted, x, rng)
        rows = np.repeat(np.arange(gradient.shape[0]), np.diff(gradient.indptr))
        return value, csr_array(
            (FALSEHOODS[lie](gradient.data, rows), gradient.indices, gradient.indptr), shape=gradient.shape
        )

    X = make_sparse_data(4000, 36, 120, 5, snr_db=20, random_state=0)[0].astype(dtype)
    if lie is not None:
        monkeypatch.setattr(gradient_tests, "_sparse_gradient", told)
    model = L0DictionaryLearning(120, penalty=0.05, solver=solver, max_iter=3, random_state=0).fit(X)
    assert model.codes_.nnz > gradient_tests.STORED
    assert model.certificate_.verdict.name == ("HOLDS" if lie is None else "DOES_NOT_HOLD")


def test_the_gradient_test_looks_at_rows_all_over_a_block():
    rng = np.random.default_rng(0)
    x = csr_array(rng.normal(size=(4000, 80)) * (rng.random((4000, 80)) < 0.1))
    H = couplings.MatrixFactorization(rng.normal(size=(20, 4000)))
    smooth = H.restrict("W", {"W": x, "D": rng.normal(size=(20, 80))})
    _, gradient = gradient_tests._sparse_gradient(smooth, x, rng)
    assert x.nnz > gradient_tests.STORED
    seen = np.flatnonzero(np.diff(gradient.indptr))
    assert np.histogram(seen, 8, (0, 4000))[0].min() > 200
    both = arrays.dense(gradient != 0) & arrays.dense(x != 0)
    assert abs(both.sum() - gradient_tests.STORED) < 500


def test_a_coupling_goes_through_pickle():
    H, z = batched()
    again = pickle.loads(pickle.dumps(H))
    assert again.value(z) == H.value(z)
    assert again.value_by_totals("D", z) == H.value_by_totals("D", z)
