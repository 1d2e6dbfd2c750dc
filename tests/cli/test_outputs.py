"""What commands write: never an input, an existing file only with --overwrite, and refused before any work is done."""

import errno
import os
import shutil
import stat
import sys
import zipfile

import numpy as np
import pytest
from PIL import Image
from skimage import data

from tecu.cli import main as cli
from tecu.cli.main import main
from tecu.cli.outputs import unread
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.lowlight.files import read_photo

DARK = (data.astronaut()[60:160, 150:250] // 5).astype(np.uint8)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    X = make_sparse_data(60, 9, 12, 2, random_state=0)[0]
    np.save(folder / "X.npy", X)
    np.savez(folder / "X.npz", X=X)
    L0DictionaryLearning(12, max_iter=1, random_state=0).fit(X).save(folder / "model.npz")
    (folder / "photos").mkdir()
    for path in ("a.png", "b.png", "photos/one.png", "photos/figure3-x.jpg"):
        Image.fromarray(DARK).save(folder / path)
    (folder / "photos" / "index.html").write_text("mine")
    return folder


@pytest.fixture
def folder(prepared, tmp_path, monkeypatch):
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def no_work(*_, **__):
    pytest.fail("work was begun before the outputs were looked at")


@pytest.fixture
def idle(monkeypatch):
    """Nothing that takes time may be called."""
    for name in ("tecu.dictionary.L0DictionaryLearning.fit", "tecu.dictionary.tables.read_table",
                 "tecu.cli.compare.read_photo", "tecu.cli.enhance.run"):  # fmt: skip
        monkeypatch.setattr(name, no_work)


# Each writes to OUT; the inputs are named after it.
COMMANDS = {
    "fit": (["dictionary", "fit", "X.npy", "-o", "OUT"], ["X.npy"]),
    "fit picture": (["dictionary", "fit", "X.npy", "-o", "new.npz", "--picture", "OUT"], ["X.npy"]),
    "fit report": (["dictionary", "fit", "X.npy", "-o", "new.npz", "--report", "OUT"], ["X.npy"]),
    "fit checkpoint": (["dictionary", "fit", "X.npz", "-o", "new.npz", "--checkpoint", "OUT"], ["X.npz"]),
    "transform": (["dictionary", "transform", "model.npz", "X.npy", "-o", "OUT"], ["model.npz", "X.npy"]),
    "compare": (["compare", "a.png", "b.png", "--reference", "photos/one.png", "-o", "OUT"],
                ["a.png", "b.png", "photos/one.png"]),
    "compare folder": (["compare", "a.png", "b.png", "--reference", "photos", "-o", "OUT"], ["photos/one.png"]),
    "enhance report": (["enhance", "a.png", "photos", "-o", "out", "--report", "OUT"], ["a.png", "photos/one.png"]),
    "train": (["train", "photos", "-o", "OUT"], ["photos/one.png"]),
    "train checkpoint": (["train", "photos", "-o", "new.onnx", "--checkpoint", "OUT"], ["photos/one.png"]),
}  # fmt: skip
CASES = [(arguments, source) for arguments, sources in COMMANDS.values() for source in sources]


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]], ids=["plain", "overwrite"])
@pytest.mark.parametrize("alias", ["same", "spelled", "symlink", "hardlink"])
@pytest.mark.parametrize(
    ("arguments", "source"), CASES, ids=lambda value: value if isinstance(value, str) else value[0]
)
def test_an_input_is_never_written_over(folder, idle, capsys, arguments, source, alias, overwrite):
    suffix = os.path.splitext(source)[1]
    out = {"same": source, "spelled": f"photos/../{source}"}.get(alias, f"{alias}{suffix}")
    if alias == "symlink":
        os.symlink(source, out)
    elif alias == "hardlink":
        os.link(source, out)
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    arguments = [out if part == "OUT" else part for part in arguments]
    assert main([*arguments, *overwrite]) == cli.UNWRITABLE
    complaint = capsys.readouterr().err
    assert "is an input, which is never written over" in complaint
    assert len(complaint.strip().splitlines()) == 1
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("name", [name for name in COMMANDS if "checkpoint" not in name])
def test_a_file_that_exists_is_kept_and_overwrite_named(folder, idle, capsys, name):
    (folder / "there.npz").write_text("mine")
    arguments = ["there.npz" if part == "OUT" else part for part in COMMANDS[name][0]]
    assert main(arguments) == cli.UNWRITABLE
    assert capsys.readouterr().err == "Error: there.npz exists already; --overwrite replaces it\n"
    assert (folder / "there.npz").read_text() == "mine"


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("nowhere/x.npz", "its folder does not exist"),
        ("a.png/x.npz", "a part of its path is not a folder"),
        ("x" * 300 + ".npz", "its name is too long"),
        pytest.param("/proc/x.npz", "no file can be made there",
                     marks=pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")),
    ],
    ids=["missing", "file", "long", "proc"],
)  # fmt: skip
def test_what_cannot_be_written_is_found_out_first(folder, idle, capsys, name, out, reason):
    arguments = [out if part == "OUT" else part for part in COMMANDS[name][0]]
    assert main(arguments) == cli.UNWRITABLE
    complaint = capsys.readouterr().err
    assert reason in complaint
    assert "Errno" not in complaint
    assert ".part" not in complaint


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_is_not_written_over(folder, idle, capsys, name):
    (folder / "taken.npz").mkdir()
    assert main(["taken.npz" if part == "OUT" else part for part in COMMANDS[name][0]]) != 0
    assert "taken.npz" in capsys.readouterr().err
    assert (folder / "taken.npz").is_dir()


