"""Data in chunks that can kill the worker that reads them; a module of its own, so that workers can import it."""

import os
import signal

import numpy as np


def planted(chunk, rows, features=16, atoms=24, seed=5):
    """Sparse data with noise, a function of the chunk's number alone."""
    rng = np.random.default_rng(seed)
    D = rng.standard_normal((atoms, features))
    D /= np.linalg.norm(D, axis=1, keepdims=True)
    rng = np.random.default_rng((seed, chunk))
    W = np.zeros((rows, atoms))
    np.put_along_axis(W, rng.integers(atoms, size=(rows, 2)), rng.standard_normal((rows, 2)), axis=1)
    return W @ D + 0.02 * rng.standard_normal((rows, features))


def read(rows=600, trap=None, block_info=None):
    """A chunk for :func:`dask.array.map_blocks`. ``trap``: a file with the number of reads until chunk 2 is deadly."""
    chunk = block_info[None]["chunk-location"][0]
    if trap is not None and chunk == 2:
        left = int(trap.read_text())
        trap.write_text(str(left - 1))
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return planted(chunk, rows)


def lazy(chunks=5, rows=600, trap=None):
    """A Dask array that is made anew each time it is read."""
    import dask.array as da

    return da.map_blocks(read, chunks=((rows,) * chunks, (16,)), dtype=float, rows=rows, trap=trap)


class Deadly:
    """An enhancer that kills its process at one photo, the first time."""

    def __init__(self, trap):
        self.trap = trap

    def __call__(self, pixels):
        if pixels.shape[0] == 33 and self.trap.exists():
            self.trap.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return 255 - pixels


class MakeDeadly:
    """Makes :class:`Deadly`; equal ones are the same, as the batch expects."""

    def __init__(self, trap):
        self.trap = trap

    def __call__(self, settings):
        return Deadly(self.trap)

    def __eq__(self, other):
        return isinstance(other, MakeDeadly) and self.trap == other.trap

    def __hash__(self):
        return hash(self.trap)
