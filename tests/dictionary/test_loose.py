"""Loose passes: which samples they look at, how tight they are, and what they tell of themselves."""

import logging
import math
from itertools import pairwise

import numpy as np
import pytest

from tecu.dictionary import L0DictionaryLearning, coding, loose, make_sparse_data
from tecu.dictionary.online import Coder
from tecu.dictionary.rows import Rows
from tecu.dictionary.workers import workers
from tecu.progress import ProgressLine


@pytest.fixture(scope="module")
def planted():
    return make_sparse_data(2500, 16, 24, 2, snr_db=35, random_state=0)


@pytest.mark.parametrize(("samples", "atoms"), [(1, 5), (300, 500), (4000, 600), (10000, 900), (16000, 1600)])
def test_a_loose_pass_takes_all_of_a_few_samples(samples, atoms):
    count, seen = loose.batches_of_a_pass(samples, atoms)
    assert seen == samples
    assert samples / count >= min(samples, loose.SMALLEST_BATCH) / 2


@pytest.mark.parametrize("atoms", [1, 30, 200, 3000])
def test_a_loose_pass_takes_as_many_of_any_more(atoms):
    taken = {loose.batches_of_a_pass(samples, atoms) for samples in (10**6, 10**7, 10**8)}
    assert len(taken) == 1
    ((count, seen),) = taken
    assert seen == max(loose.SAMPLES_AN_ATOM * atoms, loose.LEAST_SAMPLES)
    assert abs(seen / count / max(loose.BATCH * atoms, loose.SMALLEST_BATCH) - 1) < 0.1


def test_each_loose_pass_looks_at_other_samples(monkeypatch):
    monkeypatch.setattr(loose, "LEAST_SAMPLES", 128)
    monkeypatch.setattr(loose, "SAMPLES_AN_ATOM", 1)
    monkeypatch.setattr(loose, "FEW_BATCHES", 2)
    passes = []

    class Watched(Rows):
        def __getitem__(self, chosen):
            found = super().__getitem__(chosen)
            passes.append(found[:, 0])
            return found

    X = np.random.default_rng(0).normal(size=(2000, 4))
    rows = Watched(X)
    loose.loose_start(
        rows, X[:10] / np.linalg.norm(X[:10], axis=1, keepdims=True), Coder(0.1), np.random.RandomState(0)
    )
    looked = [
        set(np.concatenate(passes[i : i + 2])) for i in range(1, len(passes), 2)
    ]  # the first look is at the scale
    assert len(looked) == 8
    assert all(100 <= len(seen) < 200 for seen in looked)
    assert all(len(a & b) < 40 for a, b in pairwise(looked))


