"""The three kinds of block update."""

from tecu.updates.base import Step, Update
from tecu.updates.embed import Embed
from tecu.updates.extrapolation import Inertial, Nesterov
from tecu.updates.prox_linear import ProxLinear
from tecu.updates.proximal import Proximal

__all__ = ["Embed", "Inertial", "Nesterov", "ProxLinear", "Proximal", "Step", "Update"]
