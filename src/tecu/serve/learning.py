"""A dictionary that is being learnt: followed while it runs, stopped, resumed, downloaded."""

from __future__ import annotations

import contextlib
import io
import math
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tecu.certificate import certify
from tecu.dictionary import L0DictionaryLearning
from tecu.dictionary.solvers import NAMES
from tecu.serve.limits import Refused
from tecu.state import State, Status

Matrix = np.ndarray[Any, Any]
Tell = Callable[[dict[str, Any]], None]
EVERY = 0.25  # seconds between two looks at the certificate
MOST_POINTS = 2000  # of the curve that are sent; of a longer run every second, fourth, ... sweep
LARGEST_ATOM_PICTURE = 1024  # pixels
RESUMABLE = {Status.STOPPED, Status.MAX_ITER}
ENDED = {
    Status.STOPPED: "Stopped; Resume goes on from here.",
    Status.MAX_ITER: "That was the number of sweeps allowed; Resume allows as many again.",
}
_turn = threading.Semaphore(1)  # one dictionary at a time: it takes all the processors it is given


class Recipe(BaseModel):
    """The settings of the estimator that the page offers."""

    model_config = ConfigDict(extra="forbid")

    components: int | None = Field(default=None, ge=1, le=4096)
    penalty: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    nonzero: int | None = Field(default=None, ge=1)
    solver: str = "auto"
    positive: bool = False
    sweeps: int = Field(default=100, ge=1, le=100_000)
    tolerance: float = Field(default=1e-4, ge=0, allow_inf_nan=False)
    seed: int = Field(default=0, ge=0, lt=2**31)

    def estimator(self, checkpoint: Path, callback: Callable[[State], bool]) -> L0DictionaryLearning:
        """The estimator, as ``tecu dictionary fit`` makes it."""
        if self.solver not in NAMES:
            raise Refused(422, f"The solver must be one of {', '.join(NAMES)}; {self.solver!r} was asked for.")
        if self.penalty is not None and self.nonzero is not None:
            raise Refused(422, "Give a penalty or a number of non-zeros, not both.")
        return L0DictionaryLearning(
            self.components, penalty="auto" if self.penalty is None else self.penalty, n_nonzero=self.nonzero,
            solver=self.solver, positive=self.positive, max_iter=self.sweeps, tol=self.tolerance,
            random_state=self.seed, checkpoint=checkpoint, callback=callback,
        )  # fmt: skip


