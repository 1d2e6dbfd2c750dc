"""The kernels in plain NumPy: slow, short, and what the compiled ones are tested against.

``G`` is the Gram matrix of the atoms, ``c`` one sample's correlations with them; ``w`` a code as a dense vector.
"""

from __future__ import annotations

import numpy as np

from tecu.dictionary.coding import PIVOT, Matrix


def value(G: Matrix, c: Matrix, w: Matrix, penalty: float) -> float:
    """``q(w) = 1/2 w'Gw - c'w + penalty ||w||_0``."""
    return float(0.5 * w @ G @ w - c @ w + penalty * np.count_nonzero(w))


def refit(G: Matrix, c: Matrix, support: list[int]) -> Matrix:
    """The least-squares code on a support, the shortest one if its atoms depend on each other."""
    w = np.zeros(len(c))
    if support:
        w[support] = np.linalg.lstsq(G[np.ix_(support, support)], c[support], rcond=None)[0]
    return w


def greedy(G: Matrix, c: Matrix, stop: float, penalty: float, cap: int) -> Matrix:
    """Orthogonal matching pursuit; the best prefix of its path."""
    support: list[int] = []
    best = np.zeros(len(c))
    while len(support) < cap:
        r = c - G @ refit(G, c, support)
        r[support] = 0
        j = int(np.argmax(np.abs(r)))
        inside = np.linalg.solve(G[np.ix_(support, support)], G[support, j]) if support else np.zeros(0)
        d = G[j, j] - G[support, j] @ inside
        if d < PIVOT or r[j] ** 2 / (2 * d) <= stop:
            break
        support.append(j)
        w = refit(G, c, support)
        if value(G, c, w, penalty) < value(G, c, best, penalty):
            best = w
    return best


def is_settled(G: Matrix, c: Matrix, w: Matrix, penalty: float) -> bool:
    """Whether dropping one atom (and refitting) or inserting the best correlated one (and refitting) cannot pay."""
    support = [int(j) for j in np.flatnonzero(w)]
    here, slack = value(G, c, w, penalty), 1e-9 * (1 + abs(value(G, c, w, penalty)))
    for j in support:
        rest = [i for i in support if i != j]
        if value(G, c, refit(G, c, rest), penalty) < here - slack:
            return False
    r = c - G @ w
    r[support] = 0
    j = int(np.argmax(np.abs(r)))
    if j in support:
        return True
    return value(G, c, refit(G, c, [*support, j]), penalty) >= here - slack


def descend(
    G: Matrix, c: Matrix, w: Matrix, penalty: float, cap: int, lower: float, upper: float, moves: int
) -> Matrix:
    """Exact coordinate moves, always the one that lowers ``q`` most; before values change a refit, once a support."""
    w, is_refitted = w.copy(), False
    for _ in range(moves):
        here, best, place, target = value(G, c, w, penalty), 1e-12, -1, 0.0
        for j in range(len(w)):
            if w[j] == 0 and np.count_nonzero(w) >= cap:
                continue
            for x in (np.clip(w[j] + (c[j] - G[j] @ w) / G[j, j], lower, upper), 0.0):
                other = w.copy()
                other[j] = x
                gain = here - value(G, c, other, penalty)
                if gain > best:
                    best, place, target = gain, j, x
        if place < 0:
            break
        stays = w[place] != 0 and target != 0
        if stays and not is_refitted:
            w, at_bound = refit_within(G, c, w, lower, upper)
            is_refitted = not at_bound
            continue
        is_refitted = is_refitted and stays and lower < w[place] < upper and lower < target < upper
        w[place] = target
    return w


def refit_within(G: Matrix, c: Matrix, w: Matrix, lower: float, upper: float) -> tuple[Matrix, bool]:
    """From the coefficients between the bounds towards least squares, up to a bound; whether one was met."""
    free = np.flatnonzero((w != 0) & (lower < w) & (w < upper))
    d = np.linalg.solve(G[np.ix_(free, free)], (c - G @ w)[free])
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(d < 0, lower - w[free], upper - w[free]) / d
    room[d == 0] = np.inf
    found = w.copy()
    found[free] += min(1.0, np.min(room)) * d
    if np.min(room) < 1.0:
        found[free[np.argmin(room)]] = lower if d[np.argmin(room)] < 0 else upper
    return found, bool(np.min(room) < 1.0)


def sweep(D: Matrix, A: Matrix, B: Matrix, eta: float, ball: bool) -> Matrix:
    """One pass of exact minimisation of ``1/2 <A, DD'> - <B, D> + eta/2 ||D - D_0||^2`` over the atoms, one by one."""
    new = D.copy()
    for j in range(len(D)):
        v = B[j] - A[j] @ new + A[j, j] * new[j] + eta * D[j]
        length = max(np.linalg.norm(v), A[j, j] + eta) if ball else np.linalg.norm(v)
        if length > 0:  # an atom that nothing depends on stays
            new[j] = v / length
    return new


def totals(W: Matrix, Y: Matrix) -> tuple[Matrix, Matrix]:
    """``W'W`` and ``W'Y``."""
    return W.T @ W, W.T @ Y
