import numpy as np
import pytest
from coupling_kinds import KINDS, close, tolerance

from tecu import arrays, couplings, terms
from tecu.testing import check_coupling

SHAPES = [((7, 6), (3, 3)), ((6, 5), (2, 4)), ((8,), (3,)), ((5, 4), (5, 4)), ((4, 3, 5), (2, 1, 3))]


def example(shape, size, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape), {"x": rng.standard_normal(shape), "k": rng.standard_normal(size)}


def naive(x, k):
    """The circular convolution, entry by entry, the kernel's centre at ``size // 2``."""
    out = np.zeros_like(x)
    for i in np.ndindex(*x.shape):
        for j in np.ndindex(*k.shape):
            source = tuple((a - b + s // 2) % n for a, b, s, n in zip(i, j, k.shape, x.shape, strict=True))
            out[i] += k[j] * x[source]
    return out


@pytest.mark.parametrize(("shape", "size"), SHAPES, ids=str)
def test_value_equals_the_loops_and_all_laws_hold(shape, size):
    observed, z = example(shape, size)
    H = couplings.Convolution(observed)
    assert H.value(z) == pytest.approx(0.5 * np.sum((naive(z["x"], z["k"]) - observed) ** 2), rel=1e-12)
    check_coupling(H, z)
    known = couplings.Convolution(observed, kernel=z["k"])
    assert known.blocks == ("x",)
    assert known.value({"x": z["x"]}) == pytest.approx(H.value(z), rel=1e-13)
    check_coupling(known, {"x": z["x"]})


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_array_gives_what_numpy_gives(kind):
    observed, z = example((7, 6), (3, 2))
    H = couplings.Convolution(observed)
    there = {name: KINDS[kind](x) for name, x in z.items()}
    rtol = tolerance(kind)
    assert H.value(there) == pytest.approx(H.value(z), rel=rtol)
    for block in z:
        pairs = [(H.grad(block, there), H.grad(block, z))]
        pairs.append((H.hessian(block, there, there[block]), H.hessian(block, z, z[block])))
        pairs.append(
            (H.minimize(block, there, terms.SquaredL2(0.1), 0.2), H.minimize(block, z, terms.SquaredL2(0.1), 0.2))
        )
        for got, wanted in pairs:
            assert type(got) is type(there[block])
            assert got.dtype == there[block].dtype
            assert close(arrays.host(got), wanted, 10 * rtol)


def test_constant_of_the_image_is_the_largest_eigenvalue():
    observed, z = example((6, 5), (3, 3))
    H = couplings.Convolution(observed)
    matrix = np.stack([H.hessian("x", z, e.reshape(6, 5)).ravel() for e in np.eye(30)])
    assert H.lipschitz("x", z) == pytest.approx(np.linalg.eigvalsh(matrix)[-1], rel=1e-12)


def test_frequencies_that_the_kernel_removes_do_no_harm():
    observed, z = example((8, 8), (2, 1))
    H = couplings.Convolution(observed, kernel=np.array([[1.0], [1.0]]))
    best = H.minimize("x", {"x": z["x"]}, terms.Zero(), 0.0)
    assert np.linalg.norm(H.grad("x", {"x": best})) < 1e-10


def test_half_quadratic_splitting_has_exact_updates():
    observed, z = example((6, 5), (3, 3))
    z["v"] = z["x"] + 1.0
    H = couplings.Convolution(observed, kernel=z.pop("k")) + couplings.Difference("x", "v", 0.8)
    best = H.minimize("x", z, terms.Zero(), 0.3)
    assert np.linalg.norm(H.grad("x", {**z, "x": best}) + 0.3 * (best - z["x"])) < 1e-10
    assert H.minimize("v", z, terms.L1(0.1), 0.0) is not None
    assert H.minimize("x", z, terms.L1(0.1), 0.3) is None
    check_coupling(H, z)


def test_bad_input_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="boundary must be 'circular', got 'zero'"):
        couplings.Convolution(np.ones((4, 4)), boundary="zero")
    with pytest.raises(
        ValueError, match=r"kernel of Convolution must be nowhere larger than the image, \(4, 4\), got \(5, 1\)"
    ):
        couplings.Convolution(np.ones((4, 4)), kernel=np.ones((5, 1)))
    with pytest.raises(ValueError, match="block 'k' of Convolution must be nowhere larger"):
        couplings.Convolution(np.ones((4, 4))).value({"x": np.ones((4, 4)), "k": np.ones(3)})
    with pytest.raises(ValueError, match=r"block 'x' of Convolution must have shape \(4,\), got \(3,\)"):
        couplings.Convolution(np.ones(4)).value({"x": np.ones(3), "k": np.ones(3)})
    with pytest.raises(ValueError, match="block 'k' of Convolution is missing"):
        couplings.Convolution(np.ones((4, 4))).value({"x": np.ones((4, 4))})
    with pytest.raises(ValueError, match="observed has NaN or Inf"):
        couplings.Convolution(np.full((4, 4), np.nan))
