"""Logs for TensorBoard, read again with its own loader."""

import importlib.util

import numpy as np
import pytest

import flambeau as torch

INSTALLED = importlib.util.find_spec("tensorboard") is not None


@pytest.mark.skipif(INSTALLED, reason="tensorboard is installed")
def test_without_tensorboard_the_error_says_what_to_install():
    with pytest.raises(ImportError, match="pip install tensorboard"):
        from flambeau.utils.tensorboard import SummaryWriter  # noqa: F401


@pytest.fixture
def writer(tmp_path):
    pytest.importorskip("tensorboard")
    from flambeau.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "run")) as made:
        yield made


def events(folder):
    from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
    from tensorboard.compat.proto.event_pb2 import Event

    (path,) = folder.glob("events.out.tfevents.*")
    return [Event.FromString(raw) for raw in RawEventFileLoader(str(path)).Load()][1:]


def values(writer, tmp_path):
    writer.flush()
    return {v.tag: (event.step, v) for event in events(tmp_path / "run") for v in event.summary.value}


def test_numbers_and_texts(writer, tmp_path):
    writer.add_scalar("a/b", torch.tensor(1.5), 3)
    writer.add_scalar("new", 2, 1, new_style=True)
    writer.add_scalars("group", {"x": 1, "y": 2}, 4)
    writer.add_text("note", "hello **you**")
    found = values(writer, tmp_path)
    assert found["a/b"][0] == 3 and found["a/b"][1].simple_value == 1.5
    assert found["new"][1].tensor.float_val[0] == 2 and found["new"][1].metadata.plugin_data.plugin_name == "scalars"
    assert found["note/text_summary"][1].tensor.string_val[0] == b"hello **you**"
    assert events(tmp_path / "run" / "group_y")[0].summary.value[0].simple_value == 2
    with pytest.raises(AssertionError):
        writer.add_scalar("bad", torch.ones(2))


def test_histogram(writer, tmp_path):
    x = torch.linspace(-1, 1, 101)
    writer.add_histogram("h", x)
    writer.add_histogram("few", np.ones(5), bins=4, max_bins=2)
    found = values(writer, tmp_path)
    histo = found["h"][1].histo
    assert (
        histo.num == 101
        and sum(histo.bucket) == 101
        and histo.min == -1
        and len(histo.bucket) == len(histo.bucket_limit)
    )
    assert list(found["few"][1].histo.bucket) == [0, 5] and list(found["few"][1].histo.bucket_limit) == [1, 1.5]
    with pytest.raises(ValueError):
        writer.add_histogram("none", torch.tensor([]))


def test_pictures(writer, tmp_path):
    pytest.importorskip("PIL")
    picture = torch.linspace(0, 1, 60).reshape(3, 4, 5)
    writer.add_image("one", picture)
    writer.add_image("flat", picture[0], dataformats="HW")
    writer.add_images("many", torch.stack([picture] * 3))
    writer.add_image_with_boxes("boxes", picture, torch.tensor([[0, 0, 3, 3]]), labels=["x"])
    writer.add_video("film", torch.rand(1, 3, 3, 4, 4))
    found = values(writer, tmp_path)
    assert (found["one"][1].image.height, found["one"][1].image.width) == (4, 5)
    assert found["many"][1].image.width == 15 and found["flat"][1].image.colorspace == 3
    assert found["film"][1].image.encoded_image_string[:3] == b"GIF"


def test_figure(writer, tmp_path):
    pytest.importorskip("PIL")
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    figure = pyplot.figure(figsize=(1, 1), dpi=20)
    writer.add_figure("f", figure)
    image = values(writer, tmp_path)["f"][1].image
    assert (image.height, image.width) == (20, 20)


def test_curves_meshes_and_settings(writer, tmp_path):
    writer.add_pr_curve("pr", torch.tensor([1, 0, 1, 0]), torch.tensor([0.95, 0.85, 0.35, 0.15]), num_thresholds=11)
    writer.add_mesh("m", torch.rand(1, 4, 3), faces=torch.tensor([[[0, 1, 2]]]))
    writer.add_custom_scalars_multilinechart(["a", "b"])
    writer.add_audio("sound", torch.linspace(-1, 1, 50), sample_rate=8000)
    writer.add_hparams({"lr": 0.1, "name": "sgd"}, {"accuracy": 0.9}, run_name="first")
    found = values(writer, tmp_path)
    rows = np.array(found["pr"][1].tensor.float_val).reshape(6, 11)
    assert rows[0].tolist() == [2] * 4 + [1] * 6 + [0] and rows[1, 0] == 2
    assert {"m_VERTEX", "m_FACE", "custom_scalars__config__", "sound"} <= found.keys()
    tags = [v.tag for e in events(tmp_path / "run" / "first") for v in e.summary.value]
    assert tags == ["_hparams_/experiment", "_hparams_/session_start_info", "_hparams_/session_end_info", "accuracy"]


def test_embedding(writer, tmp_path):
    writer.add_embedding(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), metadata=["a", "b"], tag="e", global_step=7)
    folder = tmp_path / "run" / "00007" / "e"
    assert (folder / "tensors.tsv").read_text() == "1.0\t2.0\n3.0\t4.0\n"
    assert (folder / "metadata.tsv").read_text() == "a\nb\n"
    assert 'tensor_name: "e:00007"' in (tmp_path / "run" / "projector_config.pbtxt").read_text()


def test_graph(writer, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    writer.add_graph(model, torch.ones(1, 2))
    writer.flush()
    graph_pb2 = pytest.importorskip("tensorboard.compat.proto.graph_pb2")
    found = [graph_pb2.GraphDef.FromString(e.graph_def) for e in events(tmp_path / "run") if e.graph_def]
    nodes = {node.name: node for node in found[0].node}
    linear, relu = nodes["Sequential/Linear[0]/linear"], nodes["Sequential/ReLU[1]/relu"]
    assert list(linear.input) == ["input/input.1", "parameters/Linear[0]/weight", "parameters/Linear[0]/bias"]
    assert list(relu.input) == [linear.name] and list(nodes["output/output.1"].input) == [relu.name]
    assert [d.size for d in relu.attr["_output_shapes"].list.shape[0].dim] == [1, 3]


def test_graph_of_inner_modules_and_sizes():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.norm = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)

        def forward(self, x, mask=None, times=1):
            return {"out": self.norm(self.fc(self.fc(x)).reshape(x.shape[0], -1) * times)}

    pytest.importorskip("tensorboard")
    from flambeau.utils.tensorboard.graph import graph

    nodes = {node.name: node for node in graph(Net(), (torch.ones(3, 2), None, 4)).node}
    assert nodes["Net/Linear[fc]/linear_1"].input[0] == "Net/Linear[fc]/linear"
    assert list(nodes["Net/reshape"].input) == ["Net/Linear[fc]/linear_1", "Net/size"]
    assert list(nodes["Net/BatchNorm1d[norm]/add"].input) == ["parameters/BatchNorm1d[norm]/num_batches_tracked"]
    assert list(nodes["output/output.1"].input) == ["Net/BatchNorm1d[norm]/batch_norm"]


def test_what_is_not_there_says_so(writer):
    with pytest.raises(NotImplementedError):
        writer.add_onnx_graph("graph")
