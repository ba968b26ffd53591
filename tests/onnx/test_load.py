"""ONNX models as modules: what they compute, that they train, and what is done about files that are damaged or hostile."""

import contextlib
import copy
import io
import os
import pickle
import random
import subprocess
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau.onnx import OnnxModelError, load

from .build import field, graph, message, model, node, tensor, value

W = np.float32([[1, 2], [3, 4], [5, 6]])
LINEAR = model([node("Gemm", "x fc.weight fc.bias", "h", transB=1), node("Relu", "h", "y")], [value("x", ["n", 2])], "y",
               [tensor("fc.weight", W), tensor("fc.bias", np.float32([0, 0, -100]))])  # fmt: skip


def _y(kind, *arrays, opset=18, outputs="y", **attributes):
    """What one node gives for tensors."""
    names = " ".join(f"x{i}" for i in range(len(arrays)))
    return load(model([node(kind, names, outputs, **attributes)], names, outputs, opset=opset))(*arrays)


def test_a_model_runs_trains_and_moves():
    net = load(LINEAR)
    assert (net.input_names, net.output_names, net.opset) == (["x"], ["y"], 18)
    assert sorted(net.state_dict()) == ["fc.bias", "fc.weight"]
    assert net(torch.ones(1, 2)).tolist() == [[3, 7, 0]]
    net(torch.ones(4, 2)).sum().backward()
    assert net.fc.weight.grad.tolist() == [[4, 4], [4, 4], [0, 0]]
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    optimizer.step()
    assert net(x=torch.ones(1, 2))[0, 0].item() == pytest.approx(3 - 1.2)
    other = load(LINEAR)
    other.load_state_dict(net.state_dict())
    x = torch.randn(3, 2)
    for again in (other, copy.deepcopy(net), pickle.loads(pickle.dumps(net)), torch.jit.trace(net, torch.ones(1, 2)),
                  torch.compile(net)):  # fmt: skip
        assert torch.equal(again(x), net(x))
    twice = copy.deepcopy(net)
    with torch.no_grad():
        twice.fc.weight.zero_()
    assert twice(x).sum() == 0 and net(torch.ones(1, 2)).sum() > 0  # the copy has weights of its own
    assert net.double()(x.double()).dtype is torch.float64


def test_arguments():
    net = load(LINEAR)
    with pytest.raises(TypeError, match=r"takes 1 inputs, \['x'\], but 2"):
        net(1, 2)
    with pytest.raises(TypeError, match="missing"):
        net()
    with pytest.raises(TypeError, match="no input 'z'"):
        net(torch.ones(1, 2), z=1)
    with pytest.raises(ValueError, match=r"shape \[1, 3\], and the model was made for \['any', 2\]"):
        net(torch.ones(1, 3))
    assert net(np.ones((1, 2), np.float32)).shape == (1, 3)


def test_sizes_are_numbers_for_traces_and_programs():
    nodes = [node("Shape", "x", "s"), node("Gather", "s zero", "n"), node("Unsqueeze", "n axes", "n1"),
             node("Concat", "n1 rest", "to", axis=0), node("Reshape", "x to", "y")]  # fmt: skip
    consts = [tensor("zero", np.int64(0)), tensor("axes", np.int64([0])), tensor("rest", np.int64([-1]))]
    net = load(model(nodes, tensors=consts))
    assert net(torch.ones(2, 3, 4)).shape == (2, 12)
    traced = torch.jit.trace(net, torch.ones(2, 3, 4))
    assert traced(torch.ones(5, 3, 2)).shape == (5, 6)
    compiled = torch.compile(net)
    assert [compiled(torch.ones(n, 2, 2)).shape for n in (1, 3)] == [(1, 4), (3, 4)]
    assert not net.state_dict()


