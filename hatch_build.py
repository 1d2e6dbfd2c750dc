"""Made when the package is built: bitcode of the kernels, so that nobody's first call waits for numba.

Without numba, or with one that cannot, the package is whole all the same: kernels are then compiled from their source,
which takes several times as long.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class BitcodeOfKernels(BuildHookInterface):  # type: ignore[type-arg]
    """Runs ``tools/bitcode.py``, which leaves alone what is up to date."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Make the files, and name them as parts of the wheel."""
        root = Path(self.root)
        command = [sys.executable, str(root / "tools" / "bitcode.py")]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            self.app.display_warning(f"no bitcode of the kernels was made: {run.stderr.strip()[-500:]}")
        build_data["artifacts"] += [f"/{path}" for path in run.stdout.split()]
