"""Tables, curves and pictures: what they say is so, and what they are drawn from is left as it was."""

import math
import re
import subprocess
import sys
import textwrap
import xml.etree.ElementTree as ET

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.drawing import curve, draw, summary


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(8, 4)
        self.head.bias.requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def test_a_table_of_a_model():
    net = Net()
    found = summary(net, (2, 3, 6, 6))
    rows = {row.path: row for row in found.rows}
    assert (rows["body.0"].input, rows["body.0"].output, rows["body.0"].parameters) == (
        "[2, 3, 6, 6]",
        "[2, 8, 4, 4]",
        224,
    )
    assert (rows["head"].output, rows["head"].parameters, rows["head"].trained) == ("[2, 4]", 36, 32)
    assert found.parameters == sum(p.numel() for p in net.parameters()) == 276 and found.trained == 272
    text = str(found)
    assert "276 parameters, 272 trained, 1.1 KiB" in text and "    0: Conv2d" in text
    assert [row.path for row in summary(net, depth=1).rows] == ["", "body", "head"]
    assert all(not row.input for row in summary(net).rows)


def test_the_model_is_left_as_it_was():
    net = Net()
    net.body.eval()
    before = {key: t.clone() for key, t in net.state_dict().items()}
    torch.manual_seed(3)
    expected = torch.rand(4)
    torch.manual_seed(3)
    summary(net, torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(torch.rand(4), expected)
    assert net.training and not net.body.training and not net.body[0].training
    assert all(torch.equal(before[key], t) for key, t in net.state_dict().items())
    assert not any(module._forward_hooks for module in net.modules())


def test_a_model_that_fails_is_left_as_it_was():
    net = Net()
    with pytest.raises(RuntimeError, match="channels"):
        summary(net, (2, 1, 6, 6))
    assert net.training and not any(module._forward_hooks for module in net.modules())


def test_curves():
    lines = curve([1.0, 0.0], 4, 2, "title").splitlines()
    assert lines[0] == "title" and lines[1].startswith("1 ") and lines[2].startswith("0 ") and len(lines) == 4
    assert lines[-1].strip() == "1 to 2, last 0"
    rising, falling = curve(list(range(9)), 8, 2).splitlines(), curve(list(range(9))[::-1], 8, 2).splitlines()
    assert rising[0].split(" ", 1)[1][0] == "\u2800" and falling[0].split(" ", 1)[1][0] != "\u2800"
    assert "last 2" in curve([1.0, math.nan, math.inf, 2.0])
    assert curve([], title="loss") == "loss: nothing to draw" and curve([math.nan]) == "nothing to draw"
    assert "last 3" in curve([3.0])


def rects(picture):
    tree = ET.fromstring(picture)
    return [r.get("fill") for r in tree.iter("{http://www.w3.org/2000/svg}rect")]


def texts(picture):
    return [t.text for t in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]


def test_memory_of_a_view():
    picture = draw(torch.arange(12).view(3, 4)[1:, ::2])
    fills = rects(picture)
    assert len(fills) == 12 + 4  # places of the storage, elements
    assert [i for i, fill in enumerate(fills[:12]) if fill != "none"] == [4, 6, 8, 10]
    assert "[2, 2] torch.int64, strides (4, 2), offset 4, storage of 12" in texts(picture)
    assert texts(picture)[-4:] == ["4", "6", "8", "10"]
    for t in (torch.tensor(1.0), torch.ones(0), torch.ones(500), torch.ones(2, 3, 4), torch.ones(1).expand(5)):
        ET.fromstring(draw(t))


def test_a_picture_of_a_model(tmp_path):
    picture = draw(Net(), (1, 3, 6, 6))
    shown = texts(picture)
    assert [t for t in shown if re.match(r"(body\.\d|head): ", t)] == [
        "body.0: Conv2d  (224)", "body.1: BatchNorm2d  (16)", "body.2: ReLU", "body.3: Dropout", "head: Linear  (36)",
    ]  # fmt: skip
    assert "[1, 8, 4, 4]" in shown and shown[-1] == "[1, 4]"
    picture.save(tmp_path / "net.svg")
    assert (tmp_path / "net.svg").read_text() == picture._repr_svg_()
    assert torch.draw is draw
    with pytest.raises(TypeError, match="takes a Tensor or a Module, not list"):
        draw([1])


def test_notebooks():
    page = torch.tensor([[0.0, 1.0], [math.nan, 2.0]])._repr_html_()
    assert page.count("<td") == 4 and "#888" in page and "0 to 2" in page and "torch.float32 on cpu" in page
    assert "the first 32 x 32" in torch.zeros(40, 50)._repr_html_()
    assert "<pre>tensor([1., 1.])</pre>" in torch.ones(2)._repr_html_()
    assert "requires_grad" in torch.ones(2, 2, requires_grad=True)._repr_html_()
    for t in (torch.ones(2, 2, device="meta"), torch.ones(2, 2).to_sparse(), torch.ones(2, 2, dtype=torch.complex64)):
        assert "<pre>" in t._repr_html_()
    assert "Conv2d" in Net()._repr_html_() and "<script>" not in type("<script>", (nn.Module,), {})()._repr_html_()


def run(folder, text, *options):
    path = folder / "program.py"
    path.write_text(textwrap.dedent(text))
    command = [
        sys.executable,
        "-m",
        "flambeau",
        *[str(path) if o == "FILE" else o.replace("FILE", str(path)) for o in options],
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


PROGRAM = """
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x)

    if __name__ == "__main__":
        w = torch.ones(1, requires_grad=True)
        for i in range(8):
            (w * (8 - i)).sum().backward()
        print("done")
"""


@pytest.mark.slow
def test_commands(tmp_path):
    made = run(tmp_path, PROGRAM, "run", "--plot", "FILE")
    assert made.returncode == 0 and made.stdout == "done\n"
    assert "loss at every backward" in made.stderr and "1 to 8, last 1" in made.stderr
    made = run(tmp_path, PROGRAM, "summary", "FILE:Model", "--input", "5,3")
    assert made.returncode == 0 and "layer: Linear" in made.stdout and "[5, 2]" in made.stdout
    for where in ("FILE:Nothing", "FILE:torch", "nowhere:Model"):
        made = run(tmp_path, PROGRAM, "summary", where)
        assert made.returncode == 2 and made.stderr.startswith("flambeau summary: ")
