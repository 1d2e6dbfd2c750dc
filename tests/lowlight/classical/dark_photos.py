"""Photos inside scikit-learn, darkened by a known light."""

from functools import cache

import numpy as np


@cache
def clean():
    from sklearn.datasets import load_sample_image

    photo = load_sample_image("china.jpg")[60:300:2, 100:420:2]
    photo = photo.astype(np.float32) / np.float32(255)
    photo.flags.writeable = False
    return photo


@cache
def dark():
    width = clean().shape[1]
    light = np.linspace(0.05, 0.4, width, dtype=np.float32)[None, :, None]
    photo = clean() * light
    photo.flags.writeable = False
    return photo
