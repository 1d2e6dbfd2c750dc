"""Every kind of array takes the same path: same iterates, the result where the input lived, float32 stays float32."""

from __future__ import annotations

from itertools import islice

import array_api_strict
import jax
import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import tecu
from problems import dictionary, unit_columns
from tecu import couplings, stop, strategies, terms

jax.config.update("jax_enable_x64", True)

KINDS = {
    "numpy": np.asarray,
    "torch": lambda x: torch.from_numpy(np.array(x)),
    "jax": lambda x: jax.numpy.asarray(x),
    "strict": lambda x: array_api_strict.asarray(np.array(x)),
}
UPDATES = {
    "prox-linear": lambda: tecu.ProxLinear(),
    "inertial": lambda: tecu.ProxLinear(extrapolation=tecu.Inertial()),
    "prox-gradient": lambda: tecu.Embed(strategies.ProxGradient(), eta=1.0),
    "fista": lambda: tecu.Embed(strategies.FISTA(), eta=1.0),
}


def problem_of(kind, dtype=np.float64):
    rng = np.random.default_rng(0)
    D = unit_columns(rng.normal(size=(10, 16)))
    W = rng.normal(size=(60, 16)) * (rng.random((60, 16)) < 0.15)
    Y = (D @ W.T + 0.03 * rng.normal(size=(10, 60))).astype(dtype)
    problem = tecu.Problem(couplings.MatrixFactorization(kind(Y)), {"W": terms.L0(0.02), "D": terms.UnitColumns()})
    start = dictionary().start
    return problem, {block: kind(x.astype(dtype)) for block, x in start.items()}


def as_numpy(x):
    return x.toarray() if hasattr(x, "toarray") else np.asarray(x)


