"""Data of the command line: ``.npy``, ``.npz``, ``.csv``; with pyarrow ``.parquet``, with zarr ``.zarr``."""

from __future__ import annotations

import csv
import logging
from pathlib import Path
from typing import Any
from zipfile import is_zipfile

import numpy as np

from tecu.atomic import part_beside

log = logging.getLogger("tecu")
CODES = (".npz", ".npy", ".csv")
KINDS = (".npy", ".npz", ".csv", ".parquet", ".zarr")


def read_table(path: Path) -> Any:
    """A matrix, samples x features: dense, or CSR from an ``.npz`` file of SciPy's.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savetxt(folder + "/x.csv", np.eye(2), delimiter=",")
    ...     read_table(Path(folder, "x.csv")).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return named_table(path)[0]


def named_table(path: Path) -> tuple[Any, list[str] | None]:
    """The same with the names of its columns, where the file has them."""
    kind = path.suffix.lower()
    names: list[str] | None = None
    if kind == ".npy":
        X = _from_npy(path)
    elif kind == ".npz":
        X = _from_npz(path)
    elif kind == ".csv":
        X, names = _from_csv(path)
    elif kind == ".parquet":
        X, names = _from_parquet(path)
    elif kind == ".zarr":
        import zarr

        X = zarr.open_array(path, mode="r")
    else:
        raise ValueError(f"{path} has none of the endings {', '.join(KINDS)}")
    if X.ndim != 2:
        raise ValueError(f"{path} must hold a matrix, samples x features; its shape is {X.shape}")
    return X, names if names is not None and len(names) == X.shape[1] else None


def _from_npy(path: Path) -> Any:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError(f"{path} is not an .npy file of NumPy's")
    return np.load(path, mmap_mode="r", allow_pickle=False)


def _from_npz(path: Path) -> Any:
    with path.open("rb") as file:
        if not is_zipfile(file):  # NumPy would take it for a pickle
            raise ValueError(f"{path} is not a whole .npz file of NumPy's")
    with np.load(path, allow_pickle=False) as archive:
        names = list(archive.files)
        if {"format", "shape", "data"} <= set(names):
            from scipy.sparse import csr_array, load_npz

            return csr_array(load_npz(path))
        if len(names) != 1 and "X" not in names:
            raise ValueError(f"{path} holds the arrays {', '.join(names)}; one of them must be called X")
        try:
            return archive["X" if "X" in names else names[0]]
        except ValueError as error:
            if "pickle" not in str(error):
                raise
            raise ValueError(f"{path} holds Python objects, which would need pickle; they are not read") from error


def _from_csv(path: Path) -> tuple[Any, list[str] | None]:
    """Numbers, with or without a first row of names; a byte-order mark before it is no part of it.

    A first column whose name is empty holds the labels of the rows, as pandas and R write them, and is left out.
    """
    try:
        with path.open(encoding="utf-8-sig") as file:
            first = file.readline().strip()
            following = next((line for line in map(_bare, file) if line), None)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not text in UTF-8") from error
    if (mark := _other_separator(following or first)) is not None:
        raise ValueError(f"{path} has {mark} between its cells; the separator must be a comma")
    cells = _cells(first)
    numbers = [is_number(cell) for cell in cells]
    labelled = len(cells) > 1 and not cells[0] and (not any(numbers) or _counts_columns(cells[1:]))
    if any(numbers) and not all(numbers) and not labelled:
        column = numbers.index(False)
        raise ValueError(
            f"{path}: the first row must be all numbers or all names, but column {column + 1} is {cells[column]!r}"
        )
    if not all(numbers) and following is None:
        raise ValueError(f"{path} holds no numbers")
    if following is not None and _counts_columns(cells):
        log.warning(
            "%s: the first row, %s to %s, is read as a sample; if it only numbers the columns, remove it",
            path, cells[0], cells[-1],
        )  # fmt: skip
    names = 0 if all(numbers) else 1
    if labelled:
        log.warning("%s: the first column has no name; it is taken for labels of the rows and left out", path)
    try:
        X = np.loadtxt(
            path, delimiter=",", skiprows=names, ndmin=2, encoding="utf-8-sig", quotechar='"',
            converters={0: lambda label: 0.0} if labelled else None,
        )  # fmt: skip
    except ValueError as error:
        advice = str(error).split(";")[0]  # what follows is about NumPy's own options
        raise ValueError(f"{path}: {_fault(path, names, labelled) or advice}") from error
    if labelled:
        return X[:, 1:], cells[1:]
    return X, cells if names else None


def _cells(line: str) -> list[str]:
    """What stands between the commas of a line, without the quotes around it.

    >>> _cells('"a, b", 1.5,')
    ['a, b', '1.5', '']
    """
    return [cell.strip() for cell in next(csv.reader([line], skipinitialspace=True)) or [""]]


def _bare(line: str) -> str:
    """A line without its remark."""
    return line.split("#")[0].strip()


def _other_separator(line: str) -> str | None:
    if ";" in line:
        return "semicolons"
    parts = line.split()
    return "blanks or tabs" if len(parts) > 1 and all(map(is_number, parts)) else None


def _counts_columns(cells: list[str]) -> bool:
    """Whether a row is 0, 1, 2, ... or 1, 2, 3, ..., as pandas writes it for columns without names.

    >>> _counts_columns(["0", "1", "2"]), _counts_columns(["0", "1", "1"])
    (True, False)
    """
    return len(cells) > 1 and any(cells == [str(i + first) for i in range(len(cells))] for first in (0, 1))


def _fault(path: Path, names: int, labelled: bool) -> str | None:
    """Where a text stops being a matrix, by the lines of the file; NumPy counts from 0 and without the names."""
    width = 0
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(map(_bare, file), 1):
            if number <= names or not line:
                continue
            cells = _cells(line)
            if width and len(cells) != width:
                return f"the number of columns changes from {width} to {len(cells)} in line {number}"
            width = len(cells)
            for column, cell in enumerate(cells, 1):
                if not is_number(cell) and not (labelled and column == 1):
                    return f"column {column} of line {number} must be a number, but is {cell!r}"
    return None


def is_number(cell: str) -> bool:
    """Whether a cell of a table can be read as one."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _from_parquet(path: Path) -> tuple[Any, list[str]]:
    """The columns of numbers; a row index that pandas has stored beside them is no feature."""
    from pyarrow import parquet

    table = parquet.read_table(path)
    about = table.schema.pandas_metadata or {}
    index = {name for name in about.get("index_columns", ()) if isinstance(name, str)}
    columns = {name: table.column(name).to_numpy() for name in table.column_names if name not in index}
    for name, column in columns.items():
        if column.dtype.kind not in "biuf":
            raise ValueError(f"{path}: column {name!r} does not hold numbers, but {table.schema.field(name).type}")
    narrow = all(column.dtype == np.float32 for column in columns.values())
    kind = np.float32 if narrow else np.float64
    return np.column_stack([column.astype(kind) for column in columns.values()]), list(columns)


