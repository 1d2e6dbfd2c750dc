"""What every term promises: the whole public suite, the subdifferential, scales, NaN, repeated use."""

import math
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_array
from term_catalog import ALL, OWN_NUMPY_ONLY, SINGLE, SUMS

from tecu import terms as t
from tecu.protocols import Term
from tecu.testing import check_term

RNG_SHAPE = (4, 3)


def block(seed=0, dtype=np.float64):
    return np.random.default_rng(seed).standard_normal(RNG_SHAPE).astype(dtype)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_whole_suite(name, dtype):
    check_term(ALL[name], block(1, dtype), trials=5)


@pytest.mark.parametrize("name", ALL)
def test_it_is_a_term_and_can_be_stored(name):
    term = ALL[name]
    assert isinstance(term, Term)
    if name not in OWN_NUMPY_ONLY:
        again = pickle.loads(pickle.dumps(term))
        assert again == term
        assert hash(again) == hash(term)
        np.testing.assert_array_equal(again.prox(block(), 0.4), term.prox(block(), 0.4))


@pytest.mark.parametrize("name", ALL)
def test_fortran_order_and_strides_make_no_difference(name):
    x = block(2)
    expected = ALL[name].prox(x, 0.7)
    np.testing.assert_array_equal(ALL[name].prox(np.asfortranarray(x), 0.7), expected)
    wide = np.zeros((8, 6))
    wide[::2, ::2] = x
    np.testing.assert_array_equal(ALL[name].prox(wide[::2, ::2], 0.7), expected)


@pytest.mark.parametrize("name", ALL)
def test_numpy_step_does_not_widen_float32(name):
    assert ALL[name].prox(block(3, np.float32), np.float64(0.5)).dtype == np.float32


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("scale", [1e-150, 1e-20, 1e20, 1e150])
def test_extreme_scales_give_finite_points_of_the_domain(name, scale):
    p = ALL[name].prox(scale * block(4), 0.7)
    assert np.all(np.isfinite(p))
    assert ALL[name].value(p) < math.inf


@pytest.mark.parametrize("name", ALL)
def test_smallest_numbers(name):
    p = ALL[name].prox(np.where(block(5) > 0, 5e-324, -5e-324), 0.7)
    assert np.all(np.isfinite(p))
    assert ALL[name].value(p) < math.inf


WITH_SQUARE = [name for name in SUMS if any(isinstance(part, t.SquaredL2) for part in SUMS[name].parts)]


@pytest.mark.parametrize("name", WITH_SQUARE)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("step", [1e39, 1e300, 1.7e308])
def test_a_step_without_end_in_a_sum_with_a_square_leads_to_its_limit(name, dtype, step):
    x = block(4, dtype)
    p = SUMS[name].prox(x, step)
    assert p.dtype == dtype
    assert SUMS[name].value(p) < math.inf
    np.testing.assert_allclose(p, SUMS[name].prox(x.astype(np.float64), 1e20), atol=1e-6)


