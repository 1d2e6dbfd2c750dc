from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from coupling_kinds import KINDS, close, each_kind, tolerance

import tecu
from tecu import arrays, couplings, methods, terms
from tecu.testing import check_coupling

SIZES = [(6, 9, 3), (5, 8, 1), (4, 12, 10), (25, 20, 2)]  # few and many columns: residual and Gram forms


def example(n, p, m, seed=0):
    rng = np.random.default_rng(seed)
    Y = rng.standard_normal((n, p))
    return Y, {"W": rng.standard_normal((p, m)), "D": rng.standard_normal((n, m))}


def sparse_codes(z, density=0.4, seed=1):
    keep = np.random.default_rng(seed).random(z["W"].shape) < density
    return {**z, "W": sp.csr_array(z["W"] * keep)}


def naive(Y, z, weights=None):
    """Value and gradients, entry by entry."""
    D, W = z["D"], arrays.dense(z["W"])
    value, grad_D, grad_W = 0.0, np.zeros_like(D), np.zeros_like(W)
    for i in range(Y.shape[0]):
        for j in range(Y.shape[1]):
            weight = 1.0 if weights is None else weights[i, j]
            r = sum(D[i, k] * W[j, k] for k in range(D.shape[1])) - Y[i, j]
            value += 0.5 * weight * r * r
            grad_D[i] += weight * r * W[j]
            grad_W[j] += weight * r * D[i]
    return value, {"D": grad_D, "W": grad_W}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("codes", ["dense", "csr"])
def test_value_and_gradients_equal_the_loops(size, weighted, codes):
    Y, z = example(*size)
    z = z if codes == "dense" else sparse_codes(z)
    weights = np.random.default_rng(2).random(Y.shape) if weighted else None
    H = couplings.MatrixFactorization(Y, weights=weights)
    value, grads = naive(Y, z, weights)
    assert H.value(z) == pytest.approx(value, rel=1e-12)
    for block, wanted in grads.items():
        assert close(H.grad(block, z), wanted)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("codes", ["dense", "csr"])
@pytest.mark.parametrize(
    ("data", "lipschitz"),
    [
        *[("C", "power"), ("C", "gram"), ("C", "svd"), ("F", "power"), ("csr", "power"), ("csc", "gram")],
        *[("mask", "power"), ("weights", "power"), ("weights", "gram")],
    ],
)
def test_all_laws_hold(size, codes, data, lipschitz):
    Y, z = example(*size)
    z = z if codes == "dense" else sparse_codes(z)
    rng = np.random.default_rng(3)
    thin = Y * (Y > 0.3)
    options = {"mask": rng.random(Y.shape) < 0.7} if data == "mask" else {}
    options |= {"weights": rng.random(Y.shape)} if data == "weights" else {}
    Y = {"C": Y, "F": np.asfortranarray(Y), "csr": sp.csr_array(thin), "csc": sp.csc_matrix(thin)}.get(data, Y)
    check_coupling(couplings.MatrixFactorization(Y, lipschitz=lipschitz, **options), z)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_all_laws_hold_in_float32(size):
    Y, z = example(*size)
    z = {name: x.astype(np.float32) for name, x in z.items()}
    check_coupling(couplings.MatrixFactorization(Y.astype(np.float32)), z)
    check_coupling(couplings.MatrixFactorization(Y), sparse_codes(z))


@pytest.mark.parametrize(("kind", "case"), each_kind(product(SIZES, [False, True])), ids=str)
@pytest.mark.parametrize("foreign_data", [False, True])
def test_every_kind_of_array_gives_what_numpy_gives(kind, case, foreign_data):
    size, weighted = case
    Y, z = example(*size)
    weights = np.random.default_rng(4).random(Y.shape) if weighted else None
    wanted = couplings.MatrixFactorization(Y, weights=weights)
    H = couplings.MatrixFactorization(KINDS[kind](Y) if foreign_data else Y, weights=weights)
    there = {name: KINDS[kind](x) for name, x in z.items()}
    rtol = tolerance(kind)
    assert H.value(there) == pytest.approx(wanted.value(z), rel=rtol)
    for block in z:
        restricted = H.restrict(block, there)
        gradients = [H.grad(block, there), *(restricted.grad(there[block]) for _ in range(3))]
        gradients.append(restricted.grad(there[block] + there[block]) - restricted.hessian(there[block]))
        for gradient in gradients:
            assert type(gradient) is type(there[block])
            assert gradient.dtype == there[block].dtype
            assert close(arrays.host(gradient), wanted.grad(block, z), 10 * rtol)
        assert H.lipschitz(block, there) == pytest.approx(wanted.lipschitz(block, z), rel=1e-4)
        exact = H.minimize(block, there, terms.SquaredL2(0.5), 0.3)
        assert exact.dtype == there[block].dtype
        assert close(arrays.host(exact), wanted.minimize(block, z, terms.SquaredL2(0.5), 0.3), 50 * rtol)


