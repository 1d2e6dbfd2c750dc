"""l0 dictionary learning: a scikit-learn estimator over the solver, and data with a known answer."""

from tecu.dictionary.chunked import read_codes
from tecu.dictionary.data import make_sparse_data
from tecu.dictionary.estimator import L0DictionaryLearning

__all__ = ["L0DictionaryLearning", "make_sparse_data", "read_codes"]