def test_two_outputs_want_two_names(folder, idle, capsys):
    for arguments in (
        ["dictionary", "fit", "X.npy", "-o", "m.npz", "--report", "m.npz"],
        ["dictionary", "fit", "X.npy", "-o", "m.npz", "--checkpoint", "photos/../m.npz"],
        ["enhance", "a.png", "-o", "c.png", "--report", "c.png"],
    ):
        assert main(arguments) == cli.UNWRITABLE
        assert "both name" in capsys.readouterr().err


def test_overwrite_replaces_results(folder, capsys):
    old = (folder / "model.npz").read_bytes()
    fit = ["dictionary", "fit", "X.npy", "-o", "model.npz", "--components", "5", "--max-iter", "1"]
    assert main(fit) == cli.UNWRITABLE
    assert (folder / "model.npz").read_bytes() == old
    assert main([*fit, "--overwrite"]) == 0
    assert len(L0DictionaryLearning.load("model.npz").components_) == 5
    for suffix in ("npz", "npy", "csv"):
        codes = ["dictionary", "transform", "model.npz", "X.npy", "-o", f"codes.{suffix}"]
        assert main(codes) == 0
        assert main(codes) == cli.UNWRITABLE
        assert main([*codes, "--overwrite"]) == 0
    assert not [path for path in folder.iterdir() if path.suffix == ".part"]


