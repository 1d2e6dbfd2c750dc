"""The quick audit of codes confirms nothing that the solver's own audit would not, and hides no lie from it."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csr_array

from tecu import terms
from tecu.audit import audit_claim
from tecu.dictionary import L0DictionaryLearning, embedded, make_sparse_data, solvers
from tecu.dictionary.blocks import CodesOfBatch, Dictionary
from tecu.dictionary.confirmation import EmbeddedCodes, _square_of_slopes, confirmed
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.embedded import ColumnSweeps, PolishedCodes
from tecu.dictionary.totals import Atoms
from tecu.dictionary.workers import Workers
from tecu.problem import Problem, SubProblem

PENALTY, ETA = 0.02, 0.01


def visited(dtype=np.float64, threads=1, seed=0):
    """A batch with old codes, its sub-problem, and the step of a visit to it."""
    X, D, _ = make_sparse_data(400, 16, 24, 3, snr_db=20, random_state=seed)
    rng = np.random.default_rng(seed)
    old = csr_array(rng.normal(size=(400, 24)) * (rng.random((400, 24)) < 0.1)).astype(dtype)
    coupling = BatchedFactorization(X.astype(dtype), [slice(0, 400)], Workers(threads))
    problem = Problem(coupling, {"W0": terms.L0(PENALTY), "D": terms.UnitColumns()})
    update = EmbeddedCodes(PolishedCodes(PENALTY, 16), eta=ETA, c=0.45 * ETA)
    sub = SubProblem.of(problem, "W0", {"W0": old, "D": np.ascontiguousarray(D.T).astype(dtype)})
    return update, sub, update.visit(sub)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("threads", [1, 2])
def test_true_claims_are_confirmed_by_both_audits(dtype, threads):
    update, sub, step = visited(dtype, threads)
    assert step.u.nnz > 0
    assert confirmed(sub.with_eta(ETA), step.claim)
    assert audit_claim(sub.with_eta(ETA), step.claim, step.u) is None
    assert update.audit(sub, step) is None


def one_less(u):
    """Codes without one coefficient that pays."""
    v = u.copy()
    v.data[np.argmax(np.abs(v.data))] = 0
    v.eliminate_zeros()
    return v


def one_more(u):
    v = u.tolil()
    v[3, int(np.flatnonzero(u[[3]].toarray() == 0)[0])] = 0.5
    return csr_array(v)


def a_little_off(u):
    v = u.copy()
    v.data[:] *= 1.05
    return v


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("change", [one_less, one_more, a_little_off])
def test_codes_that_are_not_their_own_prox_point_are_found_out(change, dtype):
    update, sub, step = visited(dtype)
    false = change(step.u).astype(dtype)
    lie = replace(step, u=false, claim=replace(step.claim, u=false))
    assert not confirmed(sub.with_eta(ETA), lie.claim)
    assert update.audit(sub, lie) is not None


def of_unit_vectors(X):
    """The update and the sub-problem of codes that begin at zero, where every atom is a unit vector."""
    problem = Problem(BatchedFactorization(X, [slice(0, len(X))]), {"W0": terms.L0(PENALTY), "D": terms.UnitColumns()})
    start = {"W0": csr_array(X.shape, dtype=X.dtype), "D": np.eye(X.shape[1], dtype=X.dtype)}
    update = EmbeddedCodes(PolishedCodes(PENALTY, X.shape[1]), eta=ETA, c=0.45 * ETA)
    return update, SubProblem.of(problem, "W0", start)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_coefficient_whose_prox_is_zero_is_found_out_by_itself(dtype):
    update, sub = of_unit_vectors(2 * np.eye(16, 16, 1, dtype=dtype))
    step = update.visit(sub)
    assert confirmed(sub.with_eta(ETA), step.claim)
    more = step.u.toarray()
    small = more[3, 7] = 0.05  # next to atoms that are orthogonal to it, no other slope sees it
    false = csr_array(more)
    change = step.claim.change + PENALTY + 0.5 * (1.0 + ETA) * small**2  # which is true
    assert not confirmed(sub.with_eta(ETA), replace(step.claim, u=false, change=change))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("sample", [8, 13])
def test_a_sample_without_its_atom_is_found_out_by_the_gradient_alone(sample, sign, dtype):
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(40, 16))) * (rng.random((40, 16)) < 0.1)
    X[sample] = 0
    X[sample, 3] = 2 * sign  # the only entry of its correlations with the atoms, which are unit vectors
    update, sub = of_unit_vectors(X.astype(dtype))
    step = update.visit(sub)
    assert confirmed(sub.with_eta(ETA), step.claim)
    without = step.u.toarray()
    coefficient = float(without[sample, 3])
    without[sample] = 0
    false = csr_array(without)
    lost = 0.5 * 4 - (PENALTY + 0.5 * (2 * sign - coefficient) ** 2 + 0.5 * ETA * coefficient**2)
    lie = replace(step, u=false, claim=replace(step.claim, u=false, change=step.claim.change + lost))  # a true change
    assert not confirmed(sub.with_eta(ETA), lie.claim)
    assert update.audit(sub, lie) is not None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_wrong_coefficient_is_found_out_though_the_change_it_tells_is_true(dtype):
    _, sub, step = visited(dtype)
    false = step.u.copy()
    false.data[np.argmax(np.abs(false.data))] *= 1.05
    X, D = sub.smooth.samples.astype(np.float64), sub.smooth.atoms.rows.astype(np.float64)

    def value(codes):
        misfit, move = X - codes @ D, (codes - sub.previous).toarray()
        return PENALTY * codes.nnz + 0.5 * np.sum(misfit**2) + 0.5 * ETA * np.sum(move**2)

    true_change = step.claim.change + value(false) - value(step.u)
    assert not confirmed(sub.with_eta(ETA), replace(step.claim, u=false, change=true_change))


@pytest.mark.parametrize("scale", [1e17, 6e18, 3e19])
def test_claims_of_large_samples_are_told_from_lies(scale):
    rng = np.random.default_rng(0)
    D = np.abs(rng.normal(size=(12, 8)))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    X = (scale * (0.05 + (np.abs(rng.normal(size=(500, 12))) * (rng.random((500, 12)) < 0.3)) @ D)).astype(np.float32)
    penalty = 0.02 * scale * scale
    problem = Problem(BatchedFactorization(X, [slice(0, 500)]), {"W0": terms.L0(penalty), "D": terms.UnitColumns()})
    start = {"W0": csr_array((500, 12), dtype=np.float32), "D": np.ascontiguousarray(D.T).astype(np.float32)}
    sub = SubProblem.of(problem, "W0", start).with_eta(ETA)
    claim = EmbeddedCodes(PolishedCodes(penalty, 8), eta=ETA, c=0.45 * ETA).visit(sub).claim
    false = claim.u.copy()
    false.data *= np.float32(1.5)
    assert confirmed(sub, claim) or scale == 3e19  # where a square of float32 is infinite, nothing is told
    assert not confirmed(sub, replace(claim, u=false))
    assert not confirmed(sub, replace(claim, change=2 * claim.change))


@pytest.mark.filterwarnings("ignore:penalty='auto' chose")  # two atoms that are two samples serve no other
def test_wide_samples_and_few_atoms_take_little_memory():
    X = np.random.default_rng(0).normal(size=(60, 3000)).astype(np.float32)
    tracemalloc.start()
    L0DictionaryLearning(2, init=X[:2], max_iter=2, random_state=0).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 400e6  # the square of the features is 36 MB in float32; a room for all that fits in a tile is 3 GB


@pytest.mark.parametrize("field", ["change", "error_norm", "error_along_move"])
def test_false_numbers_are_found_out(field):
    update, sub, step = visited()
    lie = replace(step, claim=replace(step.claim, **{field: getattr(step.claim, field) - 5.0}))
    assert not confirmed(sub.with_eta(ETA), lie.claim)
    assert update.audit(sub, lie) is not None


def test_a_gradient_that_is_not_a_number_confirms_nothing():
    _, sub, step = visited()
    sub.smooth.samples[7] = np.nan
    assert not confirmed(sub.with_eta(ETA), step.claim)


class Boaster(PolishedCodes):
    """Polished codes that claim to have gained more than they have."""

    def __call__(self, sub, u):
        for candidate in super().__call__(sub, u):
            numbers = getattr(candidate, "numbers", None)
            if numbers is None:
                yield candidate
            else:
                yield replace(candidate, numbers=replace(numbers, change=1.1 * numbers.change - 1.0))


def test_a_fit_with_a_lying_coder_has_no_certificate(monkeypatch):
    X, *_ = make_sparse_data(500, 16, 24, 2, snr_db=30, random_state=0)
    assert L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X).certificate_.holds
    monkeypatch.setattr(embedded, "PolishedCodes", Boaster)
    certificate = L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X).certificate_
    assert not certificate.holds
    assert "claimed a wrong" in certificate.summary()


def times(factor, name):
    """A part of a block's ``H``, made too large (or zero) everywhere."""
    return lambda right: {name: lambda self, *given: factor * getattr(right, name)(self, *given)}


