"""Stop rules, schedules, callbacks, history, and what an import brings along."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice, pairwise

import numpy as np
import pytest

import tecu
from problems import dictionary, three_blocks
from tecu import Status, couplings, methods, stop, strategies, terms
from tecu.checks import audit_due
from tecu.stop import relative_change

CASE = three_blocks()


def palm():
    return methods.palm(CASE.problem)


def test_rules_combine():
    always, never = stop.MaxIter(0), stop.TargetValue(-1.0)
    state = next(palm().iterate(CASE.start))
    for rule, expected in [
        (always | never, Status.MAX_ITER),
        (never | always, Status.MAX_ITER),
        (always & never, None),
        (always & always, Status.MAX_ITER),
        (never | never, None),
        (always & (never | always), Status.MAX_ITER),
    ]:
        assert rule.check(state, CASE.problem) is expected


def test_statuses():
    run = palm().run
    assert run(CASE.start, stop=stop.MaxIter(3)).status is Status.MAX_ITER
    assert run(CASE.start, stop=stop.MaxIter(3)).iterations == 3
    assert run(CASE.start, stop=stop.MaxTime(0.0)).status is Status.MAX_TIME
    assert run(CASE.start, stop=stop.TargetValue(1e9)).iterations == 0
    target = run(CASE.start, stop=stop.MaxIter(10)).value
    reached = run(CASE.start, stop=stop.TargetValue(target) | stop.MaxIter(100))
    assert (reached.status, reached.iterations) == (Status.TARGET, 10)
    assert run(CASE.start).status is Status.CONVERGED
    assert run(CASE.start, stop=stop.When(lambda s: s.t == 4)).iterations == 4
    fixed = run(CASE.start, stop=stop.MaxIter(100000))
    assert fixed.status in (Status.STALLED, Status.MAX_ITER)


@pytest.mark.parametrize(
    "schedule",
    ["cyclic", ["w", "d", "d"], ["d", "w", "w"], lambda t: ["wdd"[t % 3]], lambda t: ["w"] if t == 1 else ["d", "w"]],
    ids=["cyclic", "wdd", "dww", "one a sweep", "one at first"],
)
def test_only_a_fixed_point_of_all_blocks_is_a_stall(schedule):
    """At first ``w`` has nowhere to go; ``d`` goes to its bound at once and rests there; then ``w`` would move."""
    coupling = couplings.Functions(
        lambda z: float(z["w"][0] * (0.5 - z["d"][0]) - 3.0 * z["d"][0]),
        {"w": lambda z: 0.5 - z["d"], "d": lambda z: -z["w"] - 3.0},
        lipschitz={"w": 1.0, "d": 1.0},
    )
    problem = tecu.Problem(coupling, {"w": terms.Box(0.0, 1.0), "d": terms.Box(0.0, 1.0)})
    solver = tecu.Solver(problem, tecu.ProxLinear(), schedule)
    result = solver.run({"w": np.zeros(1), "d": np.zeros(1)}, stop=stop.MaxIter(50))
    assert result.status is Status.STALLED
    assert problem.stationarity(result.z) == 0.0


@pytest.mark.parametrize("rule", [tecu.Inertial(), tecu.Nesterov()], ids=["iPALM", "BCU"])
@pytest.mark.parametrize("goal", [0.99, 0.995])
@pytest.mark.parametrize("end", [stop.MaxIter(300), stop.RelativeChange(1e-12) | stop.MaxIter(300)], ids=repr)
def test_an_extrapolated_step_that_a_bound_takes_back_is_no_rest(rule, goal, end):
    """``x`` comes to the bound with a swing that holds it there for one more step; without, it turns back."""
    problem = tecu.Problem(couplings.Linear(np.eye(1), np.array([goal])), {"x": terms.Box(-1.0, 1.0)})
    for start in (-1.0, 0.0):
        result = tecu.Solver(problem, tecu.ProxLinear(extrapolation=rule)).run({"x": np.array([start])}, stop=end)
        assert abs(result.z["x"][0] - goal) <= 1e-9
        assert result.certificate.holds_from == 0


def test_the_published_method_does_not_stall_where_a_bound_takes_a_step_back():
    problem = tecu.Problem(couplings.Linear(np.eye(1), np.array([0.995])), {"x": terms.Box(-1.0, 1.0)})
    update = tecu.ProxLinear(extrapolation=tecu.Nesterov(), safeguard=False)
    result = tecu.Solver(problem, update).run({"x": np.array([-1.0])}, stop=stop.MaxIter(300))
    assert result.state.visits[2].move == 0.0
    assert abs(result.z["x"][0] - 0.995) <= 1e-9


class Clock:
    """Stands in for the module ``time``: a sweep takes 1 second, and what says so takes more."""

    def __init__(self):
        self.now = 0.0

    def perf_counter(self):
        return self.now

    def spend(self, seconds):
        self.now += seconds

    def solver(self):
        def in_turn(t):
            self.spend(1.0)
            return list(CASE.start)

        return tecu.Solver(CASE.problem, tecu.ProxLinear(), in_turn)


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("tecu.solver.time", clock)
    return clock


def test_the_time_limit_counts_sweeps_and_callbacks(clock):
    result = clock.solver().run(CASE.start, stop.MaxTime(12.0), callbacks=[lambda state: clock.spend(4.0)])
    assert (result.status, result.iterations) == (Status.MAX_TIME, 3)
    assert result.state.elapsed == 15.0
    assert result.history["seconds"].tolist() == [0.0, 1.0, 2.0, 3.0]  # of the sweeps
    assert clock.solver().run(CASE.start, stop.MaxTime(12.0)).iterations == 12


def test_the_time_limit_counts_rules_and_the_look_at_the_start(clock, monkeypatch):
    slow = stop.When(lambda state: clock.spend(4.0))
    assert clock.solver().run(CASE.start, slow | stop.MaxTime(12.0)).iterations == 3
    monkeypatch.setattr("tecu.solver.fingerprint", lambda *parts: str(clock.spend(20.0)))
    result = clock.solver().run(CASE.start, stop.MaxTime(12.0))
    assert (result.status, result.iterations) == (Status.MAX_TIME, 0)


def test_the_time_limit_counts_what_a_resumed_run_had_taken_but_not_its_interruption(clock, tmp_path):
    saved = tecu.Checkpoint(tmp_path / "run.npz")
    slow = [lambda state: clock.spend(4.0), saved]
    clock.solver().run(CASE.start, stop.MaxIter(2), callbacks=slow)
    clock.spend(1000.0)
    state = tecu.load_state(tmp_path / "run.npz")
    assert (state.seconds, state.elapsed) == (2.0, 6.0)  # it was saved before its second round of callbacks ended
    result = clock.solver().run(state, stop.MaxTime(12.0), callbacks=slow)
    assert (result.status, result.iterations, result.state.elapsed) == (Status.MAX_TIME, 4, 16.0)


def test_stationarity_rule_means_it():
    result = palm().run(CASE.start, stop=stop.Stationarity(1e-6, every=3) | stop.MaxIter(5000))
    assert result.status is Status.CONVERGED
    assert result.iterations % 3 == 0
    assert CASE.problem.stationarity(result.z) <= 1e-6


def test_relative_change_is_the_papers():
    """``max(||dD|| / ||D||, ||dW|| / ||W||, |dPsi| / |Psi|)``, computed by hand from the iterates."""
    case = dictionary()
    states = list(islice(methods.palm(case.problem).iterate(case.start), 6))
    for before, after in pairwise(states[1:]):
        changes = [np.linalg.norm(after.z[b] - before.z[b]) / np.linalg.norm(before.z[b]) for b in "WD"]
        changes.append(abs(after.value - before.value) / abs(before.value))
        assert relative_change(after, after.t) == pytest.approx(max(changes), rel=1e-9)
    assert relative_change(states[0], 1) == np.inf  # W starts at zero: it has not converged


def test_callbacks_see_every_state_and_may_stop():
    seen = []
    result = palm().run(CASE.start, stop=stop.MaxIter(50), callbacks=[lambda s: seen.append(s.t), lambda s: s.t == 7])
    assert seen == list(range(1, 8))
    assert result.status is Status.STOPPED


class Watcher:
    """A callback that counts how often it was closed."""

    closed = 0

    def __call__(self, state):
        pass

    def close(self):
        self.closed += 1


class Broken(stop.Rule):
    def check(self, state, problem):
        raise KeyError("made up")


@pytest.mark.parametrize("start", ["refused", "broken rule", "right"])
def test_callbacks_are_closed_and_the_progress_line_ends_however_a_run_does(start):
    watcher, before = Watcher(), set(threading.enumerate())
    z = {**CASE.start, "x": np.full(6, np.nan)} if start == "refused" else CASE.start
    rule = Broken() if start == "broken rule" else stop.MaxIter(2)
    with contextlib.suppress(ValueError, KeyError):
        palm().run(z, stop=rule, callbacks=[watcher], progress=True)
    assert watcher.closed == 1
    for line in set(threading.enumerate()) - before:
        line.join(timeout=5.0)
        assert not line.is_alive()


def test_progress_line_prints_nothing_to_standard_output(capsys):
    palm().run(CASE.start, stop=stop.MaxIter(3), progress=True)
    assert capsys.readouterr().out == ""


def test_best_so_far_is_kept_when_a_method_does_not_descend():
    case = dictionary()
    result = methods.ipalm(case.problem, alpha=0.45, beta=0.45, safeguard=False).run(case.start, stop=stop.MaxIter(40))
    best = result.state.best_value
    assert best == pytest.approx(min(result.history["value"]), rel=1e-12)
    assert case.problem.value(result.best) == pytest.approx(best, rel=1e-10)


# -- schedules ------------------------------------------------------------------------------------------------------


def order_of(state):
    return [visit.block for visit in state.visits.of_sweep(state.t)]


def test_schedules():
    def orders(schedule, seed=0):
        solver = tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule=schedule, seed=seed)
        return [order_of(s) for s in islice(solver.iterate(CASE.start), 8)]

    assert orders("cyclic") == [["x", "v", "w"]] * 8
    assert orders(["x", "v", "x", "w"]) == [["x", "v", "x", "w"]] * 8
    shuffled = orders("shuffled")
    assert all(sorted(order) == ["v", "w", "x"] for order in shuffled)
    assert len({tuple(order) for order in shuffled}) > 1
    assert shuffled == orders("shuffled")
    assert shuffled != orders("shuffled", seed=1)
    assert orders(lambda t: ["x", "v"] if t % 2 else ["w"])[:2] == [["x", "v"], ["w"]]
    assert orders(lambda t, rng: list(rng.permutation(["x", "v", "w"])))[0] != []


@pytest.mark.parametrize(
    "function",
    [
        lambda t, order=("x", "v", "w"): order,
        lambda t, rng=None: rng.permutation(["x", "v", "w"]),
        lambda t, r: list("xvw"),
    ],
    ids=["what it keeps", "rng with a default", "any name"],
)
def test_a_function_gets_a_generator_where_it_asks_for_one(function):
    """A default is how a lambda keeps what it needs: no place for one, unless it is called ``rng``."""
    solver = tecu.Solver(CASE.problem, tecu.ProxLinear(), function)
    assert {visit.block for visit in next(solver.iterate(CASE.start)).visits} == {"x", "v", "w"}


def test_a_function_must_be_essentially_cyclic():
    def solver(schedule):
        return tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule=schedule)

    fair = solver(lambda t: ["x", "v"] if t % 3 else ["w"]).run(CASE.start, stop=stop.MaxIter(60))
    assert fair.certificate.holds
    unfair = solver(lambda t: ["x", "v", "w"] if t < 5 else ["x", "v"]).run(CASE.start, stop=stop.MaxIter(60))
    assert not unfair.certificate.holds
    assert "essentially cyclic" in unfair.certificate.reason
    with pytest.raises(ValueError, match="'q'"):
        solver(lambda t: ["q"]).run(CASE.start, stop=stop.MaxIter(2))
    with pytest.raises(ValueError, match="empty"):
        solver(lambda t: []).run(CASE.start, stop=stop.MaxIter(2))


def test_a_shuffled_run_repeats_for_a_seed():
    runs = [
        tecu.Solver(CASE.problem, tecu.ProxLinear(), schedule="shuffled", seed=seed).run(
            CASE.start, stop=stop.MaxIter(9)
        )
        for seed in (4, 4, 5)
    ]
    np.testing.assert_array_equal(runs[0].z["x"], runs[1].z["x"])
    assert not np.array_equal(runs[0].z["x"], runs[2].z["x"])


def test_a_result_and_a_state_are_shown_in_one_line():
    result = palm().run(CASE.start, stop=stop.MaxIter(3))
    for text in (repr(result), repr(result.state)):
        assert "t=3" in text
        assert f"{result.value:.6g}" in text
        assert all(f"{name} {x.shape}" in text for name, x in result.z.items())
        assert len(text) < 200
    assert repr(result).startswith("Result(MAX_ITER, HOLDS, State(")


def test_unknown_history_column_is_explained():
    with pytest.raises(KeyError, match="move_x"):
        palm().run(CASE.start, stop=stop.MaxIter(1)).history["moves"]


def test_import_brings_nothing_heavy():
    code = (
        "import sys, tecu; "
        "heavy = {'torch', 'numba', 'dask', 'matplotlib', 'onnxruntime', 'jax', 'sklearn', 'PIL', 'rich'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "[]"


class Watched(couplings.Sum):
    """A coupling that keeps book of what the solver tells it."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.told, self.shared = [], []

    def begin_sweep(self, z):
        self.told.append(dict(z))

    def restrict(self, block, z):
        self.told.append(block)
        return super().restrict(block, z)

    def each(self, function, items):
        """In threads, the last item first."""
        self.shared.append(len(items))
        with ThreadPoolExecutor(3) as pool:
            jobs = [pool.submit(function, item) for item in reversed(items)]
            return [job.result() for job in reversed(jobs)]


