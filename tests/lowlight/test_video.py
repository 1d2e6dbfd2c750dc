"""Video: frames through a pipe, exposure smoothed in time, and a sentence where ffmpeg is missing.

``ffmpeg`` and ``ffprobe`` are small scripts here, so that the tests run everywhere: the "video" is a NumPy file.
"""

import dataclasses
import json
import os
import stat
import sys
import textwrap

import numpy as np
import pytest

from tecu.lowlight import Enhancer
from tecu.lowlight.batch import Settings, process
from tecu.lowlight.files import MissingPart, TargetExists, UnreadableFile, UnwritableFile
from tecu.lowlight.plan import Task
from tecu.lowlight.video import CUT, Steady, enhance_video

FFPROBE = """
import json, sys
try:
    header = json.load(open(sys.argv[-1].removeprefix("file:") + ".json"))
except OSError:
    sys.exit("moov atom not found")
print(json.dumps(header))
"""

FFMPEG = """
import json, os, sys
import numpy as np
arguments = sys.argv[1:]
if arguments[-1] == "-":  # decode
    source = arguments[arguments.index("-i") + 1].removeprefix("file:")
    for frame in np.load(source):
        sys.stdout.buffer.write(b"P6\\n%d %d\\n255\\n" % (frame.shape[1], frame.shape[0]) + frame.tobytes())
    if "killed" in source:
        sys.stdout.flush()
        os.kill(os.getpid(), 9)
    if "odd" in source:
        print("corrupt decoded frame", file=sys.stderr)
    if "damaged" in source:
        sys.stdout.buffer.write(b"P6\\n9 9\\n255\\nabc")
    if "refused" in source:
        sys.exit("Invalid data found")
else:  # encode
    if "full" in arguments[arguments.index("-map") - 1]:
        sys.exit("No space left on device")
    columns, rows = map(int, arguments[arguments.index("-s") + 1].split("x"))
    frames = np.frombuffer(sys.stdin.buffer.read(), np.uint8).reshape(-1, rows, columns, 3)
    target = arguments[-1].removeprefix("file:")
    with open(target, "wb") as file:
        np.save(file, frames)
    json.dump(arguments, open(sys.argv[0] + ".log", "w"))
"""


@pytest.fixture
def programs(tmp_path, monkeypatch):
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, script in (("ffmpeg", FFMPEG), ("ffprobe", FFPROBE)):
        path = folder / name
        path.write_text(f"#!{sys.executable}\n" + textwrap.dedent(script))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def video(path, frames, **header):
    with open(path, "wb") as file:
        np.save(file, frames)
    stream = {"avg_frame_rate": "30000/1001", "nb_frames": str(len(frames)), "pix_fmt": "yuv420p"} | header
    path.with_name(path.name + ".json").write_text(json.dumps({"streams": [stream], "format": {}}))
    return str(path)


@dataclasses.dataclass(frozen=True)
class Exposure:
    gain: float

    def blend(self, other, weight):
        return Exposure((1 - weight) * self.gain + weight * other.gain)


class Brighten:
    """To a mean of 100: a rule that flickers if it is applied to each frame alone."""

    def analyse(self, frame):
        return Exposure(100 / max(1.0, float(frame.mean())))

    def apply(self, frame, exposure):
        return np.clip(np.rint(frame * exposure.gain), 0, 255).astype(np.uint8)

    def __call__(self, frame):
        return self.apply(frame, self.analyse(frame))


def flickering(count, level=20.0, swing=0.3):
    rng = np.random.default_rng(0)
    scene = rng.uniform(0.5, 1.5, (24, 32, 3))
    levels = level * (1 + swing * rng.uniform(-1, 1, count))
    return np.clip(scene * levels[:, None, None, None], 0, 255).astype(np.uint8)


def test_frames_pass_in_order_and_the_sound_is_mapped(tmp_path, programs):
    frames = np.random.default_rng(0).integers(0, 255, (7, 10, 12, 3), dtype=np.uint8)
    source, target, seen = video(tmp_path / "a.mp4", frames), tmp_path / "b.mp4", []
    notes = enhance_video(source, str(target), lambda frame: 255 - frame, frames=lambda *now: seen.append(now))
    assert np.array_equal(np.load(target), 255 - frames)
    assert seen == [(k, 7) for k in range(1, 8)]
    assert notes == ("this method looks at each frame alone: its brightness may flicker",)
    arguments = json.loads((programs / "ffmpeg.log").read_text())
    assert arguments[arguments.index("-c:a") + 1] == "copy"
    assert "1:a?" in arguments
    assert arguments[arguments.index("-r") + 1] == "30000/1001"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "a.mp4.json", "b.mp4", "bin"]


