"""What ``penalty="auto"`` chooses: by the scale of the data, whatever offset, level or outliers they have."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tecu.dictionary import L0DictionaryLearning, make_sparse_data, parameters
from tecu.dictionary.rows import Rows
from tecu.dictionary.scale import usual_square


@pytest.fixture(scope="module")
def planted():
    return make_sparse_data(1500, 16, 24, 2, snr_db=30, random_state=0)


def test_penalty_auto_follows_the_scale_of_the_data(planted):
    X = planted[0][:300]
    one = L0DictionaryLearning(20, random_state=0, max_iter=3).fit(X)
    thousand = L0DictionaryLearning(20, random_state=0, max_iter=3).fit(1000 * X)
    np.testing.assert_allclose(thousand.penalty_, 1e6 * one.penalty_)
    assert thousand.codes_.nnz == pytest.approx(one.codes_.nnz, rel=0.02)


def test_penalty_auto_is_hardly_moved_by_an_outlier_or_an_offset():
    X = np.random.default_rng(0).normal(size=(2000, 16))
    outlier, sparse = X.copy(), np.where(np.random.default_rng(1).random((500, 16)) < 0.2, X[:500], 0.0)
    outlier[0] *= 1000
    kinds = {"outlier": outlier, "offset": X + 300.0, "part": X[:1000], "zeros": np.vstack([X, np.zeros((900, 16))])}
    fitted = {kind: L0DictionaryLearning(16, max_iter=1, random_state=0).fit(kinds[kind]) for kind in kinds}
    mean_square = np.mean(np.sum(X**2, axis=1))
    for kind, model in fitted.items():
        assert model.penalty_ == pytest.approx(0.003 * mean_square, rel=0.1), kind
        assert model.codes_.nnz >= len(X[:1000]), kind
    both = [usual_square(Rows(data)) for data in (sparse, csr_array(sparse))]
    assert both[0] == pytest.approx(both[1], rel=1e-12)


def test_penalty_auto_that_leaves_next_to_nothing_is_doubted(monkeypatch):
    X = np.random.default_rng(0).normal(size=(200, 16))
    X[:5] *= 20
    monkeypatch.setattr(parameters, "AUTO_PENALTY", 2.0)
    with pytest.warns(UserWarning, match="penalty='auto' chose penalty_=.*give a smaller penalty"):
        model = L0DictionaryLearning(16, max_iter=2, random_state=0).fit(X)
    assert 0 < model.codes_.nnz < 20


@pytest.mark.parametrize("brightness", [0.0, 1e-3, 1.0, 100.0])
def test_penalty_auto_of_patches_does_not_depend_on_how_bright_each_of_them_is(brightness):
    random = np.random.default_rng(0)
    textures = random.normal(size=(2000, 64))
    textures -= textures.mean(axis=1, keepdims=True)
    patches = textures + brightness * random.uniform(0.1, 1.0, (2000, 1))
    assert usual_square(Rows(patches)) == pytest.approx(usual_square(Rows(textures)), rel=0.01)


def test_penalty_auto_of_data_without_an_offset_goes_by_their_length():
    X = np.random.default_rng(0).normal(size=(2000, 16))
    X -= X.mean(axis=0)  # what rounding leaves of the mean points anywhere
    assert usual_square(Rows(X)) == pytest.approx(np.mean(np.sum(X**2, axis=1)), rel=1e-12)


@pytest.mark.parametrize("size", [0.01, 100.0])
def test_a_first_batch_of_another_scale_is_told_when_the_others_come(planted, size):
    X = planted[0]
    model = L0DictionaryLearning(24, random_state=0).partial_fit(size * X[:200])
    with pytest.warns(UserWarning, match="penalty='auto' keeps penalty_=.*give a number") as told:
        model.partial_fit(X[200:400])
    assert len(told) == 1
    assert told[0].filename == __file__
    assert f"{0.003 * usual_square(Rows(X[200:400])):.3g}" in str(told[0].message)


def test_batches_that_are_alike_small_or_zero_are_not_doubted(planted):
    X = planted[0] + 100.0
    model = L0DictionaryLearning(24, random_state=0)
    for batch in (X[:200], X[200:400], 2 * X[:200], X[:1], X[:3], 0 * X[:5]):
        model.partial_fit(batch)  # warnings are errors


def test_a_bound_that_leaves_nothing_to_gain_is_named(planted):
    X = planted[0][:200]
    model = L0DictionaryLearning(24, penalty=0.01, code_bound=1e-3, max_iter=2, random_state=0)
    with pytest.warns(UserWarning, match=r"all codes are zero; lower it below about .* or raise code_bound") as told:
        model.fit(X)
    named = float(str(told[0].message).split("below about ")[1].split(",")[0])
    assert named < 0.01
    assert model.set_params(penalty=0.3 * named).fit(X).codes_.nnz > 0


def test_no_number_above_the_penalty_is_given_to_lower_it_to():
    X = np.eye(16)  # one atom for all explains a sixteenth of each
    with pytest.warns(UserWarning, match="all codes are zero; lower it$"):
        L0DictionaryLearning(1, penalty=0.45, init=np.ones((1, 16)), max_iter=2, random_state=0).fit(X)
