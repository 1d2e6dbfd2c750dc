"""Dictionaries through the interface of the page: followed, stopped, resumed, and the same as without it."""

import io
import threading
from itertools import pairwise

import numpy as np
import pytest
from PIL import Image

from serve.open_pages import OpenPage
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.serve import Limits, learning_routes
from tecu.serve.learning import Learning, Recipe
from tecu.serve.limits import Refused

X, _, _ = make_sparse_data(n_samples=300, n_features=16, n_components=24, n_nonzero=3, random_state=0)
RUNNING = ("waiting", "running", "stopping")


def npy(matrix):
    stream = io.BytesIO()
    np.save(stream, matrix)
    return stream.getvalue()


def ended(page):
    return page.until(page.learning, lambda news: news["state"] not in RUNNING)


def learnt(page, tmp_path):
    answer = page.get("/learning/model")
    assert answer.status_code == 200, answer.text
    (tmp_path / "model.npz").write_bytes(answer.content)
    return L0DictionaryLearning.load(tmp_path / "model.npz")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy", npy(np.array([[1.0, 2.5], [3.0, -4.0]]))),
        ("x.npy", npy(np.array([[1, 2.5], [3, -4]], dtype=np.float32))),
        ("x.csv", b"1,2.5\n3,-4\n"),
        ("x.csv", b"width,height\n1,2.5\n3,-4\n"),
        ("x.csv", b"1;2,5\r\n3;-4\r\n"),
        ("pasted.csv", b"  1  2.5 \n\n 3\t-4\n"),
        ("x.tsv", b"1\t2.5\n3\t-4e0"),
        ("x.csv", b"\xef\xbb\xbf1,2.5\n3,-4\n"),
    ],
)
def test_a_matrix_is_read_as_people_write_it(page, name, content):
    answer = page.post("/matrix", params={"name": name}, content=content)
    assert answer.json() == {"samples": 2, "features": 2}
    assert np.array_equal(page.kept.learning.matrix, [[1.0, 2.5], [3.0, -4.0]])


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("x.npy", npy(np.array([[1.0, np.nan], [0.0, 1.0]])), "NaN or an infinite number in row 1, column 2"),
        ("x.npy", npy(np.arange(3.0)), "must hold a matrix"),
        ("x.npy", npy(np.array([[{}]], dtype=object)), "could not be read"),
        ("x.npy", npy(np.array([["a", "b"], ["c", "d"]])), "must hold numbers"),
        ("x.npy", npy(X)[:200], "could not be read"),
        ("x.npy", b"", "could not be read"),
        ("x.csv", b"", "it is empty"),
        ("x.csv", b"1,2\n3\n", "row 2 has 1 numbers, row 1 has 2"),
        ("x.csv", b"a,b\n1,2\n3,x\n", "row 3, column 2 is 'x', not a number"),
        ("x.csv", b"a,b\n", "names of columns but no numbers"),
        ("x.csv", b"\xff\xfe\x00", "it is not text"),
        ("x.csv", b"1,2\n", "has one row"),
        ("x.exe", b"1,2\n", ".npy and .csv are"),
        ("x.npy", npy(np.zeros((30, 30))), "the limit is 500"),
    ],
)
def test_a_bad_matrix_is_refused_in_a_sentence(serving, name, content, sentence):
    page = OpenPage(serving(Limits(matrix_entries=500)))
    answer = page.post("/matrix", params={"name": name}, content=content)
    assert answer.status_code in (413, 422)
    assert sentence in answer.json()["error"]
    assert name in answer.json()["error"]
    assert str(page.kept.folder) not in answer.json()["error"]
    assert not list(page.kept.folder.iterdir())


def test_what_is_learnt_is_what_the_estimator_learns(page, tmp_path):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    recipe = {"components": 24, "nonzero": 3, "sweeps": 12, "seed": 5}
    assert page.post("/learning", json=recipe).status_code == 204
    news = ended(page)
    direct = L0DictionaryLearning(24, n_nonzero=3, max_iter=12, random_state=5).fit(X)
    model = learnt(page, tmp_path)
    assert np.array_equal(model.components_, direct.components_)
    assert (model.codes_ != direct.codes_).nnz == 0
    assert news["points"][-1][1] == pytest.approx(direct.objective_)
    assert news["certificate"] == f"The certificate {direct.certificate_.reason}"
    assert news["nonzeros"] == direct.codes_.nnz / len(X)


