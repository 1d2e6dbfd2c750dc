"""How the kernels are compiled. This module imports numba: import it, and the kernels, lazily."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.extending import intrinsic

RELAXED = {"contract", "reassoc", "nsz", "arcp"}  # what SIMD sums need; NaN and Inf keep their meaning


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` as machine code: kept on disk between processes, run without the interpreter's lock."""
    kernel: Callable[..., Any] = njit(nogil=True, cache=True, fastmath=RELAXED)(function)
    return kernel


def part(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` for use inside kernels only: no entry from Python and no file of its own, which saves compiling.

    Always inlined. A part that is called would be found in the memory of the process, and is not the same machine code
    in one that has compiled it and in one that has loaded the kernel: sums would differ in the last digits.
    """
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}
    kernel: Callable[..., Any] = njit(fastmath=RELAXED, **options)(function)
    return kernel


def written_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` for use in one place of one kernel, as if its lines stood there: compiled once, not also by itself.

    For long ones. Short parts compile sooner as machine code that is inlined.
    """
    kernel: Callable[..., Any] = njit(fastmath=RELAXED, inline="always")(function)
    return kernel


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def take_next(typing_context: Any, counter: Any) -> Any:
    """``counter[0]``, an integer of 64 bits, and one more for whoever comes next: no two threads get the same."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "seq_cst")

    return types.int64(counter), generate
