"""The two networks in torch: illumination (local) and tone (of the whole picture)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tecu.lowlight.features import FLOOR, SUMMARY_SIZE

DILATIONS = (1, 2, 3, 4, 3, 2, 1)
MARGIN = sum(DILATIONS)  # 16: what seven unpadded 3 x 3 convolutions take away on each side
PATCH = 35  # side of the patches on which the loss is taken
WINDOW = PATCH + 2 * MARGIN  # what the network needs to see for them
WIDTH = 24
THUMBNAIL = 96
KNOTS = 10


def log_scale(x: Tensor) -> Tensor:
    """``log((x + 1/255) / (1 + 1/255))``."""
    return torch.log((x + FLOOR) / (1.0 + FLOOR))


class IlluminationNet(nn.Module):  # type: ignore[misc]  # torch's types are not looked at
    """``log I = log max(R, G, B) + r``, ``r`` from seven dilated convolutions with ReLU, 24 wide.

    The input planes are log R, log G, log B, log max, and two numbers about the whole picture. The convolutions are
    unpadded: the caller pads by repeating the border, so that training windows and whole pictures are treated alike.
    """

    def __init__(self) -> None:
        super().__init__()
        widths = [6, *[WIDTH] * (len(DILATIONS) - 1), 1]
        self.layers = nn.ModuleList(
            nn.Conv2d(a, b, 3, dilation=d) for a, b, d in zip(widths, widths[1:], DILATIONS, strict=False)
        )
        last = self.layers[-1]
        nn.init.zeros_(last.weight)  # starts as I = max(R, G, B)
        nn.init.zeros_(last.bias)

    def forward(self, picture: Tensor, summary: Tensor) -> Tensor:
        """``log I`` of the part of ``picture`` (N x 3 x h x w in [0, 1]) that is ``MARGIN`` inside its border."""
        logs = log_scale(picture)
        brightest = logs.amax(dim=1, keepdim=True)
        whole = summary[:, :2, None, None].expand(-1, -1, *picture.shape[2:])
        x = torch.cat([logs, brightest, whole], dim=1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return brightest[:, :, MARGIN:-MARGIN, MARGIN:-MARGIN] + self.layers[-1](x)


def whole_illumination(net: IlluminationNet, picture: Tensor, summary: Tensor) -> Tensor:
    """``I`` of whole pictures, the border repeated, clipped to ``[max(R, G, B), 1]``."""
    padded = F.pad(picture, (MARGIN,) * 4, mode="replicate")
    light = torch.exp(net(padded, summary))
    return torch.clamp(torch.maximum(light, picture.amax(dim=1, keepdim=True)), max=1.0)


class ToneNet(nn.Module):  # type: ignore[misc]  # torch's types are not looked at
    """From a thumbnail of log O and R, and the summary: the gain's exponent and a monotone curve with 10 segments."""

    def __init__(self) -> None:
        super().__init__()
        widths = [6, 16, 24, 32, 32]
        self.layers = nn.ModuleList(nn.Conv2d(a, b, 3, stride=2, padding=1) for a, b in pairwise(widths))
        self.hidden = nn.Linear(widths[-1] + SUMMARY_SIZE, 64)
        self.head = nn.Linear(64, 1 + KNOTS)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, picture: Tensor, illumination: Tensor, summary: Tensor) -> tuple[Tensor, Tensor]:
        """``(exponent, knots)``: N x 1 in (0, 1), and N x 11 rising from 0 to 1."""
        x = torch.cat([log_scale(picture), picture / illumination], dim=1)
        for layer in self.layers:
            x = F.relu(layer(x))
        x = torch.cat([x.mean(dim=(2, 3)), summary], dim=1)
        answer = self.head(F.relu(self.hidden(x)))
        exponent = torch.sigmoid(answer[:, :1])
        knots = torch.cumsum(torch.softmax(answer[:, 1:], dim=1), dim=1)
        return exponent, F.pad(knots, (1, 0))


def apply_tone(picture: Tensor, illumination: Tensor, exponent: Tensor, knots: Tensor) -> Tensor:
    """``curve(O / I^exponent)``, the curve linear between its knots."""
    x = torch.clamp(picture * illumination ** (-exponent[:, :, None, None]), 0.0, 1.0)
    position = x.flatten(1) * KNOTS
    left = torch.clamp(position.detach().floor().long(), max=KNOTS - 1)
    low, high = torch.gather(knots, 1, left), torch.gather(knots, 1, left + 1)
    return (low + (high - low) * (position - left)).reshape(x.shape)
