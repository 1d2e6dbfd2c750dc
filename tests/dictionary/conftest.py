"""Samples that several files fit: planted atoms, and others of the same kind."""

import pytest

from tecu.dictionary import make_sparse_data


@pytest.fixture(scope="module")
def X():
    return make_sparse_data(3000, 12, 20, 3, random_state=0)[0]


@pytest.fixture(scope="module")
def other():
    return make_sparse_data(600, 12, 20, 3, random_state=99)[0]
