"""New codes of very large and very small samples: those of usual ones, scaled, or a sentence."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.dictionary.encoding import NEXT_TO_NOTHING
from tecu.dictionary.solvers import NAMES

PENALTY = 0.01


@pytest.fixture(scope="module", params=[{"n_nonzero": 2}, {"penalty": PENALTY}], ids=["n_nonzero", "penalty"])
def options(request):
    return request.param


def fitted(options, dtype):
    X = make_sparse_data(300, 10, 14, 2, random_state=0)[0].astype(dtype)
    return X, L0DictionaryLearning(14, random_state=0, **options).fit(X)


def at_scale(model, options, scale):
    if "penalty" in options:
        model.penalty = model.penalty_ = PENALTY * scale**2
    return model


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize(
    ("dtype", "exponent"),
    [(np.float64, 500), (np.float64, -500), (np.float32, 59), (np.float32, -55)],
)
def test_codes_scale_with_the_samples(options, dtype, exponent, kind):
    X, model = fitted(options, dtype)
    usual, scale = model.transform(X), 2.0**exponent
    codes = at_scale(model, options, scale).transform(kind(X * dtype(scale)))
    np.testing.assert_allclose(codes.toarray() / scale, usual.toarray(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
@pytest.mark.parametrize(
    ("dtype", "exponent", "remedy"),
    [
        (np.float64, 600, "divide"), (np.float64, -600, "multiply"),
        (np.float32, 70, "divide"), (np.float32, -70, "multiply"),
    ],
)  # fmt: skip
def test_samples_whose_squares_leave_the_range_are_refused(options, dtype, exponent, remedy, kind):
    X, model = fitted(options, dtype)
    for ask in (model.transform, model.score):
        with pytest.raises(ValueError, match=f"squares of such numbers leave the range.*{remedy} X"):
            ask(kind(X * dtype(2.0**exponent)))


def test_samples_of_zeros_are_in_range(options):
    X, model = fitted(options, np.float64)
    assert model.transform(np.zeros_like(X)).nnz == 0


@pytest.mark.parametrize("solver", ["auto", "palm", "tecu"])
def test_beside_an_outlier_the_objective_is_still_that_of_the_arrays(options, solver):
    X = make_sparse_data(300, 10, 14, 2, random_state=0)[0].astype(np.float32)
    X[7] *= np.float32(1e8)
    model = L0DictionaryLearning(14, solver=solver, max_iter=5, random_state=0, **options).fit(X)

    def objective(codes):
        misfit = X.astype(float) - codes.toarray().astype(float) @ model.components_.astype(float)
        return model.penalty_ * codes.nnz + 0.5 * np.sum(misfit**2)

    # what rounding of float32 misfits may take
    np.testing.assert_allclose(model.objective_, objective(model.codes_), rtol=NEXT_TO_NOTHING)
    np.testing.assert_allclose(-model.score(X) * len(X), objective(model.transform(X)), rtol=1e-7)
    chunks = iter([X[:100], X[100:]])
    np.testing.assert_allclose(model.score(chunks), model.score(X), rtol=1e-7)


@pytest.mark.parametrize("solver", NAMES)
def test_tiny_samples_are_learned_from_as_well_as_usual_ones(options, solver):
    X = make_sparse_data(300, 10, 14, 2, random_state=0)[0]

    def objective_at(scale):
        model = L0DictionaryLearning(14, solver=solver, max_iter=30, random_state=0, **options)
        return at_scale(model, options, scale).fit(X * scale).objective_ / scale**2

    assert objective_at(2.0**-20) < 1.2 * objective_at(1.0)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beside_huge_outliers_all_atoms_learn(seed):
    """A gradient step by the curvature of the atom that has the outlier would leave the others where they are."""
    X = np.random.default_rng(seed).standard_cauchy((400, 30))
    fits = {
        solver: L0DictionaryLearning(30, penalty=0.1, solver=solver, max_iter=100, random_state=0).fit(X)
        for solver in ("auto", "bcu")
    }
    assert fits["auto"].certificate_.holds
    assert fits["auto"].objective_ < 2 * fits["bcu"].objective_  # both end in some local minimum
