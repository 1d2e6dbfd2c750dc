r"""HDRNet: deep bilateral learning (Gharbi, Chen, Barron, Hasinoff and Durand, 2017), our small network and training.

A network gives a ``16 x 16 x 8`` grid of affine colour maps from the picture on 128 x 128 pixels; each pixel reads
its map from the grid at its place and at the depth that its guide says (trilinear), and is mapped by it. The
weights are not the authors': ``tecu train --network hdrnet`` makes them from clean photos, in minutes.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tecu.lowlight.classical.pictures import Picture, checked, finished

LOW = 128
ROWS = 512  # of the picture whose guide is computed at a time
WEIGHTS = Path(__file__).parents[1] / "weights" / "hdrnet.onnx"


def enhance(image: Any, *, weights: Path = WEIGHTS) -> Picture:
    """The picture through the network in the file ``weights``.

    >>> import numpy as np
    >>> bool(enhance(np.full((8, 8, 3), 0.05)).mean() > 0.1)
    True
    """
    picture = checked(image, "hdrnet")
    if not picture.any():  # an affine map would lift black
        return np.array(image)
    if picture.shape[2:] == (3,):
        return finished(apply(picture, *grid_and_guide(picture, weights)), image)
    grey = np.repeat(picture.reshape(*picture.shape[:2], 1), 3, axis=2)
    result = np.clip(apply(grey, *grid_and_guide(grey, weights)), 0.0, 1.0)
    return finished(result.mean(axis=2).reshape(picture.shape), image)


def own_weights(path: str | Path) -> Path:
    """``path`` if it is a file that ``tecu train --network hdrnet`` could have written; a sentence if it is not."""
    weights = Path(path).resolve()
    try:
        session = _session(weights)
    except ValueError:
        raise
    except Exception as error:  # the runtime's own exceptions have no common base class but this
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ValueError(f"model: {str(path)!r} cannot be run: {reason}") from error
    inputs, outputs = ({entry.name for entry in part} for part in (session.get_inputs(), session.get_outputs()))
    if inputs != {"low", "picture"} or not {"grid", "guide"} <= outputs:
        raise ValueError(
            f"model: {str(path)!r} has inputs {sorted(inputs)} and outputs {sorted(outputs)}; method 'hdrnet' needs "
            "'low' and 'picture', 'grid' and 'guide': see 'tecu train --network hdrnet'"
        )
    return weights


def grid_and_guide(picture: Picture, weights: Path = WEIGHTS) -> tuple[Picture, Picture]:
    """The grid, ``12 x 8 x 16 x 16``, and the guide, ``height x width``."""
    session = _session(weights)
    planes = np.ascontiguousarray(picture.transpose(2, 0, 1))[None]
    blank = np.zeros((1, 3, 1, 1), np.float32)
    grid = session.run(["grid"], {"low": _low(picture), "picture": blank})[0][0]
    strips = [
        session.run(
            ["guide"], {"low": np.zeros((1, 3, LOW, LOW), np.float32), "picture": planes[:, :, top : top + ROWS]}
        )[0]
        for top in range(0, planes.shape[2], ROWS)
    ]
    return grid, np.concatenate(strips, axis=2)[0, 0]


def apply(picture: Picture, grid: Picture, guide: Picture) -> Picture:
    """Read a map for each pixel and apply it."""
    from tecu.lowlight.classical.kernels_hdrnet import slice_and_apply

    return slice_and_apply(picture, grid, guide)


def _low(picture: Picture) -> Picture:
    from PIL import Image

    planes = [
        Image.fromarray(np.ascontiguousarray(picture[..., c])).resize((LOW, LOW), Image.Resampling.BOX)
        for c in range(3)
    ]
    return np.stack([np.asarray(plane, dtype=np.float32) for plane in planes])[None]


@cache
def _session(weights: Path) -> Any:
    import onnxruntime

    from tecu.lowlight.onnxfile import read_model

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(read_model(weights), options, providers=["CPUExecutionProvider"])
