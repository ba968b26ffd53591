"""What is saved is loaded again, in every format; files that PyTorch wrote load, too."""

import io
import pickle
import struct
import zipfile
from collections import Counter, OrderedDict
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch

DATA = Path(__file__).parent / "data"
FORMATS = [{}, {"pickle_protocol": 4}, {"pickle_protocol": 5}, {"_use_new_zipfile_serialization": False}]
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2",
]  # fmt: skip


class Marked(torch.Tensor):
    pass


class Point:
    def __init__(self, x):
        self.x = x


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def again(obj, weights_only=True, **options):
    return torch.load(saved(obj, **options), weights_only=weights_only)


# -- round trips -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", FORMATS)
def test_views_share_memory_and_keep_strides(options):
    x = torch.arange(12.0).reshape(3, 4)
    whole, row, turned, steps = again([x, x[1], x.t(), x[:, ::2]], **options)
    row[0] = 100
    assert whole[1, 0] == 100 and turned[0, 1] == 100 and steps[1, 0] == 100
    assert turned.stride() == (1, 4) and steps.stride() == (4, 2) and row.storage_offset() == 4
    assert again(torch.ones(3).expand(2, 3)).stride() == (0, 1)


@pytest.mark.parametrize("options", FORMATS)
@pytest.mark.parametrize("name", [*DTYPES, "complex32"])
def test_dtypes(name, options):
    x = torch.arange(8, dtype=torch.uint8).view(getattr(torch, name)) if name not in ("bool", "complex128") else (
        torch.tensor([1, 0]).to(getattr(torch, name)))  # fmt: skip
    y = again(x, **options)
    assert y.dtype is x.dtype and y._array.tobytes() == x._array.tobytes()


@pytest.mark.parametrize("options", FORMATS)
def test_tensors_of_all_kinds(options):
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.tag = "kept"
    noted = torch.arange(3)
    noted.note = [1]
    leaf = torch.ones(2, requires_grad=True)
    things = [torch.tensor(3.0), torch.zeros(0, 3), parameter, noted, leaf, torch.empty(2, device="meta")]
    scalar, empty, p, n, leaf, meta = again(things, **options)
    assert scalar.shape == () and scalar == 3 and empty.shape == (0, 3)
    assert type(p) is torch.nn.Parameter and p.requires_grad and p.tag == "kept"
    assert n.note == [1] and leaf.requires_grad and leaf.is_leaf and meta.is_meta
    assert not again(torch.nn.Parameter(torch.ones(2), requires_grad=False), **options).requires_grad
    assert again(torch.nn.Buffer(torch.ones(2)), **options).persistent
    marked = again(torch.ones(2).as_subclass(Marked), weights_only=False, **options)
    assert type(marked) is Marked


@pytest.mark.parametrize("options", FORMATS)
def test_sparse(options):
    full = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    kinds = [full.to_sparse(), full.to_sparse_csr(), full.to_sparse_csc(), full.to_sparse_bsr((1, 2))]
    for x, y in zip(kinds, again(kinds, **options)):
        assert y.layout is x.layout and torch.equal(y.to_dense(), full)
    twice = torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
    assert not again(twice, **options).is_coalesced()


@pytest.mark.parametrize("options", FORMATS)
def test_plain_data(options):
    things = {
        "numbers": [1, -2, 10**40, 2.5, 1 + 2j, True, None], "text": "é", "bytes": b"\0\xff", "array": bytearray(b"ab"),
        "set": {1, 2}, "counter": Counter("aab"), "ordered": OrderedDict(b=1, a=2), (1, "key"): (1, (2,)),
        "ours": [torch.float32, torch.device("cuda:1"), torch.Size([1, 2]), torch.strided],
    }  # fmt: skip
    made = again(things, **options)
    assert made == things
    assert type(made["ours"][2]) is torch.Size and type(made["ordered"]) is OrderedDict
    state = OrderedDict(a=1)
    state._metadata = {"version": 2}
    assert again(state, **options)._metadata == {"version": 2}


@pytest.mark.parametrize("options", FORMATS)
def test_storages(options):
    x = torch.arange(3)
    typed, untyped = again([x.storage(), torch.ones(1).untyped_storage()], **options)
    assert typed.dtype is torch.int64 and typed.tolist() == [0, 1, 2] and untyped.tolist() == [0, 0, 128, 63]


