"""``tecu enhance``: dark photos and videos to good ones."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import click
from click.core import ParameterSource

from tecu.atomic import escaped
from tecu.cli.main import BAD_ARGUMENTS, INPUT_FAILED, PART_MISSING, UNWRITABLE, Unwritable, report_problem
from tecu.cli.outputs import check_outputs, check_place, refuse_inputs, unwritten
from tecu.cli.scheduler import connected, scheduler_option
from tecu.lowlight.batch import Outcome, Settings, make_enhancer, results, run
from tecu.lowlight.classical import METHODS
from tecu.lowlight.files import MAX_PIXELS
from tecu.lowlight.files.errors import shown
from tecu.lowlight.model import HEADROOM, MODELS
from tecu.lowlight.plan import STREAM, Refusal, Survey, Task, survey

# The first that occurs decides.
FAULT_CODES = {"output": UNWRITABLE, "input": INPUT_FAILED, "part": PART_MISSING, "method": BAD_ARGUMENTS}


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IN...")
@click.option("-o", "--output", "out", metavar="OUT", help="File, folder, or '-'. Without it: NAME-enhanced beside IN.")
@click.option("-r", "--recursive", is_flag=True, help="Look into folders of folders; their tree is mirrored.")
@click.option("-j", "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Processes at a time.")
@click.option("-s", "--strength", type=float, default=1.0, show_default=True,
              help="0 leaves the photo alone, 1 is what the network proposes, up to 2 lifts shadows more.")  # fmt: skip
@click.option("--headroom", type=float, default=HEADROOM, show_default=True,
              help="How near to white (1) the light may bring a pixel, 0.5 to 0.99; less keeps highlights calmer. "
                   "Not with a classical method.")  # fmt: skip
@click.option(
    "--no-denoise", is_flag=True, help="Leave the noise that the brightening shows. Not with a classical method."
)
@click.option("--method", default="tecu", show_default=True, metavar="NAME",
              help=f"tecu, paper, pam; a classical one: {', '.join(METHODS)}; or a module:function.")  # fmt: skip
@click.option("--model", metavar="FILE", help="A network of your own (ONNX, from `tecu train`).")
@click.option("--overwrite", is_flag=True, help="Replace results that exist; originals are never written over.")
@click.option("--skip-existing", is_flag=True, help="Leave out photos whose results exist.")
@click.option("--max-pixels", type=click.IntRange(1), default=MAX_PIXELS, show_default=True, metavar="N",
              help="Refuse larger photos.")  # fmt: skip
@click.option("--strip-metadata", is_flag=True, help="Drop EXIF, colour profile and resolution.")
@click.option("--decompose", is_flag=True, help="Also write illumination and reflectance (16-bit PNG).")
@click.option("--json", "as_json", is_flag=True, help="Report on standard output as JSON.")
@click.option("--report", "page", metavar="PAGE", help="Also write an HTML page with each photo before and after.")
@scheduler_option("Spread the photos over the workers")
@click.pass_context
def enhance(
    ctx: click.Context,
    inputs: tuple[str, ...],
    out: str | None,
    recursive: bool,
    jobs: int,
    strength: float,
    headroom: float,
    no_denoise: bool,
    method: str,
    model: str | None,
    overwrite: bool,
    skip_existing: bool,
    max_pixels: int,
    strip_metadata: bool,
    decompose: bool,
    as_json: bool,
    page: str | None,
    scheduler: str | None,
) -> int:
    """Brighten dark photos and videos.

    IN is a file, a folder, a pattern or '-' (standard input). Originals are never touched; results are written whole or
    not at all. JPEG, PNG, WebP, TIFF, AVIF and BMP are read and written; MPO (becomes .jpg) is read, and with
    tecu[heif] and tecu[raw] HEIF (becomes .jpg) and camera RAW (becomes .tif); videos need ffmpeg and are taken only if
    named outright.
    """
    if overwrite and skip_existing:
        raise click.UsageError("--overwrite and --skip-existing exclude each other")
    settings = Settings(
        method,
        strength,
        not no_denoise,
        model,
        overwrite,
        skip_existing,
        strip_metadata,
        decompose,
        max_pixels,
        headroom,
    )
    try:
        surveyed = survey(inputs, out, recursive=recursive, decompose=decompose)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    tasks = surveyed.tasks
    to_stream = any(task.target == STREAM for task in tasks)
    if scheduler is not None and any(STREAM in (task.source, task.target) for task in tasks):
        raise click.UsageError("--scheduler: the standard streams are not on a cluster; name files")
    if page is not None and any(STREAM in (task.source, task.target) for task in tasks):
        raise click.UsageError("--report: the page shows files before and after; name files instead of '-'")
    if to_stream and (as_json or decompose):
        raise click.UsageError("standard output takes the picture: leave out --json and --decompose")
    if to_stream and sys.stdout is not None and sys.stdout.isatty():
        raise click.UsageError("standard output is a terminal, which shows no picture; send it to a file or a pipe")
    warnings.filterwarnings("ignore", module="PIL")  # remarks on damaged EXIF; what matters is in the notes
    _check_files(surveyed, settings, page)
    if tasks and not skip_existing and out not in (None, STREAM) and scheduler is None:
        check_place(tasks[0].target)  # all of them lie below it
    outcomes = [_refused(refused) for refused in surveyed.refusals]
    if tasks and (problem := _enhancer_problem(settings)) is not None:
        return problem
    _refuse_idle_options(ctx, method)
    if page is not None and (missing := report_problem()) is not None:
        click.echo(missing, err=True)
        return PART_MISSING
    started = time.perf_counter()
    try:
        with (
            connected(scheduler) as client,
            _progress(len(tasks)) as (advance, frames),
            contextlib.closing(_outcomes(tasks, settings, jobs, frames, client)) as ended,
        ):
            try:
                for outcome in ended:
                    outcomes.append(outcome)
                    advance(outcome)
            except KeyboardInterrupt as interrupt:
                outcomes.append(ended.throw(interrupt))  # raises it again where nothing more has ended
                outcomes.extend(ended)
    except KeyboardInterrupt:
        done = sum(outcome.status == "done" for outcome in outcomes)
        rest = "no half file was left" if scheduler is None else "the workers finish what they have begun"
        click.echo(f"{done} of {len(tasks)} done; {rest}.", err=True)
        raise
    places = {task.source: place for place, task in enumerate(tasks)}  # several processes end in another order
    outcomes.sort(key=lambda outcome: places.get(outcome.source, -1))
    left_out = _left_out(surveyed.others, [page, model])
    apart = {"left_out": left_out, "earlier_results": len(surveyed.earlier)}
    _report(outcomes, time.perf_counter() - started, as_json, apart, quiet=to_stream)
    if page is not None:
        _write_page(page, outcomes, settings)
    faults = {outcome.fault for outcome in outcomes}
    return next((code for fault, code in FAULT_CODES.items() if fault in faults), 0)


def _outcomes(tasks: list[Task], settings: Settings, jobs: int, frames: Any, client: Any) -> Any:
    """A generator of outcomes, from here or from a cluster."""
    if client is None:
        return run(tasks, settings, jobs=jobs, frames=frames)
    from tecu.lowlight.spread import spread

    return spread(tasks, settings, client)


def _refused(refused: Refusal) -> Outcome:
    fault: Any = "output" if refused.unwritable else "input"
    return Outcome(refused.source, "", "failed", reason=refused.reason, fault=fault)


def _check_files(surveyed: Survey, settings: Settings, page: str | None) -> None:
    """What the plan does not know of: model, parts of a decomposition, what --overwrite would replace, and the page."""
    tasks = surveyed.tasks
    inputs = [settings.model, *(task.source for task in tasks if task.source != STREAM)]
    written = {path: task for task in tasks for path in results(task, settings)}
    replaced = set(map(os.path.abspath, written)) if settings.overwrite else set()
    for path in surveyed.earlier:
        if os.path.abspath(path) in replaced:
            raise Unwritable(
                f"{shown(path)} is an input, which is never written over; leave it out of the inputs to have it "
                f"replaced, or give -o another folder"
            )
    if settings.decompose or settings.model is not None:
        refuse_inputs((("-o", path) for path in written), inputs)
    if page is not None:
        if os.path.realpath(page) in set(map(os.path.realpath, written)):
            raise Unwritable(f"--report and -o both name {shown(page)}; give each a file of its own")
        # Folders that the run is going to make for its results serve the page, too.
        made = {f"{os.path.abspath(os.path.dirname(path))}{os.sep}" for path in written}
        if any(folder.startswith(f"{os.path.abspath(page)}{os.sep}") for folder in made):
            raise unwritten(page, IsADirectoryError(errno.EISDIR, "is a folder"))
        place = os.path.dirname(os.path.abspath(page))
        if not os.path.isdir(place) and any(folder.startswith(f"{place}{os.sep}") for folder in made):
            check_place(page)
        else:
            _check_page(page, [*inputs, *surveyed.earlier], settings)


def _check_page(page: str, inputs: list[str | None], settings: Settings) -> None:
    """Refuse a page that is an input, somebody else's, or cannot be written."""
    from tecu.cli.photo_page import is_made_anew

    check_outputs({"--report": page}, inputs, settings.overwrite or settings.skip_existing)
    if settings.skip_existing and os.path.lexists(page) and not is_made_anew(page, settings):
        raise Unwritable(f"{shown(page)} exists already and is not a page of tecu enhance; give --report another name")


