"""scikit-learn's own checks of an estimator, none expected to fail."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from tecu.dictionary import L0DictionaryLearning


@parametrize_with_checks(
    [
        L0DictionaryLearning(random_state=0),
        L0DictionaryLearning(4, n_nonzero=2, random_state=0, max_iter=3),
        L0DictionaryLearning(solver="palm", random_state=0, max_iter=3),
    ]
)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
