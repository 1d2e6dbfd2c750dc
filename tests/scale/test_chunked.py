"""Chunks by threads: the same run as in memory, the same certificate, and nothing but numbers for the caller."""

import pickle

import dask.array as da
import numpy as np
import pytest
import zarr
from chunks import lazy, planted
from scipy.sparse import csr_array, vstack

import tecu
from tecu import arrays, stop, terms
from tecu.dictionary import L0DictionaryLearning, read_codes
from tecu.dictionary.chunked import fitting, rowwise, tasks
from tecu.dictionary.chunked.coupling import ChunkedFactorization, RowTerm
from tecu.dictionary.chunked.samples import Samples
from tecu.dictionary.coupling import BatchedFactorization
from tecu.dictionary.embedded import ColumnSweeps, strategy_of
from tecu.dictionary.online import Coder
from tecu.dictionary.weights import CODES_ETA, SHARE_OF_ETA, EmbeddedAtoms
from tecu.updates import Embed

ROWS, CHUNKS, ATOMS = 600, 5, 24
OPTIONS = {"n_components": ATOMS, "max_iter": 4, "tol": 0, "random_state": 0, "n_jobs": 2}


@pytest.fixture(scope="module")
def X():
    return np.concatenate([planted(k, ROWS) for k in range(CHUNKS)])


@pytest.fixture(scope="module")
def fitted():
    return L0DictionaryLearning(**OPTIONS).fit(lazy())


