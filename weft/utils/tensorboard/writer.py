"""Writers of event files: `SummaryWriter`, with PyTorch's methods."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from weft.utils.tensorboard import summary

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """One event file of a folder, written by a thread of its own.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> weft.utils.tensorboard.FileWriter(folder).close()
    >>> len(os.listdir(folder))
    1
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.event_writer: Any = EventFileWriter(
            str(log_dir), max_queue, flush_secs, filename_suffix
        )

    def get_logdir(self) -> str:
        """The folder."""
        return str(self.event_writer.get_logdir())

    def add_event(self, event: Any, step: Any = None, walltime: float | None = None) -> None:
        """Writes an event, of now if it has no time."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, record: Any, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Writes a value's record."""
        from tensorboard.compat.proto.event_pb2 import Event

        self.add_event(Event(summary=record), global_step, walltime)

    def flush(self) -> None:
        """Has all that was added be in the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self.event_writer.close()


class SummaryWriter:
    """Logs values, pictures and texts for TensorBoard, under tags and steps.

    Args:
        log_dir: the folder; without one `runs/<time>_<host><comment>`.
        purge_step: TensorBoard forgets what earlier files of the folder have from this step on.
        max_queue, flush_secs: events and seconds after which what was added is written.
        filename_suffix: what names of files end with.

    >>> import os, tempfile
    >>> folder = tempfile.mkdtemp()
    >>> with weft.utils.tensorboard.SummaryWriter(folder) as writer:
    ...     writer.add_scalar("loss", 0.5, 1)
    >>> len(os.listdir(folder))
    1
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            import socket

            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self.filename_suffix = filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._embeddings: Any = None
        self._get_file_writer()

    def _open(self, folder: str | os.PathLike[str]) -> FileWriter:
        return FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)

    def _get_file_writer(self) -> FileWriter:
        """The writer of the folder; after `close` a new one."""
        from tensorboard.compat.proto.event_pb2 import Event, SessionLog

        if self.file_writer is None or self.all_writers is None:
            self.file_writer = self._open(self.log_dir)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                start = SessionLog(status=SessionLog.START)
                for event in (Event(file_version="brain.Event:2"), Event(session_log=start)):
                    self.file_writer.add_event(event, self.purge_step)
                self.purge_step = None
        return self.file_writer

    def _add(self, record: Any, step: Any, walltime: float | None) -> None:
        self._get_file_writer().add_summary(record, step, walltime)

    def get_logdir(self) -> Any:
        """The folder of the event files."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Adds a number, or a tensor of one.

        Raises: AssertionError for a tensor of more.
        """
        record = summary.scalar(tag, scalar_value, new_style, double_precision)
        self._add(record, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds numbers that are drawn together, each as a run of its own below the folder."""
        walltime = time.time() if walltime is None else walltime
        home = self._get_file_writer().get_logdir()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            record = summary.scalar(main_tag, value)
            folder = f"{home}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = self._open(folder)
            self.all_writers[folder].add_summary(record, global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Adds how values spread: in TensorBoard's bins, or in those of `numpy.histogram`.

        Raises: ValueError where there is no value.
        """
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: Any,
        max: Any,
        num: Any,
        sum: Any,
        sum_squares: Any,
        bucket_limits: Sequence[Any],
        bucket_counts: Sequence[Any],
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds a histogram that is counted already, by the right ends of its bins."""
        facts = (min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(summary.histogram_raw(tag, *facts), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds precision and recall of labels 0 and 1 and predictions of 0 to 1, at thresholds, of
        which there are at most 127."""
        record = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(record, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: Any = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Adds the same of what is counted already, from the lowest threshold on."""
        counts = (true_positive_counts, false_positive_counts, true_negative_counts,
                  false_negative_counts)  # fmt: skip
        record = summary.pr_curve_raw(tag, *counts, precision, recall, num_thresholds)
        self._add(record, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Adds a picture of bytes, or of floats of 0 to 1, whose dimensions `dataformats` names.

        Raises: AssertionError where the letters do not fit.
        """
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Adds pictures side by side, eight in a row."""
        self.add_image(tag, img_tensor, global_step, walltime, dataformats)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: Any = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Adds a figure of Matplotlib's, or a list of them side by side; closes it, if so asked."""
        if isinstance(figure, list):
            import numpy as np

            pictures = np.stack([summary.figure_image(one, close) for one in figure])
            self.add_image(tag, pictures, global_step, walltime, "NHWC")
        else:
            picture = summary.figure_image(figure, close)
            self.add_image(tag, picture, global_step, walltime, "HWC")

    def add_text(
        self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Adds a text; TensorBoard shows Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Adds hyperparameters and what was reached with them, as a run below the folder.

        Args:
            hparam_domain_discrete: the values that a hyperparameter can have.
            run_name: of the run; the time, if none.

        Raises: TypeError for what is no dict, ValueError for values of other kinds.
        """
        records = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete or {})
        home = self._get_file_writer().get_logdir()
        with SummaryWriter(os.path.join(home, run_name or str(time.time()))) as run:
            for record in records:
                run._add(record, global_step, None)
            for tag, value in metric_dict.items():
                run.add_scalar(tag, value, global_step)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Adds points [N, D] for TensorBoard's projector.

        Args:
            metadata: a label of each, or a row of them, whose columns `metadata_header` names.
            label_img: a picture of each, [N, C, H, W] of 0 to 1.

        Raises: AssertionError where numbers differ.
        """
        from tensorboard.plugins.projector import projector_config_pb2 as projector

        points = summary.numbers(mat)
        _check_points(points, metadata, label_img)
        step = str(0 if global_step is None else global_step).zfill(5)
        safe = tag.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
        home, below = self._get_file_writer().get_logdir(), f"{step}/{safe}"
        os.makedirs(os.path.join(home, below), exist_ok=True)
        info = projector.EmbeddingInfo(tensor_name=f"{tag}:{step}")
        info.tensor_path = f"{below}/tensors.tsv"
        _write_rows(os.path.join(home, info.tensor_path), points.tolist())
        if metadata is not None:
            info.metadata_path = f"{below}/metadata.tsv"
            rows = [[x] for x in metadata] if not metadata_header else [metadata_header, *metadata]
            _write_rows(os.path.join(home, info.metadata_path), rows)
        if label_img is not None:
            info.sprite.image_path = f"{below}/sprite.png"
            info.sprite.single_image_dim.extend([label_img.shape[3], label_img.shape[2]])
            _write_sprite(os.path.join(home, info.sprite.image_path), summary.numbers(label_img))
        if self._embeddings is None:
            self._embeddings = projector.ProjectorConfig()
        self._embeddings.embeddings.append(info)
        with open(os.path.join(home, "projector_config.pbtxt"), "w", encoding="utf8") as file:
            file.write(str(self._embeddings))

    def add_graph(
        self,
        model: Any,
        input_to_model: Any = None,
        verbose: bool = False,
        use_strict_trace: bool = True,
    ) -> None:
        """Writes what `model(*input_to_model)` runs, each call within its modules.

        The model runs once, in evaluation and without gradients; `weft.record` has more, with
        lines, values and times.

        Args:
            input_to_model: a tensor, or a tuple of arguments.
            verbose: whether to print the recording.
            use_strict_trace: nothing is traced: results of any structure are taken.

        What the model raises is raised, and nothing is written.
        """
        from tensorboard.compat.proto.event_pb2 import Event

        from weft.utils.tensorboard.graphs import graph_of

        graph, recorded = graph_of(model, input_to_model)
        if verbose:
            print(recorded)
        self._get_file_writer().add_event(Event(graph_def=graph.SerializeToString()))

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Charts that gather scalars: `{category: {chart: [kind, tags]}}`.

        The kind is "Multiline", or "Margin", whose tags are three: value, lower and upper bound.
        """
        self._get_file_writer().add_summary(summary.custom_scalars(layout))

    def add_custom_scalars_multilinechart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart with a line for each tag."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(
        self, tags: Sequence[str], category: str = "default", title: str = "untitled"
    ) -> None:
        """One chart of three tags: value, lower and upper bound."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def flush(self) -> None:
        """Has all that was added be in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Closes the files; adding opens a new one."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _check_points(points: Any, labels: Any, images: Any) -> None:
    if points.ndim != 2:
        raise AssertionError(
            f"[add_embedding] expected shape [N, D], got {list(points.shape)}: "
            "mat should be 2D, where mat.size(0) is the number of data points"
        )
    for what, given in (("labels", labels), ("images", images)):
        if given is not None and len(given) != len(points):
            raise AssertionError(
                f"[add_embedding] expected {len(points)} {what}, got {len(given)}: "
                f"#{what} should equal with #data points"
            )


def _write_rows(path: str, rows: Sequence[Sequence[Any]]) -> None:
    with open(path, "w", encoding="utf8") as file:
        file.writelines("\t".join(str(x) for x in row) + "\n" for row in rows)


def _write_sprite(path: str, images: Any) -> None:
    """Writes pictures into a square, as many in a row as there are rows."""
    import numpy as np

    from weft.base.pillow import pillow

    rows = math.ceil(len(images) ** 0.5)
    arranged = summary.grid(images, rows)
    square = np.zeros((rows * images.shape[2], rows * images.shape[3], 3))
    square[: arranged.shape[0], : arranged.shape[1]] = arranged
    pillow().fromarray((square * 255).clip(0, 255).astype(np.uint8)).save(path)
