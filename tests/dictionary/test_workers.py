"""Threads that share a batch: every slice once, answers in order, errors to the one who asked."""

import threading
from functools import partial

import numpy as np
import pytest

from tecu.dictionary.workers import Workers, _Worker


@pytest.fixture(params=[1, 2, 3])
def team(request):
    team = Workers(request.param)
    yield team
    team.close()


@pytest.mark.parametrize("size", [1, 63, 64, 500, 10_000])
@pytest.mark.parametrize("cut", ["slices", "several", "tapering"])
def test_every_row_is_in_one_slice_and_answers_come_in_order(team, cut, size):
    pieces = getattr(team, cut)(size)
    answers = team.each(lambda piece: list(range(piece.start, piece.stop)), pieces)
    assert [row for answer in answers for row in answer] == list(range(size))
    assert all(answers)
    if team.count == 1:
        assert len(pieces) == 1


def test_slices_taper_and_every_thread_can_have_as_many(team):
    lengths = [piece.stop - piece.start for piece in team.tapering(10_000)]
    if team.count > 1:
        rounds = [lengths[i : i + team.count] for i in range(0, len(lengths), team.count)]
        assert [sum(these) for these in rounds] == [5000, 2500, 1250, 625, 625]
        assert all(max(these) - min(these) <= 1 for these in rounds)


def test_no_slice_is_longer_than_allowed(team):
    pieces = team.tapering(10_000, most=170)
    assert max(piece.stop - piece.start for piece in pieces) <= 170
    assert [pieces[0].start, *(piece.stop for piece in pieces)] == [*(piece.start for piece in pieces), 10_000]


def test_shared_work_is_not_cut_once_more():
    team = Workers(2)
    assert team.each(lambda _: len(team.tapering(10_000)), [0, 1]) == [1, 1]
    team.close()


