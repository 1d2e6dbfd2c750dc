"""The laws of a coupling, for a user's own ones."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from tecu import arrays
from tecu.arrays import Array
from tecu.noise import COARSE, doubt
from tecu.protocols import Blocks, Coupling, Restricted, Term
from tecu.slopes import Verdict, judge, lines

DIRECTIONS = 4
SHORTER = (1.0, 1 / 16, 1 / 256, 1 / 4096)  # steps of differences
POWER_STEPS = 40  # enough to find the direction of the largest curvature to a percent


def check_coupling(coupling: Coupling, z: Blocks, *, terms: Iterable[Term] | None = None, seed: int = 0) -> None:
    """Check everything the solver relies on in a coupling, near the blocks ``z``.

    The value is a number; every gradient agrees with central differences and has the shape, precision and kind of its
    block; ``restrict`` agrees with ``value`` and ``grad`` however often it is asked; a second derivative is symmetric
    and is the derivative of the gradient; a Lipschitz constant is not too small; an exact minimiser is one (tried with
    ``terms``, by default a selection of :mod:`tecu.terms`); the blocks are left alone. Blocks of float32 are checked in
    float64, where mistakes show better, unless the coupling computes in float32 whatever it is given.

    Raises
    ------
    AssertionError
        In a sentence that names the block, what was found and what should have been.

    Examples
    --------
    >>> import numpy as np
    >>> from tecu import couplings
    >>> from tecu.testing import check_coupling
    >>> wrong = couplings.Functions(lambda z: float(np.sum(z["x"] ** 2)), {"x": lambda z: z["x"]})
    >>> check_coupling(wrong, {"x": np.ones(3)})  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    AssertionError: block 'x': the slope along the gradient is 1.73..., but central differences give 3.46...
    """
    rng = np.random.default_rng(seed)
    kept = {name: arrays.copy(x) for name, x in z.items()}
    value = coupling.value(z)
    assert isinstance(value, float), f"value(z) must be a Python float, got {type(value).__name__}"
    assert math.isfinite(value), f"value(z) is {value} at the given blocks; it must be finite"
    names = getattr(coupling, "blocks", None) or tuple(z)
    exact = _fine(coupling, z)
    for block in names:
        assert block in z, f"the coupling has a block {block!r}, but z has only {list(z)}"
        _check_form(coupling, block, z)
        _check_unchanged(z, kept)
        _check_gradient(coupling, block, exact, rng)
        _check_restricted(coupling, block, z, rng)
        _check_hessian(coupling, block, exact, rng)
        _check_lipschitz(coupling, block, exact, rng)
        for term in _default_terms() if terms is None else terms:
            _check_minimize(coupling, block, exact, term, rng)
    _check_unchanged(z, kept)


def _check_unchanged(z: Blocks, kept: Blocks) -> None:
    for name, before in kept.items():
        assert _same(z[name], before), f"block {name!r} was changed by the coupling; it must leave its arguments alone"


def _default_terms() -> list[Term]:
    from tecu import terms

    return [
        terms.Zero(), terms.SquaredL2(0.3), terms.L1(0.1), terms.L0(0.05), terms.NonNegative(),
        terms.Box(-0.4, 0.6), terms.UnitColumns(), terms.Stiefel(),
    ]  # fmt: skip


def _double(x: Array) -> Array:
    """``x`` in float64, where its kind has it switched on."""
    if arrays.is_sparse(x) or isinstance(x, np.ndarray):
        return x.astype(np.float64)
    xp = arrays.namespace(x)
    return x if "jax" in type(x).__module__ and not _jax_has_double() else xp.astype(x, xp.float64)


def _fine(coupling: Coupling, z: Blocks) -> Blocks:
    """The blocks in float64; as they are where the coupling computes in their own, coarser precision even then."""
    fine = {name: _double(x) for name, x in z.items()}
    own, finest = (max(arrays.unit_roundoff(x) for x in blocks.values()) for blocks in (z, fine))
    return z if own > finest and doubt(coupling, fine, finest) is not None else fine


def _jax_has_double() -> bool:
    import jax

    return bool(jax.config.jax_enable_x64)


def _same(x: Array, y: Array) -> bool:
    return tuple(x.shape) == tuple(y.shape) and bool(
        np.array_equal(arrays.host(arrays.dense(x)), arrays.host(arrays.dense(y)))
    )


def _random(x: Array, rng: np.random.Generator, size: float) -> Array:
    """A random array of the kind of ``x`` with the norm ``size``."""
    values = rng.standard_normal(tuple(x.shape))
    values *= size / np.linalg.norm(values)
    return _of_kind(values, x)


def _of_kind(values: np.ndarray[Any, Any], x: Array) -> Array:
    return arrays.as_kind(arrays.from_numpy(values, x), x)


def _restricted(coupling: Coupling, block: str, z: Blocks) -> Restricted:
    own = getattr(coupling, "restrict", None)
    restricted: Restricted = Restricted(coupling, block, z) if own is None else own(block, z)
    return restricted


def _size(x: Array) -> float:
    return max(arrays.norm(x), 1.0)


def _check_form(coupling: Coupling, block: str, z: Blocks) -> None:
    x, gradient = z[block], coupling.grad(block, z)
    assert hasattr(gradient, "dtype"), f"block {block!r}: the gradient must be an array, got {type(gradient).__name__}"
    assert tuple(gradient.shape) == tuple(x.shape), (
        f"block {block!r}: the gradient has shape {tuple(gradient.shape)}, the block has {tuple(x.shape)}"
    )
    assert gradient.dtype == x.dtype, f"block {block!r}: the gradient is {gradient.dtype}, the block is {x.dtype}"
    same_kind = arrays.namespace(gradient) is arrays.namespace(x)  # dense is fine for a CSR block
    assert same_kind, f"block {block!r}: the gradient is a {type(gradient).__name__}, the block a {type(x).__name__}"


def _check_gradient(coupling: Coupling, block: str, z: Blocks, rng: np.random.Generator) -> None:
    x, gradient = z[block], coupling.grad(block, z)
    unit = _restricted(coupling, block, z).roundoff()
    h = unit ** (1 / 3) * _size(x)
    slope_size = arrays.norm(gradient)
    values = arrays.host(arrays.dense(gradient)).astype(np.float64)
    directions = [("a random direction", _random(x, rng, 1.0)) for _ in range(DIRECTIONS)]
    if slope_size > 0.0:
        directions.insert(0, ("the gradient", _of_kind(values / slope_size, x)))
    for name, direction in directions:
        slope, seen = arrays.inner(gradient, direction), []
        if unit > COARSE:
            _check_slope(coupling, block, z, name, direction, slope, unit)
            continue
        for shorter in SHORTER:
            step = shorter * h
            ahead, behind = (coupling.value({**z, block: x + s * direction}) for s in (step, -step))
            seen.append((ahead - behind) / (2 * step))
            rounding = max(abs(ahead), abs(behind)) / (shorter * _size(x))
            if abs(seen[-1] - slope) <= 1e3 * unit ** (2 / 3) * (slope_size + rounding) + 1e-30:
                break
            # Differences over two steps that say the same have settled; where H bends sharply, a shorter step tells.
            settled = len(seen) > 1 and abs(seen[-1] - seen[-2]) <= 0.25 * abs(seen[-1] - slope)
            if settled or shorter == SHORTER[-1]:
                why = doubt(coupling, z, unit)
                raise AssertionError(
                    f"block {block!r}: the slope along {name} is {slope:.6g}, but central differences give "
                    f"{seen[-1]:.6g}" + ("" if why is None else f"; {why}")
                )


def _check_slope(
    coupling: Coupling, block: str, z: Blocks, name: str, direction: Array, slope: float, unit: float
) -> None:
    """The same in float32, where rounding has to be measured (:mod:`tecu.slopes`)."""
    x = z[block]
    drawn = lines(
        lambda t: float(coupling.value({**z, block: x + t * direction})),
        coupling.value(z),
        unit ** (1 / 3) * _size(x),
        unit,
    )
    verdict, line = judge(drawn, slope, (2 * unit) ** (1 / 4))
    if verdict is Verdict.REFUTED and line is not None:
        raise AssertionError(
            f"block {block!r}: the slope along {name} is {slope:.6g}, but central differences give {line.slope:.6g}"
        )


def _check_restricted(coupling: Coupling, block: str, z: Blocks, rng: np.random.Generator) -> None:
    restricted, x = _restricted(coupling, block, z), z[block]
    unit = restricted.roundoff()
    points = [x] + [x + _random(x, rng, 0.1 * _size(x)) for _ in range(DIRECTIONS)] + [x]
    for u in points:
        there = {**z, block: u}
        value, gradient = float(coupling.value(there)), coupling.grad(block, there)
        both = restricted.value_and_grad(u)
        for name, got in (("value", restricted.value(u)), ("value_and_grad", both[0])):
            allowed = 1e4 * unit * max(restricted.magnitude(value), abs(value)) + 1e-30
            assert abs(got - value) <= allowed, (
                f"block {block!r}: restrict(...).{name} gives the value {got:.9g}, value(z) gives {value:.9g}"
            )
        # Both forms round relative to the terms of the gradient, which may cancel: hence the size of H as well.
        scale = arrays.norm(gradient) + max(restricted.magnitude(value), abs(value)) / _size(x) + abs(value)
        for name, array in (("grad", restricted.grad(u)), ("value_and_grad", both[1])):
            apart = arrays.distance(arrays.dense(array), arrays.dense(gradient))
            assert apart <= 1e4 * unit * scale + 1e-30, (
                f"block {block!r}: the gradient from restrict(...).{name} is {apart:.3g} away from grad(block, z)"
            )
        if arrays.is_sparse(x):
            rows, columns = np.divmod(rng.integers(x.shape[0] * x.shape[1], size=50), x.shape[1])
            entries = restricted.grad_entries(u, rows, columns)
            if entries is not None:
                apart = float(np.max(np.abs(entries - arrays.host(arrays.dense(gradient))[rows, columns])))
                assert apart <= 1e4 * unit * scale + 1e-30, (
                    f"block {block!r}: restrict(...).grad_entries is {apart:.3g} away from grad(block, z)"
                )


def _check_hessian(coupling: Coupling, block: str, z: Blocks, rng: np.random.Generator) -> None:
    restricted, x = _restricted(coupling, block, z), z[block]
    unit = restricted.roundoff()
    v, w = _random(x, rng, _size(x)), _random(x, rng, _size(x))
    own = getattr(coupling, "hessian", None)
    product = None if own is None else own(block, z, v)
    if own is None or product is None:
        assert restricted.hessian(v) is None, f"block {block!r}: restrict(...) has a hessian, the coupling has none"
        return
    size = arrays.norm(product) * _size(x) + 1e-30
    left, right = arrays.inner(product, w), arrays.inner(v, own(block, z, w))
    assert abs(left - right) <= 1e5 * unit * size, (
        f"block {block!r}: the hessian is not symmetric, <Hv, w> = {left:.9g} and <v, Hw> = {right:.9g}"
    )
    ahead, here = coupling.grad(block, {**z, block: x + v}), coupling.grad(block, z)
    apart = arrays.distance(arrays.dense(ahead - here), arrays.dense(product))
    allowed = 1e5 * unit * (arrays.norm(ahead) + arrays.norm(here) + arrays.norm(product)) + 1e-30
    assert apart <= allowed, (
        f"block {block!r}: hessian(v) is {apart:.3g} away from grad(u + v) - grad(u), "
        f"whose norm is {arrays.norm(product):.3g}; answer None if H is not quadratic in this block"
    )
    for _ in range(DIRECTIONS):
        again = restricted.hessian(v)
        assert again is not None, f"block {block!r}: the coupling has a hessian, restrict(...) has none"
        apart = arrays.distance(arrays.dense(again), arrays.dense(product))
        assert apart <= 1e5 * unit * arrays.norm(product) + 1e-30, (
            f"block {block!r}: restrict(...).hessian is {apart:.3g} away from the coupling's hessian"
        )


def _check_lipschitz(coupling: Coupling, block: str, z: Blocks, rng: np.random.Generator) -> None:
    own = getattr(coupling, "lipschitz", None)
    claimed = {"lipschitz": None if own is None else own(block, z)}
    memory: dict[str, Any] = {}
    restricted = _restricted(coupling, block, z)
    claimed["restrict(...).lipschitz"] = restricted.lipschitz(memory)
    claimed["restrict(...).lipschitz, warm-started,"] = restricted.lipschitz(memory)
    if all(constant is None for constant in claimed.values()):
        return
    x = z[block]
    here, h = coupling.grad(block, z), 1e-2 * _size(x)
    direction, found = _random(x, rng, h), 0.0
    rounding = 64 * restricted.roundoff() * arrays.norm(here) / h
    for _ in range(POWER_STEPS):
        change = arrays.host(arrays.dense(coupling.grad(block, {**z, block: x + direction}) - here)).astype(np.float64)
        size = float(np.linalg.norm(change))
        found = max(found, size / h - rounding)
        if size == 0.0:
            break
        direction = _of_kind(change * (h / size), x)
    for name, constant in claimed.items():
        assert constant is not None, f"block {block!r}: {name} is None, but another way gives a constant"
        assert math.isfinite(constant), f"block {block!r}: {name} is {constant}; it must be finite"
        assert constant >= found * (1 - 1e-4), (
            f"block {block!r}: {name} is {constant:.6g}, but two gradients differ by {found:.6g} times their points"
        )


def _check_minimize(coupling: Coupling, block: str, z: Blocks, term: Term, rng: np.random.Generator) -> None:
    own = getattr(coupling, "minimize", None)
    x, eta = z[block], 0.7
    if own is None or not _has_prox(term, x):
        return
    x = arrays.as_kind(term.prox(x, 1.0), x)  # a point of the term's domain
    z = {**z, block: x}
    best = own(block, z, term, eta)
    again = _restricted(coupling, block, z).minimize(term, eta)
    name = f"block {block!r}: minimize with {term!r}"
    assert (best is None) == (again is None), (
        f"{name}: the coupling and restrict(...) do not agree whether there is one"
    )
    if best is None:
        return

    def objective(u: Array) -> float:
        return float(term.value(u)) + coupling.value({**z, block: u}) + 0.5 * eta * arrays.distance(u, x) ** 2

    lowest = objective(best)
    assert math.isfinite(lowest), f"{name} leaves the domain of the term"
    slack = 1e4 * _restricted(coupling, block, z).roundoff() * (abs(lowest) + abs(objective(x)))
    assert objective(again) <= lowest + slack, f"{name}: restrict(...) finds a worse point than the coupling"
    rivals = [x]
    tau = (coupling.lipschitz(block, z) if hasattr(coupling, "lipschitz") else None) or 1.0
    slope = coupling.grad(block, {**z, block: best}) + eta * (best - x)
    rivals += [best - slope / (s * (tau + eta)) for s in (1.0, 4.0)]
    rivals += [best + _random(x, rng, size * _size(x)) for size in (1e-4, 1e-2, 0.1, 1.0) for _ in range(DIRECTIONS)]
    for rival in rivals:
        inside = arrays.as_kind(term.prox(rival, 1.0 / (tau + eta)), x)
        other = objective(inside)
        assert lowest <= other + slack, f"{name} gives {lowest:.9g}, but another point has {other:.9g}"


def _has_prox(term: Term, x: Array) -> bool:
    """Whether the term takes a block of this shape (orthonormal columns need a tall matrix)."""
    try:
        term.prox(x, 1.0)
    except (ValueError, TypeError, IndexError):
        return False
    return True
