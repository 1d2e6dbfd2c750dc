"""On a sphere or a ball points lie in their set only to rounding; the certificate must not take that for a fault."""

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("ball", [False, True], ids=["sphere", "ball"])
@pytest.mark.parametrize(
    "update",
    [tecu.ProxLinear(), tecu.ProxLinear(extrapolation=tecu.Inertial(0.2, 0.2)), tecu.Embed(strategies.ProxGradient())],
    ids=["prox-linear", "inertial", "embed"],
)
def test_a_long_run_on_a_curved_set_is_covered(update, ball, dtype):
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A, b = rng.normal(size=(20, 12)).astype(dtype), 3 * rng.normal(size=20).astype(dtype)
        problem = tecu.Problem(couplings.Linear(A, b), {"x": terms.UnitColumns(ball=ball)})
        start = problem.project({"x": rng.normal(size=(12, 1)).astype(dtype)})
        result = tecu.Solver(problem, update).run(start, stop=stop.MaxIter(150))
        assert result.certificate.holds, result.certificate.reason


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("term", [terms.NonNegative(), terms.Box(0.0, 1.0), terms.Simplex(), terms.UnitColumns()])
@pytest.mark.parametrize("strategy", [strategies.ProxGradient(), strategies.FISTA()])
def test_a_start_that_lies_in_its_set_only_to_rounding_raises_no_alarm(strategy, term, dtype):
    size, off = 100, 4 * np.finfo(dtype).eps
    inside = {"Simplex": 1 / size, "UnitColumns": 1 / np.sqrt(size)}.get(type(term).__name__, 0.0)
    start = np.full((size, 1), (1 - off) * inside if inside else -off, dtype)
    assert term.value(start) == 0.0
    problem = tecu.Problem(
        couplings.Linear(np.eye(size, dtype=dtype), np.full(size, inside / 3 - 1, dtype)), {"x": term}
    )
    result = tecu.Solver(problem, tecu.Embed(strategy, eta=1.0)).run({"x": start}, stop=stop.MaxIter(6))
    assert result.certificate.holds, result.certificate.reason


@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.ProxGradient())], ids=["step", "embed"])
@pytest.mark.parametrize(("size", "scale"), [(30_000, 0.006), (300_000, 0.01)])
def test_a_point_outside_of_a_large_set_in_all_entries_does_not_beat_its_prox(size, scale, update):
    """Each of its entries may stray by rounding, which a set allows; all of them together are worth more than that."""
    target = (scale * np.random.default_rng(0).normal(size=size)).astype(np.float32)
    H = couplings.Functions(
        lambda z: 0.5 * float(np.sum((z["x"] - target) ** 2, dtype=np.float64)),
        {"x": lambda z: z["x"] - target},
        {"x": 1.0},
    )
    problem = tecu.Problem(H, {"x": terms.Simplex()})
    result = tecu.Solver(problem, update).run({"x": np.full(size, 1 / size, np.float32)}, stop=stop.MaxIter(8))
    assert result.certificate.holds_from == 0, result.certificate.reason


class HalfSimplex:
    """The simplex with a prox that leaves every second entry where it should not be."""

    is_convex = True

    def value(self, x):
        return terms.Simplex().value(x)

    def prox(self, x, step):
        point = terms.Simplex().prox(x, step)
        moved = point.copy()
        moved[::2] = (point[::2] + point[1::2]) / 2
        moved[1::2] = moved[::2]
        return moved


@pytest.mark.parametrize(("size", "dtype"), [(30_000, np.float64), (1_000, np.float32)])
def test_a_wrong_prox_of_a_large_set_is_still_found_out(size, dtype):
    target = np.random.default_rng(0).random(size).astype(dtype)
    H = couplings.Functions(
        lambda z: 0.5 * float(np.sum((z["x"] - target) ** 2, dtype=np.float64)),
        {"x": lambda z: z["x"] - target},
        {"x": 1.0},
    )
    problem = tecu.Problem(H, {"x": HalfSimplex()})
    start = np.full(target.size, 1 / target.size, dtype)
    result = tecu.Solver(problem, tecu.ProxLinear()).run({"x": start}, stop=stop.MaxIter(8))
    assert "prox" in result.certificate.reason


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [10, 2000])
@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.ProxGradient())], ids=["step", "embed"])
@pytest.mark.parametrize(
    ("term", "edge", "out"), [(terms.NonNegative(), 0.0, -1.0), (terms.Box(-1.0, 1.0), 1.0, 1.0)], ids=repr
)
def test_a_start_outside_in_all_entries_is_moved_inside(term, edge, out, update, size, dtype):
    """As far as a set allows each of them."""
    start = np.full(size, edge + out * 0.9 * 16 * np.finfo(dtype).eps * np.sqrt(size), dtype)
    assert term.value(start) == 0.0
    target = 3 * np.random.default_rng(0).normal(size=size).astype(dtype)
    problem = tecu.Problem(couplings.Linear(np.eye(size, dtype=dtype), target), {"x": term})
    np.testing.assert_array_equal(problem.check_start({"x": start})["x"], dtype(edge))
    result = tecu.Solver(problem, update).run({"x": start}, stop=stop.MaxIter(6))
    assert result.certificate.holds_from == 0, result.certificate.reason


def test_a_start_that_is_as_far_inside_as_its_precision_says_is_not_touched():
    rng = np.random.default_rng(0)
    for term in (terms.UnitColumns(), terms.UnitRows(ball=True), terms.Simplex(), terms.Stiefel()):
        for dtype in (np.float64, np.float32):
            start = term.prox(rng.normal(size=(30, 4)).astype(dtype), 1.0)
            problem = tecu.Problem(couplings.Difference("x", "y"), {"x": term, "y": terms.L1(0.1)})
            checked = problem.check_start({"x": start, "y": start})
            for block in "xy":
                np.testing.assert_array_equal(checked[block], start)
