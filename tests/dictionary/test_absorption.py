"""A batch that threads absorb without the interpreter: what greedy codes, totals and a sweep in plain NumPy give."""

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from tecu.dictionary import absorption, coding, plain
from tecu.dictionary.absorption import Absorption, Batch, Room, absorb_all
from tecu.dictionary.kernels_absorb import ALL_TAKEN, FEW_PAIRS, absorb
from tecu.dictionary.online import Coder, OnlineDictionary
from tecu.dictionary.workers import Workers


@pytest.fixture(params=[1, 2, 3])
def team(request):
    team = Workers(request.param)
    yield team
    team.close()


def data(m, n, samples, seed=0):
    rng = np.random.default_rng(seed)
    D = rng.normal(size=(m, n))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    return D, rng.normal(size=(samples, 3)) @ rng.normal(size=(3, n)) + 0.3 * rng.normal(size=(samples, n))


def greedy_codes(Y, D, batch, bounds=(-np.inf, np.inf)):
    found = coding.greedy(Y, D, D @ D.T, stop=batch.stop, cap=batch.cap, positive=batch.positive)
    return found.clipped(*bounds).csr(len(D)).toarray()


def swept(D, A, B, ball, few_pairs):
    """The atoms after a pass, in which each half sees the other as it was if few pairs are used together."""
    half = len(D) // 2
    if not few_pairs:
        return plain.sweep(D, A, B, 0.0, ball)
    order = np.concatenate([np.arange(half, len(D)), np.arange(half)])
    first = plain.sweep(D, A, B, 0.0, ball)[:half]
    second = plain.sweep(D[order], A[np.ix_(order, order)], B[order], 0.0, ball)[: len(D) - half]
    return np.concatenate([first, second])


@pytest.mark.parametrize(
    ("m", "n", "samples", "cap"), [(301, 12, 500, 2), (101, 12, 300, 2), (101, 12, 900, 6), (1, 5, 70, 3), (7, 1, 9, 1)]
)
@pytest.mark.parametrize("ball", [False, True])
@pytest.mark.parametrize("bounds", [(-np.inf, np.inf), (0.0, 0.5)])
def test_a_batch_is_absorbed_as_in_plain_numpy(team, m, n, samples, cap, ball, bounds):
    D, Y = data(m, n, samples)
    weight, batch = 1.7, Batch(Y, 0.02, cap, positive=bounds[0] >= 0)
    new, A, B, room = D.copy(), np.zeros((m, m)), np.zeros((m, n)), Room(D, team.count)
    room.gram[:] = np.nan  # what memory held before is of no use
    np.fill_diagonal(A, 0.5)
    B += 0.5 * D  # a past
    codes, (past, past_of_samples) = greedy_codes(Y, D, batch, bounds), (A.copy(), B.copy())
    run = Absorption(new, A, B, batch, team, room, weight=weight, ball=ball, bounds=bounds, judges=True)
    absorb_all(iter([run]), team)
    assert run.is_done
    np.testing.assert_allclose(A, past + weight * codes.T @ codes, atol=1e-10)
    np.testing.assert_allclose(B, past_of_samples + weight * codes.T @ Y, atol=1e-10)
    np.testing.assert_allclose(run.energy, np.sum(codes**2, axis=0), atol=1e-10)
    np.testing.assert_allclose(run.misfits, Y - codes @ D, atol=1e-10)
    np.testing.assert_allclose(run.squares, np.sum((Y - codes @ D) ** 2, axis=1), atol=1e-10)
    few = np.sum(np.count_nonzero(codes, axis=1) ** 2) / m**2 < FEW_PAIRS
    np.testing.assert_allclose(new, swept(D, A, B, ball, few and 1 / m < FEW_PAIRS), atol=1e-8)


