"""``tecu enhance`` with a stand-in for the enhancer: files, folders, streams, reports, exit codes, interrupts."""

import contextlib
import io
import json
import os
import re
import signal
import subprocess
import sys
import types

import numpy as np
import pytest
from PIL import Image
from skimage import data

import tecu.lowlight
from stand_ins import hear_interrupts
from tecu.cli.main import main
from tecu.lowlight import batch, model
from tecu.lowlight.classical import METHODS
from tecu.lowlight.enhancer import LEAST_HEADROOM, MOST_HEADROOM, STRONGEST
from tecu.lowlight.files import read_photo

PHOTO = data.astronaut()[60:124, 150:230]


class Negative:
    """255 - x, and a memory of how it was made."""

    made = None

    def __init__(self, method="tecu", *, strength=1.0, denoise=True, model=None, headroom=0.97):
        if method not in ("tecu", "paper"):
            raise ValueError(f"method must be 'tecu' or 'paper', got {method!r}")
        if model == "torch.onnx":
            raise ImportError("install tecu[train] to use this network")
        Negative.made = (method, strength, denoise, model, headroom)

    def __call__(self, pixels):
        return np.iinfo(pixels.dtype).max - pixels

    def decompose(self, pixels):
        light = pixels.max(axis=-1) / 255
        return types.SimpleNamespace(illumination=light, reflectance=np.ones_like(pixels, float), certificate=None)

    def on_grid(self, pixels):
        dark = np.full((8, 8), 0.25)
        return model.decompose(dark, dark)


@pytest.fixture(autouse=True)
def _stand_in(monkeypatch):
    monkeypatch.setattr(tecu.lowlight, "Enhancer", Negative, raising=False)
    batch._kept.cache_clear()
    yield
    batch._kept.cache_clear()


@pytest.fixture
def photo(tmp_path):
    Image.fromarray(PHOTO).save(tmp_path / "a.png")
    return tmp_path / "a.png"


def png(pixels=PHOTO):
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, "PNG")
    return out.getvalue()


def test_one_photo(photo, tmp_path, capsys):
    assert main(["enhance", str(photo), "-o", str(tmp_path / "b.png")]) == 0
    assert np.array_equal(read_photo(tmp_path / "b.png").pixels, 255 - PHOTO)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("1 done in ")
    assert Negative.made == ("tecu", 1.0, True, None, 0.97)


def test_settings_reach_the_enhancer(photo, tmp_path):
    options = ["--strength", "0.5", "--no-denoise", "--method", "paper", "--model", "my.onnx", "--headroom", "0.8"]
    assert main(["enhance", str(photo), "-o", str(tmp_path / "b.png"), *options]) == 0
    assert Negative.made == ("paper", 0.5, False, "my.onnx", 0.8)


