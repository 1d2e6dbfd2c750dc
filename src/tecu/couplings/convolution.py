"""(Blind) deconvolution by FFT."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.couplings.base import (
    BlockCoupling,
    Data,
    QuadraticRestricted,
    checked_data,
    checked_names,
    get_block,
    residual_magnitude,
)
from tecu.couplings.diagonal import quadratic_weight
from tecu.protocols import Blocks, Memory, Term

LARGEST_SYSTEM = 2048  # kernel entries up to which its exact minimiser is a dense linear system


class Convolution(BlockCoupling):
    r"""``H(x, k) = 1/2 ||k * x - y||^2``, a circular convolution.

    Parameters
    ----------
    observed
        ``y``, of any number of dimensions.
    image
        The name of the block ``x``, of the shape of ``y``.
    kernel
        The name of the block ``k``, or a known kernel: then ``x`` is the only block. It has as many dimensions as ``y``
        and is nowhere larger; its entry number ``size // 2`` along each axis is its centre.
    boundary
        ``"circular"``, the only one so far: what leaves the image on one side comes in on the other.

    Notes
    -----
    The Lipschitz constants are the largest ``|FFT(k)|^2`` (exact) and ``|FFT(x)|^2``. ``Zero`` and ``SquaredL2``
    have exact minimisers: in the Fourier domain for ``x``, by a linear system for a ``k`` with at most 2048 entries.

    Examples
    --------
    >>> import numpy as np
    >>> H = Convolution(np.array([1.0, 2.0, 3.0]), kernel=np.array([0.0, 0.0, 1.0]))  # shifts by one
    >>> round(H.value({"x": np.array([2.0, 3.0, 1.0])}), 12)
    0.0
    """

    def __init__(self, observed: Any, image: str = "x", kernel: Any = "k", boundary: str = "circular") -> None:
        owner = type(self).__name__
        if boundary != "circular":
            raise ValueError(f"{owner}: boundary must be 'circular', got {boundary!r}; pad the image for another one")
        self.observed = Data(checked_data(observed, "observed", owner))
        self.shape = self.observed.shape
        if arrays.is_sparse(self.observed.values) or not self.shape:
            raise ValueError(f"{owner}: observed must be a dense array with at least one dimension")
        self.image = image
        self.kernel: str | None = None
        self.known: Data | None = None
        if isinstance(kernel, str):
            self.blocks = checked_names(owner, image=image, kernel=kernel)
            self.kernel = kernel
        else:
            self.blocks = checked_names(owner, image=image)
            self.known = Data(checked_data(kernel, "kernel", owner))
            self._check_kernel(self.known.shape, "kernel")
            if arrays.is_sparse(self.known.values):
                raise TypeError(f"{owner}: kernel must be a dense array, got a sparse one; use .toarray()")

    def __repr__(self) -> str:
        kernel = "known" if self.kernel is None else repr(self.kernel)
        return f"Convolution({' x '.join(map(str, self.shape))}, image={self.image!r}, kernel={kernel})"

    def _check_kernel(self, shape: tuple[int, ...], name: str) -> None:
        fits = len(shape) == len(self.shape) and all(k <= n for k, n in zip(shape, self.shape, strict=True))
        if not fits:
            raise ValueError(f"{name} of Convolution must be nowhere larger than the image, {self.shape}, got {shape}")

    def get_kernel(self, z: Blocks, like: Array) -> Array:
        """The kernel: the block, or the known one."""
        if self.kernel is None:
            assert self.known is not None
            return self.known.like(like)
        if self.kernel not in z:
            raise ValueError(f"block {self.kernel!r} of Convolution is missing; the blocks given are {list(z)}")
        self._check_kernel(tuple(z[self.kernel].shape), f"block {self.kernel!r}")
        return get_block(z, self.kernel, z[self.kernel].shape, type(self).__name__, dense=True)

    def value(self, z: Blocks) -> float:
        """``H(z)``."""
        return self.restrict(self.image, z).value(z[self.image])

    def restrict(self, block: str, z: Blocks) -> ConvolutionBlock:
        """``H`` as a function of image or kernel, the spectrum of the other one computed once."""
        self.require(block)
        x = get_block(z, self.image, self.shape, type(self).__name__, dense=True)
        k = self.get_kernel(z, x)
        return ConvolutionBlock(self, block, z, x, k)


class ConvolutionBlock(QuadraticRestricted):
    """``1/2 ||f * u - y||^2`` with ``F``, ``U``, ``Y`` the spectra: gradient ``IFFT(conj(F) (F U - Y))``."""

    def __init__(self, coupling: Convolution, block: str, z: Blocks, x: Array, k: Array) -> None:
        super().__init__(coupling, block, z)
        self.shape = coupling.shape
        self.is_kernel = block == coupling.kernel
        self.size = tuple(k.shape)
        self.axes = tuple(range(len(self.shape)))
        self.xp = arrays.namespace(x)
        self.fft = self.xp.fft
        if self.xp is np:
            import scipy.fft  # twice as fast as NumPy's

            self.fft = scipy.fft
        self.observed = coupling.observed
        self.spectrum: Array = self.transform(x) if self.is_kernel else self.transform(self.padded(k))
        self.target: Array = self.transform(coupling.observed.like(x))

    # -- between a block and its spectrum -------------------------------------------------------------------------

    def transform(self, image: Array) -> Array:
        """The spectrum of an image."""
        return self.fft.rfftn(image, axes=self.axes)

    def padded(self, kernel: Array) -> Array:
        """A kernel in an image of zeros, its centre at the origin."""
        xp, out = arrays.namespace(kernel), kernel
        for axis, (n, k) in enumerate(zip(self.shape, self.size, strict=True)):
            shape = list(out.shape)
            shape[axis] = n - k
            out = xp.concat([out, arrays.from_numpy(np.zeros(shape), kernel)], axis=axis)
        return xp.roll(out, tuple(-(k // 2) for k in self.size), axis=self.axes)

    def forward(self, u: Array) -> Array:
        """The spectrum of the block."""
        return self.transform(self.padded(u) if self.is_kernel else u)

    def backward(self, spectrum: Array) -> Array:
        """The adjoint: an image from a spectrum, cut to the kernel's place for a kernel."""
        image = self.fft.irfftn(spectrum, s=self.shape, axes=self.axes)
        if not self.is_kernel:
            return image
        image = self.xp.roll(image, tuple(k // 2 for k in self.size), axis=self.axes)
        return self.xp.asarray(image[tuple(slice(k) for k in self.size)], copy=True)

    # -- the function ---------------------------------------------------------------------------------------------

    def _energy(self, spectrum: Array) -> float:
        """``1/2 ||image||^2`` from half a spectrum (Parseval): all but the first and the Nyquist plane count twice."""

        def total(part: Array) -> float:
            return sum(arrays.inner(values, values) for values in (self.xp.real(part), self.xp.imag(part)))

        once = total(spectrum[..., :1])
        if self.shape[-1] % 2 == 0:
            once += total(spectrum[..., -1:])
        return 0.5 * (2.0 * total(spectrum) - once) / float(np.prod(self.shape))

    def value(self, u: Array) -> float:
        """``H(u, others)``."""
        return self._energy(self.spectrum * self.forward(u) - self.target)

    def grad(self, u: Array) -> Array:
        """The gradient at ``u``."""
        return self.backward(self.xp.conj(self.spectrum) * (self.spectrum * self.forward(u) - self.target))

    def value_and_grad(self, u: Array) -> tuple[float, Array]:
        """Value and gradient at ``u``, for the price of the gradient."""
        misfit = self.spectrum * self.forward(u) - self.target
        return self._energy(misfit), self.backward(self.xp.conj(self.spectrum) * misfit)

    @property
    def power(self) -> Array:
        """``|F|^2``."""
        return self.xp.real(self.spectrum) ** 2 + self.xp.imag(self.spectrum) ** 2

    def hessian(self, v: Array) -> Array:
        """``IFFT(|F|^2 V)``."""
        return self.backward(self.power * self.forward(v))

    def lipschitz(self, memory: Memory) -> float:
        """``max |F|^2``."""
        return float(arrays.host(self.power).max())

    def minimize(self, term: Term, eta: float) -> Array | None:
        """The exact minimiser for ``Zero`` and ``SquaredL2``."""
        weight = quadratic_weight(term)
        if weight is None:
            return None
        previous = self.z[self.block]
        descent = -self.grad(previous) - weight * previous
        if self.is_kernel:
            return self._minimize_kernel(previous, descent, eta + weight)
        system = self.power + (eta + weight)
        floor = 1e2 * arrays.unit_roundoff(previous) * float(arrays.host(system).max())
        empty = system <= floor  # frequencies that the kernel removes stay as they are
        xp = self.xp
        step = xp.where(empty, xp.zeros_like(system), 1.0 / xp.where(empty, xp.ones_like(system), system))
        return previous + self.backward(step * self.transform(descent))

    def _minimize_kernel(self, previous: Array, descent: Array, shift: float) -> Array | None:
        count = int(np.prod(self.size))
        if count > LARGEST_SYSTEM:
            return None
        correlation = arrays.host(self.fft.irfftn(self.power + 0.0 * self.spectrum, s=self.shape, axes=self.axes))
        index = []
        for axis, (n, k) in enumerate(zip(self.shape, self.size, strict=True)):
            lags = (np.arange(k)[:, None] - np.arange(k)[None, :]) % n
            shape = [1] * (2 * len(self.shape))
            shape[axis], shape[axis + len(self.shape)] = k, k
            index.append(lags.reshape(shape))
        system = correlation[tuple(index)].reshape(count, count).astype(np.float64) + shift * np.eye(count)
        right = arrays.host(descent).reshape(count).astype(np.float64)
        step = np.linalg.lstsq(system, right, rcond=None)[0].reshape(self.size)
        return previous + arrays.from_numpy(step, previous)

    def magnitude(self, value: float) -> float:
        """The value, and what the rounding of ``k * x - y`` adds to it."""
        return residual_magnitude(value, self.observed, self.z[self.block])