def test_branches_loops_and_scans():
    then, other = graph([node("Add", "x x", "a")], [], ["a"]), graph([node("Neg", "x", "b")], [], ["b"])
    total = node("ReduceSum", "x", "t", keepdims=0)
    nodes = [total, node("Greater", "t zero", "c"), node("If", "c", "y", then_branch=then, else_branch=other)]
    net = load(model(nodes, tensors=[tensor("zero", np.float32(0))]))
    assert net(torch.tensor([1.0, 2.0])).tolist() == [2, 4] and net(torch.tensor([-1.0])).tolist() == [1]

    body = graph([node("Add", "v x", "w"), node("Less", "i last", "go"), node("Identity", "w", "kept")],
                 ["i", "c", "v"], ["go", "w", "kept"], [tensor("last", np.int64(2))])  # fmt: skip
    net = load(model([node("Loop", "m  x", "y all", body=body)], "x m", "y all"))
    y, kept = net(torch.tensor([1.0]), torch.tensor(10))
    assert y.tolist() == [4] and kept.tolist() == [[2], [3], [4]]  # "m  x": the name between is empty in a file
    assert net(torch.tensor([1.0]), torch.tensor(1))[0].tolist() == [2]

    body = graph([node("Add", "s e", "n"), node("Identity", "n", "o")], ["s", "e"], ["n", "o"])
    net = load(model([node("Scan", "a x", "y z", body=body, num_scan_inputs=1)], "a x", "y z"))
    y, z = net(torch.zeros(2), torch.ones(3, 2))
    assert y.tolist() == [3, 3] and z[:, 0].tolist() == [1, 2, 3]


def test_functions_of_the_model():
    double = message(
        (1, "Square"), (4, "a"), (5, "b"), (7, node("Mul", "a a", "b")), (9, message((1, ""), (2, 18))), (10, "own")
    )
    net = load(
        model([node("Square", "x", "h", domain="own"), node("Square", "h", "y", domain="own")], functions=[double])
    )
    assert net(torch.tensor([2.0])).tolist() == [16]
    itself = message((1, "F"), (4, "a"), (5, "b"), (7, node("F", "a", "b", domain="own")), (10, "own"))
    with pytest.raises(OnnxModelError, match="calls itself"):
        load(model([node("F", "x", "y", domain="own")], functions=[itself]))
    many = [message((1, f"F{i}"), (4, "a"), (5, "c"), *[(7, node(f"F{i + 1}", p[0], p[1], domain="own")) for p in ("ab", "bc")],
                    (10, "own")) for i in range(30)]  # fmt: skip
    many.append(message((1, "F30"), (4, "a"), (5, "b"), (7, node("Neg", "a", "b")), (10, "own")))
    with pytest.raises(OnnxModelError, match="more than 20000 nodes"):
        load(model([node("F0", "x", "y", domain="own")], functions=many))


def test_versions_differ():
    x = torch.arange(8.0).reshape(2, 2, 2)
    assert torch.allclose(_y("Softmax", x, opset=9), torch.softmax(x.flatten(1), 1).reshape(2, 2, 2))
    assert torch.allclose(_y("Softmax", x, opset=13), torch.softmax(x, -1))
    assert _y("ReduceSum", x, axes=[1], opset=9).shape == (2, 1, 2)
    assert _y("ReduceSum", x, torch.tensor([1]), keepdims=0).shape == (2, 2)
    assert _y("Squeeze", torch.ones(1, 2, 1), axes=[2], opset=11).shape == (1, 2)
    assert _y("Clip", x, opset=9, max=2.0).max() == 2
    assert _y("Slice", x, opset=9, starts=[1], ends=[9], axes=[2]).shape == (2, 2, 1)
    back = _y("Slice", x, *(torch.tensor([n]) for n in (-1, -(1 << 62), 0, -1)))
    assert torch.equal(back, x.flip(0))


