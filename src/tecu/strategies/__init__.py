"""Strategies: generators of better and better points for the sub-problem of one block.

Any function ``u -> u`` is one too: a network, a denoiser.
"""

from tecu.inexact import Candidate
from tecu.strategies.admm import ADMM
from tecu.strategies.compose import first_visit, steps
from tecu.strategies.coordinate import CoordinateDescent
from tecu.strategies.fista import FISTA
from tecu.strategies.greedy import OrthogonalMatchingPursuit
from tecu.strategies.network import Denoiser, OnnxNetwork
from tecu.strategies.pcg import PCG
from tecu.strategies.prox_gradient import ProxGradient
from tecu.strategies.thresholding import HardThresholding

__all__ = [
    "ADMM",
    "FISTA",
    "PCG",
    "Candidate",
    "CoordinateDescent",
    "Denoiser",
    "HardThresholding",
    "OnnxNetwork",
    "OrthogonalMatchingPursuit",
    "ProxGradient",
    "first_visit",
    "steps",
]
