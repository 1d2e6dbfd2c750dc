"""One ``.npz`` file with a JSON document and arrays: how states and models are kept.

Data, never code: nothing is unpickled, and what a file claims to hold is checked against its size before memory
is taken.
"""

from __future__ import annotations

import errno
import json
import math
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from tecu.atomic import part_beside, shown

DOCUMENT = "document"
Store = Mapping[str, np.ndarray[Any, Any]]
# What zipfile and zlib raise of a damaged file; an unknown compression is NotImplementedError, a password RuntimeError.
DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, KeyError, NotImplementedError, RuntimeError)

MALFORMED = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError)
"""What building an object from a document that someone else has written may raise."""


def write_archive(path: str | os.PathLike[str], document: Mapping[str, Any], store: Store) -> None:
    """Write a document and named arrays, whole or not at all; a file that was there is replaced.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_archive(folder + "/a.npz", {"format": "example-1"}, {"x": np.eye(2)})
    ...     document, store = read_archive(folder + "/a.npz", "example-1", "an example")
    >>> document["format"], store["x"].tolist()
    ('example-1', [[1.0, 0.0], [0.0, 1.0]])
    """
    text = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    with part_beside(path, overwrite=True) as part, zipfile.ZipFile(part, "x") as archive:
        for name, values in {**store, DOCUMENT: text}.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
                np.lib.format.write_array(entry, np.asanyarray(values), allow_pickle=False)


def read_archive(
    path: str | os.PathLike[str], format: str, what: str
) -> tuple[dict[str, Any], dict[str, np.ndarray[Any, Any]]]:
    """The document and the arrays of a file of ``format``; ``ValueError`` names any other as not being ``what``."""
    store = _read_arrays(Path(path))
    try:
        document = json.loads(bytes(store.pop(DOCUMENT)))
        found = document["format"]
    except (KeyError, ValueError, TypeError, RecursionError) as error:
        raise ValueError(f"{shown(path)} is not {what}") from error
    if found != format:
        raise ValueError(f"{shown(path)} is not {what}: it has the format {found!r}, this version reads {format!r}")
    return document, store


def _read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            held = sum(entry.file_size for entry in entries)
            if held > path.stat().st_size or any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
                raise ValueError(f"{shown(path)} is packed, or claims to hold more than it does; tecu did not write it")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry, path) for entry in entries}
    except (*DAMAGED, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.EINVAL:
            raise  # only a place before the file's beginning is the file's own fault
        raise ValueError(f"{shown(path)} is damaged or not an .npz file: {error}") from error


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> np.ndarray[Any, Any]:
    with archive.open(entry) as stream:
        try:
            shape, by_columns, dtype = _header(stream)
        except (ValueError, TypeError, SyntaxError, OverflowError, RecursionError) as error:
            raise ValueError(f"{shown(path)} is damaged: {shown(entry.filename)} is not an array") from error
        if dtype.hasobject:
            raise ValueError(f"{shown(path)} holds Python objects, which would need pickle; they are not read")
        size = math.prod(shape) * dtype.itemsize
        if size != entry.file_size - stream.tell() or dtype.itemsize == 0 or any(side < 0 for side in shape):
            raise ValueError(f"{shown(path)} is damaged: {shown(entry.filename)} is not as long as it says")
        raw = np.frombuffer(bytearray(stream.read()), np.uint8)  # to the end: then the checksum is compared
        if raw.size != size:
            raise ValueError(f"{shown(path)} is cut off")
    return raw.view(dtype).reshape(shape, order="F" if by_columns else "C")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)
