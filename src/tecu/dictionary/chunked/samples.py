"""Samples in chunks: Dask arrays, zarr arrays, memory maps and iterators, each chunk read where and when it is needed.

What travels to a worker is the way to a chunk (a small recipe), not the chunk: what a sweep moves does not grow with
the samples.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import shutil
import sys
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tecu.dictionary.coding import Matrix
from tecu.dictionary.parameters import kept_precision
from tecu.dictionary.validation import is_frame_of_dask, names_of, require_all_entries
from tecu.extras import how_to_get

CHUNK_BYTES = 32 << 20
"""Of samples in a chunk, where the data have no chunks of their own that are of use."""

SMALL = 1 << 16  # bytes of a recipe that may travel anew each time


class ScalePartMissing(ImportError):
    """Dask is not installed."""


def require_dask() -> None:
    """Refuse in one sentence if the extra ``scale`` is not installed."""
    missing = [name for name in ("dask", "distributed") if importlib.util.find_spec(name) is None]
    if missing:
        raise ScalePartMissing(f"data in chunks need {' and '.join(missing)}: {how_to_get('scale')}")


def current_client() -> Any:
    """The ``distributed.Client`` that Dask would use now, or ``None``; imports nothing."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    from dask.base import get_scheduler

    chosen = getattr(get_scheduler(), "__self__", None)
    return chosen if isinstance(chosen, distributed.Client) else None


@contextlib.contextmanager
def large_graphs() -> Iterator[None]:
    """Dask's advice on large graphs is of no use where a dictionary, or data of this process, must travel."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sending large graph")
        yield


def is_chunked(X: Any) -> bool:
    """Whether ``X`` is taken chunk by chunk: a Dask array, a zarr array, an iterator; on a cluster a memory map too."""
    package = type(X).__module__.split(".")[0]
    if package in ("dask", "zarr") and hasattr(X, "shape"):
        return True
    if isinstance(X, np.memmap):
        return current_client() is not None
    return isinstance(X, Iterator)


def in_chunks(X: Any) -> Any:
    """``X`` as data that are taken chunk by chunk: an array in memory becomes a Dask array."""
    if is_chunked(X):
        return X
    require_dask()
    import dask.array as da

    samples, features = _matrix(X.shape, X.dtype)
    return da.from_array(X, chunks=(min(samples, _step(features, X.dtype.itemsize)), features), asarray=False)


class Recipe:
    """How a worker computes a chunk of a Dask array: the part of the array's graph that it needs."""

    def __init__(self, graph: dict[Any, Any], key: Any) -> None:
        self.graph, self.key = graph, key

    def load(self) -> Any:
        """The chunk."""
        from dask.local import get_sync

        return get_sync(self.graph, self.key)


@dataclass(frozen=True)
class Slice:
    """Some rows of an array that every worker can open by itself, such as a zarr array."""

    array: Any
    rows: slice

    def load(self) -> Any:
        """The chunk."""
        return self.array[self.rows]


@dataclass(frozen=True)
class Mapped:
    """Some rows of a file of plain numbers, as :class:`numpy.memmap` sees it."""

    path: str
    dtype: str
    shape: tuple[int, int]
    offset: int
    rows: slice

    def load(self) -> Any:
        """The chunk."""
        whole = np.memmap(self.path, self.dtype, "r", self.offset, self.shape)
        return np.array(whole[self.rows])


def load(source: Any, dtype: Any) -> Matrix:
    """The samples behind a source, dense and contiguous."""
    values = source if isinstance(source, np.ndarray) else source.load()
    require_all_entries(values)
    if hasattr(values, "toarray"):
        values = values.toarray()
    # What came by the network cannot be written to, and kernels would be compiled once more for it.
    return np.require(values, dtype=dtype, requirements=["C", "W"])


class Samples:
    """``samples x features`` in chunks by rows, each with a source that a worker can read it from.

    >>> import numpy as np
    >>> chunks = Samples.of(iter([np.eye(2), np.ones((3, 2))]))
    >>> chunks.shape, chunks.rows
    ((5, 2), (2, 3))
    """

    names: Any = None  # of the features, where the chunks of an iterator have any

    def __init__(self, sources: Sequence[Any], rows: Iterable[int], features: int, dtype: Any) -> None:
        filled = [(source, int(count)) for source, count in zip(sources, rows, strict=True) if count]
        self.sources, self.rows = [source for source, _ in filled], tuple(count for _, count in filled)
        self.shape = (sum(self.rows), int(features))
        _matrix(self.shape, dtype)
        self.dtype = np.dtype(dtype)

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"{self.shape[0]} samples x {self.shape[1]} features in {len(self.rows)} chunks"

    @classmethod
    def of(cls, X: Any, dtype: Any = None) -> Samples:
        """``X``, whatever it is, as chunks; ``dtype`` as in the estimator."""
        require_dask()
        if isinstance(X, Samples):
            return X
        if isinstance(X, np.memmap):
            chunks = _of_map(X)
        elif isinstance(X, Iterator):
            chunks = _of_iterator(X)
        elif type(X).__module__.split(".")[0] == "zarr":
            chunks = _of_zarr(X)
        else:
            chunks = _of_dask(X)
        chunks.dtype = np.dtype(kept_precision(chunks.dtype) if dtype is None else dtype)
        return chunks


