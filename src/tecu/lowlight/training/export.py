"""Both networks in one ONNX file, with the model's card in its metadata.

The graph is written out node by node: it has plain operators only, and training needs no exporter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tecu.atomic import write_bytes
from tecu.lowlight.features import FLOOR, SUMMARY_SIZE
from tecu.lowlight.training.loop import Settings, Trained
from tecu.lowlight.training.networks import DILATIONS, KNOTS, MARGIN, THUMBNAIL
from tecu.lowlight.training.photos import Photo

OPSET = 17


def model_card(
    photos: Sequence[Photo],
    settings: Settings,
    figures: dict[str, float],
    *,
    licence: str = "not stated",
    day: date | None = None,
) -> dict[str, Any]:
    """What the file says about itself: purpose, data with licences, settings, figures, date."""
    return {
        "name": "tecu low-light model",
        "purpose": "illumination of a picture, exponent of the gain and tone curve, for tecu.lowlight",
        "inputs": "picture: N x 3 x h x w in [0, 1], longest side 100 to 200; summary: tecu.lowlight.features.summary",
        "outputs": "illumination: N x 1 x h x w; exponent: N x 1; knots: N x 11",
        "date": (day or date.today()).isoformat(),
        "licence": licence,
        "settings": {name: getattr(settings, name) for name in settings.__dataclass_fields__},
        "figures on held-back photos": {name: round(value, 4) for name, value in sorted(figures.items())},
        "pairs": "made from clean photos by exposure, fields of light, noise and rounding; no real dark photo was seen",
        "photos": [[photo.name, photo.licence, photo.author, photo.source] for photo in photos],
    }


def export(trained: Trained, card: dict[str, Any], path: str | Path) -> None:
    """Write the networks and the card to ``path``."""
    graph = _Graph()
    _illumination(graph, trained)
    _tone(graph, trained)
    model = helper.make_model(
        graph.finish(), opset_imports=[helper.make_opsetid("", OPSET)], producer_name="tecu", ir_version=8
    )
    helper.set_model_props(model, {"card": json.dumps(card, ensure_ascii=False)})
    onnx.checker.check_model(model)
    write_bytes(path, model.SerializeToString(), overwrite=True)


class _Graph:
    """A list of nodes and constants; each node has one output, named after its place."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype=dtype), name))
        return name

    def whole(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def add(self, operator: str, *inputs: str, name: str | None = None, **attributes: Any) -> str:
        output = name or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [output], **attributes))
        return output

    def weights(self, layer: Any) -> tuple[str, str]:
        return self.constant(layer.weight.detach().numpy()), self.constant(layer.bias.detach().numpy())

    def finish(self) -> Any:
        def tensor(name: str, *shape: Any) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.FLOAT, list(shape))

        return helper.make_graph(
            self.nodes,
            "tecu_lowlight",
            [tensor("picture", "n", 3, "h", "w"), tensor("summary", "n", SUMMARY_SIZE)],
            [tensor("illumination", "n", 1, "h", "w"), tensor("exponent", "n", 1), tensor("knots", "n", KNOTS + 1)],
            self.constants,
        )


def _logarithm(graph: _Graph, x: str) -> str:
    scaled = graph.add("Div", graph.add("Add", x, graph.constant(FLOOR)), graph.constant(1.0 + FLOOR))
    return graph.add("Log", scaled)


def _illumination(graph: _Graph, trained: Trained) -> None:
    logs = _logarithm(graph, "picture")
    brightest = graph.add("ReduceMax", logs, axes=[1], keepdims=1)
    numbers = graph.add("Slice", "summary", graph.whole(0), graph.whole(2), graph.whole(1))
    planes = graph.add("Unsqueeze", numbers, graph.whole(2, 3))
    blank = graph.add("Mul", brightest, graph.constant(0.0))
    x = graph.add("Concat", logs, brightest, graph.add("Add", blank, planes), axis=1)
    x = graph.add("Pad", x, graph.whole(0, 0, MARGIN, MARGIN, 0, 0, MARGIN, MARGIN), mode="edge")
    layers = list(trained.illumination.layers)
    for place, (layer, dilation) in enumerate(zip(layers, DILATIONS, strict=True)):
        x = graph.add("Conv", x, *graph.weights(layer), dilations=[dilation, dilation], kernel_shape=[3, 3])
        if place < len(layers) - 1:
            x = graph.add("Relu", x)
    light = graph.add("Exp", graph.add("Add", brightest, x))
    light = graph.add("Max", light, graph.add("ReduceMax", "picture", axes=[1], keepdims=1))
    graph.add("Min", light, graph.constant(1.0), name="illumination")


def _tone(graph: _Graph, trained: Trained) -> None:
    picture, light = (_thumbnail(graph, name) for name in ("picture", "illumination"))
    x = graph.add("Concat", _logarithm(graph, picture), graph.add("Div", picture, light), axis=1)
    for layer in trained.tone.layers:
        x = graph.add("Conv", x, *graph.weights(layer), strides=[2, 2], pads=[1, 1, 1, 1], kernel_shape=[3, 3])
        x = graph.add("Relu", x)
    x = graph.add("ReduceMean", x, axes=[2, 3], keepdims=0)
    x = graph.add("Concat", x, "summary", axis=1)
    x = graph.add("Relu", graph.add("Gemm", x, *graph.weights(trained.tone.hidden), transB=1))
    x = graph.add("Gemm", x, *graph.weights(trained.tone.head), transB=1)
    first = graph.add("Slice", x, graph.whole(0), graph.whole(1), graph.whole(1))
    rest = graph.add("Slice", x, graph.whole(1), graph.whole(1 + KNOTS), graph.whole(1))
    graph.add("Sigmoid", first, name="exponent")
    rises = graph.add("CumSum", graph.add("Softmax", rest, axis=1), graph.constant(1, np.int64))
    graph.add("Pad", rises, graph.whole(0, 1, 0, 0), name="knots")


def _thumbnail(graph: _Graph, name: str) -> str:
    shape = graph.add("Slice", graph.add("Shape", name), graph.whole(0), graph.whole(2))
    sizes = graph.add("Concat", shape, graph.whole(THUMBNAIL, THUMBNAIL), axis=0)
    return graph.add("Resize", name, "", "", sizes, mode="linear", coordinate_transformation_mode="half_pixel")