def in_memory(X, coder, sweeps, D):
    """The solver in memory with the same blocks in the same order: every piece of every chunk, then ``D``."""
    batches = [
        slice(ROWS * k + piece.start, ROWS * k + piece.stop)
        for k in range(len(X) // ROWS)
        for piece in tasks.pieces(ROWS, ATOMS)
    ]
    coupling = BatchedFactorization(X, batches)
    term = tecu.dictionary.solvers.code_term(coder)
    problem = tecu.Problem(coupling, {**dict.fromkeys(coupling.names, term), "D": terms.UnitColumns()})
    codes = Embed(strategy_of(coder, min(X.shape[1], ATOMS)), eta=CODES_ETA, c=SHARE_OF_ETA * CODES_ETA)
    updates = {**dict.fromkeys(coupling.names, codes), "D": EmbeddedAtoms(ColumnSweeps(), fitting.DICTIONARY_ETA)}
    start = {name: csr_array((b.stop - b.start, ATOMS)) for name, b in zip(coupling.names, batches, strict=True)}
    return tecu.Solver(problem, updates).run({**start, "D": D}, stop.MaxIter(sweeps))


@pytest.mark.parametrize("coder", [Coder(0.005), Coder(0.0, 2), Coder(0.01, None, 0.0)], ids=["l0", "k", "positive"])
def test_each_sweep_has_the_objective_of_the_run_in_memory(X, coder):
    D = np.ascontiguousarray((X[:ATOMS] / np.linalg.norm(X[:ATOMS], axis=1, keepdims=True)).T)
    chunks = Samples.of(lazy())
    squares = [float(np.sum(X[ROWS * k : ROWS * (k + 1)] ** 2)) for k in range(CHUNKS)]
    solver = fitting.chunked_solver(chunks, squares, coder, ATOMS)
    chunked = solver.run({"W": rowwise.zeros(chunks, ATOMS), "D": D}, stop.MaxIter(3))
    whole = in_memory(X, coder, 3, D)
    np.testing.assert_allclose(chunked.history["value"], whole.history["value"], rtol=1e-12)
    np.testing.assert_allclose(chunked.z["D"], whole.z["D"], atol=1e-10)
    assert chunked.certificate.holds_from == whole.certificate.holds_from == 0, chunked.certificate.reason


def test_the_result_says_what_it_ended_with(X, fitted):
    codes = csr_array(np.concatenate([part.toarray() for part in fitted.codes_]))
    assert codes.shape == fitted.codes_.shape == (len(X), ATOMS)
    assert codes.nnz == fitted.codes_.nnz
    misfit = X - codes @ fitted.components_
    np.testing.assert_allclose(fitted.objective_, fitted.penalty_ * codes.nnz + 0.5 * np.sum(misfit**2), rtol=1e-12)
    np.testing.assert_array_equal(fitted.codes_.usage(), np.count_nonzero(codes.toarray(), axis=0))
    assert fitted.certificate_.verdict is tecu.certificate.Verdict.HOLDS
    assert np.isfinite(fitted.certificate_.residual)
    assert np.all(np.diff(fitted.history_["lyapunov"]) <= 1e-12 * fitted.history_["lyapunov"][:-1])
    # Loose passes look at a part of the samples and speak of all; what they end with is near what sweeps begin with.
    assert fitted.objective_ < fitted.start_history_["value"][-1] < 3 * fitted.objective_


def test_every_kind_of_data_gives_the_same_fit(X, fitted, tmp_path):
    stored = zarr.create_array(tmp_path / "X.zarr", shape=X.shape, dtype=X.dtype, chunks=(ROWS, X.shape[1]))
    stored[:] = X
    kinds = {
        "array of a process": da.from_array(X, chunks=(ROWS, -1)),
        "features in chunks": da.from_array(X, chunks=(ROWS, 8)),
        "iterator": iter([X[ROWS * k : ROWS * (k + 1)] for k in range(CHUNKS)]),
    }
    for name, data in kinds.items():
        model = L0DictionaryLearning(**OPTIONS).fit(data)
        np.testing.assert_array_equal(model.components_, fitted.components_, err_msg=name)
    # One chunk of its own choice: the same samples, summed and drawn in another order.
    model = L0DictionaryLearning(**OPTIONS).fit(stored)
    assert model.objective_ == pytest.approx(fitted.objective_, rel=0.05)
    single = L0DictionaryLearning(**OPTIONS).fit(lazy().astype(np.float32))
    assert single.components_.dtype == np.float32
    assert single.objective_ == pytest.approx(fitted.objective_, rel=0.05)


@pytest.mark.parametrize(
    ("options", "law"),
    [
        ({"n_nonzero": 2}, lambda part: np.diff(part.indptr).max() <= 2),
        ({"positive": True}, lambda part: part.data.min() > 0),
        ({"code_bound": 0.5}, lambda part: np.abs(part.data).max() <= 0.5 + 1e-12),
    ],
)
def test_constraints_hold_in_every_chunk(options, law):
    model = L0DictionaryLearning(**OPTIONS | {"max_iter": 3}, **options).fit(lazy(3))
    assert all(law(part) for part in model.codes_)
    assert all(law(part) for part in model.transform(lazy(3)))
    assert model.certificate_.holds, model.certificate_.reason


def test_expressions_are_those_of_whole_arrays(X):
    """Norms, products, gradients and proxes by chunks are what NumPy says of the whole."""
    rng = np.random.default_rng(0)
    chunks = Samples.of(lazy())
    D = rng.standard_normal((X.shape[1], ATOMS))
    coupling = ChunkedFactorization(chunks, [1.0] * CHUNKS)
    smooth = coupling.restrict("W", {"W": rowwise.zeros(chunks, ATOMS), "D": D})
    dense = [np.where(rng.random((len(X), ATOMS)) < 0.1, rng.standard_normal((len(X), ATOMS)), 0) for _ in range(2)]
    u, v = (
        rowwise.RowWise(
            chunks,
            ATOMS,
            ("leaf", rowwise.Held(rowwise.persist([
                rowwise.task(csr_array)(w[ROWS * k : ROWS * (k + 1)]) for k in range(CHUNKS)
            ]))),
        )
        for w in dense
    )  # fmt: skip
    x, y = dense
    gradient = (x @ D.T - X) @ D
    assert arrays.norm(2.0 * (u - v) / 3.0 + u) == pytest.approx(np.linalg.norm(2 * (x - y) / 3 + x))
    assert arrays.inner(smooth.grad(u), v - u) == pytest.approx(np.sum(gradient * (y - x)))
    assert arrays.norm(smooth.hessian(u - v)) == pytest.approx(np.linalg.norm((x - y) @ D.T @ D))
    assert coupling.value({"W": u - 2.0 * v, "D": D}) == pytest.approx(0.5 * np.sum((X - (x - 2 * y) @ D.T) ** 2))
    term = terms.L0(0.3)
    stepped = RowTerm(term).prox(u - smooth.grad(u) / 50.0, 0.02)
    expected = term.prox(x - gradient / 50.0, 0.02)
    np.testing.assert_allclose(np.concatenate([p.toarray() for p in rowwise.compute(stepped.held.parts)]), expected)
    assert RowTerm(term).value(stepped) == pytest.approx(term.value(expected))
    totals = coupling.totals({"W": u, "D": D})
    np.testing.assert_allclose(totals.unfolded(float), x.T @ x, atol=1e-10)
    np.testing.assert_allclose(totals.B, x.T @ X, atol=1e-10)


def test_what_comes_to_the_caller_does_not_grow_with_the_samples(monkeypatch):
    import pickle

    seen = []

    def counted(collections, compute=rowwise.compute):
        results = compute(collections)
        seen.append(len(pickle.dumps(results)))
        return results

    for module in ("coder", "coupling", "rowwise"):
        monkeypatch.setattr(f"tecu.dictionary.chunked.{module}.compute", counted)
    spent = []
    for rows in (300, 1200):
        seen.clear()
        L0DictionaryLearning(**OPTIONS | {"max_iter": 3}).fit(lazy(4, rows))
        spent.append(sum(seen))
    assert spent[1] <= 1.01 * spent[0] + 100


def test_a_chunk_that_lies_about_its_numbers_is_found_out(monkeypatch):
    honest = tasks._code_piece

    def boastful(*arguments):
        point, difference, counted = honest(*arguments)
        counted[tasks.CHANGE] *= 1.5
        return point, difference, counted

    monkeypatch.setattr(tasks, "_code_piece", boastful)
    model = L0DictionaryLearning(**OPTIONS | {"max_iter": 2}).fit(lazy(3))
    assert not model.certificate_.holds
    assert "claimed a wrong change" in model.certificate_.reason


def test_transform_to_a_store(X, fitted, tmp_path):
    expected = fitted.transform(X)
    assert fitted.transform(lazy(), out=tmp_path / "codes.zarr") == str(tmp_path / "codes.zarr")
    assert (read_codes(tmp_path / "codes.zarr") != expected).nnz == 0
    part = read_codes(tmp_path / "codes.zarr", slice(ROWS - 5, 2 * ROWS + 7))
    assert (part != expected[ROWS - 5 : 2 * ROWS + 7]).nnz == 0
    fitted.transform(X, out=tmp_path / "memory.zarr")
    assert (read_codes(tmp_path / "memory.zarr") != expected).nnz == 0
    fitted.codes_.to_zarr(tmp_path / "fit.zarr")
    assert read_codes(tmp_path / "fit.zarr").nnz == fitted.codes_.nnz
    assert fitted.score(lazy()) == pytest.approx(fitted.score(X), rel=1e-9)
    with pytest.raises(FileExistsError, match="exists already"):
        fitted.transform(lazy(), out=tmp_path / "codes.zarr")
    zarr.open_group(tmp_path / "fit.zarr").attrs["complete"] = False
    with pytest.raises(ValueError, match="interrupted"):
        read_codes(tmp_path / "fit.zarr")


def test_what_is_no_store_for_codes_is_met_with_a_sentence(X, fitted, tmp_path):
    zarr.save(tmp_path / "array.zarr", X)
    with pytest.raises(FileExistsError, match="exists already"):
        fitted.transform(lazy(), out=tmp_path / "array.zarr")
    with pytest.raises(ValueError, match="does not hold codes"):
        read_codes(tmp_path / "array.zarr")
    with pytest.raises(TypeError, match=r"codes are written to a zarr store, .* got <Group"):
        fitted.transform(lazy(), out=zarr.open_group(tmp_path / "group.zarr", mode="w"))


def test_a_model_is_saved_without_the_codes_that_stayed_away(fitted, X, tmp_path):
    fitted.save(tmp_path / "model.npz")
    loaded = L0DictionaryLearning.load(tmp_path / "model.npz")
    assert (loaded.transform(X[:50]) != fitted.transform(X[:50])).nnz == 0


def test_wrong_data_are_refused_in_a_sentence(X, fitted):
    broken = X.copy()
    broken[2 * ROWS + 3, 1] = np.nan
    model = L0DictionaryLearning(**OPTIONS)
    with pytest.raises(ValueError, match="NaN or infinity: 1 of the samples 1200 to 1799"):
        model.fit(da.from_array(broken, chunks=(ROWS, -1)))
    with pytest.raises(ValueError, match="only once"):
        model.fit_transform(iter([X]))
    with pytest.raises(ValueError, match="without samples"):
        model.fit(iter([]))
    with pytest.raises(ValueError, match="chunk 1 of X has 3 features"):
        model.fit(iter([X, X[:, :3]]))
    with pytest.raises(ValueError, match="samples x features"):
        model.fit(da.zeros(5))
    with pytest.raises(ValueError, match="solver='auto' only"):
        L0DictionaryLearning(solver="palm").fit(lazy())
    with pytest.raises(ValueError, match="checkpoint"):
        L0DictionaryLearning(checkpoint="state.npz").fit(lazy())
    with pytest.raises(ValueError, match="expecting 16 features"):
        fitted.transform(da.zeros((5, 3)))


def test_a_missing_part_is_named(monkeypatch):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "distributed" else found(name))
    with pytest.raises(ImportError, match=r"data in chunks need distributed: pip install 'tecu\[scale\]'"):
        L0DictionaryLearning().fit(iter([np.eye(3)]))


