"""A state goes on with its own settings only, and with all that are its own, built anew in whatever process."""

from __future__ import annotations

import enum
import inspect
import os
import subprocess
import sys
import textwrap
from collections import OrderedDict
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path, PurePosixPath
from threading import RLock

import numpy as np
import pytest
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import aslinearoperator

import tecu
from problems import dictionary, three_blocks
from tecu import couplings, interop, stop, strategies, terms
from tecu.dictionary.coupling import BatchedFactorization
from tecu.fingerprint import DEEPEST, SAMPLE, fingerprint
from tecu.strategies.network import TorchNetwork

Y = np.random.default_rng(0).random((4, 6))
DARK = np.linspace(0.1, 0.4, 12).reshape(3, 4)
FOLDER = Path(__file__).parent


def smooth(u, strength=0.1):
    return u + strength * (u.mean() - u)


def twice(u):
    return 2.0 * u


def first_of(sub):
    return twice


def energy(z):
    return 0.0


def slope(z):
    return 0.0 * z["x"]


class Network:
    """A callable object with settings: public ones, one in a slot, and a private cache."""

    __slots__ = ("_calls", "layers", "strength")

    def __init__(self, strength=0.1, layers=3):
        self.strength, self.layers, self._calls = strength, layers, 0

    def __call__(self, u):
        self._calls += 1
        return smooth(u, self.strength)


class Weighted(terms.L1):
    """A dataclass's heir with a setting that is no field of it."""

    def __init__(self, weights):
        super().__init__(1.0)
        object.__setattr__(self, "weights", np.asarray(weights))


def torch_network(weight=1.0, bias=0.0, kind="Tanh", slope=None):
    import torch

    layer = torch.nn.Linear(2, 2)
    torch.nn.init.constant_(layer.weight, weight)
    torch.nn.init.constant_(layer.bias, bias)
    second = torch.nn.LeakyReLU(slope) if slope is not None else getattr(torch.nn, kind)()
    return TorchNetwork(torch.nn.Sequential(layer, second))


def torch_buffers(mean=0.0, dtype="bfloat16"):
    import torch

    part = torch.nn.BatchNorm1d(2).to(getattr(torch, dtype))
    part.running_mean.fill_(mean)
    return part


def onnx(weight):
    pytest.importorskip("onnx")
    from onnx import TensorProto, helper

    graph = helper.make_graph(
        [helper.make_node("Mul", ["u", "w"], ["v"])], "scale",
        [helper.make_tensor_value_info("u", TensorProto.FLOAT, [None])],
        [helper.make_tensor_value_info("v", TensorProto.FLOAT, [None])],
        [helper.make_tensor("w", TensorProto.FLOAT, [1], [weight])],
    )  # fmt: skip
    return helper.make_model(graph)


