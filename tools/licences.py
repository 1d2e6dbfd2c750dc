"""``python tools/licences.py > THIRD_PARTY_LICENSES``: every package that tecu or one of its extras brings along.

Read from the metadata of what is installed; the versions are those of ``constraints.txt``. The notice of the NIQE
parameters, figures of others that are a part of tecu, comes last.
"""

from __future__ import annotations

import re
import sys
import tomllib
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = Path(__file__).parent.parent / "pyproject.toml"
NIQE = Path(__file__).parent.parent / "src" / "tecu" / "metrics" / "niqe_parameters.txt"
CORE = "core"
EXTRAS = ("report", "train", "scale", "web", "raw", "heif", "jax")
NOTES = {
    "pi-heif": "BSD-3-Clause; its wheels contain libheif and libde265 (LGPL-3.0), loaded only to read HEIF photos",
    "rawpy": "MIT; its wheels contain LibRaw (LGPL-2.1 or CDDL-1.0), loaded only to read RAW photos",
}
NAMES = {  # licences that metadata state in other words, or by their whole text
    "BSD": "BSD-3-Clause", "BSD License": "BSD-3-Clause", "3-Clause BSD License": "BSD-3-Clause",
    "MIT License": "MIT", "Apache 2.0": "Apache-2.0", "Apache Software License": "Apache-2.0",
    "Python Software Foundation License": "PSF-2.0",
}  # fmt: skip
FORBIDDEN = re.compile(r"\bA?GPL|\bLGPL|General Public|Non-?Commercial|\bNC\b|CC-BY-NC|Proprietary", re.IGNORECASE)
EXCUSED = re.compile(r"GPL\S* WITH \S*exception\S*", re.IGNORECASE)  # such as that of the GCC runtime


def canonical(name: str) -> str:
    """A package's name as the index spells it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(extra: str = CORE) -> dict[str, Distribution]:
    """The packages that ``pip install tecu`` (or ``tecu[extra]``) brings along on this system."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *([] if extra == CORE else project["optional-dependencies"][extra])]
    pending = [(requirement.name, frozenset(requirement.extras)) for requirement in map(Requirement, wanted)]
    while pending:
        name, extras = pending.pop()
        if (canonical(name), extras) in seen:
            continue
        seen.add((canonical(name), extras))
        found[canonical(name)] = package = distribution(name)
        for text in package.requires or ():
            requirement = Requirement(text)
            if any(requirement.marker is None or requirement.marker.evaluate({"extra": e}) for e in {"", *extras}):
                pending.append((requirement.name, frozenset(requirement.extras)))
    return found


def licence(package: Distribution) -> str:
    """What a package's metadata say: an expression, one line, or the classifiers."""
    name, metadata = canonical(package.metadata["Name"]), package.metadata
    if name in NOTES:
        return NOTES[name]
    stated = metadata.get("License-Expression") or ""
    if not stated and len((metadata.get("License") or "").splitlines()) == 1:
        stated = metadata["License"]
    if not stated:
        classifiers = [c.split(" :: ")[-1] for c in metadata.get_all("Classifier") or () if c.startswith("License ::")]
        stated = " AND ".join(NAMES.get(c, c) for c in classifiers)
    return NAMES.get(stated, stated)


def is_free(stated: str) -> bool:
    """Whether a licence asks nothing of those who use tecu in a program of their own.

    >>> is_free("MIT"), is_free("GPL-3.0-or-later"), is_free("BSD-3-Clause AND GPL-3.0 WITH GCC-exception-3.1")
    (True, False, True)
    """
    return bool(stated) and not FORBIDDEN.search(EXCUSED.sub("", stated))


def main() -> None:
    """Print the list."""
    core = needed()
    lines = [
        "tecu contains no code of others, but one set of figures: the parameters of NIQE, whose notice is at the end.",
        "These are the packages that tecu, or one of its extras, is installed with, and their licences as their own",
        "metadata state them. Made by `python tools/licences.py`.",
    ]
    for part in (CORE, *EXTRAS):
        packages = core if part == CORE else {k: v for k, v in needed(part).items() if k not in core}
        lines += ["", "pip install tecu" if part == CORE else f"pip install tecu[{part}], besides", ""]
        lines += [f"  {name} {packages[name].version}: {licence(packages[name])}" for name in sorted(packages)]
    lines += ["", f"A part of tecu itself: tecu/metrics/{NIQE.name}", "", NIQE.read_text(encoding="utf-8").rstrip()]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