def test_sparse_data_and_codes_give_what_dense_ones_give():
    Y, z = example(7, 15, 4)
    Y = Y * (Y > 0.5)
    zs = sparse_codes(z)
    zd = {**zs, "W": zs["W"].toarray()}
    wanted = couplings.MatrixFactorization(Y)
    for H in (wanted, couplings.MatrixFactorization(sp.csr_array(Y)), couplings.MatrixFactorization(sp.coo_array(Y))):
        for blocks in (zs, zd):
            assert H.value(blocks) == pytest.approx(wanted.value(zd), rel=1e-12)
            for block in ("W", "D"):
                assert close(H.grad(block, blocks), wanted.grad(block, zd))


def test_weights_of_one_change_nothing_and_masked_entries_do_not_matter():
    Y, z = example(7, 15, 4)
    plain, ones = couplings.MatrixFactorization(Y), couplings.MatrixFactorization(Y, weights=np.ones(Y.shape))
    mask = np.random.default_rng(5).random(Y.shape) < 0.5
    spoilt = np.where(mask, Y, np.nan)
    masked = [couplings.MatrixFactorization(data, mask=mask) for data in (Y, spoilt)]
    assert ones.value(z) == pytest.approx(plain.value(z), rel=1e-13)
    assert masked[0].value(z) == masked[1].value(z) < plain.value(z)
    for block in z:
        assert close(ones.grad(block, z), plain.grad(block, z))
        assert np.array_equal(masked[0].grad(block, z), masked[1].grad(block, z))
        assert ones.lipschitz(block, z) == pytest.approx(plain.lipschitz(block, z), rel=2e-3)


def test_gram_matrix_is_built_only_where_it_pays():
    Y, z = example(6, 50, 4)
    codes, dictionary = (couplings.MatrixFactorization(Y.astype(np.float32)).restrict(b, z) for b in ("W", "D"))
    for restricted in (codes, dictionary):
        for k in range(3):
            restricted.grad(z[restricted.block] + k)
        assert restricted._gram is not None
    Y, z = example(6, 50, 13)  # more than 2 n columns: the residual form stays cheaper for the codes
    codes = couplings.MatrixFactorization(Y).restrict("W", z)
    for k in range(6):
        codes.grad(z["W"] + k)
    assert codes._gram is None


def test_float32_values_near_an_exact_fit_keep_their_digits():
    rng = np.random.default_rng(6)
    D, W = rng.standard_normal((40, 5)), rng.standard_normal((200, 5))
    Y = (D @ W.T + 1e-3 * rng.standard_normal((40, 200))).astype(np.float32)
    z = {"W": W.astype(np.float32), "D": (D + 0.05).astype(np.float32)}
    restricted = couplings.MatrixFactorization(Y).restrict("D", z)
    restricted.value_and_grad(z["D"])
    for u in (z["D"] - np.float32(0.02), z["D"] - np.float32(0.049), D.astype(np.float32)):
        residual = Y.astype(float) - u.astype(float) @ z["W"].astype(float).T
        exact = 0.5 * np.sum(residual**2)
        value, _ = restricted.value_and_grad(u)
        assert abs(value - exact) <= 100 * 6e-8 * restricted.magnitude(value)
        assert abs(value - exact) <= 1e-3 * exact  # through ||Y||^2 not one digit would be left at the last point


def test_lipschitz_is_warm_started_and_counted():
    Y, z = example(30, 80, 60)
    memory = {}
    H = couplings.MatrixFactorization(Y)
    exact = np.linalg.norm(z["D"], 2) ** 2
    first = H.restrict("W", z).lipschitz(memory)
    cold = memory["products"]
    again = H.restrict("W", {**z, "D": 1.001 * z["D"]}).lipschitz(memory)
    assert exact <= first <= 1.011 * exact
    assert again == pytest.approx(1.001**2 * first, rel=1e-3)
    assert memory["products"] - cold < cold / 2


@pytest.mark.parametrize("lipschitz", ["power", "gram", "svd"])
def test_zero_factor_has_the_constant_zero(lipschitz):
    Y, z = example(6, 9, 3)
    z["D"] = np.zeros_like(z["D"])
    assert couplings.MatrixFactorization(Y, lipschitz=lipschitz).lipschitz("W", z) == 0.0


