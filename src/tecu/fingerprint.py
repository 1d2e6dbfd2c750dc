"""The fingerprint by which a saved state knows its problem and settings: one digest of all that counts of them.

What counts of a value:

- a number, a string, bytes, a path, a member of an enum: itself; a container: what it holds, a set in no order;
- an array: its shape, its type and a sample of its entries; one that may not fit in memory: its shape and type;
- a function, a class, a module: its name. What a function closes over is not seen. Of a bound method its object counts
  too, of a ``functools.partial`` its arguments;
- an object with a method ``fingerprint()``: what that returns, a tuple of its settings, say;
- an object with a ``state_dict()``, such as a torch network: that, and the public attributes of all its modules;
- any other object: its public attributes, those in ``__slots__`` too, and of a dataclass the fields that it is compared
  by. Attributes that begin with an underscore and cached properties are caches and locks, not settings.

Of every value its type's name counts. Nothing else does: no address, no hash, no order of a set, so that the same
settings have the same fingerprint in another process. What cannot be read counts by its type.
"""

from __future__ import annotations

import enum
import hashlib
import math
import re
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial
from pathlib import PurePath
from types import MethodType, ModuleType
from typing import Any

import numpy as np

from tecu import arrays

SAMPLE = 1 << 18  # entries of a large array that go into a fingerprint
DEEPEST = 100  # objects within objects: further down only types count, or Python's own stack would end
PLAIN = (bool, int, float, str)
TELLING = (complex, range, slice, PurePath, Decimal, Fraction, date, time, timedelta, re.Pattern, np.dtype)  # by repr
LAZY = ("dask", "zarr")  # packages of arrays that may not fit in memory
COUNTERS = {  # public attributes of other people's parts that change when they are used
    "pylops": {"matvec_count", "rmatvec_count", "matmat_count", "rmatmat_count"},
    "pyproximal": {"count"},
    "torch": {"training"},
}


def fingerprint(*parts: Any) -> str:
    """The digests of some settings, one after the other.

    >>> from tecu import terms
    >>> [fingerprint(terms.L1(0.1)) == fingerprint(terms.L1(weight)) for weight in (0.1, 0.2)]
    [True, False]
    """
    reader = _Reader()
    return "-".join(reader.mark([part]).hex() for part in parts)


def differing(one: str, other: str, names: Iterable[str]) -> list[str]:
    """Which of the parts, called ``names``, make two fingerprints differ.

    >>> differing(fingerprint([1.0], "cyclic"), fingerprint([1.0], "shuffled"), ["terms", "schedule"])
    ['schedule']
    """
    return [name for name, a, b in zip(names, one.split("-"), other.split("-"), strict=False) if a != b]


