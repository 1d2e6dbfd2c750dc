"""One table of problems: the laws are tested on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tecu
from tecu import couplings, strategies, terms


@dataclass(frozen=True)
class Case:
    """A problem with a start; ``exact`` names the blocks that have a closed-form update."""

    name: str
    problem: tecu.Problem
    start: Mapping[str, Any]
    exact: tuple[str, ...] = ()
    tags: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return self.name


def unit_columns(x):
    return x / np.linalg.norm(x, axis=0)


def orthonormal_dictionary(seed=0):
    rng = np.random.default_rng(seed)
    n, p, m = 8, 40, 5
    basis = np.linalg.qr(rng.normal(size=(n, n)))[0]
    Y = basis @ (rng.normal(size=(n, p)) * (rng.random((n, p)) < 0.3)) + 0.05 * rng.normal(size=(n, p))
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(0.05), "D": terms.Stiefel()})
    start = {"W": np.zeros((p, m)), "D": np.linalg.qr(rng.normal(size=(n, m)))[0]}
    return Case("orthonormal-dictionary", problem, start, ("W", "D"), ("two",))


def column_nmf(seed=0, rank=1):
    rng = np.random.default_rng(seed)
    Y = rng.random((7, rank)) @ rng.random((rank, 9)) + 0.1 * rng.random((7, 9))
    coupling = couplings.ColumnFactorization(Y, rank)
    problem = tecu.Problem(coupling, {block: terms.NonNegative() for block in coupling.blocks})
    start = {block: rng.random((9 if block.startswith("w") else 7,)) + 0.1 for block in coupling.blocks}
    start = {b: x.reshape(coupling_shape(coupling, b, x)) for b, x in start.items()}
    return Case(f"column-nmf-{rank}", problem, start, tuple(coupling.blocks), ("two",) if rank == 1 else ())


def coupling_shape(coupling, block, x):
    """Columns are blocks of one axis or of two, as the coupling likes it."""
    try:
        coupling.value({b: np.ones(9 if b.startswith("w") else 7) for b in coupling.blocks})
        return x.shape
    except ValueError:
        return (x.size, 1)


def retinex(seed=0, alpha=0.0):
    rng = np.random.default_rng(seed)
    light = 0.2 + 0.3 * np.linspace(0, 1, 12)[:, None] * np.ones((1, 10))
    dark = light * rng.uniform(0.3, 1.0, size=light.shape)
    coupling = couplings.Retinex(dark, illumination="I", reflectance="R", alpha=alpha, beta=0.5, anchor=0.9 * light)
    problem = tecu.Problem(coupling, {"I": terms.Box(dark, 1.0), "R": terms.Box(0.0, 1.0)})
    exact = ("I", "R") if alpha == 0.0 else ("R",)
    name = "retinex" if alpha == 0.0 else "retinex-smooth"
    return Case(name, problem, {"I": np.maximum(dark, 0.5), "R": np.full_like(dark, 0.5)}, exact, ("two",))


def dictionary(seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    n, p, m = 10, 60, 16
    D = unit_columns(rng.normal(size=(n, m)))
    W = rng.normal(size=(p, m)) * (rng.random((p, m)) < 0.15)
    Y = (D @ W.T + 0.03 * rng.normal(size=(n, p))).astype(dtype)
    problem = tecu.Problem(couplings.MatrixFactorization(Y), {"W": terms.L0(0.02), "D": terms.UnitColumns()})
    start = {"W": np.zeros((p, m), dtype), "D": unit_columns(rng.normal(size=(n, m))).astype(dtype)}
    return Case("dictionary", problem, start)


def three_blocks(seed=0):
    """``1/2 ||A x - b||^2 + 1/2 ||x - v||^2 + 1/2 ||v - w||^2`` with a box, an l0 and an l1 term."""
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(12, 6)) / 3
    coupling = (
        couplings.Linear(A, rng.normal(size=12)) + couplings.Difference("x", "v") + couplings.Difference("v", "w")
    )
    problem = tecu.Problem(coupling, {"x": terms.Box(-1.0, 1.0), "v": terms.L0(0.05), "w": terms.L1(0.1)})
    return Case("three-blocks", problem, {name: np.full(6, 0.3) for name in "xvw"}, ("v", "w"))


def without_lipschitz(seed=0):
    """A coupling of a user's own, not quadratic, with no Lipschitz constant: back-tracking."""
    rng = np.random.default_rng(seed)
    target = rng.normal(size=5)

    def value(z):
        r = z["x"] * z["y"] - target
        return float(np.sum(np.log1p(r * r)) + 0.05 * np.sum(z["x"] ** 2 + z["y"] ** 2))

    def grad(block):
        other = "y" if block == "x" else "x"

        def gradient(z):
            r = z["x"] * z["y"] - target
            return 2 * r / (1 + r * r) * z[other] + 0.1 * z[block]

        return gradient

    coupling = couplings.Functions(value=value, grads={"x": grad("x"), "y": grad("y")})
    problem = tecu.Problem(coupling, {"x": terms.NonNegative(), "y": terms.L1(0.01)})
    return Case("without-lipschitz", problem, {"x": np.ones(5), "y": np.ones(5)})


THREE_WITH_ALL_PAIRS = [orthonormal_dictionary(), column_nmf(), retinex()]
GENERAL = [dictionary(), retinex(alpha=1.0), three_blocks(), column_nmf(rank=3), without_lipschitz()]
ALL = THREE_WITH_ALL_PAIRS + GENERAL

KINDS = {
    "proximal": lambda: tecu.Proximal(eta=0.5),
    "prox-linear": lambda: tecu.ProxLinear(),
    "embed": lambda: tecu.Embed(strategies.ProxGradient(), max_inner=30),
}
