"""The check of a user's strategy finds out every kind of lie."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array
from subproblems import factorization, vector

from tecu import strategies, terms
from tecu.inexact import Numbers, estimate
from tecu.strategies import Candidate
from tecu.testing import check_strategy


def honest(sub, u):
    while True:
        u, _ = sub.prox_gradient_step(u)
        yield u


def claims(change):
    """Prox-gradient steps whose claims are changed."""

    def strategy(sub, u):
        for candidate in strategies.ProxGradient()(sub, u):
            yield change(candidate)

    return strategy


def wrong_gradient(c):
    return Candidate(c.u, 1.02 * c.gradient)


def wrong_error(c):
    return Candidate(c.u, c.gradient, c.prox_point, 0.5 * c.error, c.tau)


def wrong_prox_point(c):
    return Candidate(c.u, c.gradient, 0.99 * c.prox_point, c.error, c.tau)


def wrong_tau(c):
    return Candidate(c.u, c.gradient, c.prox_point, c.error, 2.0 * c.tau)


def no_tau(c):
    return Candidate(c.u, c.gradient, c.prox_point, c.error)


def error_alone(c):
    return Candidate(c.u, error=c.error)


def numbers(**changes):
    """Prox-gradient steps that claim the numbers only."""

    def strategy(sub, u):
        for c in strategies.ProxGradient()(sub, u):
            found = estimate(sub, c)
            true = Numbers(found.error_norm, found.error_along_move, found.rise[0])
            yield Candidate(c.u, prox_point=c.prox_point, tau=c.tau, numbers=replace(true, **changes))

    return strategy


def ends(sub, u):
    yield u


def in_place_input(sub, u):
    while True:
        u *= 0.9
        yield u.copy()


def in_place_output(sub, u):
    u = u.copy()
    while True:
        u[...] = sub.prox_gradient_step(u)[0]
        yield u


def in_place_memory(sub, u):
    sub.memory["average"] = np.zeros(u.shape)
    while True:
        u, _ = sub.prox_gradient_step(u)
        sub.memory["average"] += u
        yield u


def transposed(sub, u):
    sub.memory["matrix"] = csc_array(np.eye(2))
    yield from honest(sub, u)


def unsavable(sub, u):
    sub.memory["function"] = print
    yield from honest(sub, u)


def odd_key(sub, u):
    sub.memory["table"] = {1: 2.0}
    yield from honest(sub, u)


def random(sub, u):
    while True:
        yield sub.prox_gradient_step(u + 1e-3 * np.random.default_rng().standard_normal(u.shape))[0]


def stays(sub, u):
    while True:
        yield u


def goes_half_way(sub, u):
    while True:
        yield 0.9 * sub.prox_gradient_step(u)[0]


def wrong_shape(sub, u):
    while True:
        yield u[:-1]


def nothing(sub, u):
    while True:
        yield None


def wrong_precision(sub, u):
    while True:
        yield u.astype(np.float32)


def wrong_kind(sub, u):
    while True:
        yield csr_array(u)


def infinite(sub, u):
    while True:
        yield u * np.inf


def hidden_state():
    calls = [0]

    def strategy(sub, u):
        calls[0] += 1
        yield from honest(sub, u / calls[0])

    return strategy


def returns_a_list(sub, u):
    return [u]


returns_a_list.endless = True

LIES = [
    (claims(wrong_gradient), "claimed gradient"),
    (claims(wrong_error), "claimed error"),
    (claims(wrong_prox_point), "claimed prox_point"),
    (claims(wrong_tau), "claimed prox_point"),
    (claims(no_tau), "claims a prox_point without its tau"),
    (claims(error_alone), "claims an error without a prox_point"),
    (numbers(error_norm=1e-3), "claimed a wrong error"),
    (numbers(error_along_move=1e3), "claimed a wrong error"),
    (numbers(change=-1e3), "claimed a wrong change"),
    (ends, "this one ended: it made 1 of 6 proposals; set endless = False on the function"),
    (in_place_input, "was changed in place"),
    (in_place_output, r"u of proposal 1 was changed in place"),
    (in_place_memory, r"sub.memory\['average'\] was changed in place"),
    (transposed, r"sub.memory\['matrix'\] is a csc_array; a memory can keep sparse arrays as CSR only"),
    (unsavable, r"sub.memory\['function'\] is a builtin_function"),
    (odd_key, "keys must be strings"),
    (random, "differs between two runs from the same memory"),
    (hidden_state(), "differs between two runs from the same memory"),
    (stays, "the error does not tend to zero"),
    (goes_half_way, "the error does not tend to zero"),
    (wrong_shape, r"u has shape \(29, 6\), the block has \(30, 6\)"),
    (nothing, "proposal 1: u must be an array, got NoneType"),
    (lambda u: None, "proposal 1: u must be an array, got NoneType"),
    (wrong_precision, "u is float32, the block is float64"),
    (wrong_kind, "the block is a ndarray"),
    (infinite, "u has NaN or Inf"),
    (returns_a_list, "must return an iterator"),
]


@pytest.mark.parametrize(("strategy", "sentence"), LIES, ids=[sentence for _, sentence in LIES])
@pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")
def test_a_lie_is_found_out(strategy, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_strategy(strategy, factorization("W", terms.L1(0.1)))


def test_the_truth_is_not():
    for sub in (
        factorization("W", terms.L1(0.1)),
        factorization("W", terms.L0(0.02)),
        vector("logistic", terms.L1(0.1)),
    ):
        check_strategy(honest, sub)
        check_strategy(claims(lambda c: c), sub)
        check_strategy(numbers(), sub)
        check_strategy(claims(lambda c: Candidate(c.u, c.gradient)), sub)


def test_random_numbers_of_the_sub_problem_are_fine():
    def strategy(sub, u):
        yield u + 1e-3 * sub.rng.standard_normal(u.shape)
        yield from honest(sub, u)

    check_strategy(strategy, factorization("W", terms.L1(0.1)))


def test_a_function_that_destroys_nothing_is_fine_and_one_that_diverges_is_not():
    sub = factorization("W", terms.L1(0.1))
    check_strategy(lambda u: 0.0 * u, sub)
    with pytest.raises(AssertionError, match="has NaN or Inf"):
        check_strategy(lambda u: u * np.nan, sub)


def test_strategies_that_are_put_together():
    sub = factorization("W", terms.L1(0.1))
    check_strategy(strategies.steps(strategies.FISTA(), 3), sub)
    check_strategy(strategies.first_visit(lambda u: 0.5 * u), sub)


def test_the_proximal_weight_must_be_positive():
    with pytest.raises(ValueError, match="eta > 0"):
        check_strategy(honest, factorization("W", terms.L1(0.1), eta=0.0))
