"""The dictionary command, its files, and the verdicts of the reproduced tables."""

import dataclasses
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_array, load_npz, save_npz

from tecu.cli.dictionary import dictionary
from tecu.cli.main import main
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.dictionary.data import table_data
from tecu.dictionary.tables import atoms_picture, read_table
from tecu.reproduce.dictionary import Run, claims
from tecu.reproduce.dictionary_output import verdicts


@pytest.fixture
def data(tmp_path):
    X = make_sparse_data(200, 16, 20, 2, random_state=0)[0]
    np.save(tmp_path / "X.npy", X)
    return X


def test_fit_then_transform_is_the_estimator(tmp_path, data, capsys):
    model, codes = tmp_path / "model.npz", tmp_path / "codes.npz"
    arguments = ["--components", "20", "--penalty", "0.02", "--seed", "3", "--picture", str(tmp_path / "atoms.png")]
    assert main(["dictionary", "fit", str(tmp_path / "X.npy"), "-o", str(model), *arguments]) == 0
    told = capsys.readouterr().out
    assert "The certificate holds for the whole run." in told
    assert "sweeps. Converged: " in told  # which the certificate does not say
    assert main(["dictionary", "transform", str(model), str(tmp_path / "X.npy"), "-o", str(codes)]) == 0
    own = L0DictionaryLearning(20, penalty=0.02, random_state=3).fit(data)
    np.testing.assert_array_equal(L0DictionaryLearning.load(model).components_, own.components_)
    assert (csr_array(load_npz(codes)) != own.transform(data)).nnz == 0
    assert (tmp_path / "atoms.png").stat().st_size > 0


def test_the_command_line_has_every_parameter_of_the_estimator_that_text_can_give(tmp_path, data):
    model = tmp_path / "model.npz"
    arguments = [
        "--components", "8", "--nonzero", "2", "--code-bound", "0.5", "--positive", "--ball", "--init", "data",
        "--max-iter", "3", "--tol", "0", "--dtype", "float32", "--seed", "3",
    ]  # fmt: skip
    assert main(["dictionary", "fit", str(tmp_path / "X.npy"), "-o", str(model), *arguments]) == 0
    own = L0DictionaryLearning(
        8, n_nonzero=2, code_bound=0.5, positive=True, constraint="ball", init="data", max_iter=3, tol=0,
        dtype="float32", random_state=3,
    ).fit(data)  # fmt: skip
    assert own.n_iter_ == 3
    np.testing.assert_array_equal(L0DictionaryLearning.load(model).components_, own.components_)
    options = {option.name for option in dictionary.commands["fit"].params}
    names = {"n_components": "components", "n_nonzero": "nonzero", "constraint": "ball", "random_state": "seed"}
    names |= {"n_jobs": "jobs"}
    assert {names.get(name, name) for name in own.get_params()} - {"callback", "verbose"} <= options


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["fit", "missing.npy", "-o", "m.npz"], 2),
        (["fit", "X.npy", "-o", "m.npz", "--penalty", "-1"], 1),
        (["fit", "X.npy", "-o", "m.npz", "--penalty", "1", "--nonzero", "2"], 1),
        (["fit", "X.npy", "-o", "m.npz", "--code-bound", "0"], 1),
        (["fit", "X.npy", "-o", "m.npz", "--tol", "-1"], 1),
        (["fit", "X.npy", "-o", "m.npz", "--init", "zeros"], 1),
        (["fit", "X.npy", "-o", "no/such/folder/m.npz"], 5),
        (["transform", "X.npy", "X.npy", "-o", "c.npz"], 2),
        (["fit", "X.txt", "-o", "m.npz"], 2),
    ],
)
def test_exit_codes(tmp_path, data, monkeypatch, capsys, arguments, code):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "X.txt").write_text("1 2\n")
    assert main(["dictionary", *arguments]) == code
    assert capsys.readouterr().err


