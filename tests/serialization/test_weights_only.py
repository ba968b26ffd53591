"""Loading weights never runs what a file says, refuses what it does not know, and allocates nothing that is not there."""

import io
import os
import pickle
import struct
import types
from collections import OrderedDict

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn
from flambeau._serialization.archive import Writer

SERIALIZATION = torch.serialization
EXECUTED = []


def remember(*args):
    EXECUTED.append(args)
    return args


class Trap:
    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


class Settings:
    def __init__(self, value=0):
        self.value = value


class Careful:
    def __setstate__(self, state):
        remember(state)


def archive(content, data=()):
    """A checkpoint with any bytes as its pickle."""
    file = io.BytesIO()
    writer = Writer(file.write, "archive")
    writer.record("data.pkl", content)
    for i, values in enumerate(data):
        writer.record(f"data/{i}", values)
    writer.finish()
    file.seek(0)
    return file


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


@pytest.fixture(autouse=True)
def nothing_runs():
    EXECUTED.clear()
    yield
    SERIALIZATION.clear_safe_globals()


def name(module, what):
    return f"c{module}\n{what}\n".encode()


MODULE = __name__
ATTACKS = {
    "reduce": name("os", "system") + b"X\x04\0\0\0true\x85R.",
    "posix": name("posix", "system") + b"X\x04\0\0\0true\x85R.",
    "eval": name("builtins", "eval") + b"X\x03\0\0\01+1\x85R.",
    "eval in Python 2": name("__builtin__", "eval") + b"X\x03\0\0\01+1\x85R.",
    "own function": name(MODULE, "remember") + b")R.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "nested names": b"\x80\x04\x8c\x05torch\x8c\x14serialization.pickle\x93)R.",
    "module of ours": name("torch.serialization", "os") + b")R.",
    "getattr": name("builtins", "getattr") + name("torch", "Tensor") + b"X\x03\0\0\0new\x86R.",
    "inst": b"(i" + name(MODULE, "remember")[1:] + b".",
    "obj": b"(" + name(MODULE, "remember") + b"o.",
    "newobj": name(MODULE, "Careful") + b")\x81}b.",
    "newobj_ex": b"\x80\x04" + name(MODULE, "Careful") + b")}\x92.",
    "build": name("collections", "OrderedDict") + b")RNb.",
    "build of a class": name("torch", "Tensor") + b"}X\x03\0\0\0newNsb.",
    "ext1": b"\x82\x01.",
    "ext2": b"\x83\x01\x00.",
    "ext4": b"\x84\x01\0\0\0.",
    "next buffer": b"\x80\x05\x97.",
    "calling a tensor class": name("torch", "FloatTensor") + b"K\x0a\x85R.",
    "calling a storage class": name("torch", "FloatStorage") + b"K\x0a\x85R.",
    "calling a dtype": name("torch", "float32") + b")R.",
    "calling data": b"]K\x01\x85R.",
    "type from rebuild": name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("builtins", "set")
    + name("torch", "Tensor") + b")NtR.",
    "class that is none": name("torch._tensor", "_rebuild_from_type_v2") + b"(" + name("torch._utils", "_rebuild_tensor_v2")
    + name("collections", "OrderedDict") + b")NtR.",
    "codec": name("_codecs", "encode") + b"X\x01\0\0\0aX\x05\0\0\0rot13\x86R.",
}  # fmt: skip


@pytest.mark.parametrize("content", ATTACKS.values(), ids=ATTACKS)
def test_attacks(content):
    with pytest.raises(pickle.UnpicklingError, match="Weights only load failed"):
        torch.load(archive(content))
    assert not EXECUTED


@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}])
@pytest.mark.parametrize("function", [os.system, eval, getattr, remember, __import__, print, np.load, pickle.loads])
def test_functions_in_files(function, options):
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved([Trap(function, "x", "y")], **options))
    assert not EXECUTED


def test_the_message_helps():
    with pytest.raises(pickle.UnpicklingError) as caught:
        torch.load(saved(Settings()))
    for part in (f"{MODULE}.Settings", "add_safe_globals", "weights_only=False"):
        assert part in str(caught.value)


def test_declared_safe():
    with SERIALIZATION.safe_globals([Settings]):
        assert torch.load(saved(Settings(3))).value == 3
    with pytest.raises(pickle.UnpicklingError):
        torch.load(saved(Settings()))
    SERIALIZATION.add_safe_globals([Settings, (remember, "elsewhere.function")])
    assert SERIALIZATION.get_safe_globals() == [Settings, (remember, "elsewhere.function")]
    assert torch.load(saved([Settings(4)], pickle_protocol=5))[0].value == 4
    assert torch.load(archive(name("elsewhere", "function") + b"K\x05\x85R.")) == (5,)
    SERIALIZATION.clear_safe_globals()
    assert SERIALIZATION.get_safe_globals() == []
    with pytest.raises(TypeError):
        SERIALIZATION.add_safe_globals([3])


