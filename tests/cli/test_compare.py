"""``tecu compare``, ``tecu dictionary fit --report``: pages, figures on them, exit codes."""

import base64
import re
import sys

import numpy as np
import pytest
from PIL import Image, ImageCms

import tecu
from pictures import DARK, PHOTO, save_photos
from tecu import couplings, terms
from tecu.cli.main import main
from tecu.dictionary import L0DictionaryLearning, make_sparse_data
from tecu.lowlight import Enhancer
from tecu.lowlight.files import read_photo
from tecu.metrics import psnr


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_photos(tmp_path)
    return tmp_path


def run_states(path, sweeps=3):
    problem = tecu.Problem(couplings.MatrixFactorization(np.eye(3)), {"W": terms.L1(0.1), "D": terms.UnitColumns()})
    states = tecu.Solver(problem, tecu.ProxLinear()).iterate({"W": np.ones((3, 2)), "D": np.eye(3)[:, :2]})
    state = [next(states) for _ in range(sweeps)][-1]
    tecu.save_state(path, state)
    return state


def test_photos_against_the_first(folder, capsys):
    assert main(["compare", "good.png", "dark.png", "mirrored.png", "-o", "page.html"]) == 0
    assert capsys.readouterr().out == "page.html\n"
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count('<input type="range"') == 2
    assert "good.png and mirrored.png" in page
    assert "PSNR" not in page