@pytest.mark.parametrize("kind", ["nan", "empty", "complex", "huge"])
def test_data_that_cannot_be_used_are_named_in_one_line(tmp_path, data, monkeypatch, capsys, kind):
    monkeypatch.chdir(tmp_path)
    main(["dictionary", "fit", "X.npy", "-o", "m.npz", "--components", "4", "--max-iter", "1"])
    capsys.readouterr()
    bad = {"nan": data * np.nan, "empty": data[:0], "complex": data * 1j, "huge": 1e200 * data}[kind]
    np.save("bad.npy", bad)
    commands = [["fit", "bad.npy", "-o", "n.npz"], ["transform", "m.npz", "bad.npy", "-o", "c.npz"]]
    for command in commands[: 1 if kind == "huge" else 2]:  # there are codes of large samples
        assert main(["dictionary", *command]) == 2
        said = capsys.readouterr().err.splitlines()
        assert said[-1].startswith("bad.npy cannot be used: ")
        assert not any("Usage" in line for line in said)


def test_a_checkpoint_of_other_data_is_named(tmp_path, data, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    fit = ["dictionary", "fit", "X.npy", "--components", "4", "--max-iter", "1", "--checkpoint", "c.npz"]
    assert main([*fit, "-o", "m.npz"]) == 0
    assert main([*fit, "-o", "n.npz", "--penalty", "0.5"]) == 2
    assert "checkpoint c.npz was written by a fit of other data" in capsys.readouterr().err


def test_the_first_sample_of_a_csv_file_is_never_lost(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"\xef\xbb\xbf1,2,3\n4,5,6\n")  # as Excel writes it
    assert read_table(path).tolist() == [[1, 2, 3], [4, 5, 6]]
    path.write_bytes(b"\xef\xbb\xbfa,b,c\n4,5,6\n")
    assert read_table(path).tolist() == [[4, 5, 6]]
    for text, word in (("1,,3\n4,5,6\n", "column 2"), ("", "no numbers"), ("1,2\n3\n", "number of columns")):
        path.write_text(text)
        with pytest.raises(ValueError, match=word):
            read_table(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a;b\n4;5\n", "has semicolons between its cells; the separator must be a comma"),
        ("4;5;6\n", "has semicolons between its cells"),
        ("4,5;6,5\n1,5;2\n", "has semicolons between its cells"),
        ("4\t5\n1\t2\n", "has blanks or tabs between its cells"),
        ("a,b\n1,2\n\n3,x\n", "column 2 of line 4 must be a number, but is 'x'"),
        ("1,2\n# a remark\n3,\n", "column 2 of line 3 must be a number, but is ''"),
        ("a,b\n1,2\n3,4,5\n", "the number of columns changes from 2 to 3 in line 3"),
    ],
)
def test_where_a_csv_file_is_no_matrix_is_said(tmp_path, text, said):
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(ValueError, match=f"x.csv:? {said}"):
        read_table(tmp_path / "x.csv")


@pytest.mark.parametrize("first", [0, 1])
def test_a_first_row_that_may_number_the_columns_is_told(tmp_path, caplog, capsys, first):
    path, count = tmp_path / "x.csv", 4
    np.savetxt(path, [range(first, first + count), *np.eye(count)], delimiter=",", fmt="%g")
    assert main(["dictionary", "fit", str(path), "-o", str(tmp_path / "m.npz"), "--max-iter", "1"]) == 0
    assert "5 samples, 4 features" in capsys.readouterr().err
    assert f"x.csv: the first row, {first} to {first + count - 1}, is read as a sample" in caplog.text
    caplog.clear()
    for row in ("2,3,4,5", "0,1,2,4", "a,b,c,d", "1,0,0,0"):
        path.write_text(row + "\n1,2,3,4\n")
        read_table(path)
    assert not caplog.records


