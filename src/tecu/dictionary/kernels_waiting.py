"""The compiled part of waiting: to look at a counter again and again, while others have the interpreter's lock."""

from __future__ import annotations

from typing import Any

from tecu.dictionary.compiled import compiled, take_next
from tecu.kernels.family import Primitive
from tecu.kernels.words import Integer, Integers

_MOMENT: dict[str, tuple[str, list[int]]] = {
    "x86_64": ("llvm.x86.sse2.pause", []),
    "aarch64": ("llvm.aarch64.hint", [1]),
    "arm64": ("llvm.aarch64.hint", [1]),
}
"""What leaves a processor to a thread that shares it, and saves power; elsewhere there is nothing of the kind."""


@Primitive
def _glance(typing_context: Any, counter: Any) -> Any:
    """``counter[0]``, an integer of 64 bits, as another thread has left it; a moment passes first."""
    from llvmlite import binding, ir
    from numba import types
    from numba.core import cgutils

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        processor, whole = binding.get_default_triple().split("-")[0], ir.IntType(32)
        name, given = _MOMENT.get(processor, ("", []))
        if name:
            numbers = [ir.Constant(whole, number) for number in given]
            kind = ir.FunctionType(ir.VoidType(), [whole] * len(given))
            builder.call(cgutils.get_or_insert_function(builder.module, kind, name), numbers)
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.load_atomic(array.data, "acquire", 8)

    return types.int64(counter), generate


@compiled
def look_out(counter: Integers, least: Integer, glances: Integer, grace: Integer, told: Integers) -> Integer:
    """Wait until ``counter[0] >= least``, for so many glances; 1 if it is, 0 if it was not in all that time.

    Before that ``told[0]`` becomes one more, so that whoever looks out for it finds the interpreter's lock free. With
    ``grace`` it waits for some glances longer: who has changed the counter holds the lock for another moment, and a
    thread that wants it meanwhile is put to sleep.
    """
    take_next(told)
    for _ in range(glances):
        if _glance(counter) >= least:
            for _ in range(grace):
                _glance(counter)
            return 1
    return 0