def test_scores_against_a_reference(folder):
    assert main(["compare", "dark.png", "mirrored.png", "-o", "page.html", "--reference", "good.png"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert f">{psnr(DARK, PHOTO):.2f}<" in page
    assert f">{psnr(DARK[:, ::-1], PHOTO):.2f}<" in page


def test_methods_on_a_photo(folder):
    arguments = ["compare", "dark.png", "--method", "tecu", "--method", "he", "--reference", "good.png"]
    assert main([*arguments, "-o", "page.html"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count('<input type="range"') == 2
    for method in ("tecu", "he"):
        assert f">{psnr(Enhancer(method)(DARK), PHOTO):.2f}<" in page


def test_saved_runs(folder):
    first, second = run_states("one.npz", 3), run_states("two.npz", 5)
    assert main(["compare", "one.npz", "two.npz", "-o", "page.html"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    for state, name in ((first, "one"), (second, "two")):
        assert re.search(rf"<td>{name}</td><td[^>]*>{state.value:.6g}</td><td[^>]*>{state.t}</td>", page)
    assert "0 of 10 visits break the descent" in page


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["good.png"], "at least two files"),
        (["good.png", "dark.png", "--method", "nonsense"], "method must be one of"),
        (["good.png", "run.npz"], "only .npz files"),
        (["good.png", "dark.png", "--reference", "missing.png"], "there is no missing.png"),
    ],
)
def test_bad_arguments_give_1(folder, arguments, sentence, capsys):
    assert main(["compare", *arguments, "-o", "page.html"]) == 1
    assert sentence in capsys.readouterr().err
    assert not (folder / "page.html").exists()


def test_a_page_is_replaced_only_if_asked(folder, capsys):
    (folder / "page.html").write_text("mine")
    assert main(["compare", "good.png", "dark.png", "-o", "page.html"]) == 5
    assert (folder / "page.html").read_text() == "mine"
    assert main(["compare", "good.png", "dark.png", "-o", "page.html", "--overwrite"]) == 0


def test_what_cannot_be_compared_is_named_and_the_rest_is_done(folder, capsys):
    (folder / "broken.png").write_bytes(b"no photo")
    assert main(["compare", "good.png", "small.png", "broken.png", "dark.png", "-o", "page.html"]) == 2
    errors = capsys.readouterr().err
    assert "small.png has 64 x 64 pixels, good.png has 160 x 128" in errors
    assert "broken.png" in errors
    assert (folder / "page.html").read_text(encoding="utf-8").count('<input type="range"') == 1
    assert main(["compare", "broken.png", "missing.npz.png", "-o", "none.html"]) == 2
    assert not (folder / "none.html").exists()


def test_a_reference_of_another_size_is_named(folder, capsys):
    assert main(["compare", "good.png", "dark.png", "--reference", "small.png", "-o", "page.html"]) == 2
    assert "small.png has 64 x 64 pixels" in capsys.readouterr().err


def test_a_broken_run_is_named(folder, capsys):
    run_states("one.npz")
    (folder / "two.npz").write_bytes(b"nothing")
    assert main(["compare", "one.npz", "two.npz", "three.npz", "-o", "page.html"]) == 2
    two, three = capsys.readouterr().err.splitlines()
    assert two.startswith("failed: two.npz is damaged or not an .npz file")
    assert three == "failed: three.npz could not be read: there is no such file"


def test_a_page_that_cannot_be_written_gives_5(folder, capsys):
    assert main(["compare", "good.png", "dark.png", "-o", "nowhere/page.html"]) == 5
    assert "nowhere/page.html could not be written" in capsys.readouterr().err


def test_a_missing_part_gives_3(folder, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert main(["compare", "good.png", "dark.png", "-o", "page.html"]) == 3
    assert "pip install 'tecu[report]'" in capsys.readouterr().err
    assert main(["enhance", "dark.png", "-o", "out.png", "--report", "page.html"]) == 3
    assert "pip install 'tecu[report]'" in capsys.readouterr().err
    assert not (folder / "out.png").exists()
    assert main(["dictionary", "fit", "X.npy", "-o", "model.npz", "--report", "page.html"]) == 3
    assert "pip install 'tecu[report]'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["enhance", "p3.jpg", "-o", "out.jpg", "--report"],
        ["compare", "p3.jpg", "p3.jpg", "-o"],
        ["compare", "p3.jpg", "--method", "he", "-o"],
    ],
    ids=["enhance", "photos", "methods"],
)
def test_pages_show_photos_in_their_own_colours(folder, arguments):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    Image.fromarray(DARK).save("p3.jpg", icc_profile=profile)
    assert main([*arguments, "page.html"]) == 0
    shown = re.findall(r"data:image/(?:png|jpeg);base64,([^\"]+)", (folder / "page.html").read_text(encoding="utf-8"))
    assert [read_photo(base64.b64decode(picture)).metadata.icc for picture in shown] == [profile] * 2


# ---- tecu dictionary fit --report ----


def test_dictionary_report_shows_atoms_and_the_verdict(folder):
    np.save("X.npy", make_sparse_data(200, 9, 12, 2, snr_db=30, random_state=0)[0])
    assert main(["dictionary", "fit", "X.npy", "-o", "model.npz", "--components", "12", "--report", "page.html"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    model = L0DictionaryLearning.load("model.npz")
    assert "12 atoms of 9 entries each" in page
    assert f"penalty {model.penalty_:.6g}" in page
    assert "The convergence theorem" in page


def test_what_cannot_be_measured_or_enhanced_ends_with_a_sentence(folder, capsys):
    for name in ("tiny.png", "tiny2.png"):
        Image.fromarray(PHOTO[:5, :5]).save(name)
    assert main(["compare", "tiny.png", "tiny2.png", "--reference", "tiny2.png", "-o", "page.html"]) == 2
    assert "cannot be measured" in capsys.readouterr().err
    assert main(["compare", "dark.png", "--method", "os:getcwd", "-o", "page.html"]) == 2
    assert "dark.png could not be enhanced: TypeError" in capsys.readouterr().err


def test_a_part_that_a_method_of_ones_own_misses_gives_3(folder, capsys):
    (folder / "lazy_method.py").write_text("def enhance(picture):\n    import no_such_module\n")
    assert main(["enhance", "dark.png", "-o", "out.png", "--method", "lazy_method:enhance"]) == 3
    assert main(["compare", "dark.png", "--method", "lazy_method:enhance", "-o", "page.html"]) == 3
    assert capsys.readouterr().err.count("failed: dark.png: No module named 'no_such_module'") == 2


def test_a_page_may_lie_in_a_folder_that_the_run_makes(folder, capsys):
    (folder / "tree" / "below").mkdir(parents=True)
    (folder / "dark.png").rename(folder / "tree" / "below" / "dark.png")
    for out, page in (("made", "made/below/page.html"), ("made2", "made2/page.html"), ("a/b", "a/page.html")):
        assert main(["enhance", "tree", "-r", "-o", out, "--report", page]) == 0
        assert (folder / page).stat().st_size > 0
    assert main(["enhance", "tree", "-r", "-o", "made3", "--report", "made4/page.html"]) == 5
    assert "its folder does not exist" in capsys.readouterr().err
    assert not (folder / "made3").exists()


def test_a_run_without_a_result_writes_its_page_all_the_same(folder):
    (folder / "bad.png").write_bytes(b"bad")
    assert main(["enhance", "bad.png", "-o", "made/", "--report", "made/page.html"]) == 2
    assert "bad.png is not a photo" in (folder / "made" / "page.html").read_text(encoding="utf-8")
