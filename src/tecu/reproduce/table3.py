"""Table 3 (NIQE of ten methods), with times and scores against references, on any photos."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from tecu.reproduce.photo_sets import DarkPhoto, PhotoSet, Pixels, from_folder, inside_packages

INPUT, TECU = "input", "tecu"
METHODS = (INPUT, "he", "bpdhe", "msrcr", "golw", "npea", "srie", "wvm", "jiep", "hdrnet", "lime", TECU)

PAPER_NIQE = {  # Table 3: NASA, Non-uniform
    "he": (3.68, 4.28), "bpdhe": (3.77, 3.09), "msrcr": (3.66, 3.04), "golw": (3.74, 2.99), "npea": (3.43, 2.99),
    "srie": (3.97, 3.02), "wvm": (3.86, 2.94), "jiep": (3.72, 2.97), "hdrnet": (3.72, 3.11), TECU: (3.41, 2.91),
}  # fmt: skip
PAPER_SECONDS = {  # the figure: a NASA photo, a Non-uniform photo
    "srie": (0.13, 0.51), "wvm": (2.08, 5.90), "jiep": (1.11, 3.12), "hdrnet": (4.94, 13.79), TECU: (0.10, 0.31),
}  # fmt: skip
SMALLEST_FOR_NIQE = (192, 96)
SATURATED = 255

REMARKS = (
    "Lower is better as a rule, but a dark input can score better than its good enhancement: read it beside the row of "
    "the untouched input, never alone. PSNR is plain: nothing is scaled to the reference. LOE is against the untouched "
    "input. Times are processor seconds, one photo at a time; the paper's are from another machine, on two photos of "
    "unknown size."
)

Enhance = Callable[[Pixels], Pixels]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Scores:
    """The figures of one method on one photo; ``nan`` where there is nothing to measure."""

    niqe: float
    psnr: float
    ssim: float
    loe: float
    seconds_per_megapixel: float
    newly_saturated: float  # percent of the pixels


COLUMNS = {
    "psnr": ("PSNR (dB)", "{:.2f}"), "ssim": ("SSIM", "{:.3f}"), "niqe": ("NIQE", "{:.2f}"), "loe": ("LOE", "{:.0f}"),
    "seconds_per_megapixel": ("s / MP", "{:.2f}"), "newly_saturated": ("newly saturated (%)", "{:.2f}"),
}  # fmt: skip


@dataclass
class SetResult:
    """All methods on one set: a score a photo, and the contact sheet's pictures."""

    name: str
    scores: dict[str, list[Scores]] = field(default_factory=dict)
    sheet: list[tuple[str, dict[str, Pixels]]] = field(default_factory=list)

    def mean(self, method: str, column: str) -> float:
        """The mean of a column over the photos that have it."""
        values = [getattr(score, column) for score in self.scores[method]]
        known = [value for value in values if not math.isnan(value)]
        return float(np.mean(known)) if known else math.nan

    @property
    def methods(self) -> list[str]:
        """The rows, in the order in which they were asked for."""
        return list(self.scores)


def enhancer(method: str) -> Enhance:
    """The function ``uint8 -> uint8`` of a method: its name, ``input``, or ``module:function`` of your own.

    >>> import numpy as np
    >>> enhancer("numpy:sqrt")(np.full((1, 1, 3), 64, np.uint8)).tolist()
    [[[128, 128, 128]]]
    """
    if method == INPUT:
        return lambda image: image
    from tecu.lowlight import Enhancer, classical

    if ":" not in method and method not in classical.METHODS:
        return Enhancer(method)
    # Not through Enhancer: it keeps pixels from being newly saturated, and here they are to be counted.
    function = classical.get(method)
    if ":" in method:
        function = _told_by_name(function, method)

    def own(image: Pixels) -> Pixels:
        result = classical.applied(function, image.astype(np.float32) / np.float32(255), method)
        return np.asarray(np.rint(np.clip(result, 0.0, 1.0) * 255.0), dtype=np.uint8)

    return own


def _told_by_name(function: Enhance, method: str) -> Enhance:
    """A function of somebody's own, in which anything may happen: what does is told in a sentence with its name."""
    from tecu.lowlight.classical import reason

    def called(picture: Pixels) -> Pixels:
        shape = picture.shape
        try:
            return function(picture)
        except MemoryError:
            raise
        except (Exception, SystemExit) as error:
            raise ValueError(f"method {method!r} failed on a picture of shape {shape}: {reason(error)}") from error

    return called


def measure(enhance: Enhance, photo: DarkPhoto) -> tuple[Scores, Pixels]:
    """One method on one photo. Time is processor time, one run."""
    from tecu.metrics import loe, niqe, psnr, ssim

    began = time.process_time()
    result = enhance(photo.dark)
    seconds = time.process_time() - began
    height, width = result.shape[:2]
    large = max(height, width) >= SMALLEST_FOR_NIQE[0] and min(height, width) >= SMALLEST_FOR_NIQE[1]
    pair = photo.reference is not None and photo.reference.shape == result.shape
    new = (result.max(axis=2) >= SATURATED) & (photo.dark.max(axis=2) < SATURATED)
    scores = Scores(
        niqe=niqe(result) if large else math.nan,
        psnr=psnr(result, photo.reference) if pair else math.nan,
        ssim=ssim(result, photo.reference) if pair and min(height, width) >= 7 else math.nan,
        loe=loe(result, photo.dark),
        seconds_per_megapixel=seconds / (height * width / 1e6),
        newly_saturated=100.0 * float(np.mean(new)),
    )
    return scores, result


