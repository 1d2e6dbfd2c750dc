"""``tecu dictionary``: learn sparse dictionaries, and code data with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from tecu.cli.main import INPUT_FAILED, PART_MISSING, UNWRITABLE, report_problem

INPUT = click.Path(dir_okay=False, path_type=Path)


@click.group()
def dictionary() -> None:
    """Learn sparse dictionaries and code data with them.

    Data are matrices, samples x features: .npy, .npz (an array called X, or a SciPy sparse matrix), .csv, or
    .parquet if
    pyarrow is installed.
    """


@dictionary.command()
@click.argument("data", type=INPUT)
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
@click.option("--ball", is_flag=True, help="Atoms of length at most 1 instead of exactly 1.")
@click.option(
    "--max-iter", type=click.IntRange(1), default=100, show_default=True, metavar="N", help="Sweeps, at most."
)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, metavar="S", help="Of everything random.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Threads.")
@click.option(
    "--checkpoint", type=INPUT, metavar="FILE", help="Save the state there now and then; go on from it if it is there."
)
@click.option("--picture", type=INPUT, metavar="PNG", help="Draw the atoms, if they are square patches.")
@click.option("--report", "page", type=INPUT, metavar="PAGE", help="Write an HTML page: atoms, plots, verdict.")
def fit(
    data: Path,
    output: Path,
    components: int | None,
    penalty: float | None,
    nonzero: int | None,
    solver: str,
    positive: bool,
    ball: bool,
    max_iter: int,
    seed: int,
    jobs: int,
    checkpoint: Path | None,
    picture: Path | None,
    page: Path | None,
) -> int:
    """Learn a dictionary from DATA and write it to MODEL."""
    from tecu.dictionary import L0DictionaryLearning

    if page is not None and (missing := report_problem()) is not None:
        click.echo(missing, err=True)
        return PART_MISSING
    X = _read(data)
    if isinstance(X, int):
        return X
    click.echo(
        f"{data}: {X.shape[0]} samples, {X.shape[1]} features",
        err=True,
    )
    model = L0DictionaryLearning(
        components, penalty="auto" if penalty is None else penalty, n_nonzero=nonzero, solver=solver, positive=positive,
        constraint="ball" if ball else "sphere", max_iter=max_iter, random_state=seed, n_jobs=jobs,
        checkpoint=checkpoint,
    )  # fmt: skip
    try:
        model.fit(X)
    except ValueError as reason:
        raise click.UsageError(str(reason)) from reason
    per_sample = model.codes_.nnz / X.shape[0]
    click.echo(
        f"objective {model.objective_:.6g}, penalty {model.penalty_:.6g}, {per_sample:.2f} non-zeros a sample, "
        f"{model.n_iter_} sweeps; {model.certificate_.reason}"
    )

    def write() -> None:
        model.save(output)
        _draw(model.components_, picture)
        if page is not None:
            _write_page(page, data, model)

    return _written(write)


@dictionary.command()
@click.argument("model", type=INPUT)
@click.argument("data", type=INPUT)
@click.option(
    "-o", "--output", required=True, type=INPUT, metavar="CODES", help="The codes: .npz (sparse), .npy or .csv."
)
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, metavar="N", help="Threads.")
def transform(model: Path, data: Path, output: Path, jobs: int) -> int:
    """Code DATA with the dictionary in MODEL."""
    from tecu.dictionary import L0DictionaryLearning
    from tecu.dictionary.tables import write_codes

    try:
        learned = L0DictionaryLearning.load(model).set_params(n_jobs=jobs)
    except (OSError, ValueError) as reason:
        click.echo(f"cannot read the model: {reason}", err=True)
        return INPUT_FAILED
    X = _read(data)
    if isinstance(X, int):
        return X
    try:
        codes = learned.transform(X)
    except ValueError as reason:
        raise click.UsageError(str(reason)) from reason
    click.echo(f"{codes.shape[0]} samples, {codes.nnz / codes.shape[0]:.2f} non-zeros a sample")
    if output.suffix.lower() not in (".npz", ".npy", ".csv"):
        raise click.UsageError(f"{output} must end in .npz (sparse), .npy or .csv")
    return _written(lambda: write_codes(output, codes))


def _read(path: Path) -> Any:
    """The matrix in a file, or the exit code."""
    from tecu.dictionary.tables import read_table

    try:
        return read_table(path)
    except ImportError:
        click.echo(f"{path}: reading .parquet needs pyarrow: pip install pyarrow", err=True)
        return PART_MISSING
    except (OSError, ValueError) as reason:
        click.echo(f"cannot read {path}: {reason}", err=True)
        return INPUT_FAILED


def _draw(components: Any, picture: Path | None) -> None:
    if picture is None:
        return
    from PIL import Image

    from tecu.dictionary.tables import atoms_picture

    try:
        pixels = atoms_picture(components)
    except ValueError as reason:
        raise click.UsageError(f"--picture: {reason}") from reason
    Image.fromarray(pixels).resize([3 * side for side in pixels.shape[::-1]], Image.Resampling.NEAREST).save(picture)


def _write_page(page: Path, data: Path, model: Any) -> None:
    import numpy as np

    from tecu.report import atoms, run, write_page

    usage = np.bincount(model.codes_.indices, minlength=len(model.components_))
    lead = (
        f"{model.codes_.shape[0]} samples; objective {model.objective_:.6g}, penalty {model.penalty_:.6g}, "
        f"{model.codes_.nnz / model.codes_.shape[0]:.2f} non-zeros a sample."
    )
    sections = [atoms(model.components_, usage=usage), *run(model.history_, model.certificate_)]
    write_page(page, f"A dictionary for {data.name}", sections, lead)


def _written(write: Any) -> int:
    try:
        write()
    except OSError as reason:
        click.echo(f"cannot write: {reason}", err=True)
        return UNWRITABLE
    return 0
