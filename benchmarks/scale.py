"""Data in chunks on clusters of processes: the same objective as in memory, memory, time, bytes, and a killed worker.

``python -m benchmarks scale`` takes a gigabyte of samples for the memory figure, ``python -m benchmarks.scale
--gigabytes 8`` as many as asked for; ``--only NAME ...`` runs some parts: equal, overhead, linear, bytes, killed,
memory, constants.
"""

from __future__ import annotations

import argparse
import math
import os
import signal
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

import numpy as np
import psutil

from tecu import Problem, Solver, stop, terms
from tecu.dictionary import L0DictionaryLearning
from tecu.dictionary.chunked import fitting, rowwise, tasks
from tecu.dictionary.chunked.samples import Samples
from tecu.dictionary.confirmation import EmbeddedCodes
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.embedded import ColumnSweeps, strategy_of
from tecu.dictionary.kernels_atoms import unfold
from tecu.dictionary.online import Coder
from tecu.dictionary.solvers import code_term
from tecu.dictionary.sweeps import sweep
from tecu.dictionary.weights import CODES_ETA, SHARE_OF_ETA, EmbeddedAtoms

N, M, K, PENALTY = 64, 128, 4, 0.01


# -- data: a function of the chunk's number alone ---------------------------------------------------------------------


@lru_cache(maxsize=2)
def atoms(n: int, m: int) -> np.ndarray:
    D = np.random.default_rng((n, m)).standard_normal((m, n), dtype=np.float32)
    return D / np.linalg.norm(D, axis=1, keepdims=True)


def samples(chunk: int, rows: int, n: int, m: int, k: int, dtype: str) -> np.ndarray:
    """``k`` N(0, 1) coefficients a sample, 30 dB."""
    rng = np.random.default_rng((7, chunk))
    places, values = rng.integers(m, size=(rows, k)), rng.standard_normal((rows, k), dtype=np.float32)
    X = rng.standard_normal((rows, n), dtype=np.float32)
    X *= math.sqrt(k / n) * 10 ** (-30 / 20)
    for j in range(k):
        X += values[:, j, None] * atoms(n, m)[places[:, j]]
    return X.astype(dtype)


def read(rows=0, n=N, m=M, k=K, dtype="float64", trap=None, block_info=None):
    chunk = block_info[None]["chunk-location"][0]
    if trap is not None and chunk == 1:
        left = int(Path(trap).read_text())
        Path(trap).write_text(str(left - 1))
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return samples(chunk, rows, n, m, k, dtype)


def lazy(chunks: int, rows: int, n=N, m=M, k=K, dtype="float64", trap=None):
    import dask.array as da

    return da.map_blocks(
        read, chunks=((rows,) * chunks, (n,)), dtype=dtype, rows=rows, n=n, m=m, k=k, trap=trap
    ).astype(dtype)


# -- runs -------------------------------------------------------------------------------------------------------------


@contextmanager
def cluster(workers: int, **options):
    from distributed import Client, LocalCluster

    quiet = {"dashboard_address": ":0", "silence_logs": "CRITICAL", "threads_per_worker": 1}
    with LocalCluster(n_workers=workers, **quiet, **options) as processes, Client(processes) as client:
        yield client


def start_of(X: np.ndarray, m: int) -> np.ndarray:
    D = X[np.random.default_rng(0).permutation(len(X))[:m]]
    return np.ascontiguousarray((D / np.linalg.norm(D, axis=1, keepdims=True)).T)


def in_memory(X, rows, m, D, sweeps, in_pieces=False):
    """The solver in memory, a block a chunk; ``in_pieces``: the chunks' pieces, so that sums have the same order."""
    chunks, whole = len(X) // rows, [slice(0, rows)]
    pieces = tasks.pieces(rows, m) if in_pieces else whole
    batches = [slice(rows * c + p.start, rows * c + p.stop) for c in range(chunks) for p in pieces]
    coupling = BatchedFactorization(X, batches)
    coder = Coder(PENALTY)
    problem = Problem(coupling, {**dict.fromkeys(coupling.names, code_term(coder)), "D": terms.UnitColumns()})
    codes = EmbeddedCodes(strategy_of(coder, min(X.shape[1], m)), eta=CODES_ETA, c=SHARE_OF_ETA * CODES_ETA)
    updates = {**dict.fromkeys(coupling.names, codes), "D": EmbeddedAtoms(ColumnSweeps(), fitting.DICTIONARY_ETA)}
    solver = Solver(problem, updates)
    from scipy.sparse import csr_array

    zeros = {
        name: csr_array((b.stop - b.start, m), dtype=X.dtype) for name, b in zip(coupling.names, batches, strict=True)
    }
    return solver.run({**zeros, "D": D}, stop.MaxIter(sweeps))