@pytest.mark.parametrize("options", FORMATS)
def test_any_object_without_weights_only(options):
    point, function, kind, array = again(
        [Point(torch.ones(2)), torch.relu, torch.nn.Parameter, np.arange(3)], False, **options
    )
    assert (
        point.x.tolist() == [1, 1]
        and function is torch.relu
        and kind is torch.nn.Parameter
        and array.tolist() == [0, 1, 2]
    )
    generator = torch.Generator().manual_seed(5)
    assert torch.equal(torch.rand(3, generator=again(generator, False, **options)), torch.rand(3, generator=generator))


def test_the_same_memory_in_two_dtypes_is_refused():
    x = torch.zeros(2)
    with pytest.raises(RuntimeError, match="different types"):
        saved([x, x.view(torch.int32)])


def test_hooks_are_not_saved():
    x = torch.ones(2, requires_grad=True)
    x.register_hook(lambda g: g)
    with pytest.warns(UserWarning, match="hook"):
        assert again(x).requires_grad
    assert again(torch.ones(2, requires_grad=True) * 2).is_leaf


def test_text_that_looks_like_a_name():
    tricky = "cflambeau._copying\n_rebuild_tensor_v2\n"
    made = again({"text": tricky, "x": torch.ones(1)})
    assert made["text"] == tricky and made["x"] == 1


# -- files -------------------------------------------------------------------------------------------------------


def test_paths_and_file_objects(tmp_path):
    path = tmp_path / "model.v1.pt"
    for f in (path, str(path)):
        torch.save({"a": 1}, f)
        assert torch.load(f) == {"a": 1}
    with open(path, "rb") as file:
        assert torch.load(file) == {"a": 1}
    assert zipfile.ZipFile(path).namelist() == [
        "model.v1/" + name
        for name in (
            "data.pkl",
            ".format_version",
            ".storage_alignment",
            "byteorder",
            "version",
            ".data/serialization_id",
        )
    ]


@pytest.mark.parametrize("options", [FORMATS[0], FORMATS[3]])
def test_several_in_one_stream(options):
    file = io.BytesIO(b"something before")
    file.seek(0, io.SEEK_END)
    start = file.tell()
    for i in range(3):
        torch.save(torch.full((i + 1,), float(i)), file, **options)
    file.seek(start)
    assert [torch.load(file).tolist() for _ in range(3)] == [[0.0], [1.0, 1.0], [2.0, 2.0, 2.0]]


class Slow:
    """A file object that can do no more than it must, and gives a few bytes at a time."""

    def __init__(self, data):
        self.file = io.BytesIO(data)
        self.seek, self.tell, self.readline = self.file.seek, self.file.tell, self.file.readline

    def read(self, count=-1):
        return self.file.read(min(count, 70_000) if count >= 0 else -1)