def test_exposure_is_smoothed_in_time():
    frames = flickering(90)
    steady = Steady(Brighten(), rate=30.0)
    gains = []
    for frame in frames:
        steady(frame)
        gains.append(steady.exposure.gain)
    alone = [Brighten().analyse(frame).gain for frame in frames]
    assert np.std(np.diff(gains)) < 0.1 * np.std(np.diff(alone))
    assert np.mean(gains[45:]) == pytest.approx(np.mean(alone), rel=0.1)


def test_a_slow_change_is_followed():
    steady = Steady(Brighten(), rate=30.0)
    for level in np.linspace(20, 60, 300):
        steady(np.full((24, 32, 3), round(level), np.uint8))
    assert steady.exposure.gain == pytest.approx(100 / 60, rel=0.1)


def test_a_cut_starts_anew():
    steady = Steady(Brighten(), rate=30.0)
    for _ in range(10):
        steady(np.full((24, 32, 3), 10, np.uint8))
    bright = np.full((24, 32, 3), round(10 + 300 * CUT), np.uint8)
    assert np.array_equal(steady(bright), Brighten()(bright))


def test_smoothing_reaches_the_file(tmp_path, programs):
    frames = flickering(40)
    enhance_video(video(tmp_path / "a.mp4", frames), str(tmp_path / "b.mp4"), Brighten())
    result = np.load(tmp_path / "b.mp4").astype(float)
    input_ratio = frames[1:].mean(axis=(1, 2, 3)) / frames[:-1].mean(axis=(1, 2, 3))
    output_ratio = result[1:].mean(axis=(1, 2, 3)) / result[:-1].mean(axis=(1, 2, 3))
    # the scene's own flicker stays, the enhancement adds little of its own
    assert np.mean(np.abs(np.log(output_ratio / input_ratio))) < 0.03


