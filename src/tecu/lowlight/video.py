"""Enhance a video through ffmpeg: frames out, frames in, the sound copied.

What depends on the scene (illumination, exposure) is smoothed in time, ``e <- e + (1 - exp(-dt / 0.5 s)) (e_new - e)``,
so that nothing flickers; a cut starts it anew.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from tecu.atomic import escaped
from tecu.lowlight.files.atomic import part_beside
from tecu.lowlight.files.errors import MissingPart, UnreadableFile, UnwritableFile, shown
from tecu.lowlight.files.photo import Pixels
from tecu.lowlight.model import MODELS

TIME_CONSTANT = 0.5  # seconds
CUT = 0.12  # mean change of a frame's thumbnail, as a share of the range
_X264 = ["-c:v", "libx264", "-crf", "18", "-preset", "fast"]
_PACKED = re.compile(r"(rgb|bgr)(444|555|565)[lb]e")
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
    strip_metadata: bool = False,
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
    if _is_steady(enhancer):
        step = Steady(enhancer, float(rate[0] / rate[1]))
    else:
        notes.append("this method looks at each frame alone: its brightness may flicker")
    with part_beside(target, overwrite=overwrite) as part:
        making = _Making(ffmpeg, source, part, CONTAINERS[kind], f"{rate[0]}/{rate[1]}", strip_metadata)
        notes += _pipe(making, step, _counter(frames, total), max_pixels)
    return tuple(notes)


def _is_steady(enhancer: Any) -> bool:
    """Whether its exposure can be smoothed in time: a method of the model; the classical ones have no exposure."""
    known = hasattr(enhancer, "analyse") and hasattr(enhancer, "apply")
    return known and getattr(enhancer, "method", "tecu") in MODELS


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
    return rate, total, _is_deep(str(stream.get("pix_fmt")))


def _is_deep(layout: str) -> bool:
    """Whether a pixel format has more than 8 bits a channel: then its name ends with the order of its bytes.

    (So do the names of those that pack a whole pixel into two bytes.)

    >>> [_is_deep(layout) for layout in ("yuv420p9le", "p010le", "gbrpf32be", "nv12", "yuv410p", "rgb565le")]
    [True, True, True, False, False, False]
    """
    return layout.endswith(("le", "be")) and not _PACKED.fullmatch(layout)


def _fraction(text: Any) -> tuple[int, int] | None:
    above, _, below = str(text).partition("/")
    if not (above.isdigit() and (below or "1").isdigit()):
        return None
    rate = int(above), int(below or "1")
    return rate if rate[1] > 0 and 0 < rate[0] / rate[1] <= 1000 else None


@dataclass(frozen=True)
class _Making:
    """One video and what it becomes."""

    ffmpeg: str
    source: str
    part: Path
    container: tuple[str, list[str]]
    rate: str
    strip_metadata: bool

    @property
    def quiet(self) -> list[str]:
        return [self.ffmpeg, "-v", "error", "-nostdin"]

    def reading(self) -> list[str]:
        # The fps filter turns a variable rate into the constant one that raw frames have; PPM frames carry their size.
        video = ["-i", _local(self.source), "-map", "0:v:0", "-vf", f"fps={self.rate}"]
        return [*self.quiet, *video, "-f", "image2pipe", "-c:v", "ppm", "-"]

    def writing(self, shape: tuple[int, ...]) -> list[str]:
        rows, columns = shape[:2]
        layout = "yuv420p" if rows % 2 == 0 and columns % 2 == 0 else "yuv444p"  # halved colours need even sides
        frames = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{columns}x{rows}", "-r", self.rate, "-i", "-"]
        streams = ["-i", _local(self.source), "-map", "0:v:0", "-map", "1:a?", "-c:a", "copy"]
        streams += ["-map_metadata", "-1" if self.strip_metadata else "1"]
        # Say which matrix turned RGB into YUV: players guess it from the size of the picture otherwise.
        colour = ["-vf", "scale=out_color_matrix=bt709:out_range=tv", "-colorspace", "bt709"]
        colour += ["-color_primaries", "bt709", "-color_trc", "bt709"]
        muxer, codec = self.container
        end = ["-pix_fmt", layout, "-f", muxer, "-y", _local(str(self.part))]
        return [*self.quiet, *frames, *streams, *codec, *colour, *end]


def _pipe(
    making: _Making, step: Callable[[Pixels], Any], count: Callable[[int], None], max_pixels: int | None
) -> list[str]:
    """Decoder -> enhancer -> encoder; what they complained of, though they went on to the end."""
    name = shown(making.source)
    encoder: subprocess.Popen[bytes] | None = None
    with tempfile.TemporaryFile() as complaints, tempfile.TemporaryFile() as objections:
        decoder = subprocess.Popen(
            making.reading(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=complaints
        )
        try:
            assert decoder.stdout is not None
            for number, frame in enumerate(_frames(decoder.stdout, name, max_pixels), start=1):
                if encoder is None:
                    writing = making.writing(frame.shape)
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
            # Killed from outside (out of memory, say) its code is negative, and the frames end as if that was all.
            if encoder is None or decoder.poll() not in (None, 0):
                raise UnreadableFile(f"{name} could not be decoded: {_why(decoder, complaints)}")
            encoder.communicate()
            if encoder.returncode != 0:
                raise UnwritableFile(f"{name} could not be encoded by ffmpeg: {_why(encoder, objections)}")
            told = (("reading", complaints), ("writing", objections))
            return [f"ffmpeg complained while {doing} it: {_tail(said)}" for doing, said in told if _has_said(said)]
        finally:
            for process in (decoder, encoder):
                if process is not None:
                    _end(process)


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


def _why(process: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    code = process.returncode
    if code is not None and code < 0 and not _has_said(said):
        return f"ffmpeg was ended by signal {-code}"
    return _tail(said)


def _has_said(file: IO[bytes]) -> bool:
    file.seek(0)
    return bool(file.read().strip())


def _tail(file: IO[bytes]) -> str:
    file.seek(0)
    return _last_line(file.read())


def _last_line(text: bytes) -> str:
    lines = text.decode("utf-8", "replace").strip().splitlines()
    return escaped(lines[-1]) if lines else "it gave no reason"
