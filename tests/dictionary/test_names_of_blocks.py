"""The names of the blocks of a fit: what the docs say of them, and whether it is true."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import vstack

from tecu.dictionary import L0DictionaryLearning
from tecu.dictionary.solvers import NAMES

DOCS = Path(__file__).parents[2] / "docs"
TEXTS = {
    "docstring": L0DictionaryLearning.__doc__,
    "certificate": (DOCS / "certificate.md").read_text(encoding="utf-8"),
    "tutorial": (DOCS / "tutorials" / "matrix.md").read_text(encoding="utf-8"),
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_names_are_explained_where_they_are_met(text):
    assert "first samples" in text
    assert all(f"`{block}`" in text for block in ("W", "W0", "W1", "D"))


def test_of_auto_they_are_blocks_of_samples_in_their_order_and_the_dictionary(X):
    states = []
    model = L0DictionaryLearning(20, penalty=0.02, max_iter=3, random_state=0, callback=states.append).fit(X)
    z = states[-1].z
    *codes, dictionary = z
    assert dictionary == "D"
    assert len(codes) > 1
    assert codes == [f"W{i}" for i in range(len(codes))]
    assert all(f"move_{block}" in model.history_ for block in z)
    assert (vstack([z[block] for block in codes]) != model.codes_).nnz == 0  # one after the other, all the samples
    sizes = [z[block].shape[0] for block in codes]
    assert max(sizes) - min(sizes) <= 1
    np.testing.assert_array_equal(z["D"].T, model.components_)


@pytest.mark.parametrize("solver", [name for name in NAMES if name != "auto"])
def test_of_the_other_solvers_they_are_all_codes_and_the_dictionary(X, solver):
    model = L0DictionaryLearning(20, penalty=0.02, solver=solver, max_iter=2, random_state=0).fit(X[:200])
    assert [name for name in model.history_ if name.startswith("move_")] == ["move_W", "move_D"]
