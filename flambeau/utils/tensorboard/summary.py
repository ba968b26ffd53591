"""Builds the messages that TensorBoard's dashboards read."""

from __future__ import annotations

import io
import json
import os
import wave
from typing import Any

import numpy as np

from ._convert import Array, as_bytes, make_grid, make_np, to_hwc
from ._protos import imaging, proto

_EPSILON = 1e-7


def _summary(tag: str, **content: Any) -> Any:
    Summary = proto("Summary")
    return Summary(value=[Summary.Value(tag=tag, **content)])


def _metadata(plugin: str, content: bytes = b"") -> Any:
    Metadata = proto("SummaryMetadata")
    return Metadata(plugin_data=Metadata.PluginData(plugin_name=plugin, content=content))


def _tensor(values: Any, kind: str = "DT_FLOAT", shape: Any = None) -> Any:
    field = {"DT_FLOAT": "float_val", "DT_DOUBLE": "double_val", "DT_STRING": "string_val"}[kind]
    Shape = proto("TensorShapeProto")
    dims = None if shape is None else Shape(dim=[Shape.Dim(size=n) for n in shape])
    return proto("TensorProto")(dtype=kind, tensor_shape=dims, **{field: values})


# -- numbers and text ----------------------------------------------------------------------------------------------


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number."""
    value = make_np(value).squeeze()
    if value.ndim:
        raise AssertionError(f"add_scalar: expected one number, got shape {value.shape}")
    if not new_style:
        return _summary(tag, simple_value=float(value))
    kind = "DT_DOUBLE" if double_precision else "DT_FLOAT"
    return _summary(tag, tensor=_tensor([float(value)], kind), metadata=_metadata("scalars"))


def tensor(tag: str, value: Any) -> Any:
    """All values of a tensor."""
    array = make_np(value)
    return _summary(
        tag, tensor=_tensor(array.reshape(-1).astype(float).tolist(), shape=array.shape), metadata=_metadata("tensor")
    )


def text(tag: str, content: str) -> Any:
    """A text, which the dashboard reads as Markdown."""
    data = proto("TextPluginData")(version=0).SerializeToString()
    made = _tensor([content.encode("utf_8")], "DT_STRING", (1,))
    return _summary(tag + "/text_summary", tensor=made, metadata=_metadata("text", data))


# -- histograms ----------------------------------------------------------------------------------------------------


def tensorflow_edges() -> Array:
    """The edges that TensorFlow has for histograms: growing by a tenth from 1e-12 to 1e20, on both sides of zero."""
    edges, v = [], 1e-12
    while v < 1e20:
        edges.append(v)
        v *= 1.1
    return np.array([-e for e in reversed(edges)] + [0.0] + edges)


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """The distribution of values; bins without values at both ends are left out."""
    values = make_np(values).astype(float).reshape(-1)
    if not values.size:
        raise ValueError("add_histogram: the input has no element")
    counts, edges = np.histogram(
        values, bins=tensorflow_edges() if isinstance(bins, str) and bins == "tensorflow" else bins
    )
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        counts = np.pad(counts, (0, -len(counts) % step)).reshape(-1, step).sum(1)
        edges = np.append(edges[:-1:step], edges[-1])
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ValueError("add_histogram: no value lies inside the bins")
    first, last = filled[0], filled[-1]
    limits, buckets = edges[first : last + 2], [0, *counts[first : last + 1].tolist()]
    return histogram_raw(
        tag, values.min(), values.max(), values.size, values.sum(), values.dot(values), limits.tolist(), buckets
    )


def histogram_raw(
    tag: str, min: float, max: float, num: float, sum: float, sum_squares: float, bucket_limits: Any, bucket_counts: Any
) -> Any:
    """A histogram that was counted elsewhere."""
    made = proto("HistogramProto")(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits, bucket=bucket_counts
    )
    return _summary(tag, histo=made)


# -- pictures and sound --------------------------------------------------------------------------------------------


def _encoded(picture: Any) -> Any:
    held = io.BytesIO()
    picture.save(held, format="PNG")
    width, height = picture.size
    return proto("Summary").Image(
        height=height, width=width, colorspace=len(picture.getbands()), encoded_image_string=held.getvalue()
    )


def image(tag: str, value: Any, dataformats: str = "NCHW") -> Any:
    """A picture, or several as a grid."""
    picture = as_bytes(to_hwc(make_np(value), dataformats))
    return _summary(tag, image=_encoded(imaging().fromarray(picture)))


def image_boxes(tag: str, value: Any, boxes: Any, rescale: float, dataformats: str, labels: Any = None) -> Any:
    """A picture with rectangles (left, top, right, bottom) and their labels drawn on it."""
    array, boxes = as_bytes(to_hwc(make_np(value), dataformats)), make_np(boxes)
    picture = imaging().fromarray(array)
    draw = imaging("PIL.ImageDraw").Draw(picture)
    if isinstance(labels, str):
        labels = [labels]
    if labels is not None and len(labels) != len(boxes):
        raise AssertionError(f"add_image_with_boxes: {len(labels)} labels for {len(boxes)} boxes")
    for i, (left, top, right, bottom) in enumerate(boxes.tolist()):
        corners = [(left, top), (left, bottom), (right, bottom), (right, top), (left, top)]
        draw.line(corners, width=2, fill="Red")
        if labels is not None:
            draw.text((left + 2, top + 2), labels[i], fill="White", stroke_width=1, stroke_fill="Black")
    if rescale != 1:
        width, height = picture.size
        picture = picture.resize((int(width * rescale), int(height * rescale)))
    return _summary(tag, image=_encoded(picture))


def video(tag: str, value: Any, fps: float = 4) -> Any:
    """Pictures (N, T, C, H, W) as an animation; several videos side by side."""
    array = make_np(value)
    if array.ndim != 5:
        raise AssertionError(f"add_video: expected shape (N, T, C, H, W), got {array.shape}")
    frames = [as_bytes(to_hwc(array[:, t], "NCHW")) for t in range(array.shape[1])]
    Image = imaging()
    pictures = [Image.fromarray(frame) for frame in frames]
    held = io.BytesIO()
    pictures[0].save(held, format="GIF", save_all=True, append_images=pictures[1:], duration=int(1000 / fps), loop=0)
    height, width, colors = frames[0].shape
    made = proto("Summary").Image(height=height, width=width, colorspace=colors, encoded_image_string=held.getvalue())
    return _summary(tag, image=made)


def audio(tag: str, value: Any, sample_rate: int = 44100) -> Any:
    """Sound: samples between -1 and 1."""
    array = make_np(value).squeeze()
    if array.ndim != 1:
        raise AssertionError(f"add_audio: expected one row of samples, got shape {array.shape}")
    samples = (np.clip(array, -1, 1) * np.iinfo(np.int16).max).astype("<i2")
    held = io.BytesIO()
    with wave.open(held, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(samples.tobytes())
    made = proto("Summary").Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=array.shape[-1], encoded_audio_string=held.getvalue(),
        content_type="audio/wav",
    )  # fmt: skip
    return _summary(tag, audio=made)


# -- curves, meshes, settings --------------------------------------------------------------------------------------


def pr_counts(labels: Any, predictions: Any, thresholds: int, weights: Any = None) -> Array:
    """Rows over thresholds: true and false positives, true and false negatives, precision, recall."""
    labels, predictions = make_np(labels).astype(bool).reshape(-1), make_np(predictions).astype(float).reshape(-1)
    weights = np.ones_like(predictions) if weights is None else np.broadcast_to(make_np(weights), predictions.shape)
    bucket = np.int32(np.floor(predictions * (thresholds - 1)))

    def above(chosen: Array) -> Array:
        counts = np.bincount(bucket[chosen], weights[chosen], thresholds)[:thresholds]
        return counts[::-1].cumsum()[::-1]

    positive, wrong = above(labels), above(~labels)
    precision = positive / np.maximum(_EPSILON, positive + wrong)
    recall = positive / np.maximum(_EPSILON, positive[0])
    return np.stack((positive, wrong, wrong[0] - wrong, positive[0] - positive, precision, recall))


def pr_curve(tag: str, data: Any, thresholds: int) -> Any:
    """Precision and recall over thresholds, from rows as `pr_counts` makes them."""
    rows = np.stack([make_np(row).reshape(-1).astype(float) for row in data])
    content = proto("PrCurvePluginData")(version=0, num_thresholds=thresholds).SerializeToString()
    return _summary(
        tag, tensor=_tensor(rows.reshape(-1).tolist(), shape=rows.shape), metadata=_metadata("pr_curves", content)
    )


def mesh(tag: str, vertices: Any, colors: Any, faces: Any, config: Any) -> Any:
    """Points in space (B, N, 3), with colours and triangles if given."""
    Data, Summary = proto("MeshPluginData"), proto("Summary")
    kinds = ((Data.VERTEX, "VERTEX", vertices), (Data.FACE, "FACE", faces), (Data.COLOR, "COLOR", colors))
    given = [(kind, name, make_np(value)) for kind, name, value in kinds if value is not None]
    components = sum(1 << kind for kind, _, _ in given)
    values = []
    for kind, name, array in given:
        content = Data(
            version=0, name=tag, content_type=kind, json_config=json.dumps(config or {}, sort_keys=True),
            shape=list(array.shape), components=components,
        )  # fmt: skip
        made = _tensor(array.reshape(-1).astype(float).tolist(), shape=array.shape)
        data = _metadata("mesh", content.SerializeToString())
        values.append(Summary.Value(tag=f"{tag}_{name}", tensor=made, metadata=data))
    return Summary(value=values)


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Any:
    """Charts of several scalars: {category: {title: ("Multiline" or "Margin", tags)}}."""
    Margin = proto("MarginChartContent")
    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(f"a margin chart takes three tags, got {len(tags)}")
                series = Margin.Series(value=tags[0], lower=tags[1], upper=tags[2])
                made.append(proto("Chart")(title=title, margin=Margin(series=[series])))
            else:
                made.append(proto("Chart")(title=title, multiline=proto("MultilineChartContent")(tag=tags)))
        categories.append(proto("Category")(title=category, chart=made))
    content = proto("Layout")(category=categories).SerializeToString()
    made_tensor = _tensor([content], "DT_STRING", ())
    return _summary("custom_scalars__config__", tensor=made_tensor, metadata=_metadata("custom_scalars"))


_STRING, _NUMBER = "DATA_TYPE_STRING", "DATA_TYPE_FLOAT64"


def hparams(
    settings: dict[str, Any], metrics: dict[str, Any], domains: dict[str, list[Any]] | None = None
) -> tuple[Any, ...]:
    """The three messages of a run with settings: the experiment, its beginning and its end."""
    for name, value in (("hparam_dict", settings), ("metric_dict", metrics)):
        if not isinstance(value, dict):
            raise TypeError(f"add_hparams: {name} must be a dict, not {type(value).__name__}")
    for name, values in (domains or {}).items():
        if name not in settings or not isinstance(values, list):
            raise TypeError(f"add_hparams: hparam_domain_discrete[{name!r}] must be a list of values of that setting")
    start, infos = proto("SessionStartInfo")(), []
    for name, value in settings.items():
        if value is None:
            continue
        held = start.hparams[name]
        if isinstance(value, (int, float)):
            held.number_value, kind = float(value), _NUMBER
        elif isinstance(value, str):
            held.string_value, kind = value, _STRING
        else:
            array = make_np(value)
            if array.size != 1:
                raise ValueError(f"add_hparams: {name} must be a number, a text or a tensor of one element")
            held.number_value, kind = float(array.reshape(())), _NUMBER
        info = proto("HParamInfo")(name=name, type=kind)
        if domains and name in domains:
            info.domain_discrete.extend(domains[name])
        infos.append(info)
    Data = proto("HParamsPluginData")
    named = [proto("MetricInfo")(name=proto("MetricName")(tag=name)) for name in metrics]
    experiment = proto("Experiment")(hparam_infos=infos, metric_infos=named)
    end = proto("SessionEndInfo")(status=proto("Status").Value("STATUS_SUCCESS"))
    parts = (
        ("experiment", Data(experiment=experiment, version=0)),
        ("session_start_info", Data(session_start_info=start, version=0)),
        ("session_end_info", Data(session_end_info=end, version=0)),
    )
    return tuple(
        _summary("_hparams_/" + name, metadata=_metadata("hparams", data.SerializeToString())) for name, data in parts
    )


# -- embeddings ----------------------------------------------------------------------------------------------------


def write_table(path: str, rows: Any, header: Any = None) -> None:
    """Writes rows (or single values) separated by tabs."""
    with open(path, "w", encoding="utf-8") as file:
        for row in (*([header] if header else []), *rows):
            cells = row if isinstance(row, (list, tuple, np.ndarray)) else [row]
            file.write("\t".join(str(cell) for cell in cells) + "\n")


def write_sprite(path: str, pictures: Any) -> None:
    """Writes small pictures (N, C, H, W) as one square, in which the projector finds them."""
    array = make_np(pictures)
    side = int(np.ceil(np.sqrt(len(array))))
    full = np.zeros((side * side, *array.shape[1:]), array.dtype)
    full[: len(array)] = array
    imaging().fromarray(as_bytes(make_grid(full, side).transpose(1, 2, 0))).save(path)


def projector_entry(folder: str, tag: str, step: str, metadata: bool, pictures: Any) -> str:
    """The text that tells the projector where an embedding's files are."""
    info = proto("EmbeddingInfo")(tensor_name=f"{tag}:{step}", tensor_path=os.path.join(folder, "tensors.tsv"))
    if metadata:
        info.metadata_path = os.path.join(folder, "metadata.tsv")
    if pictures is not None:
        info.sprite.image_path = os.path.join(folder, "sprite.png")
        info.sprite.single_image_dim.extend([pictures.shape[3], pictures.shape[2]])
    lines = "".join(f"  {line}\n" for line in str(info).splitlines())
    return f"embeddings {{\n{lines}}}\n"