@pytest.mark.parametrize("penalty", [3e-4, 1e-5])
def test_a_small_penalty_is_fitted_and_certified(X, penalty):
    # Codes that no longer gain by single atoms are prox-gradient steps, which the audit at the end has to look at.
    model = L0DictionaryLearning(ATOMS, penalty=penalty, random_state=0, max_iter=4).fit(lazy())
    assert model.certificate_.holds, model.certificate_.reason


def test_chunks_that_are_empty_are_left_out(X):
    chunks = da.from_array(X[np.argsort(X[:, 0])], chunks=(ROWS, X.shape[1]))
    some = chunks[chunks[:, 0] > float(np.median(X[:, 0]))]
    model = L0DictionaryLearning(ATOMS, random_state=0, max_iter=1).fit(some)
    assert model.transform(some).shape == (int(np.sum(X[:, 0] > np.median(X[:, 0]))), ATOMS)
    assert np.isfinite(model.score(some))
    with pytest.raises(ValueError, match="0 sample"):
        model.fit(chunks[chunks[:, 0] > 1e9])


def test_missing_numbers_in_a_chunk_are_refused_when_coding(fitted, X):
    chunks = da.from_array(X, chunks=(ROWS, X.shape[1]))
    with pytest.raises(ValueError, match="NaN or infinity"):
        fitted.transform(da.where(chunks > 0.9 * X.max(), np.nan, chunks))


