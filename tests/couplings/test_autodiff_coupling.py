from functools import partial

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from coupling_kinds import KINDS, close, tolerance

import tecu
from tecu import arrays, couplings, terms
from tecu.testing import check_coupling

Y = np.random.default_rng(0).standard_normal((5, 7))


def blocks():
    rng = np.random.default_rng(1)
    return {"W": rng.standard_normal((7, 3)), "D": rng.standard_normal((5, 3))}


def torch_factors(W, D):
    return 0.5 * ((torch.as_tensor(Y, dtype=D.dtype) - D @ W.T) ** 2).sum()


def jax_factors(W, D):
    return 0.5 * ((jnp.asarray(Y, dtype=D.dtype) - D @ W.T) ** 2).sum()


CASES = [
    ("torch64", torch_factors, None), ("torch32", torch_factors, None), ("jax32", jax_factors, None),
    ("numpy64", torch_factors, "torch"), ("numpy32", torch_factors, "torch"),
    ("numpy64", jax_factors, "jax"), ("numpy32", jax_factors, "jax"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "fn", "backend"), CASES, ids=lambda case: getattr(case, "__name__", str(case)))
def test_gradients_equal_the_hand_written_ones(kind, fn, backend):
    z, wanted = blocks(), couplings.MatrixFactorization(Y)
    there = {name: KINDS[kind](x) for name, x in z.items()}
    H = couplings.Autodiff(fn, backend=backend)
    assert H.blocks == ("W", "D")
    rtol = tolerance(kind)
    assert H.value(there) == pytest.approx(wanted.value(z), rel=rtol)
    for block in z:
        value, gradient = H.restrict(block, there).value_and_grad(there[block])
        assert value == pytest.approx(wanted.value(z), rel=rtol)
        assert type(gradient) is type(there[block])
        assert gradient.dtype == there[block].dtype
        assert close(arrays.host(gradient), wanted.grad(block, z), rtol)


@pytest.mark.parametrize(
    ("kind", "backend"),
    [("torch64", None), ("torch32", None), ("numpy64", "torch"), ("numpy32", "torch"), ("numpy64", "jax")],
)
def test_all_laws_hold_for_a_function_that_is_not_quadratic(kind, backend):
    xp = jnp if backend == "jax" else torch

    def fn(x, y):
        return (xp.sin(x) * y**2).sum() + xp.exp(-(y**2)).sum()

    rng = np.random.default_rng(2)
    z = {name: KINDS[kind](rng.standard_normal((3, 4))) for name in ("x", "y")}
    check_coupling(couplings.Autodiff(fn, backend=backend), z)


def test_tensors_are_left_as_they_were():
    z = {name: torch.tensor(x) for name, x in blocks().items()}
    H = couplings.Autodiff(torch_factors)
    with torch.no_grad():
        gradient = H.grad("W", z)
    assert not gradient.requires_grad
    assert all(not x.requires_grad and x.grad is None for x in z.values())


def test_network_with_its_own_parameters_can_be_part_of_it():
    net = torch.nn.Linear(4, 2).double()
    H = couplings.Autodiff(lambda x: (net(x) ** 2).sum())
    z = {"x": torch.ones(3, 4, dtype=torch.float64)}
    check_coupling(H, z)
    assert all(p.grad is None for p in net.parameters())


def test_it_adds_up_with_other_couplings():
    z = {name: torch.tensor(x) for name, x in blocks().items()}
    penalty = couplings.Autodiff(lambda D: (D**4).sum())
    check_coupling(couplings.MatrixFactorization(Y) + penalty, z)


def test_bad_functions_are_refused_in_a_sentence():
    x = torch.ones(3, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"fn must give a scalar tensor or array, got an array of shape \(3,\)"):
        couplings.Autodiff(lambda x: x**2).grad("x", {"x": x})
    with pytest.raises(ValueError, match=r"got a float; return the tensor or array itself, without float\(\)"):
        couplings.Autodiff(lambda x: float(x.sum())).value({"x": x})
    with pytest.raises(ValueError, match="finds no way from block 'x'"):
        couplings.Autodiff(lambda x: (x.detach() ** 2).sum()).grad("x", {"x": x})
    with pytest.raises(ValueError, match=r"got an array of shape \(3,\)"):
        couplings.Autodiff(lambda x: x**2).grad("x", {"x": jnp.ones(3)})
    with pytest.raises(TypeError, match="say backend='torch' or backend='jax'"):
        couplings.Autodiff(lambda x: x.sum()).value({"x": np.ones(3)})
    with pytest.raises(ValueError, match="backend must be 'torch', 'jax' or None"):
        couplings.Autodiff(lambda x: x.sum(), backend="numpy")
    with pytest.raises(ValueError, match="block 'y' of Autodiff is missing"):
        couplings.Autodiff(lambda x, y: x.sum()).value({"x": x})
    with pytest.raises(ValueError, match="give them by blocks"):
        couplings.Autodiff(lambda **z: 0.0)


