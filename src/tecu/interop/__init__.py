"""Other people's parts: their proxes as terms, their operators in couplings, their denoisers as strategies.

None of the foreign packages is imported before a part of it is used.

| what you have | what it becomes | by |
|---|---|---|
| a PyProximal ``ProxOperator`` | a term | :func:`term` |
| a SciPy or PyLops ``LinearOperator`` | ``A`` of ``couplings.Linear(A, data)`` | itself; :func:`operator` tests it |
| a deepinv ``LinearPhysics`` | the same | :func:`operator` |
| a deepinv denoiser ``model(x, sigma)`` | a strategy | :func:`strategy` with ``strength=`` |
| a ``torch.nn.Module``, an ONNX file, a function ``u -> u`` | a strategy | :func:`strategy` |
| a torch or JAX function of the blocks | the coupling ``H`` | ``couplings.Autodiff`` |
"""

from tecu.interop.denoisers import strategy
from tecu.interop.operators import operator
from tecu.interop.proximal import term

__all__ = ["operator", "strategy", "term"]