@pytest.mark.parametrize(
    "text",
    [
        ",a,b\n0,1.5,2\n1,3,4\n",  # as pandas writes a frame
        ",0,1\n3,1.5,2\n7,3,4\n",  # a part of one whose columns have no names
        '"","a","b"\n"one",1.5,2\n"two",3,4\n',  # as R does
    ],
)
def test_labels_of_rows_are_no_feature(tmp_path, caplog, text):
    (tmp_path / "x.csv").write_text(text)
    assert read_table(tmp_path / "x.csv").tolist() == [[1.5, 2], [3, 4]]
    assert "the first column has no name" in caplog.text
    (tmp_path / "x.csv").write_text(text + "5,6\n")
    with pytest.raises(ValueError, match="number of columns changes from 3 to 2 in line 4"):
        read_table(tmp_path / "x.csv")
    (tmp_path / "x.csv").write_text(text + "5,6,x\n")
    with pytest.raises(ValueError, match="column 3 of line 4 must be a number, but is 'x'"):
        read_table(tmp_path / "x.csv")


def test_columns_in_another_order_are_not_coded(tmp_path, data, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    columns = [f"c{i}" for i in range(16)]
    files = {"same": columns, "swapped": columns[::-1], "fewer": columns[:-1], "bare": None}
    for name, kept in files.items():
        header = {} if kept is None else {"header": ",".join(kept), "comments": ""}
        np.savetxt(f"{name}.csv", data[:, : len(kept or columns)], delimiter=",", **header)
    assert main(["dictionary", "fit", "same.csv", "-o", "m.npz", "--components", "4", "--max-iter", "1"]) == 0
    assert list(L0DictionaryLearning.load("m.npz").feature_names_in_) == columns
    done = {name: main(["dictionary", "transform", "m.npz", f"{name}.csv", "-o", f"{name}.npz"]) for name in files}
    assert done == {"same": 0, "swapped": 2, "fewer": 2, "bare": 0}
    told = capsys.readouterr().err
    assert "swapped.csv cannot be used: column 1 is 'c15', but the model was fitted with 'c0' there" in told
    assert "fewer.csv cannot be used: it has 15 columns, but the model was fitted to 16" in told


def test_quotes_around_cells_are_no_part_of_them(tmp_path):
    (tmp_path / "x.csv").write_text('"a, b","c"\n"1.5","2"\n3,"4"\n')
    assert read_table(tmp_path / "x.csv").tolist() == [[1.5, 2], [3, 4]]
    (tmp_path / "x.csv").write_text('a,b\n1,2\n"1,000",2\n')
    with pytest.raises(ValueError, match="column 1 of line 3 must be a number, but is '1,000'"):
        read_table(tmp_path / "x.csv")


@pytest.mark.parametrize(("kinds", "precision"), [("ff", "f"), ("fd", "d"), ("?b", "d")])
def test_columns_of_a_parquet_file_keep_their_precision(tmp_path, monkeypatch, kinds, precision):
    """By a table with the methods of pyarrow's that are used: the package need not be installed."""
    columns = {str(i): np.arange(3).astype(kind) for i, kind in enumerate(kinds)}
    table = SimpleNamespace(
        schema=SimpleNamespace(pandas_metadata=None),
        column_names=list(columns),
        column=lambda name: SimpleNamespace(to_numpy=lambda: columns[name]),
    )
    parquet = SimpleNamespace(read_table=lambda path: table)
    monkeypatch.setitem(sys.modules, "pyarrow", SimpleNamespace(parquet=parquet))
    assert read_table(tmp_path / "x.parquet").dtype == precision


def test_text_in_another_encoding_is_told(tmp_path):
    for encoding in ("utf-16", "latin-1"):
        (tmp_path / "x.csv").write_text("température,b\n1,2\n", encoding=encoding)
        with pytest.raises(ValueError, match=r"x\.csv is not text in UTF-8"):
            read_table(tmp_path / "x.csv")


@pytest.mark.filterwarnings("default")
def test_what_a_fit_warns_of_is_one_line_on_the_command_line(tmp_path, data, capsys):
    fit = ["dictionary", "fit", str(tmp_path / "X.npy"), "-o", str(tmp_path / "m.npz"), "--penalty", "1e9"]
    assert main(fit) == 0
    told = [line for line in capsys.readouterr().err.splitlines() if "too large" in line]
    assert len(told) == 1
    assert told[0].startswith("penalty_=1e+09 is too large: all codes are zero")


def test_a_file_that_is_no_npz_file_is_named_as_such(tmp_path, data):
    path = tmp_path / "x.npz"
    np.savez(path, X=data)
    for content in (b"abcdef", b"", path.read_bytes()[:-30], (tmp_path / "X.npy").read_bytes()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"x\.npz is not a whole \.npz file"):
            read_table(path)
    np.savez(path, X=np.array([[1, None]], dtype=object))
    with pytest.raises(ValueError, match=r"x\.npz holds Python objects"):
        read_table(path)


def test_every_kind_of_file_gives_the_same_matrix(tmp_path, data):
    for kind in ("coo", "csc", "dia", "bsr"):
        save_npz(tmp_path / f"{kind}.npz", csr_array(data[:50]).asformat(kind))
        np.testing.assert_array_equal(read_table(tmp_path / f"{kind}.npz").toarray(), data[:50])
    np.savez(tmp_path / "one.npz", X=data)
    save_npz(tmp_path / "sparse.npz", csr_array(data))
    np.savetxt(tmp_path / "bare.csv", data, delimiter=",")
    np.savetxt(tmp_path / "named.csv", data, delimiter=",", header=",".join("abcdefghijklmnop"), comments="")
    for name in ("X.npy", "one.npz", "sparse.npz", "bare.csv", "named.csv"):
        X = read_table(tmp_path / name)
        np.testing.assert_allclose(X.toarray() if name == "sparse.npz" else X, data, rtol=1e-12)


def test_the_picture_shows_every_atom():
    D = np.zeros((5, 9))
    D[np.arange(5), np.arange(5)] = 1
    picture = atoms_picture(D)
    assert np.count_nonzero(picture == 255) == 5
    with pytest.raises(ValueError, match="square"):
        atoms_picture(np.ones((2, 8)))


def test_importing_the_command_line_loads_neither_numba_nor_scikit_learn():
    code = "import sys, tecu.cli.dictionary; assert not {'numba', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_data_sets_are_what_their_names_say():
    for name in "UPS":
        data = table_data(name, 64)
        assert data.Y.shape == (64, 4000)
        np.testing.assert_allclose(np.linalg.norm(data.D0, axis=0), 1)
    X, components, codes = make_sparse_data(1000, 12, 20, 4, snr_db=20, random_state=0)
    noise = np.sum((X - codes @ components) ** 2)
    np.testing.assert_allclose(10 * np.log10(np.sum((codes @ components) ** 2) / noise), 20)
    assert np.all(np.diff(codes.indptr) == 4)


def test_verdicts_name_the_condition():
    palm = Run("U", 64, "palm/svd", 20, 20, 4.0, 0.2, 1.0, 0.9, 0.1, True, {})
    rows = [
        palm,
        dataclasses.replace(palm, method="palm/power", seconds=1.0, step_seconds=0.05),
        dataclasses.replace(palm, method="tecu", iterations=12, propagations=50, seconds=2.0, step_seconds=0.04),
        dataclasses.replace(palm, data="P"),
        dataclasses.replace(palm, data="P", method="tecu", iterations=25, seconds=5.0, step_seconds=0.3),
    ]
    judged = {claim.text: claim.verdict for claim in claims(rows)}
    assert judged["TECU needs fewer iterations than PALM, INV, BCU and iPALM"] == "reproduced only if n=64 data U"
    assert judged["TECU takes less time than PALM, whose constants are computed by power"] == "not reproduced"
    assert judged["TECU takes less time than PALM, whose constants are computed by gram"] == "not tested"
    assert "**reproduced only if" in verdicts(claims(rows))
