"""Enhance a video through ffmpeg: frames out, frames in, the sound copied.

What depends on the scene (illumination, exposure) is smoothed in time, ``e <- e + (1 - exp(-dt / 0.5 s)) (e_new - e)``,
so that nothing flickers; a cut starts it anew.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from tecu.atomic import escaped
from tecu.lowlight.files.atomic import part_beside
from tecu.lowlight.files.errors import MissingPart, UnreadableFile, UnwritableFile, shown
from tecu.lowlight.files.photo import Pixels

TIME_CONSTANT = 0.5  # seconds
CUT = 0.12  # mean change of a frame's thumbnail, as a share of the range
_X264 = ["-c:v", "libx264", "-crf", "18", "-preset", "fast"]
CONTAINERS = {
    ".mp4": ("mp4", [*_X264, "-movflags", "+faststart"]),
    ".m4v": ("mp4", [*_X264, "-movflags", "+faststart"]),
    ".mov": ("mov", [*_X264, "-movflags", "+faststart"]),
    ".3gp": ("3gp", _X264),
    ".mkv": ("matroska", _X264),
    ".avi": ("avi", _X264),
    ".mts": ("mpegts", _X264),
    ".m2ts": ("mpegts", _X264),
    ".webm": ("webm", ["-c:v", "libvpx-vp9", "-crf", "24", "-b:v", "0", "-row-mt", "1"]),
}


class Steady:
    """An enhancer for the frames of one video, its exposure smoothed in time.

    ``enhancer`` offers ``analyse(frame)``, whose answer has ``blend(other, weight)``, and ``apply(frame, exposure)``.
    """

    def __init__(self, enhancer: Any, rate: float) -> None:
        self.enhancer, self.weight = enhancer, 1.0 - math.exp(-1.0 / (rate * TIME_CONSTANT))
        self.exposure: Any = None
        self.thumbnail: Pixels | None = None

    def __call__(self, frame: Pixels) -> Pixels:
        """The next frame, enhanced."""
        fresh = self.enhancer.analyse(frame)
        cut = self._is_cut(frame)
        self.exposure = fresh if self.exposure is None or cut else self.exposure.blend(fresh, self.weight)
        return np.asarray(self.enhancer.apply(frame, self.exposure))

    def _is_cut(self, frame: Pixels) -> bool:
        rows, columns = (max(1, n // 24) for n in frame.shape[:2])
        small = frame[::rows, ::columns].astype(np.float64) / np.iinfo(frame.dtype).max
        before, self.thumbnail = self.thumbnail, small
        return before is not None and float(np.mean(np.abs(small - before))) > CUT


def enhance_video(
    source: str,
    target: str,
    enhancer: Any,
    overwrite: bool = False,
    frames: Callable[[int, int | None], None] | None = None,
    max_pixels: int | None = None,
) -> tuple[str, ...]:
    """Write ``source`` enhanced to ``target``; ``frames(done, total)`` is called after each. Returns notes."""
    name = shown(source)
    ffmpeg, ffprobe = (shutil.which(program) for program in ("ffmpeg", "ffprobe"))
    if ffmpeg is None or ffprobe is None:
        raise MissingPart(f"{name} is a video; install ffmpeg (https://ffmpeg.org) to enhance it")
    if not os.path.isfile(source):
        raise UnreadableFile(f"{name} could not be opened: there is no such file")
    kind = Path(target).suffix.lower()
    if kind not in CONTAINERS:
        raise UnwritableFile(
            f"{shown(target)}: a video becomes one of {' '.join(CONTAINERS)}, not {kind or 'a folder'}"
        )
    rate, total, deep = _probe(ffprobe, source, name)
    notes = ["the video was reduced to 8 bits a channel"] if deep else []
    step: Callable[[Pixels], Any] = enhancer
    if hasattr(enhancer, "analyse") and hasattr(enhancer, "apply"):
        step = Steady(enhancer, float(rate[0] / rate[1]))
    else:
        notes.append("this method looks at each frame alone: its brightness may flicker")
    with part_beside(target, overwrite=overwrite) as part:
        _pipe(ffmpeg, source, part, CONTAINERS[kind], f"{rate[0]}/{rate[1]}", step, _counter(frames, total), max_pixels)
    return tuple(notes)


def _counter(frames: Callable[[int, int | None], None] | None, total: int | None) -> Callable[[int], None]:
    return (lambda done: frames(done, total)) if frames is not None else (lambda done: None)


def _probe(ffprobe: str, source: str, name: str) -> tuple[tuple[int, int], int | None, bool]:
    """Frames a second as a fraction, how many there are (if known), whether they have more than 8 bits."""
    fields = "stream=avg_frame_rate,r_frame_rate,nb_frames,pix_fmt,duration:format=duration"
    command = [ffprobe, "-v", "error", "-select_streams", "v:0", "-show_entries", fields, "-of", "json", _local(source)]
    answer = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, check=False)
    try:
        found = json.loads(answer.stdout)
        stream = found["streams"][0]
        rate = _fraction(stream.get("avg_frame_rate")) or _fraction(stream.get("r_frame_rate")) or (25, 1)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UnreadableFile(f"{name} is not a video that ffmpeg reads: {_last_line(answer.stderr)}") from error
    total: int | None = None
    seconds = stream.get("duration") or found.get("format", {}).get("duration")
    if str(stream.get("nb_frames", "")).isdigit():
        total = int(stream["nb_frames"])
    elif seconds is not None:
        total = round(float(seconds) * rate[0] / rate[1])
    return rate, total, any(depth in str(stream.get("pix_fmt")) for depth in ("10", "12", "16"))


def _fraction(text: Any) -> tuple[int, int] | None:
    above, _, below = str(text).partition("/")
    if not (above.isdigit() and (below or "1").isdigit()):
        return None
    rate = int(above), int(below or "1")
    return rate if rate[1] > 0 and 0 < rate[0] / rate[1] <= 1000 else None


def _pipe(
    ffmpeg: str,
    source: str,
    part: Path,
    container: tuple[str, list[str]],
    rate: str,
    step: Callable[[Pixels], Any],
    count: Callable[[int], None],
    max_pixels: int | None,
) -> None:
    """Decoder -> enhancer -> encoder."""
    quiet = [ffmpeg, "-v", "error", "-nostdin"]
    # The fps filter turns a variable rate into the constant one that raw frames have; PPM frames carry their size.
    reading = [
        *quiet,
        "-i",
        _local(source),
        "-map",
        "0:v:0",
        "-vf",
        f"fps={rate}",
        "-f",
        "image2pipe",
        "-c:v",
        "ppm",
        "-",
    ]
    encoder: subprocess.Popen[bytes] | None = None
    with tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as objections:
        decoder = subprocess.Popen(reading, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints)
        try:
            assert decoder.stdout is not None
            for number, frame in enumerate(_frames(decoder.stdout, shown(source), max_pixels), start=1):
                if encoder is None:
                    writing = [*quiet, *_encoding(source, part, container, rate, frame.shape)]
                    encoder = subprocess.Popen(
                        writing, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=objections
                    )
                assert encoder.stdin is not None
                try:
                    encoder.stdin.write(np.ascontiguousarray(step(frame)).data)
                except BrokenPipeError:
                    break  # the encoder says why below
                count(number)
            else:
                decoder.wait()
            if encoder is None or (decoder.poll() or 0) > 0:
                raise UnreadableFile(f"{shown(source)} could not be decoded: {_tail(complaints)}")
            encoder.communicate()
            if encoder.returncode != 0:
                raise UnwritableFile(f"{shown(source)} could not be encoded by ffmpeg: {_tail(objections)}")
        finally:
            for process in (decoder, encoder):
                if process is not None:
                    _end(process)


def _encoding(
    source: str, part: Path, container: tuple[str, list[str]], rate: str, shape: tuple[int, ...]
) -> list[str]:
    rows, columns = shape[:2]
    layout = "yuv420p" if rows % 2 == 0 and columns % 2 == 0 else "yuv444p"  # halved colours need even sides
    frames = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{columns}x{rows}", "-r", rate, "-i", "-"]
    streams = ["-i", _local(source), "-map", "0:v:0", "-map", "1:a?", "-map_metadata", "1", "-c:a", "copy"]
    # Say which matrix turned RGB into YUV: players guess it from the size of the picture otherwise.
    colour = ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-colorspace", "bt709"]
    colour += ["-color_primaries", "bt709", "-color_trc", "bt709"]
    muxer, codec = container
    return [*frames, *streams, *codec, *colour, "-pix_fmt", layout, "-f", muxer, "-y", _local(str(part))]


def _frames(stream: IO[bytes], name: str, max_pixels: int | None) -> Iterator[Pixels]:
    """The pictures of a stream of PPM files ``P6\\n<columns> <rows>\\n255\\n<bytes>``."""
    while kind := stream.readline(16):
        size = stream.readline(32).split()
        if kind != b"P6\n" or len(size) != 2 or stream.readline(16) != b"255\n":
            raise UnreadableFile(f"{name} could not be decoded: ffmpeg's frames are not as expected")
        columns, rows = int(size[0]), int(size[1])
        if max_pixels is not None and rows * columns > max_pixels:
            raise UnreadableFile(f"{name} has frames of {columns} x {rows} pixels, the limit is {max_pixels:,}")
        data = stream.read(3 * rows * columns)
        if len(data) < 3 * rows * columns:
            raise UnreadableFile(f"{name} could not be decoded: it ends within a frame")
        yield np.frombuffer(data, np.uint8).reshape(rows, columns, 3)


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            try:
                stream.close()
            except OSError:  # what was still to be flushed has nowhere to go
                continue
    if process.poll() is None:
        process.kill()
    process.wait()


def _local(path: str) -> str:
    """A name that ffmpeg takes for a file, whatever it looks like (``http:x.mp4``, ``-y.mp4``)."""
    return f"file:{path}"


def _tail(file: IO[bytes]) -> str:
    file.seek(0)
    return _last_line(file.read())


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return escaped(lines[-1]) if lines else "it gave no reason"
