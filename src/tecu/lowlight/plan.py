"""Which files are to be enhanced, and where each result goes."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tecu.lowlight.files import READABLE, WRITABLE
from tecu.lowlight.files.errors import shown
from tecu.lowlight.files.foreign import HEIF_SUFFIXES, RAW_SUFFIXES
from tecu.lowlight.files.read import MPO_SUFFIXES

STREAM = "-"
PARTS = ("illumination", "reflectance")  # of a decomposition, written beside the result
VIDEO = frozenset({".mp4", ".mov", ".m4v", ".mkv", ".webm", ".avi", ".mts", ".m2ts", ".3gp"})
_WILD = frozenset("*?[")


@dataclass(frozen=True)
class Task:
    """One file to read and one to write; ``"-"`` stands for the standard streams."""

    source: str
    target: str

    @property
    def is_video(self) -> bool:
        """Whether the source's name is that of a video."""
        return Path(self.source).suffix.lower() in VIDEO

    def results(self, decompose: bool = False) -> list[str]:
        """The files that are written: the result, and the parts of a decomposition if there is one.

        >>> Task("a.jpg", "b.jpg").results(decompose=True)
        ['b.jpg', 'b-illumination.png', 'b-reflectance.png']
        """
        if self.target == STREAM:
            return []
        parts = PARTS if decompose and not self.is_video else ()
        return [self.target, *(part_path(self.target, part) for part in parts)]


@dataclass(frozen=True)
class Refusal:
    """An input that cannot be a task, and why."""

    source: str
    reason: str
    unwritable: bool = False


@dataclass
class Survey:
    """What the inputs hold: tasks, what cannot be one, and the files in folders that are left out as no photos.

    ``earlier`` are results of an earlier run that were named as inputs, too (by the shell's ``*.jpg``, say), or that
    lie in a folder of results that was; those in other folders, and hidden files, are nowhere.
    """

    tasks: list[Task] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    earlier: list[str] = field(default_factory=list)


def plan(inputs: Sequence[str], out: str | None, *, recursive: bool = False) -> tuple[list[Task], list[Refusal]]:
    """Tasks and refusals of a :func:`survey`.

    >>> plan(["-"], None)
    ([Task(source='-', target='-')], [])
    """
    surveyed = survey(inputs, out, recursive=recursive)
    return surveyed.tasks, surveyed.refusals


def survey(inputs: Sequence[str], out: str | None, *, recursive: bool = False, decompose: bool = False) -> Survey:
    """Files, folders (their tree is mirrored) and patterns to tasks; no target is an original or occurs twice.

    ``out`` is a file if there is a single input file and the name has the suffix of a photo or a video; otherwise a
    folder, and such a name is refused unless the folder exists or the name ends with ``/``. Without ``out``, ``a.jpg``
    becomes ``a-enhanced.jpg`` beside it, and that is a result, not an input.
    """
    if not inputs:
        raise ValueError("give at least one file or folder")
    if STREAM in inputs or out == STREAM:
        return Survey([_stream(inputs, out)])
    result = Survey()
    found = _found(inputs, recursive, out, result)
    as_file = _is_file(inputs, out)
    if out is None:
        found = _without_earlier(found, result)
    tasks = [Task(source, _target(source, below, out, as_file)) for source, below in found]
    result.tasks = _checked(tasks, result.refusals, decompose)
    return result


def _stream(inputs: Sequence[str], out: str | None) -> Task:
    if len(inputs) > 1:
        raise ValueError("'-' reads or writes one picture: give a single input with it")
    source = inputs[0]
    target = STREAM if out is None else out
    if target != STREAM and not os.path.isdir(target):
        _is_file(inputs, out)  # refuses a name that no picture can have
    if source == STREAM and target != STREAM and (os.path.isdir(target) or target.endswith(os.sep)):
        raise ValueError("a picture from standard input has no name: give -o a file, not a folder")
    return Task(source, target)


def _found(inputs: Sequence[str], recursive: bool, out: str | None, result: Survey) -> list[tuple[str, str]]:
    """Pairs of a file and its path below the folder it was found in (its bare name if it was named outright)."""
    found: dict[str, tuple[str, str]] = {}  # a file named twice, or in two ways, is done once
    others: dict[str, str] = {}
    for given in inputs:
        paths = [given]
        if not os.path.lexists(given) and _WILD & set(given):
            paths = sorted(glob.glob(given, recursive=True))
            if not paths:
                result.refusals.append(Refusal(given, f"nothing matches {shown(given)}"))
        for path in paths:
            if not os.path.isdir(path):
                found.setdefault(os.path.abspath(path), (path, os.path.basename(path)))
                continue
            before = len(result.refusals)
            if max(len(inputs), len(paths)) > 1 and out is not None and os.path.realpath(path) == os.path.realpath(out):
                result.earlier += _walk(path, recursive, out, result.refusals, {})  # the shell's ``*`` names it, too
                continue
            inside = list(_walk(path, recursive, out, result.refusals, others))
            for file in inside:
                found.setdefault(os.path.abspath(file), (file, os.path.relpath(file, path)))
            if not inside and len(result.refusals) == before:
                hint = "" if recursive else "; -r looks into its folders too"
                result.refusals.append(Refusal(path, f"{shown(path)} holds no photos{hint}"))
    result.others = [path for place, path in others.items() if place not in found]  # a video may be named outright
    return list(found.values())


def _without_earlier(found: list[tuple[str, str]], result: Survey) -> list[tuple[str, str]]:
    """The files of which no other one is the original."""
    made = {
        os.path.abspath(os.path.join(os.path.dirname(path), name))
        for path, below in found
        for name in _results_beside(os.path.basename(below))
    }
    result.earlier = [path for path, _ in found if os.path.abspath(path) in made]
    return [(path, below) for path, below in found if os.path.abspath(path) not in made]


