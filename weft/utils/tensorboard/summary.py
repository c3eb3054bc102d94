"""Values as TensorBoard's records."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import weft

__all__ = [
    "figure_image", "grid", "histogram", "histogram_raw", "hparams", "image", "numbers",
    "pr_curve", "pr_curve_raw", "scalar", "text",
]  # fmt: skip


def numbers(x: Any) -> Any:
    """A tensor, an array or a number as an array of at least one dimension."""
    import numpy as np

    if isinstance(x, weft.Tensor):
        tensor = x.float() if x.dtype == weft.bfloat16 else x
        return np.atleast_1d(tensor.numpy(force=True))
    if isinstance(x, (int, float, complex, np.ndarray, np.generic, list, tuple)):
        return np.atleast_1d(np.asarray(x))
    raise NotImplementedError(
        f"[tensorboard] expected a tensor, an array or a number, got {type(x).__name__}: "
        f"Got {type(x)}, but numpy array or torch tensor are expected."
    )


def _value(tag: str, **content: Any) -> Any:
    from tensorboard.compat.proto.summary_pb2 import Summary

    return Summary(value=[Summary.Value(tag=tag, **content)])


def _metadata(plugin: str, content: bytes = b"") -> Any:
    from tensorboard.compat.proto.summary_pb2 import SummaryMetadata

    data = SummaryMetadata.PluginData(plugin_name=plugin, content=content)
    return SummaryMetadata(plugin_data=data)


def scalar(tag: str, value: Any, new_style: bool = False, double_precision: bool = False) -> Any:
    """One number; with `new_style` as a tensor, of doubles with `double_precision`."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto

    found = numbers(value).squeeze()
    if found.ndim != 0:
        raise AssertionError(
            f"[add_scalar] expected one number, got shape {list(found.shape)}: Tensor should "
            f"contain one element (0 dimensions). Was given size: {found.size} and {found.ndim} "
            "dimensions."
        )
    if not new_style:
        return _value(tag, simple_value=float(found))
    kind = ("DT_DOUBLE", "double_val") if double_precision else ("DT_FLOAT", "float_val")
    tensor = TensorProto(dtype=kind[0], **{kind[1]: [float(found)]})
    return _value(tag, tensor=tensor, metadata=_metadata("scalars"))


def text(tag: str, content: str) -> Any:
    """A text, of which TensorBoard shows Markdown."""
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.text.plugin_data_pb2 import TextPluginData

    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype="DT_STRING", string_val=[content.encode("utf8")], tensor_shape=shape)
    about = _metadata("text", TextPluginData(version=0).SerializeToString())
    return _value(f"{tag}/text_summary", metadata=about, tensor=tensor)


def _limits() -> Any:
    """TensorBoard's bins: each a tenth wider than the one before, on both sides of 0."""
    import numpy as np

    right = 1e-12 * 1.1 ** np.arange(772)
    right = right[right < 1e20]
    return np.concatenate([-right[::-1], [0.0], right])


def _fewer(counts: Any, limits: Any, most: int) -> tuple[Any, Any]:
    """Neighbouring bins joined, so that there are about that many."""
    import numpy as np

    step = len(counts) // most
    counts = np.pad(counts, (0, -len(counts) % step)).reshape(-1, step).sum(1)
    return counts, np.append(limits[:-1:step], limits[-1])