def _enhancer_problem(settings: Settings) -> int | None:
    """Find out about a wrong method, strength or model before the first photo."""
    if settings.decompose and settings.method not in MODELS:
        names = ", ".join(MODELS)
        raise click.UsageError(
            f"--decompose: method {settings.method!r} does not give illumination and reflectance; {names} do"
        )
    try:
        make_enhancer(settings)
    except (ValueError, TypeError, OSError) as error:
        raise click.UsageError(str(error)) from error
    except ImportError as error:
        click.echo(str(error), err=True)
        return PART_MISSING
    return None


def _refuse_idle_options(ctx: click.Context, method: str) -> None:
    """Options that would change nothing: the classical methods know neither headroom nor our denoising."""
    if method in MODELS:
        return
    for name, option in {"headroom": "--headroom", "no_denoise": "--no-denoise"}.items():
        if ctx.get_parameter_source(name) is not ParameterSource.DEFAULT:
            raise click.UsageError(f"{option}: method {method!r} does not know it; {', '.join(MODELS)} do")


def _left_out(others: list[str], ours: list[str | None]) -> int:
    """How many files in folders are neither photos nor files of this run."""
    known = {os.path.realpath(path) for path in ours if path is not None}
    return sum(os.path.realpath(path) not in known for path in others)


