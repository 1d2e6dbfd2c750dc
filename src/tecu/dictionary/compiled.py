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


def _call_of_gemm(turned: bool, scale: float, keep: float) -> Any:
    """``out = scale left @ right + keep out``, with ``right.T`` if that is ``turned``.

    BLAS goes by columns: for it the rows of ``out`` are the columns of ``right' left'``, and arrays are turned already.
    Of ``out`` the rows may lie apart, as those of a part of a matrix do.
    """
    from llvmlite import ir
    from numba.core import cgutils

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        whole, letter, number = ir.IntType(32), ir.IntType(8), context.get_value_type(signature.args[3].dtype)
        arrays = [
            context.make_array(kind)(context, builder, value)
            for kind, value in zip(signature.args[1:], arguments[1:], strict=True)
        ]
        (rows, inner), _, (_, columns) = (cgutils.unpack_tuple(builder, array.shape, 2) for array in arrays)

        def place(value: Any, kind: Any = None) -> Any:
            value = value if kind is None else ir.Constant(kind, value)
            return cgutils.alloca_once_value(builder, value)

        m, n, k = (place(builder.trunc(size, whole)) for size in (columns, rows, inner))
        apart = cgutils.unpack_tuple(builder, arrays[2].strides, 2)[0]
        apart = place(builder.trunc(builder.sdiv(apart, arrays[2].itemsize), whole))
        of_right, of_left = place(ord("T" if turned else "N"), letter), place(ord("N"), letter)
        left, right, out = (array.data for array in arrays)
        given = [
            of_right, of_left, m, n, k, place(scale, number), right, k if turned else m, left, k, place(keep, number),
            out, apart,
        ]  # fmt: skip
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in given])
        builder.call(builder.inttoptr(arguments[0], kind.as_pointer()), given)
        return context.get_dummy_value()

    return generate


@cache
def address_of_gemm(itemsize: int) -> int:
    """Of SciPy's matrix product for floats of 4 or 8 bytes, which kernels call."""
    from scipy.linalg import cython_blas

    capsule = cython_blas.__pyx_capi__["sgemm" if itemsize == 4 else "dgemm"]
    api, handle = ctypes.pythonapi, ctypes.py_object
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, handle)(("PyCapsule_GetName", api))
    pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, handle, ctypes.c_char_p)(("PyCapsule_GetPointer", api))
    return int(pointer_of(capsule, name_of(capsule)))
