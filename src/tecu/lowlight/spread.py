"""Enhance many files on a Dask cluster whose workers see the same files.

A worker that is lost takes no file with it: the scheduler gives what it had to another. Results are written whole or
not at all, so each file lands once, however often it was begun.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tecu.cluster import NoWorkers, gathered, one_by_one
from tecu.lowlight.batch import Make, Outcome, Settings, make_enhancer, process, results
from tecu.lowlight.files.errors import shown
from tecu.lowlight.plan import STREAM, Task


def spread(tasks: Sequence[Task], settings: Settings, client: Any, make: Make = make_enhancer) -> Iterator[Outcome]:
    """Outcomes as they come from the workers of ``client``."""
    if any(STREAM in (task.source, task.target) for task in tasks):
        raise ValueError("the standard streams are not on a cluster: name files, or leave out --scheduler")
    settings = replace(settings, model=None if settings.model is None else os.path.abspath(settings.model))
    flying = {}
    for task in tasks:
        there = Task(os.path.abspath(task.source), os.path.abspath(task.target))
        fresh = not any(map(os.path.lexists, results(there, settings)))
        flying[client.submit(land, there, settings, fresh, make, pure=False)] = task
    try:
        for future in one_by_one(client, list(flying)):
            task = flying.pop(future)
            yield _outcome(task, future, client)
            future.release()
    finally:
        if flying:  # Ctrl-C: what is being written is finished, what waits is not begun
            client.cancel(list(flying))


def land(task: Task, settings: Settings, fresh: bool, make: Make = make_enhancer) -> Outcome:
    """Enhance one file on a worker. ``fresh`` says that it had no result when the run began.

    A result that is there all the same is what a lost worker left, and is made anew.
    """
    if fresh and any(map(os.path.lexists, results(task, settings))):
        settings = replace(settings, overwrite=True, skip_existing=False)
    return process(task, settings, make)


def _outcome(task: Task, future: Any, client: Any) -> Outcome:
    """What became of a file, by the names that the caller gave.

    A worker that is lost may take a result with it that was there a moment ago; then this waits until it is made anew.
    """
    try:
        outcome: Outcome = gathered(client, [future])[0]
        return replace(outcome, source=task.source, target=task.target)
    except NoWorkers:
        raise
    except Exception as error:  # one odd photo must not cost the rest of the batch
        why = "several workers died on it (out of memory?)" if type(error).__name__ == "KilledWorker" else repr(error)
        reason = f"{shown(task.source)} could not be enhanced: {why}"
        return Outcome(task.source, task.target, "failed", reason=reason, fault="input")
