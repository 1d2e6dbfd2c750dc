"""Simple functions of one block: a value, a prox that is a global minimiser, and whether they are convex.

>>> from tecu import terms
>>> term = terms.L0(0.02) + terms.NonNegative()
"""

from tecu.terms.matrices import NuclearNorm, Rank, Stiefel
from tecu.terms.norms import L0, L1, BoundedL0, GroupL21, SquaredL2, Zero
from tecu.terms.sets import Box, NonNegative, UnitColumns, UnitRows
from tecu.terms.simplex import Simplex
from tecu.terms.sparsity import KSparse
from tecu.terms.sums import Sum

__all__ = [
    "L0",
    "L1",
    "BoundedL0",
    "Box",
    "GroupL21",
    "KSparse",
    "NonNegative",
    "NuclearNorm",
    "Rank",
    "Simplex",
    "SquaredL2",
    "Stiefel",
    "Sum",
    "UnitColumns",
    "UnitRows",
    "Zero",
]
