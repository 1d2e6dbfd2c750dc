"""The training loop: illumination first, then tone on top of it; seeded, and resumable at any step.

A batch is a function of ``(seed, stage, step)`` alone, so a run that was interrupted and resumed takes the same steps
as one that was not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tecu.archive import MALFORMED, read_archive, write_archive
from tecu.lowlight.features import summary
from tecu.lowlight.training import pairs
from tecu.lowlight.training.networks import (
    MARGIN,
    THUMBNAIL,
    WINDOW,
    IlluminationNet,
    ToneNet,
    apply_tone,
    whole_illumination,
)
from tecu.lowlight.training.photos import Photo

FORMAT = "tecu-training-1"
VIEWS = 4  # views a batch of the illumination network is cut from
PATCHES = 4  # windows cut from each
CHUNK = 16  # pairs of the tone network made at a time


@dataclass(frozen=True)
class Settings:
    """How long and how fast to train. The defaults take about 25 minutes on one core."""

    steps: int = 3500
    rate: float = 2e-3
    tone_pairs: int = 3648
    tone_epochs: int = 20
    tone_rate: float = 2e-3
    tone_batch: int = 32
    seed: int = 0
    validate_every: int = 500

    def __post_init__(self) -> None:
        for name in ("steps", "tone_pairs", "tone_epochs", "tone_batch", "validate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"settings: {name} must be at least 1, got {getattr(self, name)}")


@dataclass(frozen=True)
class Progress:
    """Where the training stands: ``stage`` is ``"illumination"``, ``"pairs"`` or ``"tone"``."""

    stage: str
    step: int
    steps: int
    loss: float
    validation: float | None = None


@dataclass
class Trained:
    """The two networks and their figures on the photos that were held back."""

    illumination: IlluminationNet
    tone: ToneNet
    figures: dict[str, float] = field(default_factory=dict)


Report = Callable[[Progress], None]


def train(
    photos: list[Photo],
    settings: Settings = Settings(),  # noqa: B008  (frozen, so safe to share)
    *,
    checkpoint: str | Path | None = None,
    report: Report | None = None,
) -> Trained:
    """Train both networks; every tenth photo is held back for validation.

    With ``checkpoint`` (a file) the state is saved at every validation, and taken up again if the file exists.
    """
    say = report or (lambda progress: None)
    held_back = photos[::10]
    used = [photo for index, photo in enumerate(photos) if index % 10]
    torch.manual_seed(settings.seed)
    trained = Trained(IlluminationNet(), ToneNet())
    store = _Checkpoint(checkpoint, settings, [photo.name for photo in photos])
    _train_illumination(trained, used, held_back, settings, store, say)
    _train_tone(trained, used, held_back, settings, store, say)
    return trained


class _Checkpoint:
    """One file with weights, optimiser and the step of the stage under way: arrays and a document, no pickle."""

    def __init__(self, path: str | Path | None, settings: Settings, names: list[str]) -> None:
        self.path = None if path is None else Path(path)
        self.fingerprint = {"settings": asdict(settings), "photos": names}

    def load(self) -> tuple[dict[str, Any], dict[str, Any]] | None:
        if self.path is None or not self.path.is_file():
            return None
        document, store = read_archive(self.path, FORMAT, "a checkpoint of a training")
        if document.get("fingerprint") != self.fingerprint:
            raise ValueError(
                f"checkpoint: {str(self.path)!r} was made with other photos or settings; "
                "name another file, or delete this one to start afresh"
            )
        return document, store

    def save(self, stage: str, step: int, trained: Trained, optimiser: torch.optim.Optimizer) -> None:
        if self.path is None:
            return
        document = {
            "format": FORMAT, "fingerprint": self.fingerprint, "stage": stage, "step": step, "figures": trained.figures,
        }  # fmt: skip
        kept = {
            "illumination": trained.illumination.state_dict(),
            "tone": trained.tone.state_dict(),
            **{f"optimiser/{k}": moments for k, moments in optimiser.state_dict()["state"].items()},
        }
        store = {f"{part}/{name}": value.numpy() for part, values in kept.items() for name, value in values.items()}
        write_archive(self.path, document, store)

    def restore(self, stage: str, trained: Trained, optimiser: torch.optim.Optimizer) -> int:
        """Load what was saved; the number of steps of ``stage`` that are done, -1 if the whole stage is."""
        saved = self.load()
        if saved is None:
            return 0
        document, store = saved
        try:
            trained.illumination.load_state_dict(_below(store, "illumination"))
            trained.tone.load_state_dict(_below(store, "tone"))
            trained.figures.update({name: float(value) for name, value in document["figures"].items()})
            if document["stage"] != stage:
                return -1 if stage == "illumination" else 0
            moments = [_below(store, f"optimiser/{k}") for k in range(len(optimiser.param_groups[0]["params"]))]
            groups = optimiser.state_dict()["param_groups"]  # the rates follow from the step
            optimiser.load_state_dict({"state": dict(enumerate(moments)), "param_groups": groups})
            return int(document["step"])
        except (*MALFORMED, RuntimeError) as error:
            raise ValueError(f"checkpoint: {str(self.path)!r} is not whole; delete it to start afresh") from error


def _below(store: dict[str, Any], part: str) -> dict[str, Tensor]:
    """The tensors whose names begin with ``part``."""
    start = f"{part}/"
    return {name.removeprefix(start): torch.from_numpy(store[name]) for name in store if name.startswith(start)}


def _cosine(base: float, step: int, steps: int) -> float:
    """A warm-up over the first 2 %, then half a cosine down to a hundredth."""
    warm = min(1.0, (step + 1) / max(1.0, 0.02 * steps))
    return base * warm * (0.01 + 0.99 * 0.5 * (1.0 + math.cos(math.pi * step / steps)))


def _train_illumination(
    trained: Trained, used: list[Photo], held: list[Photo], settings: Settings, store: _Checkpoint, say: Report
) -> None:
    net = trained.illumination
    optimiser = torch.optim.Adam(net.parameters(), lr=settings.rate)
    start = store.restore("illumination", trained, optimiser)
    if start < 0:
        return
    for step in range(start, settings.steps):
        _set_rate(optimiser, _cosine(settings.rate, step, settings.steps))
        batch = _windows(used, np.random.default_rng([settings.seed, 1, step]))
        loss = illumination_loss(net, *batch)
        _descend(optimiser, net, loss)
        done = step + 1
        if done % settings.validate_every == 0 or done == settings.steps:
            figures = _validate_illumination(net, held, settings.seed)
            trained.figures.update(figures)
            store.save("illumination", done, trained, optimiser)
            say(Progress("illumination", done, settings.steps, float(loss.detach()), figures["illumination_loss"]))
        elif done % 20 == 0:
            say(Progress("illumination", done, settings.steps, float(loss.detach())))


def illumination_loss(net: IlluminationNet, dark: Tensor, light: Tensor, clean: Tensor, whole: Tensor) -> Tensor:
    """``mean |log I - log T| + 2 mean |O / I - J|`` on the patches inside the windows."""
    log_i = net(dark, whole)
    inside = slice(MARGIN, -MARGIN)
    log_t = torch.log(light[:, :, inside, inside])
    restored = dark[:, :, inside, inside] * torch.exp(-log_i)
    return (log_i - log_t).abs().mean() + 2.0 * (restored - clean[:, :, inside, inside]).abs().mean()


def _windows(photos: list[Photo], rng: np.random.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A batch of windows ``(O, T, J, summary)``."""
    parts: list[list[np.ndarray[Any, Any]]] = [[], [], [], []]
    for _ in range(VIEWS):
        photo = photos[int(rng.integers(len(photos)))]
        dark, light, clean = pairs.illumination_pair(photo.pixels, rng)
        whole = summary(dark)
        height, width = light.shape
        for _ in range(PATCHES):
            top, left = int(rng.integers(height - WINDOW + 1)), int(rng.integers(width - WINDOW + 1))
            rows, columns = slice(top, top + WINDOW), slice(left, left + WINDOW)
            parts[0].append(dark[rows, columns].transpose(2, 0, 1))
            parts[1].append(light[None, rows, columns])
            parts[2].append(clean[rows, columns].transpose(2, 0, 1))
            parts[3].append(whole)
    dark_t, light_t, clean_t, whole_t = (torch.from_numpy(np.stack(part)) for part in parts)
    return dark_t, light_t, clean_t, whole_t