BOX, FUNCTIONS = (np.zeros(3), np.ones(3)), (energy, {"x": slope})
SETTINGS = {
    # name of the part: how it is built, its settings, and one other value for each that matters
    "Proximal": (tecu.Proximal, {}, {"eta": 2.0}),
    "ProxLinear": (
        tecu.ProxLinear, {"extrapolation": tecu.Inertial()},
        {"step_factor": 1.2, "extrapolation": tecu.Nesterov(), "safeguard": False},
    ),
    "Inertial": (tecu.Inertial, {}, {"alpha": 0.1, "beta": 0.1, "eps": 0.1}),
    "Nesterov": (tecu.Nesterov, {}, {"bound": 0.9}),
    "Embed": (
        partial(tecu.Embed, strategies.FISTA()), {"eta": 1.0, "c": 0.25},
        {"eta": 2.0, "c": 0.2, "max_inner": 9, "at_cap": "keep_if_descends", "tolerance": tecu.MovingTolerance(0.1),
         "tau": 1.0, "extrapolation": 0.3},
    ),
    "Embed's strategies": (
        lambda strategy: tecu.Embed(*strategy), {"strategy": (strategies.steps(twice, 1), strategies.FISTA())},
        {"strategy": (strategies.FISTA(),)},
    ),
    "MovingTolerance": (tecu.MovingTolerance, {"c": 0.1}, {"c": 0.2}),
    "FixedTolerance": (tecu.FixedTolerance, {"accuracy": 0.1}, {"accuracy": 0.2}),
    "SummableTolerance": (tecu.SummableTolerance, {"first": 0.1}, {"first": 0.2, "power": 2.0}),
    "ADMM": (strategies.ADMM, {}, {"rho": 2.0}),
    "FISTA": (strategies.FISTA, {}, {"restart": False}),
    "PCG": (strategies.PCG, {}, {"preconditioner": first_of}),
    "OrthogonalMatchingPursuit": (strategies.OrthogonalMatchingPursuit, {}, {"n_nonzero": 3}),
    "a denoiser": (
        lambda **own: tecu.Embed(strategies.Denoiser(**own)), {"function": smooth, "strength": 0.1},
        {"function": Network(), "strength": 0.9},
    ),
    "steps": (
        lambda rho, count: tecu.Embed(strategies.steps(strategies.ADMM(rho), count), strategies.FISTA()),
        {"rho": 1.0, "count": 3}, {"rho": 2.0, "count": 4},
    ),
    "first_visit": (
        lambda strength: tecu.Embed(strategies.first_visit(strategies.Denoiser(smooth, strength)), strategies.FISTA()),
        {"strength": 0.1}, {"strength": 0.2},
    ),
    "a callable object": (lambda **own: tecu.Embed(Network(**own)), {}, {"strength": 0.2, "layers": 4}),
    "a method": (lambda **own: tecu.Embed(Network(**own).__call__), {}, {"strength": 0.2}),
    "a partial": (
        lambda function, *, strength: tecu.Embed(partial(function, strength=strength)),
        {"function": smooth, "strength": 0.1}, {"function": twice, "strength": 0.2},
    ),
    "a torch network": (
        lambda **own: tecu.Embed(torch_network(**own)), {}, {"weight": 2.0, "bias": 0.1, "kind": "ReLU", "slope": 0.3},
    ),
    "torch buffers": (torch_buffers, {}, {"mean": 1.0, "dtype": "float16"}),
    "L0": (terms.L0, {"weight": 0.1}, {"weight": 0.2}),
    "BoundedL0": (terms.BoundedL0, {"weight": 0.1, "bound": 1.0}, {"weight": 0.2, "bound": 2.0}),
    "L1": (terms.L1, {"weight": 0.1}, {"weight": 0.2}),
    "SquaredL2": (terms.SquaredL2, {"weight": 0.1}, {"weight": 0.2}),
    "GroupL21": (terms.GroupL21, {"weight": 0.1}, {"weight": 0.2, "axis": 1}),
    "KSparse": (terms.KSparse, {"k": 3}, {"k": 4, "axis": 0}),
    "Rank": (terms.Rank, {"r": 3}, {"r": 4}),
    "NuclearNorm": (terms.NuclearNorm, {"weight": 0.1}, {"weight": 0.2}),
    "Simplex": (terms.Simplex, {}, {"axis": 1, "total": 2.0}),
    "UnitColumns": (terms.UnitColumns, {}, {"ball": True}),
    "UnitRows": (terms.UnitRows, {}, {"ball": True}),
    "Box": (terms.Box, {"lower": 0.0, "upper": 1.0}, {"lower": -1.0, "upper": 2.0}),
    "Box of arrays": (
        terms.Box, {"lower": BOX[0], "upper": BOX[1]}, {"lower": BOX[0] - 1.0, "upper": BOX[1] + [0.0, 0.0, 1.0]},
    ),
    "a sum of terms": (
        lambda weight, term: terms.L1(weight) + term, {"weight": 0.1, "term": terms.NonNegative()},
        {"weight": 0.2, "term": terms.SquaredL2(0.1)},
    ),
    "a user's term": (Weighted, {"weights": [1.0, 2.0]}, {"weights": [1.0, 3.0]}),
    "Linear": (
        couplings.Linear, {"operator": np.eye(3), "data": np.ones(3)},
        {"operator": np.diag([1.0, 1.0, 2.0]), "data": np.array([1.0, 1.0, 2.0]), "block": "y"},
    ),
    "Linear of a sparse matrix": (
        couplings.Linear, {"operator": csr_array(np.eye(3)), "data": np.ones(3)},
        {"operator": csr_array(np.eye(3)[::-1].copy())},
    ),
    "Linear of an operator": (
        couplings.Linear, {"operator": aslinearoperator(np.eye(3)), "data": np.ones(3)},
        {"operator": aslinearoperator(2 * np.eye(3))},
    ),
    "MatrixFactorization": (
        couplings.MatrixFactorization, {"Y": Y},
        {"Y": Y + 1.0, "codes": "V", "dictionary": "E", "mask": Y > 0.5, "weights": Y, "lipschitz": "gram"},
    ),
    "MatrixFactorization of CSR": (
        couplings.MatrixFactorization, {"Y": csr_array(Y * (Y > 0.5))},
        {"Y": csr_array(2.0 * Y * (Y > 0.5)), "lipschitz": "gram"},
    ),
    "ColumnFactorization": (couplings.ColumnFactorization, {"Y": Y, "rank": 2},
        {"Y": Y + 1.0, "rank": 3, "codes": "v", "dictionary": "e"}),
    "Difference": (
        couplings.Difference, {"first": "x", "second": "v"}, {"first": "y", "second": "w", "weight": 2.0},
    ),
    "a sum of couplings": (
        lambda weight: couplings.Difference("x", "v") + couplings.Difference("v", "w", weight=weight),
        {"weight": 1.0}, {"weight": 2.0},
    ),
    "Convolution": (
        couplings.Convolution, {"observed": DARK, "kernel": np.ones((1, 1))},
        {"observed": DARK + 1.0, "kernel": 2 * np.ones((1, 1)), "image": "y"},
    ),
    "Retinex": (
        couplings.Retinex, {"observed": DARK, "anchor": DARK, "beta": 0.5},
        {"observed": DARK / 2, "illumination": "L", "reflectance": "S", "alpha": 0.5, "beta": 0.7, "anchor": DARK / 2},
    ),
    "Functions": (
        couplings.Functions, {"value": energy, "grads": {"x": slope}},
        {"value": twice, "grads": {"x": twice}, "lipschitz": {"x": 1.0}, "hessian": {"x": twice},
         "minimize": {"x": twice}, "computes_in": "float32"},
    ),
    "Functions' constants": (partial(couplings.Functions, *FUNCTIONS), {"lipschitz": {"x": 1.0}},
                             {"lipschitz": {"x": 2.0}}),
    "Autodiff": (
        couplings.Autodiff, {"fn": energy, "blocks": ["x"], "backend": "torch"},
        {"fn": slope, "blocks": ["y"], "backend": "jax", "computes_in": "float32"},
    ),
    "batches": (
        BatchedFactorization, {"Y": Y, "batches": [slice(0, 2), slice(2, 4)]},
        {"Y": Y + 1.0, "batches": [slice(0, 1), slice(1, 4)]},
    ),
    "kinds of values": (
        dict, {"bytes": b"a", "path": PurePosixPath("a"), "set": {"a", "b"}, "frozen": frozenset((1, 2)),
               "nested": [[1], 2], "dtype": np.dtype("f4"), "scalar": np.float32(1.0), "enum": enum.Enum("E", "a b").a,
               "objects": np.array([1, "a"], object), "place": coo_array(([1.0], ([0], [1])), shape=(2, 2)),
               "bool": False},
        {"bytes": b"b", "path": PurePosixPath("b"), "set": {"a", "c"}, "frozen": frozenset((1, 3)),
         "nested": [[1, 2]], "dtype": np.dtype("f8"), "scalar": np.float32(1.5), "enum": enum.Enum("E", "a b").b,
         "objects": np.array([1, "b"], object), "place": coo_array(([1.0], ([1], [0])), shape=(2, 2)), "bool": 0},
    ),
}  # fmt: skip
ELSEWHERE = {"Candidate", "Denoiser", "OnnxNetwork", "Sum", "first_visit", "steps"}  # below other names, or no part
FIXED = {"kind", "boundary"}  # arguments that can have one value only
CHANGES = [pytest.param(part, name, id=f"{part}-{name}") for part in SETTINGS for name in SETTINGS[part][2]]


