"""The figure of PSNR against iterations."""

import numpy as np
import pytest

from lowlight.scenes import darkened, photo
from tecu.reproduce import figure2
from tecu.reproduce.photo_sets import DarkPhoto


def test_anchored_curve_settles_and_all_start_alike(tmp_path):
    clean = photo()
    figure = figure2.run([DarkPhoto("china", darkened(clean), clean)], iterations=8)
    starts = {float(curve[0]) for curve in figure.psnr.values()}
    assert len(starts) == 1
    assert all(len(curve) == 9 for curve in figure.psnr.values())
    anchored, printed = figure.psnr["anchored"], figure.psnr["paper"]
    assert abs(anchored[-1] - anchored[-2]) < 0.05
    assert abs(printed[-1] - printed[-2]) > abs(anchored[-1] - anchored[-2])
    assert figure.inner["paper"].mean() > figure.inner["anchored"].mean()
    assert "as printed" in figure.finding
    pytest.importorskip("matplotlib")
    assert all(path.exists() for path in figure2.save(figure, tmp_path))
    assert np.loadtxt(tmp_path / "figure2.csv", delimiter=",", skiprows=1).shape == (9, 4)


def test_photos_without_reference_are_refused():
    with pytest.raises(ValueError, match="reference"):
        figure2.run([DarkPhoto("china", photo())])