def histogram(tag: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How often values lie in which bin; "tensorflow" are TensorBoard's own bins.

    Raises: ValueError where there is no value.
    """
    import numpy as np

    flat = numbers(values).astype(float).reshape(-1)
    if flat.size == 0:
        raise ValueError("[add_histogram] expected a value, got none: The input has no element.")
    own = isinstance(bins, str) and bins == "tensorflow"
    counts, limits = np.histogram(flat, bins=_limits() if own else bins)
    if max_bins is not None and len(counts) > max_bins:
        counts, limits = _fewer(counts, limits, max_bins)
    used = np.flatnonzero(counts)
    if len(used) == 0:
        raise ValueError(
            f"[add_histogram] expected values within the bins, {limits[0]} to {limits[-1]}, got "
            f"{flat.min()} to {flat.max()}"
        )
    first, last = int(used[0]), int(used[-1]) + 1
    # A bin is known by its right end: an empty one before the first says where that begins.
    ends, amounts = limits[first : last + 1], np.concatenate([[0], counts[first:last]])
    squares = float(flat @ flat)
    return histogram_raw(tag, flat.min(), flat.max(), flat.size, flat.sum(), squares, ends, amounts)


def histogram_raw(
    tag: str, min: Any, max: Any, num: Any, sum: Any, sum_squares: Any, limits: Any, counts: Any
) -> Any:
    """A histogram that is counted already: right ends of bins, and how many are in each."""
    from tensorboard.compat.proto.summary_pb2 import HistogramProto

    if len(limits) != len(counts):
        raise ValueError(
            f"[add_histogram_raw] expected as many limits as counts, got {len(limits)} and "
            f"{len(counts)}: len(bucket_limits) != len(bucket_counts), see the document."
        )
    ends, amounts = ([float(x) for x in given] for given in (limits, counts))
    facts = {"min": min, "max": max, "num": num, "sum": sum, "sum_squares": sum_squares}
    proto = HistogramProto(
        **{name: float(x) for name, x in facts.items()}, bucket_limit=ends, bucket=amounts
    )
    return _value(tag, histo=proto)


#: TensorBoard shows no more thresholds than that.
_MOST_THRESHOLDS = 127


def pr_curve(tag: str, labels: Any, predictions: Any, thresholds: int, weights: Any = None) -> Any:
    """Precision and recall at thresholds from 0 to 1.

    Args:
        labels: whether each element is true, 0 or 1.
        predictions: how likely it was said to be, of 0 to 1.
        weights: what each counts; 1 if None.
    """
    import numpy as np

    thresholds = min(thresholds, _MOST_THRESHOLDS)
    true = numbers(labels).astype(np.float64)
    level = np.floor(numbers(predictions) * (thresholds - 1)).astype(np.int32)

    def above(counted: Any) -> Any:
        """How much lies at each threshold or above."""
        amounts, _ = np.histogram(level, thresholds, (0, thresholds - 1), weights=counted)
        return np.cumsum(amounts[::-1])[::-1]

    counts = 1.0 if weights is None else weights
    tp, fp = above(true * counts), above((1.0 - true) * counts)
    tn, fn = fp[0] - fp, tp[0] - tp
    precision, recall = (tp / np.maximum(1e-7, tp + other) for other in (fp, fn))
    return pr_curve_raw(tag, tp, fp, tn, fn, precision, recall, thresholds)


def pr_curve_raw(
    tag: str, tp: Any, fp: Any, tn: Any, fn: Any, precision: Any, recall: Any, thresholds: int
) -> Any:
    """Counts at thresholds that are counted already, and what is made of them."""
    import numpy as np
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.pr_curve.plugin_data_pb2 import PrCurvePluginData

    rows = np.stack([numbers(row) for row in (tp, fp, tn, fn, precision, recall)])
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=n) for n in rows.shape])
    values = rows.reshape(-1).tolist()
    tensor = TensorProto(dtype="DT_FLOAT", float_val=values, tensor_shape=shape)
    most = min(thresholds, _MOST_THRESHOLDS)
    about = PrCurvePluginData(version=0, num_thresholds=most).SerializeToString()
    return _value(tag, tensor=tensor, metadata=_metadata("pr_curves", about))


def grid(images: Any, columns: int = 8) -> Any:
    """Arrays [N, 1 or 3, H, W] side by side, [H, W, 3]; what is left over is black."""
    import numpy as np

    n, channels, height, width = images.shape
    if channels not in (1, 3):
        raise AssertionError(
            f"[add_images] expected one or three channels, got {channels}: "
            "Input should be a 4D numpy array with 3 channels"
        )
    across = min(n, columns)
    down = -(-n // across)
    whole = np.zeros((down * across, 3, height, width), images.dtype)
    whole[:n] = images
    tiles = whole.reshape(down, across, 3, height, width).transpose(0, 3, 1, 4, 2)
    return tiles.reshape(down * height, across * width, 3)


def _colours(array: Any, dataformats: str) -> Any:
    """An array whose dimensions the letters name, as [H, W, C]."""
    import numpy as np

    letters = dataformats.upper()
    if sorted(letters) not in (sorted(order) for order in ("NCHW", "CHW", "HW")):
        raise AssertionError(
            f"[add_image] expected letters of NCHW, CHW or HW, got {dataformats!r}: "
            f"You can not use the same dimension shorthand twice. input_format: {dataformats}"
        )
    if array.ndim != len(letters):
        raise AssertionError(
            f"[add_image] expected dimensions {letters}, got shape {list(array.shape)}: size of "
            f"input tensor and input format are different. tensor shape: {array.shape}, "
            f"input_format: {dataformats}"
        )
    order = "NCHW" if len(letters) == 4 else "HWC"[: len(letters)]
    array = array.transpose([letters.index(c) for c in order])
    if array.ndim == 4:
        return grid(array)
    array = array[:, :, None] if array.ndim == 2 else array
    return np.repeat(array, 3, axis=2) if array.shape[2] == 1 else array


def image(tag: str, tensor: Any, dataformats: str) -> Any:
    """A picture of bytes, or of floats of 0 to 1."""
    import numpy as np
    from tensorboard.compat.proto.summary_pb2 import Summary

    from weft.base.pillow import pillow

    array = _colours(numbers(tensor), dataformats)
    if array.dtype != np.uint8:
        array = (array.astype(np.float32) * 255).clip(0, 255).astype(np.uint8)
    height, width, channels = array.shape
    file = io.BytesIO()
    pillow().fromarray(np.ascontiguousarray(array)).save(file, format="PNG")
    proto = Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=file.getvalue()
    )
    return _value(tag, image=proto)


def figure_image(figure: Any, close: bool) -> Any:
    """What a figure of Matplotlib's shows, [H, W, 3] of bytes."""
    import numpy as np
    from matplotlib import pyplot
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())[:, :, :3].copy()
    if close:
        pyplot.close(figure)
    return pixels


