"""Training of the two networks from a folder of clean photos; needs the ``train`` extra."""

from tecu.lowlight.training.loop import Progress, Settings, train
from tecu.lowlight.training.photos import Photo, load_photos

__all__ = ["Photo", "Progress", "Settings", "load_photos", "train"]
