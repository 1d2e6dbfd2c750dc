"""From a kernel to LLVM's language, by numba: where nothing was made ahead. This module imports numba."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numba import types
from numba.np.numpy_support import from_dtype

from tecu.kernels import machine


def bitcode_of(dispatcher: Any, kinds: Sequence[tuple[np.dtype[Any], int]], answer: str) -> tuple[str, bytes]:
    """The symbol of a function compiled for these arguments, and the bitcode that it is in."""
    numba_types = tuple(
        types.Array(from_dtype(dtype), ndim, "C") if ndim else from_dtype(dtype) for dtype, ndim in kinds
    )
    dispatcher.compile(numba_types)
    compiled = dispatcher.overloads[numba_types]
    found = str(compiled.signature.return_type).lower()
    if found != answer.lower():
        raise TypeError(f"the kernel {dispatcher.__name__} returns {found}, annotated is {answer}")
    return compiled.fndesc.llvm_func_name, machine.bitcode(without_counting(compiled.library.get_llvm_str()))


def without_counting(text: str) -> str:
    """The same without the counting of references: kernels get arrays that somebody else holds, and make none."""
    count = re.compile(r"(^define [^\n]*@NRT_(?:incref|decref)\([^\n]*\{\n).*?^\}", re.DOTALL | re.MULTILINE)
    return count.sub(r"\1  ret void\n}", text)


def with_parts(function: Callable[..., Any], parts: dict[str, Any]) -> Callable[..., Any]:
    """The same function, in which some names stand for something else."""
    from types import FunctionType

    scope = {**function.__globals__, **parts}
    copy = FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__module__, copy.__qualname__ = function.__module__, function.__qualname__
    return copy
