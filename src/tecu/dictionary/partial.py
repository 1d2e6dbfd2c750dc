"""``partial_fit``: a batch at a time, and the past that it goes on from."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tecu.arrays import is_elsewhere
from tecu.dictionary.coding import Matrix
from tecu.dictionary.loose import LEAST_SAMPLES, SAMPLES_AN_ATOM, Start, start_of
from tecu.dictionary.online import HEAVIEST, OnlineDictionary
from tecu.dictionary.parameters import Checked, asked_atoms, start_dictionary
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import require_range
from tecu.dictionary.workers import Workers, workers

MEMORY = 20.0
"""Batches that the totals reach back."""

ENOUGH = 4
"""Samples an atom from which on loose passes over a first batch teach its atoms something."""

OF_A_RUN = ("codes_", "objective_", "certificate_", "certificate_summary_", "history_", "start_history_", "status_")
"""What ``fit`` says of its own dictionary, and no other."""


def require_one_batch(X: Any) -> None:
    """Refuse an iterator of chunks, which ``fit`` would take."""
    if isinstance(X, Iterator):
        raise TypeError("partial_fit takes one batch, samples x features, and got an iterator; call it for each chunk")


def check_batch(model: Any, rows: Rows, checked: Checked, first: bool) -> None:
    """Refuse a batch that totals cannot hold, a first one that tells nothing of the penalty, a change of the atoms."""
    asked = asked_atoms(model, rows)
    if asked != checked.n_components:
        raise ValueError(
            f"n_components={model.n_components!r} asks for {asked} atoms, but the model has learned "
            f"{checked.n_components}, which partial_fit goes on with; set n_components={checked.n_components}, "
            "or call fit for another number"
        )
    square = rows.square()
    require_range(square, rows, checked.n_components, weight=HEAVIEST)
    if first and square == 0.0 and checked.coder.n_nonzero is None and model.penalty == "auto":
        raise ValueError("penalty='auto' cannot be chosen from a first batch of zeros; give a number")


def first_start(model: Any, rows: Rows, checked: Checked) -> Start:
    """Where a first batch starts, found as ``fit`` finds it."""
    random = check_random_state(model.random_state)
    if len(rows) < ENOUGH * checked.n_components:
        return Start(start_dictionary(checked, rows, random))
    with workers(checked.threads) as team:
        return start_of(checked, rows, random, passes=model.max_iter, team=team, verbose=bool(model.verbose))


def absorb_batch(model: Any, rows: Rows, checked: Checked) -> None:
    """Code a batch with the model's dictionary, add it to the totals, sweep over the atoms.

    A very long batch goes in parts, of which only the first makes the totals forget: dense samples and room for codes
    are had for one part at a time.
    """
    start = partial(OnlineDictionary, model.components_, checked.coder, checked.ball, energy=energy_of(model))
    if not hasattr(model, "_online") or not np.array_equal(model._online.D, model.components_):  # Ctrl-C between both
        model._online = start()
    online: OnlineDictionary = model._online
    online.coder, online.ball = checked.coder, checked.ball
    past = MEMORY if online.has_past else float(model.n_iter_)
    parts = rows.pieces(max(SAMPLES_AN_ATOM * len(online.D), LEAST_SAMPLES))
    batches = (online.coder.batch(rows[part]) for part in parts)
    try:
        with workers(checked.threads) as team:
            online.team = team
            online.absorb(islice(batches, 1), keep=1.0 - 1.0 / min(past + 1.0, MEMORY))
            online.absorb(batches, keep=1.0)
        online.team = Workers(1)
        model.components_, model.penalty_ = online.D.copy(), checked.coder.penalty
        model.n_iter_ += 1
        for name in (*OF_A_RUN, "_energy"):
            vars(model).pop(name, None)
    except BaseException:  # totals that may hold half of the batch give way to those of a model from a file
        vars(online).update(vars(start()))
        raise


def energy_of(model: Any) -> Matrix | None:
    """The squared coefficients that a model was learned from, summed by atoms: how firmly it holds them; or ``None``.

    >>> from tecu.dictionary import L0DictionaryLearning
    >>> model = L0DictionaryLearning(1, penalty=0.1, random_state=0).fit(np.array([[3.0, 4.0], [4.0, 3.0]]))
    >>> np.round(energy_of(model)).tolist()
    [49.0]
    """
    if hasattr(model, "_online"):
        online: OnlineDictionary = model._online
        return np.asarray(np.diagonal(online.A) / online.weight)
    if hasattr(model, "_energy"):
        return np.asarray(model._energy)
    codes = getattr(model, "codes_", None)
    if codes is None or is_elsewhere(codes):
        return None
    squares = codes.data.astype(np.float64) ** 2
    return np.bincount(codes.indices, weights=squares, minlength=len(model.components_))