def test_both_kinds_of_sweeps_are_seen_by_the_test_above():
    shares = []
    for samples, cap in ((300, 2), (900, 6)):
        D, Y = data(101, 12, samples)
        codes = greedy_codes(Y, D, Batch(Y, 0.02, cap))
        shares.append(np.sum(np.count_nonzero(codes, axis=1) ** 2) / 101**2)
    assert shares[0] < FEW_PAIRS < shares[1]


def test_any_number_of_threads_absorbs_the_same_bits_and_room_can_be_used_again(team):
    D, Y = data(90, 10, 700)
    D, Y = D.astype(np.float32), Y.astype(np.float32)
    seen = []
    for who in (Workers(1), team):
        new, A, B = D.copy(), np.zeros((90, 90), np.float32), np.zeros((90, 10), np.float32)
        room = Room(D, who.count)
        assert room.fits(D, who.count)
        for samples, cap in ((500, 3), (700, 2), (100, 5)):
            batch = Batch(Y[:samples], 0.01, cap)
            absorb_all(iter([Absorption(new, A, B, batch, who, room, judges=samples > 500)]), who)
        seen.append((new, A, B))
    for one, other in zip(*seen, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)  # tiles are others, and so are BLAS's sums


def plain_step(D, A, B, batch, keep, weight):
    codes = greedy_codes(batch.samples, D, batch)
    pairs = np.sum(np.count_nonzero(codes, axis=1) ** 2) / len(D) ** 2
    few = max(pairs, np.count_nonzero(A) / A.size if keep else 0.0) < FEW_PAIRS
    A, B = keep * A + weight * codes.T @ codes, keep * B + weight * codes.T @ batch.samples
    return swept(D, A, B, False, few), A, B, codes


@pytest.mark.parametrize("glances", ["patience", 0])
def test_batches_in_turn_are_absorbed_one_after_the_other(team, glances):
    """Each is coded with the atoms that the one before has left, and asked for once the one before it was begun."""
    team.glances = team.glances if glances == "patience" else 0
    D, Y = data(40, 9, 600)
    settings = [(200, 3, 1.0, 1.0), (150, 2, 1.0, 1.7), (200, 3, 0.5, 1.0), (20, 1, 0.0, 1.0), (30, 2, 1.0, 2.0)]
    batches, begin = [], 0
    for samples, cap, keep, weight in settings:
        batches.append((Batch(Y[begin : begin + samples], 0.02, cap), keep, weight))
        begin += samples
    new, A, B, room, asked = D.copy(), np.zeros((40, 40)), np.zeros((40, 9)), Room(D, team.count), []

    def steps():
        last = None
        for batch, keep, weight in batches:
            last = Absorption(new, A, B, batch, team, room, keep=keep, weight=weight, judges=True, earlier=last)
            asked.append(last)
            yield last

    absorb_all(steps(), team)
    expected = D, np.zeros((40, 40)), np.zeros((40, 9))
    for run, (batch, keep, weight) in zip(asked, batches, strict=True):
        before = expected[0]
        *expected, codes = plain_step(*expected, batch, keep, weight)
        assert run.is_done
        np.testing.assert_allclose(run.misfits, batch.samples - codes @ before, atol=1e-8)
        np.testing.assert_allclose(run.energy, np.sum(codes**2, axis=0), atol=1e-8)
    for found, right in zip((new, A, B), expected, strict=True):
        np.testing.assert_allclose(found, right, atol=1e-8)


def test_a_batch_is_judged_only_after_all_threads_have_left_it(team, monkeypatch):
    """The counter of jobs may be seen before what the jobs have written, so it alone is not to be relied on."""
    D, Y = data(40, 9, 600)
    monkeypatch.setattr(Absorption, "is_done", True)
    seen = []
    judged = SimpleNamespace(add=lambda run: seen.append((int(run._done[0]), run._jobs)))
    learner = OnlineDictionary(D, Coder(0.02), team=team)
    learner.absorb((learner.coder.batch(Y[100 * k : 100 * (k + 1)]) for k in range(6)), 0.9, judged)
    assert len(seen) == 6
    assert all(done == jobs for done, jobs in seen)


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_batches_that_cannot_be_had_end_the_work_of_all_threads(team, error):
    D, Y = data(40, 9, 600)
    room = Room(D, team.count)

    def steps():
        yield Absorption(D, np.zeros((40, 40)), np.zeros((40, 9)), Batch(Y, 0.02, 2), team, room)
        raise error("no more of them")

    with pytest.raises(error, match="no more"):
        absorb_all(steps(), team)
    assert team.each(lambda i: i, [1, 2, 3]) == [1, 2, 3]