def test_parameters_are_those_of_a_fit_in_memory():
    for option, word in (({"dtype": "int32"}, "dtype must"), ({"n_components": "a"}, "n_components must")):
        with pytest.raises(ValueError, match=word):
            L0DictionaryLearning(**option).fit(lazy())


def test_a_model_of_chunks_can_be_pickled_and_learns_on(fitted, X):
    copied = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copied.components_, fitted.components_)
    assert copied.partial_fit(X[:50]).score(X) > 1.05 * fitted.score(X)  # scores are negative
    with pytest.raises(ValueError, match="chunk by chunk"):
        fitted.inverse_transform(fitted.codes_)


@pytest.mark.parametrize("kind", ["iterator", "dask"])
def test_what_stands_behind_the_mask_of_a_chunk_is_not_taken_for_data(kind):
    X = np.random.default_rng(0).normal(size=(100, 12))
    masked = np.ma.masked_array(X, X > 1.0)
    chunks = iter([X, masked]) if kind == "iterator" else da.from_array(masked, chunks=(50, 12))
    with pytest.raises(ValueError, match="X has masked entries"):
        L0DictionaryLearning(8, max_iter=2, random_state=0).fit(chunks)


def test_a_penalty_that_leaves_no_codes_is_told_where_fit_was_called():
    X = np.random.default_rng(0).normal(size=(100, 12))
    with pytest.warns(UserWarning, match="too large: all codes are zero") as told:
        L0DictionaryLearning(8, penalty=1e6, max_iter=2, random_state=0).fit(iter([X]))
    assert [warning.filename for warning in told] == [__file__]