def _walk(
    folder: str, recursive: bool, out: str | None, refusals: list[Refusal], others: dict[str, str]
) -> Iterator[str]:
    """Photos in ``folder`` by their suffix, in order; links to folders are not followed, hidden names are left out.

    (A hidden ``._a.jpg`` is what a Mac notes of ``a.jpg``, a hidden folder keeps thumbnails or what was deleted.)
    Results of an earlier run are none: ``out`` is not entered, and without one ``a-enhanced.jpg`` beside ``a.jpg`` is
    left out. Folders that cannot be read are refused. Other files go to ``others``, by their absolute paths.
    """

    def seen(names: list[str]) -> list[str]:
        return [name for name in names if not name.startswith(".")]

    def closed(error: OSError) -> None:
        why = (error.strerror or type(error).__name__).lower()
        refusals.append(Refusal(str(error.filename), f"{shown(error.filename)} could not be read: {why}"))

    results = None if out is None else os.path.realpath(out)
    for root, folders, files in os.walk(folder, onerror=closed):
        folders[:] = sorted(
            f for f in seen(folders) if recursive and os.path.realpath(os.path.join(root, f)) != results
        )
        files = seen(files)
        photos = [name for name in sorted(files) if _suffix(name) in READABLE]
        videos = [name for name in files if _suffix(name) in VIDEO]
        earlier = set() if out is not None else {made for name in photos + videos for made in _results_beside(name)}
        yield from (os.path.join(root, name) for name in photos if name not in earlier)
        for name in sorted(files):
            if _suffix(name) not in READABLE and name not in earlier:
                path = os.path.join(root, name)
                others[os.path.abspath(path)] = path


def photos_in(folder: str) -> list[str]:
    """The photos in ``folder`` itself, by their suffix and in order; hidden ones are left out."""
    names = (name for name in sorted(os.listdir(folder)) if _suffix(name) in READABLE and not name.startswith("."))
    return [path for name in names if not os.path.isdir(path := os.path.join(folder, name))]


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _results_beside(name: str) -> list[str]:
    """What a photo becomes in its own folder: the result, and the parts of a decomposition."""
    result = _target(name, name, None, as_file=False)
    return [result, *(part_path(result, part) for part in PARTS)]


def part_path(target: str, part: str) -> str:
    """Where a part of the decomposition goes.

    >>> part_path("out/a.jpg", "illumination")
    'out/a-illumination.png'
    """
    return f"{os.path.splitext(target)[0]}-{part}.png"


def _is_file(inputs: Sequence[str], out: str | None) -> bool:
    """Whether ``out`` names a file; a name that is neither file nor folder for us is an error."""
    if out is None or os.path.isdir(out) or out.endswith(("/", os.sep)):
        return False
    suffix, is_video = Path(out).suffix.lower(), Path(inputs[0]).suffix.lower() in VIDEO
    if len(inputs) > 1 or os.path.isdir(inputs[0]) or (not os.path.lexists(inputs[0]) and _WILD & set(inputs[0])):
        if suffix in WRITABLE or suffix in VIDEO:
            raise ValueError(
                f"{shown(out)}: this is the name of one file, and the inputs may be several; give -o a folder (a name "
                f"that ends with '/' is one)"
            )
        return False
    if suffix in (VIDEO if is_video else WRITABLE):
        return True
    if suffix in VIDEO or (is_video and suffix):
        kind, other = ("a video", "a photo") if is_video else ("a photo", "a video")
        raise ValueError(f"{shown(out)}: {shown(inputs[0])} is {kind}, and this is the name of {other}")
    if suffix:
        kinds = " ".join(sorted(WRITABLE))
        raise ValueError(
            f"{shown(out)}: a file ending in {suffix} cannot be written; take one of {kinds}, or end a "
            f"folder's name with '/'"
        )
    return False


def _target(source: str, below: str, out: str | None, as_file: bool) -> str:
    if as_file and out is not None:
        return out
    suffix = _suffix(below)
    if suffix in HEIF_SUFFIXES | MPO_SUFFIXES:
        below = os.path.splitext(below)[0] + ".jpg"
    elif suffix in RAW_SUFFIXES:
        below = os.path.splitext(below)[0] + ".tif"
    if out is not None:
        return os.path.join(out, below)
    stem, suffix = os.path.splitext(os.path.basename(below))
    return os.path.join(os.path.dirname(source), f"{stem}-enhanced{suffix}")


def _checked(tasks: list[Task], refusals: list[Refusal], decompose: bool) -> list[Task]:
    """Without the tasks that would write over an original or over each other, which are refused."""
    originals = {identity for task in tasks if (identity := _identity(task.source)) is not None}
    taken: dict[str, str] = {}
    kept = []
    for task in tasks:
        places = {os.path.normcase(os.path.abspath(path)): path for path in task.results(decompose)}
        shared = next((place for place in places if place in taken), None)
        if (identity := _identity(task.target)) is not None and identity in originals:
            reason = f"{shown(task.target)} is an original, which is never written over; choose another -o"
            refusals.append(Refusal(task.source, reason, unwritable=True))
        elif shared is not None:
            would = "become" if places[shared] == task.target else "give"
            reason = f"{shown(task.source)} and {shown(taken[shared])} would both {would} {shown(places[shared])}"
            refusals.append(Refusal(task.source, reason, unwritable=True))
        else:
            taken.update(dict.fromkeys(places, task.source))
            kept.append(task)
    return kept


def _identity(path: str) -> tuple[int, int] | None:
    """What the file is, whatever its name: links and other spellings give the same."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino
