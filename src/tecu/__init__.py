"""Multi-block non-convex optimisation, any solver or network inside a block, a checked convergence certificate."""

from importlib.metadata import version as _version

from tecu import couplings, methods, stop, strategies, terms
from tecu.certificate import Certificate, Verdict
from tecu.checkpoint import Checkpoint, load_state, save_state
from tecu.inexact import Candidate
from tecu.problem import Problem, SubProblem
from tecu.solver import Solver
from tecu.state import Outcome, Result, State, Status, Visit
from tecu.tolerance import FixedTolerance, MovingTolerance, SummableTolerance
from tecu.updates import Embed, Inertial, Nesterov, Proximal, ProxLinear

__version__ = _version("tecu")
__all__ = [
    "Candidate",
    "Certificate",
    "Checkpoint",
    "Embed",
    "FixedTolerance",
    "Inertial",
    "MovingTolerance",
    "Nesterov",
    "Outcome",
    "Problem",
    "ProxLinear",
    "Proximal",
    "Result",
    "Solver",
    "State",
    "Status",
    "SubProblem",
    "SummableTolerance",
    "Verdict",
    "Visit",
    "couplings",
    "load_state",
    "methods",
    "save_state",
    "stop",
    "strategies",
    "terms",
]