def test_files_that_give_less_than_they_are_asked_for():
    x = torch.arange(100_000)
    data = saved({"x": x, "y": x[::2]}).getvalue()
    made = torch.load(Slow(data))
    assert torch.equal(made["x"], x) and torch.equal(made["y"], x[::2])
    with pytest.raises((RuntimeError, EOFError)):
        torch.load(Slow(data[: len(data) // 2]))


def test_only_write_is_needed():
    class Sink:
        parts = []

        def write(self, data):
            self.parts.append(data)

    torch.save(torch.zeros(100_000), Sink())
    assert all(type(part) is bytes for part in Sink.parts)
    assert torch.load(io.BytesIO(b"".join(Sink.parts))).shape == (100_000,)


def test_archives_are_sound_zip_files():
    file = saved({"a": torch.arange(100.0), "b": torch.arange(5)})
    archive = zipfile.ZipFile(file)
    assert archive.testzip() is None
    assert archive.read("archive/data/1") == np.arange(5).tobytes()
    for info in archive.infolist():  # the data of every record is aligned
        raw = file.getvalue()
        names, extra = struct.unpack_from("<2H", raw, info.header_offset + 26)
        assert (info.header_offset + 30 + names + extra) % 64 == 0


def test_wrong_arguments(tmp_path):
    with pytest.raises(AttributeError, match="write"):
        torch.save(1, 5)
    with pytest.raises(AttributeError, match="seek"):
        torch.load(5)
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")
    with pytest.raises(RuntimeError, match="directory"):
        torch.save(1, tmp_path / "none" / "x.pt")
    with pytest.raises(RuntimeError, match="directory"):
        torch.save(1, tmp_path)
    with pytest.raises(EOFError):
        torch.load(io.BytesIO())
    with pytest.raises(pickle.UnpicklingError):
        torch.load(io.BytesIO(b"hello, this is no checkpoint"))
    with pytest.raises(TypeError):
        torch.load(io.StringIO("text"))


# -- files of PyTorch --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["state_dict.pt", "state_dict_legacy.pt"])
@pytest.mark.parametrize("weights_only", [True, False])
def test_state_of_a_module(name, weights_only):
    state = torch.load(DATA / name, weights_only=weights_only)
    assert type(state) is OrderedDict and state._metadata[""] == {"version": 1}
    assert state["0.weight"].tolist() == [[0, 1, 2], [3, 4, 5]] and state["0.bias"].tolist() == [0.5, -0.5]
    assert state["1.num_batches_tracked"].dtype is torch.int64 and state["1.num_batches_tracked"] == 0


def test_whole_module():
    model = torch.load(DATA / "module.pt", weights_only=False)
    assert type(model[0]) is torch.nn.Linear and model.training
    assert model.eval()(torch.ones(1, 3)).shape == (1, 2)
    assert torch.equal(again(model, False)[0].weight, model[0].weight)


def test_shared_memory():
    made = torch.load(DATA / "shared.pt")
    made["row"][0] = 100
    assert made["whole"][1, 0] == 100 and made["turned"].stride() == (1, 4)
    assert type(made["parameter"]) is torch.nn.Parameter and made["parameter"].tolist() == [8, 9, 10, 11]


def test_dtypes_of_pytorch():
    made = torch.load(DATA / "dtypes.pt")
    assert list(made) == DTYPES
    for name, x in made.items():
        assert x.dtype is getattr(torch, name)
        assert x.to(torch.float32 if not x.is_complex() else x.dtype).tolist() == [
            0,
            1,
            1 if name == "bool" else 2,
            1 if name == "bool" else 3,
        ]


def test_unusual_tensors():
    coo, csr, bsr, conjugate, meta = torch.load(DATA / "unusual.pt")
    assert (
        coo.is_coalesced() and torch.equal(coo.to_dense(), torch.eye(3)) and torch.equal(csr.to_dense(), torch.eye(3))
    )
    assert torch.equal(bsr.to_dense(), torch.eye(4)) and conjugate.tolist() == [1 - 2j] and meta.is_meta
    coo, conjugate = torch.load(DATA / "unusual_legacy.pt")
    assert torch.equal(coo.to_dense(), torch.eye(3)) and conjugate.tolist() == [1 - 2j]


def test_state_of_an_optimizer():
    state = torch.load(DATA / "optimizer.pt")
    assert state["param_groups"][0]["betas"] == (0.9, 0.999) and state["state"][0]["step"] == 1
    assert state["state"][0]["exp_avg"].shape == (2, 3)


def test_attributes_and_generators():
    parameter, noted, buffer = torch.load(DATA / "attributes.pt")
    assert parameter.tag == "kept" and noted.note == {"k": [1, 2]} and buffer.persistent
    generator = torch.load(DATA / "generator.pt", weights_only=False)
    drawn = [round(v, 4) for v in torch.rand(3, generator=generator).tolist()]
    assert drawn == [0.8303, 0.1261, 0.9075]


def rewritten(content, leave_out=(), change=None):
    """An archive with some records left out or changed, written by another program."""
    old, made = zipfile.ZipFile(io.BytesIO(content)), io.BytesIO()
    with zipfile.ZipFile(made, "w") as new:
        for name in old.namelist():
            if name.partition("/")[2] not in leave_out:
                data = old.read(name)
                new.writestr(name, change(name, data) if change else data)
    made.seek(0)
    return made


@pytest.mark.parametrize(
    "missing",
    [
        ("byteorder", ".format_version", ".storage_alignment", ".data/serialization_id"),  # up to 1.13
        (".format_version", ".storage_alignment", ".data/serialization_id"),  # 2.0
        (".format_version", ".storage_alignment"),  # up to 2.6
    ],
)
def test_archives_of_older_versions(missing):
    state = torch.load(rewritten((DATA / "state_dict.pt").read_bytes(), missing))
    assert state["0.weight"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_other_byte_order():
    def turned(name, data):
        if name.endswith("byteorder"):
            return b"big"
        return np.frombuffer(data, "<f4").astype(">f4").tobytes() if "/data/" in name else data

    x = torch.tensor([1.0, 2.5])
    assert torch.load(rewritten(saved(x).getvalue(), change=turned)).tolist() == [1, 2.5]
    with pytest.raises(ValueError, match="byte order"):
        torch.load(
            rewritten(saved(x).getvalue(), change=lambda name, data: b"odd" if name.endswith("byteorder") else data)
        )


def test_programs_and_future_versions_are_refused():
    content = saved(1).getvalue()
    with pytest.raises(RuntimeError, match="version"):
        torch.load(rewritten(content, change=lambda name, data: b"99" if name.endswith("/version") else data))
    made = rewritten(content)
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("archive/constants.pkl", b"")
    made.seek(0)
    with pytest.raises(RuntimeError, match="TorchScript"):
        torch.load(made)


class _OldPickler(pickle.Pickler):
    """Refers to classes of modules with their source, as the old format did, at the first time."""

    told = False

    def persistent_id(self, obj):
        if obj is not Point or self.told:
            return None
        self.told = True
        return ("module", obj, "file.py", "class Point: pass")


def test_old_format_with_sources_of_classes():
    file = io.BytesIO()
    for value in (torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION, {"little_endian": True}):
        pickle.dump(value, file, 2)
    _OldPickler(file, 2).dump(Point(3))
    pickle.dump([], file, 2)
    file.seek(0)
    with pytest.warns(torch.serialization.SourceChangeWarning):
        assert torch.load(file, weights_only=False).x == 3


def test_oldest_format():
    """A tar archive: storages, tensors and a pickle that names tensors by number."""
    import tarfile

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            return "7" if obj == "the tensor" else None

    class Names(pickle._Pickler):
        def save_global(self, obj, name=None):
            self.write(b"ctorch\n%s\n" % obj.__name__.encode())

        dispatch = {**pickle._Pickler.dispatch, type: save_global}

    def described(*value):
        made = io.BytesIO()
        Names(made, 2).dump(value)
        return made.getvalue()

    storage_class = type("FloatStorage", (), {})
    tensor_class = type("FloatTensor", (), {})
    number = lambda n: pickle.dumps(n, 2)
    parts = {
        "storages": number(1)
        + described(5, "cpu", storage_class)
        + struct.pack("<q4f", 4, 1, 2, 3, 4)
        + pickle.dumps([], 2),
        "tensors": number(1) + described(7, 5, tensor_class) + struct.pack("<i4x5q", 2, 1, 2, 2, 1, 1),
    }
    body = io.BytesIO()
    Pickler(body, 2).dump({"x": "the tensor"})
    parts["pickle"] = body.getvalue()
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as tar:
        for name, data in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    file.seek(0)
    assert torch.load(file, weights_only=False)["x"].tolist() == [[2, 3]]
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="weights_only=False"):
        torch.load(file)


def test_functions_and_classes_are_saved_under_pytorchs_names():
    buffer = io.BytesIO()
    torch.save({"function": torch.sigmoid, "module": torch.nn.Sequential(torch.nn.Linear(2, 2))}, buffer)
    buffer.seek(0)
    with zipfile.ZipFile(buffer) as archive:
        data = next(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
    assert b"torch.nn.modules.linear" in data and b"flambeau" not in data


@pytest.mark.parametrize("name", [*DTYPES, "float8_e8m0fnu", "float8_e4m3fnuz"])
def test_single_numbers(name):
    file = io.BytesIO()
    torch.save(torch.tensor(1, dtype=getattr(torch, name)), file)
    file.seek(0)
    loaded = torch.load(file)
    assert loaded.shape == () and loaded.dtype is getattr(torch, name) and loaded.item() == 1