@pytest.mark.parametrize("call", ["value", "grad"])
def test_a_network_of_another_precision_is_answered_with_what_to_do(call):
    network = torch.nn.Linear(3, 1)
    H = couplings.Autodiff(lambda x: network(x).sum(), backend="torch")
    arguments = [{"x": np.ones(3)}] if call == "value" else ["x", {"x": np.ones(3)}]
    sentence = r"does not take blocks of the precision \{'x': 'torch.float64'\}.*double\(\).*computes_in='float32'"
    with pytest.raises(TypeError, match=sentence):
        getattr(H, call)(*arguments)


def mismatched(u, v):
    return (u @ v).sum()


class Model:
    def __call__(self, u, v):
        return (u @ v).sum()


WRONG_SHAPES = {"torch": RuntimeError, "jax": TypeError}  # what they raise themselves


@pytest.mark.parametrize("backend", WRONG_SHAPES)
@pytest.mark.parametrize("fn", [mismatched, partial(mismatched), Model()], ids=["function", "partial", "object"])
def test_an_error_inside_the_function_comes_with_its_name_and_the_shapes_of_the_blocks(fn, backend):
    z = {"v": np.ones((4, 2)), "u": np.ones((5, 3))}
    H = couplings.Autodiff(fn, ["u", "v"], backend=backend)
    named = "Model" if isinstance(fn, Model) else "mismatched"
    ways = {
        "computing": lambda: H.value(z),
        "differentiating with respect to block 'v'": lambda: H.grad("v", z),
        "differentiating with respect to block 'u'": lambda: H.restrict("u", z).value_and_grad(z["u"]),
    }
    for doing, call in ways.items():
        with pytest.raises(WRONG_SHAPES[backend]) as caught:
            call()
        assert type(caught.value) is WRONG_SHAPES[backend]
        assert [note for note in caught.value.__notes__ if note.startswith("Autodiff")] == [
            f"Autodiff: this came up in {doing} the function '{named}', "
            "given blocks 'u' of shape (5, 3), 'v' of shape (4, 2)"
        ]


def test_the_error_is_the_one_that_was_raised_and_reaches_the_user_of_a_solver():
    raised = KeyError("weights")

    def fails(x):
        raise raised

    H = couplings.Autodiff(fails, backend="torch")
    for call in (
        lambda: H.value({"x": np.ones(3)}),
        lambda: tecu.Solver(tecu.Problem(H, {"x": terms.Zero()}), tecu.ProxLinear()).run({"x": np.ones(3)}),
    ):
        raised.__notes__ = []
        with pytest.raises(KeyError) as caught:
            call()
        assert caught.value is raised
        assert raised.__notes__ == [
            "Autodiff: this came up in computing the function 'fails', given blocks 'x' of shape (3,)"
        ]


def test_an_error_on_the_way_back_comes_with_the_note_too():
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x.sum()

        @staticmethod
        def backward(context, gradient):
            raise ZeroDivisionError("no way back")

    H = couplings.Autodiff(lambda x: Breaks.apply(x), backend="torch")
    assert H.value({"x": np.ones(3)}) == 3.0
    with pytest.raises(ZeroDivisionError, match="no way back") as caught:
        H.grad("x", {"x": np.ones(3)})
    assert "block 'x' the function '<lambda>', given blocks 'x' of shape (3,)" in caught.value.__notes__[-1]


def test_what_is_no_error_passes_without_a_note():
    def stopped(x):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        couplings.Autodiff(stopped, backend="torch").value({"x": np.ones(3)})
    assert not hasattr(caught.value, "__notes__")


def test_a_list_in_the_place_of_a_block_does_not_hide_the_error():
    with pytest.raises(ZeroDivisionError) as caught:
        couplings.Autodiff(lambda x: 1 / 0, backend="torch").value({"x": [1.0, 2.0]})
    assert "'x' (a list)" in caught.value.__notes__[-1]
