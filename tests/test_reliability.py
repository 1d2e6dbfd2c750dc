"""The table of faults names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))


@cache
def names_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("path", "name"), NAMED, ids=lambda value: value.rpartition("/")[2])
def test_a_named_test_exists(path, name):
    assert name in names_in(path)


def test_every_fault_has_a_test():
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault")]
    assert len(rows) > 40
    assert [row for row in rows if "::test_" not in row.rpartition(" | ")[2]] == []
