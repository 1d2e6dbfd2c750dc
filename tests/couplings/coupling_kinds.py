"""The kinds of arrays that blocks may be, and the way there from NumPy."""

import array_api_strict
import jax.numpy as jnp
import numpy as np
import torch

KINDS = {
    "numpy64": lambda x: np.array(x, dtype=np.float64),
    "numpy32": lambda x: np.array(x, dtype=np.float32),
    "torch64": lambda x: torch.tensor(np.asarray(x), dtype=torch.float64),
    "torch32": lambda x: torch.tensor(np.asarray(x), dtype=torch.float32),
    "jax32": lambda x: jnp.asarray(x, dtype=jnp.float32),
    "strict64": lambda x: array_api_strict.asarray(np.asarray(x), dtype=array_api_strict.float64),
}


def tolerance(kind):
    """Relative to the size of what is compared."""
    return 2e-5 if kind.endswith("32") else 1e-12


def close(got, wanted, rtol=1e-12):
    """Whether two arrays agree relative to the larger one's norm."""
    got, wanted = np.asarray(got, dtype=float), np.asarray(wanted, dtype=float)
    return np.linalg.norm(got - wanted) <= rtol * (np.linalg.norm(wanted) + 1e-300)


def each_kind(cases):
    """All kinds times all cases; JAX, which compiles every shape anew, with the first case only."""
    cases = list(cases)
    return [(kind, case) for kind in KINDS for case in (cases[:1] if kind.startswith("jax") else cases)]
