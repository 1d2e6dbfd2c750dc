r"""How bright the result shall be: the exponent of the gain, one curve for the whole picture, perhaps a lift.

    result = curve(x (1 + a (1 - max(x) / h)^2)),  x = O / I^s

The network proposes ``s`` and the curve; it has learnt very well to leave good photos alone, but not how bright a very
dark scene should be. There a rule takes over most of the decision: ``s = 0.7`` and the power that brings the mean luma
to ``clip(.464 + .05 log(y / .051), .40, .51)``, ``y`` the mean luma of the picture. Where there are highlights, the
darkest hundredth is kept near black by a toe of the curve.

The lift ``a`` is 0 but for a strength above 1. It does nothing to pixels brighter than the headroom ``h``: what is dark
comes up, and nothing passes ``h`` that was below it. Up to here there is one gain for all channels of a pixel, so that
hue stays. The curve acts on each channel: one that brightens makes strong colours paler, and orange yellower.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tecu.lowlight.features import brightest_of, luma, percentiles
from tecu.lowlight.model import HEADROOM

Pixels = np.ndarray[Any, Any]

RULE_EXPONENT = 0.7
RULE_WEIGHT = 0.75
BLACK = 0.008  # two of 255 levels; darker pixels count less towards the mean luma that the rule aims at
MOST_STEPS, NEAR_ENOUGH = 16, 2e-5  # of the search for the power; a two-hundredth of an 8-bit level
SAMPLES = 4096  # values of the curve that are kept
LIFT = 2.0  # of strength 2: shadows are three times as bright; the slope is 1 - LIFT / 3 where it is least


@dataclass(frozen=True)
class Tone:
    """``s``, the curve, sampled at 0, 1/4096, ..., 1, and the lift."""

    exponent: float
    curve: Pixels
    lift: float = 0.0

    def with_strength(self, strength: float) -> Tone:
        """Up to 1, exponent and distance of the curve to the diagonal times ``strength``; above, a lift beside them.

        0 is the identity. Beyond 1 nothing is extrapolated: that would wipe out what is bright, and where next to
        nothing is proposed, twice of it is nothing still.
        """
        if strength > 1.0:
            return replace(self.with_strength(1.0), lift=LIFT * (strength - 1.0))
        diagonal = np.linspace(0.0, 1.0, len(self.curve))
        curve = np.clip(diagonal + strength * (self.curve - diagonal), 0.0, 1.0)
        return Tone(min(self.exponent * strength, 1.0), np.maximum.accumulate(curve))

    def gain(self, brightest: Pixels, light: Pixels, headroom: float) -> Pixels:
        """By how much the channels of a pixel are multiplied before the curve: ``I^-s``, and the lift."""
        gain = np.asarray(light ** light.dtype.type(-self.exponent))
        return gain * lift_at(brightest * gain, self.lift, headroom) if self.lift > 0.0 else gain


def lift_at(value: Pixels, lift: float, headroom: float) -> Pixels:
    """``1 + a (1 - x / h)^2`` for ``x < h``, 1 above: the factor of a pixel whose brightest channel is ``x``.

    ``x`` times this rises with a slope of at least ``1 - a / 3``, and joins the diagonal smoothly at ``h``.

    >>> import numpy as np
    >>> lift_at(np.array([0.0, 0.4, 0.8, 1.0]), 2.0, 0.8).tolist()
    [3.0, 1.5, 1.0, 1.0]
    """
    left = np.clip(1.0 - value * value.dtype.type(1.0 / headroom), 0.0, 1.0)
    return np.asarray(1.0 + value.dtype.type(lift) * left * left)


def at_strength(observed: Pixels, result: Pixels, strength: float) -> Pixels:
    """``O + strength (result - O)`` up to 1, above it the lift of the result; ``h x w x c`` floats, white is 1.

    For methods that have no exponent and no curve.
    """
    if strength <= 1.0:
        return np.asarray(observed + observed.dtype.type(strength) * (result - observed))
    result = np.clip(result, 0.0, 1.0)
    return result * lift_at(result.max(axis=-1, keepdims=True), LIFT * (strength - 1.0), HEADROOM)


def curve_through(knots: Pixels) -> Pixels:
    """The smooth monotone curve (Fritsch and Carlson) through equally spaced ``knots``, sampled.

    >>> import numpy as np
    >>> curve = curve_through(np.linspace(0.0, 1.0, 11))
    >>> bool(np.allclose(curve, np.linspace(0.0, 1.0, len(curve))))
    True
    """
    knots = np.asarray(knots, dtype=np.float64)
    pieces = len(knots) - 1
    rise = np.diff(knots) * pieces
    slope = np.empty_like(knots)
    slope[0], slope[-1] = rise[0], rise[-1]
    total = rise[1:] + rise[:-1]
    slope[1:-1] = np.where(total > 0, 2 * rise[1:] * rise[:-1] / np.where(total > 0, total, 1.0), 0.0)
    place = np.linspace(0.0, pieces, SAMPLES + 1)
    left = np.minimum(place.astype(np.intp), pieces - 1)
    t = place - left
    low, high, m0, m1 = knots[left], knots[left + 1], slope[left] / pieces, slope[left + 1] / pieces
    curve = low + t * (m0 + t * (3 * (high - low) - 2 * m0 - m1 + t * (m0 + m1 - 2 * (high - low))))
    return np.asarray(np.clip(np.maximum.accumulate(curve), 0.0, 1.0))


def target_luma(mean: float) -> float:
    """``clip(.464 + .05 log(y / .051), .40, .51)``: the mean luma the rule aims at for a picture of mean luma ``y``."""
    return float(np.clip(0.464 + 0.05 * np.log(max(mean, 1e-6) / 0.051), 0.40, 0.51))


def rule_weight(mean: float) -> float:
    """The share of the rule: 0 for pictures brighter than .30 in the mean, three quarters of the decision below .20."""
    return RULE_WEIGHT * float(np.clip((0.30 - mean) / 0.10, 0.0, 1.0))


def power_for(picture: Pixels, target: float, weight: Pixels | None = None) -> float:
    """The ``p`` in [1/6, 6] with (weighted) mean luma of ``picture^p`` equal to ``target``.

    The mean falls in ``p``. In the interval that holds the solution, the point where the line between its ends meets
    the target is tried (in ``log p``; an end that stays a second time counts half), until one is near enough.
    """
    log_picture = np.log(np.maximum(picture[::2, ::2], 1e-6))
    share = np.ones(log_picture.shape[:2]) if weight is None else weight[::2, ::2] + 1e-6
    share = (share / share.sum()).astype(log_picture.dtype)

    def above(log_power: float) -> float:
        return float(np.vdot(luma(np.exp(np.float32(np.exp(log_power)) * log_picture)), share)) - target

    low, high = float(np.log(1 / 6)), float(np.log(6.0))
    at_low, at_high = above(low), above(high)
    if at_low <= 0.0 or at_high >= 0.0:  # the target is out of reach
        return float(np.exp(low if at_low <= 0.0 else high))
    middle, moved = low, 0
    for _ in range(MOST_STEPS):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        at_middle = above(middle)
        if abs(at_middle) < NEAR_ENOUGH:
            break
        if at_middle > 0.0:
            low, at_low, at_high = middle, at_middle, at_high / 2 if moved > 0 else at_high
            moved = 1
        else:
            high, at_high, at_low = middle, at_middle, at_low / 2 if moved < 0 else at_low
            moved = -1
    return float(np.exp(middle))


def by_rule(picture: Pixels, light: Pixels) -> Tone:
    """The rule alone; a picture that is bright already is left as it is."""
    mean = float(luma(picture).mean())
    weight = rule_weight(mean) / RULE_WEIGHT
    exponent = RULE_EXPONENT * weight
    return Tone(exponent, _blend(_diagonal(), _rule_curve(picture, light, exponent, mean), weight))


def by_network(picture: Pixels, light: Pixels, exponent: float, knots: Pixels) -> Tone:
    """The network's tone, mixed with the rule where the picture (``h x w x 3`` on the grid) is dark."""
    mean = float(luma(picture).mean())
    weight = rule_weight(mean)
    mixed = (1.0 - weight) * exponent + weight * RULE_EXPONENT
    curve = curve_through(knots)
    if weight > 0.0:
        curve = _blend(curve, _rule_curve(picture, light, mixed, mean), weight)
    return Tone(mixed, curve)


