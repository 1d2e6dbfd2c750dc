"""Stand-ins for the enhancer whose effect is easy to tell; light, because worker processes import this file."""

import os
import signal
import types

import numpy as np


class Negative:
    """A stand-in for the enhancer whose effect is easy to tell: 255 - x."""

    def __call__(self, pixels):
        return np.iinfo(pixels.dtype).max - pixels

    def decompose(self, pixels):
        light = pixels.max(axis=-1) / np.iinfo(pixels.dtype).max
        verdict = types.SimpleNamespace(value="held")
        return types.SimpleNamespace(
            illumination=light,
            reflectance=np.ones((*light.shape, 3)),
            certificate=types.SimpleNamespace(holds=True, verdict=verdict),
        )


def negative(settings):
    return Negative()


def deadly(settings):
    """Kills its process on pictures of 13 rows."""

    def enhance(pixels):
        if pixels.shape[0] == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        return pixels

    return enhance


def thread_counts(settings):
    """Writes the worker's share of threads into the picture."""

    def enhance(pixels):
        return np.full_like(pixels, int(os.environ["OMP_NUM_THREADS"]))

    return enhance


def failing(settings):
    def enhance(pixels):
        raise FloatingPointError("too dark\nto see")

    return enhance


def hear_interrupts():
    """For ``preexec_fn``: a test run that was started in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
