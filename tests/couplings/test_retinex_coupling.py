import numpy as np
import pytest
from coupling_kinds import KINDS, close, each_kind, tolerance

from tecu import arrays, couplings, terms
from tecu.testing import check_coupling


def example(shape=(5, 7), seed=0):
    rng = np.random.default_rng(seed)
    z = {"I": rng.random(shape[:2]) + 0.1, "R": rng.random(shape)}
    return rng.random(shape), rng.random(shape[:2]), z


def naive(observed, z, alpha, beta, anchor):
    """Value, pixel by pixel."""
    light, R = z["I"], z["R"].reshape(*z["I"].shape, -1)
    O = observed.reshape(R.shape)  # noqa: E741 -- the letter of the formula
    height, width = light.shape
    total = 0.0
    for i in range(height):
        for j in range(width):
            total += 0.5 * sum((O[i, j, c] - light[i, j] * R[i, j, c]) ** 2 for c in range(R.shape[2]))
            total += 0.5 * beta * (light[i, j] - anchor[i, j]) ** 2
            if i + 1 < height:
                total += 0.5 * alpha * (light[i + 1, j] - light[i, j]) ** 2
            if j + 1 < width:
                total += 0.5 * alpha * (light[i, j + 1] - light[i, j]) ** 2
    return total


SHAPES = [(5, 7), (4, 3, 3), (1, 6), (6, 1), (1, 1)]
WEIGHTS = [(1.0, 0.0), (0.3, 0.7), (0.0, 0.0), (0.0, 1.0)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("alpha", "beta"), WEIGHTS)
def test_value_equals_the_loops_and_all_laws_hold(shape, alpha, beta):
    observed, anchor, z = example(shape)
    H = couplings.Retinex(observed, alpha=alpha, beta=beta, anchor=anchor)
    assert H.value(z) == pytest.approx(naive(observed, z, alpha, beta, anchor), rel=1e-13)
    check_coupling(H, z)
    check_coupling(H, {name: x.astype(np.float32) for name, x in z.items()})


@pytest.mark.parametrize(("kind", "shape"), each_kind(SHAPES), ids=str)
def test_every_kind_of_array_gives_what_numpy_gives(kind, shape):
    observed, anchor, z = example(shape)
    H = couplings.Retinex(observed, alpha=0.3, beta=0.7, anchor=anchor)
    there = {name: KINDS[kind](x) for name, x in z.items()}
    rtol = tolerance(kind)
    assert H.value(there) == pytest.approx(H.value(z), rel=rtol)
    for block in z:
        gradient, product = H.grad(block, there), H.hessian(block, there, there[block])
        for got, wanted in ((gradient, H.grad(block, z)), (product, H.hessian(block, z, z[block]))):
            assert type(got) is type(there[block])
            assert got.dtype == there[block].dtype
            assert close(arrays.host(got), wanted, rtol)
    best = H.minimize("R", there, terms.Box(0.0, 1.0), 1e-4)
    assert best.dtype == there["R"].dtype
    assert close(arrays.host(best), H.minimize("R", z, terms.Box(0.0, 1.0), 1e-4), rtol)


@pytest.mark.parametrize("shape", [(5, 7), (4, 3, 3)], ids=str)
def test_reflectance_in_a_box_has_the_formula(shape):
    observed, _, z = example(shape)
    eta = 0.01
    light = z["I"].reshape(*z["I"].shape, *[1] * (len(shape) - 2))
    wanted = np.clip((observed * light + eta * z["R"]) / (light**2 + eta), 0.0, 1.0)
    assert close(couplings.Retinex(observed).minimize("R", z, terms.Box(0.0, 1.0), eta), wanted)


