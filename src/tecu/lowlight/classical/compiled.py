"""The kernels of the classical methods, as a family of their own: with ``fastmath``."""

from __future__ import annotations

from pathlib import Path

from tecu.kernels import Family

family = Family("classical photo enhancement", Path(__file__).with_name("kernels.bitcode"), fastmath=True)
compiled = family.kernel
