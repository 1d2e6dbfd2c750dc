"""``tecu dictionary``: learn sparse dictionaries, and code data with them."""

from __future__ import annotations

import math
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import click

from tecu.atomic import escaped, part_beside, shown
from tecu.cli.main import INPUT_FAILED, PART_MISSING, report_problem
from tecu.cli.outputs import check_outputs, unread, unwritten
from tecu.cli.scheduler import connected, scheduler_option
from tecu.extras import how_to_get

INPUT = click.Path(dir_okay=False, path_type=Path)


class Data(click.Path):
    """A file, or a zarr array, which is a folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, refused if it is another folder."""
        self.dir_okay = str(value).lower().endswith(".zarr")
        return super().convert(value, param, ctx)


@click.group()
def dictionary() -> None:
    """Learn sparse dictionaries and code data with them.

    Data are matrices, samples x features: .npy, .npz (an array called X, or a SciPy sparse matrix), .csv, or
    .parquet if pyarrow is installed, or (for fit) .zarr if zarr is.
    """


@dictionary.command()
@click.argument("data", type=Data(path_type=Path))
@click.option(
    "-o", "--output", required=True, type=INPUT, metavar="MODEL", help="The model to write, such as model.npz."
)
@click.option("--components", type=click.IntRange(1), metavar="M", help="Atoms; as many as features unless given.")
@click.option(
    "--penalty", type=float, metavar="LAMBDA", help="The price of a non-zero; from the data's scale unless given."
)
@click.option(
    "--nonzero", type=click.IntRange(1), metavar="K", help="At most K non-zeros a sample, instead of a penalty."
)
@click.option("--solver", default="auto", show_default=True, metavar="NAME",
              help="auto, tecu, tecu-pith, palm, ipalm, bcu or inv.")  # fmt: skip
@click.option("--positive", is_flag=True, help="Codes are not negative.")
@click.option(
    "--code-bound", type=float, metavar="B", help="No coefficient is larger than B > 0 in size; no bound unless given."
)
@click.option("--ball", is_flag=True, help="Atoms of length at most 1 instead of exactly 1.")
@click.option("--init", default="auto", show_default=True, type=click.Choice(["auto", "greedy", "data", "random"]),
              help="Where the atoms begin: loose passes over the data, samples, or random numbers.")  # fmt: skip
@click.option(
    "--max-iter", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="Sweeps, at most."
)
@click.option(
    "--tol", type=float, default=1e-4, show_default=True, metavar="T",
    help="Stop when a sweep changes little; T >= 0, and with 0 all sweeps are made.",
)  # fmt: skip
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help="The precision; that of DATA unless given.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S", help="Of everything random.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Threads.")
@click.option(
    "--checkpoint", type=INPUT, metavar="FILE", help="Save the state there now and then; go on from it if it is there."
)
@click.option("--picture", type=INPUT, metavar="PNG", help="Draw the atoms, if they are square patches.")
@click.option("--report", "page", type=INPUT, metavar="PAGE", help="Write an HTML page: atoms, plots, verdict.")
@click.option("--overwrite", is_flag=True, help="Replace MODEL, PNG and PAGE if they exist; DATA never.")
@scheduler_option("Code the samples")
def fit(
    data: Path,
    output: Path,
    components: int | None,
    penalty: float | None,
    nonzero: int | None,
    solver: str,
    positive: bool,
    code_bound: float | None,
    ball: bool,
    init: str,
    max_iter: int,
    tol: float,
    dtype: str | None,
    seed: int,
    jobs: int,
    checkpoint: Path | None,
    picture: Path | None,
    page: Path | None,
    overwrite: bool,
    scheduler: str | None,
) -> int:
    """Learn a dictionary from DATA and write it to MODEL."""
    written = {"-o": output, "--picture": picture, "--report": page}
    check_outputs(written, [data], overwrite, resumed={"--checkpoint": checkpoint})
    from tecu.dictionary import L0DictionaryLearning
    from tecu.dictionary.chunked.samples import in_chunks
    from tecu.dictionary.parameters import check_settings

    if page is not None and (missing := report_problem()) is not None:
        click.echo(missing, err=True)
        return PART_MISSING
    model = L0DictionaryLearning(
        components, penalty="auto" if penalty is None else penalty, n_nonzero=nonzero, solver=solver, positive=positive,
        code_bound=code_bound, constraint="ball" if ball else "sphere", init=init, max_iter=max_iter, tol=tol,
        dtype=dtype, random_state=seed, n_jobs=jobs, checkpoint=checkpoint,
    )  # fmt: skip
    try:
        check_settings(model)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    found = _read(data)
    if isinstance(found, int):
        return found
    X, names = found
    if picture is not None:
        _check_square(X.shape[1])
    click.echo(f"{shown(data)}: {X.shape[0]} samples, {X.shape[1]} features", err=True)
    try:
        with connected(scheduler) as client:
            return _fitted(model, X if client is None else in_chunks(X), names, written, data)
    except ValueError as error:
        return _say_unusable(data, error, checkpoint)
    except MemoryError as error:
        raise click.UsageError(
            f"{components or X.shape[1]} atoms for {X.shape[0]} samples take more memory than there is"
        ) from error
    except OSError as error:
        raise unwritten(output if checkpoint is None else checkpoint, error) from error