def test_some_names_are_never_safe():
    SERIALIZATION.add_safe_globals([os.system, eval])
    for trap in (Trap(os.system, "true"), Trap(eval, "1")):
        with pytest.raises(pickle.UnpicklingError, match="blocked"):
            torch.load(saved(trap))


def test_numpy_numbers_if_declared():
    value = np.float64(2.5)
    with pytest.raises(pickle.UnpicklingError, match="numpy"):
        torch.load(saved(value))
    with SERIALIZATION.safe_globals([np._core.multiarray.scalar, np.dtype, np.dtypes.Float64DType]):
        assert torch.load(saved(value)) == 2.5


@pytest.mark.parametrize("options", [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}])
def test_unsafe_names_are_listed(options):
    things = [Settings(), Trap(remember), OrderedDict(a=torch.ones(1)), torch.nn.Parameter(torch.ones(1)), {1}]
    listed = SERIALIZATION.get_unsafe_globals_in_checkpoint(saved(things, **options))
    assert sorted(listed) == sorted({f"{MODULE}.Settings", f"{MODULE}.remember"})
    assert not EXECUTED


def test_errors_of_declared_classes_are_passed_on():
    with SERIALIZATION.safe_globals([Careful]):
        torch.load(archive(name(MODULE, "Careful") + b")\x81K\x07b."))
        assert EXECUTED == [(7,)]
    with SERIALIZATION.safe_globals([(struct.unpack, "x.y")]), pytest.raises(struct.error):
        torch.load(archive(name("x", "y") + b"X\x02\0\0\0<iC\x01a\x86R."))


# -- sizes -------------------------------------------------------------------------------------------------------


def tensor(count=4, offset=0, size=(4,), stride=(1,), key="0", function="_rebuild_tensor_v2"):
    """A checkpoint of one tensor with any geometry over four numbers."""
    content = pickle.dumps(("storage", None, key, "cpu", count), 2)[2:-1]
    content = content.replace(b"N", name("torch", "FloatStorage"), 1)
    parts = [pickle.dumps(part, 2)[2:-1] for part in (offset, size, stride, False)]
    body = name("torch._utils", function) + b"(" + content + b"Q" + b"".join(parts) + b"}tR."
    return archive(b"\x80\x02" + body, [np.arange(4, dtype=np.float32).tobytes()])


def test_a_sound_tensor():
    assert torch.load(tensor()).tolist() == [0, 1, 2, 3]
    assert torch.load(tensor(size=(2,), stride=(2,), offset=1)).tolist() == [1, 3]


@pytest.mark.parametrize(
    "wrong",
    [
        {"size": (5,)}, {"offset": 1}, {"offset": -1, "size": (1,)}, {"size": (2,), "stride": (-1,), "offset": 3},
        {"size": (-4,)}, {"size": (2, 2)}, {"size": (1 << 62, 1 << 62), "stride": (1, 1)}, {"offset": 1 << 80},
        {"size": (2.0,)}, {"size": (True,)}, {"size": "4"}, {"count": 5}, {"count": 1 << 61}, {"count": -1}, {"count": 4.0},
        {"key": "1"}, {"key": "../0"}, {"key": 0}, {"size": (3,), "stride": (1 << 62,)}, {"size": (None,)},
    ],
    ids=str,
)  # fmt: skip
def test_impossible_geometry(wrong):
    with pytest.raises((RuntimeError, pickle.UnpicklingError)):
        torch.load(tensor(**wrong))
    with pytest.raises((RuntimeError, pickle.UnpicklingError, AttributeError, TypeError, ValueError)):
        torch.load(tensor(**wrong), weights_only=False)


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8e" + struct.pack("<Q", 1 << 60) + b"x.",  # bytes longer than the file
        b"X\xff\xff\xff\x7fabc.", b"\x8b\xff\xff\xff\x7f\x01.", b"\x95" + b"\xff" * 8 + b".",
        name("builtins", "bytearray") + b"J\xff\xff\xff\x7f\x85R.",  # a number would be a size
        b"r\xff\xff\xff\xff.", b"j\xff\xff\xff\xff.", b"h\x01.", b"0.", b"1.", b".", b"t.", b"(", b"\x80\xff.", b"]K\x01e.",
        b"(K\x01d.", b"}(K\x01u.", b"}]K\x01s.", b"Q.", b"K\x01Q.", b"\xff.", b"c\xff\n\n.", b"cno newline.",
    ],
)  # fmt: skip
def test_malformed_pickles(content):
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        torch.load(archive(content))