def test_chunks_without_samples_change_nothing():
    X = np.random.default_rng(0).normal(size=(100, 12))
    options = {"n_components": 8, "penalty": 0.5, "max_iter": 2, "random_state": 0}
    with_empty = L0DictionaryLearning(**options).fit(iter([X[:0], X[:60], X[:0], X[60:]]))
    np.testing.assert_array_equal(
        with_empty.components_, L0DictionaryLearning(**options).fit(iter([X[:60], X[60:]])).components_
    )
    with pytest.raises(ValueError, match="without samples"):
        L0DictionaryLearning(**options).fit(iter([X[:0]]))


def frame_of(X, columns):
    """A data frame of Dask by all of it that is used: pandas need not be installed."""
    parts = {"__module__": "dask.dataframe", "shape": X.shape, "columns": columns, "to_dask_array": lambda self: X}
    return type("DataFrame", (), parts)()


def test_a_data_frame_of_dask_is_taken_as_its_array():
    X = da.from_array(np.random.default_rng(0).normal(size=(100, 12)), chunks=(50, 12))
    frame = frame_of(X, range(12))
    options = {"n_components": 8, "penalty": 0.5, "max_iter": 2, "random_state": 0}
    models = [L0DictionaryLearning(**options).fit(data) for data in (X, frame)]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
    assert not hasattr(models[1], "feature_names_in_")


def test_the_names_of_a_data_frame_of_dask_are_kept_and_compared(tmp_path):
    X = da.from_array(np.random.default_rng(0).normal(size=(100, 3)), chunks=(50, 3))
    model = L0DictionaryLearning(2, penalty=0.5, max_iter=2, random_state=0).fit(frame_of(X, ["a", "b", "c"]))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    model.save(tmp_path / "model.npz")
    assert list(L0DictionaryLearning.load(tmp_path / "model.npz").feature_names_in_) == ["a", "b", "c"]
    model.transform(frame_of(X, ["a", "b", "c"]))
    model.transform(iter([X.compute()]))
    for use in (model.transform, model.score):
        with pytest.raises(ValueError, match="column 2 is 'c', and L0DictionaryLearning was fitted with 'b' there"):
            use(frame_of(X, ["a", "c", "b"]))
        with pytest.raises(ValueError, match="X has 2 features"):
            use(frame_of(X[:, :2], ["a", "b"]))
        with pytest.warns(UserWarning, match="X has no feature names") as caught:
            use(X)
        assert caught[0].filename == __file__
    with pytest.raises(TypeError, match="all strings or none, got 'a' and 1"):
        model.fit(frame_of(X, ["a", 1, 2]))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    model.fit(frame_of(X, [0, 1, 2]))
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="fitted without feature names"):
        model.transform(frame_of(X, ["a", "b", "c"]))


