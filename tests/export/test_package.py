"""Packages: exported programs with their machine code, run without LLVM; what is damaged or for others is refused."""

import io
import json
import os
import platform
import struct
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._command import main as _cli
from flambeau._kernel.building import cpus, elf
from flambeau.export._package import PackageError, load_package, write_package

pytestmark = pytest.mark.skipif(not elf.machine(), reason="packages are made on Linux")

# Runs a package on arrays in a process that cannot load LLVM and has no kernels of its own.
RUN = """
import sys
sys.modules["llvmlite"] = None
import numpy as np
import flambeau as torch
model = torch._inductor.aoti_load_package(sys.argv[1])
given = np.load(sys.argv[2])
for name in [n for n in given if n.startswith("x")]:
    for _ in range(3):
        out = model(torch.from_numpy(given[name]))
    assert not out.requires_grad and np.array_equal(out.numpy(), given["y" + name[1:]]), name
print(len(repr(out)) > 0, [m for m in sys.modules if m.startswith("llvmlite") and sys.modules[m]])
"""


def _without_llvm(tmp_path, package, inputs, outputs):
    arrays = {f"x{i}": x.numpy() for i, x in enumerate(inputs)} | {f"y{i}": y.numpy() for i, y in enumerate(outputs)}
    np.savez(tmp_path / "arrays.npz", **arrays)
    env = {**os.environ, "FLAMBEAU_CACHE_DIR": str(tmp_path / "none")}
    command = [sys.executable, "-c", RUN, str(package), str(tmp_path / "arrays.npz")]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-1500:]
    return done.stdout.strip()


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.last = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Linear(288, 4)

    def forward(self, x):
        return torch.softmax(self.last(torch.relu(self.norm(self.conv(x))).flatten(1)) * 0.5 + 1, 1)


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    return Small().eval()


@pytest.fixture(scope="module")
def package(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("package") / "small.fbo"
    ep = torch.export.export(model, (torch.randn(2, 3, 8, 8),))
    assert torch._inductor.aoti_compile_and_package(ep, package_path=path) == path
    return path


@pytest.mark.slow
def test_packages_run_without_source_and_without_llvm(tmp_path, model, package):
    x = torch.randn(2, 3, 8, 8)
    assert _without_llvm(tmp_path, package, [x], [model(x).detach()]) == "True []"


@pytest.mark.slow
def test_sizes_that_change(tmp_path):
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    ep = torch.export.export(net, (torch.randn(4, 6),), dynamic_shapes=({0: batch},))
    path = tmp_path / "dynamic.fbo"
    torch._inductor.aoti_compile_and_package(ep, package_path=path)
    inputs = [torch.randn(n, 6) for n in (4, 1, 7, 33, 64)]
    assert _without_llvm(tmp_path, path, inputs, [net(x).detach() for x in inputs]) == "True []"
    loaded = torch._inductor.aoti_load_package(path)
    with pytest.raises(AssertionError, match="<= 64"):
        loaded(torch.randn(65, 6))


@pytest.mark.slow
def test_the_command_line(tmp_path, model, capsys):
    torch.export.save(torch.export.export(model, (torch.ones(1, 3, 8, 8),)), tmp_path / "m.pt2")
    cpu = {"x86_64": "x86-64-v2", "aarch64": "generic"}[platform.machine().lower()]
    assert _cli.main(["compile", str(tmp_path / "m.pt2"), "--cpu", cpu]) == 0
    assert "m.fbo made" in capsys.readouterr().out
    x = torch.randn(1, 3, 8, 8)
    out = load_package(tmp_path / "m.fbo")
    assert out.get_metadata()["cpu"] == cpu and torch.allclose(out(x), model(x))
    assert _cli.main(["compile", str(tmp_path / "m.pt2"), "-o", str(tmp_path / "n.fbo"), "--cpu", "z80"]) == 2
    assert "no CPU is known as 'z80'" in capsys.readouterr().err
    assert _cli.main(["compile", str(tmp_path / "nothing.pt2")]) == 2 and not (tmp_path / "n.fbo").exists()


@pytest.mark.slow
def test_code_for_a_cpu_that_cannot_be_run_here(tmp_path, monkeypatch):
    """It is compiled all the same: what runs on the way is made for this CPU."""
    best = {"x86_64": "x86-64-v4", "aarch64": "neoverse-v1"}[platform.machine().lower()]
    if cpus.named(best).words <= cpus.words():
        pytest.skip("this CPU runs whatever has a name")
    path = tmp_path / "m.fbo"
    write_package(torch.export.export(nn.Sequential(nn.Tanh(), nn.Linear(4, 2)), (torch.ones(2, 4),)), path, best)
    with pytest.raises(PackageError, match=f"for the CPU {best}, and this one cannot do"):
        load_package(path)
    with zipfile.ZipFile(path) as archive:
        assert archive.read("m/flambeau/objects")[:4] == b"\x7fELF"


def _changed(package, path, **changes):
    """A package whose manifest says something else."""
    with zipfile.ZipFile(package) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name.endswith("manifest.json"):
                data = json.dumps({**json.loads(data), **changes}).encode()
            new.writestr(name, data)
    return path


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"format": 3}, "of format 3"),
        ({"machine": "riscv64"}, "is for riscv64"),
        ({"python": [3, 99, 16]}, "is for Python 3.99"),
        ({"words": ["asimd", "telepathy"]}, "cannot do.*telepathy"),
        ({"words": 7}, "not in order"),
        ({"checksums": {}}, "not in order"),
        ({"checksums": {"models/model.json": "0", "flambeau/objects": "0"}}, "checksum of models/model.json is false"),
        ({"objects": [["a", 1 << 40]]}, "not where the manifest says"),
        ({"objects": [["a", -1]]}, "not where the manifest says"),
        ({"index": {"a": 5}}, "not in order"),
        ({"cpu": None}, "not in order"),
        ({"index": []}, "not in order"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, package, changes, message):
    with pytest.raises(PackageError, match=message):
        load_package(_changed(package, tmp_path / "other.fbo", **changes))


