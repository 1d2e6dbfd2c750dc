"""The examples in every docstring of the package are run."""

import doctest
import importlib
import pkgutil

import pytest

import tecu

MODULES = sorted(module.name for module in pkgutil.walk_packages(tecu.__path__, "tecu."))


@pytest.mark.parametrize("name", ["tecu", *MODULES])
def test_examples_in_docstrings(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    failed, _ = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_there_are_examples():
    found = [
        test
        for name in ("tecu.solver", "tecu.updates.embed", "tecu.report.runs", "tecu.couplings.factorization")
        for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name))
        if test.examples
    ]
    assert len(found) >= 4
