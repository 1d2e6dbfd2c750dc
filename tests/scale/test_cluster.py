"""A cluster of processes: the result of threads, also when a worker is killed; photos that land once."""

import threading

import dask
import numpy as np
import pytest
from chunks import MakeDeadly, lazy
from distributed import Client, LocalCluster
from PIL import Image

from tecu.cli.main import main
from tecu.cluster import NoWorkers, gathered
from tecu.dictionary import L0DictionaryLearning, read_codes
from tecu.lowlight.batch import Settings
from tecu.lowlight.plan import Task
from tecu.lowlight.spread import spread

OPTIONS = {"n_components": 24, "max_iter": 3, "tol": 0, "random_state": 0}


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def client(cluster):
    with Client(cluster) as client:
        client.wait_for_workers(2, timeout=30)
        yield client


@pytest.fixture(scope="module")
def by_threads():
    """Fitted before there is a client."""
    return L0DictionaryLearning(**OPTIONS).fit(lazy())


def test_a_cluster_gives_the_result_of_threads(by_threads, client, tmp_path):
    X = np.asarray(lazy().compute(scheduler="threads"))
    np.save(tmp_path / "X.npy", X)
    model = L0DictionaryLearning(**OPTIONS).fit(lazy())
    np.testing.assert_array_equal(model.components_, by_threads.components_)
    np.testing.assert_array_equal(model.history_["value"], by_threads.history_["value"])
    assert model.certificate_.holds_from == 0
    kept = L0DictionaryLearning(**OPTIONS).fit(lazy().persist())
    np.testing.assert_array_equal(kept.components_, by_threads.components_)
    store = model.transform(lazy(), out=tmp_path / "codes.zarr")
    assert (read_codes(store) != model.transform(X)).nnz == 0
    mapped = L0DictionaryLearning(**OPTIONS | {"max_iter": 1}).fit(np.load(tmp_path / "X.npy", mmap_mode="r"))
    assert mapped.codes_.shape == (len(X), 24)  # by chunks: on a cluster a memory map goes there


def test_a_killed_worker_changes_nothing(by_threads, client, tmp_path):
    """Chunk 2 is read once at first and once a sweep: its reader dies in the middle of sweep 3, with all its codes."""
    before = set(client.nthreads())
    trap = tmp_path / "trap"
    trap.write_text("3")
    model = L0DictionaryLearning(**OPTIONS).fit(lazy(trap=trap))
    assert int(trap.read_text()) < 0, "nobody was killed"
    assert set(client.nthreads()) != before
    np.testing.assert_array_equal(model.components_, by_threads.components_)
    np.testing.assert_array_equal(model.history_["value"], by_threads.history_["value"])
    assert model.objective_ == by_threads.objective_
    assert model.certificate_.holds_from == 0


def photos(folder, count=6):
    folder.mkdir()
    for k in range(count):
        shape = (33 if k == 3 else 20, 30, 3)
        Image.fromarray(np.random.default_rng(k).integers(0, 60, shape, np.uint8)).save(folder / f"{k}.png")


def test_a_lost_workers_photos_are_done_by_another(client, tmp_path):
    photos(tmp_path / "in")
    trap = tmp_path / "trap"
    trap.touch()
    tasks = [Task(str(path), str(tmp_path / "out" / path.name)) for path in sorted((tmp_path / "in").iterdir())]
    outcomes = list(spread(tasks, Settings(), client, MakeDeadly(trap)))
    assert not trap.exists(), "nobody was killed"
    assert sorted((outcome.source, outcome.status) for outcome in outcomes) == [(task.source, "done") for task in tasks]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [f"{k}.png" for k in range(6)]
    for task in tasks:
        with Image.open(task.source) as dark, Image.open(task.target) as bright:
            np.testing.assert_array_equal(np.asarray(bright), 255 - np.asarray(dark))


def test_a_result_that_is_lost_again_is_waited_for(client, tmp_path, monkeypatch):
    """As when the worker dies that held it: the future was done, and is pending when it is asked."""
    photos(tmp_path / "in")
    monkeypatch.setattr("tecu.lowlight.spread.one_by_one", lambda client, futures: iter(futures))
    tasks = [Task(str(path), str(tmp_path / "out" / path.name)) for path in sorted((tmp_path / "in").iterdir())]
    outcomes = list(spread(tasks, Settings(), client, MakeDeadly(tmp_path / "no")))
    assert [(outcome.source, outcome.status) for outcome in outcomes] == [(task.source, "done") for task in tasks]