class Learning:
    """One matrix and what is learnt from it, in a thread of its own.

    ``state`` is changed and told under the lock only: requests and the thread at work both change it.
    """

    def __init__(self, matrix: Matrix, name: str, folder: Path, tell: Tell, length: int = 0) -> None:
        self.matrix, self.name, self.folder, self._tell = matrix, name, folder, tell
        self.length = length  # bytes of the file it came in
        self.model: L0DictionaryLearning | None = None
        self.recipe = Recipe()
        self.state = "loaded"  # loaded, waiting, running, stopping, stopped, finished, failed, replaced
        self._points: list[tuple[int, float]] = []
        self._latest: dict[str, Any] = {}
        self._atoms: Matrix | None = None
        self._told = 0.0
        self._asked_to_stop = threading.Event()
        self._lock = threading.RLock()
        self._say("")

    @property
    def is_running(self) -> bool:
        """Whether a thread is at work or waits for its turn."""
        return self.state in ("waiting", "running", "stopping")

    def refuse_while_running(self, before: str = "first") -> None:
        """Raise the refusal of what cannot be done now."""
        if self.is_running:
            raise Refused(409, f"A dictionary is being learnt; stop it {before}.")
        if self.state == "replaced":
            raise Refused(409, "Another matrix has taken the place of this one; load the page again.")

    def start(self, recipe: Recipe) -> None:
        """Learn anew."""
        with self._lock:
            self.refuse_while_running()
            recipe.estimator(self._checkpoint, self._followed)  # finds out about wrong settings now
            self._checkpoint.unlink(missing_ok=True)
            self.recipe, self.model, self._points, self._latest, self._atoms = recipe, None, [], {}, None
            self._launch()

    def resume(self, more: int = 0) -> None:
        """Go on from where it stopped, with ``more`` sweeps allowed."""
        with self._lock:
            self.refuse_while_running()
            if self.model is None or not self._checkpoint.exists() or not self.can_resume:
                raise Refused(409, "There is no stopped run to go on with.")
            at_least = int(self.model.n_iter_) + 1
            self.recipe = self.recipe.model_copy(update={"sweeps": max(self.recipe.sweeps + more, at_least)})
            self._launch()

    @property
    def can_resume(self) -> bool:
        """Whether the last run ended before it had converged."""
        return self.model is not None and self.model.status_ in RESUMABLE

    def stop(self) -> None:
        """Ask the run to end after its current sweep."""
        with self._lock:
            self._asked_to_stop.set()
            if self.is_running:
                self._become("stopping", "Stopping after this sweep ...")

    def replace(self) -> None:
        """Make way for another matrix; files and state are given up."""
        with self._lock:
            self.refuse_while_running("before you take another matrix")
            self.state = "replaced"
        shutil.rmtree(self.folder, ignore_errors=True)

    def picture(self) -> bytes:
        """The atoms as they are now, a PNG."""
        from PIL import Image

        from tecu.report.images import mosaic

        atoms = self._atoms
        if atoms is None:
            raise Refused(409, "There are no atoms yet.")
        image = Image.fromarray(mosaic(atoms))
        scale = max(1, min(8, LARGEST_ATOM_PICTURE // max(image.size)))
        enlarged = image.resize((image.width * scale, image.height * scale), Image.Resampling.NEAREST)
        stream = io.BytesIO()
        enlarged.save(stream, "PNG")
        return stream.getvalue()

    def save(self) -> Path:
        """The model as a file that :meth:`tecu.dictionary.L0DictionaryLearning.load` reads."""
        with self._lock:
            model = None if self.is_running else self.model
        if model is None:
            raise Refused(409, "There is no model to download while none is learnt.")
        path = self.folder / "dictionary.npz"
        model.save(path)
        return path

    # ---- the thread ----

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "run.npz"

    def _launch(self) -> None:
        self._asked_to_stop.clear()
        self._become("waiting", "Waiting for another page's run to end ...")
        threading.Thread(target=self._work, name="learning", daemon=True).start()

    def _work(self) -> None:
        with _turn:
            with self._lock:
                if self.state == "waiting":
                    compiles = "the first run of all also compiles, which takes some seconds"
                    self._become("running", f"Looking at the data; {compiles} ...")
            try:
                model = self.recipe.estimator(self._checkpoint, self._followed)
                model.fit(self.matrix)
                self._end(model)
            except Exception as error:  # whatever it is, the page must hear of it
                first = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
                self._become("failed", f"The run failed: {first}.")

    def _followed(self, state: State) -> bool:
        """The callback: one point a sweep, and now and then the certificate so far."""
        self._points.append((state.t, float(state.value)))
        self._atoms = np.asarray(state.z["D"]).T
        if time.monotonic() - self._told >= EVERY:
            so_far = certify(state)
            covered = "every visit is covered" if not so_far.violations else f"{len(so_far.violations)} are not covered"
            self._latest = {
                "certificate": f"So far: of {so_far.visits} visits {covered} by the convergence theorem.",
                "holds": not so_far.violations,
                "nonzeros": _nonzeros(state, len(self.matrix)),
                "seconds": round(state.seconds, 2),
            }
            self._say(f"Sweep {state.t} of at most {self.recipe.sweeps}.")
        return self._asked_to_stop.is_set()

    def _end(self, model: L0DictionaryLearning) -> None:
        certificate = model.certificate_
        latest = {
            "certificate": f"The certificate {certificate.reason}",
            "holds": certificate.holds,
            "assumed": list(certificate.assumptions),
            "nonzeros": model.codes_.nnz / len(self.matrix),
            "seconds": round(float(model.history_["seconds"][-1]), 2),
        }
        state = "stopped" if model.status_ in RESUMABLE else "finished"
        with self._lock:
            self.model, self._atoms, self._latest = model, np.asarray(model.components_), latest
            self._become(state, f"{model.n_iter_} sweeps. {ENDED.get(model.status_, model.status_.value)}")

    def _become(self, state: str, sentence: str) -> None:
        with self._lock:
            self.state = state
            self._say(sentence)

    def _say(self, sentence: str) -> None:
        with self._lock:  # so that no news of an earlier state come after those of a later one
            self._tell_page(sentence)

    def _tell_page(self, sentence: str) -> None:
        self._told = time.monotonic()
        points, samples = self._points, self.matrix.shape
        step = 1 << max(0, math.ceil(math.log2(max(len(points), 1) / MOST_POINTS)))
        kept = points[::step]
        if kept and kept[-1] is not points[-1]:
            kept.append(points[-1])
        with contextlib.suppress(RuntimeError):  # the page and its loop may have gone
            self._tell(
                {
                    "subject": "learning",
                    "state": self.state,
                    "name": self.name,
                    "samples": samples[0],
                    "features": samples[1],
                    "sentence": sentence,
                    "can_resume": self.can_resume and not self.is_running,
                    "has_model": self.model is not None and not self.is_running,
                    "atoms": len(points) if self._atoms is not None else 0,
                    "points": [(t, value) for t, value in kept if math.isfinite(value)],
                    **self._latest,
                }
            )


def _nonzeros(state: State, samples: int) -> float:
    """Non-zero codes a sample."""
    count = sum(int(block.nnz) for name, block in state.z.items() if name != "D" and hasattr(block, "nnz"))
    return count / samples