def _rule_curve(picture: Pixels, light: Pixels, exponent: float, mean: float) -> Pixels:
    brightened = np.clip(picture * light[..., None] ** np.float32(-exponent), 0.0, 1.0)
    brightest = brightest_of(picture)
    seen = np.clip(brightest / BLACK, 0.0, 1.0)  # a black sky tells nothing about the exposure
    black = highlights_of(brightest) * float(percentiles(luma(brightened), [1.0])[0])
    power = power_for(with_toe(brightened, black), target_luma(mean), seen)
    return np.asarray(with_toe(_diagonal(), black) ** power)


def highlights_of(brightest: Pixels) -> float:
    """``clip((V99 - .3) / .4, 0, 1)``, ``V99`` the value that a hundredth of the picture exceeds.

    A picture with highlights uses its range: it was exposed for them, and its black is meant.
    """
    return float(np.clip((percentiles(brightest, [99.0])[0] - 0.3) / 0.4, 0.0, 1.0))


def with_toe(x: Pixels, black: float) -> Pixels:
    """``x - b + b exp(-x / b)`` with ``b = black``, scaled so that 1 stays: values below about ``b`` go towards 0.

    >>> import numpy as np
    >>> with_toe(np.array([0.0, 0.1, 1.0]), 0.1).round(3).tolist()
    [0.0, 0.041, 1.0]
    """
    if black < 1e-4:
        return x
    return np.asarray((x - black + black * np.exp(-x / black)) / (1.0 - black + black * np.exp(-1.0 / black)), x.dtype)


def _diagonal() -> Pixels:
    return np.linspace(0.0, 1.0, SAMPLES + 1)


def _blend(first: Pixels, second: Pixels, weight: float) -> Pixels:
    return np.asarray((1.0 - weight) * first + weight * second)
