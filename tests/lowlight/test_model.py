"""The decomposition: certificate, limit, constraints."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import diags_array, identity, kron

from lowlight.scenes import dark_scene, darkened, photo
from tecu import stop
from tecu.lowlight import model
from tecu.lowlight.grid import shrink
from tecu.lowlight.network import default_network
from tecu.state import Outcome

DARK = [dark_scene(), dark_scene(seed=3, light=0.04), darkened(photo()), darkened(photo("flower.jpg"), stops=6.0)]


def observed_and_proposal(pixels, dtype=np.float64):
    small = shrink(pixels, 96)
    return small.max(axis=-1).astype(dtype), default_network()(small).illumination.astype(dtype)


def laplacian(height, width):
    """``grad^T grad`` of forward differences, by Kronecker products."""

    def line(n):
        steps = diags_array([-np.ones(n - 1), np.ones(n - 1)], offsets=[0, 1], shape=(n - 1, n))
        return steps.T @ steps

    return kron(line(height), identity(width)) + kron(identity(height), line(width))


def obstacle_solution(observed, proposal, alpha=1.0, beta=1.0):
    """``min alpha/2 ||grad I||^2 + beta/2 ||I - N||^2`` over ``O / .97 <= I <= 1``, by L-BFGS-B."""
    lowest = np.clip(observed / 0.97, model.DARKEST, 1.0).ravel()
    matrix, target = alpha * laplacian(*observed.shape), proposal.ravel()

    def value_and_grad(u):
        smooth, away = matrix @ u, u - target
        return 0.5 * u @ smooth + 0.5 * beta * away @ away, smooth + beta * away

    start = np.clip(target, lowest, 1.0)
    bounds = np.stack([lowest, np.ones_like(lowest)], axis=1)
    options = {"maxiter": 5000, "maxfun": 10000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 30}
    found = minimize(value_and_grad, start, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    return found.x.reshape(observed.shape)


@pytest.mark.parametrize("pixels", DARK)
def test_limit_solves_the_obstacle_problem(pixels):
    observed, proposal = observed_and_proposal(pixels)
    solver, start = model.anchored(observed, proposal)
    found = solver.run(start, stop=stop.RelativeChange(1e-9) | stop.MaxIter(300))
    assert np.abs(found.z["I"] - obstacle_solution(observed, proposal)).max() < 1e-5


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("pixels", DARK)
def test_criterion_is_met_at_every_visit(pixels, dtype):
    result = model.solve(*observed_and_proposal(pixels, dtype))
    assert result.iterations <= model.MAX_OUTER
    assert result.certificate.holds
    assert result.certificate.fallbacks == 0
    visits = [visit for visit in result.state.visits if visit.block == "I"]
    assert all(visit.inner <= model.MAX_INNER for visit in visits)
    assert all(visit.outcome is not Outcome.FELL_BACK for visit in visits)


@pytest.mark.parametrize("method", ["tecu", "paper", "pam"])
def test_parts_are_in_their_sets_and_multiply_to_the_picture(method):
    observed, proposal = observed_and_proposal(DARK[0])
    parts = model.decompose(observed, proposal, method)
    light, reflectance = parts.illumination, parts.reflectance
    assert np.all(light >= observed - 1e-12)
    assert np.all(light <= 1.0)
    assert np.all((reflectance >= 0.0) & (reflectance <= 1.0))
    assert np.abs(light * reflectance - observed).mean() < 0.02
    assert parts.certificate.holds


def test_printed_model_flattens_the_light_for_ever_and_the_anchored_one_settles():
    observed, proposal = observed_and_proposal(darkened(photo()))

    def roughness(method):
        solver, start = model.MODELS[method](observed, proposal)
        found = [solver.run(start, stop=stop.MaxIter(t)).z["I"] for t in (3, 30)]
        return [sum(float(np.sum(np.diff(light, axis=axis) ** 2)) for axis in (0, 1)) for light in found]

    early, late = roughness("paper")
    assert late < 0.5 * early
    early, late = roughness("anchored")
    assert abs(late - early) < 0.05 * early


def test_printed_objective_is_zero_at_a_constant_illumination():
    observed, _ = observed_and_proposal(DARK[0])
    problem = model.retinex_problem(observed)
    light = np.full_like(observed, observed.max() / model.HEADROOM)
    assert problem.value({"I": light, "R": observed / light}) < 1e-20
