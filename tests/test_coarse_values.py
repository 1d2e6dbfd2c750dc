"""An ``H`` that computes in float32 while its blocks are float64: said, it is covered; unsaid, the certificate asks."""

from __future__ import annotations

import numpy as np
import pytest

import tecu
from tecu import couplings, stop, strategies, terms
from tecu.testing import check_coupling

UPDATES = [tecu.ProxLinear(), tecu.Embed(strategies.FISTA()), tecu.Embed(strategies.ProxGradient())]


def name(update):
    return repr(update)[:25]


class Squashed:
    """``1/2 ||A tanh(x) - b||^2 + 10`` and its gradient, in one precision inside; float64 blocks in and out."""

    blocks = ("x",)

    def __init__(self, seed, inside, factor=1.0):
        rng = np.random.default_rng(seed)
        self.A, self.b = rng.normal(size=(60, 20)).astype(inside), rng.normal(size=60).astype(inside)
        self.start = {"x": 0.1 * rng.normal(size=20)}
        self.factor = factor  # of the gradient: 1 is right

    def parts(self, z):
        squashed = np.tanh(z["x"].astype(self.A.dtype))
        return squashed, self.A @ squashed - self.b

    def value(self, z):
        _, residual = self.parts(z)
        return float(np.sum(residual * residual) / 2 + self.A.dtype.type(10))

    def grad(self, block, z):
        squashed, residual = self.parts(z)
        return self.factor * ((1 - squashed * squashed) * (self.A.T @ residual)).astype(float)

    def functions(self, computes_in):
        return couplings.Functions(self.value, {"x": lambda z: self.grad("x", z)}, computes_in=computes_in)


def run(coupling, start, update, sweeps=200):
    problem = tecu.Problem(coupling, {"x": terms.L1(0.1)})
    return tecu.Solver(problem, update).run(start, stop=stop.RelativeChange(1e-9) | stop.MaxIter(sweeps))


@pytest.mark.parametrize("update", UPDATES, ids=name)
@pytest.mark.parametrize("seed", range(4))
def test_a_coupling_that_says_that_it_computes_in_float32_is_covered(seed, update):
    H = Squashed(seed, np.float32)
    result = run(H.functions("float32"), H.start, update)
    assert result.certificate.holds_from == 0, result.certificate.reason
    assert result.z["x"].dtype == np.float64
    exact = tecu.Problem(Squashed(seed, np.float64), {"x": terms.L1(0.1)})
    scale = np.linalg.norm(exact.coupling.grad("x", H.start))
    assert exact.stationarity(result.z) <= 1e-4 * scale  # the function in float64 is the truth
    assert sum(visit.values for visit in result.state.visits) <= 20 * len(result.state.visits)


def test_a_coupling_of_ones_own_says_it_by_an_attribute_and_a_sum_has_the_coarsest():
    H = Squashed(0, np.float32)
    z = {"x": H.start["x"], "y": H.start["x"]}
    link = couplings.Difference("x", "y", 0.1)
    H.computes_in = "float32"
    total = couplings.Sum(H, link)
    assert total.restrict("x", z).roundoff() == 2.0**-24
    assert total.restrict("y", z).roundoff() == 2.0**-53  # H does not depend on it
    problem = tecu.Problem(total, {"x": terms.Zero(), "y": terms.L1(0.1)})
    result = tecu.Solver(problem, tecu.ProxLinear()).run(z, stop=stop.MaxIter(100))
    assert result.certificate.holds_from == 0, result.certificate.reason


@pytest.mark.parametrize("update", UPDATES, ids=name)
@pytest.mark.parametrize("seed", range(4))
def test_unsaid_the_certificate_asks_whether_it_is_float32(seed, update):
    H = Squashed(seed, np.float32)
    certificate = run(H.functions(None), H.start, update, sweeps=30).certificate
    assert certificate.holds or "computes_in='float32'" in certificate.reason


def test_a_wrong_gradient_is_not_taken_for_rounding():
    for factor in (-1.0, 0.0, 0.5, 2.0):
        H = Squashed(0, np.float64, factor)
        certificate = run(H.functions(None), H.start, tecu.ProxLinear()).certificate
        assert not certificate.holds
        assert "float32" not in certificate.reason
        said = Squashed(0, np.float32, factor)
        assert not run(said.functions("float32"), said.start, tecu.ProxLinear()).certificate.holds


def test_values_that_are_drawn_are_told_from_values_that_round():
    rng = np.random.default_rng(0)
    H = couplings.Functions(lambda z: float(np.sum(z["x"] ** 2) + rng.random()), {"x": lambda z: 2 * z["x"]})
    certificate = run(H, {"x": np.ones(5)}, tecu.ProxLinear()).certificate
    assert not certificate.holds
    assert "without random numbers" in certificate.reason


def test_the_check_of_a_coupling_knows_what_it_computes_in():
    H = Squashed(0, np.float32)
    check_coupling(H.functions("float32"), H.start)
    with pytest.raises(AssertionError, match="computes_in='float32'"):
        check_coupling(H.functions(None), H.start)
    with pytest.raises(AssertionError, match="central differences"):
        check_coupling(Squashed(0, np.float32, 0.5).functions("float32"), H.start)


def test_autodiff_takes_it_for_a_network_in_float32():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 5))
    H = couplings.Autodiff(lambda x: (network(x.float()) ** 2).sum() + 1, backend="torch", computes_in="float32")
    start = {"x": np.random.default_rng(3).normal(size=20)}
    for update in UPDATES:
        certificate = run(H, start, update).certificate
        assert certificate.holds_from == 0, certificate.reason


@pytest.mark.parametrize("wrong", ["single", "float16", np.float32, 1e-7])
def test_other_precisions_are_refused_in_a_sentence(wrong):
    sentence = "computes_in must be 'float32', 'float64' or None, got"
    with pytest.raises(ValueError, match=f"Functions: {sentence}"):
        couplings.Functions(lambda z: 0.0, {"x": lambda z: z["x"]}, computes_in=wrong)
    with pytest.raises(ValueError, match=f"Autodiff: {sentence}"):
        couplings.Autodiff(lambda x: x.sum(), computes_in=wrong)


def test_another_precision_of_a_coupling_of_ones_own_is_refused_at_the_start():
    H = Squashed(0, np.float32)
    H.computes_in = "single"
    with pytest.raises(ValueError, match="computes_in must be 'float32' or 'float64', got 'single'"):
        run(H, H.start, tecu.ProxLinear())


def test_the_check_of_float32_blocks_takes_a_coupling_that_computes_in_float32_as_it_is():
    """Who starts from float32 blocks is not told to start from float32 blocks; a wrong gradient still is found."""
    for seed in range(4):
        start = {"x": Squashed(seed, np.float32).start["x"].astype(np.float32)}

        class Same(Squashed):
            def grad(self, block, z):
                return super().grad(block, z).astype(z["x"].dtype)

        check_coupling(Same(seed, np.float32), start)
        for factor in (0.8, 1.2, -1.0):
            with pytest.raises(AssertionError, match="central differences"):
                check_coupling(Same(seed, np.float32, factor), start)
            with pytest.raises(AssertionError, match="central differences"):
                check_coupling(Same(seed, np.float64, factor), start)
