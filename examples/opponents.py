"""Opponents of the examples in the form that they ask for."""

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg


class Bilinear:
    """The coupling in the form that PALM asks for: ``gradx``, ``lx`` (for the other block), ``updatex``; y is our k."""

    def __init__(self, coupling, start):
        self.coupling, self.z = coupling, dict(start)

    def __getattr__(self, name):
        block, other = ("x", "k") if name[-1] == "x" else ("k", "x")

        def call(values):
            self.z[block] = values.reshape(self.z[block].shape)
            grad = name.startswith("grad")
            return self.coupling.grad(block, self.z).ravel() if grad else self.coupling.lipschitz(other, self.z)

        return call


def plain_plug_and_play(A, b, v, denoise, weight, count):
    """``count`` times ``x = argmin 1/2 ||A x - b||^2 + weight/2 ||x - v||^2``, ``v = denoise(x)``: the pictures v."""
    normal = LinearOperator((v.size, v.size), lambda u: A.rmatvec(A.matvec(u)) + weight * u, dtype=float)
    for _ in range(count):
        x = cg(normal, A.rmatvec(b) + weight * v.ravel(), x0=v.ravel(), rtol=1e-6)[0]
        v = denoise(x.reshape(v.shape))
        yield v


def deepinv_hqs(A, b, start, function, strength, weight, count):
    """The last picture of the same by deepinv, ``strength`` handed to its denoiser."""
    import deepinv
    import torch

    def tensor(values):
        return torch.from_numpy(np.ascontiguousarray(values))[None, None]

    class Model(deepinv.models.Denoiser):
        def forward(self, x, sigma, **kwargs):
            return tensor(function(x[0, 0].numpy(), float(sigma)))

    physics = deepinv.physics.LinearPhysics(
        A=lambda x, **_: tensor(A.matvec(x.numpy().ravel())[None]),
        A_adjoint=lambda y, **_: tensor(A.rmatvec(y.numpy().ravel()).reshape(start.shape)),
        max_iter=200,
        tol=1e-6,
        solver="CG",
    )
    algorithm = deepinv.optim.HQS(
        data_fidelity=deepinv.optim.L2(),
        prior=deepinv.optim.PnP(denoiser=Model()),
        stepsize=1 / weight,
        g_param=strength,
        max_iter=count,
    )
    with torch.no_grad():
        return algorithm(tensor(b[None]), physics, init=tensor(start))[0, 0].numpy()