@pytest.mark.parametrize(("sweeps", "passes"), [(1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (9, 8)])
@pytest.mark.parametrize("samples", [30, 100, 400, 600])
def test_a_small_budget_makes_few_loose_passes(planted, monkeypatch, sweeps, passes, samples):
    seen, batch = [], Coder.batch

    def noted(coder, some, *looseness):
        seen.append(len(some))
        return batch(coder, some, *looseness)

    monkeypatch.setattr(Coder, "batch", noted)
    L0DictionaryLearning(24, penalty=0.01, max_iter=sweeps, random_state=0).fit(planted[0][:samples])
    usual = loose.batches_of_a_pass(samples, 24)[0]
    passes = min(passes, 4 + max(1, math.ceil((loose.LOOSEST_BATCHES - 2 * usual) / usual)))
    assert abs(sum(seen) - passes * min(samples, len(planted[0]))) <= 2  # parts are rounded


@pytest.mark.parametrize("sweeps", [2, 3, 4])
def test_of_several_loose_passes_the_last_is_tighter_than_the_first(planted, monkeypatch, sweeps):
    looseness, batch = [], Coder.batch

    def noted(coder, samples, how_loose=1.0, share=1.0):
        looseness.append(how_loose)
        return batch(coder, samples, how_loose, share)

    monkeypatch.setattr(Coder, "batch", noted)
    L0DictionaryLearning(24, penalty=0.01, max_iter=sweeps, random_state=0).fit(planted[0])
    assert looseness == sorted(looseness, reverse=True)
    assert looseness[-1] < looseness[0]


@pytest.mark.parametrize("unit", [2.0**-20, 1.0, 2.0**20])
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("coder", [Coder(0.01), Coder(0.0, 3), Coder(0.01, None, 0.0), Coder(0.01, None, -0.5, 0.5)])
def test_a_pass_of_one_batch_tells_the_objective_of_its_codes(planted, unit, threads, coder):
    """A naive twin: the samples of one batch are all coded with the atoms that the pass begins with."""
    X, D, _ = planted
    X = X[:60]
    stage = loose.stages_of(1, 1)[0]
    first, last = loose.gains(coder.penalty, float(np.mean(np.sum(X**2, axis=1))))
    if coder.n_nonzero is None:
        rule = {"stop": coder.penalty * first ** (1 - stage.tightness) * last**stage.tightness, "cap": 16 // 3}
    else:
        share = loose.FIRST_LENGTH + (1 - loose.FIRST_LENGTH) * stage.tightness
        rule = {"stop": 0.0, "cap": round(share * coder.n_nonzero)}
    found = coding.greedy(X, D, D @ D.T, positive=coder.lower >= 0, **rule)
    codes = found.clipped(coder.lower, coder.upper).csr(len(D))
    value = coder.penalty * codes.nnz + 0.5 * np.sum((X - codes @ D) ** 2)

    scaled = Coder(coder.penalty * unit**2, coder.n_nonzero, coder.lower * unit, coder.upper * unit)
    with workers(threads) as team:
        start = loose.loose_start(Rows(unit * X), D, scaled, np.random.RandomState(0), passes=1, team=team)
    assert start.history["value"].shape == (1,)
    np.testing.assert_allclose(start.history["value"], value * unit**2, rtol=1e-9)
    np.testing.assert_allclose(start.history["nonzeros"], codes.nnz / 60)


def test_what_a_part_of_the_samples_tells_is_scaled_to_all(planted):
    X, D, _ = planted
    starts = [
        loose.loose_start(Rows(X), D, Coder(0.01), np.random.RandomState(0), samples=samples)
        for samples in (None, 10 * len(X))
    ]
    alone, scaled = (start.history for start in starts)
    np.testing.assert_allclose(scaled["value"], 10 * alone["value"])
    np.testing.assert_array_equal(scaled["nonzeros"], alone["nonzeros"])


def test_a_fit_tells_how_its_loose_passes_went(planted, caplog):
    X = planted[0]
    caplog.set_level(logging.INFO, "tecu")
    model = L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
    history = model.start_history_
    assert tuple(history) == loose.COLUMNS
    assert all(column.shape == (5,) and column.dtype == np.float64 for column in history.values())
    assert np.all(np.diff(history["seconds"]) > 0)
    assert history["replaced"].sum() == model.n_replaced_ > 0
    # Planted atoms are found by the last pass; the first tight sweep starts where it has led to.
    assert model.history_["value"][1] < history["value"][-1] < history["value"][0]
    sentences = [record.message for record in caplog.records if record.message.startswith("loose stage")]
    assert len(sentences) == 5
    assert f"objective {history['value'][-1]:.6g}" in sentences[-1]


def test_without_loose_passes_there_is_nothing_to_tell(planted):
    X = planted[0][:300]
    model = L0DictionaryLearning(24, penalty=0.01, init="data", max_iter=2, random_state=0).fit(X)
    assert {name: len(column) for name, column in model.start_history_.items()} == dict.fromkeys(loose.COLUMNS, 0)
    assert model.n_replaced_ == 0
    assert not hasattr(model.partial_fit(X), "start_history_")


def test_loose_passes_show_on_the_progress_line_and_nowhere_else(planted, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(ProgressLine, "show", lambda line, sentence: shown.append(sentence))
    options = {"penalty": 0.01, "max_iter": 2, "random_state": 0}
    L0DictionaryLearning(24, **options).fit(planted[0])
    assert shown == []
    L0DictionaryLearning(24, **options, verbose=True).fit(planted[0])
    assert sum(sentence.startswith("loose stage") for sentence in shown) == 4  # two passes, cut
    assert sum(sentence.startswith("iteration") for sentence in shown) == 2
    assert capsys.readouterr().out == ""
