"""Mistakes in parts of one's own are answered in a sentence: which block, what was given, what is allowed."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms


class Square:
    """``||x||^2``."""

    blocks = ("x",)

    def value(self, z):
        return float(np.sum(z["x"] ** 2))

    def grad(self, block, z):
        return 2 * z["x"]


class Free:
    """No term at all."""

    is_convex = True

    def value(self, x):
        return 0.0

    def prox(self, x, step):
        return x


def with_own(base, **own):
    return type(f"Own{base.__name__}", (base,), own)()


def run(coupling=None, term=None, update=None, **settings):
    problem = tecu.Problem(coupling or Square(), {"x": term or Free()})
    start = {"x": np.array([1.0, -2.0, 3.0])}
    return tecu.Solver(problem, update or tecu.ProxLinear()).run(start, stop=stop.MaxIter(20), **settings)


def returns_at_once(sub, u):
    return 0.5 * u


MISTAKES = {
    "a class as term": (lambda: run(term=terms.Zero), "block 'x': term must be an instance, got the class Zero"),
    "a class as coupling": (lambda: run(Square), "coupling must be an instance, got the class Square"),
    "is_convex as a method": (
        lambda: run(term=with_own(Free, is_convex=lambda self: False)),
        "block 'x': is_convex of term .* must be True or False, got a method",
    ),
    "a value that is an array": (
        lambda: run(with_own(Square, value=lambda self, z: z["x"] ** 2)),
        r"the coupling's value must be a number, got an array of shape \(3,\)",
    ),
    "no value": (lambda: run(with_own(Square, value=lambda self, z: None)), "must be a number, got NoneType"),
    "a term's value that is an array": (
        lambda: run(term=with_own(Free, value=lambda self, x: abs(x))),
        r"block 'x': the value of .* must be a number, got an array of shape \(3,\)",
    ),
    "a constant as an attribute": (
        lambda: run(with_own(Square, lipschitz=2.0)),
        r"lipschitz must be a method, lipschitz\(block, z\), got float",
    ),
    "a matrix as hessian": (
        lambda: run(with_own(Square, hessian=2 * np.eye(3))),
        r"hessian must be a method, hessian\(block, z, v\), got ndarray",
    ),
    "several constants": (
        lambda: run(with_own(Square, lipschitz=lambda self, block, z: np.array([2.0, 2.0]))),
        "block 'x': the coupling's lipschitz must return a number or None",
    ),
    "a strategy that returns": (
        lambda: run(update=tecu.Embed(returns_at_once)),
        "block 'x': the strategy returns_at_once must yield its proposals, it returned a ndarray",
    ),
    "a complex proposal": (
        lambda: run(update=tecu.Embed(np.fft.fft, strategies.FISTA())),
        "block 'x': the strategy proposed complex numbers",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_answered_in_a_sentence(name):
    mistake, sentence = MISTAKES[name]
    with pytest.raises(TypeError, match=sentence):
        mistake()


def test_a_strategy_may_still_return_a_list_of_proposals():
    assert run(update=tecu.Embed(lambda sub, u: [0.5 * u, 0.1 * u])).certificate.holds


@pytest.mark.parametrize("coupling", [Square(), couplings.Linear(np.eye(3), np.ones(3))], ids=["own", "ours"])
def test_a_callback_that_writes_into_the_blocks_is_told_so(coupling):
    """Not that the gradient or the prox is wrong, which they are not."""

    def write(state):
        state.z["x"][:] = 1.5

    certificate = run(coupling, callbacks=[write]).certificate
    assert not certificate.holds
    assert "or the blocks of a state were" in certificate.reason
    assert not re.search("gradient|prox", certificate.reason)


def test_a_prox_that_leaves_its_set_is_told_so_and_no_resuming_is_spoken_of():
    box = with_own(
        Free,
        value=lambda self, x: 0.0 if np.all(np.abs(x) <= 1) else np.inf,
        prox=lambda self, x, step: np.clip(x, -1.5, 1.5),
    )
    problem = tecu.Problem(couplings.Linear(np.eye(3), np.full(3, 9.0)), {"x": box})
    certificate = tecu.Solver(problem, tecu.ProxLinear()).run({"x": np.zeros(3)}).certificate
    assert "a prox has to lead into the domain of its term" in certificate.reason
    assert "resumed" not in certificate.summary()