def test_images():
    x = torch.arange(16.0).reshape(1, 1, 4, 4)
    half = _y("Resize", x, torch.ones(0), torch.tensor([1, 1, 0.5, 0.5]), mode="linear")
    assert half.flatten().tolist() == [2.5, 4.5, 10.5, 12.5]
    near = _y("Resize", x, torch.ones(0), torch.tensor([1, 1, 2.0, 2.0]), coordinate_transformation_mode="asymmetric",
              nearest_mode="floor")  # fmt: skip
    assert torch.equal(near, nn.functional.interpolate(x, scale_factor=2))
    cubic = _y("Resize", x, torch.ones(0), torch.ones(0), torch.tensor([1, 1, 6, 7]), mode="cubic")
    assert torch.allclose(cubic, nn.functional.interpolate(x, (6, 7), mode="bicubic"), atol=1e-5)
    pooled = _y("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2], outputs="y i")
    assert pooled[0].flatten().tolist() == pooled[1].flatten().tolist() == [5, 7, 13, 15]
    same = _y("Conv", x, torch.ones(1, 1, 2, 2), auto_pad="SAME_UPPER", kernel_shape=[2, 2])
    assert same.shape == x.shape and same[0, 0, 3].tolist() == [25, 27, 29, 15]


def test_recurrent_layers_agree_with_ours():
    torch.manual_seed(0)
    lstm = nn.LSTM(3, 2, bidirectional=True)
    order = torch.tensor(
        [0, 1, 6, 7, 2, 3, 4, 5]
    )  # ONNX: input, output, forget, cell; ours: input, forget, cell, output

    def both(name):
        return torch.stack([getattr(lstm, name)[order], getattr(lstm, name + "_reverse")[order]])

    w, r = both("weight_ih_l0"), both("weight_hh_l0")
    bias = torch.cat([both("bias_ih_l0"), both("bias_hh_l0")], 1)
    x = torch.randn(5, 4, 3)
    out, (h, c) = lstm(x)
    y, last, cell = _y("LSTM", x, w, r, bias, outputs="y h c", direction="bidirectional", hidden_size=2)
    assert torch.allclose(y.transpose(1, 2).flatten(2), out, atol=1e-6) and torch.allclose(last, h, atol=1e-6)
    assert torch.allclose(cell, c, atol=1e-6)
    lengths = torch.tensor([5, 2, 3, 1], dtype=torch.int32)  # step by step
    y, last, _ = _y("LSTM", x, w, r, bias, lengths, outputs="y h c", direction="bidirectional", hidden_size=2)
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
    out, (h, c) = lstm(packed)
    padded = nn.utils.rnn.pad_packed_sequence(out)[0]
    assert torch.allclose(y.transpose(1, 2).flatten(2), padded, atol=1e-6) and torch.allclose(last, h, atol=1e-6)


def test_quantized():
    x = torch.tensor([[-1.0, 0.0], [0.26, 9.0]])
    codes = _y("QuantizeLinear", x, torch.tensor(0.1), torch.tensor(3, dtype=torch.uint8))
    assert codes.tolist() == [[0, 3], [6, 93]] and codes.dtype is torch.uint8
    scale, zero = torch.tensor([0.1, 1.0]), torch.zeros(2, dtype=torch.int8)
    codes = _y("QuantizeLinear", x, scale, zero, axis=1)
    assert codes.tolist() == [[-10, 0], [3, 9]]
    assert torch.allclose(_y("DequantizeLinear", codes, scale, zero, axis=1), torch.tensor([[-1.0, 0], [0.3, 9]]))
    net = load(model([node("QuantizeLinear", "x s z", "q"), node("DequantizeLinear", "q s z", "y")], tensors=[
        tensor("s", np.float32([0.5])), tensor("z", np.int8([0]))]))  # fmt: skip
    assert net(torch.tensor([0.7])).tolist() == [0.5] and not list(net.parameters())


def test_unknown_operators_are_named_together():
    with pytest.raises(OnnxModelError, match=r"Frob \(2\), own::Nicate \(1\)$"):
        load(model([node("Frob", "x", "a"), node("Frob", "a", "b"), node("Nicate", "b", "y", domain="own")]))


def test_errors_name_the_node():
    net = load(model([node("MatMul", "x w", "y")], tensors=[tensor("w", W)]))
    with pytest.raises(OnnxModelError, match=r"in a node MatMul that gives \['y'\]: .*mat1 and mat2"):
        net(torch.ones(2, 2))
    with pytest.raises(OnnxModelError, match="the attribute 'alpha' is a str"):
        _y("Elu", torch.ones(1), alpha="1")


BAD = {
    "no graph": (b"", "holds no graph"),
    "text": (b"hello world, this is no model", "ONNX model"),
    "cut short": (LINEAR[:-40], "cut short"),
    "old": (model([node("Relu", "x", "y")], opset=3), "opset 3 is not supported"),
    "circle": (model([node("Neg", "b", "a"), node("Neg", "a", "b"), node("Neg", "b", "y")]), "form a circle"),
    "missing": (model([node("Neg", "", "h"), node("Add", "x q", "y")]), "no earlier node gives|does not take"),
    "twice": (model([node("Neg", "x", "y"), node("Abs", "x", "y")]), "is there already"),
    "no output": (model([node("Neg", "x", "h")]), r"gives its outputs \['y'\]"),
    "inputs": (model([node("Relu", "x x x", "y")]), "3 inputs, which Relu does not take"),
    "type": (model([node("Neg", "x", "y")], tensors=[message((1, 2), (2, 8), (8, "s"))]), "strings"),
    "huge": (model([node("Neg", "x", "y")], tensors=[message((1, 1 << 40), (1, 1 << 40), (2, 1), (8, "w"))]), "impossible shape"),
    "negative": (model([node("Neg", "x", "y")], tensors=[message((1, -3), (2, 1), (8, "w"))]), "impossible shape"),
    "large": (model([node("Neg", "x", "y")], tensors=[message((1, 1 << 40), (2, 1), (8, "w"))]), "needs 1099511627776 numbers"),
    "bytes": (model([node("Neg", "x", "y")], tensors=[message((1, 4), (2, 1), (8, "w"), (9, b"123"))]), "needs 16 bytes"),
    "sparse": (message((7, message((15, b"x")), ), (8, message((2, 18)))), "sparse"),
    "no utf-8": (message((7, message((2, b"\xff\xfe")))), "no text"),
    "endless number": (b"\x08" + b"\xff" * 40, "does not end"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_damaged_files(name):
    data, text = BAD[name]
    with pytest.raises(OnnxModelError, match=text):
        load(data)


def test_deep_files():
    inner = graph([node("Neg", "x", "z")], [], ["z"])
    for _ in range(100):
        inner = graph([node("If", "c", "z", then_branch=inner, else_branch=graph([], [], ["x"]))], [], ["z"])
    with pytest.raises(OnnxModelError, match="deep"):
        load(message((7, inner), (8, message((2, 18)))))
    deep = b""
    for _ in range(5000):
        deep = field(7, field(1, field(5, field(6, deep))))
    with pytest.raises(OnnxModelError):
        load(deep)


def test_external_data(tmp_path):
    data = np.arange(8, dtype=np.float32)
    home = tmp_path / "home"
    home.mkdir()
    (home / "weights.bin").write_bytes(data.tobytes())
    (tmp_path / "secret").write_bytes(data.tobytes())
    (home / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(home / "pipe")

    def made(*tensors):
        path = home / "model.onnx"
        path.write_bytes(model([node("Identity", "w", "y")], "", "y", tensors))
        return path

    assert load(made(tensor("w", data[:4], location="weights.bin", offset=16)))().tolist() == [4, 5, 6, 7]
    for location in ("../secret", str(tmp_path / "secret"), "link", "pipe", "", ".", "a\0b", "none"):
        with pytest.raises(OnnxModelError, match=r"not a file inside|cannot be opened|ends outside"):
            load(made(tensor("w", data[:4], location=location)))
    with pytest.raises(OnnxModelError, match="ends outside"):
        load(made(tensor("w", data[:4], location="weights.bin", offset=20)))
    with pytest.raises(OnnxModelError, match="needs 16 bytes, and 99"):
        load(made(tensor("w", data[:4], location="weights.bin", length=99)))
    with pytest.raises(OnnxModelError, match="overlap"):
        load(made(*[tensor(n, data, location="weights.bin") for n in "wuv"]))
    with pytest.raises(OnnxModelError, match="give load the path"):
        load(made(tensor("w", data[:4], location="weights.bin")).read_bytes())


def test_changed_bytes_never_crash():
    chance = random.Random(0)
    for _ in range(300):
        data = bytearray(LINEAR)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(OnnxModelError):
            load(bytes(data))


def test_names_of_weights_may_be_anything():
    names = ["forward", "a", "a.b", "", "training", "x" * 500, ".".join("a" * 300), "a..b", "register_buffer", "ü/ß::1"]
    names = [n or "empty" for n in names]
    nodes = [node("Identity", "x", "y")]
    net = load(model(nodes, tensors=[tensor(n, np.float32([i])) for i, n in enumerate(names)]))
    assert len(net.state_dict()) == len(names) and net(torch.ones(1)).item() == 1


@pytest.mark.slow
def test_file_objects_and_the_command(tmp_path):
    assert load(io.BytesIO(LINEAR))(torch.ones(1, 2)).shape == (1, 3)
    with pytest.raises(TypeError, match="a path, a binary file or bytes, got int"):
        load(3)
    path = tmp_path / "net.onnx"
    path.write_bytes(LINEAR)
    command = [sys.executable, "-m", "flambeau", "summary", str(path), "--input", "1,2"]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "OnnxModule" in made.stdout and "9" in made.stdout


def test_without_the_package_onnx(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert load(LINEAR)(torch.ones(1, 2)).shape == (1, 3)
