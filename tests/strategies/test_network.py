"""Networks, denoisers and plain functions inside a block."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from subproblems import factorization

import tecu
from tecu import stop, strategies, terms
from tecu.strategies.compose import as_strategy
from tecu.strategies.onnx_file import check_model
from tecu.testing import check_strategy

onnx = pytest.importorskip("onnx")


def model(nodes, inputs=1, outputs=1, shape=(None, None), kind=None, initializer=(), domain=""):
    kind = onnx.TensorProto.FLOAT if kind is None else kind
    tensor = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [tensor(f"x{i}", kind, shape) for i in range(inputs)],
        [tensor(f"y{i}", kind, None) for i in range(outputs)],
        list(initializer),
    )
    opsets = [onnx.helper.make_opsetid("", 17)]
    if domain:
        opsets.append(onnx.helper.make_opsetid(domain, 1))
    return onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8)


def halving(shape=(None, None), **options):
    half = onnx.helper.make_tensor("half", onnx.TensorProto.FLOAT, [], [0.5])
    return model([onnx.helper.make_node("Mul", ["x0", "half"], ["y0"])], shape=shape, initializer=[half], **options)


@pytest.fixture
def saved(tmp_path):
    def save(proto, name="net.onnx"):
        path = tmp_path / name
        path.write_bytes(proto.SerializeToString())
        return path

    return save


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_network_from_a_file(saved, rank, dtype):
    network = strategies.OnnxNetwork(saved(halving([None] * rank)))
    u = np.arange(6.0).reshape(2, 3).astype(dtype)
    answer = network(u)
    assert answer.dtype == dtype
    np.testing.assert_array_equal(answer, u / 2)


def test_functions_around_the_network(saved):
    network = strategies.OnnxNetwork(saved(halving()), before=np.log, after=lambda answer, u: np.exp(answer))
    np.testing.assert_allclose(network(np.full((2, 2), 9.0)), 3.0, rtol=1e-6)


def test_a_network_keeps_the_promises_of_a_strategy(saved):
    check_strategy(strategies.OnnxNetwork(saved(halving())), factorization("W", terms.L1(0.1)))


def test_a_network_can_be_copied_and_named(saved):
    network = strategies.OnnxNetwork(saved(halving()))
    u = np.ones((2, 3))
    network(u)
    twin = pickle.loads(pickle.dumps(network))
    np.testing.assert_array_equal(twin(u), network(u))
    assert repr(twin) == repr(network)
    assert repr(network) != repr(strategies.OnnxNetwork(saved(halving([None] * 4))))


def test_a_state_does_not_hold_the_session(saved, tmp_path):
    sub = factorization("W", terms.L1(0.1))
    network = strategies.OnnxNetwork(saved(halving()))
    problem = tecu.Problem(sub.smooth.coupling, {"W": terms.L1(0.1), "D": terms.Zero()})
    updates = {"W": tecu.Embed(strategies.first_visit(network), strategies.ProxGradient()), "D": tecu.ProxLinear()}
    result = tecu.Solver(problem, updates).run(sub.others, stop=stop.MaxIter(3))
    assert result.certificate.holds
    tecu.save_state(tmp_path / "state.npz", result.state)
    assert tecu.load_state(tmp_path / "state.npz").t == 3


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"OnnxNetwork: the file .*none\.onnx cannot be read"):
        strategies.OnnxNetwork(tmp_path / "none.onnx")


def test_a_file_of_another_kind_is_refused(tmp_path):
    path = tmp_path / "photo.onnx"
    path.write_bytes(bytes(range(256)))
    with pytest.raises(ValueError, match=r"photo\.onnx is not an ONNX file, or it is damaged"):
        strategies.OnnxNetwork(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match=r"photo\.onnx is not an ONNX file, or it is damaged"):
        strategies.OnnxNetwork(path)
    graph = b"\x3a\x00"  # a model whose graph is empty
    path.write_bytes(graph)
    with pytest.raises(ValueError, match=r"photo\.onnx is no model that onnxruntime can run"):
        strategies.OnnxNetwork(path)(np.ones((2, 2)))


def external(name):
    tensor = onnx.helper.make_tensor("half", onnx.TensorProto.FLOAT, [2], [0.5, 0.5])
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", name
    return tensor


def test_weights_in_other_files_are_refused(saved):
    node = onnx.helper.make_node("Mul", ["x0", "half"], ["y0"])
    with pytest.raises(ValueError, match=r"net\.onnx keeps weights in another file"):
        strategies.OnnxNetwork(saved(model([node], initializer=[external("weights.bin")])))


def test_weights_in_other_files_are_found_inside_nodes():
    constant = onnx.helper.make_node("Constant", [], ["half"], value=external("weights.bin"))
    inner = onnx.helper.make_graph([constant], "then", [], [onnx.helper.make_tensor_value_info("half", 1, [2])])
    branch = onnx.helper.make_node("If", ["c"], ["y0"], then_branch=inner, else_branch=inner)
    function = onnx.helper.make_function("own", "f", ["x"], ["y"], [constant], [onnx.helper.make_opsetid("", 17)])
    sparse = onnx.helper.make_sparse_tensor(external("weights.bin"), external("weights.bin"), [4])
    within = onnx.helper.make_node("Constant", [], ["half"])
    within.attribute.append(onnx.helper.make_attribute("sparse_value", sparse))
    proto = halving()
    proto.functions.append(function)
    for bad in (model([constant]), model([branch]), model([within]), proto):
        with pytest.raises(ValueError, match="it keeps weights in another file"):
            check_model(bad.SerializeToString(), "it")
    check_model(halving().SerializeToString(), "it")


@pytest.mark.parametrize("location", [b"\x70\x01", b"\x70\x81\x80\x80\x80\x10", b"\x70\x01\x70\x00"])
def test_a_location_cannot_be_disguised(location):
    """A number of more than 32 bits is cut by parsers; the last of two wins."""
    tensor = b"\x08\x01" + location
    graph = b"\x2a" + bytes([len(tensor)]) + tensor
    with pytest.raises(ValueError, match="another file"):
        check_model(b"\x3a" + bytes([len(graph)]) + graph, "it")
    disguised = b"\xf0\x80\x80\x80\x10" + location[1:]  # the same tag, but for bits that parsers drop
    tensor = b"\x08\x01" + disguised
    graph = b"\x2a" + bytes([len(tensor)]) + tensor
    with pytest.raises(ValueError, match="damaged"):
        check_model(b"\x3a" + bytes([len(graph)]) + graph, "it")


def test_a_domain_cannot_be_disguised():
    node = onnx.helper.make_node("Neg", ["x0"], ["y0"]).SerializeToString()
    for domains in ([b"", b"my.ops"], [b"my.ops", b""]):
        twice = node + b"".join(b"\x3a" + bytes([len(domain)]) + domain for domain in domains)
        graph = b"\x0a" + bytes([len(twice)]) + twice
        with pytest.raises(ValueError, match=r"custom operator my\.ops\.Neg"):
            check_model(b"\x3a" + bytes([len(graph)]) + graph, "it")


def test_functions_of_the_file_itself_are_no_custom_operators():
    negate = onnx.helper.make_node("Neg", ["x"], ["y"])
    function = onnx.helper.make_function("own", "f", ["x"], ["y"], [negate], [onnx.helper.make_opsetid("", 17)])
    proto = model([onnx.helper.make_node("f", ["x0"], ["y0"], domain="own")], domain="own")
    with pytest.raises(ValueError, match="custom operator"):
        check_model(proto.SerializeToString(), "it")
    proto.functions.append(function)
    check_model(proto.SerializeToString(), "it")


def test_operators_of_their_own_are_refused(saved):
    node = onnx.helper.make_node("Magic", ["x0"], ["y0"], domain="my.ops")
    with pytest.raises(ValueError, match=r"net\.onnx uses the custom operator my\.ops\.Magic"):
        strategies.OnnxNetwork(saved(model([node], domain="my.ops")))


def test_more_inputs_or_outputs_are_refused(saved):
    add = onnx.helper.make_node("Add", ["x0", "x1"], ["y0"])
    with pytest.raises(ValueError, match="must have one input, it has 2"):
        strategies.OnnxNetwork(saved(model([add], inputs=2)))(np.ones((2, 2)))
    two = [onnx.helper.make_node("Neg", ["x0"], [f"y{i}"]) for i in range(2)]
    with pytest.raises(ValueError, match="must have one output, it has 2"):
        strategies.OnnxNetwork(saved(model(two, outputs=2)))(np.ones((2, 2)))


def test_other_numbers_than_float32_are_refused(saved):
    node = onnx.helper.make_node("Neg", ["x0"], ["y0"])
    with pytest.raises(ValueError, match="must be float32"):
        strategies.OnnxNetwork(saved(model([node], kind=onnx.TensorProto.DOUBLE)))(np.ones((2, 2)))


def test_an_answer_of_another_size_is_refused(saved):
    node = onnx.helper.make_node("Concat", ["x0", "x0"], ["y0"], axis=0)
    with pytest.raises(ValueError, match=r"answered with shape \(4, 2\)"):
        strategies.OnnxNetwork(saved(model([node])))(np.ones((2, 2)))
    with pytest.raises(ValueError, match=r"cannot take an array of shape \(2, 3\)"):
        strategies.OnnxNetwork(saved(halving([5, 5])))(np.ones((2, 3)))


# -- functions --------------------------------------------------------------------------------------------------------


def shrink(image, sigma):
    image *= 1.0 - sigma  # a denoiser that works in place
    return image


def test_a_denoiser():
    denoiser = strategies.Denoiser(shrink, 0.25)
    u = np.ones((2, 2))
    np.testing.assert_array_equal(denoiser(u), 0.75)
    np.testing.assert_array_equal(u, 1.0)
    check_strategy(denoiser, factorization("W", terms.L1(0.1)))
    assert repr(denoiser) == "Denoiser(shrink, 0.25)"


@pytest.mark.parametrize("strength", [-1.0, float("nan"), float("inf")])
def test_a_bad_strength_is_refused(strength):
    with pytest.raises(ValueError, match="strength must be a finite number >= 0"):
        strategies.Denoiser(shrink, strength)


def test_a_denoiser_must_be_a_function():
    with pytest.raises(TypeError, match="Denoiser: function must be callable"):
        strategies.Denoiser("bm3d", 1.0)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_torch_module_serves_as_it_is(kind, dtype):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.5))
    as_kind = torch.from_numpy if kind == "torch" else np.asarray
    sub = factorization("W", terms.L1(0.1), dtype=dtype, kind=as_kind)
    check_strategy(module, sub)
    assert module.training
    assert module[1].training
    (answer,) = as_strategy(module)(sub, sub.previous)
    assert answer.dtype == sub.previous.dtype
    if kind == "torch":
        assert not answer.requires_grad


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_a_torch_module_that_answers_with_several_tensors_is_refused(kind):
    torch = pytest.importorskip("torch")
    as_kind = torch.from_numpy if kind == "torch" else np.asarray
    sub = factorization("W", terms.L1(0.1), kind=as_kind)
    network = as_strategy(torch.nn.LSTM(int(sub.previous.shape[1]), 2))
    with pytest.raises(TypeError, match=r"LSTM must answer with one tensor of the block's shape .* got a tuple"):
        next(iter(network(sub, sub.previous)))


def test_importing_strategies_is_light():
    heavy = ("torch", "numba", "onnxruntime", "sklearn")
    code = f"import sys, tecu.strategies; print([m for m in {heavy} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
