"""`SummaryWriter`: writes what happens in a run into files that TensorBoard shows."""

from __future__ import annotations

import os
import socket
import time
from datetime import datetime
from typing import Any

from . import summary
from ._convert import figure_to_image, make_np
from ._protos import proto

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes messages into one event file."""

    def __init__(self, log_dir: str, max_queue: int = 10, flush_secs: int = 120, filename_suffix: str = "") -> None:
        self.event_writer = proto("EventFileWriter")(str(log_dir), max_queue, flush_secs, filename_suffix)

    def get_logdir(self) -> str:
        """The folder of the file."""
        return self.event_writer.get_logdir()

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Writes a message with its time and step."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(self, summary: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes a summary."""
        self.add_event(proto("Event")(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Makes sure that all is in the file."""
        self.event_writer.flush()

    def close(self) -> None:
        """Writes the rest and closes the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Opens a new file after `close`."""
        self.event_writer = proto("EventFileWriter")(self.get_logdir())


class SummaryWriter:
    """Logs scalars, histograms, pictures, texts and more of a run into `log_dir`, for `tensorboard --logdir`.

    Without `log_dir` the folder is runs/<date>_<host><comment>. The writer is also a context manager.
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = datetime.now().strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir, self.purge_step = log_dir, purge_step
        self.max_queue, self.flush_secs, self.filename_suffix = max_queue, flush_secs, filename_suffix
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        if self.all_writers is None or self.file_writer is None:
            self.file_writer = FileWriter(self.log_dir, self.max_queue, self.flush_secs, self.filename_suffix)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:  # forget what an earlier run wrote after this step
                Session = proto("SessionLog")
                for event in (
                    proto("Event")(step=self.purge_step, file_version="brain.Event:2"),
                    proto("Event")(step=self.purge_step, session_log=Session(status=Session.START)),
                ):
                    self.file_writer.add_event(event)
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> Any:
        """The folder that is written to."""
        return self.log_dir

    def _add(self, made: Any, step: Any, walltime: float | None = None) -> None:
        self._get_file_writer().add_summary(made, step, walltime)

    # -- numbers and text ------------------------------------------------------------------------------------------

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: Any = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Logs a number."""
        self._add(summary.scalar(tag, scalar_value, new_style, double_precision), global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: Any = None, walltime: float | None = None
    ) -> None:
        """Logs several numbers that are shown in one plot: each goes to a folder of its own."""
        walltime = time.time() if walltime is None else walltime
        base = self._get_file_writer().get_logdir()
        writers = self.all_writers
        assert writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = f"{base}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in writers:
                writers[folder] = FileWriter(folder, self.max_queue, self.flush_secs, self.filename_suffix)
            writers[folder].add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: Any = None, walltime: float | None = None) -> None:
        """Logs all values of a tensor."""
        self._add(summary.tensor(tag, tensor), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: Any = None, walltime: float | None = None) -> None:
        """Logs a text."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: Any = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Logs the distribution of values; `bins` is a number, edges or one of NumPy's names, too."""
        self._add(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs a histogram that was counted elsewhere."""
        if len(bucket_limits) != len(bucket_counts):
            raise ValueError("add_histogram_raw: bucket_limits and bucket_counts have different lengths")
        made = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self._add(made, global_step, walltime)

    # -- pictures and sound ----------------------------------------------------------------------------------------

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Logs a picture: floats between 0 and 1, or bytes."""
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Logs several pictures, as a grid."""
        if isinstance(img_tensor, list):
            img_tensor, dataformats = make_np(img_tensor), "N" + dataformats.replace("N", "")
        self._add(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: Any = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: Any = None,
    ) -> None:
        """Logs a picture with boxes (left, top, right, bottom) drawn on it."""
        made = summary.image_boxes(tag, img_tensor, box_tensor, rescale, dataformats, labels)
        self._add(made, global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Logs a Matplotlib figure, or a list of them."""
        form = "NCHW" if isinstance(figure, list) else "CHW"
        self.add_image(tag, figure_to_image(figure, close), global_step, walltime, form)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: Any = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Logs a video of shape (N, T, C, H, W)."""
        self._add(summary.video(tag, vid_tensor, fps), global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: Any = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Logs sound: samples between -1 and 1."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    # -- curves, meshes, settings ----------------------------------------------------------------------------------

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
        """Logs precision and recall over thresholds, of probabilities and true labels (0 or 1)."""
        thresholds = min(num_thresholds, 127)  # more do not fit into the dashboard
        rows = summary.pr_counts(labels, predictions, thresholds, weights)
        self._add(summary.pr_curve(tag, rows, thresholds), global_step, walltime)

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
        """Logs a precision-recall curve that was counted elsewhere."""
        rows = (
            true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts, precision, recall
        )  # fmt: skip
        self._add(summary.pr_curve(tag, rows, min(num_thresholds, 127)), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: Any = None,
        global_step: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Logs points in space (B, N, 3), with colours and triangles if given."""
        self._add(summary.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, Any]]) -> None:
        """Chooses charts of several scalars: {category: {title: ["Multiline" or "Margin", tags]}}."""
        self._add(summary.custom_scalars(layout), None)

    def add_custom_scalars_multilinechart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """Chooses one chart with a line for each tag."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: Any, category: str = "default", title: str = "untitled") -> None:
        """Chooses one chart with a value between two bounds; `tags` are value, lower and upper."""
        if len(tags) != 3:
            raise AssertionError(f"a margin chart takes three tags, got {len(tags)}")
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: Any = None,
    ) -> None:
        """Logs the settings of a run and what came of them, in a folder of its own."""
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self._get_file_writer().get_logdir(), run_name or str(time.time()))
        with SummaryWriter(log_dir=folder) as run:
            for part in parts:
                run._add(part, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def add_embedding(
        self,
        mat: Any,
        metadata: Any = None,
        label_img: Any = None,
        global_step: Any = None,
        tag: str = "default",
        metadata_header: Any = None,
    ) -> None:
        """Logs vectors (N, D) for the projector, with labels and small pictures if given."""
        mat = make_np(mat)
        step = f"{0 if global_step is None else int(global_step):05}"
        place = os.path.join(step, tag)
        folder = os.path.join(self._get_file_writer().get_logdir(), place)
        os.makedirs(folder, exist_ok=True)
        if metadata is not None:
            if len(metadata) != mat.shape[0]:
                raise AssertionError(f"add_embedding: {len(metadata)} labels for {mat.shape[0]} vectors")
            summary.write_table(os.path.join(folder, "metadata.tsv"), metadata, metadata_header)
        if label_img is not None:
            if label_img.shape[0] != mat.shape[0]:
                raise AssertionError(f"add_embedding: {label_img.shape[0]} pictures for {mat.shape[0]} vectors")
            summary.write_sprite(os.path.join(folder, "sprite.png"), label_img)
        if mat.ndim != 2:
            raise AssertionError(f"add_embedding: expected vectors of shape (N, D), got {mat.shape}")
        summary.write_table(os.path.join(folder, "tensors.tsv"), mat.tolist())
        entry = summary.projector_entry(place, tag, step, metadata is not None, label_img)
        with open(os.path.join(self._get_file_writer().get_logdir(), "projector_config.pbtxt"), "a") as file:
            file.write(entry)

    # -- graphs ----------------------------------------------------------------------------------------------------

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """The operations of a model in one run on example inputs, by the modules that call them."""
        from .graph import graph

        made = graph(model, input_to_model)
        if verbose:
            print(made)
        self._get_file_writer().add_event(proto("Event")(graph_def=made.SerializeToString()))

    def add_onnx_graph(self, prototxt: Any) -> None:
        """Not available."""
        raise NotImplementedError("add_onnx_graph: graphs are not written here")

    # -- the end ---------------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Makes sure that all is in the files."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Writes the rest and closes the files; another `add_…` opens new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()
