"""Many files: each one is done or named with its reason, whatever happens to the others."""

import dataclasses
import io
import os
import time
import tracemalloc
import types
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from skimage import data

from stand_ins import Negative, deadly, failing, negative, thread_counts
from tecu.lowlight.batch import Settings, _write_parts, process, run
from tecu.lowlight.files import Photo, read_photo, write_photo
from tecu.lowlight.plan import Task
from tecu.lowlight.workers import THREADS

PHOTO = data.astronaut()[60:124, 150:230]


def photos(folder, count, rows=None):
    folder.mkdir(exist_ok=True)
    tasks = []
    for k in range(count):
        picture = PHOTO if rows is None else PHOTO[: rows[k]]
        Image.fromarray(picture).save(folder / f"{k}.png")
        tasks.append(Task(str(folder / f"{k}.png"), str(folder / "out" / f"{k}.png")))
    return tasks


def by_source(outcomes):
    return {os.path.basename(outcome.source): outcome for outcome in outcomes}


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_are_done_and_the_bad_ones_named(tmp_path, jobs):
    tasks = photos(tmp_path / "in", 6)
    originals = [Path(task.source).read_bytes() for task in tasks]
    bad = tmp_path / "in" / "bad.png"
    bad.write_bytes(b"\x89PNG\r\n\x1a\n broken")
    tasks.insert(2, Task(str(bad), str(tmp_path / "bad.png")))
    outcomes = by_source(run(tasks, Settings(), jobs=jobs, make=negative))
    assert sorted(outcomes) == ["0.png", "1.png", "2.png", "3.png", "4.png", "5.png", "bad.png"]
    assert outcomes["bad.png"].status == "failed"
    assert outcomes["bad.png"].fault == "input"
    assert not (tmp_path / "bad.png").exists()
    for k in range(6):
        assert outcomes[f"{k}.png"].status == "done"
        assert np.array_equal(read_photo(outcomes[f"{k}.png"].target).pixels, 255 - PHOTO)
    assert [Path(task.source).read_bytes() for task in tasks if task.source != str(bad)] == originals


def test_a_worker_that_dies_costs_only_its_photo(tmp_path):
    tasks = photos(tmp_path / "in", 5, rows=[20, 13, 21, 22, 23])
    outcomes = by_source(run(tasks, Settings(), jobs=2, make=deadly))
    assert len(outcomes) == 5
    assert outcomes["1.png"].status == "failed"
    assert "the process died on it" in outcomes["1.png"].reason
    assert all(outcomes[f"{k}.png"].status == "done" for k in (0, 2, 3, 4))


class BreakingPool:
    """A pool that breaks while some are done, some are lost, and some are written though nobody heard of it."""

    broken = False

    def __init__(self, *_, **__):
        self.breaks = not BreakingPool.broken
        self.ended = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def submit(self, call, task, settings, make):
        self.ended += 1
        if self.breaks and self.ended == 4:
            BreakingPool.broken = True
            raise BrokenProcessPool("a worker has died")
        future = Future()
        outcome = call(task, settings, make)
        if self.breaks and self.ended > 1:  # the second and the third are written, but the news is lost
            future.set_exception(BrokenProcessPool("a worker has died"))
        else:
            future.set_result(outcome)
        return future