def test_stopped_and_resumed_is_the_same_as_never_stopped(page, tmp_path):
    recipe = {"components": 24, "solver": "palm", "sweeps": 400, "tolerance": 0}
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    page.post("/learning", json=recipe)
    page.until(page.learning, lambda news: news["points"] or news["state"] not in RUNNING)
    page.post("/learning/stop")
    stopped = ended(page)
    assert (stopped["state"], stopped["can_resume"]) == ("stopped", True)
    assert 0 < stopped["points"][-1][0] < 400
    assert page.post("/learning/resume", json={"more": 0}).status_code == 204
    done = ended(page)
    assert done["points"][-1][0] == 400
    sweeps = [t for t, _ in done["points"]]
    assert sweeps == sorted(set(sweeps))
    direct = L0DictionaryLearning(24, solver="palm", max_iter=400, tol=0.0, random_state=0).fit(X)
    assert np.array_equal(learnt(page, tmp_path).components_, direct.components_)


def test_a_run_that_has_used_its_sweeps_can_be_given_more(page):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    page.post("/learning", json={"components": 8, "solver": "palm", "sweeps": 5, "tolerance": 0})
    assert ended(page)["can_resume"]
    page.post("/learning/resume", json={"more": 5})
    assert ended(page)["points"][-1][0] == 10


def test_the_run_can_be_followed(page):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    page.post("/learning", json={"components": 24, "solver": "tecu", "sweeps": 5000, "tolerance": 0})
    while_running = page.until(page.learning, lambda news: news.get("certificate"))
    assert while_running["state"] == "running"
    assert while_running["certificate"].startswith("So far: of ")
    assert while_running["sentence"].startswith("Sweep ")
    picture = Image.open(io.BytesIO(page.get("/learning/atoms").content))
    assert min(picture.size) > 16
    for path in ("/learning", "/matrix?name=y.npy"):
        busy = page.post(path, json={})
        assert (busy.status_code, "is being learnt" in busy.json()["error"]) == (409, True)
    assert page.get("/learning/model").status_code == 409
    page.post("/learning/stop")
    values = [value for _, value in ended(page)["points"]]
    assert np.all(np.diff(values) <= 1e-9 * values[0])


def test_a_method_without_a_theorem_says_so(page):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    page.post("/learning", json={"components": 8, "solver": "inv", "sweeps": 5, "tolerance": 0})
    news = ended(page)
    assert not news["holds"]
    assert "does not hold" in news["certificate"]


def test_the_curve_of_a_long_run_stays_short(page, monkeypatch):
    from tecu.serve import learning

    monkeypatch.setattr(learning, "MOST_POINTS", 10)
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    page.post("/learning", json={"components": 8, "solver": "palm", "sweeps": 75, "tolerance": 0})
    points = ended(page)["points"]
    assert len(points) <= 11
    assert points[-1][0] == 75


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        ({"solver": "magic"}, "The solver must be one of"),
        ({"penalty": 1.0, "nonzero": 2}, "not both"),
        ({"components": 0}, "components: "),
        ({"penalty": -1}, "penalty: "),
        ({"sweeps": "many"}, "sweeps: "),
        ({"init": "greedy"}, "init: "),
    ],
)
def test_a_wrong_recipe_is_answered_in_a_sentence(page, recipe, sentence):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    answer = page.post("/learning", json=recipe)
    assert answer.status_code == 422
    assert sentence in answer.json()["error"]


def test_nothing_is_learnt_from_nothing(page):
    for path in ("/learning", "/learning/stop", "/learning/resume"):
        answer = page.post(path, json={})
        assert (answer.status_code, "no matrix" in answer.json()["error"]) == (409, True)
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    assert page.post("/learning/resume", json={}).status_code == 409
    for path in ("/learning/atoms", "/learning/model"):
        assert page.get(path).status_code == 409


def test_a_closed_page_stops_its_run(page):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    page.post("/learning", json={"components": 24, "solver": "palm", "sweeps": 100_000, "tolerance": 0})
    learning = page.kept.learning
    page.until(lambda: learning.state, lambda state: state == "running")
    page.post("/close")
    page.until(lambda: learning.is_running, lambda running: not running)
    assert not page.kept.folder.exists()


def test_learning_anew_begins_anew(page):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    for recipe in ({"components": 8, "solver": "palm", "sweeps": 7}, {"components": 9, "solver": "palm", "sweeps": 4}):
        page.post("/learning", json={**recipe, "tolerance": 0})
        news = ended(page)
        assert [t for t, _ in news["points"]] == list(range(1, recipe["sweeps"] + 1)), news


# ---- requests and the thread at work, at the same time ----


