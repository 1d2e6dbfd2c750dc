"""check_coupling finds what is wrong, and says what."""

import numpy as np
import pytest

from tecu import couplings, terms
from tecu.testing import check_coupling

Z = {"x": np.arange(1.0, 6.0), "y": np.array([[0.5, -1.0]])}


def quartic_and_square(**changes):
    """``sum x^4 / 4 + sum y^2``, right but for the changes."""
    parts = {
        "value": lambda z: float(np.sum(z["x"] ** 4) / 4 + np.sum(z["y"] ** 2)),
        "grads": {"x": lambda z: z["x"] ** 3, "y": lambda z: 2 * z["y"]},
        "lipschitz": {"y": 2.0},
        "hessian": {"y": lambda z, v: 2 * v},
        "minimize": {"y": lambda z, term, eta: term.prox(eta * z["y"] / (2 + eta), 1 / (2 + eta))},
    }
    for name, change in changes.items():
        parts[name] = {**parts[name], **change} if isinstance(change, dict) else change
    return couplings.Functions(**parts)


def first_entry_off(z):
    gradient = z["x"] ** 3
    gradient[0] *= 1.001
    return gradient


def spoil(z):
    z["x"][0] += 1e-9
    return z["x"] ** 3


FAULTS = {
    "a right one": ({}, None),
    "value is not a float": ({"value": lambda z: 1j}, TypeError),
    "gradient of the wrong sign": ({"grads": {"y": lambda z: -2 * z["y"]}}, "block 'y': the slope"),
    "gradient half as large": ({"grads": {"x": lambda z: z["x"] ** 3 / 2}}, "block 'x': the slope along the gradient"),
    "gradient off by 0.1 % in one small entry": ({"grads": {"x": first_entry_off}}, "block 'x': the slope"),
    "gradient of the wrong shape": (
        {"grads": {"y": lambda z: 2 * z["y"][0]}},
        r"has shape \(2,\), the block has \(1, 2\)",
    ),
    "no gradient": ({"grads": {"x": lambda z: None}}, "block 'x': the gradient must be an array, got NoneType"),
    "gradient in a list": ({"grads": {"x": lambda z: list(z["x"] ** 3)}}, "the gradient must be an array, got list"),
    "gradient of the wrong precision": (
        {"grads": {"x": lambda z: (z["x"] ** 3).astype(np.float32)}},
        "is float32, the block is",
    ),
    "hessian twice as large": ({"hessian": {"y": lambda z, v: 4 * v}}, r"hessian\(v\) is .* away from grad"),
    "hessian not symmetric": (
        {"hessian": {"y": lambda z, v: 2 * v + v[:, ::-1] * [1, -1]}},
        "hessian is not symmetric",
    ),
    "hessian of what is not quadratic": (
        {"hessian": {"x": lambda z, v: 3 * z["x"] ** 2 * v}},
        "answer None if H is not",
    ),
    "lipschitz too small": ({"lipschitz": {"y": 1.9}}, "lipschitz is 1.9, but two gradients differ by 2"),
    "lipschitz not finite": ({"lipschitz": {"y": np.inf}}, "must be finite"),
    "minimiser without the proximal term": (
        {"minimize": {"y": lambda z, t, e: t.prox(0 * z["y"], 0.5)}},
        "but another point has",
    ),
    "minimiser with the wrong step": (
        {"minimize": {"y": lambda z, t, e: t.prox(e * z["y"] / (2 + e), 1.0)}},
        "but another point has",
    ),
    "changes its argument": ({"grads": {"x": spoil}}, "was changed by the coupling"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_found(fault):
    changes, sentence = FAULTS[fault]
    z = {name: x.copy() for name, x in Z.items()}
    coupling = quartic_and_square(**changes)
    if sentence is None:
        check_coupling(coupling, z)
    elif sentence is TypeError:
        with pytest.raises(TypeError):
            check_coupling(coupling, z)
    else:
        with pytest.raises(AssertionError, match=sentence):
            check_coupling(coupling, z)


def test_a_restriction_that_does_not_agree_is_found():
    class Stale(couplings.Difference):
        def restrict(self, block, z):
            restricted = super().restrict(block, z)
            first = []
            honest = restricted.grad

            def grad(u):
                first.append(honest(u))
                return first[0]

            restricted.grad = grad
            return restricted

        def grad(self, block, z):
            return super().restrict(block, z).grad(z[block])

    with pytest.raises(AssertionError, match=r"the gradient from restrict\(...\).grad is"):
        check_coupling(Stale("x", "v"), {"x": np.ones(3), "v": np.zeros(3)})


def test_a_value_that_is_an_array_is_found():
    class Loose(couplings.Difference):
        def value(self, z):
            return np.asarray(super().value(z))

    with pytest.raises(AssertionError, match="must be a Python float, got ndarray"):
        check_coupling(Loose("x", "v"), {"x": np.ones(3), "v": np.zeros(3)})


def test_a_missing_block_is_named():
    with pytest.raises(AssertionError, match="block 'v', but z has only"):
        check_coupling(couplings.Functions(lambda z: 0.0, {"v": lambda z: 0.0}), {"x": np.ones(3)})


def test_own_terms_can_be_given():
    wrong = quartic_and_square(minimize={"y": lambda z, term, eta: term.prox(z["y"], 1.0)})
    with pytest.raises(AssertionError, match="but another point has"):
        check_coupling(wrong, Z, terms=[terms.Box(-3.0, 3.0)])
    check_coupling(wrong, Z, terms=[])