def test_a_tree_with_failures(tmp_path, capsys):
    tree = tmp_path / "in"
    (tree / "sub" / "x.jpg").mkdir(parents=True)
    (tree / "a.png").write_bytes(png())
    (tree / "sub" / "b.png").write_bytes(png())
    (tree / "sub" / "empty.jpg").write_bytes(b"")
    (tree / "sub" / "cut.png").write_bytes(png()[:500])
    (tree / "notes.txt").write_bytes(b"hello")
    before = {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()}
    assert main(["enhance", str(tree), "-o", str(tmp_path / "out"), "-r"]) == 2
    done = sorted(str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert done == ["a.png", os.path.join("sub", "b.png")]
    errors = capsys.readouterr().err
    assert "2 done, 2 failed" in errors
    assert "empty.jpg is empty (0 bytes)" in errors
    assert "cut.png could not be decoded" in errors
    assert {path: path.read_bytes() for path in tree.rglob("*") if path.is_file()} == before


def test_existing_results(photo, tmp_path, capsys):
    out = tmp_path / "b.png"
    out.write_bytes(b"old")
    assert main(["enhance", str(photo), "-o", str(out)]) == 5
    assert "exists already" in capsys.readouterr().err
    assert main(["enhance", str(photo), "-o", str(out), "--skip-existing"]) == 0
    assert out.read_bytes() == b"old"
    assert "1 skipped" in capsys.readouterr().err
    assert main(["enhance", str(photo), "-o", str(out), "--overwrite"]) == 0
    assert np.array_equal(read_photo(out).pixels, 255 - PHOTO)


def test_the_input_is_never_the_output(photo, capsys):
    before = photo.read_bytes()
    assert main(["enhance", str(photo), "-o", str(photo), "--overwrite"]) == 5
    assert "never written over" in capsys.readouterr().err
    assert main(["enhance", str(photo), "-o", str(photo.parent), "--overwrite"]) == 5
    assert photo.read_bytes() == before


def test_beside_the_original_without_a_target(photo):
    assert main(["enhance", str(photo)]) == 0
    assert np.array_equal(read_photo(photo.with_name("a-enhanced.png")).pixels, 255 - PHOTO)


def test_the_same_names_by_the_shell_go_on_with_an_earlier_run(photo, capsys):
    assert main(["enhance", str(photo)]) == 0
    named = sorted(map(str, photo.parent.glob("*.png")))
    assert len(named) == 2
    capsys.readouterr()
    assert main(["enhance", *named, "--skip-existing"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("0 done, 1 skipped")
    assert said.endswith("; 1 earlier result left out\n")
    assert main(["enhance", *named, "--overwrite"]) == 5  # what is named is an input
    assert "a-enhanced.png is an input, which is never written over; leave it out" in capsys.readouterr().err
    assert sorted(map(str, photo.parent.glob("*.png"))) == named


@pytest.mark.parametrize("options", [["--decompose"], ["--decompose", "--model", "NETWORK"], ["--model", "NETWORK"]])
def test_with_layers_or_a_model_the_same_names_go_on_with_an_earlier_run_as_well(photo, options, capsys):
    (photo.parent / "NETWORK").write_bytes(b"")
    options = [str(photo.parent / part) if part == "NETWORK" else part for part in options]
    assert main(["enhance", str(photo), *options]) == 0
    kept = {path: path.read_bytes() for path in photo.parent.glob("*.png")}
    assert main(["enhance", *map(str, kept), *options, "--skip-existing"]) == 0
    assert f"; {len(kept) - 1} earlier result" in capsys.readouterr().err
    assert main(["enhance", *map(str, kept), *options, "--overwrite"]) == 5
    assert {path: path.read_bytes() for path in photo.parent.glob("*.png")} == kept


@pytest.mark.parametrize("options", [[], ["--decompose"], ["--recursive"]])
def test_the_shells_star_that_names_the_results_goes_on_with_an_earlier_run(photo, options, capsys):
    out = photo.parent / "out"
    arguments = ["-o", str(out), *options]
    assert main(["enhance", str(photo), *arguments]) == 0
    kept = {path: path.read_bytes() for path in out.iterdir()}
    for inputs in (sorted(map(str, photo.parent.iterdir())), [str(photo.parent / "*")]):
        capsys.readouterr()
        assert main(["enhance", *inputs, *arguments, "--skip-existing"]) == 0
        said = capsys.readouterr().err
        assert said.startswith("0 done, 1 skipped")
        assert f"; {len(kept)} earlier result" in said
        for more in ([], ["--overwrite"]):  # what is named is an input
            assert main(["enhance", *inputs, *arguments, *more]) == 5
    assert {path: path.read_bytes() for path in out.iterdir()} == kept


def test_report_as_json(photo, tmp_path, capsys):
    (tmp_path / "bad.png").write_bytes(b"bad")
    Image.fromarray(PHOTO).convert("CMYK").save(tmp_path / "c.jpg")
    inputs = [str(photo), str(tmp_path / "bad.png"), str(tmp_path / "c.jpg")]
    assert main(["enhance", *inputs, "-o", str(tmp_path / "out"), "--json"]) == 2
    report = json.loads(capsys.readouterr().out)
    assert (report["done"], report["skipped"], report["failed"]) == (2, 0, 1)
    by_name = {os.path.basename(entry["input"]): entry for entry in report["results"]}
    assert by_name["a.png"]["output"] == str(tmp_path / "out" / "a.png")
    assert by_name["c.jpg"]["notes"] == ["CMYK was converted to RGB"]
    assert by_name["bad.png"]["status"] == "failed"
    assert "not a photo" in by_name["bad.png"]["reason"]


def test_files_of_a_folder_that_are_no_photos_are_counted(tmp_path, capsys):
    for name in ("a.png", "b.gif", "c.txt", ".hidden", "my.onnx"):
        (tmp_path / name).write_bytes(png())
    shown = tmp_path / "page.html"
    shown.write_text("an older page")
    options = ["--model", str(tmp_path / "my.onnx"), "--report", str(shown), "--overwrite", "--method", "paper"]
    for method, count in ((options, 2), ([], 4)):
        arguments = ["enhance", str(tmp_path), "-o", str(tmp_path / "out"), "--json", "--overwrite", *method]
        assert main(arguments) == 0
        captured = capsys.readouterr()
        assert json.loads(captured.out)["left_out"] == count
        assert f"; {count} other files left out\n" in captured.err
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "d.ppm").write_bytes(b"x")
    assert main(["enhance", str(tmp_path / "sub"), "-o", str(tmp_path / "out")]) == 2
    assert "; 1 other file left out\n" in capsys.readouterr().err
    assert main(["enhance", str(tmp_path / "a.png"), "-o", str(tmp_path / "b.png")]) == 0
    assert "left out" not in capsys.readouterr().err  # what is named outright leaves nothing out


def test_a_stereo_photo_in_a_folder_is_taken(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    second = Image.fromarray(PHOTO[::-1].copy())
    Image.fromarray(PHOTO).save(tmp_path / "in" / "a.mpo", "MPO", save_all=True, append_images=[second])
    assert main(["enhance", str(tmp_path / "in"), "-o", str(tmp_path / "out")]) == 0
    with Image.open(tmp_path / "out" / "a.jpg") as image:
        assert image.format == "JPEG"
        assert np.abs(np.asarray(image) - (255.0 - PHOTO)).mean() < 12
    assert "only the first of the file's 2 pictures was taken" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "more"), [("--headroom", ["0.97"]), ("--no-denoise", [])])
def test_options_that_would_change_nothing_are_refused(photo, tmp_path, option, more, monkeypatch, capsys):
    monkeypatch.undo()
    target = tmp_path / "b.png"
    assert main(["enhance", str(photo), "-o", str(target), "--method", "he", option, *more]) == 1
    assert f"{option}: method 'he' does not know it; tecu, " in capsys.readouterr().err
    assert not target.exists()
    assert main(["enhance", str(photo), "-o", str(target), "--method", "he"]) == 0


@pytest.mark.parametrize("inputs", [["PHOTO", "-o", "-"], ["-"]], ids=" ".join)
def test_no_picture_is_poured_into_a_terminal(photo, inputs, monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["enhance", *(str(photo) if word == "PHOTO" else word for word in inputs)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "standard output is a terminal" in captured.err


def test_the_help_tells_every_method_and_the_ranges(capsys):
    assert main(["enhance", "--help"]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert not [name for name in METHODS if not re.search(rf"\b{name}\b", words)]
    assert f"{LEAST_HEADROOM:g} to {MOST_HEADROOM:g}" in words
    assert f"0 leaves the photo alone, 1 is what the network proposes, up to {STRONGEST:g} lifts shadows more" in words


def test_parts(photo, tmp_path, capsys):
    assert main(["enhance", str(photo), "-o", str(tmp_path / "b.png"), "--decompose", "--json"]) == 0
    entry = json.loads(capsys.readouterr().out)["results"][0]
    assert read_photo(entry["illumination"]).bits == 16
    assert read_photo(tmp_path / "b-reflectance.png").pixels.min() == 65535


def test_parts_are_refused_before_the_first_photo_where_the_method_has_none(photo, tmp_path, capsys):
    target = tmp_path / "b.png"
    assert main(["enhance", str(photo), "-o", str(target), "--decompose", "--method", "lime"]) == 1
    assert "'lime' does not give illumination and reflectance; tecu" in capsys.readouterr().err
    assert not target.exists()


def test_limits_and_metadata_options(photo, tmp_path, capsys):
    assert main(["enhance", str(photo), "-o", str(tmp_path / "b.png"), "--max-pixels", "100"]) == 2
    assert "the limit is 100" in capsys.readouterr().err
    exif = Image.Exif()
    exif[0x010F] = "Acme"
    Image.fromarray(PHOTO).save(tmp_path / "c.jpg", exif=exif.tobytes())
    assert main(["enhance", str(tmp_path / "c.jpg"), "-o", str(tmp_path / "d.jpg"), "--strip-metadata"]) == 0
    with Image.open(tmp_path / "d.jpg") as image:
        assert 0x010F not in image.getexif()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--method", "magic"], "method must be"),
        (["-o", "out.gif"], "cannot be written"),
        (["-o", "-", "--json"], "leave out --json"),
    ],
)
def test_wrong_settings_are_bad_arguments(photo, options, message, capsys):
    assert main(["enhance", str(photo), *options]) == 1
    assert message in capsys.readouterr().err
    assert not list(photo.parent.glob("*enhanced*"))


def test_missing_parts_give_3(photo, tmp_path, monkeypatch, capsys):
    assert main(["enhance", str(photo), "--model", "torch.onnx"]) == 3
    assert "install tecu[train]" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "rawpy", None)
    (tmp_path / "a.dng").write_bytes(b"II*\0" + bytes(50))
    assert main(["enhance", str(tmp_path / "a.dng"), "-o", str(tmp_path / "out/")]) == 3
    assert "pip install 'tecu[raw]'" in capsys.readouterr().err
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "clip.mp4").write_bytes(b"x")
    assert main(["enhance", str(tmp_path / "clip.mp4")]) == 3
    assert "install ffmpeg" in capsys.readouterr().err


