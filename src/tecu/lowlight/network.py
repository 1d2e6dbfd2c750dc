"""The trained networks, run by onnxruntime."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tecu.lowlight.features import SUMMARY_SIZE, summary
from tecu.lowlight.onnxfile import model_card, read_model

Pixels = np.ndarray[Any, Any]

DEFAULT_MODEL = Path(__file__).parent / "weights" / "default.onnx"
INPUTS = {"picture", "summary"}
OUTPUTS = ["illumination", "exponent", "knots"]


@dataclass(frozen=True)
class Proposal:
    """What the networks say about a picture: illumination ``h x w``, exponent of the gain, knots of the curve."""

    illumination: Pixels
    exponent: float
    knots: Pixels


class Network:
    """Illumination and tone of a picture from an ONNX file; the default weights without one.

    >>> import numpy as np
    >>> proposal = Network()(np.full((8, 8, 3), 0.1, dtype=np.float32))
    >>> proposal.illumination.shape, len(proposal.knots)
    ((8, 8), 11)
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = Path(path) if path is not None else DEFAULT_MODEL
        self._content = read_model(self.path)
        self._session: Any = None

    @property
    def card(self) -> dict[str, Any]:
        """What the model says about itself: data, licences, date, figures."""
        return model_card(self._content)

    def __call__(self, picture: Pixels) -> Proposal:
        """Look at ``picture``, float32 ``h x w x 3`` in [0, 1], longest side from about 100 to 200."""
        feeds = {
            "picture": np.ascontiguousarray(picture.transpose(2, 0, 1)[None], dtype=np.float32),
            "summary": summary(picture)[None],
        }
        session = self.session
        try:
            illumination, exponent, knots = session.run(OUTPUTS, feeds)
        except Exception as error:  # the runtime's own exceptions have no common base class but this
            raise ValueError(f"model: {str(self.path)!r} cannot be run: {_first_line(error)}") from error
        fits = illumination.shape == (1, 1, *picture.shape[:2]) and exponent.shape == (1, 1) and knots.ndim == 2
        if not fits or not all(np.isfinite(part).all() for part in (illumination, exponent, knots)):
            raise ValueError(
                f"model: {str(self.path)!r} does not answer with an illumination, an exponent and the knots of a curve"
            )
        return Proposal(illumination[0, 0], float(exponent[0, 0]), knots[0].astype(np.float64))

    @property
    def session(self) -> Any:
        """The runtime's session, made at first use: importing the runtime takes longer than running the networks."""
        if self._session is None:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.log_severity_level = 3
            try:
                session = onnxruntime.InferenceSession(self._content, options, providers=["CPUExecutionProvider"])
            except Exception as error:  # the runtime's own exceptions have no common base class but this
                raise ValueError(f"model: {str(self.path)!r} cannot be run: {_first_line(error)}") from error
            self._check(session)
            self._session = session
        return self._session

    def _check(self, session: Any) -> None:
        inputs = {entry.name: entry.shape for entry in session.get_inputs()}
        outputs = {entry.name for entry in session.get_outputs()}
        fits = set(inputs) == INPUTS and set(OUTPUTS) <= outputs and inputs["summary"][-1] == SUMMARY_SIZE
        if not fits:
            raise ValueError(
                f"model: {str(self.path)!r} has inputs {sorted(inputs)} and outputs {sorted(outputs)}; a low-light "
                f"model takes 'picture' and 'summary' ({SUMMARY_SIZE} numbers) and gives {OUTPUTS}: see 'tecu train'"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_content": self._content, "_session": None}


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


@lru_cache(maxsize=1)
def default_network() -> Network:
    """The networks that come with the package."""
    return Network()