def as_in_a_solver(part):
    """The fingerprint of a part, as far down as it is in a solver."""
    return fingerprint(None, {"W": part}, "cyclic", 0)


@pytest.mark.parametrize(("part", "name"), CHANGES)
def test_every_setting_counts(part, name):
    build, own, others = SETTINGS[part]
    changed = {**own, name: others[name]}
    assert as_in_a_solver(build(**own)) != as_in_a_solver(build(**changed))


def test_the_table_misses_no_argument_of_a_part():
    named = [(module, name) for module in (terms, couplings, strategies) for name in module.__all__]
    named += [(tecu, name) for name in ("Proximal", "ProxLinear", "Inertial", "Nesterov", "MovingTolerance")]
    for module, name in named:
        arguments = inspect.signature(getattr(module, name)).parameters.values()
        own = {each.name for each in arguments if each.kind is not inspect.Parameter.VAR_POSITIONAL}
        if name not in ELSEWHERE and own:
            assert own - FIXED == set(SETTINGS[name][2]), name


@pytest.mark.parametrize("part", SETTINGS)
def test_the_same_settings_built_anew_are_the_same(part):
    build, own, _ = SETTINGS[part]
    assert fingerprint(build(**own)) == fingerprint(build(**own))


OTHERS = {
    "term": lambda case: ({"W": terms.L0(0.03), "D": terms.UnitColumns()}, {}),
    "second term": lambda case: ({"W": terms.L0(0.02), "D": terms.UnitColumns(ball=True)}, {}),
    "update": lambda case: (None, {"updates": tecu.ProxLinear(step_factor=1.2)}),
    "strategy": lambda case: (None, {"updates": tecu.Embed(strategies.Denoiser(smooth, 0.9))}),
    "schedule": lambda case: (None, {"schedule": "shuffled"}),
    "list": lambda case: (None, {"schedule": ["D", "W"]}),
    "function": lambda case: (None, {"schedule": partial(repeated, times=2)}),
    "seed": lambda case: (None, {"seed": 1}),
}