def _validate_illumination(net: IlluminationNet, photos: list[Photo], seed: int) -> dict[str, float]:
    losses, psnrs = [], []
    for index, photo in enumerate(photos):
        rng = np.random.default_rng([seed, 2, index])
        dark, light, clean = (torch.from_numpy(a) for a in pairs.illumination_pair(photo.pixels, rng))
        estimate = _light_of(net, dark.numpy())[0, 0]
        restored = dark / estimate[..., None]
        losses.append(float((estimate / light).log().abs().mean() + 2.0 * (restored - clean).abs().mean()))
        psnrs.append(-10.0 * math.log10(float(((restored - clean) ** 2).mean()) + 1e-10))
    return {"illumination_loss": float(np.mean(losses)), "illumination_psnr": float(np.mean(psnrs))}


def _light_of(net: IlluminationNet, dark: np.ndarray[Any, Any]) -> Tensor:
    """The network's illumination of a whole picture, 1 x 1 x h x w."""
    with torch.no_grad():
        return whole_illumination(net, _planes(dark), torch.from_numpy(summary(dark))[None])


def _planes(picture: np.ndarray[Any, Any]) -> Tensor:
    return torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None]


def _train_tone(
    trained: Trained, used: list[Photo], held: list[Photo], settings: Settings, store: _Checkpoint, say: Report
) -> None:
    net = trained.tone
    optimiser = torch.optim.Adam(net.parameters(), lr=settings.tone_rate, weight_decay=1e-5)
    start = store.restore("tone", trained, optimiser)
    data = tone_data(trained.illumination, used, settings.tone_pairs, settings.seed, 3, say)
    check = tone_data(trained.illumination, held, max(64, settings.tone_pairs // 16), settings.seed, 4, say)
    batches = max(1, settings.tone_pairs // settings.tone_batch)
    steps = settings.tone_epochs * batches
    for step in range(start, steps):
        _set_rate(optimiser, _cosine(settings.tone_rate, step, steps))
        epoch, place = divmod(step, batches)
        order = np.random.default_rng([settings.seed, 5, epoch]).permutation(len(data[0]))
        chosen = torch.from_numpy(order[place * settings.tone_batch : (place + 1) * settings.tone_batch])
        loss = tone_loss(net, *(part[chosen] for part in data))
        _descend(optimiser, net, loss)
        done = step + 1
        if done % settings.validate_every == 0 or done == steps:
            with torch.no_grad():
                trained.figures["tone_loss"] = float(tone_loss(net, *check))
            store.save("tone", done, trained, optimiser)
            say(Progress("tone", done, steps, float(loss.detach()), trained.figures["tone_loss"]))
        elif done % 20 == 0:
            say(Progress("tone", done, steps, float(loss.detach())))


def tone_loss(net: ToneNet, picture: Tensor, light: Tensor, target: Tensor, whole: Tensor) -> Tensor:
    """``mean log(MSE + .004)`` over the pictures: large errors, of scenes nobody can guess, weigh less."""
    answer = apply_tone(picture, light, *net(picture, light, whole))
    return torch.log(((answer - target) ** 2).mean(dim=(1, 2, 3)) + 0.004).mean()


def tone_data(
    illumination: IlluminationNet, photos: list[Photo], count: int, seed: int, stream: int, say: Report
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """``count`` thumbnails ``(O, I, target, summary)`` with ``I`` from the illumination network."""
    parts: list[list[Tensor]] = [[], [], [], []]
    for index in range(count):
        rng = np.random.default_rng([seed, stream, index])
        dark, target = pairs.tone_pair(photos[int(rng.integers(len(photos)))].pixels, rng)
        parts[0].append(thumbnail(_planes(dark)))
        parts[1].append(thumbnail(_light_of(illumination, dark)))
        parts[2].append(thumbnail(_planes(target)))
        parts[3].append(torch.from_numpy(summary(dark))[None])
        if (index + 1) % CHUNK == 0:
            say(Progress("pairs", index + 1, count, math.nan))
    dark_t, light_t, target_t, whole_t = (torch.cat(part) for part in parts)
    return dark_t, light_t, target_t, whole_t


def thumbnail(picture: Tensor) -> Tensor:
    """The picture at 96 x 96, whatever its shape."""
    return F.interpolate(picture, size=(THUMBNAIL, THUMBNAIL), mode="bilinear", align_corners=False)


def _descend(optimiser: torch.optim.Optimizer, net: nn.Module, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimiser.step()


def _set_rate(optimiser: torch.optim.Optimizer, rate: float) -> None:
    for group in optimiser.param_groups:
        group["lr"] = rate