def _matrix(shape: Sequence[Any], kind: Any) -> tuple[int, int]:
    if len(shape) != 2:
        raise ValueError(f"X must be a matrix, samples x features; its shape is {tuple(shape)}")
    if np.dtype(kind).kind not in "biuf":
        raise ValueError(f"X must hold real numbers, got {np.dtype(kind)}")
    if 0 in shape:
        raise ValueError(
            f"Found array with 0 sample(s) or feature(s) (shape={tuple(shape)}) while a minimum of 1 is required."
        )
    return shape[0], shape[1]


def _slices(samples: int, step: int) -> list[slice]:
    return [slice(first, min(first + step, samples)) for first in range(0, samples, step)]


def _step(features: int, itemsize: int, of: int = 1) -> int:
    """Samples in a chunk of about :data:`CHUNK_BYTES`, a multiple of ``of``."""
    return max(1, CHUNK_BYTES // (features * itemsize * of)) * of


def _of_map(X: Any) -> Samples:
    samples, features = _matrix(X.shape, X.dtype)
    if X.filename is None or not X.flags.c_contiguous:
        raise ValueError("a memory map must be of a file and C-contiguous to be read by chunks")
    # A view keeps the file name and the offset of the whole map, so the place of its first entry is looked up.
    whole = X
    while isinstance(whole.base, np.memmap):
        whole = whole.base
    offset = X.offset + X.ctypes.data - whole.ctypes.data
    pieces = _slices(samples, _step(features, X.dtype.itemsize))
    path = str(Path(X.filename).resolve())
    sources = [Mapped(path, X.dtype.str, (samples, features), int(offset), piece) for piece in pieces]
    return Samples(sources, (piece.stop - piece.start for piece in pieces), features, X.dtype)


def _of_zarr(X: Any) -> Samples:
    samples, features = _matrix(X.shape, X.dtype)
    pieces = _slices(samples, _step(features, X.dtype.itemsize, int(X.chunks[0])))
    sources = [Slice(X, piece) for piece in pieces]
    return Samples(sources, (piece.stop - piece.start for piece in pieces), features, X.dtype)


def _of_iterator(X: Iterator[Any]) -> Samples:
    """An iterator can be read only once, a fit reads many times: its chunks go to files in Dask's temporary folder."""
    import dask

    folder = tempfile.mkdtemp(prefix="tecu-chunks-", dir=dask.config.get("temporary-directory", None))
    clean = functools.partial(shutil.rmtree, folder, ignore_errors=True)
    try:
        result = _spooled(X, Path(folder))
    except BaseException:
        clean()
        raise
    weakref.finalize(result, clean)
    return result


def _spooled(X: Iterator[Any], folder: Path) -> Samples:
    sources: list[Any] = []
    rows: list[int] = []
    kinds: set[np.dtype[Any]] = set()
    features = names = None
    for number, chunk in enumerate(X):
        require_all_entries(chunk)
        values = np.asarray(chunk.toarray() if hasattr(chunk, "toarray") else chunk)
        if values.ndim == 2 and len(values) == 0:  # what a filter may leave
            continue
        samples, width = _matrix(values.shape, values.dtype)
        if features not in (None, width):
            raise ValueError(f"chunk {number} of X has {width} features, the ones before have {features}")
        found = names_of(chunk)
        names = found if names is None else names
        if found is not None and any(other := found != names):
            column = int(np.argmax(other))
            raise ValueError(
                f"the chunks of X must have one order of features: column {column + 1} is {found[column]!r} in chunk "
                f"{number}, and {names[column]!r} in the ones before"
            )
        features = width
        path = folder / f"{number:08}.bin"
        np.ascontiguousarray(values).tofile(path)
        sources.append(Mapped(str(path), values.dtype.str, (samples, width), 0, slice(0, samples)))
        rows.append(samples)
        kinds.add(values.dtype)
    if features is None:
        raise ValueError("X is an iterator without samples; at least one is required")
    spooled = Samples(sources, rows, features, np.result_type(*kinds))
    spooled.names = names
    return spooled


def _of_dask(X: Any) -> Samples:
    import dask
    from dask.optimization import cull

    if is_frame_of_dask(X):
        X = X.to_dask_array()
    _matrix(X.shape, X.dtype)
    if X.numblocks[1] > 1:
        X = X.rechunk({1: -1})
    if np.isnan(X.chunks[0]).any():
        X = X.compute_chunk_sizes()
    sources: list[Any]
    if _is_on_the_cluster(X):
        sources = list(X.to_delayed(optimize_graph=False).ravel())
        return Samples(sources, X.chunks[0], X.shape[1], X.dtype)
    (X,) = dask.optimize(X)
    graph = dict(X.__dask_graph__())
    if current_client() is not None and _holds_numbers(graph):  # they should travel only once
        with large_graphs():
            sources = list(X.persist().to_delayed(optimize_graph=False).ravel())
    else:
        sources = [Recipe(dict(cull(graph, row[0])[0]), row[0]) for row in X.__dask_keys__()]
    return Samples(sources, X.chunks[0], X.shape[1], X.dtype)


def _is_on_the_cluster(X: Any) -> bool:
    """Whether the array, or what it is made from, is kept by workers."""
    if current_client() is None:
        return False
    from distributed.client import futures_of

    return bool(futures_of(X))


def _holds_numbers(graph: dict[Any, Any]) -> bool:
    """Whether a graph holds data of this process, more than a recipe should."""
    held = (getattr(node, "value", node) for node in graph.values())
    return any(getattr(value, "nbytes", 0) > SMALL for value in held)