def test_keys_cannot_exhaust_the_stack_or_time():
    deep = b"})" + b"\x85" * 100_000 + b"Ns."
    woven = b"})" + b"".join(b"q%c0h%ch%c\x86" % (i, i, i) for i in range(60)) + b"Ns."
    for content in (deep, woven, name("builtins", "set") + b"](" + woven[1:-2] + b"e\x85R."):
        with pytest.raises(pickle.UnpicklingError, match="too large"):
            torch.load(archive(content))
    assert torch.load(archive(b"}K\x01)\x85\x86K\x02s.")) == {(1, ((),)): 2}


def test_old_strings():
    content = b"\x80\x02U\x03\xe9bcq\x00."
    with pytest.raises(pickle.UnpicklingError):
        torch.load(archive(content))
    assert torch.load(archive(content), encoding="latin1") == "ébc"
    assert torch.load(archive(content), encoding="bytes") == b"\xe9bc"
    with pytest.raises(TypeError):
        torch.load(archive(content), fix_imports=True)


def test_sparse_tensors_are_checked():
    good = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,))
    good._array.index[0, 1] = 7  # beyond the size
    with pytest.raises(RuntimeError, match="index"):
        torch.load(saved(good))
    rows = torch.eye(2).to_sparse_csr()
    rows._array.index[0][1] = 9
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        with pytest.raises(RuntimeError, match="indices"):
            torch.load(saved(rows, **options))


def test_pickle_modules():
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(saved(1), pickle_module=pickle, weights_only=True)
    assert torch.load(saved(Settings(2)), pickle_module=pickle).value == 2


class _Quick(pickle.Pickler):
    pass


class _InPython(pickle._Pickler):
    pass


@pytest.mark.parametrize("pickler", [_Quick, _InPython])
@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
def test_other_pickle_modules(pickler, options):
    module = types.SimpleNamespace(Pickler=pickler, Unpickler=pickle.Unpickler)
    x = torch.arange(3.0)
    whole, part, parameter = torch.load(saved([x, x[1:], torch.nn.Parameter(x)], pickle_module=module, **options))
    assert part.storage_offset() == 1 and whole.tolist() == [0, 1, 2] and parameter.requires_grad
    assert torch.load(saved(Settings(3), pickle_module=module, **options), pickle_module=module).value == 3


# -- states and types that do not fit ----------------------------------------------------------------------------


class Labelled(torch.Tensor):
    __slots__ = ("label",)
    note = "of the class"


def _typed(state, kind=torch.Tensor):
    """A checkpoint of a tensor of a class with any state."""

    class Pickled:
        def __reduce__(self):
            rebuild, args = torch.ones(3).__reduce_ex__(2)
            return torch._tensor._rebuild_from_type_v2, (rebuild, kind, args, state)

    return saved(Pickled())


@pytest.mark.parametrize("name", ["dtype", "_array", "_k", "_storage", "__class__", "__reduce_ex__", "stride", "data"])
@pytest.mark.parametrize("form", [lambda d: d, lambda d: (None, d), lambda d: (d, None)])
def test_states_do_not_replace_what_tensors_have(name, form):
    for kind in (torch.Tensor, torch.nn.Parameter):
        with pytest.raises(pickle.UnpicklingError, match=r"slots that|have themselves"):
            torch.load(_typed(form({name: 3}), kind))


@pytest.mark.parametrize("attribute", ["dtype", "__class__", "stride"])
def test_built_states_do_not_replace_what_objects_have(attribute):
    """The same by the machine's own operation BUILD."""
    text = attribute.encode()
    state = b"}X" + struct.pack("<I", len(text)) + text + b"K\x03sb."
    tensor = (
        name("torch._utils", "_rebuild_meta_tensor_no_storage")
        + b"("
        + name("torch", "float32")
        + b"K\x02\x85K\x01\x85\x89tR"
    )
    with pytest.raises(pickle.UnpicklingError, match="have themselves"):
        torch.load(archive(tensor + state))
    table = name("collections", "OrderedDict") + b")R"
    with pytest.raises(pickle.UnpicklingError, match="have themselves"):
        torch.load(
            archive(table + state.replace(text, b"__reduce__").replace(struct.pack("<I", len(text)), b"\x0a\0\0\0"))
        )


def test_attributes_and_slots_of_subclasses_load():
    with SERIALIZATION.safe_globals([Labelled]):
        found = torch.load(_typed(({"note": "mine", "_is_param": True}, {"label": 5}), Labelled))
        assert (found.note, found.label, found._is_param) == ("mine", 5, True)
        with pytest.raises(pickle.UnpicklingError):
            torch.load(_typed((None, {"note": 5}), Labelled))
    found = torch.load(_typed({"kept": [1, 2]}))
    assert found.kept == [1, 2]


def _rebuilt(function, *args):
    class Pickled:
        def __reduce__(self):
            return getattr(torch._utils, function), args

    return saved(Pickled())


STORAGE = torch.ones(4).storage()