def test_procrustes_beats_all_other_orthonormal_dictionaries():
    Y, z = example(8, 20, 5)
    rng = np.random.default_rng(7)
    z["D"] = np.linalg.qr(z["D"])[0]
    H, eta = couplings.MatrixFactorization(Y), 0.4

    def objective(D):
        return H.value({**z, "D": D}) + eta / 2 * np.sum((D - z["D"]) ** 2)

    best = H.minimize("D", z, terms.Stiefel(), eta)
    assert np.allclose(best.T @ best, np.eye(5))
    for size in (1e-3, 1e-1, 10.0):
        rivals = [np.linalg.qr(best + size * rng.standard_normal(best.shape)) for _ in range(20)]
        assert all(objective(best) <= objective(Q * np.sign(np.diag(R))) for Q, R in rivals)


@pytest.mark.parametrize(
    "term", [terms.L0(0.3), terms.L1(0.3), terms.NonNegative(), terms.L0(0.1) + terms.NonNegative()], ids=repr
)
@pytest.mark.parametrize("codes", ["dense", "csr"])
def test_codes_of_an_orthonormal_dictionary_are_found_entry_by_entry(term, codes):
    Y, z = example(7, 6, 4)
    z["D"] = np.linalg.qr(z["D"])[0]
    z = z if codes == "dense" else sparse_codes(z)
    H, eta = couplings.MatrixFactorization(Y), 0.6
    best = H.minimize("W", z, term, eta)
    assert arrays.is_sparse(best) == (codes == "csr")
    grid = np.concatenate([np.linspace(-4, 4, 40001), [0.0]])
    for j in range(6):
        for k in range(4):
            slope = (Y[:, j] @ z["D"])[k]
            before = arrays.dense(z["W"])[j, k]
            scores = [term.value(np.array([g])) for g in grid[::4000]]  # a few, to be sure the term is what we think
            assert np.isfinite(scores).any()
            entry = term.entrywise
            inside = grid[(grid >= entry.lower) & (grid <= entry.upper)]
            values = 0.5 * inside**2 - slope * inside + eta / 2 * (inside - before) ** 2
            values += entry.l0 * (inside != 0) + entry.l1 * np.abs(inside)
            own = arrays.dense(best)[j, k]
            at_own = (
                0.5 * own**2 - slope * own + eta / 2 * (own - before) ** 2 + entry.l0 * (own != 0) + entry.l1 * abs(own)
            )
            assert at_own <= values.min() + 1e-12


def test_there_is_no_closed_form_for_l0_with_a_general_dictionary():
    Y, z = example(6, 9, 3)
    H = couplings.MatrixFactorization(Y)
    assert H.minimize("W", z, terms.L0(0.1), 1.0) is None
    assert H.minimize("D", z, terms.UnitColumns(), 1.0) is None
    assert couplings.MatrixFactorization(Y, weights=Y**2).minimize("W", z, terms.NonNegative(), 1.0) is None


@pytest.mark.parametrize("weighted", [False, True])
def test_singular_least_squares_without_a_proximal_term_is_still_a_minimiser(weighted):
    Y, z = example(4, 9, 7)  # more columns than rows
    H = couplings.MatrixFactorization(Y, weights=np.random.default_rng(8).random(Y.shape) if weighted else None)
    best = H.minimize("W", z, terms.Zero(), 0.0)
    assert np.linalg.norm(H.grad("W", {**z, "W": best})) < 1e-9


def test_columns_as_blocks_are_the_same_function():
    Y, z = example(6, 9, 3)
    whole, columns = couplings.MatrixFactorization(Y), couplings.ColumnFactorization(Y, 3)
    split = {f"d{k}": z["D"][:, k] for k in range(3)} | {f"w{k}": z["W"][:, k : k + 1] for k in range(3)}
    assert columns.value(split) == pytest.approx(whole.value(z), rel=1e-13)
    for k in range(3):
        assert close(columns.grad(f"d{k}", split), whole.grad("D", z)[:, k])
        assert close(columns.grad(f"w{k}", split), whole.grad("W", z)[:, k : k + 1])