@pytest.mark.parametrize(("n_components", "n_nonzero"), [(12, 5), (12, 100), (2, 1)])
def test_codes_of_any_number_of_atoms_can_be_used(n_components, n_nonzero, tmp_path):
    X = np.random.default_rng(0).normal(size=(30, 3))  # codes of more atoms than features end by gradient steps
    model = L0DictionaryLearning(n_components, n_nonzero=n_nonzero, max_iter=2, random_state=0)
    codes = model.fit(iter(np.split(X, 2))).codes_
    W = vstack(list(codes)).toarray()
    assert codes.nnz == np.count_nonzero(W) == codes.usage().sum()
    assert np.max(np.count_nonzero(W, axis=1)) <= n_nonzero
    misfit = X - W @ model.components_
    np.testing.assert_allclose(model.objective_, 0.5 * np.sum(misfit**2), rtol=1e-9, atol=1e-13)
    codes.to_zarr(tmp_path / "codes.zarr")
    np.testing.assert_array_equal(read_codes(tmp_path / "codes.zarr").toarray(), W)


class Frame:
    """A data frame in memory, by all of it that is used."""

    def __init__(self, X, columns):
        self.X, self.columns = X, columns

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.X, dtype)


def test_an_iterator_of_data_frames_keeps_and_compares_names(recwarn):
    X = np.random.default_rng(0).normal(size=(100, 3))
    options = {"n_components": 2, "penalty": 0.5, "max_iter": 2, "random_state": 0}

    def frames(*names, data=X):
        return iter([Frame(part, list(own)) for part, own in zip(np.split(data, 2), names, strict=True)])

    model = L0DictionaryLearning(**options).fit(frames("abc", "abc"))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(
        model.components_, L0DictionaryLearning(**options).fit(iter(np.split(X, 2))).components_
    )
    model.score(frames("abc", "abc"))
    assert not recwarn.list
    for use in (model.transform, model.score):
        with pytest.raises(ValueError, match="column 2 is 'c', and L0DictionaryLearning was fitted with 'b' there"):
            use(frames("acb", "acb"))
    for use in (model.fit, model.transform):
        with pytest.raises(ValueError, match="column 2 is 'c' in chunk 1, and 'b' in the ones before"):
            use(frames("abc", "acb"))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    model.fit(frames(range(3), range(3)))
    assert not hasattr(model, "feature_names_in_")
    with pytest.warns(UserWarning, match="fitted without feature names"):
        model.transform(frames("abc", "abc"))


@pytest.mark.parametrize(("exponent", "remedy"), [(600, "divide"), (-600, "multiply")])
def test_samples_whose_squares_leave_the_range_are_refused_as_in_memory(fitted, X, exponent, remedy, tmp_path):
    for chunk in (0, 2) if exponent > 0 else (slice(None),):  # one number is too large; if all are too small they are
        scale = np.zeros(5)
        scale[chunk] = exponent
        strange = X * np.repeat(2.0**scale, len(X) // 5)[:, None]
        data = da.from_array(strange, chunks=(len(X) // 5, -1))
        sentences = []
        for ask, given in (
            (fitted.transform, strange), (fitted.transform, data), (fitted.score, data),
            (lambda given: fitted.transform(given, out=str(tmp_path / "codes.zarr")), data),
        ):  # fmt: skip
            with pytest.raises(ValueError, match=f"squares of such numbers leave the range.*{remedy} X") as error:
                ask(given)
            sentences.append(str(error.value))
        assert len(set(sentences)) == 1


def test_a_chunk_of_tiny_numbers_or_zeros_among_others_is_coded_as_in_memory(fitted, X):
    mixed = X.copy()
    mixed[: len(X) // 5] *= 2.0**-600
    mixed[-len(X) // 5 :] = 0.0
    codes = fitted.transform(da.from_array(mixed, chunks=(len(X) // 5, -1)))
    assert codes.nnz == fitted.transform(mixed).nnz