def test_damaged_packages_are_refused(package):
    content = package.read_bytes()
    for end in range(0, len(content), len(content) // 40):
        with pytest.raises(RuntimeError):
            load_package(io.BytesIO(content[:end]))
    with zipfile.ZipFile(package) as archive:
        read = [i for i in archive.infolist() if i.filename.split("/")[1] in ("models", "data", "flambeau")]
        assert len(read) > 10
        for info in read:  # a byte in the midst of each record
            name, extra = struct.unpack_from("<2H", content, info.header_offset + 26)
            at = info.header_offset + 30 + name + extra + info.file_size // 2
            damaged = content[:at] + bytes([content[at] ^ 64]) + content[at + 1 :]
            with pytest.raises(RuntimeError):
                load_package(io.BytesIO(damaged))


def test_other_files_and_other_ways(tmp_path, package, model):
    torch.export.save(torch.export.export(nn.ReLU(), (torch.ones(2),)), tmp_path / "plain.pt2")
    with pytest.raises(PackageError, match="is no package"):
        load_package(tmp_path / "plain.pt2")
    with pytest.raises(RuntimeError):
        torch.load(package)  # which never runs code of a file
    x = torch.randn(2, 3, 8, 8)
    assert torch.equal(torch.export.load(package).module()(x), model(x))  # the program alone
    with pytest.raises(FileNotFoundError):
        load_package(tmp_path / "nothing.fbo")


@pytest.mark.slow
def test_constants_can_be_replaced(package, model):
    loaded, x = load_package(package), torch.randn(2, 3, 8, 8)
    names = loaded.get_constant_fqns()
    assert "last.bias" in names and "norm.running_mean" in names
    other = Small().eval()
    for _ in range(3):
        assert torch.equal(loaded(x), model(x))
    loaded.load_constants(dict(other.state_dict()), check_full_update=True)
    for _ in range(3):
        assert torch.equal(loaded(x), other(x))
    bias = torch.full((4,), 3.0)
    loaded.load_constants({"last.bias": bias}, check_full_update=False, user_managed=True)
    with torch.no_grad():
        other.last.bias.copy_(bias)
    assert torch.equal(loaded(x), other(x))
    with pytest.raises(RuntimeError, match="there is nothing for"):
        loaded.load_constants({"last.bias": bias}, check_full_update=True)
    with pytest.raises(RuntimeError, match="no constants nowhere"):
        loaded.load_constants({"nowhere": bias}, check_full_update=False)
    with pytest.raises(RuntimeError, match=r"last\.bias is torch\.float32 of size"):
        loaded.load_constants({"last.bias": bias[:2]}, check_full_update=False)


def test_arguments_are_checked(tmp_path):
    ep = torch.export.export(nn.ReLU(), (torch.ones(2),))
    with pytest.raises(ValueError, match="Only ExportedProgram is supported"):
        torch._inductor.aoti_compile_and_package(nn.ReLU())
    with pytest.raises(AssertionError, match="Expect package path"):
        torch._inductor.aoti_compile_and_package(ep, package_path=tmp_path / "m.bin")
    with pytest.raises(AttributeError, match="no options nonsense"):
        torch._inductor.aoti_compile_and_package(ep, inductor_configs={"nonsense": 1})
    with pytest.raises(NotImplementedError, match="device_index"):
        torch._inductor.aoti_load_package("x", device_index=0)


@pytest.mark.slow
def test_graph_modules(tmp_path):
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.Tanh()))
    path = torch._inductor.aot_compile(
        gm, (torch.ones(1, 2),), options={"aot_inductor.output_path": str(tmp_path / "g.fbo")}
    )
    x = torch.randn(1, 2)
    assert path == str(tmp_path / "g.fbo") and torch.allclose(torch._inductor.aoti_load_package(path)(x), gm(x))
