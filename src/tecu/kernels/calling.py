"""Calling machine code: a Python argument becomes the numbers that numba's calling convention asks for.

A scalar is itself; an array is ``(memory manager, owner, size, item size, data, shape..., strides...)``, the first two
empty: a kernel neither allocates nor keeps anything. Before them come the places of the answer and of an error.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

_SCALARS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "float32": (ctypes.c_float, float),
    "float64": (ctypes.c_double, float),
    "int32": (ctypes.c_int32, int),
    "int64": (ctypes.c_int64, int),
    "uint8": (ctypes.c_uint8, int),
    "uint16": (ctypes.c_uint16, int),
    "uint32": (ctypes.c_uint32, int),
    "bool": (ctypes.c_uint8, int),
}

_NO_ANSWER, _FINE = -2, 0  # numba's codes for a call that went well


class Native:
    """Machine code at an address, called like the function it was made from."""

    def __init__(
        self, name: str, names: Sequence[str], address: int, kinds: Sequence[tuple[np.dtype[Any], int]], answer: str
    ) -> None:
        self._name, self._names, self._error = name, names, ctypes.c_void_p()
        self._answer: Any = ctypes.c_void_p if answer == "None" else _SCALARS[answer][0]
        types: list[Any] = [ctypes.c_void_p, ctypes.c_void_p]
        self._kinds: list[tuple[Any, int, int, Any]] = []
        for dtype, ndim in kinds:
            scalar, convert = _SCALARS[dtype.name]
            if ndim:
                types += (
                    [ctypes.c_void_p] * 2 + [ctypes.c_int64] * 2 + [ctypes.c_void_p] + [ctypes.c_int64] * (2 * ndim)
                )
            else:
                types.append(scalar)
            self._kinds.append((dtype, ndim, dtype.itemsize, convert))
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(address)  # the interpreter's lock is let go meanwhile

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The answer, if there is one."""
        answer = self._answer()
        numbers: list[Any] = [ctypes.addressof(answer), ctypes.addressof(self._error)]
        for argument, (dtype, ndim, size, convert) in zip(arguments, self._kinds, strict=True):
            if not ndim:
                numbers.append(convert(argument))
            elif argument.dtype == dtype and argument.ndim == ndim and argument.flags.c_contiguous:
                numbers += (None, None, argument.size, size, argument.ctypes.data, *argument.shape, *argument.strides)
            else:
                self._refuse(arguments)
        status = self._call(*numbers)
        if status not in (_FINE, _NO_ANSWER):
            raise RuntimeError(f"the kernel {self._name} ended with status {status}")
        return answer.value

    def _refuse(self, arguments: Sequence[Any]) -> None:
        for name, argument, (dtype, ndim, _, _) in zip(self._names, arguments, self._kinds, strict=True):
            if ndim and not (argument.dtype == dtype and argument.ndim == ndim and argument.flags.c_contiguous):
                raise TypeError(
                    f"the kernel {self._name} takes {name} as a C-contiguous array of {dtype} with {ndim} dimensions, "
                    f"got one of {argument.dtype} with {argument.ndim} and strides {argument.strides}"
                )