def _parameter(name: str, value: Any) -> tuple[str, Any]:
    """The kind of a hyperparameter's value, and the value as records have it."""
    if isinstance(value, bool):
        return "bool", value
    if isinstance(value, str):
        return "string", value
    if isinstance(value, (int, float)):
        return "number", value
    if isinstance(value, weft.Tensor) and value.numel() == 1:
        return "number", value.item()
    raise ValueError(
        f"[add_hparams] expected a number, a text or a bool as {name!r}, got {value!r}: "
        "value should be one of int, float, str, bool, or torch.Tensor"
    )


_DATA_TYPES = {
    "bool": "DATA_TYPE_BOOL", "string": "DATA_TYPE_STRING", "number": "DATA_TYPE_FLOAT64",
}  # fmt: skip


def _check_dicts(
    parameters: dict[str, Any], metrics: dict[str, Any], domains: dict[str, Sequence[Any]]
) -> None:
    for what, given in (("hparam_dict", parameters), ("metric_dict", metrics)):
        if type(given) is not dict:
            raise TypeError(
                f"[add_hparams] expected {what} to be a dict, got {type(given).__name__}: "
                "hparam_dict and metric_dict should be dictionary."
            )
    for name, values in domains.items():
        same = name in parameters and isinstance(values, list)
        if not same or not all(isinstance(v, type(parameters[name])) for v in values):
            raise TypeError(
                f"[add_hparams] expected a list of values like {name!r}'s, got {values!r}: "
                f"parameter: hparam_domain_discrete[{name}] should be a list of same type as "
                f"hparam_dict[{name}]."
            )


