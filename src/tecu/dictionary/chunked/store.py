"""Codes in a zarr store: a group a chunk with the three arrays of a CSR matrix, written by the worker that has them.

::

    store/                attributes: format, shape, rows (samples of each chunk), complete
      00000000/           chunk 0: data, indices, indptr
      00000001/           chunk 1
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from tecu.dictionary.chunked.rowwise import Codes, compute, task
from tecu.dictionary.chunked.samples import Samples, ScalePartMissing
from tecu.dictionary.chunked.tasks import codes_in
from tecu.extras import how_to_get

FORMAT = "tecu-codes-1"
ARRAYS = ("data", "indices", "indptr")


def _zarr() -> Any:
    if importlib.util.find_spec("zarr") is None:
        raise ScalePartMissing(f"codes in a store need zarr: {how_to_get('scale')}")
    import zarr

    return zarr


def _name(chunk: int) -> str:
    return f"{chunk:08}"


def write_chunk(store: Any, chunk: int, part: Any) -> int:
    """Write the codes of one chunk; written again, after a loss, they are the same."""
    codes = codes_in(part)
    group = _zarr().open_group(store, mode="a", path=_name(chunk))
    for name in ARRAYS:
        values = np.asarray(getattr(codes, name))
        array = group.create_array(
            name, shape=values.shape, dtype=values.dtype, chunks=(max(1, len(values)),), overwrite=True
        )
        if len(values):
            array[:] = values
    return int(codes.nnz)


def write_parts(store: Any, samples: Samples, atoms: int, parts: Sequence[Any]) -> Any:
    """Write codes, one task a chunk, and return the store; nothing of them comes here."""
    zarr = _zarr()
    store = str(store) if hasattr(store, "__fspath__") else store
    try:
        root = zarr.open_group(store, mode="w-")
    except (FileExistsError, zarr.errors.ContainsGroupError, zarr.errors.ContainsArrayError) as reason:
        raise FileExistsError(f"{store} exists already; codes are written to a new store") from reason
    except TypeError as reason:
        raise TypeError(f"codes are written to a zarr store, or to a folder of a given name; got {store!r}") from reason
    root.attrs.update({"format": FORMAT, "shape": [len(samples), atoms], "rows": list(samples.rows), "complete": False})
    written = compute([task(write_chunk)(store, k, part) for k, part in enumerate(parts)])
    root.attrs.update({"nonzeros": sum(written), "complete": True})
    return store


def write_codes(store: Any, codes: Codes) -> Any:
    """Write codes that the workers hold."""
    return write_parts(store, codes.samples, codes.shape[1], codes.held.parts)


def read_codes(store: Any, rows: slice = slice(None)) -> Any:
    """Codes of some samples (CSR) from a store that ``transform(X, out=store)`` wrote.

    >>> import tempfile, numpy as np
    >>> from tecu.dictionary import L0DictionaryLearning, make_sparse_data, read_codes
    >>> X, _, _ = make_sparse_data(300, 8, 12, 2, random_state=0)
    >>> model = L0DictionaryLearning(12, max_iter=2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = model.transform(iter([X[:200], X[200:]]), out=folder + "/codes.zarr")
    ...     read_codes(store, slice(150, 250)).shape
    (100, 12)
    """
    from scipy.sparse import csr_array, vstack

    zarr = _zarr()
    try:
        root = zarr.open_group(store, mode="r")
    except zarr.errors.ContainsArrayError:
        root = None
    if root is None or root.attrs.get("format") != FORMAT:
        raise ValueError(f"{store} does not hold codes of this version, {FORMAT}")
    if not root.attrs["complete"]:
        raise ValueError(f"{store} is not complete: its writer was interrupted")
    samples, atoms = root.attrs["shape"]
    first, last, step = rows.indices(samples)
    if step != 1:
        raise ValueError(f"rows must be a slice with step 1, got {rows}")
    parts, start = [], 0
    for chunk, count in enumerate(root.attrs["rows"]):
        if start < last and first < start + count:
            group = root[_name(chunk)]
            codes = csr_array(tuple(group[name][:] for name in ARRAYS), shape=(count, atoms))
            parts.append(codes[max(first - start, 0) : max(0, min(last - start, count))])
        start += count
    return csr_array(vstack(parts, format="csr")) if parts else csr_array((0, atoms))
