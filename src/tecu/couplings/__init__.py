"""Couplings: the smooth function ``H`` of all blocks. They add up."""

from tecu.couplings.factorization import MatrixFactorization
from tecu.couplings.retinex import Retinex

__all__ = [
    "MatrixFactorization",
    "Retinex",
]