@pytest.mark.parametrize("function, args", [
    ("_rebuild_tensor_v2", (3, 0, (2,), (1,), False, {})),
    ("_rebuild_tensor_v2", (STORAGE, 0.0, (2,), (1,), False, {})),
    ("_rebuild_tensor_v2", (STORAGE, 0, torch.ones(2), (1, 1), False, {})),
    ("_rebuild_tensor_v2", (STORAGE, 0, (2**62, 4), (0, 1), False, 5)),
    ("_rebuild_tensor_v2", (STORAGE, 0, (2,), (1,), None, {})),
    ("_rebuild_tensor_v2", (STORAGE, 0, (2,), (1,))),
    ("_rebuild_tensor_v3", (STORAGE.untyped(), 0, (2,), (1,), False, {}, torch.Size)),
    ("_rebuild_tensor_v3", (STORAGE.untyped(), 0, (2,), (1,), False, {}, 7)),
    ("_rebuild_meta_tensor_no_storage", ("float32", (2,), (1,), False)),
    ("_rebuild_parameter", ([1.0], True, {})),
    ("_rebuild_sparse_tensor", (3, (torch.zeros(1, 1), torch.ones(1), (2,)))),
    ("_rebuild_sparse_tensor", (torch.sparse_coo, (torch.zeros(1, 1, dtype=torch.int64), 5, (2,)))),
])  # fmt: skip
def test_arguments_of_wrong_types(function, args):
    with pytest.raises(pickle.UnpicklingError):
        torch.load(_rebuilt(function, *args))


def test_indices_of_sparse_tensors_share_no_memory():
    """A dense tensor of the same file over the memory of the indices cannot move them outside."""
    places = torch.tensor([[0, 1, 3]])
    values = torch.ones(3)

    class Pickled:
        def __reduce__(self):
            return torch._utils._rebuild_sparse_tensor, (torch.sparse_coo, (places, values, (4,), True))

    found = torch.load(saved([places, Pickled()]))
    found[0].fill_(10**9)
    assert found[1].to_dense().tolist() == [1.0, 1.0, 0.0, 1.0]


def test_one_long_list_is_not_copied_without_end():
    """Each call copies the list: a file of some kilobytes would fill gigabytes."""
    count = 20_000
    text = b"\x80\x02X" + struct.pack("<I", count) + b"a" * count + b"q\x000]("
    with pytest.raises(pickle.UnpicklingError, match="far larger objects"):
        torch.load(archive(text + (name("_codecs", "encode") + b"h\x00\x85R") * 2000 + b"e."))


def test_parts_of_storages_in_the_old_format_are_described():
    from flambeau._serialization.legacy import _LegacyStorages
    from flambeau._serialization.loading import Reading

    storages = _LegacyStorages(100, Reading(None, None, True, {}))
    for view in (3, "name", torch.Tensor, ("name", 0), (None, 0, 1), ("name", 0, 5), ("name", -1, 1), ("name", 0.0, 1)):
        with pytest.raises(pickle.UnpicklingError):
            storages.find(("storage", torch.FloatStorage, "0", "cpu", 4, view))
    assert len(storages.find(("storage", torch.FloatStorage, "0", "cpu", 4, ("name", 1, 2)))) == 2


@pytest.mark.parametrize(
    "mark, dtype", [("conj", torch.float32), ("conj", torch.int64), ("neg", torch.int64), ("neg", torch.bool)]
)
def test_marks_that_a_dtype_cannot_have(mark, dtype):
    storage = torch.ones(4, dtype=dtype).storage()
    with pytest.raises((RuntimeError, pickle.UnpicklingError), match="cannot be"):
        torch.load(_rebuilt("_rebuild_tensor_v2", storage, 0, (2,), (1,), False, {}, {mark: True}))


def test_conjugates_load():
    x = torch.tensor([1 + 2j, 3 - 1j])
    found = [torch.load(saved(part)) for part in (x.conj(), x.conj().imag)]
    assert found[0].tolist() == [1 - 2j, 3 + 1j] and found[1].tolist() == [-2.0, 1.0]


class Pair(torch.Tensor):
    """Keeps things of its own under names that tensors have methods for."""

    @staticmethod
    def __new__(cls, t, diag):
        return torch.Tensor._make_subclass(cls, t)

    def __init__(self, t, diag):
        self.t, self.diag = t, diag


def test_declared_classes_may_name_their_attributes_as_they_like():
    things = {"x": Pair(torch.ones(2), 3), "p": nn.Parameter(Pair(torch.zeros(2), 0))}
    things["p"].__init__(torch.zeros(2), 4)
    file = saved(things)
    with SERIALIZATION.safe_globals([Pair]):
        found = torch.load(file)
    assert [(type(t), t.t.tolist(), t.diag) for t in found.values()] == [(Pair, [1, 1], 3), (Pair, [0, 0], 4)]
