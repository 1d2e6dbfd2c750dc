"""Networks, denoisers and functions as strategies."""

import numpy as np
import pytest
import torch
from onnx import TensorProto, helper

import tecu
from tecu import couplings, interop, stop, strategies, terms
from tecu.testing import check_strategy

IMAGE = np.random.default_rng(2).random((6, 5))
PROBLEM = tecu.Problem(couplings.Difference("x", "v"), {"x": terms.Zero(), "v": terms.Box(0.0, 1.0)})


class TowardsMean(torch.nn.Module):
    """The interface of a deepinv denoiser: ``forward(x, sigma)`` on ``(batch, channel, height, width)``."""

    def __init__(self):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, sigma=None, **kwargs):
        assert x.ndim == 4
        return x + self.gain * sigma * (x.mean(dim=(-2, -1), keepdim=True) - x)


def towards_mean(image, sigma):
    return image + sigma * (image.mean() - image)


def sub():
    return tecu.SubProblem.of(PROBLEM, "v", {"x": IMAGE, "v": np.zeros_like(IMAGE)}, eta=1.0)


@pytest.mark.parametrize("kind", [np.float64, np.float32, torch.float32])
def test_a_module_and_a_function_denoise_alike(kind):
    u = IMAGE.astype(kind) if isinstance(kind, type) else torch.tensor(IMAGE, dtype=kind)
    module, function = (interop.strategy(part, strength=0.3) for part in (TowardsMean(), towards_mean))
    assert type(module(u)) is type(u)
    assert module(u).dtype == u.dtype
    np.testing.assert_allclose(np.asarray(module(u)), np.asarray(function(u)), rtol=1e-5)


@pytest.mark.parametrize("part", [TowardsMean(), towards_mean], ids=["module", "function"])
def test_a_denoiser_passes_the_laws_of_a_strategy_and_runs(part):
    denoiser = interop.strategy(part, strength=0.3)
    check_strategy(denoiser, sub())
    solver = tecu.Solver(
        PROBLEM, {"x": tecu.ProxLinear(), "v": tecu.Embed(denoiser, strategies.ProxGradient(), eta=0.1)}
    )
    result = solver.run({"x": IMAGE, "v": np.zeros_like(IMAGE)}, stop=stop.MaxIter(20))
    assert result.certificate.holds


def test_a_plain_module_a_strategy_and_a_file_are_taken(tmp_path):
    assert interop.strategy(torch.nn.Identity())(IMAGE) == pytest.approx(IMAGE)
    fista = strategies.FISTA()
    assert interop.strategy(fista) is fista
    node = helper.make_node("Relu", ["x"], ["y"])
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["h", "w"])] for name in "xy"]
    model = helper.make_model(helper.make_graph([node], "relu", *ends), opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = tmp_path / "relu.onnx"
    path.write_bytes(model.SerializeToString())
    np.testing.assert_allclose(interop.strategy(path)(IMAGE - 0.5), np.maximum(IMAGE - 0.5, 0.0), rtol=1e-6)


def test_a_denoiser_without_its_strength_is_named():
    for part in (TowardsMean(), towards_mean):
        with pytest.raises(TypeError, match="takes a strength as its argument 'sigma'; give it by strength="):
            interop.strategy(part)
    with pytest.raises(TypeError, match=r"has no argument for a strength, got strength=0\.1"):
        interop.strategy(torch.nn.Identity(), strength=0.1)
    with pytest.raises(TypeError, match=r"the ONNX file net\.onnx has no argument for a strength"):
        interop.strategy("net.onnx", strength=0.1)
    with pytest.raises(ValueError, match="strength must be a finite number"):
        interop.strategy(towards_mean, strength=-1.0)


def test_nothing_foreign_is_imported_with_the_adapters():
    import subprocess
    import sys

    code = (
        "import sys, tecu.interop; print([m for m in ('torch', 'pyproximal', 'pylops', 'deepinv') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"
