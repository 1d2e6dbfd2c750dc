"""A photo and a dark one, and a folder of files of them, for tests of pages."""

import numpy as np
from PIL import Image
from skimage import data

PHOTO = data.astronaut()[60:188, 150:310]
DARK = np.rint(PHOTO * 0.2).astype(np.uint8)


def save_photos(folder):
    """``good.png``, ``dark.png``, ``mirrored.png`` and ``small.png``."""
    for name, pixels in (
        ("good", PHOTO), ("dark", DARK), ("mirrored", DARK[:, ::-1]), ("small", PHOTO[:64, :64])
    ):  # fmt: skip
        Image.fromarray(pixels).save(folder / f"{name}.png")