def in_chunks(X, m, D, sweeps):
    """The same on whatever Dask is set to, with its first look at the data."""
    chunks = Samples.of(X)
    found = fitting.survey(chunks, m, 0)
    solver = fitting.chunked_solver(chunks, found.squares, Coder(PENALTY), m)
    return solver.run({"W": rowwise.zeros(chunks, m), "D": D}, stop.MaxIter(sweeps))


def cpu_seconds(client) -> float:
    """Of the workers and of this process, which is client and scheduler."""
    others = client.run(lambda: sum(psutil.Process().cpu_times()[:2])) if client is not None else {}
    return sum(others.values()) + time.process_time()


# -- figures ----------------------------------------------------------------------------------------------------------


def equal() -> None:
    rows, chunks, sweeps = 4000, 8, 6
    X = np.concatenate([samples(c, rows, N, M, K, "float64") for c in range(chunks)])
    D = start_of(X, M)
    whole = in_memory(X, rows, M, D, sweeps, in_pieces=True)
    for workers in (2, 4):
        with cluster(workers):
            parts = in_chunks(lazy(chunks, rows), M, D, sweeps)
        apart = np.max(np.abs(parts.history["value"] / whole.history["value"] - 1))
        print(
            f"equal: {workers} processes, {len(X)} samples, {sweeps} sweeps: the objective after each sweep is that of "
            f"the run in memory to {apart:.1e} (wanted: 1e-12); {parts.certificate.reason}",
            flush=True,
        )


def overhead() -> None:
    rows, chunks, sweeps = 50000, 4, 8
    X = np.concatenate([samples(c, rows, N, M, K, "float32") for c in range(chunks)])
    D = start_of(X, M)
    in_memory(X[:rows], rows, M, D, 1)  # compiled
    for workers in (2, 4):
        with cluster(workers) as client:
            import dask.array as da

            lazy_X = da.from_array(X, chunks=(rows, -1)).persist()
            client.submit(sum, [1]).result()
            in_chunks(lazy_X, M, D, 1)
            best = {"memory": math.inf, "chunks": math.inf}
            for _ in range(2):
                began = time.process_time()
                in_memory(X, rows, M, D, sweeps)
                best["memory"] = min(best["memory"], time.process_time() - began)
                began = cpu_seconds(client)
                in_chunks(lazy_X, M, D, sweeps)
                best["chunks"] = min(best["chunks"], cpu_seconds(client) - began)
        print(
            f"overhead: {workers} processes, {len(X)} samples, {sweeps} sweeps and all checks: CPU of workers, "
            f"scheduler and client {best['chunks']:.2f} s, in memory {best['memory']:.2f} s: ratio "
            f"{best['chunks'] / best['memory']:.2f} (wanted: at most 1.3)",
            flush=True,
        )


def linear() -> None:
    rows, sweeps = 5000, 5
    D = start_of(samples(0, rows, N, M, K, "float32"), M)
    with cluster(2) as client:
        in_chunks(lazy(4, rows, dtype="float32"), M, D, 1)
        spent = {}
        for chunks in (6, 24):
            best = math.inf
            for _ in range(2):
                began = cpu_seconds(client)
                in_chunks(lazy(chunks, rows, dtype="float32"), M, D, sweeps)
                best = min(best, cpu_seconds(client) - began)
            spent[chunks] = best
    print(
        f"linear: {6 * rows} and {24 * rows} samples, {sweeps} sweeps: {spent[6]:.2f} and {spent[24]:.2f} s of CPU, "
        f"ratio {spent[24] / spent[6]:.2f} at 4 times the samples (wanted: at most 4.4)",
        flush=True,
    )


