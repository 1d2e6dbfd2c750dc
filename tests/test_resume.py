"""A state is enough to go on from: bit-identical iterates, one file, no pickle, whole or not at all."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import coo_array, csc_array, csr_array, csr_matrix

import tecu
from problems import dictionary, three_blocks, without_lipschitz
from tecu import arrays, couplings, stop, strategies, terms
from tecu.dictionary import make_sparse_data
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import plan


def solvers():
    case = dictionary()
    W = tecu.ProxLinear(extrapolation=tecu.Nesterov())
    for name, update, schedule in [
        ("admm", tecu.Embed(strategies.ADMM(), eta=1.0, c=0.25), "cyclic"),
        ("fista", tecu.Embed(strategies.FISTA(), extrapolation=0.3), "shuffled"),
        ("inertial", tecu.ProxLinear(extrapolation=tecu.Inertial()), ["W", "D", "W"]),
    ]:
        yield pytest.param(tecu.Solver(case.problem, {"W": W, "D": update}, schedule, seed=3), case.start, id=name)
    case = without_lipschitz()
    yield pytest.param(tecu.Solver(case.problem, tecu.Embed(strategies.ProxGradient())), case.start, id="back-tracking")


def same(one, other):
    for block in one.z:
        np.testing.assert_array_equal(arrays.dense(one.z[block]), arrays.dense(other.z[block]))
    assert one.value == other.value
    records = [np.array([(v.move, v.error, v.inner, v.value) for v in state.visits]) for state in (one, other)]
    np.testing.assert_array_equal(*records)


@pytest.mark.parametrize(("solver", "start"), list(solvers()))
def test_a_saved_run_goes_on_with_the_same_bits(solver, start, tmp_path):
    states = list(islice(solver.iterate(start), 20))
    path = tmp_path / "run.npz"
    tecu.save_state(path, states[7])
    loaded = tecu.load_state(path)
    same(loaded, states[7])
    *_, last = islice(solver.iterate(loaded), 12)
    assert last.t == 20
    same(last, states[-1])


@pytest.mark.parametrize(("solver", "start"), list(solvers()))
def test_going_on_from_a_result_equals_one_run(solver, start):
    whole = solver.run(start, stop=stop.MaxIter(14))
    half = solver.run(start, stop=stop.MaxIter(6))
    assert half.iterations == 6
    both = solver.run(half, stop=stop.MaxIter(14))
    same(both.state, whole.state)
    assert both.certificate.verdict is whole.certificate.verdict
    assert len(both.history["value"]) == 15


@pytest.mark.parametrize("schedule", ["cyclic", ["D", "W"]])
@pytest.mark.parametrize("kinds", [("f4", "f8"), ("f8", "f4")])
def test_blocks_of_two_precisions_resume_with_the_same_bits(schedule, kinds):
    case = dictionary()
    start = {block: case.start[block].astype(kind) for block, kind in zip("WD", kinds, strict=True)}
    start["W"] = start["W"] + np.random.default_rng(0).normal(size=start["W"].shape).astype(kinds[0])
    solver = tecu.Solver(case.problem, tecu.ProxLinear(), schedule)
    start = case.problem.project(start)
    states = list(islice(solver.iterate(start), 6))
    *_, last = islice(solver.iterate(states[2]), 3)
    same(last, states[-1])
    begun = solver.run(start, stop=stop.MaxIter(0))
    same(solver.run(begun, stop=stop.MaxIter(6)).state, states[-1])


@pytest.mark.parametrize("term", [terms.L0(0.1), terms.KSparse(3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_codes_in_batches_resume_with_the_same_bits_in_the_same_solver(dtype, term):
    rng = np.random.default_rng(0)
    H = BatchedFactorization(rng.normal(size=(30, 8)).astype(dtype), [slice(0, 12), slice(12, 30)])
    kinds = {"W0": term, "W1": term, "D": terms.UnitColumns()}
    solver = tecu.Solver(tecu.Problem(H, kinds), tecu.Embed(strategies.ProxGradient(), eta=0.5))
    D = rng.normal(size=(8, 12)).astype(dtype)
    start = {"W0": csr_array((12, 12), dtype=dtype), "W1": csr_array((18, 12), dtype=dtype)}
    start["D"] = D / np.linalg.norm(D, axis=0)
    whole = solver.run(start, stop=stop.MaxIter(6))
    half = solver.run(start, stop=stop.MaxIter(3))
    both = solver.run(half, stop=stop.MaxIter(6))
    same(both.state, whole.state)


@pytest.mark.parametrize("coder", [Coder(0.05), Coder(0.0, n_nonzero=3), Coder(0.05, lower=0.0)])
def test_the_solver_of_a_dictionary_fit_resumes_with_the_same_bits(coder):
    X = make_sparse_data(2200, 16, 40, 4, snr_db=25, random_state=1)[0]
    D = np.random.default_rng(0).normal(size=(40, 16))

    def planned():
        return plan("auto", Rows(X), coder, 40, seed=3)

    first = planned()
    start = first.start(D / np.linalg.norm(D, axis=1, keepdims=True))
    whole = first.solver.run(start, stop.MaxIter(4))
    for sweeps in (1, 2, 3):
        half = first.solver.run(start, stop.MaxIter(sweeps))
        for solver in (first.solver, planned().solver):
            same(solver.run(half, stop.MaxIter(4)).state, whole.state)


@pytest.mark.parametrize("schedule", [["D", "W1", "W0"], ["W1", "D", "W0", "D"], "shuffled"])
def test_batches_resume_with_the_same_bits_in_whatever_order_they_are_visited(schedule):
    X = make_sparse_data(2200, 16, 40, 4, snr_db=25, random_state=1)[0]
    D = np.random.default_rng(0).normal(size=(40, 16))

    def planned():
        planned = plan("auto", Rows(X), Coder(0.05), 40, seed=3)
        return tecu.Solver(planned.solver.problem, planned.solver.updates, schedule, seed=3), planned

    solver, first = planned()
    start = first.start(D / np.linalg.norm(D, axis=1, keepdims=True))
    whole = solver.run(start, stop.MaxIter(4))
    for sweeps in (1, 2, 3):
        half = solver.run(start, stop.MaxIter(sweeps))
        for again in (solver, planned()[0]):
            same(again.run(half, stop.MaxIter(4)).state, whole.state)


def test_two_runs_from_one_state_do_not_disturb_each_other():
    case = three_blocks()
    solver = tecu.methods.palm(case.problem)
    state = next(solver.iterate(case.start))
    first, second = solver.iterate(state), solver.iterate(state)
    for _ in range(5):
        same(next(first), next(second))
    assert len(state.visits) == 3


def test_a_state_of_another_problem_is_refused():
    state = next(tecu.methods.palm(dictionary(0).problem).iterate(dictionary(0).start))
    with pytest.raises(ValueError, match="another problem or to other settings"):
        tecu.methods.palm(dictionary(1).problem).run(state)
    with pytest.raises(ValueError, match="other settings"):
        tecu.methods.palm(dictionary(0).problem, step_factor=1.2).run(state)


def test_files_that_are_no_states_are_named_as_such(tmp_path):
    path = tmp_path / "x.npz"
    path.write_bytes(b"not a zip file")
    with pytest.raises(ValueError, match="damaged or not"):
        tecu.load_state(path)
    np.savez(path, a=np.zeros(3))
    with pytest.raises(ValueError, match="not a saved state"):
        tecu.load_state(path)
    np.savez(path, document=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="pickle"):
        tecu.load_state(path)


def test_a_truncated_file_is_refused_and_the_old_one_survives_a_failed_write(tmp_path):
    case = three_blocks()
    states = list(islice(tecu.methods.palm(case.problem).iterate(case.start), 2))
    path = tmp_path / "run.npz"
    tecu.save_state(path, states[0])
    whole = path.read_bytes()
    (tmp_path / "cut.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="damaged"):
        tecu.load_state(tmp_path / "cut.npz")
    bad = {**states[1].memory, "x": {"thing": object()}}
    with pytest.raises(TypeError, match="numbers, strings"):
        tecu.save_state(path, replace(states[1], memory=bad))
    assert path.read_bytes() == whole
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cut.npz", "run.npz"]


def test_a_killed_run_resumes_to_the_same_result(tmp_path):
    script = textwrap.dedent(
        f"""
        import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
        import time, tecu
        from problems import dictionary
        from tecu import stop, strategies
        case = dictionary()
        solver = tecu.Solver(case.problem, {{"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0)}})
        def say(state):
            print(state.t, flush=True)
            time.sleep(0.02)
        save = tecu.Checkpoint({str(tmp_path / "run.npz")!r}, seconds=0)
        solver.run(case.start, stop=stop.MaxIter(500), callbacks=[save, say])
        """
    )
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    for line in child.stdout:
        if int(line) >= 5:
            child.send_signal(signal.SIGKILL)
            break
    child.wait()
    child.stdout.close()
    state = tecu.load_state(tmp_path / "run.npz")
    assert 5 <= state.t < 500
    case = dictionary()
    solver = tecu.Solver(case.problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM(), eta=1.0)})
    resumed = solver.run(state, stop=stop.MaxIter(30))
    whole = solver.run(case.start, stop=stop.MaxIter(30))
    same(resumed.state, whole.state)


KEPT = {
    "float64": np.float64(0.1), "float32": np.float32(0.1), "bool": np.bool_(True), "int64": np.int64(3),
    "float": 0.1, "text": "text", "csr_array": csr_array([[1.0, 2.0], [0.0, 3.0]]),
    "csr_matrix": csr_matrix([[1.0, 2.0], [0.0, 3.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", KEPT)
def test_what_a_memory_keeps_comes_back_as_what_it_was(name, tmp_path):
    """A ``np.float64`` widens float32 arrays and a Python float does not; ``*`` of a matrix is not that of an array."""
    state = next(tecu.methods.palm(dictionary().problem).iterate(dictionary().start))
    kept = KEPT[name]
    tecu.save_state(tmp_path / "run.npz", replace(state, memory={**state.memory, "W": {"kept": kept}}))
    loaded = tecu.load_state(tmp_path / "run.npz").memory["W"]["kept"]
    assert type(loaded) is type(kept)
    np.testing.assert_array_equal(arrays.dense(loaded), arrays.dense(kept))


@pytest.mark.parametrize("kept", [np.ma.masked_array([1.0, 2.0], [True, False]), np.array([None])], ids=repr)
def test_arrays_that_would_come_back_as_others_are_refused(kept, tmp_path):
    def hoarder(sub, u):
        sub.memory["kept"] = kept
        yield from strategies.FISTA()(sub, u)

    case = dictionary()
    state = next(tecu.Solver(case.problem, tecu.Embed(hoarder)).iterate(case.start))
    with pytest.raises(TypeError, match=r"a state can keep arrays of numbers, not (masked ones|ones of objects)"):
        tecu.save_state(tmp_path / "run.npz", state)


@pytest.mark.parametrize("make", [csc_array, coo_array])
def test_sparse_arrays_of_other_forms_are_refused_rather_than_transposed(make, tmp_path):
    state = next(tecu.methods.palm(dictionary().problem).iterate(dictionary().start))
    state = replace(state, memory={**state.memory, "W": {"kept": make([[1.0, 2.0], [0.0, 3.0]])}})
    with pytest.raises(TypeError, match=f"as CSR, not a {make.__name__}"):
        tecu.save_state(tmp_path / "run.npz", state)


def plane(dtype):
    """``H`` of two blocks that are numbers."""
    coupling = couplings.Functions(
        lambda z: float((z["x"] * z["y"] - 1) ** 2 + (z["x"] - z["y"]) ** 2),
        {
            "x": lambda z: 2 * (z["x"] * z["y"] - 1) * z["y"] + 2 * (z["x"] - z["y"]),
            "y": lambda z: 2 * (z["x"] * z["y"] - 1) * z["x"] - 2 * (z["x"] - z["y"]),
        },
    )
    problem = tecu.Problem(coupling, {"x": terms.L1(0.1), "y": terms.NonNegative()})
    return problem, {"x": np.array(2.0, dtype), "y": np.array(0.3, dtype)}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("update", [tecu.ProxLinear(), tecu.Embed(strategies.FISTA())], ids=["prox-linear", "embed"])
def test_blocks_that_are_numbers_resume_with_the_same_bits(dtype, update, tmp_path):
    problem, start = plane(dtype)
    solver = tecu.Solver(problem, update)
    tecu.save_state(tmp_path / "run.npz", solver.run(start, stop=stop.MaxIter(3)))
    resumed = solver.run(tecu.load_state(tmp_path / "run.npz"), stop=stop.MaxIter(8))
    whole = solver.run(start, stop=stop.MaxIter(8))
    same(resumed.state, whole.state)
    assert resumed.z["x"].dtype == whole.z["x"].dtype == dtype


@pytest.mark.parametrize(
    "update",
    [
        tecu.Embed(strategies.FISTA(), eta=np.float32(1.0), c=np.float32(0.2)),
        tecu.ProxLinear(extrapolation=tecu.Inertial(np.float32(0.2))),
    ],
    ids=["embed", "inertial"],
)
def test_settings_in_single_precision_resume_with_the_same_bits(update, tmp_path):
    case = dictionary()
    solver = tecu.Solver(case.problem, update)
    tecu.save_state(tmp_path / "run.npz", solver.run(case.start, stop=stop.MaxIter(3)))
    same(
        solver.run(tecu.load_state(tmp_path / "run.npz"), stop=stop.MaxIter(8)).state,
        solver.run(case.start, stop=stop.MaxIter(8)).state,
    )


def test_a_result_is_saved_by_its_state_and_nothing_else_is(tmp_path):
    case = dictionary()
    result = tecu.methods.palm(case.problem).run(case.start, stop.MaxIter(3))
    tecu.save_state(tmp_path / "run.npz", result)
    same(tecu.load_state(tmp_path / "run.npz"), result.state)
    with pytest.raises(TypeError, match="takes a state or a result of a run, got a dict"):
        tecu.save_state(tmp_path / "run.npz", result.z)


def test_a_saved_run_in_jax_does_not_lose_half_of_its_digits(tmp_path):
    code = """
        import sys, jax, numpy as np, tecu
        from tecu import couplings, stop, terms
        jax.config.update("jax_enable_x64", sys.argv[1] == "save")
        if sys.argv[1] == "save":
            problem = tecu.Problem(couplings.Linear(jax.numpy.eye(3), jax.numpy.ones(3)), {"x": terms.Zero()})
            solver = tecu.methods.palm(problem)
            tecu.save_state("run.npz", solver.run({"x": jax.numpy.zeros(3)}, stop=stop.MaxIter(2)))
        else:
            tecu.load_state("run.npz")
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    subprocess.run([*command, "save"], cwd=tmp_path, check=True)
    loaded = subprocess.run([*command, "load"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "JAX makes float32 of them here; turn on jax_enable_x64" in loaded.stderr