@pytest.mark.parametrize("cut", ["slices", "several", "tapering"])
def test_of_no_rows_there_is_one_empty_slice(team, cut):
    assert getattr(team, cut)(0) == [slice(0, 0)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrices_are_symmetric_to_the_last_bit(team, dtype):
    rows = np.random.default_rng(0).normal(size=(430, 37)).astype(dtype)
    gram = team.gram(rows)
    np.testing.assert_allclose(gram, rows @ rows.T, rtol=1e-4, atol=1e-5)
    assert np.array_equal(gram, gram.T)


def test_answers_do_not_depend_on_which_thread_is_free(team):
    rng = np.random.default_rng(0)
    Y, D = rng.normal(size=(700, 30)).astype(np.float32), rng.normal(size=(30, 40)).astype(np.float32)
    first, second = (np.concatenate(team.each(lambda piece: Y[piece] @ D, team.tapering(len(Y)))) for _ in range(2))
    assert np.array_equal(first, second)


def test_a_slow_slice_holds_up_its_own_thread_only():
    team = Workers(2)
    others_done = threading.Event()
    done = []

    def work(piece):
        if piece.start == 0:
            assert others_done.wait(20)  # whoever has the first slice waits for all others to be done
        done.append(piece.start)
        if len(done) == 3:
            others_done.set()

    team.each(work, team.tapering(2000))
    team.close()
    assert done[-1] == 0


def test_an_error_reaches_the_caller_and_the_team_goes_on(team):
    def fail(piece):
        if piece.stop > 50:
            raise IndexError("row 50")
        return piece.start

    with pytest.raises(IndexError, match="row 50"):
        team.each(fail, team.tapering(200))
    assert sum(team.each(lambda piece: piece.stop - piece.start, team.tapering(200))) == 200


def test_what_is_shared_is_not_shared_out_once_more(team):
    def outer(piece):
        names = team.each(lambda inner: threading.current_thread().name, team.tapering(300))
        return set(names) == {threading.current_thread().name}

    assert all(team.each(outer, team.tapering(300)))


def test_threads_treat_errors_of_numpy_as_the_caller_does(team):
    together = threading.Barrier(team.count)  # one piece for each thread

    def divided(piece):
        together.wait(20)
        return np.ones(1) / np.zeros(1)

    with np.errstate(divide="ignore"):  # warnings are errors in the tests
        assert np.all(np.isinf(team.each(divided, range(team.count))))
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        team.each(divided, range(team.count))


def test_threads_end_with_their_team():
    before = threading.active_count()
    team = Workers(3)
    for _ in range(3):
        assert sum(team.each(lambda piece: piece.stop - piece.start, team.tapering(300))) == 300
    assert threading.active_count() == before + 2
    team.close()
    assert threading.active_count() == before
    assert (
        sum(team.each(lambda piece: piece.stop - piece.start, team.tapering(300))) == 300
    )  # by the caller's own thread


def test_what_comes_first_is_done_before_it_is_waited_for(team):
    first_done, order, waits = [], [], threading.Event()

    def first(i):
        if i == 2 and team.count > 1:
            assert waits.wait(20)  # for a piece that is about to wait for it
        first_done.append(i)

    def function(piece, wait):
        order.append((threading.get_ident(), piece))
        waits.set()
        wait()
        assert sorted(first_done) == [0, 1, 2]
        return 10 * piece

    assert team.each_after([partial(first, i) for i in range(3)], function, range(5)) == [0, 10, 20, 30, 40]
    assert sorted(piece for _, piece in order) == [0, 1, 2, 3, 4]
    for thread in {thread for thread, _ in order}:
        own = [piece for who, piece in order if who == thread]
        assert own == sorted(own)


def test_an_error_in_what_comes_first_reaches_the_caller_and_leaves_nobody_waiting(team):
    waits = threading.Event()

    def fail():
        if team.count > 1:
            assert waits.wait(20)  # for a piece that is about to wait for it
        raise ArithmeticError("no Gram matrix")

    def function(piece, wait):
        waits.set()
        wait()

    with pytest.raises(ArithmeticError, match="no Gram matrix"):
        team.each_after([fail, lambda: None], function, range(8))
    assert sum(team.map(lambda piece: piece.stop - piece.start, 500)) == 500  # and goes on


def test_a_thread_that_works_on_after_an_interrupt_shares_nothing_out_to_itself():
    team, begun, gone_on, nested = Workers(2), threading.Event(), threading.Event(), []

    def work(piece):
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(20)  # one piece is for the other thread
            return
        begun.set()
        assert gone_on.wait(20)
        nested.append(team.each(lambda q: q, [1, 2]))

    def interrupted():
        raise KeyboardInterrupt

    waits = team._others[0].error
    team._others[0].error = interrupted  # Ctrl-C while the caller waits for the others
    with pytest.raises(KeyboardInterrupt):
        team.each(work, [0, 1])
    team._others[0].error = waits
    gone_on.set()
    closing = threading.Thread(target=team.close, daemon=True)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    assert nested == [[1, 2]]


@pytest.mark.parametrize("put", [True, False])
def test_an_interruption_while_threads_are_called_leaves_nobody_waiting(monkeypatch, put):
    """Whether the other thread has its job by then or not: it is let go, and its answer is not taken for a later one"""
    team, let_go = Workers(2), threading.Event()
    start = _Worker.start

    def interrupted(worker, job):
        if put:
            start(worker, job)
        raise KeyboardInterrupt

    def work(piece):
        assert let_go.wait(20)
        raise IndexError("of the work that was given up")

    with monkeypatch.context() as patch:
        patch.setattr(_Worker, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            team.each(work, [0, 1], let_go.set)
    assert let_go.is_set()
    assert team.each(lambda i: i, [1, 2, 3]) == [1, 2, 3]
    team.close()


def test_threads_that_cannot_all_be_had_are_not_kept_in_part(monkeypatch):
    before, begin, begun = threading.active_count(), threading.Thread.start, []

    def start(thread):
        if len(begun) == 2:
            raise RuntimeError("can't start new thread")
        begun.append(thread)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(RuntimeError, match="new thread"):
        Workers(5)
    assert len(begun) == 2
    assert threading.active_count() == before
