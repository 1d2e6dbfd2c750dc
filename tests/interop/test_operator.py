"""Foreign linear operators in couplings."""

import numpy as np
import pylops
import pytest
import torch
from scipy.sparse.linalg import LinearOperator, aslinearoperator

import tecu
from tecu import couplings, interop, stop, strategies, terms
from tecu.testing import check_coupling

A = np.random.default_rng(5).standard_normal((5, 6))
B = np.random.default_rng(6).standard_normal(5)


class BlurPhysics:
    """The interface of a deepinv ``LinearPhysics``."""

    def A(self, x):
        return 0.5 * (x + torch.roll(x, 1, -1))

    def A_adjoint(self, y):
        return 0.5 * (y + torch.roll(y, -1, -1))


@pytest.mark.parametrize("foreign", [aslinearoperator(A), pylops.MatrixMult(A)], ids=["scipy", "pylops"])
def test_an_operator_gives_the_run_of_its_matrix(foreign):
    values = []
    for operator in (A, interop.operator(foreign)):
        problem = tecu.Problem(couplings.Linear(operator, B), {"x": terms.L1(0.1)})
        solver = tecu.Solver(problem, tecu.Embed(strategies.FISTA(), eta=0.5))
        result = solver.run({"x": np.zeros(6)}, stop=stop.MaxIter(20))
        assert result.certificate.holds
        values.append(result.history["value"])
    np.testing.assert_allclose(*values, rtol=1e-9)


def test_a_stack_of_pylops_operators_keeps_the_laws_of_a_coupling():
    stack = pylops.VStack([pylops.FirstDerivative(12), 0.1 * pylops.Identity(12)])
    check_coupling(couplings.Linear(interop.operator(stack), np.ones(24)), {"x": np.linspace(0.0, 1.0, 12)})


def test_a_deepinv_physics_is_an_operator():
    operator = interop.operator(BlurPhysics(), shape=(1, 1, 3, 4))
    assert operator.shape == (12, 12)
    x = np.arange(12.0)
    np.testing.assert_allclose(operator.matvec(x), BlurPhysics().A(torch.tensor(x).reshape(3, 4)).numpy().ravel())
    with pytest.raises(TypeError, match="give shape="):
        interop.operator(BlurPhysics())


def test_faults_are_named():
    with pytest.raises(TypeError, match="lacks shape, matvec, rmatvec"):
        interop.operator(object())
    with pytest.raises(TypeError, match="has no adjoint"):
        interop.operator(LinearOperator((3, 3), matvec=lambda x: 2 * x))
    with pytest.raises(ValueError, match="are no adjoints"):
        interop.operator(LinearOperator((3, 3), matvec=lambda x: np.roll(x, 1), rmatvec=lambda x: np.roll(x, 1)))
    with pytest.raises(TypeError, match="is complex and blocks are real"):
        interop.operator(pylops.signalprocessing.FFT(8))
