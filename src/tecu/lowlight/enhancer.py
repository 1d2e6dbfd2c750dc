"""The enhancer: a dark picture in, a good one out."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tecu.certificate import Certificate
from tecu.history import History
from tecu.lowlight import tone
from tecu.lowlight.denoise import noise_level
from tecu.lowlight.exposure import (
    Exposure,
    amplification,
    black_cast,
    crushed_noise,
    illumination_at,
    without_cast,
)
from tecu.lowlight.features import brightest_of
from tecu.lowlight.grid import enlarge, following, shrink, whitepoint
from tecu.lowlight.images import pictures, through
from tecu.lowlight.model import HEADROOM, MODELS, Decomposition, decompose, illumination
from tecu.lowlight.network import Network, Proposal, default_network
from tecu.lowlight.render import STRIP, finished, render
from tecu.lowlight.tone import highlights_of

Pixels = np.ndarray[Any, Any]

STRONGEST = 2.0
LEAST_HEADROOM, MOST_HEADROOM = 0.5, 0.99  # beyond it the compiled table of gains has no room for rounding
ROUNDING = 0.35  # levels: what rounding alone does, a little more than 1 / sqrt(12)


@dataclass(frozen=True)
class Parts:
    """``O = I R`` of a picture, at its own size, and the record of how ``I`` was found on the grid.

    ``I`` is the light by which the enhancer makes its result, headroom and all. ``R`` is at most 1, but for dark pixels
    of a picture whose black has a colour: their light is found without it.
    """

    illumination: Pixels
    reflectance: Pixels
    certificate: Certificate
    history: History


@dataclass(frozen=True)
class _Scene:
    """A picture on the grid, the colour of its black taken off, and what the networks say of it."""

    small: Pixels
    cast: tuple[float, ...]
    proposal: Proposal | None

    @cached_property
    def brightest(self) -> Pixels:
        return brightest_of(self.small)

    @property
    def guess(self) -> Pixels:
        return self.brightest if self.proposal is None else self.proposal.illumination


class Enhancer:
    r"""``curve(O / I^s)``: the illumination I by :mod:`tecu.lowlight.model`, exponent and curve by the scene.

    Parameters
    ----------
    method
        ``"tecu"`` (the anchored model), ``"paper"`` (as printed), ``"pam"`` (no network), or a classical method's name.
    strength
        0 leaves the picture as it is, 1 is the default; up to 2 also lifts the shadows, of any picture, and leaves what
        is brighter than the headroom.
    denoise
        Whether to smooth the noise that the gain has brought up. A picture without noise is not touched by it.
    model
        An ONNX file from ``tecu train``, instead of the weights in the package; for ``"hdrnet"`` one from
        ``tecu train --network hdrnet``.
    headroom
        How near to white (1) the gain may bring a pixel, from 0.5 to 0.99; it does not raise brighter ones, but the
        tone curve may. The classical methods do not know it.

    Examples
    --------
    >>> import numpy as np
    >>> dark = np.random.default_rng(0).integers(0, 40, (32, 48, 3), dtype=np.uint8)
    >>> bright = Enhancer()(dark)
    >>> bright.shape, bright.dtype, bool(bright.mean() > 2 * dark.mean())
    ((32, 48, 3), dtype('uint8'), True)
    >>> Enhancer().decompose(dark).certificate.holds
    True
    """

    def __init__(
        self,
        method: str = "tecu",
        strength: float = 1.0,
        denoise: bool = True,
        *,
        model: str | Path | None = None,
        headroom: float = HEADROOM,
    ) -> None:
        if not (isinstance(strength, int | float | np.number) and 0.0 <= strength <= STRONGEST):  # also refuses NaN
            raise ValueError(f"strength must be a number from 0 to {STRONGEST:g}, got {strength!r}")
        if not (isinstance(headroom, int | float | np.number) and LEAST_HEADROOM <= headroom <= MOST_HEADROOM):
            raise ValueError(
                f"headroom must be a number from {LEAST_HEADROOM:g} to {MOST_HEADROOM:g}, got {headroom!r}"
            )
        if denoise not in (False, True):  # the word "no" would count as yes
            raise ValueError(f"denoise must be True or False, got {denoise!r}")
        self.headroom = float(headroom)
        self.method, self.strength, self.denoise = method, float(strength), bool(denoise)
        if not isinstance(method, str):
            raise _unknown(method)
        if method == "pam" and model is not None:
            raise _without_network(method)
        if not (model is None or isinstance(model, str | os.PathLike)):
            raise TypeError(f"model: expected the path of an ONNX file, got {type(model).__name__}")
        self._classical = None if method in MODELS else _classical(method, model)
        self._model = model
        if model is not None and self._classical is None:
            self.network.session  # noqa: B018  (a bad file is refused here, not at the first picture)

    def __repr__(self) -> str:
        model = "" if self._model is None else f", model={str(self._model)!r}"
        room = "" if self.headroom == HEADROOM else f", headroom={self.headroom:g}"
        return f"Enhancer({self.method!r}, strength={self.strength:g}, denoise={self.denoise}{model}{room})"

    @cached_property
    def network(self) -> Network:
        """The networks in use."""
        return default_network() if self._model is None else Network(self._model)

    def __call__(self, image: Any) -> Any:
        """The enhanced picture, of the same kind, dtype and shape; transparency is kept."""
        return through(image, self._enhance)

    def decompose(self, image: Any) -> Parts:
        """Illumination, reflectance, certificate and history of one picture."""
        pixels = self._one(image, "decompose")
        scene, parts = self._found(pixels)
        exposure = self._exposure(scene, parts.illumination)
        light, reflectance = _layers(pixels, exposure)
        if np.ndim(image) == 2 and pixels.shape[2] == 1:  # a PIL image with a palette has colours
            reflectance = reflectance[..., 0]
        return Parts(light, reflectance, parts.certificate, parts.history)

    def on_grid(self, image: Any) -> Decomposition:
        """The decomposition as it is found, on a grid whose longest side is 112, whatever the size of the picture.

        Its certificate and history are those of :meth:`decompose`, and of the run behind the enhanced picture.
        """
        return self._found(self._one(image, "on_grid"))[1]

    def analyse(self, image: Any) -> Exposure:
        """What the picture needs: illumination on the grid, tone, noise."""
        return self._analyse(self._one(image, "analyse"))

    def apply(self, image: Any, exposure: Exposure) -> Any:
        """The picture rendered with an exposure that :meth:`analyse` has found, perhaps for a neighbouring frame."""
        self._refuse_classical("apply")
        if self.strength == 0.0:
            return through(image, np.copy)
        return through(image, lambda pixels: render(pixels, exposure, self.denoise))

    def _one(self, image: Any, caller: str) -> Pixels:
        found = pictures(image)
        if len(found) != 1:
            raise ValueError(f"{caller} takes one picture, got a batch of {len(found)}")
        self._refuse_classical(caller)
        return found[0]

    def _refuse_classical(self, caller: str) -> None:
        if self._classical is not None:
            raise ValueError(f"{caller}: method {self.method!r} has no decomposition; {_names()} have one")

    def _found(self, pixels: Pixels) -> tuple[_Scene, Decomposition]:
        scene = self._scene(pixels)
        return scene, decompose(scene.brightest, scene.guess, self.method)

    def _enhance(self, pixels: Pixels) -> Pixels:
        if self.strength == 0.0:
            return pixels.copy()
        if self._classical is not None:
            return self._by_classical(pixels)
        return render(pixels, self._analyse(pixels), self.denoise)

    def _analyse(self, pixels: Pixels) -> Exposure:
        scene = self._scene(pixels)
        exposure = self._exposure(scene, illumination(scene.brightest, scene.guess, self.method))
        if not self.denoise:
            return exposure
        white = whitepoint(pixels.dtype)
        rounding = ROUNDING / white if pixels.dtype.kind == "u" else 0.0
        return replace(
            exposure, noise=max(noise_level(pixels, white), rounding), crushed=crushed_noise(scene.brightest)
        )

    def _scene(self, pixels: Pixels) -> _Scene:
        small = shrink(_rgb(pixels))
        cast = black_cast(small)
        small = without_cast(small, cast)
        return _Scene(small, cast, None if self.method == "pam" else self.network(small))

    def _exposure(self, scene: _Scene, found: Pixels) -> Exposure:
        """The exposure by the illumination that was found on the grid, as if there was no noise."""
        brightest, proposal = scene.brightest, scene.proposal
        slope, offset = following(found, brightest)
        light = illumination_at(brightest, slope, offset)
        if proposal is None or self.method in ("paper", "pam"):
            chosen = tone.by_rule(scene.small, light)
        else:
            chosen = tone.by_network(scene.small, light, proposal.exponent, proposal.knots)
        chosen = chosen.with_strength(self.strength)
        light = illumination_at(brightest, slope, offset, self.headroom)
        lifted, crushed = amplification(brightest, light, chosen, self.headroom), np.zeros_like(brightest)
        return Exposure(
            slope, offset, chosen, lifted, 0.0, self.headroom, crushed, highlights_of(brightest), scene.cast
        )

    def _by_classical(self, pixels: Pixels) -> Pixels:
        """A classical method works on floats; strength blends its result with the picture, above 1 it lifts it."""
        from tecu.lowlight.classical import applied

        assert self._classical is not None
        white = np.float32(whitepoint(pixels.dtype))
        observed = pixels.astype(np.float32) / white
        plain = observed[..., 0] if pixels.shape[2] == 1 else observed
        result = applied(self._classical, plain, self.method).reshape(observed.shape)
        return finished(tone.at_strength(observed, result, self.strength), pixels)


def _layers(pixels: Pixels, exposure: Exposure) -> tuple[Pixels, Pixels]:
    """``I`` and ``R = O / I`` at the size of the picture, strip by strip: of a large one, copies would fill memory."""
    shape, white = pixels.shape[:2], np.float32(whitepoint(pixels.dtype))
    light, reflectance = np.empty(shape, np.float32), np.empty(pixels.shape, np.float32)
    for top in range(0, shape[0], STRIP):
        rows = slice(top, min(top + STRIP, shape[0]))
        observed = pixels[rows].astype(np.float32) / white
        planes = (enlarge(plane, shape, rows) for plane in (exposure.slope, exposure.offset))
        light[rows] = exposure.light(observed, *planes)
        reflectance[rows] = observed / light[rows, :, None]
    return light, reflectance


def enhance(image: Any, strength: float = 1.0) -> Any:
    """The picture, enhanced: ``Enhancer(strength=strength)(image)``.

    ``image`` is ``h x w``, ``h x w x c`` or ``n x h x w x c`` (NumPy or torch; uint8, uint16 or floats in [0, 1]), or a
    PIL image; the same kind comes back.

    >>> import numpy as np
    >>> grey = np.full((16, 16), 0.05)
    >>> bool(enhance(grey).mean() > 0.1), bool(np.array_equal(enhance(grey, strength=0), grey))
    (True, True)
    """
    return Enhancer(strength=strength)(image)


def _rgb(pixels: Pixels) -> Pixels:
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else pixels


def _names() -> str:
    return ", ".join(repr(name) for name in MODELS)


def _without_network(method: str) -> ValueError:
    return ValueError(f"model: method {method!r} has no network; 'tecu', 'paper' and 'hdrnet' take a model of yours")


def _unknown(method: object) -> ValueError:
    from tecu.lowlight.classical import METHODS

    known = ", ".join(map(repr, METHODS))
    return ValueError(f"method must be one of {_names()}, {known}, or 'module:function'; got {method!r}")


def _classical(method: str, model: str | Path | None) -> Any:
    """A classical method by its name, from the registry that is loaded only when asked for."""
    from tecu.lowlight import classical

    if method not in classical.METHODS and ":" not in method:
        raise _unknown(method)
    if model is None:
        return classical.get(method)
    if method != "hdrnet":
        raise _without_network(method)
    from tecu.lowlight.classical import hdrnet

    return partial(hdrnet.enhance, weights=hdrnet.own_weights(model))