FALSE_PARTS = [
    (CodesOfBatch, times(1.05, "grad_entries")),
    (CodesOfBatch, times(0.0, "grad_entries")),
    (CodesOfBatch, times(1.02, "value")),
    (Dictionary, times(1.05, "grad")),
    (Dictionary, times(1.1, "hessian")),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("block", "part"), FALSE_PARTS)
def test_a_fit_with_a_false_coupling_has_no_certificate(monkeypatch, block, part, dtype):
    X = make_sparse_data(3000, 16, 300, 3, snr_db=25, random_state=0)[0].astype(dtype)
    model = L0DictionaryLearning(300, penalty=0.02, max_iter=2, random_state=0)
    assert model.fit(X).certificate_.holds
    class_ = type("False", (block,), part(block))
    names = {CodesOfBatch: "CodesOfBatch", Dictionary: "Dictionary"}
    monkeypatch.setattr(f"tecu.dictionary.coupling.{names[block]}", class_)
    assert not model.fit(X).certificate_.holds


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", [PolishedCodes, ColumnSweeps])
def test_a_fit_with_a_false_change_of_the_objective_has_no_certificate(monkeypatch, strategy, dtype):
    class Boasting(strategy):
        def __call__(self, sub, u):
            for said in super().__call__(sub, u):
                numbers = getattr(said, "numbers", None)
                yield said if numbers is None else replace(said, numbers=replace(numbers, change=1.5 * numbers.change))

    X = make_sparse_data(3000, 16, 100, 3, snr_db=25, random_state=0)[0].astype(dtype)
    monkeypatch.setattr(solvers if strategy is ColumnSweeps else embedded, strategy.__name__, Boasting)
    model = L0DictionaryLearning(100, penalty=0.02, max_iter=3, random_state=0).fit(X)
    assert "claimed a wrong change of the objective" in model.certificate_.reason


@pytest.mark.parametrize(("atoms", "features"), [(8, 5), (5, 8)])
def test_the_size_of_slopes_is_the_same_by_features_and_by_atoms(atoms, features):
    rng = np.random.default_rng(0)
    D, rest = rng.normal(size=(features, atoms)), rng.normal(size=(30, features)).astype(np.float32)
    found = _square_of_slopes(rest, Atoms(D, Workers(1)))
    assert found == pytest.approx(np.sum((rest.astype(float) @ D) ** 2), rel=1e-12)


def test_the_audit_of_wide_data_needs_no_matrix_of_features_by_features():
    X, _, _ = make_sparse_data(60, 3000, 8, 3, snr_db=20, random_state=0)
    tracemalloc.start()
    L0DictionaryLearning(8, penalty=0.02, max_iter=2, random_state=0, n_jobs=1).fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 3000 * 3000 * 8 / 2
