r"""HDRNet (Gharbi, Chen, Barron, Hasinoff and Durand, 2017) in small: a bilateral grid of affine colour maps.

A network looks at the picture on 128 x 128 pixels and gives a grid of ``16 x 16 x 8`` affine maps ``3 x 4``; a
guide ``g`` in [0, 1], computed for each full-size pixel from its colour, says at which depth of the grid to read;
the result is the map read there, applied to the pixel. Trained on the tone pairs of this package with the mean
squared error. Ours is smaller than the paper's (29 000 parameters) and takes logarithms as input, which dark
pictures need.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tecu.atomic import write_bytes
from tecu.lowlight.training import pairs
from tecu.lowlight.training.networks import log_scale
from tecu.lowlight.training.photos import Photo

LOW = 128  # side of what the network sees
CELLS, DEPTH = 16, 8
MAPS = 12  # 3 x 4
WIDTH = 24
GUIDE = 16
VIEW = (96, 144)  # the size of the training pictures


@dataclass(frozen=True)
class Settings:
    """How long and how fast to train. The defaults take about ten minutes on one core."""

    pairs: int = 1200
    steps: int = 2400
    batch: int = 6
    rate: float = 2e-3
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("pairs", "steps", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"settings: {name} must be at least 1, got {getattr(self, name)}")


Report = Callable[[int, int, float], None]
"""Called with the step, the number of steps, and the loss."""


class HdrNet(nn.Module):  # type: ignore[misc]  # torch's types are not looked at
    """The network; starts as the identity."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.ModuleList([_conv(3, 8, 2), _conv(8, 16, 2), _conv(16, WIDTH, 2)])
        self.local = nn.ModuleList([_conv(WIDTH, WIDTH, 1), _conv(WIDTH, WIDTH, 1)])
        self.overall = nn.ModuleList([_conv(WIDTH, WIDTH, 2), _conv(WIDTH, WIDTH, 2)])
        self.fuse = nn.Linear(WIDTH, WIDTH)
        self.maps = nn.Conv2d(WIDTH, MAPS * DEPTH, 1)
        self.guide_in, self.guide_out = nn.Conv2d(3, GUIDE, 1), nn.Conv2d(GUIDE, 1, 1)
        nn.init.zeros_(self.maps.weight)
        identity = torch.eye(3, 4).reshape(MAPS, 1).expand(MAPS, DEPTH)
        with torch.no_grad():
            self.maps.bias.copy_(identity.reshape(-1))

    def grid(self, low: Tensor) -> Tensor:
        """``N x 12 x 8 x 16 x 16`` from ``N x 3 x 128 x 128`` in [0, 1]."""
        x = log_scale(low)
        for layer in self.shared:
            x = F.relu(layer(x))
        local = F.relu(self.local[0](x))
        local = self.local[1](local)
        for layer in self.overall:
            x = F.relu(layer(x))
        overall = self.fuse(x.mean(dim=(2, 3)))
        fused = F.relu(local + overall[:, :, None, None])
        return self.maps(fused).unflatten(1, (MAPS, DEPTH))

    def guide(self, picture: Tensor) -> Tensor:
        """``N x 1 x h x w`` in [0, 1]."""
        return torch.sigmoid(self.guide_out(F.relu(self.guide_in(log_scale(picture)))))

    def forward(self, picture: Tensor) -> Tensor:
        """The result for ``N x 3 x h x w``."""
        return sliced(self.grid(F.interpolate(picture, (LOW, LOW), mode="area")), self.guide(picture), picture)


def _conv(inputs: int, outputs: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1)


def sliced(grid: Tensor, guide: Tensor, picture: Tensor) -> Tensor:
    """The grid's maps read at each pixel's place and guide (trilinear), applied to the pixel."""
    count, _, height, width = picture.shape
    down = (torch.arange(height) + 0.5) / height * 2 - 1
    across = (torch.arange(width) + 0.5) / width * 2 - 1
    place = torch.stack(
        [
            across.expand(count, 1, height, width),
            down[:, None].expand(count, 1, height, width),
            guide * 2 - 1,
        ],
        dim=-1,
    )
    read = F.grid_sample(grid, place, mode="bilinear", padding_mode="border", align_corners=False)[:, :, 0]
    maps = read.unflatten(1, (3, 4))
    return (maps[:, :, :3] * picture[:, None]).sum(dim=2) + maps[:, :, 3]


