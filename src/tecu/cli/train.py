"""``tecu train``: the networks of the enhancer, from your own clean photos."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tecu.atomic import shown
from tecu.cli.main import PART_MISSING
from tecu.cli.outputs import check_outputs, unwritten
from tecu.extras import how_to_get

if TYPE_CHECKING:
    from tecu.lowlight.training import Progress


@click.command()
@click.argument("photos", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--output", "target", required=True, type=click.Path(dir_okay=False, path_type=Path),
              help="The ONNX file to write.")  # fmt: skip
@click.option("--network", type=click.Choice(["tecu", "hdrnet"]), default="tecu", show_default=True,
              help="The networks of the enhancer, or a small HDRNet for the table of methods.")  # fmt: skip
@click.option("--steps", type=click.IntRange(1), default=None, help="Steps of the illumination network, or of HDRNet.")
@click.option("--tone-pairs", type=click.IntRange(32), default=None, help="Pictures the tone network is trained on.")
@click.option("--tone-epochs", type=click.IntRange(1), default=None, help="How often each of them is seen.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of weights and pairs.")
@click.option("--threads", type=click.IntRange(1), default=None, help="Threads of torch.")
@click.option("--checkpoint", type=click.Path(dir_okay=False, path_type=Path), default=None,
              help="Where to keep the state; a run that was interrupted goes on from it.")  # fmt: skip
@click.option("--licence", default="not stated", show_default=True, help="The licence of the weights, for the card.")
@click.option("--overwrite", is_flag=True, help="Replace OUTPUT if it exists.")
def train(
    photos: Path,
    target: Path,
    network: str,
    steps: int | None,
    tone_pairs: int | None,
    tone_epochs: int | None,
    seed: int,
    threads: int | None,
    checkpoint: Path | None,
    licence: str,
    overwrite: bool,
) -> int:
    """Train the networks of `tecu enhance` from a folder of clean, well-exposed PHOTOS.

    Dark pictures are made from them on the fly. A file licences.csv in the folder (columns file, licence, author,
    source) goes into the model's card. Use the result with `tecu enhance --model OUTPUT`.
    """
    if network == "hdrnet":
        _refuse_idle_options({"--checkpoint": checkpoint, "--tone-pairs": tone_pairs, "--tone-epochs": tone_epochs})
    check_outputs({"-o": target}, [photos], overwrite, resumed={"--checkpoint": checkpoint})
    try:
        import onnx  # noqa: F401  (found missing now, not after half an hour of training)
        import torch

        from tecu.lowlight import training
        from tecu.lowlight.training.export import export, model_card
    except ImportError as error:
        click.echo(f"Training needs torch and onnx: {how_to_get('train')}; {error}", err=True)
        return PART_MISSING
    if threads is not None:
        torch.set_num_threads(threads)
    if network == "hdrnet":
        return _train_hdrnet(photos, target, steps, seed, licence)
    chosen = {"steps": steps, "tone_pairs": tone_pairs, "tone_epochs": tone_epochs}
    settings = training.Settings(seed=seed, **{name: value for name, value in chosen.items() if value is not None})
    try:
        loaded = training.load_photos(photos)
        trained = training.train(loaded, settings, checkpoint=checkpoint, report=_Line())
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    except OSError as error:  # of the checkpoint: the disk may have filled up meanwhile
        raise unwritten(checkpoint or target, error) from error
    try:
        export(trained, model_card(loaded, settings, trained.figures, licence=licence), target)
    except OSError as error:
        raise unwritten(target, error) from error
    figures = ", ".join(f"{name} {value:.3f}" for name, value in sorted(trained.figures.items()))
    click.echo(f"{shown(target)}: {len(loaded)} photos; on those held back: {figures}")
    return 0


def _refuse_idle_options(given: dict[str, object]) -> None:
    """Options that would change nothing: HDRNet has no tone network, and its training keeps no state."""
    for option, value in given.items():
        if value is not None:
            raise click.UsageError(f"{option}: --network hdrnet does not know it; tecu does")


def _train_hdrnet(photos: Path, target: Path, steps: int | None, seed: int, licence: str) -> int:
    from tecu.lowlight.training import Progress, hdrnet, load_photos

    settings = hdrnet.Settings(seed=seed) if steps is None else hdrnet.Settings(seed=seed, steps=steps)
    line = _Line()
    try:
        loaded = load_photos(photos)
        net = hdrnet.train(
            loaded,
            settings,
            report=lambda step, of, loss: line(Progress("hdrnet", step, of, loss, loss if step == of else None)),
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    try:
        hdrnet.export(net, hdrnet.model_card(loaded, settings, licence), target)
    except OSError as error:
        raise unwritten(target, error) from error
    click.echo(f"{shown(target)}: {len(loaded)} photos, {settings.steps} steps")
    return 0


class _Line:
    """Progress on one line of a terminal; elsewhere one line for each validation."""

    def __init__(self) -> None:
        self.terminal, self.started, self.stage = sys.stderr.isatty(), time.monotonic(), ""

    def __call__(self, progress: Progress) -> None:
        if progress.stage != self.stage:
            self.stage, self.started = progress.stage, time.monotonic()
        share = progress.step / progress.steps
        left = (time.monotonic() - self.started) * (1.0 - share) / max(share, 1e-9)
        text = f"{progress.stage}: {progress.step} of {progress.steps}"
        if progress.validation is not None:
            text += f", validation {progress.validation:.3f}"
        if self.terminal:
            end = "\n" if progress.step == progress.steps else ""
            click.echo(f"\r{text}, {left:.0f} s left   {end}", nl=False, err=True)
        elif progress.validation is not None:
            click.echo(text, err=True)