def _write_page(page: str, outcomes: list[Outcome], settings: Settings) -> None:
    from tecu.cli.photo_page import write_photo_page

    try:
        os.makedirs(os.path.dirname(os.path.abspath(page)), exist_ok=True)  # without a result the run has not made it
        write_photo_page(page, outcomes, settings)
    except OSError as error:
        raise unwritten(page, error) from error


@contextlib.contextmanager
def _progress(total: int) -> Iterator[tuple[Callable[[Outcome], None], Callable[[int, int | None], None] | None]]:
    """A bar with the time left on a terminal's standard error; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield (lambda outcome: None), None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        files = bar.add_task("photos", total=total)
        video = bar.add_task("frames", total=None, visible=False)

        def advance(outcome: Outcome) -> None:
            bar.update(files, advance=1)
            bar.update(video, visible=False)

        def frames(done: int, of: int | None) -> None:
            bar.update(video, completed=done, total=of, visible=True)

        yield advance, frames


def _report(outcomes: list[Outcome], seconds: float, as_json: bool, apart: dict[str, int], quiet: bool) -> None:
    counts = {status: sum(o.status == status for o in outcomes) for status in ("done", "skipped", "failed")}
    for outcome in outcomes:
        for note in outcome.notes:
            click.echo(f"{shown(outcome.source)}: {escaped(note)}", err=True)
    if as_json:
        entries = [_as_dict(outcome) for outcome in outcomes]
        told = {"seconds": round(seconds, 3), **counts, **apart, "results": entries}
        click.echo(json.dumps(told, indent=2))
    if not quiet or counts["failed"]:
        parts = [f"{number} {status}" for status, number in counts.items() if number or status == "done"]
        kinds = {"left_out": "other file", "earlier_results": "earlier result"}
        others = [f"{apart[key]} {kind}{'' if apart[key] == 1 else 's'}" for key, kind in kinds.items() if apart[key]]
        left_out = f"; {' and '.join(others)} left out" if others else ""
        click.echo(f"{', '.join(parts)} in {seconds:.1f} s{left_out}", err=True)
    for outcome in outcomes:
        if outcome.reason:
            click.echo(click.style("failed: ", fg="red") + escaped(outcome.reason), err=True)


def _as_dict(outcome: Outcome) -> dict[str, Any]:
    entry: dict[str, Any] = {"input": outcome.source, "output": outcome.target or None, "status": outcome.status}
    entry |= {"seconds": outcome.seconds, "notes": list(outcome.notes)}
    if outcome.reason:
        entry |= {"reason": outcome.reason}
    return entry | outcome.extra