def test_work_that_is_shared_already_is_not_shared_once_more(team):
    D, Y = data(40, 9, 300)
    new, A, B = D.copy(), np.zeros((40, 40)), np.zeros((40, 9))
    run = Absorption(new, A, B, Batch(Y, 0.02, 2), team, Room(D, team.count))
    team.each(lambda piece: absorb_all(iter([run] if piece else []), team), [0, 1])
    codes = greedy_codes(Y, D, Batch(Y, 0.02, 2))
    np.testing.assert_allclose(A, codes.T @ codes, atol=1e-10)


def test_room_is_for_one_size_one_precision_and_one_number_of_threads():
    room = Room(np.zeros((4, 3)), 2)
    assert room.fits(np.ones((4, 3)), 2)
    for D, threads in (
        (np.ones((4, 2)), 2),
        (np.ones((3, 3)), 2),
        (np.ones((4, 3), np.float32), 2),
        (np.ones((4, 3)), 1),
    ):
        assert not room.fits(D, threads)


def test_a_thread_whose_job_needs_others_gives_it_back_and_goes_on_later():
    """As where threads outnumber processors: nobody looks out for long, and nothing is lost."""
    D, Y = data(60, 8, 400)
    team = Workers(2)
    team.glances = 0
    new, A, B, room = D.copy(), np.zeros((60, 60)), np.zeros((60, 8)), Room(D, 2)
    run = Absorption(new, A, B, Batch(Y, 0.02, 3), team, room)
    given, scratch = run._given, [room.of_thread(i, 400, 3, np.int64) for i in range(2)]
    taken = given[-2]
    taken[0] = 1  # the first strip is somebody else's, who has not done it
    waiting = absorb(*given, ALL_TAKEN, 0, *scratch[0])
    assert waiting >= 0

    def go_on(job, thread):
        while (job := absorb(*given, job, 0, *scratch[thread])) != ALL_TAKEN:
            time.sleep(1e-4)

    late = threading.Thread(target=go_on, args=(0, 1))
    late.start()  # does the first strip
    go_on(waiting, 0)
    late.join(20)
    team.close()
    codes = greedy_codes(Y, D, Batch(Y, 0.02, 3))
    np.testing.assert_allclose(A, codes.T @ codes, atol=1e-10)
    few = np.sum(np.count_nonzero(codes, axis=1) ** 2) / 60**2 < FEW_PAIRS
    np.testing.assert_allclose(new, swept(D, A, B, False, few), atol=1e-8)


def test_an_interruption_of_a_thread_that_has_begun_a_job_leaves_nobody_waiting(monkeypatch):
    D, Y = data(60, 8, 400)
    team = Workers(2)
    team.glances = 0
    new, A, B, room = D.copy(), np.zeros((60, 60)), np.zeros((60, 8)), Room(D, 2)
    run = Absorption(new, A, B, Batch(Y, 0.02, 3), team, room)
    given = run._given
    given[-2][0] = 1  # the first strip is somebody else's, who never does it: everybody comes to wait for it
    here = threading.get_ident()

    def interrupted(seconds):
        if threading.get_ident() == here:
            raise KeyboardInterrupt
        time.sleep(1e-4)

    monkeypatch.setattr(absorption, "time", SimpleNamespace(sleep=interrupted))
    with pytest.raises(KeyboardInterrupt):
        absorb_all(iter([run]), team)
    assert team.each(lambda i: i, [1, 2, 3]) == [1, 2, 3]  # the team goes on
    team.close()