def write_codes(path: Path, codes: Any, overwrite: bool = True) -> None:
    """Codes as SciPy's ``.npz`` (sparse), or dense as ``.npy`` or ``.csv``; whole or not at all."""
    kind = path.suffix.lower()
    if kind not in CODES:
        raise ValueError(f"{path} must end in .npz (sparse), .npy or .csv")
    with part_beside(path, overwrite=overwrite) as part, part.open("xb") as file:
        if kind == ".npz":
            from scipy.sparse import save_npz

            save_npz(file, codes)
        elif kind == ".npy":
            np.save(file, codes.toarray())
        else:
            np.savetxt(file, codes.toarray(), delimiter=",", fmt="%.9g")


def atoms_picture(components: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Atoms that are square patches, side by side on grey, each stretched to its own range.

    >>> atoms_picture(np.eye(4)).shape
    (7, 7)
    """
    m, n = components.shape
    side = round(n**0.5)
    if side * side != n:
        raise ValueError(f"atoms with {n} entries are not square patches")
    columns = int(np.ceil(np.sqrt(m)))
    rows = -(-m // columns)
    picture = np.full((rows * (side + 1) + 1, columns * (side + 1) + 1), 128, dtype=np.uint8)
    for i, atom in enumerate(np.asarray(components, dtype=np.float64)):
        size = np.max(np.abs(atom)) or 1.0
        r, c = divmod(i, columns)
        top, left = 1 + r * (side + 1), 1 + c * (side + 1)
        picture[top : top + side, left : left + side] = np.round(127.5 + 127.5 * atom.reshape(side, side) / size)
    return picture
