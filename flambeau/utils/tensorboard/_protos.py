"""The `tensorboard` package's messages, loaded when something is written."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

_PLACES = {
    "Event": "compat.proto.event_pb2", "SessionLog": "compat.proto.event_pb2", "Summary": "compat.proto.summary_pb2",
    "SummaryMetadata": "compat.proto.summary_pb2", "HistogramProto": "compat.proto.summary_pb2",
    "GraphDef": "compat.proto.graph_pb2", "NodeDef": "compat.proto.node_def_pb2",
    "AttrValue": "compat.proto.attr_value_pb2", "VersionDef": "compat.proto.versions_pb2",
    "TensorProto": "compat.proto.tensor_pb2", "TensorShapeProto": "compat.proto.tensor_shape_pb2",
    "EventFileWriter": "summary.writer.event_file_writer", "TextPluginData": "plugins.text.plugin_data_pb2",
    "PrCurvePluginData": "plugins.pr_curve.plugin_data_pb2", "MeshPluginData": "plugins.mesh.plugin_data_pb2",
    "HParamsPluginData": "plugins.hparams.plugin_data_pb2", "SessionStartInfo": "plugins.hparams.plugin_data_pb2",
    "SessionEndInfo": "plugins.hparams.plugin_data_pb2", "Experiment": "plugins.hparams.api_pb2",
    "HParamInfo": "plugins.hparams.api_pb2", "MetricInfo": "plugins.hparams.api_pb2",
    "MetricName": "plugins.hparams.api_pb2", "Status": "plugins.hparams.api_pb2",
    "Layout": "plugins.custom_scalar.layout_pb2", "Category": "plugins.custom_scalar.layout_pb2",
    "Chart": "plugins.custom_scalar.layout_pb2", "MultilineChartContent": "plugins.custom_scalar.layout_pb2",
    "MarginChartContent": "plugins.custom_scalar.layout_pb2",
    "EmbeddingInfo": "plugins.projector.projector_config_pb2",
}  # fmt: skip


def require() -> None:
    """Raises ModuleNotFoundError if TensorBoard is not installed, and says how to install it."""
    try:
        importlib.import_module("tensorboard")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "utils.tensorboard needs the tensorboard package: pip install tensorboard", name=error.name
        ) from error


@cache
def proto(name: str) -> Any:
    """A message class, by its name."""
    require()
    return getattr(importlib.import_module("tensorboard." + _PLACES[name]), name)


def imaging(module: str = "PIL.Image") -> Any:
    """Pillow, which encodes pictures."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("pictures need the pillow package: pip install pillow", name=error.name) from error
