"""Codes of new samples: never worse than their greedy start, near the best support, each by itself."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import lsq_linear
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from tecu.dictionary import L0DictionaryLearning, make_sparse_data, plain
from tecu.dictionary.coding import greedy
from tecu.dictionary.embedded import DescendedCodes, PolishedCodes
from tecu.dictionary.encoding import ALIKE, encoded, likeness
from tecu.dictionary.exchange import values
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import Workers

BOUNDS = [(-np.inf, np.inf), (0.0, np.inf), (-0.7, 0.7), (0.0, 0.7)]


def problem(seed, offset=0.0, atoms=9, features=6, samples=40):
    """Samples of three atoms and noise; with an offset all atoms are much alike."""
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(atoms, features)) + offset
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    W = np.where(np.argsort(rng.random((samples, atoms))) < 3, rng.normal(size=(samples, atoms)) + offset, 0)
    return W @ D + 0.05 * rng.normal(size=(samples, features)), D


def best_by_brute_force(Y, D, k, bounds):
    """``1/2 ||y - w D||^2`` of the best support of each sample."""
    return np.array(
        [
            min(lsq_linear(D[list(s)].T, y, bounds, method="bvls").cost for s in combinations(range(len(D)), k))
            for y in Y
        ]
    )


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("k", [2, 3])
def test_codes_are_near_the_best_support_and_never_worse_than_their_start(k, bounds):
    near = []
    for seed, offset in enumerate((0.0, 1.0)):
        Y, D = problem(seed, offset)
        coder = Coder(0.0, k, *bounds)
        codes = encoded(Rows(Y), D, coder, Workers(1))
        start = DescendedCodes(0.0, k, *bounds).greedy_code(Y, D, D @ D.T)
        found = values(Y, D, codes, 0.0)
        assert np.all(np.diff(codes.indptr) <= k)
        assert np.all((codes.data >= bounds[0]) & (codes.data <= bounds[1]))
        assert np.all(found <= values(Y, D, start, 0.0) * (1 + 1e-12))
        best = best_by_brute_force(Y, D, k, bounds)
        assert np.all(found >= best * (1 - 1e-9) - 1e-12)  # or the brute force is wrong
        near.append(found <= best + 0.02 * 0.5 * np.sum(Y**2, axis=1))
    assert np.mean(near) > 0.9


@pytest.mark.parametrize(("penalty", "offset"), [(0.0, 0.0), (0.0, 1.0), (0.05, 2.0)])  # with it, where atoms are alike
def test_no_atom_can_be_inserted_dropped_or_exchanged_with_profit(penalty, offset):
    Y, D = problem(0, offset, samples=20)
    Y += np.random.default_rng(1).normal(size=Y.shape)  # so much that no sample is left for being nearly exact
    G, cap = D @ D.T, 3 if penalty == 0.0 else 6
    codes = encoded(Rows(Y), D, Coder(penalty, None if penalty else cap), Workers(1)).toarray()
    for y, code in zip(Y, codes, strict=True):
        c, support = D @ y, [int(j) for j in np.flatnonzero(code)]
        here = plain.value(G, c, code, penalty)
        if 0.5 * y @ y + here - penalty * len(support) <= penalty:
            continue
        shorter = [[i for i in support if i != j] for j in support]
        others = [*shorter, *([*rest, j] for rest in [support, *shorter] for j in range(len(D)) if j not in support)]
        for other in others:
            if len(other) <= cap and np.linalg.eigvalsh(G[np.ix_(other, other)])[0:1].min(initial=1.0) > 1e-2:
                assert plain.value(G, c, plain.refit(G, c, other), penalty) >= here - 1e-5 * abs(here)


def test_atoms_that_are_no_more_alike_than_random_ones_are_not_exchanged_for_a_penalty():
    rng = np.random.default_rng(0)
    Y, D = problem(0, atoms=30, features=20)
    assert likeness(D @ D.T, 20) == pytest.approx(1.0, rel=0.2)
    start = PolishedCodes(0.05, 20).from_greedy(Y, D, D @ D.T)
    np.testing.assert_array_equal(encoded(Rows(Y), D, Coder(0.05), Workers(1)).toarray(), start.toarray())
    alike = D + 0.5 * rng.normal(size=20)
    alike /= np.linalg.norm(alike, axis=1, keepdims=True)
    assert likeness(alike @ alike.T, 20) > ALIKE
    start = PolishedCodes(0.05, 20).from_scratch(Y, alike, alike @ alike.T)
    found = encoded(Rows(Y), alike, Coder(0.05), Workers(1))
    assert np.sum(values(Y, alike, found, 0.05)) < np.sum(values(Y, alike, start, 0.05))


@pytest.mark.parametrize("options", [{"penalty": 0.01}, {"penalty": 0.01, "code_bound": 0.5}, {"n_nonzero": 2}])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_each_sample_is_coded_by_itself_and_no_worse_than_from_scratch(X, other, options, dtype):
    model = L0DictionaryLearning(20, **options, max_iter=2, random_state=0).fit(X.astype(dtype))
    new = other[:60].astype(dtype)
    codes, D = model.transform(new), model.components_
    one_by_one = np.concatenate([model.transform(new[i : i + 1]).toarray() for i in range(len(new))])
    np.testing.assert_allclose(codes.toarray(), one_by_one, rtol=1e-4, atol=1e-5)
    assert codes.dtype == dtype
    bound = options.get("code_bound", np.inf)
    strategy = PolishedCodes(0.01, 12) if options == {"penalty": 0.01} else DescendedCodes(
        model.penalty_, options.get("n_nonzero"), -bound, bound
    )  # fmt: skip
    start = strategy.from_scratch(new, D, D @ D.T)
    mine, theirs = (values(new.astype(float), D.astype(float), some, model.penalty_) for some in (codes, start))
    assert np.all(mine <= theirs * (1 + 1e-6))


@pytest.mark.parametrize(("atoms", "features"), [(40, 30), (8, 5), (100, 12)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_with_a_penalty_no_code_is_worse_than_that_of_orthogonal_matching_pursuit(atoms, features, dtype):
    rng = np.random.default_rng(atoms)
    Y, D = (rng.normal(size=(size, features)).astype(dtype) for size in (400, atoms))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    for penalty in (0.003 * features, 0.03 * features):
        codes = encoded(Rows(Y), D, Coder(penalty), Workers(1))
        pursuit = greedy(Y, D, D @ D.T, stop=penalty, penalty=penalty, cap=min(D.shape)).csr(atoms)
        mine, theirs = (values(Y.astype(float), D.astype(float), some, penalty) for some in (codes, pursuit))
        assert np.all(mine <= theirs * (1 + 1e-5))


def test_nor_where_atoms_that_are_short_nearly_depend_on_each_other():
    rng = np.random.default_rng(1957)
    D = rng.normal(size=(8, 5))
    D *= rng.random((8, 1)) / np.linalg.norm(D, axis=1, keepdims=True)
    Y, penalty = rng.normal(size=(3000, 5)), 0.02
    codes = encoded(Rows(Y), D, Coder(penalty), Workers(1))
    pursuit = greedy(Y, D, D @ D.T, stop=penalty, penalty=penalty, cap=5).csr(8)
    assert np.all(values(Y, D, codes, penalty) <= values(Y, D, pursuit, penalty) * (1 + 1e-9))


SCALED = (load_iris().data - load_iris().data.mean(0)) / load_iris().data.std(0)
DATA = {
    "bounded": (load_digits().data[:600] / 16, {"n_components": 32, "n_nonzero": 3, "code_bound": 2.0}),
    "bounded, positive": (
        load_digits().data[:600] / 16, {"n_components": 32, "n_nonzero": 3, "code_bound": 2.0, "positive": True}
    ),
    "iris": (SCALED, {"n_nonzero": 3}),
    "offset, bad start": (load_wine().data, {"n_nonzero": 2, "init": "random"}),
    **{
        f"atoms that differ by {1 / offset}": (
            make_sparse_data(300, 12, 20, 2, random_state=0)[0] + offset,
            {"n_components": 8, "n_nonzero": 3, "solver": "palm"},
        )
        for offset in (100, 1000)
    },
    **{
        f"tails, {kind}": (np.random.default_rng(5).standard_cauchy((400, 30)).astype(kind), {"penalty": 0.1})
        for kind in ("float32", "float64")
    },
    "offset, penalty": (load_breast_cancer().data.astype(np.float32), {"penalty": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("name", DATA)
def test_new_codes_are_as_good_as_those_of_the_fit(name):
    X, options = DATA[name]
    model = L0DictionaryLearning(**options, random_state=0).fit(X)
    assert -model.score(X) * len(X) <= 1.02 * model.objective_


def test_codes_too_long_for_exchanges_are_left_as_they_are():
    X, D, _ = make_sparse_data(20, 90, 120, 80, random_state=0)
    codes = encoded(Rows(X), D, Coder(0.0, 70), Workers(1))
    start = DescendedCodes(0.0, 70).greedy_code(X, D, D @ D.T)
    np.testing.assert_array_equal(codes.toarray(), start.toarray())