def train(photos: Sequence[Photo], settings: Settings = Settings(), *, report: Report | None = None) -> HdrNet:  # noqa: B008  (frozen, so safe to share)
    """Train on pairs made from ``photos``; a function of the photos and the seed alone."""
    torch.manual_seed(settings.seed)
    net = HdrNet()
    dark, target = make_pairs(photos, settings.pairs, settings.seed)
    optimiser = torch.optim.Adam(net.parameters(), lr=settings.rate)
    order = np.random.default_rng([settings.seed, 2])
    for step in range(settings.steps):
        for group in optimiser.param_groups:
            group["lr"] = settings.rate * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * step / settings.steps)))
        chosen = torch.from_numpy(order.integers(len(dark), size=settings.batch))
        picture, wanted = dark[chosen].float() / 65535.0, target[chosen].float() / 65535.0
        loss = F.mse_loss(net(picture), wanted)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimiser.step()
        if report is not None and ((step + 1) % 50 == 0 or step + 1 == settings.steps):
            report(step + 1, settings.steps, float(loss.detach()))
    return net


def make_pairs(photos: Sequence[Photo], count: int, seed: int) -> tuple[Tensor, Tensor]:
    """``count`` dark pictures and what they should become, ``N x 3 x 96 x 144``, on 0 to 65535."""
    found: tuple[list[Tensor], list[Tensor]] = ([], [])
    for index in range(count):
        rng = np.random.default_rng([seed, 1, index])
        for part, pixels in zip(found, pairs.tone_pair(photos[index % len(photos)].pixels, rng), strict=True):
            planes = torch.from_numpy(np.ascontiguousarray(pixels.transpose(2, 0, 1)))[None]
            sized = F.interpolate(planes, VIEW, mode="bilinear", align_corners=False)[0]
            part.append((sized.clamp(0, 1) * 65535.0).round().to(torch.int32))
    return torch.stack(found[0]), torch.stack(found[1])


def model_card(photos: Sequence[Photo], settings: Settings, licence: str) -> dict[str, Any]:
    """What the file says about itself."""
    return {
        "name": "tecu's training of a small HDRNet",
        "purpose": "a row of the low-light table; not the authors' network or weights",
        "licence": licence,
        "settings": {name: getattr(settings, name) for name in settings.__dataclass_fields__},
        "pairs": "made from clean photos by exposure, fields of light, noise and rounding; no real dark photo was seen",
        "photos": [[photo.name, photo.licence, photo.author, photo.source] for photo in photos],
    }


def export(net: HdrNet, card: dict[str, Any], path: str | Path) -> None:
    """Write the network and its card as ONNX: ``low -> grid`` and ``picture -> guide``."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    constants: list[Any] = []
    nodes: list[Any] = []

    def constant(value: Any) -> str:
        values = np.asarray(value)
        values = values.astype(np.float32) if values.dtype.kind == "f" else values
        constants.append(numpy_helper.from_array(values, f"c{len(constants)}"))
        return f"c{len(constants) - 1}"

    def add(operator: str, *inputs: str, name: str = "", **attributes: Any) -> str:
        nodes.append(helper.make_node(operator, inputs, [name or f"n{len(nodes)}"], **attributes))
        return name or f"n{len(nodes) - 1}"

    def layer(operator: str, x: str, module: Any, **attributes: Any) -> str:
        weight, bias = (constant(part.detach().numpy()) for part in (module.weight, module.bias))
        return add(operator, x, weight, bias, **attributes)

    def convolution(x: str, module: Any) -> str:
        pad = [module.padding[0]] * 4
        return layer("Conv", x, module, strides=list(module.stride), pads=pad, kernel_shape=list(module.kernel_size))

    def logarithm(x: str) -> str:
        floor = 1.0 / 255.0
        return add("Log", add("Div", add("Add", x, constant(floor)), constant(1.0 + floor)))

    x = logarithm("low")
    for module in net.shared:
        x = add("Relu", convolution(x, module))
    local = convolution(add("Relu", convolution(x, net.local[0])), net.local[1])
    for module in net.overall:
        x = add("Relu", convolution(x, module))
    overall = layer("Gemm", add("ReduceMean", x, axes=[2, 3], keepdims=0), net.fuse, transB=1)
    overall = add("Unsqueeze", overall, constant(np.array([2, 3])))
    fused = add("Relu", add("Add", local, overall))
    add("Reshape", convolution(fused, net.maps), constant(np.array([-1, MAPS, DEPTH, CELLS, CELLS])), name="grid")
    guide = add("Relu", convolution(logarithm("picture"), net.guide_in))
    add("Sigmoid", convolution(guide, net.guide_out), name="guide")

    def tensor(name: str, *shape: Any) -> Any:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

    graph = helper.make_graph(
        nodes,
        "hdrnet",
        [tensor("low", "n", 3, LOW, LOW), tensor("picture", "m", 3, "h", "w")],
        [tensor("grid", "n", MAPS, DEPTH, CELLS, CELLS), tensor("guide", "m", 1, "h", "w")],
        constants,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], producer_name="tecu", ir_version=8)
    helper.set_model_props(model, {"card": json.dumps(card, ensure_ascii=False)})
    onnx.checker.check_model(model)
    write_bytes(path, model.SerializeToString(), overwrite=True)
