"""``python tools/bitcode.py``: bitcode of all kernels, which comes with the package; prints the files.

Made by numba for all processors of a kind (:func:`tecu.kernels.machine.level`), to be turned into machine code where it
is run. A file that is up to date is left alone. Only NumPy and numba are needed: packages are entered without what
their ``__init__`` imports.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"
# each with a module ``compiled``, in which ``family`` is, and modules ``kernels_*``
PACKAGES = ("tecu.dictionary", "tecu.lowlight", "tecu.lowlight.classical")


def enter(package: str) -> Path:
    """Make a package importable without running its ``__init__``, nor that of one it is in; its folder."""
    if "." in package:
        enter(package.rpartition(".")[0])
    folder = SOURCE.joinpath(*package.split("."))
    if package not in sys.modules:
        module = sys.modules[package] = ModuleType(package)
        module.__path__ = [str(folder)]
    return folder


def family_of(package: str) -> Any:
    """The family of a package, with all of its kernels."""
    for path in sorted(enter(package).glob("kernels_*.py")):
        import_module(f"{package}.{path.stem}")
    return import_module(f"{package}.compiled").family


def entries(family: Any, level: str) -> dict[str, tuple[Any, Any]]:
    """The kernels of a family and their precisions, by the names of their entries."""
    return {f"{kernel.name_of(key)}-{level}": (kernel, key) for kernel in family.kernels for key in kernel.variants()}


def weight(kernel: Any) -> int:
    """How long it is with all of its parts, by which it takes to compile."""
    return len(kernel.function.__code__.co_code) + sum(map(weight, kernel.parts.values()))


def bitcode_of(package: str, name: str) -> tuple[str, bytes]:
    """Of one entry, in a process of its own."""
    from tecu.kernels import machine

    kernel, key = entries(family_of(package), machine.level())[name]
    made: tuple[str, bytes] = kernel.bitcode(key)
    machine.machine_code(made[1])  # or it needs what is not there without numba
    return made


def main() -> None:
    """Bring every file up to date."""
    enter("tecu")
    from tecu.kernels import ahead, machine

    level = machine.level()
    if not level:
        sys.exit("there is no kind of processors like this one to make bitcode for")
    # Read when numba is imported, which nothing has done so far.
    os.environ.update(NUMBA_CPU_NAME=level.split("-", 1)[1], NUMBA_CPU_FEATURES="")
    files, due = {}, []
    for package in PACKAGES:
        family = family_of(package)
        files[package], wanted = family.ahead, entries(family, level)
        if ahead.names(family.ahead) != set(wanted):
            due += [(weight(kernel), package, name) for name, (kernel, _) in wanted.items()]
    if due:
        _, packages, names = zip(*sorted(due, reverse=True), strict=True)  # those that take longest first
        with ProcessPoolExecutor(initializer=enter, initargs=("tecu",), mp_context=get_context("spawn")) as pool:
            made = list(pool.map(bitcode_of, packages, names))
        for package in set(packages):
            own = zip(packages, names, made, strict=True)
            ahead.write(files[package], {name: code for owner, name, code in own if owner == package})
    for file in files.values():
        sys.stdout.write(f"{file.relative_to(ROOT).as_posix()}\n")


if __name__ == "__main__":
    main()