def runs_out_of_time():
    raise TimeoutError("the disk did not answer")


def test_a_timeout_of_a_task_is_not_taken_for_waiting(client):
    with pytest.raises(TimeoutError, match="the disk did not answer"):
        gathered(client, [client.submit(runs_out_of_time, pure=False)])


def test_what_was_there_before_is_not_replaced(client, tmp_path):
    photos(tmp_path / "in", 2)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "0.png").write_bytes(b"mine")
    tasks = [Task(str(tmp_path / "in" / f"{k}.png"), str(tmp_path / "out" / f"{k}.png")) for k in range(2)]
    first, second = sorted(spread(tasks, Settings(), client, MakeDeadly(tmp_path / "no")), key=lambda o: o.source)
    assert (first.status, first.fault, second.status) == ("failed", "output", "done")
    assert (tmp_path / "out" / "0.png").read_bytes() == b"mine"
    with pytest.raises(ValueError, match="standard streams"):
        next(spread([Task("-", "-")], Settings(), client))


def test_the_commands_use_a_running_scheduler(cluster, tmp_path, capsys):
    photos(tmp_path / "in", 3)
    np.save(tmp_path / "X.npy", lazy(2).compute(scheduler="threads"))
    address = ["--scheduler", cluster.scheduler_address]
    assert main(["enhance", str(tmp_path / "in"), "-o", str(tmp_path / "out"), *address]) == 0
    assert len(list((tmp_path / "out").iterdir())) == 3
    options = ["--components", "24", "--max-iter", "2", *address]
    assert main(["dictionary", "fit", str(tmp_path / "X.npy"), "-o", str(tmp_path / "model.npz"), *options]) == 0
    assert "holds for the whole run" in capsys.readouterr().out
    assert L0DictionaryLearning.load(tmp_path / "model.npz").components_.shape == (24, 16)
    assert main(["enhance", "-", "-o", "-", *address]) == 1


def test_a_scheduler_that_does_not_answer_is_named(tmp_path, capsys, monkeypatch):
    photos(tmp_path / "in", 1)
    monkeypatch.setattr("tecu.cli.scheduler.SECONDS", 1)
    assert main(["enhance", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--scheduler", "tcp://127.0.0.1:9"]) == 1
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in capsys.readouterr().err


def test_a_missing_part_ends_a_command_with_its_code(tmp_path, capsys, monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "distributed" else found(name, *a)
    )
    photos(tmp_path / "in", 1)
    assert main(["enhance", str(tmp_path / "in"), "-o", str(tmp_path / "out"), "--scheduler", "tcp://127.0.0.1:9"]) == 3
    assert "pip install 'tecu[scale]'" in capsys.readouterr().err


@pytest.fixture
def deserted():
    """A cluster without workers, of which nobody expects any for long."""
    with (
        dask.config.set({"tecu.patience": 0.5}),
        LocalCluster(n_workers=0, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        yield client


def test_a_cluster_without_workers_is_given_up(deserted, tmp_path):
    with pytest.raises(NoWorkers, match=r"no worker for 0\.5 s"):
        L0DictionaryLearning(**OPTIONS).fit(lazy())
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    task = Task(str(tmp_path / "a.png"), str(tmp_path / "b.png"))
    with pytest.raises(NoWorkers, match="no worker"):
        list(spread([task], Settings(), deserted))


def test_the_commands_say_so(deserted, tmp_path, capsys):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    np.save(tmp_path / "X.npy", np.eye(8))
    address = deserted.scheduler.address
    for arguments in (
        ["enhance", tmp_path / "a.png", "-o", tmp_path / "b.png"],
        ["dictionary", "fit", tmp_path / "X.npy", "-o", tmp_path / "model.npz", "--components", "4"],
    ):
        assert main([*map(str, arguments), "--scheduler", address]) != 0
        assert "has had no worker for 0.5 s" in capsys.readouterr().err
    assert not (tmp_path / "b.png").exists()
    assert not (tmp_path / "model.npz").exists()


def test_a_worker_that_comes_in_time_is_waited_for(deserted):
    with dask.config.set({"tecu.patience": 60}):
        threading.Timer(2.5, deserted.cluster.scale, [1]).start()
        assert gathered(deserted, [deserted.submit(abs, -1)]) == [1]