def test_results_get_the_rights_of_ordinary_files(folder):
    mask = os.umask(0o027)
    try:
        assert main(["dictionary", "fit", "X.npy", "-o", "m.npz", "--max-iter", "1", "--picture", "m.png",
                     "--report", "m.html", "--checkpoint", "state.npz"]) == 0  # fmt: skip
        assert main(["dictionary", "transform", "m.npz", "X.npy", "-o", "codes.npz"]) == 0
    finally:
        os.umask(mask)
    for name in ("m.npz", "m.png", "m.html", "state.npz", "codes.npz"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o640, name


def test_bad_settings_are_refused_before_the_data_are_read(folder, monkeypatch, capsys):
    monkeypatch.setattr("tecu.dictionary.tables.read_table", no_work)
    for bad in (["--solver", "magic"], ["--penalty", "-1"], ["--penalty", "1", "--nonzero", "2"]):
        assert main(["dictionary", "fit", "X.npy", "-o", "m.npz", *bad]) == cli.BAD_ARGUMENTS
        captured = capsys.readouterr()
        assert captured.err.startswith(("Usage", "Error"))
        assert "samples" not in captured.err


def test_atoms_that_are_no_patches_are_refused_before_the_fit(folder, monkeypatch, capsys):
    monkeypatch.setattr("tecu.dictionary.L0DictionaryLearning.fit", no_work)
    np.save("odd.npy", np.ones((5, 8)))
    assert main(["dictionary", "fit", "odd.npy", "-o", "m.npz", "--picture", "m.png"]) == cli.BAD_ARGUMENTS
    assert "--picture: atoms with 8 entries" in capsys.readouterr().err


def test_inputs_that_cannot_be_read_are_named_in_words(folder, capsys):
    (folder / "text.npy").write_text("no array")
    (folder / "text.npz").write_text("no archive")
    for name in ("missing.npy", "text.npy", "text.npz", "photos"):
        assert main(["dictionary", "fit", name, "-o", "m.npz"]) in (cli.INPUT_FAILED, cli.BAD_ARGUMENTS)
        complaint = capsys.readouterr().err
        assert "Errno" not in complaint
        assert name in complaint
    with zipfile.ZipFile("bomb.npz", "w") as archive:
        text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (90000000, 90000000), }\n"
        archive.writestr("X.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text)
    assert main(["dictionary", "fit", "bomb.npz", "-o", "m.npz"]) == cli.INPUT_FAILED
    assert capsys.readouterr().err.startswith("bomb.npz could not be read")
    assert main(["dictionary", "transform", "X.npy", "X.npy", "-o", "codes.npz"]) == cli.INPUT_FAILED
    assert capsys.readouterr().err.startswith("X.npy ")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "X.npy"),
            "could not be read: there is no such file",
        ),
        (PermissionError(errno.EACCES, "Permission denied", "X.npy"), "could not be read: permission denied"),
        (OSError("the tape is torn"), "could not be read: the tape is torn"),
        (ValueError("row 3 has 4 columns\nrow 4 has 5"), "could not be read: row 3 has 4 columns"),
        (ValueError("X.npy is not a matrix"), "is not a matrix"),  # the name is not said twice
        (EOFError(), "could not be read: EOFError"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_why_a_file_was_not_read_is_said_in_one_sentence_in_the_words_of_the_error(error, sentence):
    assert unread("X.npy", error) == f"X.npy {sentence}"


def test_the_reason_why_a_table_was_not_read_is_printed(folder, monkeypatch, capsys):
    def torn(path):
        raise ValueError("the tape is torn")

    monkeypatch.setattr("tecu.dictionary.tables.named_table", torn)
    assert main(["dictionary", "fit", "X.npy", "-o", "m.npz"]) == cli.INPUT_FAILED
    assert capsys.readouterr().err == "X.npy could not be read: the tape is torn\n"


# ---- photos ----


def test_the_parts_of_a_decomposition_spare_originals(folder, capsys):
    original = folder / "a-enhanced-illumination.png"
    Image.fromarray(DARK).save(original)
    before = original.read_bytes()
    arguments = ["enhance", "a.png", original.name, "--decompose", "--overwrite"]
    assert main(arguments) == cli.UNWRITABLE
    assert "is an input" in capsys.readouterr().err
    assert original.read_bytes() == before
    assert not (folder / "a-enhanced.png").exists()


def test_layers_of_the_same_name_cost_the_later_photo_only(folder, capsys):
    Image.fromarray(DARK).save("a.jpg")
    Image.fromarray(DARK).save("z.jpg")
    assert main(["enhance", "a.png", "a.jpg", "z.jpg", "-o", "out", "--decompose"]) == cli.UNWRITABLE
    complaint = capsys.readouterr().err
    assert f"a.jpg and a.png would both give {os.path.join('out', 'a-illumination.png')}" in complaint
    names = {f"{stem}{end}" for stem in "az" for end in ("-illumination.png", "-reflectance.png")}
    assert set(os.listdir("out")) == names | {"a.png", "z.jpg"}
    assert main(["enhance", "a.png", "a.jpg", "z.jpg", "-o", "plain"]) == 0  # without layers there is nothing to share


@pytest.mark.parametrize(
    ("out", "reason"),
    [
        ("b.png/c.png", "a part of its path is not a folder"),
        ("b.png/deeper/", "a part of its path is not a folder"),
        pytest.param("/proc/c.png", "no file can be made there",
                     marks=pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")),
        pytest.param("/proc/new/", "no file can be made there",
                     marks=pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")),
    ],
)  # fmt: skip
def test_photos_are_not_begun_where_nothing_can_be_written(folder, idle, capsys, out, reason):
    assert (
        main(["enhance", "a.png", "photos", "-o", out] if out.endswith("/") else ["enhance", "a.png", "-o", out]) == 5
    )
    complaint = capsys.readouterr().err
    assert reason in complaint
    assert len(complaint.splitlines()) == 1


def test_an_existing_photo_names_overwrite(folder, capsys):
    assert main(["enhance", "a.png", "-o", "b.png"]) == cli.UNWRITABLE
    assert "b.png exists already; --overwrite replaces it" in capsys.readouterr().err
    (folder / "c-reflectance.png").write_text("mine")
    assert main(["enhance", "a.png", "-o", "c.png", "--decompose"]) == cli.UNWRITABLE
    assert "c-reflectance.png exists already; --overwrite replaces it" in capsys.readouterr().err
    assert not (folder / "c.png").exists()


def test_a_page_that_appears_meanwhile_names_the_option(folder, monkeypatch, capsys):
    def appears(path, *_, **__):
        (folder / "page.html").write_text("mine")
        return read_photo(path)

    monkeypatch.setattr("tecu.cli.compare.read_photo", appears)
    assert main(["compare", "a.png", "b.png", "-o", "page.html"]) == cli.UNWRITABLE
    assert capsys.readouterr().err == "Error: page.html exists already; --overwrite replaces it\n"
    assert (folder / "page.html").read_text() == "mine"


# ---- reproduce ----


def test_reproduce_keeps_what_is_there(folder, monkeypatch, capsys):
    monkeypatch.setattr("tecu.reproduce.lowlight_output.figure3", no_work)
    run = ["reproduce", "figure3", "--images", "photos", "-o", "photos"]
    before = {path: path.read_bytes() for path in (folder / "photos").iterdir()}
    for arguments, words in ((run, "input"), ([*run, "--overwrite"], "input"),
                             (["reproduce", "figure3", "-o", "photos"], "--overwrite replaces it")):  # fmt: skip
        assert main(arguments) == cli.UNWRITABLE
        assert words in capsys.readouterr().err
    assert {path: path.read_bytes() for path in (folder / "photos").iterdir()} == before


def test_reproduce_names_a_photo_that_cannot_be_read(folder, capsys):
    (folder / "photos" / "a.png").write_bytes(b"no photo")
    assert main(["reproduce", "figure2", "--quick", "--images", "photos", "-o", "out"]) == cli.INPUT_FAILED
    assert "figure2: photos/a.png is not a photo" in capsys.readouterr().err


def test_reproduce_makes_its_own_index_anew(folder, monkeypatch):
    monkeypatch.setattr("tecu.reproduce.lowlight_output.figure2", lambda out, *_, **__: [_table(out, "figure2")])
    monkeypatch.setattr("tecu.reproduce.lowlight_output.figure3", lambda out, *_, **__: [_table(out, "figure3")])
    assert main(["reproduce", "figure2", "-o", "out"]) == 0
    assert main(["reproduce", "figure3", "-o", "out"]) == 0
    assert main(["reproduce", "figure3", "-o", "out"]) == cli.UNWRITABLE
    assert main(["reproduce", "figure3", "-o", "out", "--overwrite"]) == 0
    assert "figure2" in (folder / "out" / "index.html").read_text(encoding="utf-8")


def _table(folder, name):
    path = folder / f"{name}.md"
    path.write_text("# Found\n\nit\n")
    return path
