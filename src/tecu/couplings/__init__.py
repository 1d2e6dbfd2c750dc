"""Couplings: the smooth function ``H`` of all blocks. They add up: ``a + b`` is a coupling.

>>> from tecu import couplings
>>> H = couplings.Difference("x", "v", weight=2.0) + couplings.Difference("v", "w")
"""

from tecu.couplings.autodiff import Autodiff
from tecu.couplings.columns import ColumnFactorization
from tecu.couplings.convolution import Convolution
from tecu.couplings.factorization import MatrixFactorization
from tecu.couplings.functions import Functions
from tecu.couplings.linear import Linear
from tecu.couplings.retinex import Retinex
from tecu.couplings.sums import Difference, Sum

__all__ = [
    "Autodiff",
    "ColumnFactorization",
    "Convolution",
    "Difference",
    "Functions",
    "Linear",
    "MatrixFactorization",
    "Retinex",
    "Sum",
]
