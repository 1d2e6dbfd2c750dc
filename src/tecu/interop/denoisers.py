"""Networks, ONNX files, denoisers and functions as strategies."""

from __future__ import annotations

import inspect
from os import PathLike
from typing import Any

from tecu.strategies.compose import as_strategy
from tecu.strategies.network import Denoiser, OnnxNetwork, TorchNetwork

STRENGTHS = ("sigma", "ths", "strength", "noise_level", "weight")


def strategy(part: Any, *, strength: float | None = None) -> Any:
    """Whatever proposes a better ``u``, as something that ``tecu.Embed`` takes.

    Parameters
    ----------
    part
        A strategy (returned as it is), a function ``u -> u``, a ``torch.nn.Module``, the path of an ONNX file, or a
        denoiser: a function or a module (such as deepinv's) of ``(image, strength)``.
    strength
        Of a denoiser. A module gets axes of length 1 before the block's own, up to four: ``(1, 1, height, width)``.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import interop
    >>> def smooth(image, sigma):
    ...     return image + sigma * (image.mean() - image)
    >>> interop.strategy(smooth, strength=0.5)
    Denoiser(smooth, 0.5)
    >>> interop.strategy(smooth)
    Traceback (most recent call last):
    ...
    TypeError: interop.strategy: smooth takes a strength as its argument 'sigma'; give it by strength=
    """
    if isinstance(part, str | PathLike):
        _refuse_strength(strength, f"the ONNX file {part}")
        return OnnxNetwork(part)
    name = getattr(part, "__name__", None) or type(part).__name__
    is_module = callable(getattr(part, "forward", None)) and callable(getattr(part, "parameters", None))
    wanted = _strength_argument(part.forward if is_module else part)
    if strength is None:
        if wanted is not None:
            raise TypeError(
                f"interop.strategy: {name} takes a strength as its argument {wanted!r}; give it by strength="
            )
        return TorchNetwork(part) if is_module else as_strategy(part)
    if wanted is None:
        _refuse_strength(strength, name)
    return TorchNetwork(FixedStrength(part, strength)) if is_module else Denoiser(part, strength)


def _refuse_strength(strength: float | None, name: str) -> None:
    if strength is not None:
        raise TypeError(
            f"interop.strategy: {name} has no argument for a strength, got strength={strength}; a denoiser is called "
            "as part(image, strength)"
        )


def _strength_argument(function: Any) -> str | None:
    """The name of the second argument, where it must be given or is called like a strength."""
    try:
        parameters = [
            p
            for p in inspect.signature(function).parameters.values()
            if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        return None
    if len(parameters) < 2 or parameters[0].name == "sub":  # strategy(sub, u)
        return None
    second = parameters[1]
    needed = second.default is inspect.Parameter.empty
    return second.name if needed or second.name in STRENGTHS else None


class FixedStrength:
    """A module of ``(image, strength)`` as one of the image alone."""

    def __init__(self, model: Any, strength: float) -> None:
        self.model, self.strength = model, float(strength)
        self.parameters, self.modules, self.eval = model.parameters, model.modules, model.eval

    def __call__(self, u: Any) -> Any:
        """``model(image, strength)`` in the shape of ``u``."""
        image = u.reshape((1,) * (4 - u.ndim) + tuple(u.shape)) if u.ndim < 4 else u
        return self.model(image, self.strength).reshape(u.shape)