def test_layers_are_written_without_a_copy_in_floats(tmp_path):
    photo = Photo(np.zeros((1000, 1500, 3), np.uint8))
    light = np.full(photo.pixels.shape[:2], 0.25, np.float32)
    layers = types.SimpleNamespace(illumination=light, reflectance=np.repeat(light[..., None], 3, axis=2))
    tracemalloc.start()
    written = _write_parts(
        types.SimpleNamespace(decompose=lambda _: layers), photo, str(tmp_path / "a.png"), Settings()
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * layers.reflectance.nbytes  # the layer in 16 bits, and again in the order of the file
    assert (read_photo(written["reflectance"]).pixels == round(0.25 * 65535)).all()


@pytest.mark.parametrize("decompose", [False, True])
def test_what_a_lost_worker_had_written_does_not_count_as_there_already(tmp_path, monkeypatch, decompose):
    monkeypatch.setattr("tecu.lowlight.batch.ProcessPoolExecutor", BreakingPool)
    monkeypatch.setattr(BreakingPool, "broken", False)
    tasks = photos(tmp_path / "in", 6)
    foreign = Path(tasks[2].target)
    foreign.parent.mkdir()
    foreign.write_bytes(b"was there before")
    outcomes = list(run(tasks, Settings(decompose=decompose), jobs=2, make=negative))
    assert len(outcomes) == 6  # each is told of once
    assert {name: outcome.status for name, outcome in by_source(outcomes).items() if name != "2.png"} == {
        f"{k}.png": "done" for k in (0, 1, 3, 4, 5)
    }
    assert "exists already" in by_source(outcomes)["2.png"].reason
    assert foreign.read_bytes() == b"was there before"


@pytest.mark.parametrize("where", ["while it waits", "while it tells"])
def test_what_is_finished_after_an_interrupt_is_told_of(tmp_path, monkeypatch, where):
    tasks = photos(tmp_path / "in", 8)
    out = tmp_path / "in" / "out"

    def interrupted(*_, **__):
        while not out.is_dir() or not list(out.glob("*.png")):
            time.sleep(0.01)
        raise KeyboardInterrupt

    def interrupted_after_one(outcomes):
        yield next(outcomes)
        yield outcomes.throw(KeyboardInterrupt())
        yield from outcomes

    told = []
    outcomes = run(tasks, Settings(), jobs=2, make=negative)
    if where == "while it waits":
        monkeypatch.setattr("tecu.lowlight.batch.wait", interrupted)
    else:
        outcomes = interrupted_after_one(outcomes)
    with pytest.raises(KeyboardInterrupt):
        told.extend(outcomes)
    assert sorted(outcome.target for outcome in told) == sorted(map(str, out.iterdir()))
    assert {outcome.status for outcome in told} == {"done"}
    assert len(told) < 8


def test_workers_share_the_processors(tmp_path, monkeypatch):
    for name in THREADS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    tasks = photos(tmp_path / "in", 3)
    for outcome in run(tasks, Settings(), jobs=3, make=thread_counts):
        assert read_photo(outcome.target).pixels.max() == 2
    assert THREADS[0] not in os.environ


def test_memory_and_file_handles_stay_flat(tmp_path):
    import psutil

    Image.fromarray(data.astronaut()[:256, :256]).save(tmp_path / "a.jpg")
    task = Task(str(tmp_path / "a.jpg"), str(tmp_path / "b.jpg"))
    settings, here = Settings(overwrite=True), psutil.Process()

    def repeat(times):
        for _ in range(times):
            assert process(task, settings, negative).status == "done"
        return here.memory_info().rss, here.num_fds(), here.num_threads()

    memory, *counts = repeat(30)
    later, *counts_later = repeat(200)
    # 200 if one stayed each time; a few of other tests' threads may come and go in this process
    assert max(np.subtract(counts_later, counts)) < 20
    assert later - memory < 10e6  # 200 kB of pixels, 40 MB if one copy stayed each time


def test_an_enhancer_that_fails_is_one_photos_reason(tmp_path):
    outcome = process(photos(tmp_path / "in", 1)[0], Settings(), failing)
    assert outcome.reason.endswith("0.png could not be enhanced: FloatingPointError: too dark")
    assert outcome.fault == "input"


def test_existing_results(tmp_path):
    task = photos(tmp_path / "in", 1)[0]
    assert process(task, Settings(), negative).status == "done"
    again = process(task, Settings(), negative)
    assert (again.status, again.fault) == ("failed", "output")
    assert "exists already" in again.reason
    assert process(task, Settings(skip_existing=True), negative).status == "skipped"
    assert process(task, Settings(overwrite=True), negative).status == "done"


def test_an_interrupted_decomposition_goes_on(tmp_path, monkeypatch):
    task = photos(tmp_path / "in", 1)[0]

    def interrupted(photo, path, **options):
        if path == task.target:
            raise KeyboardInterrupt
        return write_photo(photo, path, **options)

    settings = Settings(decompose=True, skip_existing=True)
    with monkeypatch.context() as patched:
        patched.setattr("tecu.lowlight.batch.write_photo", interrupted)
        with pytest.raises(KeyboardInterrupt):
            process(task, settings, negative)
    left = Path(task.target).with_name("0-illumination.png")
    left.write_bytes(b"made with other settings")
    assert process(task, Settings(decompose=True), negative).status == "failed"  # nothing is replaced unasked
    assert process(task, settings, negative).status == "done"
    assert read_photo(left).bits == 16
    assert np.array_equal(read_photo(task.target).pixels, 255 - PHOTO)
    assert process(task, settings, negative).status == "skipped"


@pytest.mark.parametrize("lost", [["0-illumination.png", "0-reflectance.png"], ["0-reflectance.png"]])
def test_layers_that_are_missing_are_made_and_the_photo_is_left_as_it_is(tmp_path, lost):
    task = photos(tmp_path / "in", 1)[0]
    layers = Settings(decompose=True, skip_existing=True)
    assert process(task, layers, negative).status == "done"
    folder = Path(task.target).parent
    complete = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "0.png"}
    for name in lost:
        (folder / name).unlink()
    Path(task.target).write_bytes(b"the owner has worked on it")
    assert process(task, Settings(skip_existing=True), negative).status == "skipped"  # no layers are asked for
    outcome = process(task, layers, negative)
    assert outcome.status == "done"
    assert "0.png was there already and is left as it is" in outcome.notes[-1]
    assert Path(task.target).read_bytes() == b"the owner has worked on it"
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "0.png"} == complete
    assert process(task, layers, negative).status == "skipped"


