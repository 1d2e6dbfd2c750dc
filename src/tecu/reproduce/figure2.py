"""The figure of PSNR against iterations: PAM, the printed model and the anchored one, from the same start.

The paper's curve rises. Its printed model cannot do that: the objective is zero at a constant illumination, and the
sub-problem of I has one minimiser, so the steps that follow the network walk back from what it proposed. With the
network's illumination as an anchor in the objective, the solver has something to converge to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tecu.atomic import part_beside, write_bytes
from tecu.lowlight import model
from tecu.lowlight.grid import shrink
from tecu.lowlight.network import default_network
from tecu.reproduce.photo_sets import DarkPhoto

Column = np.ndarray[Any, np.dtype[np.float64]]

METHODS = {"pam": "PAM (no network)", "paper": "as printed", "anchored": "anchored (ours)"}
ITERATIONS = 15


@dataclass(frozen=True)
class Figure2:
    """Mean PSNR of ``O / I`` to the reference and mean inner steps, by iteration (PSNR from iteration 0 on)."""

    psnr: Mapping[str, Column]
    inner: Mapping[str, Column]
    photos: int

    @property
    def finding(self) -> str:
        """What the curves say, in sentences."""
        lines = []
        for name, label in METHODS.items():
            curve, best = self.psnr[name], int(np.argmax(self.psnr[name]))
            lines.append(
                f"{label}: {curve[0]:.2f} dB at the start, at most {curve[best]:.2f} (iteration {best}), "
                f"{curve[-1]:.2f} after {len(curve) - 1}; {self.inner[name].mean():.0f} inner steps a visit."
            )
        lines.append(
            "The printed model has no useful minimum (a constant I has the value 0): its result is that of stopping "
            "early, and its iterates leave the network's proposal. The anchored model stays where the network and the "
            "picture agree. PAM has one fixed smoothness here and does better where it is tuned to a data set; the "
            "network's merit is that one setting serves all pictures."
        )
        return "\n".join(lines)

    def table(self) -> str:
        """The curves as comma-separated values."""
        rows = ["iteration," + ",".join(METHODS)]
        count = len(next(iter(self.psnr.values())))
        rows += [f"{t}," + ",".join(f"{self.psnr[name][t]:.4f}" for name in METHODS) for t in range(count)]
        return "\n".join(rows) + "\n"


def run(photos: Iterable[DarkPhoto], iterations: int = ITERATIONS) -> Figure2:
    """The curves for photos with a reference, on the grid on which pictures are decomposed."""
    curves: dict[str, list[Column]] = {name: [] for name in METHODS}
    inner: dict[str, list[Column]] = {name: [] for name in METHODS}
    count = 0
    for photo in photos:
        if photo.reference is None:
            continue
        count += 1
        dark, reference = shrink(photo.dark), shrink(photo.reference)
        for name in METHODS:
            curve, steps = _one(dark, reference, name, iterations)
            curves[name].append(curve)
            inner[name].append(steps)
    if count == 0:
        raise ValueError("figure2 needs photos with a reference: a folder with 'low' and 'high', or the built-in ones")
    return Figure2(
        {name: np.mean(found, axis=0) for name, found in curves.items()},
        {name: np.mean(found, axis=0) for name, found in inner.items()},
        count,
    )


def _one(dark: Any, reference: Any, method: str, iterations: int) -> tuple[Column, Column]:
    observed = np.ascontiguousarray(dark.max(axis=-1))
    solver, start = model.MODELS[method](observed, default_network()(dark).illumination)
    if method == "anchored":  # all from the start of the others, so that the curves can be compared
        start = model.MODELS["pam"](observed, observed)[1]
    values = [_psnr(dark, start["I"], reference)]
    state = None
    for state in islice(solver.iterate(start), iterations):
        values.append(_psnr(dark, state.z["I"], reference))
    visits = [] if state is None else [visit.inner for visit in state.visits if visit.block == "I"]
    return np.array(values), np.array(visits, dtype=np.float64)


def _psnr(dark: Any, light: Any, reference: Any) -> float:
    result = np.clip(dark / light[..., None], 0.0, 1.0)
    return float(-10.0 * np.log10(np.mean((result - reference) ** 2) + 1e-12))


def draw(figure: Figure2) -> Any:
    """A matplotlib figure of the curves."""
    from matplotlib.figure import Figure

    canvas = Figure(figsize=(6.0, 4.0), layout="constrained")
    axes = canvas.subplots()
    styles = (("#0072B2", "o", "-"), ("#D55E00", "s", "--"), ("#009E73", "^", "-."))  # told apart in print too
    for (name, label), (colour, marker, line) in zip(METHODS.items(), styles, strict=True):
        axes.plot(figure.psnr[name], color=colour, marker=marker, linestyle=line, markersize=4, label=label)
    axes.set(xlabel="iteration", ylabel="PSNR of O / I (dB)", title=f"Mean of {figure.photos} photos")
    axes.legend()
    return canvas


def save(figure: Figure2, folder: str | Path) -> list[Path]:
    """Write ``figure2.svg``, ``figure2.csv`` and ``figure2.md`` (the finding) into ``folder``."""
    table, finding, picture = (Path(folder) / f"figure2.{suffix}" for suffix in ("csv", "md", "svg"))
    write_bytes(table, figure.table().encode("utf-8"), overwrite=True)
    write_bytes(finding, f"# Figure 2\n\n{figure.finding}\n".encode(), overwrite=True)
    with part_beside(picture, overwrite=True) as part:
        draw(figure).savefig(part, format="svg")
    return [picture, finding, table]
