"""What `load` says about files that it refuses, and corners of formats that it accepts."""

import copy
import io
import os
import pickle
import struct
import zipfile
import zoneinfo

import pytest

import flambeau as torch
from flambeau.utils._import_utils import dill_available, import_dill


def saved(value, **options):
    file = io.BytesIO()
    torch.save(value, file, **options)
    return file


def loaded(file, **options):
    file.seek(0)
    return torch.load(file, **options)


def with_pickle(file, change):
    """The archive with another pickle in it."""
    made = io.BytesIO()
    with zipfile.ZipFile(file) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, change(content) if name.endswith("data.pkl") else content)
    return made


class Point:
    pass


class Printing:
    def __reduce__(self):
        return print, ("never",)


def test_names_that_are_not_allowed_are_told_with_the_way_out():
    with pytest.raises(pickle.UnpicklingError) as caught:
        loaded(saved(Point()))
    name = f"{__name__}.Point"
    assert f"Weights only load failed. Unsupported global: GLOBAL {name} was not an allowed global" in str(caught.value)
    assert f"use `torch.serialization.add_safe_globals([{name}])`" in str(caught.value)
    with pytest.raises(pickle.UnpicklingError, match=r"Unsupported global: GLOBAL print was not"):
        loaded(saved(Printing()))
    message = r"GLOBAL posix.getpid whose module posix is blocked"
    with torch.serialization.safe_globals([os.getpid]), pytest.raises(pickle.UnpicklingError, match=message):
        loaded(saved(os.getpid))


def test_methods_may_be_declared_safe():
    file = saved(zoneinfo.ZoneInfo("UTC"))
    message = r"Trying to call .*_unpickle.*zoneinfo.ZoneInfo"
    known = torch.serialization.safe_globals([getattr, zoneinfo.ZoneInfo])
    with known, pytest.raises(pickle.UnpicklingError, match=message):
        loaded(file)
    with torch.serialization.safe_globals([getattr, zoneinfo.ZoneInfo, zoneinfo.ZoneInfo._unpickle]):
        assert loaded(file) is zoneinfo.ZoneInfo("UTC")


def test_operations_of_a_pickle_that_make_no_sense():
    file = saved(torch.zeros(3))
    for operation, name in (
        (b"Kd" + b"G@E" + bytes(6) + b"s", "SETITEM"),
        (b"(Kd" + b"G@E" + bytes(6) + b"u", "SETITEMS"),
    ):
        changed = with_pickle(file, lambda content, operation=operation: content[:-1] + operation + b".")
        with pytest.raises(pickle.UnpicklingError, match=f"Can only {name} for dict"):
            loaded(changed)
    with pytest.raises(
        pickle.UnpicklingError, match="Only persistent_load of storage is allowed, but got <class 'int'>"
    ):
        loaded(with_pickle(file, lambda content: b"\x80\x02K*\x85Q."))


def test_a_record_of_another_size_than_its_storage():
    made = io.BytesIO()
    with zipfile.ZipFile(saved(torch.zeros(10))) as source, zipfile.ZipFile(made, "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, content[:20] if name.endswith("data/0") else content)
    with pytest.raises(RuntimeError, match=r"record size \(20 bytes\) does not match expected size \(40 bytes"):
        loaded(made)


def test_files_that_cannot_be_searched():
    class Stream:
        def read(self, count=-1):
            return b""

    with pytest.raises(AttributeError, match=r"only torch.load from a file that is seekable.*io.BytesIO"):
        torch.load(Stream())


@pytest.mark.parametrize("weights_only", (True, False))
def test_pickles_of_the_oldest_protocol_read_as_bytes(weights_only):
    """Python 2 wrote text as bytes: `encoding="bytes"` leaves them so, also in references to storages."""
    content = saved(torch.arange(3), _use_new_zipfile_serialization=False).getvalue()
    as_written_then = b"X" + struct.pack("<I", 7) + b"storage"
    assert as_written_then in content
    old = content.replace(as_written_then, b"U\x07storage")
    assert loaded(io.BytesIO(old), encoding="bytes", weights_only=weights_only).tolist() == [0, 1, 2]


def test_data_that_is_left_out_is_not_read_from_old_files_either():
    file = saved(torch.full((1000,), 7.0), _use_new_zipfile_serialization=False)
    with torch.serialization.skip_data():
        made = loaded(file)
    assert made.shape == (1000,) and not (made == 7).all()


def test_empty_memory_has_no_type():
    empty = torch.UntypedStorage(0)
    first, second = torch.tensor([], dtype=torch.float32), torch.tensor([], dtype=torch.int16)
    first.set_(empty), second.set_(empty)
    assert [t.dtype for t in loaded(saved([first, second]))] == [torch.float32, torch.int16]


class Slotted(torch.Tensor):
    __slots__ = ["inner", "other"]

    @staticmethod
    def __new__(cls, inner):
        made = torch.Tensor._make_subclass(cls, inner.to("meta"))
        made.inner = inner
        return made


class Stated(Slotted):
    def __getstate__(self):
        return "mark", self.inner, self.__dict__

    def __setstate__(self, state):
        mark, self.inner, own = state
        self.__dict__.update(own)
        self.restored = mark


def test_state_of_subclasses():
    made = Slotted(torch.ones(2))
    made.label = "x"
    copied = copy.deepcopy(made)
    assert copied.inner.tolist() == [1.0, 1.0] and copied.inner is not made.inner and copied.label == "x"
    assert not hasattr(copied, "other")
    made = Stated(torch.ones(2))
    made.label = "y"
    with torch.serialization.safe_globals([Stated]):
        again = loaded(saved(made))
    assert (
        type(again) is Stated and again.restored == "mark" and again.inner.tolist() == [1.0, 1.0] and again.label == "y"
    )


def test_quantized_tensors_stay_inside_their_storage():
    x = torch.quantize_per_tensor(torch.randn(3, 4), 0.1, 0, torch.qint8)
    with pytest.raises(RuntimeError, match="out of bounds for storage"):
        x.set_(torch.UntypedStorage(12), 0, (3, 4), (2**17, 1))
    other = torch.quantize_per_tensor(torch.ones(3, 4), 0.1, 0, torch.qint8)
    x.set_(other.untyped_storage(), 0, (3, 4), (4, 1))
    assert x.q_scale() == 0.1 and torch.equal(x.dequantize(), other.dequantize())


def test_optional_packages():
    assert dill_available() == (import_dill() is not None)