def repeated(t, times=1):
    return ["W"] * times + ["D"]


@pytest.mark.parametrize("change", OTHERS)
def test_a_state_is_refused_when_one_setting_is_another(change):
    case = dictionary()
    own = {"updates": tecu.Embed(strategies.Denoiser(smooth, 0.1)), "schedule": partial(repeated, times=1), "seed": 0}
    state = tecu.Solver(case.problem, **own).run(case.start, stop=stop.MaxIter(1))
    other_terms, other = OTHERS[change](case)
    problem = case.problem if other_terms is None else tecu.Problem(case.problem.coupling, other_terms)
    with pytest.raises(ValueError, match="another problem or to other settings"):
        tecu.Solver(problem, **(own | other)).run(state, stop=stop.MaxIter(2))
    assert tecu.Solver(dictionary().problem, **own).run(state, stop=stop.MaxIter(2)).iterations == 2


def test_a_network_is_known_by_its_file_wherever_that_lies(tmp_path):
    paths = [tmp_path / name for name in ("a.onnx", "moved.onnx", "b.onnx")]
    for path, weight in zip(paths, (0.5, 0.5, 0.6), strict=True):
        path.write_bytes(onnx(weight).SerializeToString())
    same, moved, other = (fingerprint(tecu.Embed(strategies.OnnxNetwork(path))) for path in paths)
    assert same == moved
    assert other != same
    assert fingerprint(tecu.Embed(strategies.OnnxNetwork(paths[0], before=twice))) != same


SCRIPT = textwrap.dedent(
    f"""
    import sys; sys.path.insert(0, {str(FOLDER)!r})
    from pathlib import Path
    import test_fingerprint as tests
    for build, own, _ in tests.SETTINGS.values():
        print(tests.fingerprint(build(**own)))
    solver, case = tests.solver_with_everything()
    path = Path(sys.argv[1])
    if path.exists():
        resumed = solver.run(tests.tecu.load_state(path), stop=tests.stop.MaxIter(4))
        assert resumed.value == solver.run(case.start, stop=tests.stop.MaxIter(4)).value
    else:
        tests.tecu.save_state(path, solver.run(case.start, stop=tests.stop.MaxIter(2)).state)
    """
)


def test_the_same_settings_are_accepted_in_another_process(tmp_path):
    said = []
    for seed in ("1", "2"):  # of the order of sets
        command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run.npz")]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        said.append(subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment, check=True).stdout)
    assert len(said[0].split()) == len(SETTINGS)
    assert said[0] == said[1]


def solver_with_everything():
    case = three_blocks()
    network = tecu.Embed(
        strategies.first_visit(Network(0.2)), strategies.steps(strategies.ADMM(2.0), 2),
        partial(smooth, strength=0.01), strategies.FISTA(),
    )  # fmt: skip
    updates = {"x": network, "v": tecu.Proximal(0.5), "w": tecu.ProxLinear(extrapolation=tecu.Nesterov())}
    return tecu.Solver(case.problem, updates, partial(in_turn, blocks=frozenset("xvw")), seed=4), case


def in_turn(t, blocks):
    return sorted(blocks)


class Caching:
    """Everything that changes in a run and is no setting."""

    def __init__(self):
        self.setting = 1.0
        self._calls, self._lock, self._cache = 0, RLock(), {}

    @cached_property
    def square(self):
        return self.setting**2

    def use(self):
        self._calls += 1
        self._cache[object()] = self.square


@dataclass
class CachingFields:
    setting: float = 1.0
    found: list = field(default_factory=list, compare=False)

    def use(self):
        self.found.append(1)


class ByItself:
    """An object that says what counts of it."""

    def __init__(self, private, counter=0):
        self._private, self.counter = private, counter

    def fingerprint(self):
        return (self._private,)

    def use(self):
        self.counter += 1