def test_illumination_has_a_closed_form_only_without_smoothness():
    observed, anchor, z = example()
    box = terms.Box(observed, 1.0)
    assert couplings.Retinex(observed, alpha=1.0).minimize("I", z, box, 0.1) is None
    loose = couplings.Retinex(observed, alpha=0.0, beta=0.5, anchor=anchor)
    z["I"] = np.maximum(z["I"], observed)
    best = loose.minimize("I", z, box, 0.1)
    wanted = (observed * z["R"] + 0.5 * anchor + 0.1 * z["I"]) / (z["R"] ** 2 + 0.6)
    assert close(best, np.clip(wanted, observed, 1.0))


@pytest.mark.parametrize(
    "term", [terms.L0(0.02), terms.L1(0.1), terms.L0(0.02) + terms.Box(0.1, 2.0), terms.SquaredL2(0.3)], ids=repr
)
def test_each_entry_is_minimised_over_a_grid(term):
    observed, _, z = example((2, 3))
    H, eta = couplings.Retinex(observed), 0.2
    best, grid, entry = H.minimize("R", z, term, eta), np.append(np.linspace(-1, 3, 20001), 0.0), term.entrywise
    inside = grid[(grid >= entry.lower) & (grid <= entry.upper)]
    for index in np.ndindex(2, 3):

        def objective(r, index=index):
            smooth = 0.5 * (observed[index] - z["I"][index] * r) ** 2 + eta / 2 * (r - z["R"][index]) ** 2
            return smooth + entry.l0 * (r != 0) + entry.l1 * np.abs(r) + entry.l2 / 2 * r**2

        assert entry.lower <= best[index] <= entry.upper
        assert objective(best[index]) <= objective(inside).min() + 1e-12


def test_bound_on_the_curvature_of_the_illumination_is_nearly_attained():
    n = 40
    checkers = (-1.0) ** np.add.outer(np.arange(n), np.arange(n))
    H = couplings.Retinex(np.ones((n, n)), alpha=2.0)
    z = {"I": np.ones((n, n)), "R": np.ones((n, n))}
    rayleigh = np.sum(checkers * H.hessian("I", z, checkers)) / n**2
    assert 0.95 * H.lipschitz("I", z) <= rayleigh <= H.lipschitz("I", z)


def test_float32_values_do_not_drift_from_the_exact_ones():
    observed, anchor, z = example((30, 40))
    H = couplings.Retinex(observed, alpha=1.0, beta=1.0, anchor=anchor)
    single = {name: x.astype(np.float32) for name, x in z.items()}
    restricted = H.restrict("I", single)
    restricted.value_and_grad(single["I"])
    rng = np.random.default_rng(1)
    for _ in range(5):
        u = (single["I"] + 0.05 * rng.standard_normal((30, 40))).astype(np.float32)
        exact = H.value({"I": u.astype(float), "R": single["R"].astype(float)})
        assert restricted.value_and_grad(u)[0] == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"observed": np.full((2, 2), np.inf)}, "observed has NaN or Inf"),
        ({"observed": np.ones(4)}, "must be a dense image"),
        ({"observed": np.ones((2, 2)), "alpha": -1.0}, "alpha must be a finite number >= 0, got -1.0"),
        ({"observed": np.ones((2, 2)), "beta": 1.0}, "needs an anchor"),
        (
            {"observed": np.ones((2, 2)), "beta": 1.0, "anchor": np.ones(3)},
            "anchor must have the shape of the illumination",
        ),
        ({"observed": np.ones((2, 2)), "illumination": "R"}, "must be different blocks"),
    ],
)
def test_bad_data_are_refused_in_a_sentence(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        couplings.Retinex(**arguments)


def test_blocks_that_do_not_fit_are_refused_in_a_sentence():
    observed, _, z = example()
    with pytest.raises(ValueError, match=r"block 'I' of Retinex must have shape \(5, 7\), got \(5, 6\)"):
        couplings.Retinex(observed).value({**z, "I": z["I"][:, 1:]})
    with pytest.raises(ValueError, match="has no block 'X'"):
        couplings.Retinex(observed).grad("X", z)