def test_a_coupling_hears_of_each_sweep_before_its_first_visit():
    coupling = Watched(CASE.problem.coupling)
    problem = tecu.Problem(coupling, CASE.problem.terms)
    iterates = methods.palm(problem).iterate(CASE.start)
    before = CASE.start
    for state in islice(iterates, 3):
        if state.t == 1:  # what comes before are the tests of the start
            del coupling.told[: next(i for i, told in enumerate(coupling.told) if not isinstance(told, str))]
        z, *blocks = coupling.told
        assert blocks == list(problem.blocks)
        assert all(np.array_equal(z[block], before[block]) for block in problem.blocks)
        before = state.z
        coupling.told.clear()


def test_tests_and_audits_in_threads_of_the_coupling_say_the_same():
    coupling = Watched(CASE.problem.coupling)
    updates = {block: tecu.Embed(strategies.ProxGradient()) for block in CASE.problem.blocks}
    alone, shared = (
        tecu.Solver(tecu.Problem(H, CASE.problem.terms), updates).run(CASE.start, stop.MaxIter(4))
        for H in (CASE.problem.coupling, coupling)
    )
    last = {visit.block: visit for visit in alone.state.visits}
    by_chance = {block for block, visit in last.items() if audit_due(0, visit.index)}
    audits = len(last) - len(by_chance)
    assert audits > 0
    # The start is tested beside the fingerprint, the end beside the audits.
    assert coupling.shared == [1 + len(last), audits + len(last)]
    assert [visit.audited for visit in shared.state.visits] == [visit.audited for visit in alone.state.visits]
    assert shared.state.checks == alone.state.checks
    assert shared.certificate.verdict is alone.certificate.verdict


