"""``L0DictionaryLearning``: a scikit-learn estimator over the solver."""

from __future__ import annotations

import copy
import logging
import numbers
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from tecu.arrays import is_elsewhere
from tecu.dictionary import model_file
from tecu.dictionary.advice import doubt_first_batch, doubt_penalty
from tecu.dictionary.chunked.samples import is_chunked
from tecu.dictionary.coding import Matrix
from tecu.dictionary.encoding import decoded, encoded, half_misfits, objective_of, score_of
from tecu.dictionary.late_residual import with_late_residual
from tecu.dictionary.loose import Start, start_of
from tecu.dictionary.parameters import Checked, checked_parameters
from tecu.dictionary.partial import absorb_batch, check_batch, first_start, require_one_batch
from tecu.dictionary.resumption import Origin, SavedFit, digest_of_init, run_saving, saved_fit
from tecu.dictionary.rows import Rows
from tecu.dictionary.solvers import Plan, plan
from tecu.dictionary.validation import validated
from tecu.dictionary.wholeness import PAST, all_or_nothing
from tecu.dictionary.workers import workers
from tecu.state import Result

log = logging.getLogger("tecu")


class L0DictionaryLearning(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]  # sklearn has no types
    r"""``min penalty ||W||_0 + 1/2 ||X - W D||^2`` over codes ``W`` and a dictionary ``D`` with atoms of unit length.

    Parameters
    ----------
    n_components
        Atoms; ``None`` takes as many as there are features, as scikit-learn does: with many more features than samples
        that is far too many, so give a number.
    penalty
        The price of a non-zero coefficient, or ``"auto"``: 0.003 times the mean squared distance of a sample to the
        mean sample, this at the level (from 0 to 2) that suits the sample. Outliers count little: each distance is cut
        at eight times the median, the mean sample is that of samples of at most eight times the median squared length,
        and samples that are zero are left out. Of data in chunks it is found from the sample that the start is found
        from, by ``partial_fit`` from the first batch. So an offset hardly changes the penalty, but it takes a
        coefficient a sample: subtract the mean sample, or from each patch its own mean, if you can do without.
    n_nonzero
        At most this many coefficients a sample, instead of a penalty. It is meant for few: a fit with half as many as
        there are features takes many times as long as one with a tenth.
    solver
        ``"auto"`` (fastest), ``"tecu"`` (ADMM embedded for ``D``), ``"tecu-pith"``, ``"palm"``, ``"ipalm"``,
        ``"bcu"``, ``"inv"``.
    constraint
        ``"sphere"``: atoms have length 1; ``"ball"``: at most 1.
    positive
        Codes are not negative.
    code_bound
        No coefficient is larger than this in size. Without it the codes may be unbounded where ``n_components``
        exceeds the number of features, which the convergence theorem excludes by assumption.
    max_iter
        Sweeps, at most. The loose passes of ``init="greedy"`` come on top: five, of few samples up to eight, and never
        more than ``max_iter``.
    tol
        ``"auto"`` stops when a sweep lowers the objective by less than ``200 tol`` of it; the other solvers when the
        largest relative change of ``W``, ``D`` and the objective is below ``tol``.
    init
        ``"greedy"`` (random samples, an offset that they share as an atom of its own where a trial finds that better,
        then loose passes over the data, each over 48 random samples an atom or 10,000 if there are more; for
        ``"auto"``), ``"data"`` (random samples), ``"random"`` (normal numbers), or an array ``n_components x
        n_features``. ``"auto"`` is ``"greedy"`` for the solver ``"auto"`` and ``"data"`` for the others. ``"random"``
        is for comparison: on raw data with an offset it may end ten times as high as ``"greedy"``.
    dtype
        ``float32`` or ``float64``; ``None`` keeps ``float32`` data and turns all other into ``float64``.
    random_state
        Seed of everything random. The same seed and ``n_jobs`` give the same result bit by bit.
    n_jobs
        Threads of the solver ``"auto"`` and of ``transform``.
    callback
        Called with the :class:`tecu.State` after each sweep; one that returns ``True`` stops the fit.
    checkpoint
        A file. The state is saved there now and then; a ``fit`` that finds it goes on from it, to the same result.
        ``max_iter`` and ``tol`` may be others by then; loose passes are not made again. Data and other parameters may
        not. If it can no longer be written the fit goes on, and the log says so.
    verbose
        Show a progress line, on a terminal.

    Attributes
    ----------
    components_, codes_, objective_, penalty_, n_iter_
        What the run ended with: ``objective_ = penalty_ nnz(codes_) + 1/2 ||X - codes_ @ components_||^2``. ``n_iter_``
        counts sweeps, and each ``partial_fit`` as one.
    status_
        Why the run ended, a :class:`tecu.Status`.
    certificate_, history_
        The checked convergence certificate and the columns of the run. ``certificate_.residual`` is computed when it is
        first asked for (``save`` asks, too), and the model holds ``X`` until then; if ``X`` was changed meanwhile it is
        NaN, with a warning. Both name blocks: ``D`` is the dictionary, ``W0`` the codes of the first samples, ``W1``
        those of the next, and so on, for the solver ``"auto"`` cuts the codes into blocks of about equally many
        samples. For the other solvers, and for data in chunks, all codes are one block, ``W``. ``history_["seconds"]``
        counts from the first sweep: the loose passes of ``init="greedy"``, which come before it, are not in it.
    start_history_
        The columns of these loose passes, a row for each, or for each part of one where there are one or two:
        ``seconds`` from their beginning; ``value``, the objective, each sample with its loose code and the atoms that
        it was coded with (it may rise, and no certificate covers it; where a part of the samples is looked at, it is
        scaled to all); ``nonzeros`` a sample; atoms ``replaced``. Without such passes there are no rows.
    n_replaced_
        Dead or double atoms that were replaced in the loose passes.

    Examples
    --------
    >>> from tecu.dictionary import L0DictionaryLearning, make_sparse_data
    >>> X, components, codes = make_sparse_data(500, 16, 24, 2, snr_db=30, random_state=0)
    >>> model = L0DictionaryLearning(24, penalty=0.01, random_state=0).fit(X)
    >>> model.certificate_.holds
    True
    >>> model.transform(X[:3]).shape
    (3, 24)
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        penalty: float | str = "auto",
        n_nonzero: int | None = None,
        solver: str = "auto",
        constraint: str = "sphere",
        positive: bool = False,
        code_bound: float | None = None,
        max_iter: int = 100,
        tol: float = 1e-4,
        init: Any = "auto",
        dtype: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        callback: Callable[[Any], Any] | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.n_nonzero = n_nonzero
        self.solver = solver
        self.constraint = constraint
        self.positive = positive
        self.code_bound = code_bound
        self.max_iter = max_iter
        self.tol = tol
        self.init = init
        self.dtype = dtype
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.callback = callback
        self.checkpoint = checkpoint
        self.verbose = verbose

    # -- learning -----------------------------------------------------------------------------------------------

    @all_or_nothing
    def fit(self, X: Any, y: Any = None) -> L0DictionaryLearning:
        """Learn a dictionary from ``X``, samples x features: dense, CSR or in chunks.

        In chunks are an array or a data frame of Dask, a zarr array and an iterator of arrays, and a memory map where a
        ``distributed.Client`` is at work. Chunks are coded by Dask, on the client's workers or on threads; the codes
        stay there, and ``codes_`` stands for them. A fit that is broken off leaves the model as it was.
        """
        for name in (*PAST, "certificate_summary_"):  # the last is of the file that a model came from
            self.__dict__.pop(name, None)
        if is_chunked(X):
            from tecu.dictionary.chunked import fitting

            doubt_penalty(self, fitting.fit(self, X))
            return self
        X = validated(self, X, reset=True)
        rows = Rows(X)
        checked = checked_parameters(self, rows)
        random = check_random_state(self.random_state)
        seed = int(random.randint(np.iinfo(np.int32).max))
        saved = saved_fit(None if self.checkpoint is None else Path(self.checkpoint))
        if saved is not None and saved.origin.seed is not None and not isinstance(self.random_state, numbers.Integral):
            seed = saved.origin.seed  # another one was drawn now
        with workers(checked.threads) as team:
            planned = plan(
                self.solver, rows, checked.coder, checked.n_components, ball=checked.ball, seed=seed,
                max_iter=self.max_iter, tol=self.tol, team=team,
            )  # fmt: skip
            planned.solver.warns_of_rest = False  # its blocks are not what a user of the estimator knows
            result = self._run(planned, rows, checked, random, team, saved)
        self._keep(planned, result, checked, rows)
        doubt_penalty(self, planned.square if self.codes_.nnz < len(rows) else 0.0)
        return self

    def _run(
        self, planned: Plan, rows: Rows, checked: Checked, random: Any, team: Any, saved: SavedFit | None
    ) -> Result:
        callbacks: list[Any] = [] if self.callback is None else [self.callback]
        init = None if self.checkpoint is None else digest_of_init(checked, rows)
        if saved is not None:
            saved.require(init, checked.n_components)
            start: Any = saved.state
            begun = Start(saved.state.z["D"].T, saved.origin.stages)
            log.info("resuming from %s at iteration %d", self.checkpoint, start.t)
        else:
            begun = start_of(checked, rows, random, passes=self.max_iter, team=team, verbose=bool(self.verbose))
            start = planned.start(begun.D)
        self.n_replaced_, self.start_history_ = begun.replaced, begun.history
        if self.checkpoint is None:
            return planned.solver.run(start, planned.rule, callbacks, progress=bool(self.verbose))
        origin = Origin(begun.stages, planned.solver.seed, init)
        return run_saving(planned, start, callbacks, bool(self.verbose), Path(self.checkpoint), origin)

    def _keep(self, planned: Plan, result: Result, checked: Checked, rows: Rows) -> None:
        self.components_ = planned.components(result.z)
        self.codes_ = planned.codes(result.z)
        self.penalty_ = checked.coder.penalty
        found = float(planned.solver.problem.value(result.z))
        self.objective_ = objective_of(rows, planned.square, self.codes_, self.components_, self.penalty_, found)
        self.n_iter_ = result.iterations
        self.certificate_ = with_late_residual(result, planned.solver)
        self.history_, self.status_ = result.history, result.status

    @all_or_nothing
    def partial_fit(self, X: Any, y: Any = None) -> L0DictionaryLearning:
        """Update the dictionary with one more batch: code it, add it to the running totals, sweep over the atoms.

        It goes on from where :meth:`fit`, :meth:`load` or another batch has left off. The first batch is best large:
        from four samples an atom on ``init="greedy"`` makes its loose passes over it. What ``fit`` said of its own
        dictionary (``codes_``, ``objective_``, ``certificate_``, ``history_``) is gone then. ``penalty_`` is that of
        the latest batch; ``penalty="auto"`` keeps the one before, so that scores can be compared, and warns of a batch
        that it is far too large or too small for.
        """
        first = not hasattr(self, "components_")
        require_one_batch(X)
        X = validated(self, X, reset=first)
        rows = Rows(X, None if first else self.components_.dtype)
        checked = checked_parameters(self, rows, None if first else self.penalty_)
        check_batch(self, rows, checked, first)
        if first:
            begun = first_start(self, rows, checked)
            self.components_, self.n_replaced_, self.n_iter_ = begun.D, begun.replaced, 0
        else:
            doubt_first_batch(self, rows)  # before anything is learned: a warning may be an error
        absorb_batch(self, rows, checked)
        return self

    # -- using --------------------------------------------------------------------------------------------------

    def transform(self, X: Any, out: Any = None) -> Any:
        """Sparse codes of ``X``, CSR: each sample greedily, then atoms come, go and are exchanged while that pays.

        Every move is followed by a refit, within the bounds. But for rounding no code is worse than its greedy start;
        one of more than 64 atoms is left as it is, and with a penalty alone atoms are exchanged only where they are
        more alike than random ones. ``fit`` exchanges atoms from sweep to sweep instead, so ``codes_`` differ: where
        atoms are much alike, as those of digits are, these codes are the better ones.

        Codes of data in chunks stay where they are made. ``out`` is a zarr store to write them to, by the workers
        themselves; it is returned, and :func:`tecu.dictionary.read_codes` reads it.
        """
        check_is_fitted(self)
        if is_chunked(X) or out is not None:
            from tecu.dictionary.chunked import fitting

            return fitting.transform(self, X if is_chunked(X) else iter([validated(self, X, reset=False)]), out)
        return self._coded(X)[0]

    def _coded(self, X: Any) -> tuple[Any, Rows, Checked]:
        rows = Rows(validated(self, X, reset=False), self.components_.dtype)
        rows.require_precision()
        rows.require_squares()
        checked = checked_parameters(self, rows, self.penalty_)
        with workers(checked.threads) as team:
            return encoded(rows, self.components_, checked.coder, team), rows, checked

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """``fit(X).transform(X)``."""
        if isinstance(X, Iterator):
            raise ValueError(
                "an iterator of chunks can be read only once: call fit with one and transform with another"
            )
        return self.fit(X).transform(X)

    def inverse_transform(self, codes: Any) -> Matrix:
        """``codes @ components_``."""
        check_is_fitted(self)
        return decoded(codes, self.components_)

    def score(self, X: Any, y: Any = None) -> float:
        """Minus the mean objective of a sample: ``-(penalty nnz + 1/2 ||x - code @ components_||^2)``.

        It compares dictionaries at one ``penalty`` or ``n_nonzero``, not these themselves: a smaller penalty and a
        larger number score better whatever the data. To search for them, give the search a ``scoring`` of its own.
        """
        check_is_fitted(self)
        if is_chunked(X):
            from tecu.dictionary.chunked import fitting

            return fitting.score(self, X)
        codes, rows, checked = self._coded(X)
        return score_of(half_misfits(rows, codes, self.components_), codes, checked.coder.penalty)

    # -- files --------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one ``.npz`` file that :meth:`load` reads; no pickle.

        Codes that stayed on workers are left out.
        """
        check_is_fitted(self)
        model_file.save(self._without_codes_elsewhere(), Path(path), L0DictionaryLearning())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> L0DictionaryLearning:
        """Read a model that :meth:`save` wrote."""
        model = cls()
        model_file.load(model, Path(path))
        return model

    # -- scikit-learn -------------------------------------------------------------------------------------------

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _without_codes_elsewhere(self) -> L0DictionaryLearning:
        model = copy.copy(self)
        if is_elsewhere(getattr(model, "codes_", None)):
            del model.codes_
        return model

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = dict(super().__getstate__())
        if is_elsewhere(state.get("codes_")):
            del state["codes_"]
        return state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