@pytest.mark.parametrize("decompose", [False, True])
def test_a_result_that_appears_meanwhile_is_left_alone(tmp_path, decompose):
    task = photos(tmp_path / "in", 1)[0]

    class Overtaken(Negative):
        def __call__(self, pixels):
            Path(task.target).parent.mkdir(exist_ok=True)
            Path(task.target).write_bytes(b"of another run")
            return super().__call__(pixels)

    def make(settings):
        return Overtaken()

    assert process(task, Settings(decompose=decompose, skip_existing=True), make).status == "skipped"
    assert Path(task.target).read_bytes() == b"of another run"
    Path(task.target).unlink()
    outcome = process(task, Settings(), make)
    assert (outcome.status, outcome.fault) == ("failed", "output")
    assert outcome.reason == f"{task.target} exists already; --overwrite replaces it"


def test_the_original_is_never_written_over(tmp_path):
    task = photos(tmp_path / "in", 1)[0]
    before = Path(task.source).read_bytes()
    outcome = process(Task(task.source, task.source), Settings(overwrite=True), negative)
    assert "never written over" in outcome.reason
    (tmp_path / "link.png").symlink_to(task.source)
    outcome = process(Task(task.source, str(tmp_path / "link.png")), Settings(overwrite=True), negative)
    assert "never written over" in outcome.reason
    assert Path(task.source).read_bytes() == before


def test_transparency_and_depth_pass_by_the_enhancer(tmp_path):
    from tecu.lowlight.files import Photo

    rng = np.random.default_rng(0)
    pixels, alpha = rng.integers(0, 65535, (9, 8, 3), np.uint16), rng.integers(0, 65535, (9, 8), np.uint16)
    write_photo(Photo(pixels, alpha), tmp_path / "a.png")
    process(Task(str(tmp_path / "a.png"), str(tmp_path / "b.png")), Settings(), negative)
    result = read_photo(tmp_path / "b.png")
    assert np.array_equal(result.pixels, 65535 - pixels)
    assert np.array_equal(result.alpha, alpha)


def test_parts_are_written_beside(tmp_path):
    task = photos(tmp_path / "in", 1)[0]
    outcome = process(task, Settings(decompose=True), negative)
    light = read_photo(outcome.extra["illumination"])
    assert light.bits == 16
    assert np.array_equal(light.pixels, PHOTO.max(axis=-1).astype(np.uint16) * 257)
    assert read_photo(outcome.extra["reflectance"]).pixels.min() == 65535
    assert outcome.extra["certificate"] == {"holds": True, "verdict": "held"}


def test_pixels_that_are_not_seen_have_no_say_in_the_parts(tmp_path):
    hidden = np.dstack([PHOTO, np.full(PHOTO.shape[:2], 255, np.uint8)])
    hidden[:, 40:] = [255, 255, 255, 0]
    Image.fromarray(hidden).save(tmp_path / "a.png")
    outcome = process(Task(str(tmp_path / "a.png"), str(tmp_path / "b.png")), Settings(decompose=True), negative)
    light = read_photo(outcome.extra["illumination"]).pixels
    assert light[:, 40:].max() <= light[:, :40].max() < 65535


def test_a_folder_that_cannot_be_made(tmp_path):
    task = photos(tmp_path / "in", 1)[0]
    (tmp_path / "file").write_bytes(b"")
    outcome = process(Task(task.source, str(tmp_path / "file" / "x" / "a.png")), Settings(), negative)
    assert outcome.fault == "output"
    assert "could not be made" in outcome.reason


def test_a_missing_package_is_told_apart(tmp_path):
    def make(settings):
        raise ImportError("install tecu[train] to use a network of your own")

    outcome = process(photos(tmp_path / "in", 1)[0], Settings(), make)
    assert outcome.fault == "part"


def test_streams(tmp_path, monkeypatch, capfdbinary):
    file = io.BytesIO()
    Image.fromarray(PHOTO).save(file, "PNG")
    monkeypatch.setattr("sys.stdin", types.SimpleNamespace(buffer=io.BytesIO(file.getvalue())))
    assert process(Task("-", "-"), Settings(), negative).status == "done"
    assert np.array_equal(read_photo(capfdbinary.readouterr().out).pixels, 255 - PHOTO)


def test_metadata_is_dropped_when_asked(tmp_path):
    exif = Image.Exif()
    exif[0x010F] = "Acme"
    Image.fromarray(PHOTO).save(tmp_path / "a.jpg", exif=exif.tobytes())
    for strip in (False, True):
        task = Task(str(tmp_path / "a.jpg"), str(tmp_path / f"{strip}.jpg"))
        assert process(task, dataclasses.replace(Settings(), strip_metadata=strip), negative).status == "done"
        with Image.open(task.target) as image:
            assert (0x010F in image.getexif()) == (not strip)