def test_without_ffmpeg_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "a.mp4").write_bytes(b"x")
    with pytest.raises(MissingPart, match="is a video; install ffmpeg"):
        enhance_video(str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4"), Brighten())
    outcome = process(Task(str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4")), Settings(), lambda settings: Brighten())
    assert outcome.fault == "part"


def test_batch_takes_a_video(tmp_path, programs):
    source = video(tmp_path / "a.mp4", flickering(5))
    outcome = process(Task(source, str(tmp_path / "new" / "b.mkv")), Settings(), lambda settings: Brighten())
    assert (outcome.status, outcome.notes) == ("done", ())
    assert np.load(tmp_path / "new" / "b.mkv").shape == (5, 24, 32, 3)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("damaged.mp4", UnreadableFile, "ends within a frame"),
        ("refused.mp4", UnreadableFile, "Invalid data found"),
        ("killed.mp4", UnreadableFile, "could not be decoded: ffmpeg was ended by signal 9"),
        ("full.mp4", UnwritableFile, "No space left on device"),
    ],
)
def test_failures_are_named_and_leave_nothing(tmp_path, programs, name, error, message):
    source = video(tmp_path / name, flickering(3))
    with pytest.raises(error, match=message):
        enhance_video(source, str(tmp_path / "out.mp4"), Brighten())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bin", name, name + ".json"]


def test_what_ffmpeg_complains_of_is_said(tmp_path, programs):
    """It goes on over a damaged part of the file, and ends as if all was well."""
    notes = enhance_video(video(tmp_path / "odd.mp4", flickering(3)), str(tmp_path / "b.mp4"), Brighten())
    assert notes == ("ffmpeg complained while reading it: corrupt decoded frame",)


@pytest.mark.parametrize(("strip", "kept_of"), [(False, "1"), (True, "-1")])
def test_metadata_is_kept_or_stripped_as_asked(tmp_path, programs, strip, kept_of):
    """Of the two inputs of the encoder the original is number 1; -1 is none of them."""
    task = Task(video(tmp_path / "a.mp4", flickering(2)), str(tmp_path / "b.mp4"))
    assert process(task, Settings(strip_metadata=strip), lambda settings: Brighten()).status == "done"
    arguments = json.loads((programs / "ffmpeg.log").read_text())
    assert [arguments[k + 1] for k, word in enumerate(arguments) if word == "-map_metadata"] == [kept_of]


def test_layers_that_are_not_written_are_said(tmp_path, programs):
    task = Task(video(tmp_path / "a.mp4", flickering(2)), str(tmp_path / "b.mp4"))
    outcome = process(task, Settings(decompose=True), lambda settings: Brighten())
    assert outcome.status == "done"
    assert outcome.notes == ("illumination and reflectance of a video are not written",)


@pytest.mark.parametrize("method", ["he", "numpy:sqrt"])
def test_a_method_without_an_exposure_takes_frame_by_frame(tmp_path, programs, method):
    frames = flickering(4)
    outcome = process(Task(video(tmp_path / "a.mp4", frames), str(tmp_path / "b.mp4")), Settings(method))
    assert (outcome.status, outcome.reason) == ("done", None)
    assert outcome.notes == ("this method looks at each frame alone: its brightness may flicker",)
    assert np.array_equal(np.load(tmp_path / "b.mp4"), [Enhancer(method)(frame) for frame in frames])


def test_a_method_of_the_model_is_smoothed_in_time(tmp_path, programs):
    task = Task(video(tmp_path / "a.mp4", flickering(4)), str(tmp_path / "b.mp4"))
    assert process(task, Settings("pam")).notes == ()


def test_what_is_no_video(tmp_path, programs):
    (tmp_path / "a.mp4").write_bytes(b"nothing")
    with pytest.raises(UnreadableFile, match="not a video that ffmpeg reads: moov atom not found"):
        enhance_video(str(tmp_path / "a.mp4"), str(tmp_path / "b.mp4"), Brighten())
    with pytest.raises(UnreadableFile, match="no such file"):
        enhance_video(str(tmp_path / "no.mp4"), str(tmp_path / "b.mp4"), Brighten())
    source = video(tmp_path / "c.mp4", flickering(3))
    with pytest.raises(UnwritableFile, match="a video becomes one of"):
        enhance_video(source, str(tmp_path / "b.gif"), Brighten())
    with pytest.raises(UnreadableFile, match="the limit is 100"):
        enhance_video(source, str(tmp_path / "b.mp4"), Brighten(), max_pixels=100)


def test_an_existing_video_is_kept(tmp_path, programs):
    source = video(tmp_path / "a.mp4", flickering(2))
    (tmp_path / "b.mp4").write_bytes(b"old")
    with pytest.raises(TargetExists):
        enhance_video(source, str(tmp_path / "b.mp4"), Brighten())
    assert (tmp_path / "b.mp4").read_bytes() == b"old"


def test_an_enhancer_that_fails_midway_leaves_nothing(tmp_path, programs):
    source = video(tmp_path / "a.mp4", flickering(20))
    calls = []

    def breaks(frame):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return frame

    with pytest.raises(KeyboardInterrupt):
        enhance_video(source, str(tmp_path / "b.mp4"), breaks)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.mp4", "a.mp4.json", "bin"]


@pytest.mark.parametrize("layout", ["yuv420p10le", "yuv422p9be", "p010le", "gray14le", "gbrpf32le"])
def test_more_than_eight_bits_are_said(tmp_path, programs, layout):
    source = video(tmp_path / "a.mp4", flickering(2), pix_fmt=layout, avg_frame_rate="0/0", r_frame_rate="25/1")
    assert enhance_video(source, str(tmp_path / "b.mp4"), Brighten()) == ("the video was reduced to 8 bits a channel",)


@pytest.mark.parametrize("layout", ["yuv420p", "nv12", "nv16", "yuv410p", "rgb24", "bgr565le"])
def test_eight_bits_are_not_called_more(tmp_path, programs, layout):
    source = video(tmp_path / "a.mp4", flickering(2), pix_fmt=layout)
    assert enhance_video(source, str(tmp_path / "b.mp4"), Brighten()) == ()
