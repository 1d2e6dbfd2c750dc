"""What holds for every strategy."""

from itertools import islice

import numpy as np
import pytest
from scipy.sparse import csr_array
from subproblems import factorization, vector

from tecu import arrays, strategies, terms
from tecu.inexact import estimate
from tecu.testing import check_strategy

GENERAL = [strategies.ProxGradient(), strategies.FISTA(), strategies.FISTA(restart=False), strategies.ADMM()]
BY_COLUMN = [strategies.CoordinateDescent()]
CONVEX = [terms.L1(0.1), terms.NonNegative(), terms.Box(-0.3, 0.4), terms.SquaredL2(0.5), terms.Zero()]
COLUMNS = [terms.UnitColumns(), terms.UnitColumns(ball=True), terms.GroupL21(0.3, axis=0), terms.KSparse(3, axis=0)]
COUNTING = [terms.L0(0.02), terms.KSparse(2), terms.BoundedL0(0.02, 1.0)]


def minimizer(sub):
    """The limit of plain prox-gradient steps, written here again."""
    u, tau = sub.previous, sub.lipschitz() or 20.0
    for _ in range(20_000):
        following = sub.term.prox(u - sub.grad(u) / tau, 1 / tau)
        if arrays.distance(following, u) <= 1e-14:
            break
        u = following
    return u


def limit(strategy, sub, steps=300):
    *_, candidate = islice(strategy(sub, sub.previous), steps)
    return estimate(sub, candidate).point


@pytest.mark.parametrize("strategy", GENERAL + BY_COLUMN, ids=repr)
@pytest.mark.parametrize("term", [*CONVEX, terms.UnitColumns(ball=True)], ids=repr)
@pytest.mark.parametrize("block", ["W", "D"])
def test_converges_to_the_minimiser_of_a_factor(strategy, term, block):
    sub = factorization(block, term)
    assert arrays.distance(limit(strategy, sub), minimizer(sub)) <= 1e-9


@pytest.mark.parametrize("strategy", GENERAL, ids=repr)
@pytest.mark.parametrize("term", CONVEX, ids=repr)
@pytest.mark.parametrize("kind", ["logistic", "logistic-backtracked", "least-squares"])
def test_converges_to_the_minimiser_of_a_vector(strategy, term, kind):
    sub = vector(kind, term)
    assert arrays.distance(limit(strategy, sub), minimizer(sub)) <= 1e-7


@pytest.mark.parametrize("strategy", GENERAL, ids=repr)
@pytest.mark.parametrize("term", [*CONVEX, *COLUMNS, *COUNTING, terms.Stiefel(), terms.UnitRows()], ids=repr)
def test_general_strategies_keep_every_promise(strategy, term):
    check_strategy(strategy, factorization("D", term))
    if not isinstance(term, terms.Stiefel):
        check_strategy(strategy, factorization("W", term))


@pytest.mark.parametrize("strategy", GENERAL, ids=repr)
@pytest.mark.parametrize("kind", ["logistic", "logistic-backtracked", "least-squares"])
@pytest.mark.parametrize("term", [terms.L1(0.2), terms.L0(0.05), terms.UnitColumns()], ids=repr)
def test_general_strategies_keep_every_promise_on_vectors(strategy, kind, term):
    check_strategy(strategy, vector(kind, term))


@pytest.mark.parametrize("term", [*CONVEX, *COLUMNS, terms.L0(0.02), terms.BoundedL0(0.02, 1.0)], ids=repr)
def test_coordinate_descent_keeps_every_promise(term):
    check_strategy(strategies.CoordinateDescent(), factorization("W", term))
    check_strategy(strategies.CoordinateDescent(), factorization("D", term))


@pytest.mark.parametrize("term", COUNTING, ids=repr)
def test_hard_thresholding_keeps_every_promise(term):
    check_strategy(strategies.HardThresholding(), factorization("W", term))


@pytest.mark.parametrize("term", [terms.Zero(), terms.SquaredL2(0.7)], ids=repr)
@pytest.mark.parametrize("eta", [0.01, 1.0])
def test_conjugate_gradients_keep_every_promise(term, eta):
    for preconditioner in (None, lambda sub: lambda r: r / np.arange(1.0, r.shape[-1] + 1.0)):
        check_strategy(strategies.PCG(preconditioner), factorization("W", term, eta=eta))
        check_strategy(strategies.PCG(preconditioner), vector("least-squares", term, eta=eta))


@pytest.mark.parametrize("term", [terms.L0(0.02), terms.KSparse(2)], ids=repr)
def test_greedy_keeps_every_promise(term):
    check_strategy(strategies.OrthogonalMatchingPursuit(), factorization("W", term))


ALL = [
    *[(s, terms.L1(0.1)) for s in (*GENERAL, *BY_COLUMN)],
    (strategies.HardThresholding(), terms.L0(0.02)),
    (strategies.OrthogonalMatchingPursuit(), terms.L0(0.02)),
    (strategies.PCG(), terms.SquaredL2(0.5)),
]


@pytest.mark.parametrize(("strategy", "term"), ALL, ids=repr)
def test_single_precision(strategy, term):
    check_strategy(strategy, factorization("W", term, dtype=np.float32))


@pytest.mark.parametrize(("strategy", "term"), ALL, ids=repr)
def test_sparse_codes(strategy, term):
    check_strategy(strategy, factorization("W", term, kind=csr_array))


@pytest.mark.parametrize(("strategy", "term"), ALL, ids=repr)
@pytest.mark.parametrize("block", ["W", "D"])
def test_torch_blocks(strategy, term, block):
    torch = pytest.importorskip("torch")
    check_strategy(strategy, factorization(block, term, kind=torch.from_numpy))


@pytest.mark.parametrize(("strategy", "term"), ALL, ids=repr)
def test_array_api_blocks(strategy, term):
    strict = pytest.importorskip("array_api_strict")
    check_strategy(strategy, factorization("W", term, kind=strict.asarray))


@pytest.mark.parametrize(("strategy", "term"), ALL, ids=repr)
def test_a_block_that_the_coupling_does_not_see(strategy, term):
    sub = factorization("W", term)
    blind = type(sub).of(_problem(term), "W", {"W": sub.previous, "D": np.zeros((8, 6))}, eta=0.3)
    for proposal in islice(strategy(blind, blind.previous), 5):
        assert arrays.all_finite(proposal.u)


def _problem(term):
    import tecu

    Y = np.ones((8, 30))
    return tecu.Problem(tecu.couplings.MatrixFactorization(Y), {"W": term, "D": terms.Zero()})