@pytest.mark.parametrize(
    ("kind", "sparse"),
    [
        ("numpy64", False),
        ("numpy64", True),
        ("numpy32", False),
        ("numpy32", True),
        ("torch32", False),
        ("strict64", False),
    ],
)
def test_all_laws_hold_for_columns_as_blocks(kind, sparse):
    rng = np.random.default_rng(9)
    Y = rng.random((5, 7)) * (rng.random((5, 7)) < 0.6)
    H = couplings.ColumnFactorization(sp.csr_array(Y) if sparse else Y, 2)
    z = {f"d{k}": KINDS[kind](rng.random(5)) for k in range(2)} | {
        f"w{k}": KINDS[kind](rng.random((7, 1))) for k in range(2)
    }
    check_coupling(H, z)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (lambda Y: {"Y": np.where(Y > 1, np.nan, Y)}, "Y has NaN or Inf"),
        (lambda Y: {"Y": Y[0]}, "Y must be a matrix, got shape"),
        (lambda Y: {"Y": Y[:0]}, "Y is empty"),
        (lambda Y: {"Y": Y.astype(complex)}, "must be an array of real numbers, got complex128"),
        (lambda Y: {"Y": Y, "mask": Y > 0, "weights": Y**2}, "mask or weights, not both"),
        (lambda Y: {"Y": Y, "mask": (Y > 0)[:2]}, "mask must have the shape of Y"),
        (lambda Y: {"Y": Y, "mask": Y > 99}, "mask leaves no entry"),
        (lambda Y: {"Y": Y, "weights": Y}, "weights must not be negative"),
        (lambda Y: {"Y": sp.csr_array(Y), "mask": Y > 0}, "mask needs a dense Y"),
        (lambda Y: {"Y": Y, "codes": "D"}, "must be different blocks"),
        (lambda Y: {"Y": Y, "lipschitz": "guess"}, "must be one of 'power', 'gram', 'svd', got 'guess'"),
    ],
)
def test_bad_data_are_refused_in_a_sentence(arguments, sentence):
    Y, _ = example(6, 9, 3)
    with pytest.raises((ValueError, TypeError), match=sentence):
        couplings.MatrixFactorization(**arguments(Y))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda z: {**z, "W": z["W"][:4]}, r"block 'W' of MatrixFactorization must have shape \(9, m\), got \(4, 3\)"),
        (lambda z: {**z, "D": z["D"][:, :2]}, "blocks 'D' and 'W' .* same number of columns, got 2 and 3"),
        (lambda z: {"W": z["W"]}, "block 'D' of MatrixFactorization is missing"),
        (lambda z: {**z, "D": sp.csr_array(z["D"])}, "block 'D' of MatrixFactorization must be dense"),
    ],
)
def test_blocks_that_do_not_fit_are_refused_in_a_sentence(change, sentence):
    Y, z = example(6, 9, 3)
    H = couplings.MatrixFactorization(Y)
    for call in (H.value, lambda z: H.grad("W", z)):
        with pytest.raises((ValueError, TypeError), match=sentence):
            call(change(z))
    with pytest.raises(ValueError, match="has no block 'X'"):
        H.grad("X", z)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_a_visit_leaves_to_the_next_is_what_that_would_compute(dtype):
    rng = np.random.default_rng(5)
    H = couplings.MatrixFactorization(rng.normal(size=(30, 40)).astype(dtype))
    z = {"W": rng.normal(size=(40, 50)).astype(dtype), "D": rng.normal(size=(30, 50)).astype(dtype)}
    new = {**z, "D": rng.normal(size=(30, 50)).astype(dtype)}
    visit = H.restrict("D", z)
    visit.value_and_grad(z["D"])
    assert visit.settle(new["D"]) == pytest.approx(H.value(new), rel=1e-6)
    for block in ("W", "D"):
        following, fresh = H.restrict(block, new), H.restrict(block, new)
        following.inherit(visit)
        (value, gradient), (truth, right) = (r.value_and_grad(new[block]) for r in (following, fresh))
        assert value == truth
        np.testing.assert_array_equal(gradient, right)
    elsewhere = H.restrict("W", z)  # other blocks than those the visit ended with: nothing to inherit
    elsewhere.inherit(visit)
    assert elsewhere.value(z["W"]) == H.restrict("W", z).value(z["W"])


class Counting(couplings.MatrixFactorization):
    """Counts the residuals that are computed."""

    count = 0

    def restrict(self, block, z):
        restricted = super().restrict(block, z)
        misfit = restricted.misfit

        def counted(u):
            Counting.count += 1
            return misfit(u)

        restricted.misfit = counted
        return restricted


def test_a_sweep_of_palm_computes_two_residuals():
    """One a block: the one at the end of a sweep gives the objective, and the next sweep starts with it."""
    rng = np.random.default_rng(6)
    problem = tecu.Problem(Counting(rng.normal(size=(30, 40))), {"W": terms.L0(0.01), "D": terms.UnitColumns()})
    start = {"W": rng.normal(size=(40, 50)), "D": rng.normal(size=(30, 50))}
    states = methods.palm(problem).iterate(problem.project(start))
    next(states)
    before = Counting.count
    for _ in range(5):
        next(states)
    audits = 5 * 2 * 2  # at most, if all visits were audited
    assert 10 <= Counting.count - before <= 10 + audits // 4
