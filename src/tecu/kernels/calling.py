"""Calling machine code: a Python argument becomes the numbers that numba's calling convention asks for.

A scalar is itself; an array is ``(memory manager, owner, size, item size, data, shape..., strides...)``, the first two
empty: a kernel neither allocates nor keeps anything. Before them come the places of the answer and of an error. To take
an array apart in Python would take several microseconds, while other threads wait for the interpreter's lock; so each
kernel gets an entry in LLVM's language that reads NumPy's own record of it (``data``, the number of dimensions,
``shape``, ``strides``, behind the head of every Python object: a part of NumPy's binary interface).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Kinds = Sequence[tuple[np.dtype[Any], int]]

_SCALARS: dict[str, tuple[type, str, Callable[[Any], Any]]] = {
    "float32": (ctypes.c_float, "float", float),
    "float64": (ctypes.c_double, "double", float),
    "int32": (ctypes.c_int32, "i32", int),
    "int64": (ctypes.c_int64, "i64", int),
    "uint8": (ctypes.c_uint8, "i8", int),
    "uint16": (ctypes.c_uint16, "i16", int),
    "uint32": (ctypes.c_uint32, "i32", int),
    "bool": (ctypes.c_uint8, "i8", int),
}

_DATA, _SHAPE, _STRIDES = (object.__basicsize__ + place for place in (0, 16, 24))

_NO_ANSWER, _FINE = -2, 0  # numba's codes for a call that went well

ENTRY = "tecu_entry"


def entry_to(symbol: str, kinds: Kinds) -> str:
    """``ENTRY(answer, error, ...)`` in LLVM's language, which calls ``symbol``; of an array it takes the object."""
    lines: list[str] = []
    given, passed = ["ptr %answer", "ptr %error"], ["ptr %answer", "ptr %error"]
    for i, (dtype, ndim) in enumerate(kinds):
        if not ndim:
            given.append(f"{_SCALARS[dtype.name][1]} %x{i}")
            passed.append(given[-1])
            continue
        given.append(f"ptr %x{i}")
        for field, offset in (("data", _DATA), ("shape", _SHAPE), ("strides", _STRIDES)):
            lines.append(f"%{field}{i}.at = getelementptr i8, ptr %x{i}, i64 {offset}")
            lines.append(f"%{field}{i} = load ptr, ptr %{field}{i}.at")
        numbers: dict[str, list[str]] = {"shape": [], "strides": []}
        for field, found in numbers.items():
            for k in range(ndim):
                found.append(f"%{field}{i}.{k}")
                lines.append(f"{found[-1]}.at = getelementptr i64, ptr %{field}{i}, i64 {k}")
                lines.append(f"{found[-1]} = load i64, ptr {found[-1]}.at")
        size = numbers["shape"][0]
        for k in range(1, ndim):
            lines.append(f"%size{i}.{k} = mul i64 {size}, {numbers['shape'][k]}")
            size = f"%size{i}.{k}"
        passed += ["ptr null", "ptr null", f"i64 {size}", f"i64 {dtype.itemsize}", f"ptr %data{i}"]
        passed += [f"i64 {number}" for number in numbers["shape"] + numbers["strides"]]
    types = ", ".join(argument.split()[0] for argument in passed)
    return "\n".join(
        [
            f'declare i32 @"{symbol}"({types})',
            f"define i32 @{ENTRY}({', '.join(given)}) {{",
            *lines,
            f'%status = call i32 @"{symbol}"({", ".join(passed)})',
            "ret i32 %status",
            "}",
        ]
    )


class Native:
    """Machine code, called like the function it was made from; ``address`` is that of its :func:`entry_to`."""

    def __init__(self, name: str, names: Sequence[str], address: int, kinds: Kinds, answer: str) -> None:
        self._name, self._names, self._error = name, names, ctypes.c_void_p()
        self._answer: Any = ctypes.c_void_p if answer == "None" else _SCALARS[answer][0]
        self._kinds = [(dtype, ndim, _SCALARS[dtype.name][2]) for dtype, ndim in kinds]
        types = [ctypes.c_void_p if ndim else _SCALARS[dtype.name][0] for dtype, ndim in kinds]
        made = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types)
        self._call = made(address)  # the interpreter's lock is let go meanwhile

    def __call__(self, arguments: Sequence[Any]) -> Any:
        """The answer, if there is one."""
        return self.bound(arguments)()

    def bound(self, arguments: Sequence[Any]) -> Callable[[], Any]:
        """A call that is ready to be made: what takes time in Python is done."""
        answer = self._answer()
        numbers: list[Any] = [ctypes.addressof(answer), ctypes.addressof(self._error)]
        for argument, (dtype, ndim, convert) in zip(arguments, self._kinds, strict=True):
            if not ndim:
                numbers.append(convert(argument))
            elif _fits(argument, dtype, ndim):
                numbers.append(id(argument))
            else:
                self._refuse(arguments)

        def run() -> Any:
            status = self._call(*numbers)
            if status not in (_FINE, _NO_ANSWER):
                raise RuntimeError(f"the kernel {self._name} ended with status {status}")
            return answer.value

        run.given = arguments  # type: ignore[attr-defined]  # arrays that only numbers speak of must not go away
        return run

    def _refuse(self, arguments: Sequence[Any]) -> None:
        for name, argument, (dtype, ndim, _) in zip(self._names, arguments, self._kinds, strict=True):
            if ndim and not _fits(argument, dtype, ndim):
                raise TypeError(
                    f"the kernel {self._name} takes {name} as a C-contiguous array of {dtype} with {ndim} dimensions, "
                    f"got one of {argument.dtype} with {argument.ndim} and strides {argument.strides}"
                )


def _fits(argument: Any, dtype: np.dtype[Any], ndim: int) -> bool:
    return (
        isinstance(argument, np.ndarray)
        and argument.dtype == dtype
        and argument.ndim == ndim
        and argument.flags.c_contiguous
    )
