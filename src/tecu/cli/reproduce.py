"""``tecu reproduce``: the paper's tables and figures, run again."""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Iterable
from pathlib import Path

import click

from tecu.atomic import escaped, reason, shown
from tecu.cli.main import INPUT_FAILED, PART_MISSING, Unwritable, report_problem
from tecu.cli.outputs import check_outputs, refuse_inputs, unwritten
from tecu.extras import how_to_get
from tecu.lowlight.files.errors import PhotoError

# Each function takes the folder, whether to be quick, and where to say what is going on; it returns the files written.
TARGETS = {
    "table1": "tecu.reproduce.dictionary_output:table1",
    "table2": "tecu.reproduce.dictionary_output:table2",
    "figure1": "tecu.reproduce.dictionary_output:figure1",
    "figure2": "tecu.reproduce.lowlight_output:figure2",
    "table3": "tecu.reproduce.lowlight_output:table3",
    "figure3": "tecu.reproduce.lowlight_output:figure3",
}
INDEX, TITLE = "index.html", "experiments, run again</title>"
ON_PHOTOS = ("figure2", "table3", "figure3")  # these also take the photos, and rows besides the usual ones


@click.command()
@click.argument("targets", nargs=-1, required=True, metavar="TARGET...")
@click.option("-o", "--output", "folder", default="reproduced", show_default=True, metavar="FOLDER",
              type=click.Path(file_okay=False, path_type=Path), help="Where the tables and figures go.")  # fmt: skip
@click.option("--quick", is_flag=True, help="The smallest size only.")
@click.option("--images", multiple=True, metavar="FOLDER...",
              help="For table3 and figure3: dark photos, or pairs in FOLDER/low and FOLDER/high.")  # fmt: skip
@click.option("--method", "methods", multiple=True, metavar="NAME",
              help="For table3 and figure3: one more row, such as mymodule:function. May be repeated.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace tables and figures that exist; photos never.")
def reproduce(
    targets: tuple[str, ...],
    folder: Path,
    quick: bool,
    images: tuple[str, ...],
    methods: tuple[str, ...],
    overwrite: bool,
) -> int:
    """Run experiments of the paper again: table1, table2, figure1, figure2, table3, figure3.

    The tables show the paper's numbers beside ours, and a verdict on each claim; index.html has all of them. Without
    --images the low-light ones run on photos inside scikit-learn, scikit-image and Matplotlib, darkened by a known
    light.
    """
    others = [name for name in targets if name not in TARGETS]
    for name in others:
        if not images or not Path(name).is_dir():  # `--images A B` leaves B among the targets
            what = "target or folder" if images else "target"
            raise click.UsageError(f"there is no {what} {name!r}; there are the targets {', '.join(TARGETS)}")
    for name in images:
        if not Path(name).is_dir():
            raise click.UsageError(f"--images: {name} is not a folder")
    images, targets = (*images, *others), tuple(name for name in targets if name in TARGETS)
    if not targets:
        raise click.UsageError(f"name a target: {', '.join(TARGETS)}")
    _check_folder(folder, targets, images, overwrite)
    began = time.monotonic()

    def say(line: str) -> None:
        click.echo(f"[{time.monotonic() - began:5.0f} s] {escaped(line)}", err=True)

    for target in targets:
        module, _, function = TARGETS[target].partition(":")
        try:
            extra = {"images": images, "methods": methods} if target in ON_PHOTOS else {}
            files = getattr(importlib.import_module(module), function)(folder, quick, say, **extra)
        except ValueError as error:
            raise click.UsageError(str(error)) from error
        except PhotoError as error:
            click.echo(f"{target}: {escaped(str(error))}", err=True)
            return INPUT_FAILED
        except ImportError as error:
            click.echo(f"{target}: {error}; the missing part comes with {how_to_get('report')}", err=True)
            return PART_MISSING
        except OSError as error:
            raise unwritten(error.filename or folder, error) from error
        for path in files:
            click.echo(shown(path))
    if report_problem() is None:  # the tables are there without the page
        from tecu.reproduce.index_page import write_index

        try:
            click.echo(shown(write_index(folder)))
        except OSError as error:
            raise unwritten(folder / INDEX, error) from error
    return 0


def _check_folder(folder: Path, targets: Iterable[str], images: Iterable[str], overwrite: bool) -> None:
    """Refuse what would be written over; the index is made anew each time, but only if it is one of ours."""
    names = re.compile(rf"({'|'.join(targets)})[-.]")
    there = sorted(path for path in folder.glob("*") if names.match(path.name) or path.name == INDEX)
    refuse_inputs((("-o", path) for path in there), images)
    for path in there:
        if not overwrite and not (path.name == INDEX and TITLE in path.read_text("utf-8", "replace")[:4096]):
            raise Unwritable(f"{shown(path)} exists already; --overwrite replaces it")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Unwritable(f"the folder {shown(folder)} could not be made: {reason(error, folder)}") from error
    check_outputs({"-o": folder / INDEX}, [], overwrite=True)