class _Reader:
    """Reads values into digests, each object once."""

    def __init__(self) -> None:
        self.known: dict[int, tuple[Any, bytes]] = {}  # with the object itself: its id is not given to another one
        self.above: dict[int, int] = {}  # the objects on the way down to here, and how far down they are

    def mark(self, value: Any) -> bytes:
        """What goes into the digest of whoever holds ``value``."""
        kind = type(value).__name__
        if value is None or isinstance(value, (*PLAIN, np.generic)):
            return f"{kind}:{_plain(value)};".encode(errors="backslashreplace")
        if id(value) in self.known:
            return self.known[id(value)][1]
        if id(value) in self.above:
            return f"{kind}:{len(self.above) - self.above[id(value)]} above;".encode()
        if len(self.above) >= DEEPEST:
            return f"{kind}:deep down;".encode()
        digest = hashlib.blake2b(f"{kind}:".encode(), digest_size=16)
        self.above[id(value)] = len(self.above)
        try:
            for part in self.content(value):
                digest.update(part)
        except Exception:  # whatever an attribute of somebody else's does: a run must not end because of it
            digest.update(b"unreadable")
        finally:
            del self.above[id(value)]
        self.known[id(value)] = (value, digest.digest())
        return digest.digest()

    def content(self, value: Any) -> Iterator[bytes | memoryview]:
        """What counts of a value, by what it is."""
        if callable(own := getattr(type(value), "fingerprint", None)):
            yield self.mark(own(value))
        elif isinstance(value, enum.Enum):
            yield value.name.encode()
        elif isinstance(value, bytes | bytearray | memoryview):
            yield memoryview(value)
        elif isinstance(value, TELLING):
            yield repr(value).encode()
        elif isinstance(value, Mapping):
            yield from (self.mark(each) for item in value.items() for each in item)
        elif isinstance(value, list | tuple | deque):
            yield from map(self.mark, value)
        elif isinstance(value, Set):
            yield from sorted(map(self.mark, value))
        elif isinstance(value, partial):
            yield from map(self.mark, (value.func, value.args, value.keywords))
        elif isinstance(value, ModuleType):
            yield value.__name__.encode()
        elif callable(value) and hasattr(value, "__qualname__"):
            yield f"{value.__module__}.{value.__qualname__}".encode()
            if isinstance(value, MethodType):
                yield self.mark(value.__self__)
        elif _is_array(value):
            yield from self.entries(value)
        else:
            yield from self.attributes(value)

    def attributes(self, value: Any) -> Iterator[bytes]:
        """What counts of an object."""
        names, is_opaque = _public(value)
        yield self.mark({name: getattr(value, name, None) for name in names})
        if callable(getattr(value, "state_dict", None)):
            yield self.mark(dict(value.state_dict()))
            for name, module in value.named_modules() if hasattr(value, "named_modules") else ():
                own = {each: getattr(module, each, None) for each in _public(module)[0]}
                yield self.mark((name, type(module).__name__, own))
        elif is_opaque and type(value).__module__.split(".")[0] not in sys.stdlib_module_names:
            yield re.sub("0x[0-9a-fA-F]+", "", repr(value)).encode()  # a torch.dtype, say; addresses do not count

    def entries(self, value: Any) -> Iterator[bytes]:
        """What counts of an array: a sample of its entries, and all of them in a sum of their bits."""
        yield f"{tuple(value.shape)}{value.dtype}".encode()
        if _is_lazy(value):
            return
        if arrays.is_sparse(value):
            value = value if hasattr(value, "indptr") else arrays.canonical(value)
            yield from self.entries(value.indptr)
            yield from self.entries(value.indices)
        flat = _numbers(value)
        if flat.dtype.hasobject:  # its bytes are addresses
            yield self.mark(flat.tolist())
            return
        flat = flat.reshape(-1) if flat.flags.c_contiguous else flat.ravel(order="K")
        stride = max(1, flat.size // SAMPLE)
        while math.gcd(stride, flat.size) > 1:  # all columns are looked at, not only some of them
            stride += 1
        yield np.ascontiguousarray(flat[::stride]).tobytes()
        if stride > 1 and flat.dtype.kind in "biuf" and flat.dtype.itemsize <= 8:
            words = flat.view(f"u{flat.dtype.itemsize}")
            yield np.sum(words, dtype=words.dtype).tobytes()


def _plain(value: Any) -> str:
    """A number or a string as Python writes it, whatever a class of somebody else's writes."""
    for kind in PLAIN:
        if isinstance(value, kind):
            return kind.__repr__(value)
    return "" if value is None else f"{value.dtype}{value.tobytes().hex()}"


def _public(value: Any) -> tuple[list[str], bool]:
    """The names of an object's settings, sorted, and whether it has no attributes that could be looked at."""
    own = getattr(value, "__dict__", None)
    slots = {name for cls in type(value).__mro__ for name in _slots(cls)}
    names = {name for name in (*(own or ()), *slots) if isinstance(name, str) and not name.startswith("_")}
    if is_dataclass(value):
        names = (names - {field.name for field in fields(value)}) | {f.name for f in fields(value) if f.compare}
    changing = {name for cls in type(value).__mro__ for name in COUNTERS.get(cls.__module__.split(".")[0], ())}
    cached = {name for name in names if isinstance(getattr(type(value), name, None), cached_property)}
    return sorted(names - changing - cached), own is None and not slots


def _slots(cls: type) -> Iterable[str]:
    names: str | Iterable[str] = vars(cls).get("__slots__", ())
    return [names] if isinstance(names, str) else names


def _is_array(value: Any) -> bool:
    """Whether there are numbers behind a shape and a dtype, which linear operators have too."""
    if not (hasattr(value, "shape") and hasattr(value, "dtype")):
        return False
    return arrays.is_sparse(value) or _is_lazy(value) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")


def _is_lazy(value: Any) -> bool:
    return type(value).__module__.split(".")[0] in LAZY


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    try:
        return arrays.host(value)
    except TypeError:
        if not arrays.is_torch(value):
            raise
        return arrays.host(value.float())  # NumPy has no bfloat16; float32 holds all of it
