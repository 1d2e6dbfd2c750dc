"""``check_term`` passes what is right (see the other files) and finds out what is wrong, in a sentence."""

import numpy as np
import pytest

from tecu import terms as t
from tecu.testing import check_term

X = np.random.default_rng(0).standard_normal((4, 3))


class Wrong(t.L1):
    """L1 with one part replaced by a wrong one."""

    def __init__(self, **parts):
        super().__init__(0.5)
        self.__dict__.update(parts)


def right(x, step):
    return t.L1(0.5).prox(x, step)


def mutating(x, step):
    x *= 0.5
    return right(x, step)


class Answers:
    """A prox that answers differently every time."""

    calls = 0

    def __call__(self, x, step):
        self.calls += 1
        return right(x, step) + 1e-3 * self.calls


CASES = {
    "threshold too small": (Wrong(prox=lambda x, step: right(x, 0.5 * step)), "not a global minimiser"),
    "threshold too large": (Wrong(prox=lambda x, step: right(x, 1.1 * step)), "not a global minimiser"),
    "step ignored": (Wrong(prox=lambda x, step: right(x, 1.0)), "moves the feasible z"),
    "identity": (Wrong(prox=lambda x, step: x.copy()), "not a global minimiser"),
    "input returned": (Wrong(prox=lambda x, step: x), "must return a new array"),
    "view returned": (Wrong(prox=lambda x, step: x[:]), "shares memory with its input"),
    "input changed": (Wrong(prox=mutating), "changed its input"),
    "wider": (Wrong(prox=lambda x, step: right(x, step).astype(np.longdouble)), "must keep the precision"),
    "flat": (Wrong(prox=lambda x, step: right(x, step).ravel()), "must keep the shape (4, 3), got (12,)"),
    "list": (Wrong(prox=lambda x, step: right(x, step).tolist()), "must keep the shape"),
    "nan": (Wrong(prox=lambda x, step: right(x, step) * np.nan), "returned NaN or infinity"),
    "random": (Wrong(prox=Answers()), "two different answers"),
    "value too small": (Wrong(value=lambda x: 0.25 * float(np.abs(x).sum())), "not a global minimiser"),
    "value without weight": (Wrong(value=lambda x: float(np.abs(x).sum())), "not a global minimiser"),
    "value an array": (Wrong(value=lambda x: np.abs(x)), "must return a float"),
    "value NaN": (Wrong(value=lambda x: float("nan")), "returned NaN"),
    "distance always large": (Wrong(subdiff_distance=lambda x, g: 1.0), "must be 0 for p = prox"),
    "distance always 0": (Wrong(subdiff_distance=lambda x, g: 0.0), "says that g is a subgradient"),
    "distance too steep": (
        Wrong(subdiff_distance=lambda x, g: 3 * t.L1(0.5).subdiff_distance(x, g)),
        "a distance cannot",
    ),
    "distance infinite": (Wrong(subdiff_distance=lambda x, g: float("inf")), "must be a finite number >= 0"),
}


@pytest.mark.parametrize("name", CASES)
def test_finds_a_wrong_l1(name):
    term, sentence = CASES[name]
    with pytest.raises(AssertionError) as caught:
        check_term(term, X)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("Wrong")


class HardWithPlainThreshold(t.L0):
    """The frequent slip: threshold ``weight step`` instead of ``sqrt(2 weight step)``."""

    def prox(self, x, step):
        return np.where(np.abs(x) > self.weight * step, x, 0.0)


class FarSideOfTheSphere(t.UnitColumns):
    """A stationary point that is the worst of all."""

    def prox(self, x, step):
        return -super().prox(x, step)


class NormaliseAll(t.UnitColumns):
    """A sphere's projection under a ball's name."""

    def prox(self, x, step):
        return x / np.linalg.norm(x, axis=0)


class FirstEntries(t.KSparse):
    """Sparse, but not the nearest."""

    def prox(self, x, step):
        return np.where(np.arange(x.shape[1]) < self.k, x, 0.0)


class ClipThenScale(t.Simplex):
    """In the simplex, but not the nearest point."""

    def prox(self, x, step):
        z = np.maximum(x, 0) + 1e-9
        return z / z.sum(axis=0)


class GramSchmidt(t.Stiefel):
    """Orthonormal, but not the nearest."""

    def prox(self, x, step):
        return np.linalg.qr(x)[0]


class ConvexSphere(t.UnitColumns):
    """A sphere that takes itself for convex."""

    is_convex = True


class KeepsSign(t.Sum):
    """L0 on the non-negative numbers that forgets the constraint."""

    def prox(self, x, step):
        return t.L0(0.2).prox(x, step)


@pytest.mark.parametrize(
    ("term", "sentence"),
    [
        (HardWithPlainThreshold(0.4), "not a global minimiser"),
        (FarSideOfTheSphere(), "not a global minimiser"),
        (NormaliseAll(ball=True), "not a global minimiser"),
        (FirstEntries(1), "not a global minimiser"),
        (ClipThenScale(), "not a global minimiser"),
        (GramSchmidt(), "not a global minimiser"),
        (KeepsSign(t.L0(0.2), t.NonNegative()), "outside the domain"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_finds_wrong_minimisers(term, sentence):
    with pytest.raises(AssertionError, match=sentence):
        check_term(term, X)


@pytest.mark.parametrize(
    "term", [Wrong(prox=t.L0(0.4).prox, value=t.L0(0.4).value, subdiff_distance=None), ConvexSphere()]
)
def test_finds_a_false_claim_of_convexity(term):
    with pytest.raises(AssertionError, match="calls itself convex, but"):
        check_term(term, X)


def test_finds_missing_parts():
    with pytest.raises(AssertionError, match=r"must have value\(x\), prox\(x, step\) and is_convex"):
        check_term(object(), X)
    with pytest.raises(AssertionError, match="is_convex must be True or False"):
        check_term(Wrong(is_convex="yes"), X)


def test_finds_a_value_that_changes_its_input():
    def value(x):
        total = 0.5 * float(np.abs(x).sum())
        x += 1.0
        return total

    with pytest.raises(AssertionError, match="value changed its input"):
        check_term(Wrong(value=value), X)


@pytest.mark.parametrize("seed", range(3))
def test_its_verdict_does_not_depend_on_the_seed(seed):
    check_term(t.L0(0.3) + t.NonNegative(), X, seed=seed, trials=3)
    with pytest.raises(AssertionError):
        check_term(HardWithPlainThreshold(0.4), X, seed=seed)


def test_leaves_x_alone():
    x = X.copy()
    check_term(t.L1(0.5), x, trials=1)
    np.testing.assert_array_equal(x, X)
