"""Networks and denoisers as strategies: functions ``u -> u`` that propose once."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import checked_number
from tecu.settings import is_whole
from tecu.strategies.onnx_file import check_model


class OnnxNetwork:
    """A network from an ONNX file, ``u -> u``, run by onnxruntime on the processor.

    The file must hold its own weights, use standard operators only, and have one float32 input and one float32 output
    of as many numbers as the block. Where the network takes more axes than the block has (a batch, a channel), axes of
    length 1 are put before; its answer is reshaped to the block.

    Parameters
    ----------
    path
        The file. It is read now; the session is made at the first call and is no part of copies, pickles or states.
    before, after
        Functions of NumPy arrays around the network, ``after(answer, u)``, such as a logarithm and an exponential.
    threads
        The number of threads; with more than one the result may differ in its last digits from run to run.
    """

    def __init__(
        self,
        path: str | PathLike[str],
        *,
        before: Callable[[Array], Array] | None = None,
        after: Callable[[Array, Array], Array] | None = None,
        threads: int = 1,
    ) -> None:
        self.name = Path(path).name
        try:
            self.model = Path(path).read_bytes()
        except OSError as error:
            raise FileNotFoundError(f"OnnxNetwork: the file {path} cannot be read: {error.strerror}") from None
        if not (is_whole(threads) and threads >= 1):
            raise ValueError(f"OnnxNetwork: threads must be a whole number >= 1, got {threads!r}")
        self.before, self.after, self.threads = before, after, threads
        self.digest = hashlib.sha256(self.model).hexdigest()
        self._session: Any = None
        check_model(self.model, f"OnnxNetwork: {self.name}")

    def __call__(self, u: Array) -> Array:
        """The network's answer for ``u``, in the kind and precision of ``u``."""
        session = self._open()
        values = arrays.host(arrays.dense(u))
        given = np.asarray(values if self.before is None else self.before(values), dtype=np.float32)
        rank = len(session.get_inputs()[0].shape)
        if given.ndim < rank:
            given = given.reshape((1,) * (rank - given.ndim) + given.shape)
        try:
            answer = np.asarray(session.run(None, {session.get_inputs()[0].name: given})[0])
        except Exception as error:  # onnxruntime has no public base class of its errors
            raise ValueError(
                f"OnnxNetwork: {self.name} cannot take an array of shape {given.shape}: {error}"
            ) from error
        if self.after is not None:
            answer = np.asarray(self.after(answer, values))
        if answer.size != values.size:
            raise ValueError(
                f"OnnxNetwork: {self.name} answered with shape {answer.shape}, which does not fit a block of shape "
                f"{values.shape}; give after= to bring it into shape"
            )
        return arrays.as_kind(arrays.from_numpy(answer.reshape(values.shape), u), u)

    def _open(self) -> Any:
        if self._session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self.threads
            options.inter_op_num_threads = 1
            options.log_severity_level = 3  # errors are raised; warnings about a user's file are not ours to print
            try:
                session = onnxruntime.InferenceSession(self.model, options, providers=["CPUExecutionProvider"])
            except Exception as error:
                raise ValueError(
                    f"OnnxNetwork: {self.name} is no model that onnxruntime can run with standard operators: {error}"
                ) from error
            self._check(session)
            self._session = session
        return self._session

    def _check(self, session: Any) -> None:
        for kind, nodes in (("input", session.get_inputs()), ("output", session.get_outputs())):
            if len(nodes) != 1:
                raise ValueError(f"OnnxNetwork: {self.name} must have one {kind}, it has {len(nodes)}")
            if nodes[0].type != "tensor(float)":
                raise ValueError(f"OnnxNetwork: the {kind} of {self.name} must be float32, it is {nodes[0].type}")

    def fingerprint(self) -> tuple[Any, ...]:
        """What a saved state knows this network by: the file's content, wherever it lies, and what is around it."""
        return self.digest, self.before, self.after, self.threads

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_session": None}

    def __repr__(self) -> str:
        return f"OnnxNetwork({self.name!r}, sha256={self.digest[:12]!r})"


class Denoiser:
    """A denoiser ``function(u, strength)`` as a strategy ``u -> u``.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import strategies
    >>> def smooth(image, sigma):
    ...     return image + sigma * (image.mean() - image)
    >>> strategies.Denoiser(smooth, 0.5)(np.array([0.0, 1.0]))
    array([0.25, 0.75])
    """

    def __init__(self, function: Callable[[Array, float], Array], strength: float) -> None:
        if not callable(function):
            raise TypeError(f"Denoiser: function must be callable as function(image, strength), got {function!r}")
        self.function, self.strength = function, checked_number(strength, "strength", "Denoiser")

    def __call__(self, u: Array) -> Array:
        """``function(u, strength)``; ``u`` is a copy, which the function may overwrite."""
        return self.function(arrays.copy(u), self.strength)

    def __repr__(self) -> str:
        name = getattr(self.function, "__name__", type(self.function).__name__)
        return f"Denoiser({name}, {self.strength})"


class TorchNetwork:
    """A ``torch.nn.Module`` as a function ``u -> u`` of any kind of block, in evaluation mode and without gradients."""

    def __init__(self, module: Any) -> None:
        self.module = module

    def __call__(self, u: Array) -> Array:
        """The module's answer for ``u``, in the kind and precision of ``u``."""
        import torch

        own = next(iter(self.module.parameters()), None)
        given = u if arrays.is_torch(u) else torch.from_numpy(np.array(arrays.host(arrays.dense(u))))
        if own is not None:
            given = given.to(dtype=own.dtype, device=own.device)
        training = [part for part in self.module.modules() if part.training]
        self.module.eval()
        try:
            with torch.no_grad():
                answer = self.module(given)
        finally:
            for part in training:
                part.training = True
        if not isinstance(answer, torch.Tensor):
            raise TypeError(
                f"{type(self.module).__name__} must answer with one tensor of the block's shape {tuple(u.shape)}, "
                f"got a {type(answer).__name__}; wrap it in a function that picks or makes that tensor"
            )
        if arrays.is_torch(u):
            return answer.to(dtype=u.dtype, device=u.device)
        return arrays.as_kind(arrays.from_numpy(answer.cpu().numpy(), u), u)

    def __repr__(self) -> str:
        return f"TorchNetwork({type(self.module).__name__})"


def adapted(function: Any) -> Any:
    """``function``, or a torch module made callable on every kind of block."""
    torch = sys.modules.get("torch")
    return TorchNetwork(function) if torch is not None and isinstance(function, torch.nn.Module) else function
