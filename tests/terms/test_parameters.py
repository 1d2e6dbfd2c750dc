"""Wrong parameters and blocks are refused in a sentence that names the term, the argument and what was given."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from tecu import terms as t

BAD_WEIGHTS = [-1.0, math.nan, math.inf, "1", None, True, np.ones(2)]


@pytest.mark.parametrize("kind", [t.L0, t.L1, t.SquaredL2, t.GroupL21, t.NuclearNorm])
@pytest.mark.parametrize("weight", BAD_WEIGHTS, ids=str)
def test_weight(kind, weight):
    with pytest.raises(ValueError, match=rf"^{kind.__name__}: weight must be a finite number >= 0, got "):
        kind(weight)


@pytest.mark.parametrize("kind", [t.L0, t.L1, t.SquaredL2, t.GroupL21, t.NuclearNorm])
def test_numpy_numbers_are_numbers(kind):
    assert kind(np.float32(0.5)) == kind(0.5)
    assert isinstance(kind(np.int64(1)).weight, float)


CASES = {
    "bound": (lambda: t.BoundedL0(1.0, 0.0), ValueError, "BoundedL0: bound must be a finite number > 0, got 0.0"),
    "total": (lambda: t.Simplex(total=-1), ValueError, "Simplex: total must be a finite number > 0, got -1"),
    "axis": (lambda: t.Simplex(axis="rows"), TypeError, "Simplex: axis must be a whole number such as 0 or 1"),
    "group-axis": (lambda: t.GroupL21(1.0, axis=0.5), TypeError, "GroupL21: axis must be a whole number"),
    "k": (lambda: t.KSparse(0), ValueError, "KSparse: k must be a whole number >= 1, got 0"),
    "k-float": (lambda: t.KSparse(2.5), ValueError, "KSparse: k must be a whole number >= 1, got 2.5"),
    "rank": (lambda: t.Rank(-1), ValueError, "Rank: r must be a whole number >= 1, got -1"),
    "ball": (lambda: t.UnitColumns(ball="yes"), TypeError, "UnitColumns: ball must be True or False, got 'yes'"),
    "box-crossed": (lambda: t.Box(1.0, 0.0), ValueError, "Box: lower must not exceed upper"),
    "box-crossed-array": (lambda: t.Box(np.array([0, 2]), 1.0), ValueError, "in at least one entry"),
    "box-nan": (lambda: t.Box(math.nan, 0.0), ValueError, "Box: lower must not contain NaN or inf"),
    "box-empty": (lambda: t.Box(0.0, -math.inf), ValueError, "Box: upper must not contain NaN or -inf"),
    "box-shapes": (lambda: t.Box(np.zeros(2), np.ones(3)), ValueError, "lower has shape (2,) and upper (3,)"),
    "box-text": (lambda: t.Box("low", 1.0), TypeError, "Box: lower must be a number or an array, got 'low'"),
    "box-complex": (lambda: t.Box(1j, 1.0), TypeError, "Box: lower must be a number or an array, got 1j"),
    "box-sparse": (lambda: t.Box(csr_array(np.eye(2)), 2.0), TypeError, "Box: lower must be a number or a dense"),
    "fit": (lambda: t.Box(np.zeros(3), 1.0).prox(np.ones((2, 2)), 1.0), ValueError, "do not fit a block of shape"),
    "grow": (lambda: t.Box(np.zeros((2, 2)), 1.0).prox(np.ones(2), 1.0), ValueError, "do not fit a block of shape"),
    "vector": (lambda: t.Rank(1).prox(np.ones(3), 1.0), ValueError, "Rank: the block must be a matrix, got an array"),
    "rows": (lambda: t.UnitRows().prox(np.ones(3), 1.0), ValueError, "UnitRows: the block must be a matrix"),
    "wide": (lambda: t.Stiefel().prox(np.ones((2, 3)), 1.0), ValueError, "Stiefel: a block of shape (2, 3) has more"),
    "no-axis": (lambda: t.KSparse(1).prox(np.ones(3), 1.0), ValueError, "KSparse: axis 1 does not exist in a block"),
    "sum-nothing": (lambda: t.Sum(), ValueError, "Sum: give at least one term"),
    "sum-no-term": (lambda: t.L1(1.0) + 3, TypeError, "Sum: 3 is not a term"),
    "sum-empty": (lambda: t.NonNegative() + t.Box(-2, -1), ValueError, "their intersection is empty"),
    "sum-shapes": (
        lambda: t.Box(np.zeros(2), 1.0) + t.Box(np.zeros(3), 1.0),
        ValueError,
        "shapes that do not fit each other",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_refused_in_a_sentence(name):
    call, error, sentence = CASES[name]
    with pytest.raises(error) as caught:
        call()
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (t.L1(1.0), t.Rank(1)),
        (t.L0(1.0), t.UnitColumns()),
        (t.Box(-1.0, 0.5), t.UnitColumns()),
        (t.NonNegative(), t.Stiefel()),
        (t.NonNegative(), t.NuclearNorm(1.0)),
        (t.Simplex(), t.UnitColumns()),
        (t.KSparse(1), t.Box(1.0, 2.0)),
        (t.KSparse(1), t.Simplex()),
        (t.GroupL21(1.0), t.L0(1.0)),
    ],
    ids=lambda term: type(term).__name__,
)
def test_sums_without_a_closed_form(first, second):
    for call in (lambda: first + second, lambda: t.Sum(second, first)):
        with pytest.raises(ValueError, match="has no closed-form prox here; give one of them a block of its own"):
            call()


SOME = [
    *(t.Zero(), t.L0(1.0), t.L1(1.0), t.SquaredL2(1.0), t.NonNegative(), t.Box(0, 1), t.UnitColumns()),
    *(t.Simplex(), t.Rank(1), t.NuclearNorm(1.0), t.Stiefel(), t.KSparse(1), t.GroupL21(1.0)),
    *(t.BoundedL0(1.0, 1.0), t.L1(1.0) + t.NonNegative()),
]


@pytest.mark.parametrize("step", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize(
    "term",
    SOME,
    ids=lambda value: type(value).__name__,
)
def test_step(term, step):
    with pytest.raises(ValueError, match=f"^{type(term).__name__}: the prox needs a finite step > 0, got "):
        term.prox(np.ones((2, 2)), step)


def test_sums_flatten_and_know_their_parts():
    term = t.L1(1.0) + (t.NonNegative() + t.SquaredL2(2.0))
    assert term.parts == (t.L1(1.0), t.NonNegative(), t.SquaredL2(2.0))
    assert term == t.Sum(t.L1(1.0), t.NonNegative(), t.SquaredL2(2.0))
    assert term.is_convex
    assert not (term + t.L0(1.0)).is_convex
    assert repr(t.L1(1.0) + t.NonNegative()) == "Sum(parts=(L1(weight=1.0), NonNegative()))"


def test_bounds_cannot_be_changed_from_outside():
    upper = np.ones(3)
    box = t.Box(0.0, upper)
    upper[:] = -5.0
    assert box.value(np.full(3, 0.5)) == 0.0
    with pytest.raises(ValueError, match="read-only"):
        box.upper[0] = 3.0
    assert box == t.Box(0.0, np.ones(3))
    assert box != t.Box(0.0, 1.0)
    assert box != t.NonNegative()