def test_an_unwritable_folder_gives_5(photo, tmp_path, capsys):
    (tmp_path / "file").write_bytes(b"")
    assert main(["enhance", str(photo), "-o", str(tmp_path / "file" / "b.png")]) == 5
    assert "could not be" in capsys.readouterr().err


def test_what_is_not_there_gives_2(tmp_path, capsys):
    assert main(["enhance", str(tmp_path / "no.jpg"), "-o", str(tmp_path / "b.jpg")]) == 2
    assert main(["enhance", str(tmp_path / "*.jpg"), "-o", str(tmp_path / "out")]) == 2
    assert main(["enhance", str(tmp_path), "-o", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    assert "no such file" in errors
    assert "nothing matches" in errors
    assert "holds no photos" in errors


def test_names_that_are_not_utf8(tmp_path, capsys):
    name = os.fsencode(tmp_path) + b"/caf\xe9.png"
    with open(name, "wb") as file:
        file.write(png())
    assert main(["enhance", os.fsdecode(name), "-o", str(tmp_path / "out"), "--json"]) == 0
    assert os.listdir(os.fsencode(tmp_path / "out")) == [b"caf\xe9.png"]
    entry = json.loads(capsys.readouterr().out)["results"][0]
    assert os.fsencode(entry["input"]) == name
    with open(os.fsencode(tmp_path) + b"/bad\xff.png", "wb") as file:
        file.write(b"bad")
    assert main(["enhance", os.fsdecode(os.fsencode(tmp_path) + b"/bad\xff.png"), "-o", str(tmp_path / "out")]) == 2
    assert "bad\N{REPLACEMENT CHARACTER}.png" in capsys.readouterr().err


def test_no_color_is_respected(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["enhance", str(tmp_path / "no.jpg")]) == 2
    assert "\x1b" not in capsys.readouterr().err


def test_progress_shows_on_a_terminal_only(photo, tmp_path):
    """A bar with the time left on a terminal; none in a file."""
    import pty

    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, "enhance", str(photo), "-o", str(tmp_path / "b.png")],
        stderr=terminal,
        stdout=subprocess.PIPE,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "100"},
    )
    os.close(terminal)
    seen = b""
    try:
        while piece := os.read(controller, 4096):
            seen += piece
    except OSError:  # Linux ends a terminal's reading with an error
        pass
    os.close(controller)
    assert process.communicate()[0] == b""
    assert process.returncode == 0
    assert b"photos" in seen
    assert b"1/1" in seen