@pytest.mark.parametrize("kind", ["torch", "jax", "strict"])
@pytest.mark.parametrize("update", UPDATES)
def test_kinds_agree_with_numpy(kind, update):
    problem, start = problem_of(np.asarray)
    other, other_start = problem_of(KINDS[kind])
    reference = islice(tecu.Solver(problem, UPDATES[update]()).iterate(start), 8)
    states = tecu.Solver(other, UPDATES[update]()).iterate(other_start)
    for one, two in zip(reference, states, strict=False):
        for block in start:
            assert type(two.z[block]) is type(other_start[block])
            np.testing.assert_allclose(as_numpy(two.z[block]), one.z[block], rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_certificate_for_every_kind(kind):
    problem, start = problem_of(KINDS[kind])
    result = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": UPDATES["fista"]()}).run(start, stop=stop.MaxIter(10))
    assert result.certificate.holds, result.certificate.reason
    assert np.isfinite(result.certificate.residual)


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax", "strict"])
def test_states_of_every_kind_are_saved(kind, tmp_path):
    problem, start = problem_of(KINDS[kind])
    solver = tecu.Solver(problem, UPDATES["fista"]())
    state = next(solver.iterate(start))
    tecu.save_state(tmp_path / "s.npz", state)
    loaded = tecu.load_state(tmp_path / "s.npz")
    for block in start:
        assert type(loaded.z[block]) is type(start[block])
    one, two = next(solver.iterate(state)), next(solver.iterate(loaded))
    np.testing.assert_array_equal(as_numpy(one.z["D"]), as_numpy(two.z["D"]))


@pytest.mark.parametrize("kind", ["numpy", "torch", "jax"])
@pytest.mark.parametrize("update", UPDATES)
def test_float32_stays_float32_and_its_certificate_holds(kind, update):
    problem, start = problem_of(KINDS[kind], np.float32)
    result = tecu.Solver(problem, UPDATES[update]()).run(start, stop=stop.MaxIter(60))
    for block, x in result.z.items():
        assert x.dtype == start[block].dtype
    assert result.certificate.holds, result.certificate.reason
    assert result.history["value"].dtype == np.float64
    exact = 0.02 * np.count_nonzero(as_numpy(result.z["W"]))
    assert result.value > exact


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("update", UPDATES)
def test_csr_codes_agree_with_dense_ones(update, dtype, tmp_path):
    problem, start = problem_of(np.asarray, dtype)
    sparse_start = {**start, "W": csr_array(start["W"])}
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": UPDATES[update]()})
    dense, sparse = (solver.run(s, stop=stop.MaxIter(10)) for s in (start, sparse_start))
    assert isinstance(sparse.z["W"], csr_array)
    assert sparse.z["W"].dtype == dtype
    assert sparse.certificate.holds, sparse.certificate.reason
    tolerance = 1e-8 if dtype == np.float64 else 2e-2
    assert sparse.value == pytest.approx(dense.value, rel=tolerance)
    tecu.save_state(tmp_path / "s.npz", sparse.state)
    loaded = tecu.load_state(tmp_path / "s.npz")
    assert (loaded.z["W"] != sparse.z["W"]).nnz == 0


def test_embedding_into_csr_codes():
    problem, start = problem_of(np.asarray)
    start = {**start, "W": csr_array(start["W"])}
    result = tecu.Solver(problem, tecu.Embed(strategies.ProxGradient())).run(start, stop=stop.MaxIter(10))
    assert isinstance(result.z["W"], csr_array)
    assert result.certificate.holds, result.certificate.reason


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_a_function_of_the_blocks_is_enough(backend):
    """``Autodiff``: H as a torch or JAX function, compared with the same problem by formula."""
    problem, _ = problem_of(np.asarray)
    other, other_start = problem_of(KINDS[backend])
    Y = KINDS[backend](np.asarray(problem_data()))

    def misfit(W, D):
        return 0.5 * ((Y - D @ W.T) ** 2).sum()

    auto = tecu.Problem(couplings.Autodiff(misfit), other.terms)
    result = tecu.Solver(auto, tecu.ProxLinear()).run(other_start, stop=stop.MaxIter(15))
    assert result.certificate.holds, result.certificate.reason
    assert result.value == pytest.approx(problem.value({b: as_numpy(x) for b, x in result.z.items()}), rel=1e-9)


def problem_data():
    rng = np.random.default_rng(0)
    D = unit_columns(rng.normal(size=(10, 16)))
    W = rng.normal(size=(60, 16)) * (rng.random((60, 16)) < 0.15)
    return D @ W.T + 0.03 * rng.normal(size=(10, 60))


def test_torch_blocks_of_two_precisions_run_where_the_coupling_takes_them():
    """torch promotes sums, but multiplies no matrices of two precisions: then a sentence says so."""
    problem, start = problem_of(KINDS["torch"])
    mixed = {"W": start["W"], "D": start["D"].float()}
    with pytest.raises(TypeError, match=r"several precisions.*'D': 'torch.float32'.*MatrixFactorization.*\.double\(\)"):
        tecu.Solver(problem, tecu.ProxLinear()).run(mixed, stop=stop.MaxIter(2))

    H = couplings.Linear(torch.eye(4), torch.arange(4.0)) + couplings.Difference("x", "y")
    for kinds in ((torch.float32, torch.float64), (torch.float64, torch.float32)):
        begin = {block: torch.ones(4, dtype=kind) for block, kind in zip("xy", kinds, strict=True)}
        for update in (tecu.ProxLinear(), *(tecu.Embed(s()) for s in (strategies.ProxGradient, strategies.ADMM))):
            solver = tecu.Solver(tecu.Problem(H, {"x": terms.L1(0.1), "y": terms.L1(0.1)}), update)
            result = solver.run(begin, stop=stop.MaxIter(20))
            assert result.certificate.holds, result.certificate.reason
            assert tuple(x.dtype for x in result.z.values()) == kinds


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("update", UPDATES)
def test_a_matrix_of_the_old_kind_is_taken_as_the_array_it_holds(update):
    problem, start = problem_of(np.asarray)
    old, _ = problem_of(np.asmatrix)
    expected = tecu.Solver(problem, UPDATES[update]()).run(start, stop=stop.MaxIter(4))
    result = tecu.Solver(old, UPDATES[update]()).run(
        old.project({block: np.asmatrix(x) for block, x in start.items()}), stop=stop.MaxIter(4)
    )
    for block in start:
        assert type(result.z[block]) is np.ndarray
        np.testing.assert_array_equal(result.z[block], expected.z[block])


def test_a_masked_array_is_refused():
    problem, start = problem_of(np.asarray)
    with pytest.raises(TypeError, match=r"block 'D': .* masked array"):
        tecu.Solver(problem, tecu.ProxLinear()).run({**start, "D": np.ma.masked_less(start["D"], 0.0)})
    with pytest.raises(TypeError, match=r"MatrixFactorization: Y .* masked array"):
        couplings.MatrixFactorization(np.ma.masked_less(np.ones((3, 4)), 0.0))


@pytest.mark.parametrize("double", ["W", "D"])
@pytest.mark.parametrize("factor", [1.0, 0.8, 1.2])
def test_a_coupling_of_ones_own_is_tested_where_its_blocks_have_two_precisions(double, factor):
    """The step of the gradient test goes by the coarsest block: then it tells right from wrong for each of them."""
    rng = np.random.default_rng(0)
    rows = {"D": 12, "W": 30} if double == "D" else {"D": 30, "W": 12}  # in float32 large blocks are lost in rounding
    Y = rng.normal(size=(rows["D"], rows["W"])).astype(np.float32)

    def residual(z):
        return z["D"] @ z["W"].T - Y

    factors = {"W": 1.0, "D": 1.0, double: factor}
    coupling = couplings.Functions(
        lambda z: 0.5 * float(np.sum(residual(z) ** 2)),
        {"W": lambda z: factors["W"] * residual(z).T @ z["D"], "D": lambda z: factors["D"] * residual(z) @ z["W"]},
    )
    problem = tecu.Problem(coupling, {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    start = {block: 5 * rng.normal(size=(rows[block], 4)).astype(np.float32) for block in ("W", "D")}
    start = problem.project({**start, double: start[double].astype(np.float64)})
    result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(20))
    assert not any(check.untold for check in result.state.checks[:2] if check.block == double)
    assert result.certificate.holds == (factor == 1.0), result.certificate.reason
