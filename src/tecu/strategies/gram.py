"""The Gram matrix of a block, where the coupling has one."""

from __future__ import annotations

from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.subproblem import SubProblem

Matrix = np.ndarray[Any, Any]


def gram_matrix(sub: SubProblem) -> Matrix | None:
    """``A`` with ``hessian(V) = V A`` for ``phi``, the eta term included; ``None`` where there is no such matrix.

    A coupling offers its own by a method ``gram_matrix()`` of what ``restrict`` returns.
    """
    own = getattr(sub.smooth, "gram_matrix", None)
    answer: Array | None = None if own is None else own()
    if answer is None:
        return None
    gram = arrays.host(arrays.dense(answer))
    return gram + sub.eta * np.eye(gram.shape[0], dtype=gram.dtype)


def target(sub: SubProblem, gram: Matrix) -> Matrix:
    """``B`` with ``grad phi(u) = u A - B``."""
    previous = arrays.host(arrays.dense(sub.previous))
    return np.asarray(previous @ gram - arrays.host(arrays.dense(sub.grad(sub.previous))))


def require_gram(sub: SubProblem, strategy: str) -> Matrix:
    """:func:`gram_matrix`, or a sentence that says what the strategy lacks."""
    gram = gram_matrix(sub)
    if gram is None:
        raise ValueError(
            f"block {sub.block!r}: {strategy} needs the Gram matrix of a quadratic coupling, such as "
            "couplings.MatrixFactorization without weights; use strategies.FISTA or strategies.ADMM"
        )
    return gram
