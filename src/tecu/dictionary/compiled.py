"""The kernels of dictionary learning, as a family, and what they are made of beside Python."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

from tecu.kernels.family import Family, Primitive

RELAXED = {"contract", "reassoc", "nsz", "arcp"}  # what SIMD sums need; NaN and Inf keep their meaning

family = Family("dictionary learning", Path(__file__).with_name("kernels.bitcode"), RELAXED)
compiled, part, routine, written_out = family.kernel, family.part, family.routine, family.written_out


@Primitive
def take_next(typing_context: Any, counter: Any) -> Any:
    """``counter[0]``, an integer of 64 bits, and one more for whoever comes next: no two threads get the same."""
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        return builder.atomic_rmw("add", array.data, context.get_constant(types.int64, 1), "seq_cst")

    return types.int64(counter), generate


@Primitive
def square_root(typing_context: Any, x: Any) -> Any:
    """Of a float64, by the processor: ``np.sqrt`` may ask the library for roots of negative numbers."""
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        root = builder.module.declare_intrinsic("llvm.sqrt", [arguments[0].type])
        return builder.call(root, arguments)

    return types.float64(types.float64), generate


@Primitive
def matrix_product(typing_context: Any, gemm: Any, left: Any, right: Any, out: Any) -> Any:
    """``out = left @ right.T`` by BLAS, whose function for it is at the address ``gemm`` (:func:`address_of_gemm`)."""
    from numba import types

    return types.void(gemm, left, right, out), _call_of_gemm(turned=True, scale=1.0, keep=0.0)


@Primitive
def subtract_product(typing_context: Any, gemm: Any, left: Any, right: Any, out: Any) -> Any:
    """``out -= left @ right``, likewise."""
    from numba import types

    return types.void(gemm, left, right, out), _call_of_gemm(turned=False, scale=-1.0, keep=1.0)


@Primitive
def own_product(typing_context: Any, syrk: Any, rows: Any, out: Any) -> Any:
    """``out = rows @ rows.T`` from the diagonal on, by BLAS; what is below the diagonal stays as it is."""
    from numba import types

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        call = _Call(context, builder, signature.args[1:], arguments[1:])
        (count, inner), _ = call.shapes
        size, depth = call.whole(count), call.whole(inner)
        data, out = call.data
        # By columns: above the diagonal is below it, and the rows are columns already.
        call.make(
            arguments[0], call.letter("L"), call.letter("T"), size, depth, call.number(1.0), data, depth,
            call.number(0.0), out, call.apart(1),
        )  # fmt: skip
        return context.get_dummy_value()

    return types.void(syrk, rows, out), generate


class _Call:
    """A call of a BLAS function, which wants the places of all that it is given."""

    def __init__(self, context: Any, builder: Any, kinds: Any, values: Any) -> None:
        from llvmlite import ir
        from numba.core import cgutils

        self._ir, self._cgutils, self._builder = ir, cgutils, builder
        self._arrays = [
            context.make_array(kind)(context, builder, value) for kind, value in zip(kinds, values, strict=True)
        ]
        self._number = context.get_value_type(kinds[-1].dtype)
        self.shapes = [cgutils.unpack_tuple(builder, array.shape, 2) for array in self._arrays]
        self.data = [array.data for array in self._arrays]

    def _place(self, value: Any) -> Any:
        return self._cgutils.alloca_once_value(self._builder, value)

    def letter(self, letter: str) -> Any:
        return self._place(self._ir.Constant(self._ir.IntType(8), ord(letter)))

    def number(self, number: float) -> Any:
        """In the precision of the last array."""
        return self._place(self._ir.Constant(self._number, number))

    def whole(self, number: Any) -> Any:
        return self._place(self._builder.trunc(number, self._ir.IntType(32)))

    def apart(self, i: int) -> Any:
        """How many entries lie between rows of an array: those of a part of a matrix lie apart."""
        array = self._arrays[i]
        stride = self._cgutils.unpack_tuple(self._builder, array.strides, 2)[0]
        return self.whole(self._builder.sdiv(stride, array.itemsize))

    def make(self, address: Any, *given: Any) -> None:
        kind = self._ir.FunctionType(self._ir.VoidType(), [value.type for value in given])
        self._builder.call(self._builder.inttoptr(address, kind.as_pointer()), given)


def _call_of_gemm(turned: bool, scale: float, keep: float) -> Any:
    """``out = scale left @ right + keep out``, with ``right.T`` if that is ``turned``.

    BLAS goes by columns: for it the rows of ``out`` are the columns of ``right' left'``, and arrays are turned already.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        call = _Call(context, builder, signature.args[1:], arguments[1:])
        (rows, inner), _, (_, columns) = call.shapes
        m, n, k = (call.whole(size) for size in (columns, rows, inner))
        left, right, out = call.data
        call.make(
            arguments[0], call.letter("T" if turned else "N"), call.letter("N"), m, n, k, call.number(scale), right,
            k if turned else m, left, k, call.number(keep), out, call.apart(2),
        )  # fmt: skip
        return context.get_dummy_value()

    return generate


def address_of_gemm(itemsize: int) -> int:
    """Of SciPy's matrix product for floats of 4 or 8 bytes, which kernels call."""
    return _address("gemm", itemsize)


def address_of_syrk(itemsize: int) -> int:
    """Of its product of a matrix and the same matrix turned: half the work."""
    return _address("syrk", itemsize)


@cache
def _address(function: str, itemsize: int) -> int:
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__[("s" if itemsize == 4 else "d") + function]
    api, handle = ctypes.pythonapi, ctypes.py_object
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, handle)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, handle, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return int(pointer_of(capsule, name_of(capsule)))
