"""A strategy of somebody else may write into everything it is given: no array of the engine's own is changed."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

import tecu
from tecu import arrays, couplings, stop, strategies, terms


def writes_into_gradients(sub, u):
    step, first = sub.lipschitz(), sub.grad(sub.previous)
    first /= step
    u = sub.prox(sub.previous - first, 1 / step)
    while True:
        yield u
        gradient = sub.grad(u)
        gradient /= step
        u = sub.prox(u - gradient, 1 / step)


def writes_into_its_start(sub, u):
    step = sub.lipschitz()
    while True:
        gradient = sub.grad(u)
        u -= gradient / step
        u[:] = sub.prox(u, 1 / step)
        yield u


def writes_into_the_first_gradient_of_all(sub, u):
    _, gradient = sub.coupling_at_previous()
    gradient *= 0.0
    yield from writes_into_its_start(sub, u)


def destroys_where_it_comes_from(sub, u):
    previous = sub.previous
    previous += 1.0
    for candidate in strategies.FISTA()(sub, u):
        yield candidate.u  # and no claims, which would be false


KINDS = {"numpy": np.asarray, "torch": torch.asarray}


def result_of(strategy, kind):
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(12, 20))
    problem = tecu.Problem(
        couplings.MatrixFactorization(kind(Y)), {"W": terms.L1(0.1), "D": terms.UnitColumns(ball=True)}
    )
    start = problem.project({"W": kind(np.zeros((20, 6))), "D": kind(rng.normal(size=(12, 6)))})
    return tecu.Solver(problem, tecu.Embed(strategy)).run(start, stop=stop.MaxIter(25))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "strategy", [writes_into_gradients, writes_into_its_start, writes_into_the_first_gradient_of_all]
)
def test_the_run_is_that_of_a_strategy_that_writes_nowhere(strategy, kind):
    found, own = result_of(strategy, KINDS[kind]), result_of(strategies.ProxGradient(), np.asarray)
    assert found.certificate.holds_from == 0, found.certificate.reason
    assert found.value == pytest.approx(own.value, rel=1e-6)


def test_a_strategy_that_destroys_where_it_comes_from_destroys_a_copy():
    found = result_of(destroys_where_it_comes_from, np.asarray)
    assert found.certificate.holds
    assert np.all(np.diff(found.history["value"]) <= 1e-9)


def test_sparse_blocks_are_lent_too():
    def own_steps(sub, u):
        while True:
            step = sub.lipschitz()
            u = sub.prox(csr_array(u - sub.grad(u) / step), 1 / step)
            yield u

    rng = np.random.default_rng(0)
    problem = tecu.Problem(
        couplings.MatrixFactorization(rng.normal(size=(12, 20))), {"W": terms.L1(0.1), "D": terms.UnitColumns()}
    )
    dense = problem.project({"W": np.zeros((20, 6)), "D": rng.normal(size=(12, 6))})
    updates = {"W": tecu.Embed(own_steps), "D": tecu.ProxLinear()}
    found, other = (
        tecu.Solver(
            problem, updates if kind is csr_array else {**updates, "W": tecu.Embed(strategies.ProxGradient())}
        ).run({**dense, "W": kind(dense["W"])}, stop=stop.MaxIter(15))
        for kind in (csr_array, np.asarray)
    )
    assert found.certificate.holds
    np.testing.assert_allclose(arrays.dense(found.z["W"]), other.z["W"], atol=1e-9)


@pytest.mark.parametrize("kind", [np.asarray, csr_array, torch.asarray])
def test_copies_are_equal_until_they_are_changed(kind):
    x = kind(np.eye(3))
    y = arrays.copy(x)
    assert arrays.equal(x, x)
    assert arrays.equal(x, y)
    y[1, 1] = 2.0
    assert not arrays.equal(x, y)
