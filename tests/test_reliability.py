"""The table of faults names tests that exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault")]


def named(row):
    """The tests of a row: ``first, second (folder/file.py); third (other.py)`` in words."""
    for words, path in re.findall(r"([^();|]+) \((\S+\.py)\)", row.rpartition(" | ")[2]):
        for name in words.split(","):
            yield f"tests/{path}", f"test_{name.strip().replace(' ', '_')}"


@cache
def names_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize(("path", "name"), sorted({test for row in ROWS for test in named(row)}), ids=str)
def test_a_named_test_exists(path, name):
    assert name in names_in(path)


def test_every_fault_has_a_test():
    assert len(ROWS) > 40
    assert [row for row in ROWS if not list(named(row))] == []
