"""Checks for a user's own terms, couplings and strategies: one call gives them our whole suite."""

from tecu.testing.coupling import check_coupling
from tecu.testing.strategy import check_strategy
from tecu.testing.term import check_term

__all__ = ["check_coupling", "check_strategy", "check_term"]