def _fitted(model: Any, X: Any, names: list[str] | None, written: dict[str, Path | None], data: Path) -> int:
    """Fit, say what came of it, and write."""
    import numpy as np

    with warnings.catch_warnings():
        warnings.showwarning = _say_warning
        model.fit(X)
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)  # as of a data frame
    per_sample = model.codes_.nnz / model.codes_.shape[0]
    click.echo(
        f"objective {model.objective_:.6g}, penalty {model.penalty_:.6g}, {per_sample:.2f} non-zeros a sample, "
        f"{model.n_iter_} sweeps. {model.status_.value} The certificate {model.certificate_.reason}"
    )

    for path, write in zip(
        written.values(),
        (
            model.save,
            lambda path: _draw(model.components_, path),
            lambda path: _write_page(path, data, model),
        ),
        strict=True,
    ):
        if path is not None:
            _written(path, write)
    return 0


def _say_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    """The sentence alone; where in the code it was said is no news on the command line."""
    click.echo(str(message), err=True)


@dictionary.command()
@click.argument("model", type=INPUT)
@click.argument("data", type=INPUT)
@click.option(
    "-o", "--output", required=True, type=INPUT, metavar="CODES", help="The codes: .npz (sparse), .npy or .csv."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Threads.")
@click.option("--overwrite", is_flag=True, help="Replace CODES if the file exists; MODEL and DATA never.")
def transform(model: Path, data: Path, output: Path, jobs: int, overwrite: bool) -> int:
    """Code DATA with the dictionary in MODEL."""
    if output.suffix.lower() not in (".npz", ".npy", ".csv"):
        raise click.UsageError(f"{shown(output)} must end in .npz (sparse), .npy or .csv")
    check_outputs({"-o": output}, [model, data], overwrite)
    from tecu.dictionary import L0DictionaryLearning
    from tecu.dictionary.tables import write_codes

    try:
        learned = L0DictionaryLearning.load(model).set_params(n_jobs=jobs)
    except (OSError, ValueError) as error:
        click.echo(unread(model, error), err=True)
        return INPUT_FAILED
    found = _read(data)
    if isinstance(found, int):
        return found
    X, names = found
    known = vars(learned).pop("feature_names_in_", None)  # compared here: a file may have no names
    if known is not None and names is not None and list(known) != names:
        click.echo(escaped(f"{shown(data)} cannot be used: {_other_column(list(known), names)}"), err=True)
        return INPUT_FAILED
    try:
        codes = learned.transform(X)
    except ValueError as error:
        return _say_unusable(data, error)
    click.echo(f"{codes.shape[0]} samples, {codes.nnz / codes.shape[0]:.2f} non-zeros a sample")
    _written(output, lambda path: write_codes(path, codes))
    return 0


def _other_column(known: list[str], names: list[str]) -> str:
    """Where the columns of a file are not those that a model was fitted to."""
    if len(names) != len(known):
        return f"it has {len(names)} columns, but the model was fitted to {len(known)}"
    column = next(i for i, (one, other) in enumerate(zip(known, names, strict=True)) if one != other)
    return f"column {column + 1} is {names[column]!r}, but the model was fitted with {known[column]!r} there"


def _read(path: Path) -> tuple[Any, list[str] | None] | int:
    """The matrix in a file and the names of its columns, or the exit code."""
    from tecu.dictionary.tables import named_table

    try:
        return named_table(path)
    except ImportError as error:
        part = f"zarr: {how_to_get('scale')}" if error.name == "zarr" else "pyarrow: pip install pyarrow"
        click.echo(f"{shown(path)}: reading {path.suffix} needs {part}", err=True)
        return PART_MISSING
    except MemoryError:
        click.echo(f"{shown(path)} could not be read: it claims to hold more than fits in memory", err=True)
        return INPUT_FAILED
    except (OSError, ValueError, EOFError, KeyError, BadZipFile, zlib.error) as error:
        click.echo(unread(path, error), err=True)
        return INPUT_FAILED


def _say_unusable(path: Path, error: ValueError, checkpoint: Path | None = None) -> int:
    """Say in one line why a file, or a checkpoint, cannot be used; the exit code."""
    line = escaped(str(error).splitlines()[0])
    about_checkpoint = checkpoint is not None and shown(checkpoint) in line
    click.echo(line if about_checkpoint else f"{shown(path)} cannot be used: {line}", err=True)
    return INPUT_FAILED


def _check_square(features: int) -> None:
    if math.isqrt(features) ** 2 != features:
        raise click.UsageError(f"--picture: atoms with {features} entries are not square patches")


def _draw(components: Any, picture: Path) -> None:
    from PIL import Image

    from tecu.dictionary.tables import atoms_picture

    pixels = atoms_picture(components)
    image = Image.fromarray(pixels).resize([3 * side for side in pixels.shape[::-1]], Image.Resampling.NEAREST)
    with part_beside(picture, overwrite=True) as part:
        image.save(part, "PNG")


def _write_page(page: Path, data: Path, model: Any) -> None:
    import numpy as np

    from tecu.report import atoms, run, write_page

    counted = getattr(model.codes_, "usage", None)  # codes that stayed on workers are counted there
    usage = counted() if counted else np.bincount(model.codes_.indices, minlength=len(model.components_))
    lead = (
        f"{model.codes_.shape[0]} samples; objective {model.objective_:.6g}, penalty {model.penalty_:.6g}, "
        f"{model.codes_.nnz / model.codes_.shape[0]:.2f} non-zeros a sample."
    )
    sections = [atoms(model.components_, usage=usage), *run(model.history_, model.certificate_)]
    write_page(page, f"A dictionary for {data.name}", sections, lead)


def _written(path: Path, write: Callable[[Path], Any]) -> None:
    try:
        write(path)
    except OSError as error:
        raise unwritten(path, error) from error
