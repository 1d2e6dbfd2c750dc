"""Any scalar torch or JAX function of the blocks as a coupling."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from typing import Any, Literal

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import BlockCoupling, Precision, checked_precision
from tecu.protocols import Blocks, Memory, Restricted, Term

Backend = Literal["torch", "jax"]


class Autodiff(BlockCoupling):
    r"""``H(z) = fn(**z)``, differentiated by torch or JAX.

    Parameters
    ----------
    fn
        A function that takes the blocks as keyword arguments and gives a scalar tensor or array. One of JAX is faster
        as ``jax.jit(fn)``, if it depends on nothing that changes.
    blocks
        The names of the blocks; by default the names of ``fn``'s arguments.
    backend
        ``"torch"`` or ``"jax"``. Only needed for NumPy blocks, which are handed to ``fn`` in that form.
    computes_in
        ``"float32"`` where ``fn`` computes in that precision though the blocks are float64 (by ``x.float()``, say, for
        a network): its values and gradients are then allowed to round like it. ``None``: in that of the blocks.

    Examples
    --------
    >>> import numpy as np
    >>> H = Autodiff(lambda x, y: ((x * y - 1.0) ** 2).sum(), backend="torch")
    >>> H.grad("x", {"x": np.ones(2), "y": np.array([1.0, 2.0])}).tolist()
    [0.0, 4.0]
    """

    def __init__(
        self,
        fn: Callable[..., Any],
        blocks: Iterable[str] | None = None,
        *,
        backend: Backend | None = None,
        computes_in: Precision | None = None,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"Autodiff: fn must be a function of the blocks, got {fn!r}")
        if backend not in (None, "torch", "jax"):
            raise ValueError(f"Autodiff: backend must be 'torch', 'jax' or None, got {backend!r}")
        self.fn, self.backend = fn, backend
        self.computes_in = checked_precision(computes_in, "Autodiff")
        self.blocks = _argument_names(fn) if blocks is None else tuple(blocks)
        if not self.blocks:
            raise ValueError("Autodiff: the arguments of fn have no names; give them by blocks=[...]")

    def __repr__(self) -> str:
        return f"Autodiff({getattr(self.fn, '__name__', repr(self.fn))}, blocks={list(self.blocks)})"

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        own = self._own(z)
        backend = self._backend(own)
        with self._noting("computing", own):
            return self._torch_float(own) if backend == "torch" else self._jax_float(own)

    def grad(self, block: str, z: Blocks) -> Array:
        """The gradient of ``H`` with respect to one block."""
        return self.value_and_grad(block, z)[1]

    def value_and_grad(self, block: str, z: Blocks) -> tuple[float, Array]:
        """``H(z)`` and its gradient with respect to one block, by one run of ``fn`` forth and back."""
        self.require(block)
        own = self._own(z)
        backend = self._backend(own)
        with self._noting(f"differentiating with respect to block {block!r}", own):
            return self._torch_gradient(block, own) if backend == "torch" else self._jax_gradient(block, own)

    def restrict(self, block: str, z: Blocks) -> AutodiffBlock:
        """``H`` as a function of one block."""
        self.require(block)
        return AutodiffBlock(self, block, z)

    # Nothing is known about fn beyond its values and gradients.

    def lipschitz(self, block: str, z: Blocks) -> None:
        """``None``: back-tracking."""

    def hessian(self, block: str, z: Blocks, v: Array) -> None:
        """``None``: not known to be quadratic."""

    def minimize(self, block: str, z: Blocks, term: Term, eta: float) -> None:
        """``None``: no closed form."""

    def _own(self, z: Blocks) -> dict[str, Array]:
        for name in self.blocks:
            if name not in z:
                raise ValueError(f"block {name!r} of Autodiff is missing; the blocks given are {list(z)}")
            if arrays.is_sparse(z[name]):
                raise TypeError(f"block {name!r} of Autodiff must be dense; torch and JAX do not take CSR arrays")
        return {name: z[name] for name in self.blocks}

    @contextmanager
    def _noting(self, doing: str, z: Blocks) -> Iterator[None]:
        """Errors pass through as they are, with a note on where they come from: torch and JAX name no blocks."""
        try:
            yield
        except Exception as error:
            blocks = ", ".join(f"{name!r} {_shape(x)}" for name, x in z.items())
            error.add_note(f"Autodiff: this came up in {doing} the function {_name(self.fn)}, given blocks {blocks}")
            raise

    def _backend(self, z: Blocks) -> str:
        if self.backend is not None:
            return self.backend
        for x in z.values():
            if arrays.is_torch(x):
                return "torch"
            if type(x).__module__.startswith("jax"):
                return "jax"
        kinds = sorted({type(x).__name__ for x in z.values()})
        raise TypeError(
            f"Autodiff differentiates torch tensors and JAX arrays, got {', '.join(kinds)}; "
            "say backend='torch' or backend='jax' to have NumPy blocks turned into one of them"
        )

    def _scalar(self, out: Any) -> Any:
        shape = getattr(out, "shape", None)
        if shape is None or tuple(shape) != ():
            if shape is None:
                got = f"a {type(out).__name__}; return the tensor or array itself, without float() or item()"
            else:
                got = f"an array of shape {tuple(shape)}; sum it up"
            raise ValueError(f"Autodiff: fn must give a scalar tensor or array, got {got}")
        return out

    def _torch_float(self, z: Blocks) -> float:
        import torch

        with torch.no_grad():
            return float(self._torch_value({name: _torch(x) for name, x in z.items()}))

    def _torch_value(self, tensors: dict[str, Any]) -> Any:
        try:
            return self._scalar(self.fn(**tensors))
        except RuntimeError as error:
            if "dtype" not in str(error):
                raise
            given = {name: str(x.dtype) for name, x in tensors.items()}
            raise TypeError(
                f"Autodiff: fn does not take blocks of the precision {given}: {error}. Convert a network of fn with "
                ".double(), start from float32 blocks, or use x.float() in fn and say computes_in='float32'"
            ) from error

    def _torch_gradient(self, block: str, z: Blocks) -> tuple[float, Array]:
        import torch

        tensors = {name: _torch(x) for name, x in z.items()}
        leaf = tensors[block].requires_grad_(True)
        with torch.enable_grad():
            out = self._torch_value(tensors)
        gradient = None
        if out.requires_grad:
            (gradient,) = torch.autograd.grad(out, leaf, allow_unused=True)
        if gradient is None:
            raise ValueError(
                f"Autodiff: torch finds no way from block {block!r} to the result of fn; "
                "either fn does not use it (leave it out of blocks) or cuts it off by detach(), item() or numpy()"
            )
        return float(out.detach()), gradient if arrays.is_torch(z[block]) else gradient.numpy()

    def _jax_precision(self, z: Blocks) -> AbstractContextManager[Any]:
        """float64 NumPy blocks keep their precision whatever JAX's global setting is."""
        if any(isinstance(x, np.ndarray) and x.dtype == np.float64 for x in z.values()):
            import jax

            if hasattr(jax, "enable_x64"):
                context: AbstractContextManager[Any] = jax.enable_x64(True)
                return context
            from jax.experimental import enable_x64  # JAX before 0.8

            context = enable_x64()
            return context
        return nullcontext()

    def _jax_float(self, z: Blocks) -> float:
        import jax.numpy as jnp

        with self._jax_precision(z):
            return float(self._scalar(self.fn(**{name: jnp.asarray(x) for name, x in z.items()})))

    def _jax_gradient(self, block: str, z: Blocks) -> tuple[float, Array]:
        import jax
        import jax.numpy as jnp

        with self._jax_precision(z):
            values = {name: jnp.asarray(x) for name, x in z.items()}

            def of_block(u: Any) -> Any:
                return self._scalar(self.fn(**{**values, block: u}))

            value, gradient = jax.value_and_grad(of_block)(values[block])
            return float(value), np.array(gradient) if isinstance(z[block], np.ndarray) else gradient


