"""What a term does to one entry is believed only if the class that wrote its value and prox says so.

A term that inherits the saying and writes another prox must be treated as its twin that inherits nothing.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.lowlight.classical.projected_cg import _bounds
from tecu.protocols import entrywise_of, treats_entries_alike
from tecu.terms.base import Entrywise

RNG = np.random.default_rng(0)
WEIGHTS = RNG.uniform(0.1, 2.0, size=(6, 4))


class Weighted:
    """``sum weights |x|``."""

    is_convex = True

    def value(self, x):
        return float(np.sum(WEIGHTS * np.abs(x)))

    def prox(self, x, step):
        return np.sign(x) * np.maximum(np.abs(x) - step * WEIGHTS, 0.0)


class Ridge:
    """``1/2 sum weights x^2``."""

    is_convex = True

    def value(self, x):
        return 0.5 * float(np.sum(WEIGHTS * x * x))

    def prox(self, x, step):
        return x / (1.0 + step * WEIGHTS)


class Counted:
    """``sum weights [x != 0]``."""

    is_convex = False

    def value(self, x):
        return float(np.sum(WEIGHTS * (x != 0)))

    def prox(self, x, step):
        return np.where(x * x > 2.0 * step * WEIGHTS, x, 0.0)


class WeightedL1(Weighted, terms.L1):
    pass


class WeightedSquare(Ridge, terms.SquaredL2):
    pass


class WeightedL0(Counted, terms.L0):
    pass


class Wider(terms.Box):
    def prox(self, x, step):
        return np.clip(x, self.lower - 1.0, self.upper + 1.0)


class OnlyItsValue(terms.L1):
    def value(self, x):
        return 2.0 * super().value(x)


TWINS = [(WeightedL1(1.0), Weighted()), (WeightedSquare(1.0), Ridge()), (WeightedL0(1.0), Counted())]
twins = pytest.mark.parametrize(("heir", "twin"), TWINS, ids=["L1", "SquaredL2", "L0"])


class Remembering(terms.L1):
    @cached_property
    def entrywise(self):
        return Entrywise(l1=self.weight)


class Forgetting(Remembering):
    prox = Weighted.prox


class SaidByInstance(Weighted):
    def __init__(self):
        self.entrywise = Entrywise(l1=1.0)


def test_who_is_believed():
    bounds = terms.Box(np.zeros(3), np.ones(3))
    for term in (
        terms.L1(0.1),
        terms.NonNegative(),
        bounds,
        terms.L0(1.0) + bounds,
        Remembering(0.1),
        SaidByInstance(),
    ):
        assert entrywise_of(term) is not None
    assert not treats_entries_alike(bounds)
    forgetting = Forgetting(0.1)
    assert forgetting.entrywise is not None  # and now it is among the instance's own attributes
    others = [heir for heir, _ in TWINS] + [forgetting, Wider(0.0, 1.0), OnlyItsValue(1.0), terms.UnitColumns()]
    assert all(entrywise_of(term) is None for term in others)


def answer_of(function):
    """What a function returns, or the sentence with which it refuses."""
    try:
        return function()
    except (TypeError, ValueError) as error:
        return type(error)


def same(one, other):
    assert type(one) is type(other)
    if one is not None and not isinstance(one, type):
        np.testing.assert_allclose(one, other, rtol=1e-12)


@twins
@pytest.mark.parametrize("more", [terms.SquaredL2(0.7), terms.NonNegative(), terms.L1(0.3), terms.Box(-1.0, 1.0)])
def test_sums(heir, twin, more):
    x = RNG.normal(size=WEIGHTS.shape) * 3
    same(*(answer_of(lambda term=term: terms.Sum(term, more).prox(x, 0.5)) for term in (heir, twin)))


@twins
def test_a_sum_with_a_square_minimises(heir, twin):
    x, step = RNG.normal(size=WEIGHTS.shape) * 3, 0.5
    total = terms.Sum(heir, terms.SquaredL2(0.7))
    point = total.prox(x, step)

    def energy(z):
        return total.value(z) + np.sum((z - x) ** 2) / (2 * step)

    for z in (0 * point, *(point + size * RNG.normal(size=x.shape) for size in (1e-3, 1e-1, 1.0))):
        assert energy(point) <= energy(z) + 1e-12


class DoubledGroups(terms.GroupL21):
    def value(self, x):
        return 2.0 * super().value(x)

    def prox(self, x, step):
        return super().prox(x, 2.0 * step)


class FewerEntries(terms.KSparse):
    prox = terms.NonNegative.prox


class Upwards(terms.UnitColumns):
    def prox(self, x, step):
        return super().prox(np.abs(x), step)


class Shifted(terms.Sum):
    def value(self, x):
        return 1.0 + super().value(x)


@pytest.mark.parametrize(
    "term",
    [DoubledGroups(1.0), FewerEntries(2), Upwards(), Shifted(terms.L1(1.0))],
    ids=lambda term: type(term).__name__,
)
def test_no_rule_is_taken_for_a_term_that_writes_its_own(term):
    # With the rule of the class that it inherits from, the sum would forget what was written.
    with pytest.raises(ValueError, match="no closed-form prox"):
        terms.Sum(term, terms.L1(1.0))
    x = RNG.normal(size=WEIGHTS.shape)
    np.testing.assert_allclose(terms.Sum(term, terms.SquaredL2(1.0)).prox(x, 1.0), term.prox(x / 2, 0.5))


@pytest.mark.parametrize("term", [WeightedL0(1.0), FewerEntries(2, axis=1)], ids=["L0", "KSparse"])
def test_matching_pursuit_wants_the_terms_it_knows(term):
    problem, z = factorisation(term)
    sub = tecu.SubProblem.of(problem, "W", z, 0.5)
    with pytest.raises(ValueError, match=r"needs terms\.L0 or terms\.KSparse"):
        next(strategies.OrthogonalMatchingPursuit()(sub, sub.previous))


def subs(term):
    """One sub-problem of each kind: the second derivative a number, an array, a Gram matrix."""
    x, dark = RNG.normal(size=WEIGHTS.shape), RNG.uniform(0.1, 0.4, size=WEIGHTS.shape)
    difference = tecu.Problem(couplings.Difference("x", "v"), {"x": term, "v": terms.Zero()})
    retinex = tecu.Problem(couplings.Retinex(dark), {"R": term, "I": terms.Box(dark, 1.0)})
    linear = tecu.Problem(couplings.Linear(np.diag(np.arange(1.0, 25.0)), x), {"x": term})
    yield difference, "x", {"x": x, "v": -x}
    yield retinex, "R", {"R": x, "I": np.maximum(dark, 0.5)}
    yield linear, "x", {"x": x}


@twins
def test_exact_minimisers(heir, twin):
    state = RNG.bit_generator.state
    answers = []
    for term in (heir, twin):
        RNG.bit_generator.state = state
        answers.append([tecu.SubProblem.of(*sub).smooth.minimize(term, 0.5) for sub in subs(term)])
    for one, other in zip(*answers, strict=True):
        same(one, other)


def factorisation(term):
    rng = np.random.default_rng(1)
    problem = tecu.Problem(
        couplings.MatrixFactorization(rng.normal(size=(5, 6))), {"W": term, "D": terms.UnitColumns()}
    )
    return problem, {"W": rng.normal(size=WEIGHTS.shape), "D": np.eye(5)[:, :4]}


@twins
def test_coordinate_descent(heir, twin):
    def after_three(term):
        problem, z = factorisation(term)
        sub = tecu.SubProblem.of(problem, "W", z, 0.5)
        return next(islice(strategies.CoordinateDescent()(sub, sub.previous), 2, None)).u

    one, other = (answer_of(lambda term=term: after_three(term)) for term in (heir, twin))
    same(one, other)
    assert one is ValueError  # the weights of a column are not known to the prox of a column


def test_hard_thresholding_takes_the_prox_that_was_written():
    problem, z = factorisation(WeightedL0(1.0))
    sub = tecu.SubProblem.of(problem, "W", z, 0.5)
    u, tau = sub.previous, sub.lipschitz()
    for candidate in islice(strategies.HardThresholding()(sub, u), 5):
        u = Counted().prox(u - sub.grad(u) / tau, 1.0 / tau)
        np.testing.assert_allclose(candidate.prox_point, u, atol=1e-12)
    with pytest.raises(ValueError, match="counts non-zeros"):
        next(strategies.HardThresholding()(tecu.SubProblem.of(factorisation(Spread(1.0))[0], "W", z, 0.5), u))


class Spread(terms.Sum):
    """Says what it inherits, that it counts non-zeros, and counts none."""

    def __init__(self, weight):
        super().__init__(terms.L0(weight))
        object.__setattr__(self, "parts", (terms.Zero(),))

    value, prox = Weighted.value, Weighted.prox


@twins
def test_whole_runs(heir, twin):
    ends = []
    for term in (heir, twin):
        problem, z = factorisation(term)
        ends.append(tecu.methods.palm(problem).run(z, stop=stop.MaxIter(20)).value)
    assert ends[0] == pytest.approx(ends[1], rel=1e-12)


def test_projected_cg_takes_boxes_that_are_boxes():
    assert _bounds(terms.Box(0.0, 1.0)) == (0.0, 1.0)
    with pytest.raises(TypeError, match="takes a box"):
        _bounds(Wider(0.0, 1.0))