@pytest.mark.parametrize("coupling", [CASE.problem.coupling, Watched(CASE.problem.coupling)], ids=["alone", "threads"])
def test_answers_of_calls_come_back_by_kinds(coupling):
    problem = tecu.Problem(coupling, CASE.problem.terms)
    few, many = [lambda: "a"], [partial(int, str(i)) for i in range(3)]
    assert problem.answers(few, many) == [["a"], [0, 1, 2]]
    assert problem.answers(many, few, []) == [[0, 1, 2], ["a"], []]


def test_an_audit_in_threads_finds_the_fault_of_its_block():
    class Lying(tecu.Embed):
        def audit(self, sub, step, thorough=True):
            return f"block {sub.block!r} lies"

    blocks = list(CASE.problem.blocks)
    updates = {block: tecu.Embed(strategies.ProxGradient()) for block in blocks}
    updates[blocks[1]] = Lying(strategies.ProxGradient())
    problem = tecu.Problem(Watched(CASE.problem.coupling), CASE.problem.terms)
    visits = tecu.Solver(problem, updates).run(CASE.start, stop.MaxIter(2)).state.visits
    assert [visit.block for visit in visits.of_sweep(2) if visit.fault] == [blocks[1]]


def test_sweeps_of_one_visit_each_are_essentially_cyclic_however_many_blocks_there_are():
    rng = np.random.default_rng(0)
    coupling = couplings.ColumnFactorization(np.abs(rng.normal(size=(12, 15))), 6)
    problem = tecu.Problem(coupling, {block: terms.NonNegative() for block in coupling.blocks})
    names, start = problem.blocks, {block: rng.random(12 if block[0] == "d" else 15) for block in coupling.blocks}
    in_turn = tecu.Solver(problem, tecu.Proximal(1.0), schedule=lambda t: [names[t % 12]])
    assert in_turn.run(start, stop=stop.MaxIter(60)).certificate.holds
    favoured = tecu.Solver(problem, tecu.Proximal(1.0), schedule=lambda t: [names[0] if t % 3 else names[t // 3 % 12]])
    assert "essentially cyclic" in favoured.run(start, stop=stop.MaxIter(60)).certificate.reason
