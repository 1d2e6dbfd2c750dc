"""Fitting and using a dictionary with data in chunks: the first look, the start, the solver, the codes."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from tecu import stop, terms
from tecu.dictionary.chunked import tasks
from tecu.dictionary.chunked.coder import ChunkCoder
from tecu.dictionary.chunked.coupling import ChunkedFactorization, RowTerm
from tecu.dictionary.chunked.rowwise import Codes, Held, Shared, compute, persist, task, zeros
from tecu.dictionary.chunked.samples import Samples, current_client
from tecu.dictionary.chunked.store import write_parts
from tecu.dictionary.coding import Matrix
from tecu.dictionary.embedded import ColumnSweeps, strategy_of
from tecu.dictionary.encoding import score_of
from tecu.dictionary.loose import Start, start_of
from tecu.dictionary.online import Coder
from tecu.dictionary.parameters import Checked, check_settings, checked_parameters
from tecu.dictionary.rows import Rows, is_tiny, require_squares
from tecu.dictionary.solvers import SmallGain, code_term, require_range
from tecu.dictionary.validation import compare_names, feature_names
from tecu.dictionary.weights import CODES_ETA, SAMPLES_SEEN, SHARE_OF_ETA, EmbeddedAtoms, codes_eta
from tecu.dictionary.workers import Workers, workers
from tecu.problem import Problem
from tecu.solver import Solver
from tecu.state import Result
from tecu.updates import Embed

SAMPLE = 20
"""Samples that the start is found from, as a multiple of the number of atoms."""

SMALLEST_SAMPLE = 20_000


DICTIONARY_ETA = 0.1
"""Proximal weight of the dictionary, as a share of the curvature of an atom: one update a sweep should go far."""


class Sample(Rows):
    """A few samples that stand for all of them: ``square`` is in proportion to that of all."""

    def __init__(self, X: Matrix, mean_square: float) -> None:
        super().__init__(X)
        self._mean_square = mean_square

    def square(self) -> float:
        """``||X||^2`` as if these samples were like all others."""
        return self._mean_square * len(self)


@dataclass(frozen=True)
class Survey:
    """What one pass over the data has found."""

    squares: list[float]
    sample: Sample


def survey(samples: Samples, atoms: int, seed: int) -> Survey:
    """Look at each chunk once: its square, whether it is finite, and its share of a sample."""
    wanted = min(len(samples), max(SMALLEST_SAMPLE, SAMPLE * atoms))
    ends = np.cumsum([0, *samples.rows]) * wanted // len(samples)
    looks = compute(
        [
            task(tasks.look)(source, samples.dtype, int(ends[k + 1] - ends[k]), (seed, k))
            for k, source in enumerate(samples.sources)
        ]
    )
    for k, found in enumerate(looks):
        if found.bad:
            first = sum(samples.rows[:k])
            raise ValueError(
                f"Input X contains NaN or infinity: {found.bad} of the samples {first} to {first + samples.rows[k] - 1}"
            )
    squares = [found.square for found in looks]
    return Survey(squares, Sample(np.concatenate([found.sample for found in looks]), sum(squares) / len(samples)))


def chunked_solver(
    samples: Samples, squares: list[float], coder: Coder, m: int, *, ball: bool = False, seed: int = 0,
    team: Workers | None = None, weight: float = CODES_ETA,
) -> Solver:  # fmt: skip
    """All codes against ``D``, then ``D`` from the totals: one sweep. ``weight`` is that of the codes."""
    coupling = ChunkedFactorization(samples, squares, team)
    problem = Problem(coupling, {"W": RowTerm(code_term(coder)), "D": terms.UnitColumns(ball=ball)})
    c = SHARE_OF_ETA * weight
    updates = {
        "W": Embed(ChunkCoder(strategy_of(coder, min(samples.shape[1], m)), c), eta=weight, c=c),
        "D": EmbeddedAtoms(ColumnSweeps(ball), DICTIONARY_ETA),
    }
    return Solver(problem, updates, seed=seed)


@contextlib.contextmanager
def scheduling(n_jobs: int | None, threads: int) -> Iterator[Workers]:
    """Without a cluster the chunks are shared out to ``n_jobs`` threads, all of them unless given."""
    import dask

    options = {} if n_jobs is None or current_client() is not None else {"num_workers": threads}
    with dask.config.set(options), workers(threads if current_client() is not None else 1) as team:
        yield team


def fit(model: Any, X: Any) -> float:
    """Fit an estimator to data in chunks; returns ``||X||^2``."""
    check_settings(model)
    if model.solver != "auto":
        raise ValueError(f"data in chunks are fitted by solver='auto' only, got solver={model.solver!r}")
    if model.checkpoint is not None:
        raise ValueError(
            "checkpoint cannot be used with data in chunks: the codes stay on the workers; "
            "save the model when the fit has ended"
        )
    names = feature_names(X)
    samples = Samples.of(X, model.dtype)
    names = samples.names if names is None else names
    random = check_random_state(model.random_state)
    seed = int(random.randint(np.iinfo(np.int32).max))
    atoms = samples.shape[1] if model.n_components is None else int(model.n_components)
    threads = checked_parameters(model, Rows(np.ones((1, samples.shape[1])))).threads  # errors before the first pass
    with scheduling(model.n_jobs, threads) as team:
        found = survey(samples, atoms, seed)
        require_range(sum(found.squares), found.sample, atoms)
        checked = checked_parameters(model, found.sample)
        begun = start_of(
            checked, found.sample, random, passes=model.max_iter, team=team, verbose=bool(model.verbose),
            samples=len(samples),
        )  # fmt: skip
        D = begun.D
        some = found.sample[:: -(-len(found.sample) // SAMPLES_SEEN)]  # from all chunks
        weight = codes_eta(strategy_of(checked.coder, min(D.shape)), some, D, D @ D.T)
        solver = chunked_solver(
            samples, found.squares, checked.coder, len(D), ball=checked.ball, seed=seed, team=team, weight=weight
        )
        start = {"W": zeros(samples, len(D)), "D": np.ascontiguousarray(D.T)}
        rule = SmallGain(200 * model.tol) | stop.MaxIter(model.max_iter)
        callbacks = [] if model.callback is None else [model.callback]
        solver.warns_of_rest = False
        result = solver.run(start, rule, callbacks, progress=bool(model.verbose))
        _keep(model, solver, result, checked, begun)
    model.n_features_in_ = samples.shape[1]
    vars(model).pop("feature_names_in_", None)  # of an earlier fit
    if names is not None:
        model.feature_names_in_ = names
    return sum(found.squares)


def _keep(model: Any, solver: Solver, result: Result, checked: Checked, begun: Start) -> None:
    model.components_ = np.ascontiguousarray(result.z["D"].T)
    held = result.z["W"]  # after a prox-gradient step, and at the start, it is no more than what the solver needs
    model.codes_ = Codes(samples=held.samples, atoms=held.shape[1], node=held.node, **held.facts)
    model.penalty_, model.n_replaced_, model.start_history_ = checked.coder.penalty, begun.replaced, begun.history
    model.objective_ = float(solver.problem.value(result.z))
    model.n_iter_, model.history_, model.status_ = result.iterations, result.history, result.status
    # The residual is asked of the workers now: they may be gone when somebody prints it.
    known = functools.partial(float, result.certificate.residual)
    model.certificate_ = replace(result.certificate, _residual=known)
    model._energy = np.diagonal(model.codes_.tally().folded).copy()  # so is what partial_fit goes on from


def transform(model: Any, X: Any, out: Any = None) -> Any:
    """Codes of data in chunks, made and kept by the workers; written to the zarr store ``out`` where given."""
    if not isinstance(X, Iterator):  # whether its chunks have names is not known yet
        compare_names(model, feature_names(X))
    samples = Samples.of(X, model.components_.dtype)
    if samples.names is not None:
        compare_names(model, samples.names)
    m, n = model.components_.shape
    if samples.shape[1] != n:
        raise ValueError(
            f"X has {samples.shape[1]} features, but L0DictionaryLearning is expecting {n} features as input"
        )
    checked = checked_parameters(model, Rows(np.ones((1, n), samples.dtype)), model.penalty_)
    with scheduling(model.n_jobs, checked.threads):
        _require_squares(samples)
        shared = Shared(np.ascontiguousarray(model.components_))
        made = [task(tasks.encode)(checked.coder, source, shared.part(0)) for source in samples.sources]
        if out is not None:
            return write_parts(out, samples, m, made)
        return Codes(samples, m, ("leaf", Held(persist(made))))


def _require_squares(samples: Samples) -> None:
    """Refuse samples that are all so small that their squares are lost; usually the first chunk shows that not all are.

    What is too large is refused where it is coded.
    """
    first, others = samples.sources[:1], samples.sources[1:]
    found = compute([task(tasks.largest)(source, samples.dtype) for source in first])
    if found[0] == 0.0 or is_tiny(found[0], samples.dtype):
        found += compute([task(tasks.largest)(source, samples.dtype) for source in others])
    require_squares(max(found), samples.shape[1], samples.dtype)


def score(model: Any, X: Any) -> float:
    """Minus the mean objective of a sample, for data in chunks."""
    codes = transform(model, X)
    checked = checked_parameters(model, Rows(np.ones((1, codes.samples.shape[1]))), model.penalty_)
    with scheduling(model.n_jobs, checked.threads):
        shared = Shared(np.ascontiguousarray(model.components_))
        return score_of(codes.ask("misfit", dictionary=shared), codes, checked.coder.penalty)
