"""Kernels: loops written in Python, run as machine code, loaded by processes that never import numba."""

from tecu.kernels.family import Family, Kernel, Part

__all__ = ["Family", "Kernel", "Part"]
