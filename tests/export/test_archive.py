"""`.pt2` archives: written and read here, read as PyTorch wrote them, and refused where they are not in order."""

import copy
import io
import json
import zipfile
from pathlib import Path

import pytest

import flambeau as torch
from flambeau.utils import _pytree

from .models import zoo

ZOO = zoo(torch)
RECORDED = Path(__file__).parent / "recorded"
nn = torch.nn


def leaves(tree):
    return [t for t in _pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def saved(ep):
    held = io.BytesIO()
    torch.export.save(ep, held)
    return held.getvalue()


@pytest.mark.parametrize("name", ZOO)
def test_programs_come_back_from_files(name):
    model, args, kwargs = copy.deepcopy(ZOO[name])
    ep = torch.export.export(model, args, kwargs)
    read = torch.export.load(io.BytesIO(saved(ep)))
    read.validate()
    assert [str(s) for s in read.graph_signature.input_specs] == [str(s) for s in ep.graph_signature.input_specs]
    assert [str(n.target) for n in read.graph.nodes] == [str(n.target) for n in ep.graph.nodes]
    given, named = read.example_inputs
    module, reference = read.module(), copy.deepcopy(model)
    for _ in range(2):
        wanted = reference(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        got = module(*copy.deepcopy(given), **copy.deepcopy(named))
        torch.testing.assert_close(leaves(got), leaves(wanted))
    for path, t in reference.state_dict().items():
        torch.testing.assert_close(read.state_dict[path], t)


# Made by PyTorch 2.13 from the models of `models.py`; sums and shapes of the results for the examples in the files.
WANTED = {
    "mlp": [(4.0, (4, 3))],
    "cnn_in_training": [(-0.72852, (2, 5))],
    "containers": [(47.58291, (4, 6)), (47.58292, ()), (7.93048, (4,))],
    "causal_attention": [(-11.14972, (5, 2, 6))],
}


@pytest.mark.parametrize("name", WANTED)
def test_programs_of_pytorch_run(name):
    ep = torch.export.load(RECORDED / f"{name}.pt2")
    args, kwargs = ep.example_inputs
    out = leaves(ep.module()(*args, **kwargs))
    assert [tuple(t.shape) for t in out] == [shape for _, shape in WANTED[name]]
    assert [t.detach().double().sum().item() for t in out] == pytest.approx(
        [total for total, _ in WANTED[name]], abs=1e-4
    )
    again = torch.export.load(io.BytesIO(saved(ep)))
    assert again.graph_module.code == ep.graph_module.code
    assert str(again.range_constraints) == str(ep.range_constraints)


def test_written_buffers_of_pytorchs_programs_are_written():
    ep = torch.export.load(RECORDED / "cnn_in_training.pt2")
    module = ep.module()
    module(*ep.example_inputs[0])
    module(*ep.example_inputs[0])
    assert module.norm.num_batches_tracked.item() == 2
    assert [s.kind.name for s in ep.graph_signature.output_specs] == ["BUFFER_MUTATION"] * 3 + ["USER_OUTPUT"]


def test_sizes_that_change_are_read():
    ep = torch.export.load(RECORDED / "mlp.pt2")
    (limits,) = ep.range_constraints.values()
    assert limits == (2, 64)
    module = ep.module()
    assert module(torch.ones(7, 6)).shape == (7, 3)
    with pytest.raises(AssertionError, match=r"Guard failed: input.size\(\)\[0\] <= 64"):
        module(torch.ones(65, 6))
    attention = torch.export.load(RECORDED / "causal_attention.pt2").module()
    assert attention(torch.ones(3, 4, 6)).shape == (3, 4, 6)


def test_paths_and_further_files(tmp_path):
    ep = torch.export.export(nn.ReLU(), (torch.ones(2),))
    torch.export.save(ep, tmp_path / "model.pt2", extra_files={"note.txt": "hello"})
    with zipfile.ZipFile(tmp_path / "model.pt2") as archive:
        assert archive.read("model/archive_format") == b"pt2"
        data = json.loads(archive.read("model/models/model.json"))
        assert data["schema_version"] == {"major": 8, "minor": 20}
    found = {"note.txt": "", "other.txt": ""}
    torch.export.load(tmp_path / "model.pt2", extra_files=found)
    assert found == {"note.txt": "hello", "other.txt": ""}
    with pytest.raises(TypeError, match="must be an instance of 'ExportedProgram'"):
        torch.export.save(nn.ReLU(), tmp_path / "other.pt2")


# -- files that are not in order -------------------------------------------------------------------------------------------


def changed(data, change, record="models/model.json"):
    """The archive with a change to one of its JSON records."""
    held = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(held, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name.endswith(record):
                parsed = json.loads(content)
                change(parsed)
                content = json.dumps(parsed).encode()
            new.writestr(name, content)
    return io.BytesIO(held.getvalue())


def graph(data):
    return data["graph_module"]["graph"]


def rename(data, new):
    """Gives the result of the first node another name everywhere."""
    text = json.dumps(data).replace('"linear"', json.dumps(new))
    data.clear()
    data.update(json.loads(text))


CHANGES = {
    "a name with code": (lambda d: rename(d, "x = __import__('os').system('false')"), "no name"),
    "a keyword": (lambda d: rename(d, "import"), "no name"),
    "code for an operator": (lambda d: graph(d)["nodes"][0].update(target="os.system"), "no operator"),
    "an operator that is none": (lambda d: graph(d)["nodes"][0].update(target="torch.ops.aten.nothing.default"), "no operator"),
    "an operator on files": (lambda d: graph(d)["nodes"][0].update(target="torch.ops.aten.from_file.default"), "no operator"),
    "an inner attribute": (lambda d: graph(d)["nodes"][0].update(target="torch.ops.aten.__class__.mro"), "no operator"),
    "another function on sizes": (lambda d: graph(d)["nodes"][0].update(target="_operator.attrgetter"), "no operator"),
    "a path with code": (
        lambda d: d["graph_module"]["signature"]["input_specs"][0]["parameter"].update(parameter_name='a"]; x = 1 #'), "no path",
    ),
    "a value that nobody made": (
        lambda d: graph(d)["nodes"][0]["inputs"][0].update(arg={"as_tensor": {"name": "nobody"}}), "before it is made",
    ),
    "a size below zero": (lambda d: graph(d)["tensor_values"]["linear"]["sizes"].__setitem__(0, {"as_int": -1}), "size"),
    "an enormous size": (lambda d: graph(d)["tensor_values"]["linear"]["sizes"].__setitem__(0, {"as_int": 1 << 60}), "size"),
    "code for a size": (
        lambda d: graph(d)["tensor_values"]["linear"]["sizes"].__setitem__(
            0, {"as_expr": {"expr_str": "__import__('os').getpid()", "hint": None}}
        ),
        "sizes are not computed by",
    ),
    "an unknown dtype": (lambda d: graph(d)["tensor_values"]["linear"].update(dtype=99), "not known here"),
    "a later format": (lambda d: d.update(schema_version={"major": 9, "minor": 0}), "schema version"),
    "no signature": (lambda d: d["graph_module"].pop("signature"), "not in order"),
    "fewer inputs": (lambda d: graph(d)["inputs"].pop(), "not in order"),
    "an argument's name with code": (
        lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(forward_arg_names=["x=print(1)"]), "no name",
    ),
    "two arguments of one name": (
        lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(forward_arg_names=["x", "x"]),
        "the same name",
    ),
    "a write to nothing": (
        lambda d: d["graph_module"]["signature"]["output_specs"].__setitem__(
            0, {"buffer_mutation": {"arg": {"name": "linear"}, "buffer_name": "nothing"}}
        ),
        "writes to 'nothing'",
    ),
    "inputs in another order": (
        lambda d: d["graph_module"]["signature"]["input_specs"].reverse(),
        "not those of its signature|not in order",
    ),
    "a class for a structure": (
        lambda d: d["graph_module"]["module_call_graph"][0]["signature"].update(
            out_spec=json.dumps([1, {"type": "os.system", "context": "null", "children_spec": []}])
        ),
        "(?i)no class is registered|not in order",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def archive():
    return saved(torch.export.export(nn.Linear(2, 3), (torch.ones(4, 2),)))


@pytest.mark.parametrize("what", CHANGES)
def test_hostile_programs_are_refused(archive, what):
    change, text = CHANGES[what]
    with pytest.raises((RuntimeError, NotImplementedError), match=text):
        torch.export.load(changed(archive, change))


@pytest.mark.parametrize(
    "meta",
    [
        {"sizes": [{"as_int": 100}, {"as_int": 2}]}, {"strides": [{"as_int": 1000}, {"as_int": 1}]}, {"storage_offset": {"as_int": 50}},
        {"strides": [{"as_int": -1}, {"as_int": 1}]}, {"sizes": [{"as_int": 6}]},
    ],
)  # fmt: skip
def test_weights_stay_inside_of_their_bytes(archive, meta):
    def change(data):
        data["config"]["weight"]["tensor_meta"].update(meta)

    with pytest.raises(RuntimeError, match=r"too few|size"):
        torch.export.load(changed(archive, change, "model_weights_config.json"))


def test_missing_weights_and_other_files_are_refused(archive, tmp_path):
    with pytest.raises(RuntimeError, match="no tensor for 'weight'"):
        torch.export.load(changed(archive, lambda d: d["config"].pop("weight"), "model_weights_config.json"))
    for n in (0, 10, len(archive) // 2, len(archive) - 30):
        with pytest.raises(RuntimeError):
            torch.export.load(io.BytesIO(archive[:n]))
    torch.save({"a": torch.ones(1)}, tmp_path / "a.pt")
    with pytest.raises(RuntimeError, match=r"no \.pt2 archive"):
        torch.export.load(tmp_path / "a.pt")


def test_graphs_inside_of_pytorchs_programs_are_read():
    ep = torch.export.load(RECORDED / "branches.pt2")
    weight, module = torch.tensor([1.0, 2.0]), ep.module()
    for n, sign in ((4, 1), (5, -1)):
        x, y = torch.ones(n, 2) * sign, torch.ones(2 * n)
        first, second, third, half = module(x, y)
        assert torch.equal(first, x * weight + weight) and torch.equal(second, x + sign) and half == n
        assert torch.equal(third, y * (2 if n > 4 else 3) + x.reshape(-1))
    first.sum().backward()  # no history came from what was computed without one
    assert module.weight.grad.tolist() == [5.0, 5.0]
    with pytest.raises(AssertionError, match="Guard failed"):
        module(torch.ones(4, 2), torch.ones(9))
    assert torch.export.load(io.BytesIO(saved(ep))).graph_module.code == ep.graph_module.code


def test_blocks_of_autocast_in_pytorchs_programs_are_read():
    ep = torch.export.load(RECORDED / "autocast.pt2")
    weight, bias, scale, shift = ep.state_dict.values()
    x = torch.randn(3, 3)
    for program in (ep, torch.export.load(io.BytesIO(saved(ep)))):
        few, normed, joined, shares = program.module()(x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = nn.functional.linear(x, weight, bias)
            assert torch.equal(few, y) and torch.equal(shares, torch.softmax(y @ y, -1)) and few.dtype is torch.bfloat16
        wide = nn.functional.linear(x, weight, bias)
        assert torch.equal(joined, torch.cat([y.float(), wide]))
        torch.testing.assert_close(normed, nn.functional.layer_norm(wide, (3,), scale, shift))
