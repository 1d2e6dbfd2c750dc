"""The list of licences is whole, and nothing that tecu needs is under a licence that its users would have to follow."""

import importlib.util
import re
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LIST = (ROOT / "THIRD_PARTY_LICENSES").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
specification = importlib.util.spec_from_file_location("licences", ROOT / "tools" / "licences.py")
licences = importlib.util.module_from_spec(specification)
specification.loader.exec_module(licences)


def listed(part):
    head = "pip install tecu\n" if part == "core" else f"pip install tecu[{part}], besides\n"
    section = LIST.split(head)[1].split("\npip install")[0]
    return dict(re.findall(r"^  (\S+) \S+: (.+)$", section, re.MULTILINE))


@pytest.mark.parametrize("part", ["core", *licences.EXTRAS])
def test_every_package_is_listed(part):
    try:
        packages = licences.needed(part)
    except PackageNotFoundError as missing:
        pytest.skip(f"{missing} is not installed")
    known = listed("core") | listed(part)
    assert set(packages) <= set(known), "run python tools/licences.py > THIRD_PARTY_LICENSES"


@pytest.mark.parametrize("part", ["core", *licences.EXTRAS])
def test_no_licence_binds_the_user(part):
    """The readers of HEIF and RAW bring libraries under the LGPL: they are extras, and the list says so."""
    bound = {name for name, stated in listed(part).items() if not licences.is_free(stated)}
    assert bound <= ({"pi-heif", "rawpy"} if part in ("raw", "heif") else set())


def test_what_is_installed_says_the_same():
    for name, package in licences.needed().items():
        assert licences.is_free(licences.licence(package)), name


def test_the_test_sees_what_it_should():
    for bad in ("GPL-3.0-only", "LGPL-2.1", "GNU General Public License v3 (GPLv3)", "CC-BY-NC-4.0", "AGPL-3.0", ""):
        assert not licences.is_free(bad), bad
    for good in ("MIT", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause AND GPL-3.0-or-later WITH GCC-exception-3.1"):
        assert licences.is_free(good), good


def test_every_extra_for_users_is_covered():
    extras = set(PROJECT["project"]["optional-dependencies"])
    assert extras - {"all", "test", "docs", "dev"} == set(licences.EXTRAS)


def test_the_notice_of_the_niqe_parameters_is_there_in_its_entirety():
    """Its authors ask for that in all copies."""
    notice = (ROOT / "src" / "tecu" / "metrics" / "niqe_parameters.txt").read_text(encoding="utf-8")
    assert "Copyright (c) 2011 The University of Texas at Austin" in notice
    assert notice.strip() in LIST


def test_the_list_is_part_of_the_package():
    assert "THIRD_PARTY_LICENSES" in PROJECT["project"]["license-files"]


def test_versions_are_pinned():
    pinned = {licences.canonical(line.split("==")[0]) for line in (ROOT / "constraints.txt").read_text().splitlines()}
    for part in ("core", *licences.EXTRAS):
        assert set(listed(part)) - {"setuptools"} <= pinned, part  # which comes with Python's own environments
