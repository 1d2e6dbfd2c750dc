"""Kernels and their parts, declared: functions that are turned into machine code when they are first called.

A kernel's annotations are words of :mod:`tecu.kernels.words`, so its types are known without looking at arguments. Its
machine code is, in this order: in the memory of the process; on disk (:mod:`tecu.kernels.kept`), as an earlier process
has left it; made by llvmlite from bitcode that comes with the package (:mod:`tecu.kernels.ahead`), a matter of a second
for all kernels of a family; made by numba from the source, which takes ten times as long. Only then is numba imported.
Processes that make code and processes that load it run the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import cached_property, update_wrapper
from pathlib import Path
from threading import RLock
from typing import Any

import numpy as np

from tecu.kernels import ahead, kept
from tecu.kernels.calling import ENTRY, Native, entry_to
from tecu.kernels.words import CHOICES, NUMBER, choices, type_of

log = logging.getLogger("tecu")

FORMAT = "1"
"""To be changed when the way from a source to machine code does."""

ANSWERS = {"None": "None", "Double": "float64", "Integer": "int64"}

_lock = RLock()  # one compiler at a time


class Part:
    """A function for use inside kernels. Called from Python, it is the function itself."""

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        update_wrapper(self, function)
        self.function, self.options = function, options

    def __call__(self, *arguments: Any) -> Any:
        """What the Python says."""
        return self.function(*arguments)

    @cached_property
    def by_numba(self) -> Any:
        """What numba makes of it."""
        from numba import njit

        from tecu.kernels.lowering import with_parts

        parts = {name: part.by_numba for name, part in self.parts.items()}
        return njit(**self.options)(with_parts(self.function, parts))

    @property
    def parts(self) -> dict[str, Part]:
        """Those that it uses, by name."""
        scope = self.function.__globals__
        return {name: scope[name] for name in self.function.__code__.co_names if isinstance(scope.get(name), Part)}

    def sources(self) -> Iterator[Path]:
        """The files that it and its parts are written in."""
        yield Path(self.function.__code__.co_filename)
        for part in self.parts.values():
            yield from part.sources()

    def settings(self) -> Iterator[str]:
        """What they depend on beside their files: the options, and numbers by name, which other files may define."""
        for name, option in self.options.items():
            yield f"{name} {sorted(option) if isinstance(option, set) else option}"
        for name in self.function.__code__.co_names:
            value = self.function.__globals__.get(name)
            if isinstance(value, int | float | np.generic):
                yield f"{name} {type(value).__name__} {np.asarray(value).item()!r}"
        for part in self.parts.values():
            yield from part.settings()


class Primitive(Part):
    """A part written in LLVM's language, as numba's ``intrinsic`` wants it."""

    @cached_property
    def by_numba(self) -> Any:
        """What numba makes of it."""
        from numba.extending import intrinsic

        return intrinsic(self.function)


class Kernel(Part):
    """A part that is called from Python. Threads that call it do not wait for the interpreter's lock."""

    def __init__(self, family: Family, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(function, **options)
        words = dict(function.__annotations__)
        self._family, self.answer = family, ANSWERS[words.pop("return")]
        self._names, self._types = list(words), [type_of(word) for word in words.values()]
        of = [kind.of if kind.ndim else "" for kind in self._types]
        # what is decided at a call, and the arguments whose precision tells which machine code is wanted
        self._decided = [key for key in CHOICES if key in of]
        self._telling = [of.index(key) for key in self._decided]
        self._native: dict[tuple[Any, ...], Native] = {}

    def __call__(self, *arguments: Any) -> Any:
        """What the Python says, by machine code."""
        return self._for(arguments)(arguments)

    def bound(self, *arguments: Any) -> Callable[[], Any]:
        """A call for later, which then takes less time before it comes to machine code; it can be made once."""
        return self._for(arguments).bound(arguments)

    def _for(self, arguments: tuple[Any, ...]) -> Native:
        precisions = tuple([arguments[i].dtype for i in self._telling])
        return self._native.get(precisions) or self._prepared(precisions)

    def kinds(self, precisions: tuple[np.dtype[Any], ...]) -> list[tuple[np.dtype[Any], int]]:
        """The type and the dimensions of each argument."""
        chosen = {NUMBER: np.dtype(np.float64), **dict(zip(self._decided, precisions, strict=True))}
        return [(kind.dtype(chosen), kind.ndim) for kind in self._types]

    def variants(self) -> list[tuple[np.dtype[Any], ...]]:
        """The precisions that it is made for."""
        return choices(self._decided)

    def name_of(self, precisions: tuple[np.dtype[Any], ...]) -> str:
        """A name that changes when anything does that the bitcode depends on."""
        return "-".join([self.function.__name__, *map(str, precisions), self._source])

    @cached_property
    def _source(self) -> str:
        try:
            files = [path.read_bytes().replace(b"\r\n", b"\n") for path in sorted(set(self.sources()))]
        except OSError:  # a frozen program has no source
            files = [self.function.__code__.co_code]
        settings = "\n".join(sorted(set(self.settings())))
        return kept.digest(b"\0".join([FORMAT.encode(), settings.encode(), *files]))

    def bitcode(self, precisions: tuple[np.dtype[Any], ...]) -> tuple[str, bytes]:
        """By numba: the symbol of the function, and the bitcode."""
        from tecu.kernels.lowering import bitcode_of

        return bitcode_of(self.by_numba, self.kinds(precisions), self.answer)

    def _prepared(self, precisions: tuple[np.dtype[Any], ...]) -> Native:
        if precisions not in self.variants():
            allowed = " or ".join(", ".join(map(str, variant)) for variant in self.variants())
            got = ", ".join(map(str, precisions))
            raise TypeError(f"the kernel {self.function.__name__} works in {allowed}, got {got}")
        from tecu.kernels import machine

        with _lock:
            if precisions not in self._native:
                source, name = Path(self.function.__code__.co_filename), self.name_of(precisions)
                file = f"{name}-{kept.digest(machine.description().encode())}"
                found = kept.read(source, file)
                if found is None:
                    entry = f"{name}-{machine.level()}"
                    self._family.announce(precisions, is_ahead=entry in ahead.names(self._family.ahead))
                    found = self._made(entry, precisions)
                    kept.write(source, file, *found)
                symbol, code = found
                kinds = self.kinds(precisions)
                address = machine.loaded(code, entry_to(symbol, kinds), ENTRY)
                native = Native(self.function.__name__, self._names, address, kinds, self.answer)
                self._native[precisions] = native
        return self._native[precisions]

    def _made(self, entry: str, precisions: tuple[np.dtype[Any], ...]) -> tuple[str, bytes]:
        from tecu.kernels import machine

        brought = ahead.read(self._family.ahead, entry)
        if brought is not None:
            symbol, bitcode = brought
            try:
                return symbol, machine.machine_code(bitcode)
            except RuntimeError as reason:  # of a newer compiler than this one
                log.debug("bitcode of %s is of no use here: %s", entry, reason)
        symbol, bitcode = self.bitcode(precisions)
        return symbol, machine.machine_code(bitcode)


class Family:
    """The kernels of one task, which share a way to be compiled.

    ``what`` is said when they have to be; ``fastmath`` is numba's option; ``ahead`` is the file with their bitcode.
    """

    def __init__(self, what: str, ahead: Path, fastmath: bool | set[str] = False) -> None:
        self.what, self.ahead = what, ahead
        self._options = {"fastmath": fastmath, "error_model": "numpy", "no_cpython_wrapper": True}
        self._options["no_cfunc_wrapper"] = True
        self._told: set[tuple[Any, ...]] = set()
        self.kernels: list[Kernel] = []

    def kernel(self, function: Callable[..., Any]) -> Kernel:
        """``function``, to be called from Python."""
        kernel = Kernel(self, function, **self._options)
        self.kernels.append(kernel)
        return kernel

    def part(self, function: Callable[..., Any]) -> Part:
        """``function`` for use inside kernels, each of which gets a copy of its machine code."""
        return Part(function, **self._options, forceinline=True)

    def routine(self, function: Callable[..., Any]) -> Part:
        """``function`` for use inside kernels, which call it: for loops that are long and used in several places."""
        return Part(function, **self._options)

    def written_out(self, function: Callable[..., Any]) -> Part:
        """``function`` for use in one place of one kernel, as if its lines stood there: long ones compile sooner so."""
        return Part(function, **self._options, inline="always")

    def announce(self, precisions: tuple[np.dtype[Any], ...], is_ahead: bool = True) -> None:
        """Say that kernels are being compiled, once for each precision of the data: it would be silent for seconds.

        Kernels without one belong to what was told already, or to what comes next.
        """
        first = precisions[:1]
        known, self._told = self._told, self._told | {first}
        if first in known or (known and not first) or known == {()}:
            return
        kernels = f"kernels of {self.what}" + "".join(f" for {dtype}" for dtype in first)
        takes = "some seconds" if is_ahead else "up to half a minute"
        log.warning("compiling the %s, once for each kind of data after an install; this takes %s", kernels, takes)