class Watched:
    """A lock that says who has it, and when a thread has to wait for it."""

    def __init__(self, lock):
        self.lock, self.owner, self.depth = lock, None, 0
        self.wanted = threading.Event()

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.wanted.set()
            self.lock.acquire()
        self.owner, self.depth = threading.current_thread(), self.depth + 1

    def __exit__(self, *_):
        self.depth -= 1
        if self.depth == 0:
            self.owner = None
        self.lock.release()


class Followed(Learning):
    """Keeps all states; ``meanwhile`` is called once, by the thread that has just read ``state`` and is ``whose``."""

    whose, meanwhile = "", None

    def __init__(self, folder):
        self.states, self.unlocked, self.done = [], [], threading.Event()
        super().__init__(X, "x.npy", folder, lambda news: None)
        self._lock = self.lock = Watched(self._lock)

    @property
    def state(self):
        found = self.states[-1]
        if self.meanwhile is not None and threading.current_thread().name == self.whose:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        return found

    @state.setter
    def state(self, state):
        if self.states and self.lock.owner is not threading.current_thread():
            self.unlocked.append(state)
        self.states.append(state)

    def _work(self):
        super()._work()
        self.lock.wanted.set()
        self.done.set()


SHORT = Recipe(components=8, solver="palm", sweeps=1, tolerance=0)


def test_a_stop_that_crosses_the_end_of_the_run_leaves_it_ended(tmp_path):
    about_to_end, go_on = threading.Event(), threading.Event()

    class Held(Followed):
        def _end(self, model):
            about_to_end.set()
            assert go_on.wait(60)
            super()._end(model)

    learning = Held(tmp_path)
    learning.start(SHORT)
    assert about_to_end.wait(60)
    learning.lock.wanted.clear()

    def end_now():  # stop() has seen that it runs; now the run ends, or has to wait
        go_on.set()
        assert learning.lock.wanted.wait(60)

    learning.whose, learning.meanwhile = threading.current_thread().name, end_now
    learning.stop()
    assert learning.done.wait(60)
    assert learning.state == "stopped"
    learning.done.clear()
    learning.start(SHORT)  # and is not refused
    assert learning.done.wait(60)


def test_a_run_that_begins_does_not_forget_that_it_was_stopped(tmp_path):
    learning, started = Followed(tmp_path), threading.Event()

    def stop():
        learning.stop()
        learning.lock.wanted.set()

    stopping = threading.Thread(target=stop)

    def stop_now():  # the thread has seen that it is its turn; now it is stopped, or the stop has to wait
        assert started.wait(60)
        learning.lock.wanted.clear()
        stopping.start()
        assert learning.lock.wanted.wait(60)

    learning.whose, learning.meanwhile = "learning", stop_now
    learning.start(SHORT)
    started.set()
    assert learning.done.wait(60)
    stopping.join()
    assert ("stopping", "running") not in pairwise(learning.states)


@pytest.mark.parametrize(("matrix", "end"), [(X, "stopped"), (np.nan * X, "failed")], ids=["ends", "fails"])
def test_the_state_changes_under_the_lock_only(tmp_path, matrix, end):
    learning = Followed(tmp_path)
    learning.matrix = matrix
    learning.start(SHORT)
    learning.stop()
    assert learning.done.wait(60)
    learning.replace()
    assert learning.states[1] == "waiting"
    assert learning.states[-2:] == [end, "replaced"]
    assert learning.unlocked == []


def test_a_run_that_begins_during_an_upload_is_not_orphaned(page, monkeypatch):
    page.post("/matrix", params={"name": "x.npy"}, content=npy(X))
    learning, kept = page.kept.learning, page.kept.kept
    read = learning_routes.read_matrix

    def start_and_read(*what):
        long = {"components": 24, "solver": "palm", "sweeps": 100_000, "tolerance": 0}
        assert page.post("/learning", json=long).status_code == 204
        return read(*what)

    monkeypatch.setattr(learning_routes, "read_matrix", start_and_read)
    answer = page.post("/matrix", params={"name": "y.npy"}, content=npy(X[:100]))
    assert (answer.status_code, "is being learnt" in answer.json()["error"]) == (409, True)
    assert page.kept.learning is learning
    assert list(page.kept.folder.iterdir()) == [learning.folder]
    assert page.kept.kept == kept
    page.post("/learning/stop")
    assert ended(page)["state"] == "stopped"


def test_what_was_replaced_cannot_be_started(tmp_path):
    learning = Followed(tmp_path)
    learning.replace()
    with pytest.raises(Refused, match="Another matrix"):
        learning.start(SHORT)