@pytest.mark.parametrize("build", [Caching, CachingFields, partial(ByItself, 1)])
def test_caches_locks_and_counters_do_not_count(build):
    thing = build()
    before = fingerprint(thing)
    thing.use()
    assert fingerprint(thing) == before == fingerprint(build())


def test_an_object_may_say_itself_what_counts_of_it():
    assert fingerprint(ByItself(1)) != fingerprint(ByItself(2))


@pytest.mark.parametrize("case", [dictionary(), three_blocks()], ids=str)
def test_a_run_does_not_change_the_fingerprint_of_its_problem(case):
    before = fingerprint(case.problem)
    tecu.methods.palm(case.problem).run(case.start, stop=stop.MaxIter(3))
    assert fingerprint(case.problem) == before


def test_other_peoples_counters_are_no_settings():
    import pylops
    import pyproximal

    operator = pylops.FirstDerivative(6, kind="forward")
    term = interop.term(pyproximal.L1(sigma=0.1))
    problem = tecu.Problem(couplings.Linear(operator, np.arange(6.0)), {"x": term})
    solver = tecu.methods.palm(problem)
    half = solver.run({"x": np.zeros(6)}, stop=stop.MaxIter(2))
    assert solver.run(half, stop=stop.MaxIter(4)).iterations == 4
    anew = tecu.Problem(
        couplings.Linear(pylops.FirstDerivative(6, kind="forward"), np.arange(6.0)),
        {"x": interop.term(pyproximal.L1(sigma=0.1))},
    )
    assert tecu.methods.palm(anew).run(half, stop=stop.MaxIter(4)).iterations == 4
    other = tecu.Problem(problem.coupling, {"x": interop.term(pyproximal.L1(sigma=0.2))})
    assert fingerprint(other) != fingerprint(problem)
    backward = couplings.Linear(pylops.FirstDerivative(6, kind="backward"), np.arange(6.0))
    assert fingerprint(backward) != fingerprint(problem.coupling)


class Node:
    def __init__(self, name, *others):
        self.name, self.others = name, list(others)


def ring(length, name="last"):
    nodes = [Node("node") for _ in range(length)]
    nodes[-1].name = name
    for one, other in zip(nodes, [*nodes[1:], nodes[0]], strict=True):
        one.others.append(other)
    return nodes[0]


def test_objects_that_hold_each_other_are_read_once():
    assert fingerprint(ring(5)) == fingerprint(ring(5))
    assert fingerprint(ring(5)) != fingerprint(ring(6))
    assert fingerprint(ring(5)) != fingerprint(ring(5, name="other"))
    diamond = Node("bottom")
    for _ in range(60):  # 2^60 ways down
        diamond = Node("level", diamond, diamond)
    fingerprint(diamond)
    chain = Node("end")
    for _ in range(20 * DEEPEST):
        chain = Node("link", chain)
    fingerprint(chain)


def test_whether_two_parts_are_one_object_does_not_count():
    shared = tecu.ProxLinear()
    assert fingerprint({"W": shared, "D": shared}) == fingerprint({"W": tecu.ProxLinear(), "D": tecu.ProxLinear()})


class Raising:
    __slots__ = ("never_set", "setting")

    def __init__(self, setting):
        self.setting = setting

    def __getattr__(self, name):
        raise RuntimeError(name)


class Unsayable:
    def __init__(self):
        self.setting = 1.0

    def fingerprint(self):
        raise RuntimeError("not now")


class OddString(str):
    __slots__ = ()

    def __repr__(self):
        raise RuntimeError("no")


ODD = {
    "attributes that raise": Raising(1.0), "a fingerprint that raises": Unsayable(), "its repr raises": OddString("a"),
    "half a character": "\ud800", "a package": np, "a module": sys, "a function": smooth, "a class": Node,
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
def test_odd_objects_are_read_without_an_error(odd):
    assert fingerprint(ODD[odd], [ODD[odd]], {"a": ODD[odd]}) == fingerprint(ODD[odd], [ODD[odd]], {"a": ODD[odd]})


def test_large_data_are_sampled_once_however_many_hold_them(monkeypatch):
    large = np.zeros(3 * SAMPLE)
    seen = []
    plain = np.ascontiguousarray
    monkeypatch.setattr("tecu.fingerprint.np.ascontiguousarray", lambda a: seen.append(a.size) or plain(a))
    fingerprint(Node("a"), [large, {"again": large}], OrderedDict(more=large))
    assert len(seen) == 1
    assert seen[0] <= SAMPLE