def run(
    folders: Iterable[str | Path] = (),
    methods: Sequence[str] = METHODS,
    *,
    limit: int | None = None,
    sheet_rows: int = 4,
    say: Say = lambda line: None,
) -> list[SetResult]:
    """All methods on the photos of each folder; without a folder on the built-in ones.

    ``limit`` takes the first photos of each set only; ``sheet_rows`` are kept for the contact sheet.
    """
    folders = list(folders)
    sets: list[PhotoSet] = [from_folder(folder) for folder in folders] or inside_packages()
    functions = {method: enhancer(method) for method in methods}
    tiny = np.full((16, 16, 3), 30, np.uint8)
    for function in functions.values():
        function(tiny)  # what is compiled or loaded once does not count
    results = []
    for photos in sets:
        result = SetResult(photos.name, {method: [] for method in methods})
        count = len(photos) if limit is None else min(limit, len(photos))
        for place, photo in zip(range(count), photos, strict=False):
            say(f"{photos.name}: {photo.name} ({place + 1} of {count})")
            pictures: dict[str, Pixels] = {}
            for method, function in functions.items():
                scores, picture = measure(function, photo)
                result.scores[method].append(scores)
                pictures[method] = picture
            if place < sheet_rows:
                if photo.reference is not None:
                    pictures["reference"] = photo.reference
                result.sheet.append((photo.name, pictures))
        results.append(result)
    return results


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, and what we found: ``True``, ``False``, or ``None`` where it could not be tested."""

    text: str
    holds: bool | None
    found: str

    @property
    def verdict(self) -> str:
        """In words."""
        return {True: "holds", False: "does not hold", None: "not tested"}[self.holds]


def claims(result: SetResult) -> list[Claim]:
    """The claims about this table, judged on one set."""
    return [
        _best(result, "niqe", "TECU has the lowest NIQE of the table", lowest=True),
        _best(result, "psnr", "TECU has the highest PSNR of the table", lowest=False),
        _best(result, "ssim", "TECU has the highest SSIM of the table", lowest=False),
        _best(
            result, "seconds_per_megapixel", "TECU is faster than SRIE, WVM, JIEP and HDRNet", lowest=True,
            among=("srie", "wvm", "jiep", "hdrnet"),
        ),
    ]  # fmt: skip


def _best(result: SetResult, column: str, text: str, *, lowest: bool, among: Sequence[str] | None = None) -> Claim:
    others = [m for m in result.methods if m not in (INPUT, TECU) and (among is None or m in among)]
    values = {m: result.mean(m, column) for m in [*others, TECU] if m in result.scores}
    values = {m: v for m, v in values.items() if not math.isnan(v)}
    if TECU not in values or len(values) < 2:
        return Claim(text, None, "no figures")
    order = sorted(values, key=lambda m: values[m] if lowest else -values[m])
    form = COLUMNS[column][1]
    found = f"{order[0]} {form.format(values[order[0]])}"
    if order[0] == TECU:
        found += f", then {order[1]} {form.format(values[order[1]])}"
    else:
        found += f"; tecu is number {order.index(TECU) + 1} with {form.format(values[TECU])}"
    return Claim(text, order[0] == TECU, found)


def markdown(results: Sequence[SetResult]) -> str:
    """The tables of all sets, the paper's numbers and the verdicts."""
    from tecu.metrics.niqe import ORIGIN

    lines = []
    for result in results:
        count = len(next(iter(result.scores.values()), []))
        lines += [f"## {result.name} ({count} photos)", ""]
        columns = [c for c in COLUMNS if any(not math.isnan(result.mean(m, c)) for m in result.methods)]
        lines += _rows(["", *(COLUMNS[c][0] for c in columns), "paper: NIQE NASA / Non-uniform", "paper: s"])
        for method in result.methods:
            niqe, seconds = PAPER_NIQE.get(method), PAPER_SECONDS.get(method)
            cells = [_number(result.mean(method, c), COLUMNS[c][1]) for c in columns]
            beside = [" / ".join(f"{v:.2f}" for v in pair) if pair else "" for pair in (niqe, seconds)]
            lines.append("| " + " | ".join([_label(method), *cells, *beside]) + " |")
        lines += ["", *(f"- {c.text}: **{c.verdict}** ({c.found})." for c in claims(result)), ""]
    lines += [f"NIQE: {ORIGIN}. {REMARKS}", ""]
    return "\n".join(lines)


def _label(method: str) -> str:
    return {INPUT: "untouched input", TECU: "**tecu**"}.get(method, method)


def _rows(head: Sequence[str]) -> list[str]:
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]


def _number(value: float, form: str) -> str:
    return "" if math.isnan(value) else form.format(value)


def as_json(results: Sequence[SetResult]) -> str:
    """All scores of all photos, for further use."""
    data: list[dict[str, Any]] = [
        {
            "set": result.name,
            "scores": {m: [vars(score) for score in scores] for m, scores in result.scores.items()},
            "claims": [vars(claim) for claim in claims(result)],
        }
        for result in results
    ]
    return json.dumps(data, indent=1).replace("NaN", "null")
