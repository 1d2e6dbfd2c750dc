"""``tecu enhance --report``: each photo before and after, what failed, what the certificate says."""

import json
import re
import weakref

import pytest
from PIL import Image

from pictures import DARK, PHOTO, save_photos
from tecu.cli.main import main
from tecu.lowlight import Enhancer
from tecu.lowlight.batch import run
from tecu.lowlight.files import read_photo
from tecu.lowlight.grid import LONGEST_SIDE


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_photos(tmp_path)
    return tmp_path


def test_enhance_report_shows_before_and_after_and_the_verdict(folder, capsys):
    arguments = ["enhance", "dark.png", "mirrored.png", "-o", "out", "--report", "page.html"]
    assert main(arguments) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count('<input type="range"') == 2
    reason = Enhancer().decompose(DARK).certificate.reason
    assert f"The certificate of its decomposition {reason}" in page
    assert main(arguments) == 5  # the page is there already


def test_the_certificate_on_the_page_is_found_without_layers_at_full_size(folder, monkeypatch):
    """Their time and memory grow with the photo; certificate and history come from the grid."""
    whole, grid = Enhancer().decompose(DARK), Enhancer().on_grid(DARK)
    assert grid.certificate.reason == whole.certificate.reason
    assert {name: list(grid.history[name]) for name in ("value", "lyapunov")} == {
        name: list(whole.history[name]) for name in ("value", "lyapunov")
    }
    assert max(grid.illumination.shape) == LONGEST_SIDE < max(DARK.shape)
    monkeypatch.delattr(Enhancer, "decompose")
    assert main(["enhance", "dark.png", "-o", "out.png", "--report", "page.html"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert f"The certificate of its decomposition {whole.certificate.reason}" in page
    assert "found on a grid of at most 112 pixels a side" in page


def test_of_two_large_files_one_is_held_at_a_time(folder, monkeypatch):
    held = []

    def watched(path, **options):
        assert not any(reference() is not None for reference in held)
        photo = read_photo(path, **options)
        held.append(weakref.ref(photo))
        return photo

    monkeypatch.setattr("tecu.cli.photo_page.read_photo", watched)
    assert main(["enhance", "dark.png", "mirrored.png", "-o", "out", "--report", "page.html"]) == 0
    assert len(held) == 4


def test_what_could_not_be_kept_stands_below_a_photo(folder):
    Image.fromarray(DARK).quantize(16).save("palette.tif", save_all=True, append_images=[Image.fromarray(DARK)])
    assert main(["enhance", "palette.tif", "-o", "out.tif", "--report", "page.html"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    notes = "only the first of the file&#x27;s 2 pictures was taken; the palette became full colour"
    assert f" Note: {notes}.</figcaption>" in page


def test_the_page_tells_what_failed_and_how_the_others_were_made(folder):
    (folder / "bad<.png").write_bytes(b"bad")
    inputs = ["dark.png", "bad<.png", "missing.png", "mirrored.png"]
    options = ["--headroom", "0.8", "--no-denoise", "--strength", "1.5"]
    assert main(["enhance", *inputs, "-o", "out", "--report", "page.html", *options]) == 2
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "<li>bad&lt;.png is not a photo of a kind that is read" in page
    assert "<li>missing.png could not be opened: there is no such file</li>" in page
    assert "Method tecu, strength 1.5, headroom 0.8, noise left as it is; 2 photos, 2 failed." in page
    assert main(["enhance", "dark.png", "-o", "out", "--report", "he.html", "--method", "he", "--overwrite"]) == 0
    page = (folder / "he.html").read_text(encoding="utf-8")
    assert "Method he, strength 1; 1 photo." in page  # which knows neither


def test_photos_stand_on_the_page_in_the_order_of_the_inputs(folder, monkeypatch, capsys):
    """Also where several processes end in another order."""
    monkeypatch.setattr("tecu.cli.enhance.run", lambda tasks, *given, **more: run(tasks[::-1], *given))
    inputs = ["mirrored.png", "good.png", "dark.png"]
    assert main(["enhance", *inputs, "-o", "out", "--report", "page.html", "--json"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert re.findall(r"<h2>([^<:]*)</h2>", page) == inputs
    assert [entry["input"] for entry in json.loads(capsys.readouterr().out)["results"]] == inputs


@pytest.mark.parametrize("streams", [["-", "-o", "-"], ["-", "-o", "out.png"], ["dark.png", "-o", "-"]], ids=" ".join)
def test_a_page_of_a_stream_is_refused(folder, streams, capsys):
    assert main(["enhance", *streams, "--report", "page.html"]) == 1
    assert "--report: the page shows files before and after; name files instead of '-'" in capsys.readouterr().err
    assert not (folder / "page.html").exists()


def test_every_slider_of_a_page_names_its_photo(folder):
    assert main(["enhance", "dark.png", "mirrored.png", "-o", "out", "--report", "page.html"]) == 0
    labels = re.findall(r'<input type="range"[^>]*aria-label="([^"]*)"', (folder / "page.html").read_text("utf-8"))
    assert [label.split(":")[0] for label in labels] == ["dark.png", "mirrored.png"]


def test_a_run_that_goes_on_makes_its_page_anew_with_what_it_skipped(folder, capsys):
    assert main(["enhance", "dark.png", "-o", "out/", "--report", "page.html"]) == 0
    (folder / "out" / "good.png").write_bytes(b"no photo")
    Image.fromarray(PHOTO[:9]).save("out/small.png")  # neither comes from the photo of its name
    first = (folder / "out" / "dark.png").read_bytes()
    inputs = ["dark.png", "mirrored.png", "good.png", "small.png"]
    assert main(["enhance", *inputs, "-o", "out", "--report", "page.html", "--skip-existing"]) == 0
    assert "1 done, 3 skipped" in capsys.readouterr().err
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count('<input type="range"') == 2
    assert page.count("its result was there already.") == 1
    assert "<li>out/good.png is not a photo" in page
    assert "<li>out/small.png does not have the 64 x 64 pixels of its photo</li>" in page
    assert page.count("The certificate of its decomposition") == 1  # of what this run has made
    assert (folder / "out" / "dark.png").read_bytes() == first


def test_a_run_that_goes_on_leaves_other_pages_alone(folder, capsys):
    (folder / "page.html").write_text("<title>mine</title>")
    (folder / "link.html").symlink_to("nowhere")
    sentences = {
        "page.html": "page.html exists already and is not a page of tecu enhance; give --report another name",
        "link.html": "link.html exists already and is not a page of tecu enhance; give --report another name",
        "dark.png": "dark.png is an input, which is never written over",
    }
    for name, sentence in sentences.items():
        assert main(["enhance", "dark.png", "-o", "out/", "--report", name, "--skip-existing"]) == 5
        assert sentence in capsys.readouterr().err
    assert (folder / "page.html").read_text() == "<title>mine</title>"
    assert not (folder / "out").exists()  # found out before the first photo


def test_enhance_report_of_a_method_without_a_decomposition(folder):
    assert main(["enhance", "dark.png", "-o", "out.png", "--method", "he", "--report", "page.html"]) == 0
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert page.count('<input type="range"') == 1
    assert "certificate" not in page


@pytest.mark.parametrize("page", ["out", "out/photos"])
def test_a_folder_that_the_results_will_make_is_no_page(folder, page, capsys):
    assert main(["enhance", "dark.png", "-o", "out/photos/", "--report", page]) == 5
    assert capsys.readouterr().err == f"Error: {page} could not be written: it is a folder\n"
    assert not (folder / "out").exists()


def test_enhance_report_that_cannot_be_written_gives_5(folder, capsys):
    assert main(["enhance", "dark.png", "-o", "out.png", "--report", "nowhere/page.html"]) == 5
    assert not (folder / "out.png").exists()  # found out before the first photo
