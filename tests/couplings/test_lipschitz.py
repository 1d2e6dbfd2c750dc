import numpy as np
import pytest
import scipy.sparse as sp
from coupling_kinds import KINDS

from tecu.lipschitz import largest_singular_square, power_iteration, start_vector


@pytest.mark.parametrize("shape", [(3, 3), (6, 40), (40, 6), (50, 50), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("method", ["power", "gram", "svd"])
def test_every_method_finds_the_largest_singular_value(shape, method):
    for seed in range(10):
        F = np.random.default_rng(seed).standard_normal(shape)
        exact = np.linalg.norm(F, 2) ** 2
        margin = 1.0101 if method == "power" else 1.0 + 1e-12
        for factor in (F, sp.csr_array(F)):
            assert exact * (1 - 1e-12) <= largest_singular_square(factor, method) <= margin * exact


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_is_taken(kind):
    F = np.random.default_rng(0).standard_normal((8, 5))
    exact = np.linalg.norm(F, 2) ** 2
    for method in ("power", "gram", "svd"):
        assert largest_singular_square(KINDS[kind](F), method) == pytest.approx(exact, rel=0.0101)


def test_close_eigenvalues_are_covered_by_the_margin():
    spectrum = np.append(np.linspace(0.0, 0.99, 300), 1.0)
    estimate = power_iteration(lambda v: spectrum * v, start_vector(301), {})
    assert 1.0 <= estimate <= 1.01


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_where_few_eigenvalues_differ_rounding_is_not_taken_for_a_direction(dtype):
    """A projector maps its image to itself: the second vector already lies in the span of the first two."""
    for seed in range(100):
        rng = np.random.default_rng(seed)
        size = int(rng.integers(2, 60))
        basis = np.linalg.qr(rng.normal(size=(size, int(rng.integers(1, size + 1)))))[0]
        projector, memory = (basis @ basis.T).astype(dtype), {}
        for _ in range(2):  # cold and warm
            estimate = power_iteration(lambda v, A=projector: A @ v.astype(dtype), start_vector(size), memory)
            assert 1.0 <= estimate <= 1.0101


def test_a_direction_that_the_old_vector_misses_is_found():
    memory = {"power": np.array([1.0, 0.0, 0.0])}
    grown = np.array([1.0, 5.0, 0.5])
    for _ in range(3):
        estimate = power_iteration(lambda v: grown * v, start_vector(3), memory)
    assert 5.0 <= estimate <= 5.051


def test_each_row_may_have_its_own_operator():
    rng = np.random.default_rng(1)
    factors = rng.standard_normal((30, 6, 4))
    grams = np.swapaxes(factors, 1, 2) @ factors
    exact = max(np.linalg.eigvalsh(gram)[-1] for gram in grams)
    start = np.tile(start_vector(4), (30, 1))
    estimate = power_iteration(lambda V: np.einsum("ijk,ik->ij", grams, V), start, {}, by_row=True)
    assert exact <= estimate <= 1.0101 * exact


def test_the_answer_depends_on_nothing_but_the_arguments():
    F = np.random.default_rng(2).standard_normal((20, 30))
    first, second = {}, {}
    assert largest_singular_square(F, "power", first) == largest_singular_square(F, "power", second)
    assert np.array_equal(first["power"], second["power"])
    assert largest_singular_square(F, "power", first) == largest_singular_square(F, "power", second)


def test_zero_has_the_constant_zero_and_an_overflow_comes_to_an_end():
    assert largest_singular_square(np.zeros((4, 3))) == 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        assert not np.isfinite(power_iteration(lambda v: v * np.inf, start_vector(3), {}))


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="must be one of"):
        largest_singular_square(np.eye(2), "guess")