@pytest.mark.parametrize("name", [name for name in SINGLE if name != "zero"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_square_beyond_the_range_leaves_the_point_of_least_length(name, dtype):
    term = SINGLE[name] + t.SquaredL2(1e300)
    p = term.prox(block(4, dtype), 1e30)
    assert SINGLE[name].value(p) < math.inf
    usual = (SINGLE[name] + t.SquaredL2(1e20)).prox(block(4), 1.0)
    np.testing.assert_allclose(p, usual, atol=1e-6)


@pytest.mark.parametrize("term", [t.UnitColumns(), t.UnitRows(), t.Stiefel(), t.UnitColumns() + t.L1(1e-31)])
def test_a_square_changes_nothing_where_all_points_have_one_length(term):
    for weight in (0.5, 1e20, 1e300):
        p = (term + t.SquaredL2(weight)).prox(block(4, np.float32), 1e30)
        np.testing.assert_allclose(p, term.prox(block(4, np.float32), 1e30), rtol=1e-5)


@pytest.mark.parametrize("scale", [1e-320, 1e-150, 1.0, 1e150, 1e307])
@pytest.mark.parametrize("ball", [False, True])
def test_unit_columns_point_the_right_way_at_every_scale(scale, ball):
    direction = np.array([[3.0, -0.6], [4.0, 0.8]]) / 5.0
    p = t.UnitColumns(ball=ball).prox(scale * direction, 1.0)
    length = min(scale, 1.0) if ball else 1.0
    np.testing.assert_allclose(p[:, 0], length * np.array([0.6, 0.8]), rtol=1e-3 if scale < 1e-300 else 1e-14)


def test_zero_column_becomes_a_unit_vector():
    for term in (t.UnitColumns(), t.UnitColumns() + t.NonNegative(), t.UnitColumns() + t.L1(0.1)):
        p = term.prox(np.zeros((3, 2)), 1.0)
        np.testing.assert_array_equal(np.linalg.norm(p, axis=0), 1.0)
        np.testing.assert_array_equal(p, term.prox(np.zeros((3, 2)), 1.0))


@pytest.mark.parametrize("name", SINGLE)
def test_nan_is_passed_on(name):
    x = block(6)
    x[1, 1] = np.nan
    assert np.isnan(SINGLE[name].prox(x, 0.5)).any()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("length", [10, 3000])
def test_float32_simplex_sums_to_its_total(length, seed):
    x = np.random.default_rng(seed).standard_normal((length, 2)).astype(np.float32) * 10.0 ** (seed - 3)
    for total in (1e-3, 1.0, 1e4):
        p = t.Simplex(total=total).prox(x, 1.0)
        assert t.Simplex(total=total).value(p) == 0.0


@pytest.mark.parametrize("scale", [1e-7, 1e-4, 1e-2])
def test_float32_simplex_is_as_good_as_float32_allows(scale):
    x = (scale * np.random.default_rng(0).random((100_000, 1))).astype(np.float32)
    p, exact = t.Simplex().prox(x, 1.0), t.Simplex().prox(x.astype(np.float64), 1.0)
    assert t.Simplex().value(p) == 0.0
    assert np.max(np.abs(p - exact)) <= 4e-7 * np.max(exact)


# -- indicators -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("term", "inside"),
    [
        (t.NonNegative(), np.zeros(RNG_SHAPE)),
        (t.Box(0.0, 1.0), np.ones(RNG_SHAPE)),
        (t.Box(np.zeros(RNG_SHAPE), np.ones(RNG_SHAPE)), np.zeros(RNG_SHAPE)),
        (t.UnitColumns(), np.full(RNG_SHAPE, 0.5)),
        (t.UnitColumns(ball=True), np.full(RNG_SHAPE, 0.5)),
        (t.Simplex(), np.full(RNG_SHAPE, 0.25)),
        (t.Stiefel(), np.eye(4)[:, :3]),
        (t.BoundedL0(0.0, 1.0), np.ones(RNG_SHAPE)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_indicator_forgives_rounding_and_nothing_more(term, inside, dtype):
    inside = inside.astype(dtype)
    allowed = 32 * np.finfo(dtype).eps / 2 * math.sqrt(inside.size)
    for sign in (-1.0, 1.0):
        shift = np.zeros_like(inside)
        shift[0, 0] = sign * 0.25 * allowed
        assert term.value(inside + shift) == 0.0
    worst = max(term.value(inside + sign * 40 * allowed) for sign in (-1.0, 1.0))
    assert worst == math.inf


@pytest.mark.parametrize("name", [n for n in SINGLE if "box" in n or "non-neg" in n or "simplex" in n])
def test_nan_is_outside_of_a_set(name):
    assert SINGLE[name].value(np.full(RNG_SHAPE, np.nan)) == math.inf


def test_rank_is_relative_to_the_largest_singular_value():
    thin = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    for scale in (1e-150, 1.0, 1e150):
        assert t.Rank(1).value(scale * thin) == 0.0
        assert t.Rank(1).value(scale * (thin + 1e-6 * np.eye(3)[:, :2])) == math.inf


# -- the subdifferential, from its definition ---------------------------------------------------------------


def distance_by_directions(term, p, g, rng):
    """``max over q near p of (<g, q - p> - term(q) + term(p)) / ||q - p||``, which is 0 for a subgradient."""
    here, best, found = term.value(p), 0.0, np.zeros_like(p)
    for spread in (3.0, 3.0, 0.3, 0.1, 0.03):
        for direction in found + spread * rng.standard_normal((250, *p.shape)):
            target = p + 1e-6 * direction / np.linalg.norm(direction)
            for q in (target, term.prox(target, 1e-12)):
                move = q - p
                length = np.linalg.norm(move)
                if length < 1e-8 or (rise := term.value(q)) == math.inf:
                    continue
                steep = (np.sum(g * move) - rise + here) / length
                if steep > best:
                    best, found = steep, move / length
    return best


REGULAR = {
    "l0": (t.L0(0.3), [[1.0], [0.0]]),
    "l1": (t.L1(0.5), [[1.0], [0.0]]),
    "squared": (t.SquaredL2(0.5), [[1.0], [-2.0]]),
    "group": (t.GroupL21(0.5), [[1.0, 0.0], [2.0, 0.0]]),
    "bounded-l0": (t.BoundedL0(0.3, 1.0), [[1.0], [0.0], [0.5]]),
    "non-negative": (t.NonNegative(), [[1.0], [0.0]]),
    "box": (t.Box(0.0, 1.0), [[0.0], [0.5], [1.0]]),
    "sphere": (t.UnitColumns(), [[0.6], [0.8]]),
    "ball-inside": (t.UnitColumns(ball=True), [[0.3], [0.4]]),
    "ball-boundary": (t.UnitRows(ball=True), [[0.6, 0.8]]),
    "simplex": (t.Simplex(), [[0.0], [0.25], [0.75]]),
    "simplex-corner": (t.Simplex(total=2.0), [[2.0], [0.0], [0.0]]),
    "2-sparse": (t.KSparse(2, axis=0), [[1.0], [0.0], [2.0]]),
    "rank": (t.Rank(1), [[1.0, 2.0], [2.0, 4.0]]),
    "nuclear": (t.NuclearNorm(0.5), [[1.0, 2.0], [2.0, 4.0]]),
    "stiefel": (t.Stiefel(), [[1.0, 0.0], [0.0, 0.6], [0.0, 0.8]]),
    "l0+non-negative": (t.L0(0.3) + t.NonNegative(), [[1.0], [0.0]]),
    "elastic-net+box": (t.L1(0.3) + t.SquaredL2(0.2) + t.Box(-1.0, 1.0), [[1.0], [0.0], [-0.5]]),
    "sphere+non-negative": (t.UnitColumns() + t.NonNegative(), [[0.6], [0.0], [0.8]]),
    "ball+l1": (t.UnitColumns(ball=True) + t.L1(0.3), [[0.6], [0.0], [-0.8]]),
    "group+l1": (t.GroupL21(0.4) + t.L1(0.3), [[1.0, 0.0], [0.0, 0.0]]),
    "group+non-negative": (t.GroupL21(0.4) + t.NonNegative(), [[1.0, 0.0], [0.0, 0.0]]),
    "2-sparse+l1": (t.KSparse(2, axis=0) + t.L1(0.3), [[1.0], [0.0], [-2.0]]),
    "stiefel+squared": (t.Stiefel() + t.SquaredL2(0.5), [[1.0], [0.0]]),
}


@pytest.mark.parametrize("name", REGULAR)
def test_subdiff_distance_is_the_steepest_descent(name):
    # Where the term is regular, the distance of g to the subdifferential is the steepest slope of <g, .> - term.
    term, p = REGULAR[name][0], np.array(REGULAR[name][1])
    rng = np.random.default_rng(8)
    for _ in range(2):
        g = rng.standard_normal(p.shape)
        assert term.subdiff_distance(p, g) == pytest.approx(distance_by_directions(term, p, g, rng), rel=0.02, abs=2e-4)


def test_limiting_subdifferential_below_full_support_and_rank():
    # x = 0 is a limit of 1-sparse (rank-1) points, each of whose normals vanish on one entry (direction).
    g = np.array([[3.0, 4.0]])
    assert t.KSparse(1).subdiff_distance(np.zeros((1, 2)), g) == pytest.approx(3.0)
    assert t.KSparse(2).subdiff_distance(np.zeros((1, 2)), g) == pytest.approx(5.0)
    assert t.Rank(1).subdiff_distance(np.zeros((2, 2)), np.diag([3.0, 4.0])) == pytest.approx(3.0)
    assert t.Rank(2).subdiff_distance(np.zeros((2, 2)), np.diag([3.0, 4.0])) == pytest.approx(5.0)


def test_sum_with_a_term_without_subdifferential_has_none():
    assert not hasattr(ALL["squared+own"], "subdiff_distance")
    assert hasattr(ALL["elastic-net"], "subdiff_distance")


# -- CSR ------------------------------------------------------------------------------------------------


def sparse_block(dtype=np.float64):
    x = block(9, dtype)
    x[np.random.default_rng(10).random(RNG_SHAPE) < 0.4] = 0
    return csr_array(x)


@pytest.mark.parametrize("name", sorted(set(ALL) - OWN_NUMPY_ONLY))
def test_csr_gives_what_dense_gives(name):
    term, x = ALL[name], sparse_block(np.float32)
    p = term.prox(x, 0.5)
    assert isinstance(p, csr_array)
    assert p.dtype == np.float32
    np.testing.assert_allclose(p.toarray(), term.prox(x.toarray(), 0.5), atol=1e-6)
    assert p.nnz == np.count_nonzero(p.toarray())
    assert term.value(p) == pytest.approx(term.value(p.toarray()), rel=1e-6)
    g = block(11, np.float32)
    assert term.subdiff_distance(p, g) == pytest.approx(term.subdiff_distance(p.toarray(), g), rel=1e-5)
    assert term.subdiff_distance(p, csr_array(g)) == pytest.approx(term.subdiff_distance(p, g), rel=1e-6)


@pytest.mark.parametrize("name", ["l0", "l1", "squared-l2", "bounded-l0", "1-sparse-rows", "2-sparse-columns"])
def test_csr_whole_suite(name):
    check_term(ALL[name], sparse_block(), trials=3)


@pytest.mark.parametrize("name", ["l0", "l1", "squared-l2", "non-negative", "bounded-l0", "1-sparse-rows"])
def test_csr_with_duplicates_and_stored_zeros(name):
    untidy = csr_array((np.array([0.5, 0.5, 0.0, -2.0]), np.array([1, 1, 0, 2]), np.array([0, 3, 4])), shape=(2, 3))
    term, tidy = ALL[name], untidy.toarray()
    np.testing.assert_array_equal(term.prox(untidy, 0.5).toarray(), term.prox(tidy, 0.5))
    assert term.value(untidy) == term.value(tidy)
    assert untidy.nnz == 4  # left as it was
