"""The low-light table: sets of photos, scores, verdicts, a row of one's own."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tecu.reproduce import figure3, photo_sets, table3


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pairs")
    rng = np.random.default_rng(0)
    for name in ("low", "ref"):
        (folder / name).mkdir()
    for place in range(2):
        y, x = np.mgrid[0:96, 0:192] / 192
        clean = 0.5 + 0.3 * np.sin(9 * x + 5 * y * (place + 1)) + rng.normal(0, 0.05, (96, 192))
        clean = np.rint(np.clip(np.stack([clean, 0.8 * clean, 0.6 * clean], axis=2), 0, 1) * 255).astype(np.uint8)
        Image.fromarray(clean).save(folder / "ref" / f"{place}.png")
        Image.fromarray(clean // 8).save(folder / "low" / f"{place}.png")
    (folder / "low" / "notes.txt").write_text("not a photo")
    return folder


@pytest.fixture(scope="module")
def result(pairs):
    return table3.run([pairs], ["input", "he", "numpy:sqrt", "tecu"])[0]


def test_pairs_are_found_by_name(pairs):
    photos = photo_sets.from_folder(pairs)
    assert [photo.name for photo in photos] == ["0", "1"]
    assert all(photo.reference.shape == photo.dark.shape for photo in photos)
    alone = photo_sets.from_folder(pairs / "low")
    assert len(alone) == 2
    assert all(photo.reference is None for photo in alone)


def test_a_wrong_folder_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(ValueError, match="is not a folder"):
        photo_sets.from_folder(tmp_path / "nothing")
    with pytest.raises(ValueError, match="holds no photos"):
        photo_sets.from_folder(tmp_path)


def test_the_built_in_photos_are_darkened_by_at_least_a_stop():
    for photo in (photo for photos in photo_sets.inside_packages() for photo in photos):
        assert photo.dark.mean() < 0.5 * photo.reference.mean()
        assert max(photo.dark.shape) <= photo_sets.LONGEST_SIDE


def test_the_unseen_photos_were_not_trained_on():
    from tecu.lowlight.network import Network

    trained = {Path(entry[0]).stem for entry in Network().card["photos"]}
    assert {photo.name for photo in photo_sets.built_in()} <= trained
    assert not {photo.name for photo in photo_sets.unseen()} & trained


def test_the_input_row_is_the_input(result, pairs):
    for score, photo in zip(result.scores["input"], photo_sets.from_folder(pairs), strict=True):
        error = np.mean((photo.dark.astype(float) - photo.reference) ** 2)
        assert score.psnr == pytest.approx(10 * math.log10(255**2 / error))
        assert score.loe == 0.0
        assert score.newly_saturated == 0.0
        assert score.niqe > 0


def test_a_row_of_ones_own(result, pairs):
    photo = next(iter(photo_sets.from_folder(pairs)))
    wanted = np.rint(np.sqrt(photo.dark / 255.0) * 255).astype(np.uint8)
    assert np.array_equal(result.sheet[0][1]["numpy:sqrt"], wanted)
    with pytest.raises(ValueError, match="must give floats in"):
        table3.enhancer("numpy:ravel")(photo.dark)


def test_newly_saturated_pixels_are_counted():
    dark = np.zeros((20, 20, 3), np.uint8)
    dark[:5] = 255
    score, _ = table3.measure(lambda image: np.full_like(image, 255), photo_sets.DarkPhoto("x", dark))
    assert score.newly_saturated == pytest.approx(75.0)
    assert math.isnan(score.psnr)
    assert math.isnan(score.niqe)


def scores(niqe, psnr, seconds):
    return [table3.Scores(niqe, psnr, 0.5, 0.0, seconds, 0.0)]


def test_verdicts_follow_from_the_figures():
    fake = table3.SetResult("fake", {"input": scores(1, 9, 0), "srie": scores(4, 12, 2), "tecu": scores(3, 11, 1)})
    verdicts = {claim.text: claim for claim in table3.claims(fake)}
    assert verdicts["TECU has the lowest NIQE of the table"].holds  # the input does not compete
    lost = verdicts["TECU has the highest PSNR of the table"]
    assert lost.verdict == "does not hold"
    assert lost.found == "srie 12.00; tecu is number 2 with 11.00"
    assert verdicts["TECU is faster than SRIE, WVM, JIEP and HDRNet"].found == "tecu 1.00, then srie 2.00"
    unknown = table3.SetResult("fake", {"tecu": scores(3, math.nan, 1)})
    assert {claim.verdict for claim in table3.claims(unknown)} == {"not tested"}


def test_the_table_has_a_row_a_method_and_the_papers_numbers_beside(result):
    text = table3.markdown([result])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert len(rows) == 5
    assert "3.68 / 4.28" in next(row for row in rows if row.startswith("| he "))
    assert "untouched input" in text
    assert "**holds**" in text or "**does not hold**" in text
    stored = json.loads(table3.as_json([result]))
    assert set(stored[0]["scores"]) == {"input", "he", "numpy:sqrt", "tecu"}


def test_the_contact_sheet_shows_every_method_and_the_reference(result, tmp_path):
    path = figure3.save(result, tmp_path)
    with Image.open(path) as sheet:
        assert sheet.width == figure3.GAP + 5 * (figure3.WIDTH + figure3.GAP)
        assert sheet.height > 2 * figure3.WIDTH * 96 / 192
    with pytest.raises(ValueError, match="no photos"):
        figure3.contact_sheet(table3.SetResult("empty"))


def test_the_command_writes_the_table_and_the_sheets(pairs, tmp_path, monkeypatch, capsys):
    from tecu.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tecu.reproduce.lowlight_output.METHODS", ("input", "he", "tecu"))
    (tmp_path / "rows_of_mine.py").write_text("def halved(image):\n    return image / 2\n")
    arguments = ["--images", str(pairs), str(pairs / "low"), "--method", "rows_of_mine:halved", "--quick", "-o", "out"]
    assert main(["reproduce", "table3", "figure3", *arguments]) == 0
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {"index.html", "table3.md", "table3.json", f"figure3-{pairs.name}.jpg", "figure3-low.jpg"}
    assert "| rows_of_mine:halved |" in (tmp_path / "out" / "table3.md").read_text()
    capsys.readouterr()
    assert main(["reproduce", "table3", "--images", str(tmp_path / "nothing"), "-o", "other"]) == 1
    assert "is not a folder" in capsys.readouterr().err
    assert main(["reproduce", "tabel3", "--images", str(pairs), "-o", "other"]) == 1
    assert "no target or folder 'tabel3'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("method", "told"),
    [
        ("numpy:pi", "must name a function that takes and gives a picture; it is a float"),
        ("numpy:random", "must name a function that takes and gives a picture; it is a module"),
        ("numpy:dot", "failed on a picture of shape (16, 16, 3): TypeError: dot() missing 1 required"),
        ("os.path:join", "failed on a picture of shape (16, 16, 3): TypeError: "),
        ("sys:exit", "failed on a picture of shape (16, 16, 3): it ends the program"),
        ("numpy:max", "must give floats in [0, 1] of shape (16, 16, 3)"),
    ],
)
def test_a_row_that_is_no_method_is_refused_in_a_sentence(pairs, tmp_path, monkeypatch, capsys, method, told):
    from tecu.cli.main import main

    monkeypatch.setattr("tecu.reproduce.lowlight_output.METHODS", ("input",))
    given = ["--images", str(pairs), "--method", method, "--quick", "-o", str(tmp_path / "out")]
    assert main(["reproduce", "table3", *given]) == 1
    assert f"Error: method {method!r} {told}" in capsys.readouterr().err


def test_memory_that_ran_out_in_a_row_of_ones_own_is_no_fault_of_its_name(monkeypatch):
    def greedy(picture):
        raise MemoryError

    monkeypatch.setattr(np, "greedy", greedy, raising=False)
    with pytest.raises(MemoryError):
        table3.enhancer("numpy:greedy")(np.zeros((4, 4, 3), np.uint8))
