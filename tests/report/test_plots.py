"""The plots say what the history says, without colour alone, and leave nothing behind."""

import numpy as np
import pytest
from matplotlib import colors

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.report import plots


@pytest.fixture(scope="module")
def result():
    rng = np.random.default_rng(0)
    Y = rng.normal(size=(6, 30))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(0.05), "D": terms.UnitColumns()})
    start = problem.project({"W": np.zeros((30, 8)), "D": rng.normal(size=(6, 8))})
    solver = tecu.Solver(problem, {"W": tecu.ProxLinear(), "D": tecu.Embed(strategies.ADMM())})
    return solver.run(start, stop=stop.MaxIter(12))


def curves(figure):
    return [line for axes in figure.axes for line in axes.lines]


def test_the_objective_is_drawn_as_it_is(result):
    (line,) = curves(plots.objective(result.history))
    assert np.array_equal(line.get_xdata(), result.history["iteration"])
    assert np.array_equal(line.get_ydata(), result.history["value"])


def test_the_lyapunov_function_is_drawn_above_its_last_value(result):
    phi = result.history["lyapunov"]
    (line,) = curves(plots.lyapunov(result.history))
    assert np.allclose(line.get_ydata(), (phi - phi[-1])[phi > phi[-1]])


@pytest.mark.parametrize("name", ["a$b", "cost $1_$2", r"$\frac$", "_a", "_"])
def test_any_name_of_a_run_or_a_block_is_shown_as_it_is(result, name):
    figure = plots.compared({name: result.history, "other": result.history})
    plots.rendered(figure, "png")
    labels = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert [label.replace(r"\$", "$").strip() for label in labels] == [name, "other"]
    renamed = {column.removesuffix("_D") + f"_{name}" if column.endswith("_D") else column: values
               for column, values in dict(result.history).items()}  # fmt: skip
    for figure in (*plots.every(renamed).values(), plots.compared({"a": renamed}, f"error_{name}")):
        plots.rendered(figure, "png")


def test_a_rise_of_the_lyapunov_function_is_marked(result):
    broken = dict(result.history)
    broken["lyapunov"] = broken["lyapunov"].copy()
    broken["lyapunov"][5] = broken["lyapunov"][3] + 1
    marks = [line for line in curves(plots.lyapunov(broken)) if line.get_label() == "rose"]
    assert [mark.get_xdata().tolist() for mark in marks] == [[5]]
    assert not [line for line in curves(plots.lyapunov(result.history)) if line.get_label() == "rose"]


def test_error_and_tolerance_of_a_block(result):
    error, tolerance = curves(plots.error(result.history, "D"))
    assert (error.get_label(), tolerance.get_label()) == ("error", "tolerance")
    assert np.array_equal(error.get_ydata()[1:], result.history["error_D"][1:])
    assert np.array_equal(tolerance.get_ydata()[1:], result.history["tolerance_D"][1:], equal_nan=True)


def test_only_blocks_with_a_strategy_have_errors_and_inner_steps(result):
    assert plots.embedded_blocks(result.history) == ["D"]
    (line,) = curves(plots.inner_steps(result.history))
    assert line.get_ydata().sum() == result.history["inner_D"].sum()


def test_the_time_split_adds_up(result):
    bars = plots.time_split(result.history).axes[0].patches
    assert sum(bar.get_width() for bar in bars) == pytest.approx(result.history["seconds"][-1])


def test_curves_differ_without_colour():
    history = {"iteration": np.arange(5.0), "seconds": np.arange(5.0), "value": np.arange(5.0)[::-1] + 1}
    lines = curves(plots.compared({f"run {k}": history for k in range(7)}))
    assert len({(str(line.get_linestyle()), str(line._dash_pattern), line.get_marker()) for line in lines}) == 7


def test_curves_stand_out_from_paper_in_grey():
    for colour in plots.OKABE_ITO:
        red, green, blue = colors.to_rgb(colour)
        assert 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.72


def test_all_plots_of_a_run(result):
    assert list(plots.every(result.history)) == ["objective", "lyapunov", "error_D", "inner_steps", "time_split"]
    assert len(result.plot().axes) == 5


def test_of_many_blocks_the_busiest_are_drawn():
    history = {"iteration": np.arange(3.0), "seconds": np.array([0.0, 30.0, 60.0]), "value": np.ones(3)}
    history["lyapunov"] = np.ones(3)
    for k in range(10):
        history |= {f"{name}_{k}": np.ones(3) for name in ("move", "inner", "error", "tolerance")}
        history[f"seconds_{k}"] = np.array([0.0, k, k])
    errors = [name for name in plots.every(history) if name.startswith("error")]
    assert errors == [f"error_{k}" for k in range(4, 10)]
    assert len(curves(plots.inner_steps(history))) == 6
    bars = plots.time_split(history).axes[0].patches
    assert len({bar.get_y() for bar in bars}) == 8
    assert sum(bar.get_width() for bar in bars) == pytest.approx(90.0)


def test_a_run_of_no_iterations_can_be_drawn():
    problem = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {"W": terms.L1(1.0), "D": terms.UnitColumns()})
    empty = tecu.Solver(problem, tecu.ProxLinear()).run(
        {"W": np.ones((3, 2)), "D": np.eye(3)[:, :2]}, stop=stop.MaxIter(0)
    )
    for figure in plots.every(empty.history).values():
        assert plots.rendered(figure, "png").startswith(b"\x89PNG")


def test_files_by_name_and_the_same_each_time(result, tmp_path):
    paths = plots.save_plots(result.history, tmp_path / "new" / "folder")
    assert {path.suffix for path in paths} == {".svg", ".png"}
    again = plots.save_plots(result.history, tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


def test_names_of_blocks_cannot_leave_the_folder(tmp_path):
    problem = tecu.Problem(couplings.Difference("../x", "v w"), {"../x": terms.L1(0.1), "v w": terms.Zero()})
    run = tecu.Solver(problem, tecu.Embed(strategies.ProxGradient())).run(
        {"../x": np.ones(3), "v w": np.zeros(3)}, stop=stop.MaxIter(3)
    )
    paths = plots.save_plots(run.history, tmp_path / "out", formats=("svg",))
    assert {path.parent for path in paths} == {tmp_path / "out"}
    assert sorted(p for p in tmp_path.rglob("*.svg")) == sorted(paths)


def test_a_notebook_shows_it_and_pyplot_is_left_alone(result):
    import sys

    assert result.plot()._repr_png_().startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()