DRIVER = """
import sys, time, os
import numpy as np
import tecu.lowlight

class Slow:
    def __init__(self, *_, **__):
        self.calls = 0

    def __call__(self, pixels):
        self.calls += 1
        if str(self.calls) == os.environ.get("STUCK_AT"):
            print("stuck", flush=True)
            time.sleep(600)
        return 255 - pixels

tecu.lowlight.Enhancer = Slow
from tecu.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run_driver(arguments, **options):
    return subprocess.run([sys.executable, "-c", DRIVER, *arguments], capture_output=True, **options)


def test_streams():
    run = run_driver(["enhance", "-"], input=png())
    assert run.returncode == 0
    assert run.stderr == b""
    assert np.array_equal(read_photo(run.stdout).pixels, 255 - PHOTO)


def test_a_bad_stream():
    run = run_driver(["enhance", "-", "-o", "-"], input=b"")
    assert run.returncode == 2
    assert run.stdout == b""
    assert b"is empty (0 bytes)" in run.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")
@pytest.mark.parametrize("options", [["-o", "-"], ["-o", "b.png", "--json"], ["--help"]], ids=["photo", "json", "help"])
def test_a_full_disk_under_standard_output_gives_5(photo, options):
    with open("/dev/full", "wb") as full:
        arguments = [sys.executable, "-c", DRIVER, "enhance", photo.name, *options]
        run = subprocess.run(arguments, stdout=full, stderr=subprocess.PIPE, cwd=photo.parent)
    assert run.returncode == 5
    assert run.stderr.count(b"output could not be written: the disk is full") == 1
    assert b"Errno" not in run.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_what_is_done_and_leaves_no_half_file(tmp_path, number):
    (tmp_path / "in").mkdir()
    for k in range(6):
        (tmp_path / "in" / f"{k}.png").write_bytes(png())
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, "enhance", str(tmp_path / "in"), "-o", str(tmp_path / "out")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"STUCK_AT": "3"},
        preexec_fn=hear_interrupts,
    )
    with process:
        assert process.stdout.readline() == b"stuck\n"
        process.send_signal(number)
        errors = process.stderr.read()
    assert process.returncode == 130
    assert b"2 of 6 done; no half file was left" in errors
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["0.png", "1.png"]
    for name in names:
        assert np.array_equal(read_photo(tmp_path / "out" / name).pixels, 255 - PHOTO)


def test_an_interrupt_counts_what_had_ended_and_says_what_workers_of_a_cluster_do(tmp_path, monkeypatch, capsys):
    def cut_short(tasks, *_, **__):
        yield batch.Outcome(tasks[0].source, tasks[0].target, "done")
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt:
            yield batch.Outcome(tasks[1].source, tasks[1].target, "done")
            raise

    (tmp_path / "in").mkdir()
    for k in range(3):
        (tmp_path / "in" / f"{k}.png").write_bytes(png())
    arguments = ["enhance", str(tmp_path / "in"), "-o", str(tmp_path / "out")]
    monkeypatch.setattr("tecu.cli.enhance.run", cut_short)
    monkeypatch.setattr("tecu.lowlight.spread.spread", cut_short)
    monkeypatch.setattr("tecu.cli.enhance.connected", lambda address: contextlib.nullcontext(address))
    assert main(arguments) == 130
    assert "2 of 3 done; no half file was left." in capsys.readouterr().err
    assert main([*arguments, "--scheduler", "tcp://127.0.0.1:9"]) == 130
    assert "2 of 3 done; the workers finish what they have begun." in capsys.readouterr().err
