"""Enhance many files: one after the other, or spread over processes.

A file that fails is an :class:`Outcome` with its reason, never an exception: the others go on. Each worker process
keeps one enhancer and takes its share of the threads, so that jobs and threads do not multiply.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tecu.atomic import by_option, reason
from tecu.lowlight.classical import EndsProgram
from tecu.lowlight.files import (
    MAX_PIXELS,
    MissingPart,
    Photo,
    PhotoError,
    TargetExists,
    UnreadableFile,
    UnwritableFile,
    encode_photo,
    read_photo,
    write_photo,
)
from tecu.lowlight.files.errors import shown
from tecu.lowlight.files.write import fitting_format
from tecu.lowlight.images import on_visible, visible_pixels
from tecu.lowlight.model import HEADROOM
from tecu.lowlight.plan import PARTS, STREAM, Task, part_path
from tecu.lowlight.workers import begin_worker, held_interrupts, shared_threads

Frames = Callable[[int, int | None], None]


@dataclass(frozen=True)
class Settings:
    """How photos are enhanced and written; the same for the whole run."""

    method: str = "tecu"
    strength: float = 1.0
    denoise: bool = True
    model: str | None = None
    overwrite: bool = False
    skip_existing: bool = False
    strip_metadata: bool = False
    decompose: bool = False
    max_pixels: int = MAX_PIXELS
    headroom: float = HEADROOM


@dataclass(frozen=True)
class Outcome:
    """What became of one file."""

    source: str
    target: str
    status: Literal["done", "skipped", "failed"]
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    reason: str | None = None
    fault: Literal["input", "part", "output", "method"] | None = None
    extra: dict[str, Any] = field(default_factory=dict)


Make = Callable[[Settings], Any]


def make_enhancer(settings: Settings) -> Any:
    """The enhancer that ``settings`` ask for."""
    from tecu.lowlight import Enhancer

    return Enhancer(
        settings.method,
        strength=settings.strength,
        denoise=settings.denoise,
        model=settings.model,
        headroom=settings.headroom,
    )


@lru_cache(maxsize=1)
def _kept(make: Make, settings: Settings) -> Any:
    return make(settings)


def process(task: Task, settings: Settings, make: Make = make_enhancer, frames: Frames | None = None) -> Outcome:
    """Enhance one file; every failure becomes an outcome.

    >>> process(Task("missing.jpg", "out.jpg"), Settings(), make=lambda settings: None).reason
    'missing.jpg could not be opened: there is no such file'
    """
    started = time.perf_counter()

    def outcome(status: Literal["done", "skipped", "failed"], **more: Any) -> Outcome:
        return Outcome(task.source, task.target, status, round(time.perf_counter() - started, 3), **more)

    try:
        if settings.skip_existing and task.target != STREAM and all(map(os.path.lexists, results(task, settings))):
            return outcome("skipped")
        _refuse_existing(task, settings)
        if task.is_video:
            from tecu.lowlight.video import enhance_video

            _make_folder(task.target)
            enhancer, rest = _kept(make, settings), (frames, settings.max_pixels, settings.strip_metadata)
            notes = enhance_video(task.source, task.target, enhancer, settings.overwrite, *rest)
            if settings.decompose:
                notes = (*notes, "illumination and reflectance of a video are not written")
            return outcome("done", notes=notes)
        notes, extra = _enhance_photo(task, settings, make)
        return outcome("done", notes=notes, extra=extra)
    except MissingPart as error:
        return outcome("failed", reason=str(error), fault="part")
    except TargetExists as error:
        if settings.skip_existing:  # it has appeared meanwhile: another run does the same folder
            return outcome("skipped")
        return outcome("failed", reason=by_option(str(error)), fault="output")
    except UnwritableFile as error:
        return outcome("failed", reason=str(error), fault="output")
    except PhotoError as error:
        return outcome("failed", reason=str(error), fault="input")
    except ImportError as error:
        return outcome("failed", reason=f"{shown(task.source)}: {error}", fault="part")
    except EndsProgram as error:
        return outcome("failed", reason=f"{shown(task.source)} could not be enhanced: {error}", fault="method")
    except BrokenPipeError:
        raise  # standard output has gone: there is nobody left to report to
    except Exception as error:  # one odd photo must not cost the rest of the batch
        detail = (str(error).splitlines() or [""])[0]
        reason = f"{shown(task.source)} could not be enhanced: {type(error).__name__}: {detail}"
        return outcome("failed", reason=reason, fault="input")


def _refuse_existing(task: Task, settings: Settings) -> None:
    """Refuse to replace what is there; photo or parts alone are what another run left, which this one completes."""
    for path in filter(os.path.lexists, results(task, settings)):
        if os.path.exists(task.source) and os.path.exists(path) and os.path.samefile(task.source, path):
            raise UnwritableFile(f"{shown(path)} is the original, which is never written over")
        if not (settings.overwrite or settings.skip_existing):
            raise TargetExists(f"{shown(path)} exists already; --overwrite replaces it")


def _enhance_photo(task: Task, settings: Settings, make: Make) -> tuple[tuple[str, ...], dict[str, Any]]:
    _refuse_closed(task)
    photo = read_photo(sys.stdin.buffer if task.source == STREAM else task.source, max_pixels=settings.max_pixels)
    enhancer = _kept(make, settings)
    if settings.skip_existing and settings.decompose and os.path.lexists(task.target):  # only its parts are missing
        note = f"{shown(task.target)} was there already and is left as it is; its layers are new"
        return (*photo.notes, note), _write_parts(enhancer, photo, task.target, settings)
    result = photo.with_pixels(on_visible(photo.alpha, photo.pixels, enhancer))
    if task.target == STREAM:
        data, notes = encode_photo(
            result, fitting_format(photo), strip_metadata=settings.strip_metadata, name="standard output"
        )
        _put_out(data)
        return photo.notes + notes, {}
    _make_folder(task.target)
    extra = _write_parts(enhancer, photo, task.target, settings) if settings.decompose else {}
    notes = write_photo(result, task.target, overwrite=settings.overwrite, strip_metadata=settings.strip_metadata)
    return photo.notes + notes, extra


def _refuse_closed(task: Task) -> None:
    """Python has ``None`` for a standard stream that was closed before it began."""
    if task.source == STREAM and sys.stdin is None:
        raise UnreadableFile("standard input is closed")
    if task.target == STREAM and sys.stdout is None:
        raise UnwritableFile("standard output is closed")


def _put_out(data: bytes) -> None:
    """To standard output, past its buffer: what a full disk refuses would stay there and fail once more at the end."""
    left = memoryview(data)
    try:
        sys.stdout.flush()
        raw = getattr(sys.stdout.buffer, "raw", sys.stdout.buffer)
        while left:
            left = left[raw.write(left) or 0 :]
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UnwritableFile(f"standard output could not be written: {reason(error, STREAM)}") from error


def _make_folder(target: str) -> None:
    folder = Path(target).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnwritableFile(f"the folder {shown(folder)} could not be made: {reason(error, folder)}") from error


def results(task: Task, settings: Settings) -> list[str]:
    """The files that ``task`` writes."""
    return task.results(settings.decompose)


def _write_parts(enhancer: Any, photo: Photo, target: str, settings: Settings) -> dict[str, Any]:
    """Illumination and reflectance beside the result, 16 bits each, and what the certificate says."""
    parts = enhancer.decompose(visible_pixels(photo.alpha, photo.pixels))
    extra: dict[str, Any] = {}
    for name in PARTS:
        values = np.asarray(getattr(parts, name))
        values = values[..., 0] if values.ndim == 3 and values.shape[2] == 1 else values
        path = part_path(target, name)
        write_photo(Photo(_sixteen_bits(values)), path, overwrite=settings.overwrite or settings.skip_existing)
        extra[name] = path
    certificate = getattr(parts, "certificate", None)
    if certificate is not None:
        extra["certificate"] = {"holds": bool(certificate.holds), "verdict": str(certificate.verdict.value)}
    return extra


def _sixteen_bits(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """``round(65535 values)``, a strip of rows at a time: in double precision the whole would fill memory."""
    samples = np.empty(values.shape, np.uint16)
    for top in range(0, len(values), 64):
        rows = slice(top, top + 64)
        samples[rows] = np.rint(65535 * np.clip(values[rows].astype(np.float64), 0, 1))
    return samples


# ---- many files ----


def run(
    tasks: Sequence[Task],
    settings: Settings,
    *,
    jobs: int = 1,
    make: Make = make_enhancer,
    frames: Frames | None = None,
) -> Iterator[Outcome]:
    """Outcomes as they come; with ``jobs`` above 1 from as many processes, in the order in which they end.

    After an interrupt the outcomes of what was being written still come, and then the interrupt.
    """
    if jobs == 1 or len(tasks) < 2:
        for task in tasks:
            yield process(task, settings, make, frames)
        return
    # A process that dies (out of memory, a crash in a decoder) takes the files in flight with it: they are tried
    # again one at a time, so that the one to blame is known and the others are done.
    suspects: list[Task] = []
    replaceable: set[Task] = set()
    yield from _pooled(deque(tasks), settings, make, min(jobs, len(tasks)), suspects, replaceable)
    for task in suspects:
        again: list[Task] = []
        # The lost worker may have written its result without living to say so; that one may be replaced.
        retried = replace(settings, overwrite=True, skip_existing=False) if task in replaceable else settings
        yield from _pooled(deque([task]), retried, make, 1, again, set())
        if again:
            reason = f"{shown(task.source)} could not be enhanced: the process died on it (out of memory?)"
            yield Outcome(task.source, task.target, "failed", reason=reason, fault="input")


def _pooled(
    queue: deque[Task], settings: Settings, make: Make, jobs: int, suspects: list[Task], replaceable: set[Task]
) -> Iterator[Outcome]:
    """Outcomes of the files that were finished; those lost with a worker go to ``suspects``.

    ``replaceable`` gets the files that had no results before: what is there afterwards is ours.
    """
    import multiprocessing

    context = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang
    while queue:
        flying: dict[Future[Outcome], Task] = {}
        with shared_threads(jobs), ProcessPoolExecutor(jobs, context, initializer=begin_worker) as pool:
            try:
                while queue or flying:
                    with contextlib.suppress(BrokenProcessPool):  # the futures in flight say whose fault it was
                        while queue and len(flying) < 2 * jobs:  # a short queue: nothing piles up
                            fresh = not any(map(os.path.lexists, results(queue[0], settings)))
                            with held_interrupts():  # a worker that starts inherits this
                                flying[pool.submit(process, queue[0], settings, make)] = queue[0]
                            replaceable.update([queue[0]] if fresh else [])
                            queue.popleft()
                    if not flying:
                        break  # the pool is broken and takes no more: the rest goes to a new one
                    # When a pool breaks, some futures have their outcome already and only the others are lost.
                    ended = wait(flying, return_when=FIRST_COMPLETED).done
                    for future in ended:
                        task = flying.pop(future)
                        if isinstance(future.exception(), BrokenProcessPool):
                            suspects.append(task)
                        else:
                            yield future.result()
            except KeyboardInterrupt:
                pool.shutdown(wait=True, cancel_futures=True)  # what is being written is finished, and told of
                yield from (future.result() for future in flying if _has_outcome(future))
                raise
            except BaseException:
                pool.shutdown(wait=True, cancel_futures=True)
                raise


def _has_outcome(future: Future[Outcome]) -> bool:
    return not future.cancelled() and future.exception() is None
