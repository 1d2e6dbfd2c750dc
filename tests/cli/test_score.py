"""``tecu score``: the figures of the metrics, with what they were made with."""

import errno
import json

import numpy as np
import pytest
from PIL import Image
from skimage import data

from tecu.cli.main import main
from tecu.lowlight import plan
from tecu.metrics import loe, niqe, psnr, ssim

PHOTO = data.astronaut()[:200, 100:300]
DARK = (PHOTO // 4).astype(np.uint8)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "ref").mkdir()
    Image.fromarray(PHOTO).save(tmp_path / "ref" / "a.png")
    Image.fromarray(PHOTO[::-1]).save(tmp_path / "ref" / "b.png")
    Image.fromarray(DARK).save(tmp_path / "a.png")
    Image.fromarray(DARK[::-1]).save(tmp_path / "b.tif")
    return tmp_path


def scored(capsys, *arguments, code=0):
    assert main(["score", *map(str, arguments), "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_alone_only_niqe(folder, capsys):
    report = scored(capsys, folder / "a.png")
    assert report["results"] == [{"image": str(folder / "a.png"), "niqe": pytest.approx(niqe(DARK))}]
    assert set(report["parameters"]) == {"niqe"}
    assert "basicsr" in report["parameters"]["niqe"]


@pytest.mark.parametrize("command", ["score", "compare"])
def test_a_folder_of_references_that_cannot_be_read_is_named(folder, command, monkeypatch, capsys):
    def locked(place):
        raise PermissionError(errno.EACCES, "Permission denied", place)

    monkeypatch.setattr(plan.os, "listdir", locked)
    arguments = [str(folder / "b.tif"), "--reference", str(folder / "ref")]
    more = [] if command == "score" else ["--method", "tecu", "-o", str(folder / "page.html")]
    assert main([command, *arguments, *more]) == 2
    assert f"{folder / 'ref'} could not be read: permission denied" in capsys.readouterr().err


def test_against_a_reference(folder, capsys):
    report = scored(capsys, folder / "a.png", "--reference", folder / "ref" / "a.png")
    entry = report["results"][0]
    assert entry["psnr"] == pytest.approx(psnr(DARK, PHOTO))
    assert entry["ssim"] == pytest.approx(ssim(DARK, PHOTO))
    assert entry["loe"] == pytest.approx(loe(DARK, PHOTO))
    assert report["references"] == [{"image": str(folder / "ref" / "a.png"), "niqe": pytest.approx(niqe(PHOTO))}]
    assert set(report["parameters"]) == {"niqe", "psnr", "ssim", "loe"}


def test_a_folder_of_references_is_matched_by_name(folder, capsys):
    report = scored(capsys, folder / "a.png", folder / "b.tif", "--reference", folder / "ref")
    assert [entry["psnr"] for entry in report["results"]] == pytest.approx([psnr(DARK, PHOTO)] * 2)


def test_a_folder_stands_for_the_photos_in_it(folder, capsys):
    (folder / "._a.png").write_bytes(b"a Mac's note")
    (folder / "notes.txt").write_text("no photo")
    (folder / "ref" / "b.txt").write_text("no photo, but of that name")
    named = scored(capsys, folder / "a.png", folder / "b.tif", "--reference", folder / "ref")
    assert scored(capsys, folder, "--reference", folder / "ref") == named
    (folder / "empty").mkdir()
    failures = scored(capsys, folder / "empty", folder / "a.png", code=2)["failures"]
    assert [failure["reason"] for failure in failures] == [f"{folder / 'empty'} holds no photos"]


@pytest.mark.parametrize("size", [(3, 5), (300, 200)])
def test_a_missing_niqe_is_explained(folder, capsys, size):
    Image.new("RGB", size).save(folder / "black.png")
    assert main(["score", str(folder / "black.png")]) == 0
    assert "too small or too flat has no NIQE" in capsys.readouterr().out
    assert main(["score", str(folder / "a.png")]) == 0
    assert "too small" not in capsys.readouterr().out


def test_the_table_says_the_parameters(folder, capsys):
    assert main(["score", str(folder / "a.png"), str(folder / "b.tif"), "--reference", str(folder / "ref")]) == 0
    text = capsys.readouterr().out
    assert f"{psnr(DARK, PHOTO):.2f}" in text
    assert "mean " in text
    assert "(reference)" in text
    for words in ("125 pristine photos", "plain", "7 x 7", "shorter side of 50"):
        assert words in text


def test_depths_and_colours_are_brought_together(folder, tmp_path, capsys):
    from tecu.lowlight.files import Photo, write_photo

    write_photo(Photo(PHOTO.astype(np.uint16) * 257, np.full(PHOTO.shape[:2], 65535, np.uint16)), tmp_path / "deep.png")
    report = scored(capsys, tmp_path / "deep.png", "--reference", folder / "ref" / "a.png")
    assert report["results"][0]["psnr"] is None  # equal: infinite, which JSON does not know
    assert report["results"][0]["ssim"] == pytest.approx(1)
    Image.fromarray(PHOTO).convert("L").save(tmp_path / "grey.png")
    report = scored(capsys, tmp_path / "grey.png", "--reference", folder / "ref" / "a.png")
    grey = np.repeat(np.asarray(Image.fromarray(PHOTO).convert("L"))[..., None], 3, axis=2)
    assert report["results"][0]["psnr"] == pytest.approx(psnr(grey, PHOTO))


def test_small_pictures_have_no_niqe(tmp_path, capsys):
    Image.fromarray(PHOTO[:50, :50]).save(tmp_path / "s.png")
    assert scored(capsys, tmp_path / "s.png")["results"][0]["niqe"] is None
    assert main(["score", str(tmp_path / "s.png")]) == 0
    assert capsys.readouterr().out.splitlines()[1].endswith("-")


def test_failures_are_named_and_the_rest_is_done(folder, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"bad")
    Image.fromarray(PHOTO[:150]).save(tmp_path / "cut.png")
    report = scored(
        capsys,
        tmp_path / "bad.png",
        tmp_path / "cut.png",
        folder / "a.png",
        "--reference",
        folder / "ref/a.png",
        code=2,
    )
    assert len(report["results"]) == 1
    assert ["not a photo" in entry["reason"] for entry in report["failures"]] == [True, False]
    assert "differ in shape" in report["failures"][1]["reason"]
    assert main(["score", str(folder / "a.png"), "--reference", str(tmp_path / "no")]) == 1
    assert main(["score", str(tmp_path / "cut.png"), "--reference", str(folder / "ref")]) == 2
    assert "holds no photo of that name" in capsys.readouterr().err
