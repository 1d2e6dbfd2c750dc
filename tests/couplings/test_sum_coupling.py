import numpy as np
import pytest
from coupling_kinds import KINDS, close

from tecu import arrays, couplings, terms
from tecu.testing import check_coupling


def example():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((5, 7))
    z = {"W": rng.standard_normal((7, 3)), "D": rng.standard_normal((5, 3)), "V": rng.standard_normal((7, 3))}
    factors, link = couplings.MatrixFactorization(Y), couplings.Difference("W", "V", 0.7)
    return factors, link, z


def test_sum_adds_everything_and_obeys_all_laws():
    factors, link, z = example()
    H = factors + link
    assert H.blocks == ("W", "D", "V")
    assert H.value(z) == pytest.approx(factors.value(z) + link.value(z), rel=1e-14)
    assert close(H.grad("W", z), factors.grad("W", z) + link.grad("W", z))
    assert close(H.grad("D", z), factors.grad("D", z))
    assert close(H.grad("V", z), link.grad("V", z))
    assert H.lipschitz("W", z) == pytest.approx(factors.lipschitz("W", z) + 0.7)
    check_coupling(H, z)


def test_three_parts_are_one_flat_sum():
    factors, link, z = example()
    anchor = couplings.Difference("V", "W", 0.1)
    left, right = (factors + link) + anchor, factors + (link + anchor)
    assert left.parts == right.parts == (factors, link, anchor)
    check_coupling(left, z)


def test_block_of_no_part_has_a_zero_gradient():
    factors, link, z = example()
    z["U"] = np.ones(4)
    H = factors + link
    assert np.array_equal(H.grad("U", z), np.zeros(4))
    assert H.lipschitz("U", z) == 0.0


def test_minimiser_exists_exactly_where_a_case_applies():
    factors, link, z = example()
    H = factors + link
    assert H.minimize("W", z, terms.Zero(), 0.5) is not None  # the link becomes part of the proximal term
    assert H.minimize("V", z, terms.L0(0.1), 0.5) is not None  # only the link has V
    assert H.minimize("W", z, terms.L0(0.1), 0.5) is None
    z["D"] = np.linalg.qr(z["D"])[0]
    assert H.minimize("W", z, terms.L0(0.1), 0.5) is not None  # both second derivatives are numbers
    assert H.minimize("D", z, terms.Stiefel(), 0.5) is not None
    check_coupling(H, z)


def test_elementwise_curvatures_add_up():
    rng = np.random.default_rng(1)
    z = {name: rng.random((4, 5)) for name in ("I", "R", "S")}
    H = (
        couplings.Retinex(rng.random((4, 5)))
        + couplings.Retinex(rng.random((4, 5)), "S", "R")
        + couplings.Difference("R", "S")
    )
    assert H.minimize("R", z, terms.Box(0.0, 1.0), 0.1) is not None
    check_coupling(H, z)


def test_part_that_knows_less_decides():
    factors, _, z = example()
    own = couplings.Functions(lambda z: float(np.sum(np.cos(z["W"]))), {"W": lambda z: -np.sin(z["W"])})
    H = factors + own
    assert H.lipschitz("W", z) is None
    assert H.hessian("W", z, z["W"]) is None
    assert not H.restrict("W", z).is_quadratic()
    assert H.restrict("D", z).is_quadratic()
    assert H.minimize("W", z, terms.Zero(), 1.0) is None
    check_coupling(H, z)


def test_parts_keep_their_own_warm_starts():
    rng = np.random.default_rng(2)
    Y, z = rng.standard_normal((20, 30)), {"W": rng.standard_normal((30, 25)), "D": rng.standard_normal((20, 25))}
    H = couplings.MatrixFactorization(Y) + couplings.MatrixFactorization(2 * Y)
    memory = {}
    first = H.restrict("W", z).lipschitz(memory)
    cold = memory["products"]
    assert H.restrict("W", z).lipschitz(memory) == pytest.approx(first, rel=1e-4)
    assert 0 < memory["products"] - cold < cold


def test_foreign_coupling_without_a_list_of_blocks_can_be_added():
    class Plain:
        def value(self, z):
            return 0.5 * float(np.sum(z["W"] ** 2))

        def grad(self, block, z):
            return z["W"] if block == "W" else np.zeros_like(z[block])

    factors, _, z = example()
    for H in (factors + Plain(), Plain() + factors):
        assert close(H.grad("W", z), factors.grad("W", z) + z["W"])
        check_coupling(H, z)
    with pytest.raises(TypeError, match="a coupling needs value"):
        factors + 3


@pytest.mark.parametrize("kind", KINDS)
def test_difference_takes_every_kind_of_array(kind):
    rng = np.random.default_rng(3)
    z = {name: KINDS[kind](rng.standard_normal((3, 4))) for name in ("x", "v")}
    H = couplings.Difference("x", "v", 0.5)
    best = H.minimize("x", z, terms.NonNegative(), 0.25)
    wanted = np.maximum((0.5 * arrays.host(z["v"]) + 0.25 * arrays.host(z["x"])) / 0.75, 0.0)
    assert close(arrays.host(best), wanted, 1e-6)
    assert best.dtype == z["x"].dtype
    if not kind.startswith("jax"):
        check_coupling(H, z)


def test_difference_refuses_bad_input_in_a_sentence():
    H = couplings.Difference("x", "v")
    with pytest.raises(ValueError, match=r"'x' and 'v' of Difference must have the same shape, got \(2,\) and \(3,\)"):
        H.value({"x": np.ones(2), "v": np.ones(3)})
    with pytest.raises(ValueError, match="block 'v' of Difference is missing"):
        H.value({"x": np.ones(2)})
    with pytest.raises(ValueError, match="weight must be a finite number >= 0, got -1"):
        couplings.Difference("x", "v", -1)


def test_functions_answer_what_they_were_given():
    def minimize(z, term, eta):
        return term.prox(z["x"] * eta / (2.0 + eta), 1.0 / (2.0 + eta))

    H = couplings.Functions(
        lambda z: np.sum(z["x"] ** 2) + np.sum(z["y"] ** 4),
        {"x": lambda z: 2 * z["x"], "y": lambda z: 4 * z["y"] ** 3},
        lipschitz={"x": 2.0, "y": lambda z: 12 * float(np.max(np.abs(z["y"]))) ** 2 * 4},
        hessian={"x": lambda z, v: 2 * v},
        minimize={"x": minimize},
    )
    z = {"x": np.arange(3.0), "y": np.ones((2, 2))}
    check_coupling(H, z)
    assert H.minimize("y", z, terms.Zero(), 1.0) is None
    assert couplings.Functions(H.value, {"x": lambda z: 2 * z["x"]}).lipschitz("x", z) is None
    with pytest.raises(ValueError, match="lipschitz has a block 'q' that is not in grads"):
        couplings.Functions(H.value, {"x": H.value}, lipschitz={"q": 1.0})
    with pytest.raises(TypeError, match=r"hessian\['x'\] must be a function"):
        couplings.Functions(H.value, {"x": H.value}, hessian={"x": 1.0})


def test_a_sum_tells_its_parts_that_a_sweep_begins():
    told = []

    class Told(couplings.Difference):
        def begin_sweep(self, z):
            told.append((self.weight, z))

    z = {name: np.zeros(2) for name in "xvw"}
    (Told("x", "v", 2.0) + couplings.Difference("v", "w", 1.0) + Told("x", "w", 3.0)).begin_sweep(z)
    assert told == [(2.0, z), (3.0, z)]