def moved(client) -> int:
    """Bytes that workers have got from each other since they started."""
    return sum(
        client.run(lambda dask_worker: sum(entry["total"] for entry in dask_worker.transfer_incoming_log)).values()
    )


@contextmanager
def counted():
    """Bytes of graphs and results between here and the scheduler."""
    import cloudpickle

    total = {"bytes": 0}
    plain = rowwise.persist, rowwise.compute

    def sizes(collections):
        graph = {}
        for each in collections:
            graph |= {k: v for k, v in dict(each.__dask_graph__()).items() if type(v).__name__ != "Future"}
        return len(cloudpickle.dumps(list(graph.values())))

    def persist(collections):
        total["bytes"] += sizes(collections)
        return plain[0](collections)

    def compute(collections):
        total["bytes"] += sizes(collections)
        results = plain[1](collections)
        total["bytes"] += len(cloudpickle.dumps(results))
        return results

    modules = [module for name, module in sys.modules.items() if name.startswith("tecu.dictionary.chunked")]
    for module in modules:
        for name, function in (("persist", persist), ("compute", compute)):
            if hasattr(module, name):
                setattr(module, name, function)
    try:
        yield total
    finally:
        for module in modules:
            for name, function in (("persist", plain[0]), ("compute", plain[1])):
                if hasattr(module, name):
                    setattr(module, name, function)


def sweep_bytes(client, chunks: int, rows: int) -> tuple[float, float]:
    """A sweep's bytes between workers and to and from the client: of 9 sweeps less 3, by 6."""
    D = start_of(samples(0, rows, N, M, K, "float32"), M)
    between, here = [], []
    for sweeps in (3, 9):
        before = moved(client)
        with counted() as total:
            in_chunks(lazy(chunks, rows, dtype="float32"), M, D, sweeps)
        between.append(moved(client) - before)
        here.append(total["bytes"])
    return (between[1] - between[0]) / 6, (here[1] - here[0]) / 6


def bytes_moved() -> None:
    with cluster(2) as client:
        in_chunks(lazy(2, 2000, dtype="float32"), M, start_of(samples(0, 2000, N, M, K, "float32"), M), 1)
        for chunks, rows in ((16, 2000), (16, 8000), (64, 2000)):
            between, here = sweep_bytes(client, chunks, rows)
            print(
                f"bytes: {chunks} chunks of {rows} samples: a sweep moves {between / 1e6:.2f} MB between workers and "
                f"{here / 1e6:.2f} MB to and from the client (a chunk's totals: {(M * M + N * M) * 8 / 1e6:.2f} MB, "
                f"its samples {rows * N * 4 / 1e6:.2f} MB)",
                flush=True,
            )


def killed() -> None:
    rows, chunks, sweeps = 4000, 8, 6
    D = start_of(samples(0, rows, N, M, K, "float64"), M)
    for workers in (2, 4):
        with cluster(workers) as client, tempfile.TemporaryDirectory() as folder:
            safe = in_chunks(lazy(chunks, rows), M, D, sweeps)
            before = set(client.nthreads())
            trap = Path(folder, "trap")
            trap.write_text("4")  # read once at first and once a sweep: its reader dies in the middle of sweep 4
            began = time.perf_counter()
            hurt = in_chunks(lazy(chunks, rows, trap=str(trap)), M, D, sweeps)
            seconds = time.perf_counter() - began
            gone = len(before - set(client.nthreads()))
            same = np.array_equal(safe.z["D"], hurt.z["D"]) and np.array_equal(
                safe.history["value"], hurt.history["value"]
            )
        print(
            f"killed: {gone} of {workers} workers killed (SIGKILL) in the middle of sweep 4: the same result bit by "
            f"bit: {same}; {seconds:.1f} s; {hurt.certificate.reason}",
            flush=True,
        )


