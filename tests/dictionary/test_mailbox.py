"""A queue whose reader looks out for a moment: nothing is lost, whether one looks out, sleeps or does neither."""

import os
import threading
import time

import numpy as np
import pytest

from tecu.dictionary import mailbox
from tecu.dictionary.kernels_waiting import look_out
from tecu.dictionary.mailbox import Mailbox, patience, processors


@pytest.mark.parametrize("glances", [0, 1, 100_000_000])
def test_items_come_in_order_whoever_is_first(glances):
    there, back = Mailbox(glances), Mailbox(glances)

    def echo():
        while (item := there.get()) is not None:
            back.put(item)

    thread = threading.Thread(target=echo, daemon=True)
    thread.start()
    for i in range(200):
        there.put(i)
        assert back.get() == i  # both have waited for each other
    for i in range(200):
        there.put(i)
    assert [back.get() for _ in range(200)] == list(range(200))
    there.put(None)
    thread.join(20)
    assert not thread.is_alive()


def counter(count=0):
    return np.full(1, count, np.int64)


def test_who_looks_out_sees_a_later_item_and_leaves_the_interpreter_to_others():
    sent, told, seen = counter(), counter(), []
    thread = threading.Thread(target=lambda: seen.append(look_out(sent, 2, 2**62, 1000, told)), daemon=True)
    thread.start()
    sent[0] += 1
    while told[0] == 0:  # which would be so for ever if it told that afterwards
        time.sleep(0.001)
    time.sleep(0.05)
    assert thread.is_alive()  # one is less than two
    sent[0] += 1  # which would never be reached if it held the interpreter's lock
    thread.join(20)
    assert seen == [1]
    assert told[0] == 1


def test_who_looks_out_in_vain_gives_up_and_has_told_all_the_same():
    told = counter()
    assert look_out(counter(0), 1, 1000, 0, told) == 0
    assert look_out(counter(1), 1, 0, 0, told) == 0  # without a glance nothing is seen
    assert told[0] == 2


def test_what_was_put_in_unseen_is_there_and_counts_once_it_is_told():
    box, other = Mailbox(1000), Mailbox(1000)
    sent = box.put_unseen("letter")
    assert sent[0] == 0
    other.put("reply")
    assert other.get(told=sent) == "reply"
    assert sent[0] == 1
    assert box.get() == "letter"


def test_nobody_looks_out_alone_or_where_processors_are_short(monkeypatch):
    monkeypatch.setattr(mailbox, "processors", lambda: 2)
    assert [patience(threads) > 0 for threads in (1, 2, 3)] == [False, True, False]


def test_processors_are_those_that_this_process_may_use(monkeypatch):
    assert 1 <= processors() <= os.cpu_count()
    monkeypatch.setenv("LOKY_MAX_CPU_COUNT", "1")
    assert processors() == 1