class AutodiffBlock(Restricted):
    """``fn`` as a function of one block."""

    def __init__(self, coupling: Autodiff, block: str, z: Blocks) -> None:
        super().__init__(coupling, block, z)
        self.model = coupling

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, by one run of ``fn`` forth and back."""
        return self.model.value_and_grad(self.block, self._at(u))

    def is_quadratic(self) -> bool:
        """``False``: nothing is known about ``fn``."""
        return False

    def lipschitz(self, memory: Memory) -> float | None:
        """``None``: back-tracking."""
        return None


def _torch(x: Array) -> Any:
    """``x`` as a torch tensor with no history of its own."""
    import torch

    return x.detach() if arrays.is_torch(x) else torch.from_numpy(np.array(x))


def _shape(x: Any) -> str:
    """As words of a note on an error, so this must not raise another: ``x`` may be anything."""
    shape = getattr(x, "shape", None)
    return f"(a {type(x).__name__})" if shape is None else f"of shape {tuple(shape)}"


def _name(fn: Callable[..., Any]) -> str:
    while isinstance(fn, partial):
        fn = fn.func
    return repr(getattr(fn, "__name__", type(fn).__name__))


def _argument_names(fn: Callable[..., Any]) -> tuple[str, ...]:
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in named and p.default is inspect.Parameter.empty)
