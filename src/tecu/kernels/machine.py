"""From LLVM's language to machine code for this processor, by llvmlite alone.

numba has optimised the bitcode, loops are vectorised: what is left to do takes a fraction of a second a kernel.
"""

from __future__ import annotations

import platform
import sys
from functools import lru_cache
from threading import RLock
from typing import Any

import llvmlite.binding as llvm

OF_NUMBA = ("NRT_", "numba", "Py", "_Py")
"""Functions that are there while numba is, but not in a later process."""

_lock = RLock()
_engines: list[Any] = []  # they own the memory that the code is in


@lru_cache
def _target() -> Any:
    for name in ("initialize", "initialize_native_target", "initialize_native_asmprinter"):
        try:
            getattr(llvm, name)()
        except (AttributeError, RuntimeError):  # newer ones do without the first and say so
            continue
    return llvm.Target.from_default_triple()


def _machine() -> Any:
    options = {"cpu": llvm.get_host_cpu_name(), "features": _features(), "opt": 3, "jit": True}
    return _target().create_target_machine(reloc="default", codemodel="jitdefault", **options)


@lru_cache
def _features() -> str:
    return str(llvm.get_host_cpu_features().flatten())


@lru_cache
def description() -> str:
    """What machine code depends on beside its source: the compiler and the processor."""
    return f"{llvm.llvm_version_info} {_target().triple} {llvm.get_host_cpu_name()} {_features()}"


@lru_cache
def level() -> str:
    """The system and the kind of processor that bitcode can be made for ahead: what all of a kind have in common.

    Empty where that is too little to be fast.
    """
    kind, features = platform.machine().lower(), llvm.get_host_cpu_features()
    if kind in ("x86_64", "amd64") and all(features.get(name) for name in ("avx2", "fma", "bmi2", "f16c")):
        return f"{sys.platform}-x86-64-v3"
    return f"{sys.platform}-generic" if kind in ("aarch64", "arm64") else ""


def bitcode(text: str) -> bytes:
    """LLVM's language in its short form, without what nothing calls."""
    with _lock:
        module = llvm.parse_assembly(text)
        builder = llvm.create_pass_builder(_machine(), llvm.create_pipeline_tuning_options(speed_level=1))
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_dead_code_elimination_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.run(module, builder)
        short: bytes = module.as_bitcode()
        return short


def machine_code(bitcode: bytes) -> bytes:
    """An object file for this processor. Raises ``RuntimeError`` for bitcode of a newer compiler.

    What the code would call must be there: a missing function would end the process when it is loaded.
    """
    with _lock:
        module, machine = llvm.parse_bitcode(bitcode), _machine()
        for name in _called(module):
            if not is_there(name):
                raise RuntimeError(f"a kernel calls {name}, which is not there without numba")
        code: bytes = machine.emit_object(module)
        return code


def is_there(name: str) -> bool:
    """Whether a kernel may call this function in a process that never imports numba."""
    _open_process()
    return not name.startswith(OF_NUMBA) and bool(llvm.address_of_symbol(name))


@lru_cache
def _open_process() -> Any:
    """LLVM finds the functions of the process itself, such as ``sqrt``, once there is an engine."""
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), _machine())


def called(bitcode: bytes) -> list[str]:
    """The functions that are not in the bitcode itself."""
    with _lock:
        return _called(llvm.parse_bitcode(bitcode))


def _called(module: Any) -> list[str]:
    return [one.name for one in module.functions if one.is_declaration and not one.name.startswith("llvm.")]


def loaded(code: bytes, text: str, symbol: str) -> int:
    """The address of a function in LLVM's language, which calls what is in an object file; both are in memory now."""
    with _lock:
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), _machine())
        engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        engine.finalize_object()
        _engines.append(engine)
        address = int(engine.get_function_address(symbol))
    if not address:
        raise RuntimeError(f"an object file lacks {symbol}")
    return address
