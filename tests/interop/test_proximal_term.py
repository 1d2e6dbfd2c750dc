"""PyProximal's operators as terms."""

import numpy as np
import pyproximal
import pytest
import torch
from scipy.sparse import csr_array

import tecu
from tecu import arrays, couplings, interop, stop, terms
from tecu.testing import check_term

X = np.random.default_rng(3).standard_normal((4, 3))

OPERATORS = {
    "l1": pyproximal.L1(sigma=0.3),
    "l2": pyproximal.L2(sigma=0.7),
    "euclidean": pyproximal.Euclidean(sigma=0.8),
    "group": pyproximal.L21(ndim=4, sigma=0.4),
    "huber": pyproximal.HuberCircular(alpha=0.5),
    "box": pyproximal.Box(-0.4, 0.6),
    "ball": pyproximal.EuclideanBall(np.full(12, 0.1), 0.9),
    "half-space": pyproximal.HalfSpace(np.ones(12), 0.2),
    "l0 ball": pyproximal.L0Ball(3),
    "nuclear": pyproximal.Nuclear((4, 3), sigma=0.5),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_keep_the_promises_of_a_term(name):
    check_term(interop.term(OPERATORS[name]), X)


@pytest.mark.parametrize("name", ["l1", "box", "ball"])
@pytest.mark.parametrize(
    "block",
    [X, X.astype(np.float32), torch.tensor(X), csr_array(X * (X > 0))],
    ids=["float64", "float32", "torch", "csr"],
)
def test_every_kind_of_block_keeps_its_kind_and_precision(name, block):
    term = interop.term(OPERATORS[name])
    answer = term.prox(block, 0.5)
    assert type(answer) is type(block)
    assert answer.dtype == block.dtype
    assert term.value(answer) < np.inf
    expected = OPERATORS[name].prox(arrays.host(arrays.dense(block)).ravel().astype(float), 0.5)
    np.testing.assert_allclose(arrays.host(arrays.dense(answer)).ravel(), expected, rtol=1e-5, atol=1e-6)


def test_a_set_admits_its_own_projection_despite_rounding():
    ball = interop.term(OPERATORS["ball"])
    for seed in range(50):
        point = ball.prox(np.random.default_rng(seed).standard_normal((4, 3)) * 10.0, 1.0)
        assert ball.value(point) == 0.0
    assert ball.value(point * 1.001) == np.inf


def test_a_foreign_term_gives_the_run_of_our_own():
    rng = np.random.default_rng(0)
    Y = rng.random((6, 2)) @ rng.random((2, 8))
    start = {"W": np.ones((8, 2)), "D": rng.random((6, 2))}
    values = []
    for box in (terms.NonNegative(), interop.term(pyproximal.Box(0.0, np.inf))):
        problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": box, "D": box})
        result = tecu.Solver(problem, tecu.ProxLinear()).run(start, stop=stop.MaxIter(30))
        assert result.certificate.holds
        values.append(result.history["value"])
    np.testing.assert_allclose(*values, rtol=1e-12)


def test_a_prox_that_does_not_belong_to_the_value_is_found_out():
    # PyProximal's L0 cuts at step * sigma, not at sqrt(2 step sigma), and leaves sigma out of its value.
    for value in (None, lambda x: 0.05 * np.count_nonzero(x)):
        with pytest.raises(AssertionError, match="not a global minimiser"):
            check_term(interop.term(pyproximal.L0(sigma=0.05), value=value), X)


def test_a_prox_without_a_value_is_refused_in_a_sentence():
    class Shrink(pyproximal.ProxOperator):
        def prox(self, x, tau):
            return x / (1 + tau)

    with pytest.raises(TypeError, match=r"Shrink has a prox but no value.*value=lambda"):
        interop.term(Shrink(), is_convex=True)
    check_term(interop.term(Shrink(), is_convex=True, value=lambda x: 0.5 * float(x @ x)), X)


def test_convexity_must_be_known_or_told():
    class Own(pyproximal.L1):
        pass

    with pytest.raises(ValueError, match=r"whether Own is convex is not known here; say is_convex"):
        interop.term(Own())
    assert interop.term(Own(), is_convex=True).is_convex
    assert not interop.term(pyproximal.SCAD(1.0)).is_convex


def test_what_has_no_prox_is_refused():
    with pytest.raises(TypeError, match=r"has no prox\(x, tau\)"):
        interop.term(abs)


def test_the_certificate_says_what_it_could_not_check():
    tv = interop.term(pyproximal.TV((8,), sigma=0.1, niter=300))
    problem = tecu.Problem(couplings.Linear(np.eye(8), np.arange(8.0)), {"x": tv})
    result = tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.zeros(8)}, stop=stop.MaxIter(5))
    assert any("block 'x': the prox of TV is computed by inner iterations" in a for a in result.certificate.assumptions)


def test_a_prox_of_the_wrong_size_is_refused():
    class Short:
        def __call__(self, x):
            return 0.0

        def prox(self, x, tau):
            return x[:2]

    with pytest.raises(ValueError, match=r"must give 12 real numbers, got shape \(2,\)"):
        interop.term(Short(), is_convex=True).prox(X, 1.0)