def custom_scalars(layout: dict[str, dict[str, Any]]) -> Any:
    """Which charts gather which scalars: `{category: {chart: [kind, tags]}}`.

    The kind is "Multiline", or "Margin", whose tags come in threes: value, lower, upper.
    """
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.plugins.custom_scalar import layout_pb2
    from tensorboard.plugins.custom_scalar.metadata import PLUGIN_NAME

    categories = []
    for category, charts in layout.items():
        made = []
        for title, (kind, tags, *_) in charts.items():
            if kind == "Margin":
                if len(tags) != 3:
                    raise AssertionError(
                        f"[add_custom_scalars] expected 3 tags of a margin chart, got {len(tags)} "
                        f"(Expected 3 tags, got {len(tags)}.)"
                    )
                series = layout_pb2.MarginChartContent.Series(
                    value=tags[0], lower=tags[1], upper=tags[2]
                )
                content = {"margin": layout_pb2.MarginChartContent(series=[series])}
            else:
                content = {"multiline": layout_pb2.MultilineChartContent(tag=tags)}
            made.append(layout_pb2.Chart(title=title, **content))
        categories.append(layout_pb2.Category(title=category, chart=made))
    packed = layout_pb2.Layout(category=categories).SerializeToString()
    tensor = TensorProto(dtype="DT_STRING", string_val=[packed], tensor_shape=TensorShapeProto())
    return _value("custom_scalars__config__", tensor=tensor, metadata=_metadata(PLUGIN_NAME))


def hparams(
    hparam_dict: dict[str, Any] | None = None,
    metric_dict: dict[str, Any] | None = None,
    hparam_domain_discrete: dict[str, Any] | None = None,
) -> list[Any]:
    """Three records: which hyperparameters and metrics there are, a run's values, and its end.

    Args:
        hparam_dict: hyperparameters by name; metric_dict: metrics.
        hparam_domain_discrete: the values that a hyperparameter can have.
    """
    from google.protobuf import struct_pb2
    from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

    parameters = {} if hparam_dict is None else hparam_dict
    metrics = {} if metric_dict is None else metric_dict
    domains = {} if hparam_domain_discrete is None else hparam_domain_discrete
    _check_dicts(parameters, metrics, domains)
    start, infos = plugin_data_pb2.SessionStartInfo(), []
    for name, given in parameters.items():
        if given is None:
            continue
        kind, value = _parameter(name, given)
        setattr(start.hparams[name], f"{kind}_value", value)
        info = api_pb2.HParamInfo(name=name, type=_DATA_TYPES[kind])
        if name in domains:
            values = [struct_pb2.Value(**{f"{kind}_value": v}) for v in domains[name]]
            info.domain_discrete.CopyFrom(struct_pb2.ListValue(values=values))
        infos.append(info)
    named = [api_pb2.MetricInfo(name=api_pb2.MetricName(tag=tag)) for tag in metrics]
    parts = {
        metadata.EXPERIMENT_TAG: {
            "experiment": api_pb2.Experiment(hparam_infos=infos, metric_infos=named)
        },
        metadata.SESSION_START_INFO_TAG: {"session_start_info": start},
        metadata.SESSION_END_INFO_TAG: {
            "session_end_info": plugin_data_pb2.SessionEndInfo(status="STATUS_SUCCESS")
        },
    }
    version = metadata.PLUGIN_DATA_VERSION
    contents = {
        tag: plugin_data_pb2.HParamsPluginData(version=version, **part).SerializeToString()
        for tag, part in parts.items()
    }
    return [
        _value(tag, metadata=_metadata(metadata.PLUGIN_NAME, content))
        for tag, content in contents.items()
    ]
