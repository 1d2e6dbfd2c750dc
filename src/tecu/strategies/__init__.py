"""Strategies: generators of better and better points for the sub-problem of one block."""

from tecu.inexact import Candidate
from tecu.strategies.admm import ADMM
from tecu.strategies.compose import first_visit, steps
from tecu.strategies.fista import FISTA
from tecu.strategies.prox_gradient import ProxGradient

__all__ = [
    "ADMM",
    "FISTA",
    "Candidate",
    "ProxGradient",
    "first_visit",
    "steps",
]
