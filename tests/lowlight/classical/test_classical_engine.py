"""The coupling, the multigrid and the strategy behind SRIE, WVM, JIEP and LIME."""

import numpy as np
import pytest

import tecu
from tecu import terms
from tecu.lowlight.classical.layers import Layers, Prior
from tecu.lowlight.classical.multigrid import Multigrid, Stencil, gather, spread_add
from tecu.lowlight.classical.pictures import enlarged, shrunk
from tecu.lowlight.classical.projected_cg import ProjectedCG, conjugate_gradients
from tecu.testing import check_coupling, check_strategy

RNG = np.random.default_rng(0)
SHAPE = (9, 12)


def weights():
    return RNG.uniform(0.1, 30.0, (9, 11)), RNG.uniform(0.1, 30.0, (8, 12))


def layers(**options):
    split = options.pop("split", None)
    anchor = RNG.uniform(size=SHAPE)
    return Layers(
        RNG.uniform(0.1, 0.5, SHAPE), Prior(*weights(), 0.3, anchor), Prior(*weights(), split=split), **options
    )


def blocks(*names):
    return {name: RNG.uniform(0.2, 1.0, SHAPE if name in "IR" else (2, *SHAPE)) for name in names}


@pytest.mark.parametrize("logarithmic", [False, True])
@pytest.mark.parametrize("split", [None, "d"])
def test_the_coupling_keeps_its_promises(logarithmic, split):
    names = ["I", "R"] if split is None else ["I", "R", split]
    check_coupling(layers(logarithmic=logarithmic, split=split), blocks(*names))


def test_one_layer_alone():
    check_coupling(Layers(RNG.uniform(size=SHAPE), Prior(*weights())), blocks("I"))


@pytest.mark.parametrize("term", [terms.Zero(), terms.Box(0.3, 0.5), terms.NonNegative()], ids=repr)
@pytest.mark.parametrize("multigrid", [False, True])
def test_the_strategy_keeps_its_promises(term, multigrid):
    problem = tecu.Problem(layers(), {"I": term, "R": terms.Zero()})
    z = problem.project(blocks("I", "R"))
    check_strategy(ProjectedCG(steps=6, multigrid=multigrid), tecu.SubProblem.of(problem, "I", z, eta=0.1))


def test_the_strategy_says_what_it_can_work_on():
    problem = tecu.Problem(layers(), {"I": terms.L1(0.1), "R": terms.Zero()})
    with pytest.raises(TypeError, match="takes a box"):
        next(ProjectedCG()(tecu.SubProblem.of(problem, "I", blocks("I", "R")), np.zeros(SHAPE)))
    problem = tecu.Problem(layers(split="d"), {"I": terms.Zero(), "R": terms.Zero(), "d": terms.Zero()})
    with pytest.raises(TypeError, match="block 'd': ProjectedCG works on the layers"):
        next(ProjectedCG()(tecu.SubProblem.of(problem, "d", blocks("I", "R", "d")), np.zeros((2, *SHAPE))))


@pytest.mark.parametrize("shape", [(1, 1), (1, 30), (17, 33), (64, 40)])
def test_multigrid_is_symmetric_and_positive(shape):
    height, width = shape
    stencil = Stencil(
        RNG.uniform(0.01, 1.0, shape),
        RNG.uniform(0.1, 90.0, (height, width - 1)),
        RNG.uniform(0.1, 90.0, (height - 1, width)),
    )
    inverse = Multigrid(stencil)
    u, v = RNG.normal(size=(2, *shape))
    assert np.vdot(u, inverse.solve(v)) == pytest.approx(np.vdot(v, inverse.solve(u)), rel=1e-9)
    assert np.vdot(u, inverse.solve(u)) > 0
    assert np.vdot(u, stencil.apply(v)) == pytest.approx(np.vdot(v, stencil.apply(u)), rel=1e-9)


def test_multigrid_needs_far_fewer_steps_than_the_diagonal():
    shape = (96, 96)
    stencil = Stencil(np.full(shape, 0.01), np.full((96, 95), 10.0), np.full((95, 96), 10.0))
    b = RNG.normal(size=shape).cumsum(axis=0).cumsum(axis=1)

    def residual(precondition):
        return np.linalg.norm(b - stencil.apply(conjugate_gradients(stencil, b, precondition, 12)))

    assert residual(Multigrid(stencil).solve) < 1e-2 * residual(lambda r: r / (0.01 + stencil.weights_around()))


@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (7, 7)])
def test_gather_and_spread_are_adjoint(shape):
    u = RNG.normal(size=shape)
    cells = RNG.normal(size=gather(u).shape)
    spread = np.zeros(shape)
    spread_add(spread, cells)
    assert np.vdot(gather(u), cells) == pytest.approx(np.vdot(u, spread))


@pytest.mark.parametrize("shape", [(40, 60), (41, 59), (3, 500)])
def test_a_linear_picture_survives_the_coarser_grid(shape):
    plane = np.add.outer(np.arange(shape[0]), 2.0 * np.arange(shape[1])) / 500
    small = shrunk(plane, plane.size // 7)
    assert small.size <= plane.size // 7
    back = enlarged(small, shape)
    inside = tuple(slice(4, max(5, n - 4)) for n in shape) if min(shape) > 8 else (slice(None), slice(8, -8))
    assert back.shape == shape
    assert np.abs(back - plane)[inside].max() < 0.02