def memory(gigabytes: float, sizes: list[int]) -> None:
    n, m, k, rows = 256, 256, 5, 32768
    chunks = math.ceil(gigabytes * 1e9 / (4 * n * rows))
    for workers in sizes:
        with cluster(workers, memory_limit="1GB") as client:
            began, cpu = time.perf_counter(), cpu_seconds(client)
            model = L0DictionaryLearning(m, penalty=PENALTY, max_iter=3, tol=0, random_state=0)
            model.fit(lazy(chunks, rows, n, m, k, "float32"))
            peaks = client.run(_peak)
            spent = cpu_seconds(client) - cpu
        found = np.mean(np.abs(model.components_ @ atoms(n, m).T).max(axis=0) > 0.98)
        print(
            f"memory: {workers} processes, {chunks * rows * n * 4 / 1e9:.2f} GB of float32 samples made on the fly, "
            f"{model.n_iter_} sweeps: largest worker {max(peaks.values()) / 1e9:.2f} GB (wanted: at most 1), "
            f"{time.perf_counter() - began:.0f} s, {spent:.0f} s of CPU, {100 * found:.0f} % of the planted atoms found"
            f"; {model.certificate_.reason}",
            flush=True,
        )


def _peak() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def constants() -> None:
    """What docs/scale.md reckons with: seconds of one core for each part of a sweep."""
    n, m, k, rows, penalty = 144, 900, 8, 20000, 0.024
    X = samples(0, rows, n, m, k, "float32")
    near = atoms(n, m) + 0.02 * np.random.default_rng(1).standard_normal((m, n)).astype(np.float32)
    D = near / np.linalg.norm(near, axis=1, keepdims=True)
    coding = tasks.Coding(
        strategy_of(Coder(penalty), min(n, m)), code_term(Coder(penalty)), eta=0.01, c=0.0045, visits=0, move=None
    )
    old: object = tasks.empty(rows, m, np.float32)
    seconds = []
    for _ in range(4):
        began = time.process_time()
        old, sums = tasks.code(coding, X, D, old)
        seconds.append(time.process_time() - began)
    codes = tasks.codes_in(old)
    totals = best_of(lambda: tasks.tally(codes, X, sums.numbers))
    adding = best_of(lambda: tasks.add(sums, sums))
    A = np.zeros((m, m), np.float32)
    unfold(sums.folded, A, 0, m)
    B, moving = sums.B.astype(np.float32), D.copy()
    sweeping = best_of(lambda: sweep(moving, D, A, B, 1.0))
    held = codes.data.nbytes + codes.indices.nbytes + codes.indptr.nbytes
    print(
        f"constants (n = {n}, m = {m}, {codes.nnz / rows:.1f} non-zeros a sample, one core): coding "
        f"{seconds[1] / rows * 1e6:.1f} us a sample at first, {min(seconds[2:]) / rows * 1e6:.1f} us from old codes, "
        f"{totals / rows * 1e6:.1f} us of it for the totals; adding two totals {adding * 1e3:.1f} ms; a pass over the "
        f"atoms {sweeping * 1e3:.0f} ms; codes {held / rows:.0f} bytes a sample",
        flush=True,
    )
    with cluster(2):
        parts = rowwise.compute([rowwise.task(tasks.pick)((1,), 0) for _ in range(2)])
        began = time.process_time()
        count = 2000
        parts = rowwise.compute([rowwise.task(tasks.pick)((1,), 0) for _ in range(count)])
        assert len(parts) == count
        print(
            f"constants: scheduler and client {(time.process_time() - began) / count * 1e3:.2f} ms a task", flush=True
        )


def best_of(function, repeats: int = 5) -> float:
    """CPU seconds of the quickest call."""
    best = math.inf
    for _ in range(repeats):
        began = time.process_time()
        function()
        best = min(best, time.process_time() - began)
    return best


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parts = {
        "equal": equal, "overhead": overhead, "linear": linear, "bytes": bytes_moved, "killed": killed,
        "memory": None, "constants": constants,
    }  # fmt: skip
    parser.add_argument("--only", nargs="+", choices=list(parts), default=list(parts))
    parser.add_argument("--gigabytes", type=float, default=1.0, help="samples of the memory figure")
    parser.add_argument("--workers", nargs="+", type=int, default=[2, 4], help="sizes of the clusters of that figure")
    options = parser.parse_args(arguments or [])
    for name in options.only:
        part = parts[name]
        memory(options.gigabytes, options.workers) if part is None else part()


if __name__ == "__main__":
    main(sys.argv[1:])
