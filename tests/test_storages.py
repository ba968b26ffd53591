"""Storages as programs make them: by the old class names, from buffers, as bytes."""

import io
import pickle

import pytest

import flambeau as torch


def test_old_names_make_typed_storages():
    s = torch.FloatStorage([1.0, 2.0])
    assert type(s) is torch.TypedStorage and isinstance(s, torch.FloatStorage) and not isinstance(s, torch.LongStorage)
    assert torch.Storage is torch.FloatStorage and torch.Storage(3).fill_(2).tolist() == [2, 2, 2]
    assert torch.LongStorage([1, 2]).float().tolist() == [1.0, 2.0]
    assert not hasattr(torch, "ComplexHalfStorage")


def test_from_buffer():
    assert torch.ShortStorage.from_buffer(bytearray([1, 0, 2, 0]), "little").tolist() == [1, 2]
    assert torch.ShortStorage.from_buffer(bytearray([0, 1, 0, 2]), "big", 1, 2).tolist() == [2]
    with pytest.raises(ValueError, match="byte_order"):
        torch.ShortStorage.from_buffer(bytearray(2), "middle")
    with pytest.raises(ValueError, match="multiple"):
        torch.IntStorage.from_buffer(bytearray(3), "native")


def test_bytes_of_untyped_storages_become_numbers():
    s = torch.tensor([1.0]).untyped_storage()
    assert s.byte().tolist() == [0, 0, 128, 63] and s.float().tolist() == [0, 0, 128, 63]


def test_storages_are_pickled():
    s = torch.LongStorage([1, 2])
    again = pickle.loads(pickle.dumps(s))
    assert again.tolist() == [1, 2] and again.dtype is torch.int64
    buffer = io.BytesIO()
    torch.save({"a": torch.ones(2)}, buffer)
    assert torch.storage._load_from_bytes(buffer.getvalue())["a"].tolist() == [1, 1]


class Odd:
    """What a weights-only load refuses."""


def test_environment_variables_of_load(monkeypatch, tmp_path):
    path = tmp_path / "odd.pt"
    torch.save(Odd(), path)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path)
    monkeypatch.setenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD", "1")
    with pytest.warns(UserWarning, match="TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"):
        assert isinstance(torch.load(path), Odd)
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=True)
    monkeypatch.setenv("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "yes")
    with pytest.raises(RuntimeError, match="both"):
        torch.load(path)
    monkeypatch.delenv("TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")
    with pytest.raises(pickle.UnpicklingError):
        torch.load(path, weights_only=False)


def test_one_object_stands_for_memory():
    x = torch.zeros(3)
    storage = x.untyped_storage()
    assert x.untyped_storage() is storage and x[1:].untyped_storage() is storage and x.data.untyped_storage() is storage
    assert torch.zeros(3).untyped_storage() is not storage


@pytest.mark.slow
def test_all_tensors_follow_a_storage_that_is_resized():
    x = torch.arange(4.0)
    part = x[1:3]
    shadow = x.data
    storage = x.untyped_storage()
    storage.resize_(32)
    part.fill_(7)
    assert x.tolist() == [0, 7, 7, 3] and shadow.tolist() == x.tolist() and storage.nbytes() == 32
    storage.resize_(0)
    assert storage.nbytes() == 0 and x.tolist() == [0, 0, 0, 0]  # never memory of others
    with pytest.raises(RuntimeError, match="negative"):
        storage.resize_(-1)


@pytest.mark.slow
def test_all_tensors_follow_one_that_grows():
    for other in (
        lambda x: x[1:],
        lambda x: x.data[1:],
        lambda x: x.detach()[1:],
        lambda x: torch.empty(0).set_(x)[1:],
    ):
        x = torch.arange(4.0)
        storage, part = x.untyped_storage(), other(x)
        x.resize_(100)
        part[0] = 7
        assert x[:4].tolist() == [0, 7, 2, 3] and part.tolist() == [7, 2, 3]
        assert storage.nbytes() == part.untyped_storage().nbytes() == 400
    whole = torch.arange(6.0)
    part = whole[2:4]
    part.resize_(10)[1] = 50
    assert whole.tolist() == [0, 1, 2, 50, 4, 5] and part.storage_offset() == 2


@pytest.mark.slow
def test_bytes_of_another_type_are_resized():
    floats = torch.arange(4.0)
    words = floats.view(torch.int32)
    bits = [0, 0x3F800000, 0x40000000, 0x40400000]
    assert words.resize_(2).tolist() == bits[:2] and words.resize_(6)[:4].tolist() == bits
    words[1] = 0x40000000
    assert floats.tolist() == [0, 2, 2, 3]
    pairs = torch.arange(4.0) + 0j
    parts = torch.view_as_real(pairs)
    pairs.resize_(9)
    parts[0, 1] = 8
    assert pairs[:2].tolist() == [8j, 1]
    x = torch.arange(4.0)
    x.untyped_storage().resize_(32)
    assert x.resize_(6)[:4].tolist() == [0, 1, 2, 3] and x.dtype is torch.float32


def test_channels_side_by_side_keep_their_memory():
    x = torch.arange(24.0).view(1, 2, 3, 4)
    first = x.view(-1)[:2]
    for count in (1, 2):
        x.resize_(count, 3, 2, 4, memory_format=torch.channels_last)
        first[0] = -count
        assert x.stride() == (24, 1, 12, 3) and x[0].flatten()[:5].tolist() == [-count, 3, 6, 9, 12]
    with pytest.raises(RuntimeError, match="rank 4"):
        torch.arange(4.0).resize_(2, 2, memory_format=torch.channels_last)


@pytest.mark.slow
def test_memory_of_two_storages_is_exchanged():
    x, y = torch.arange(4.0), torch.ones(4)
    part = x[1:3]
    x.untyped_storage().resize_(0)
    x.untyped_storage()._swap_data_ptr_(y.untyped_storage())
    assert x.tolist() == [1, 1, 1, 1] and part.tolist() == [1, 1] and y.untyped_storage().nbytes() == 0
    with pytest.raises(RuntimeError, match="same nbytes"):
        x.untyped_storage()._swap_data_ptr_(torch.zeros(8).untyped_storage())
    with pytest.raises(RuntimeError, match="same device"):
        x.untyped_storage()._swap_data_ptr_(torch.zeros(4, device="meta").untyped_storage())


def test_numpy_pins_the_size():
    x = torch.zeros(3)
    assert x.untyped_storage().resizable()
    x.numpy()
    assert not x.untyped_storage().resizable()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.untyped_storage().resize_(100)
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(100)


def test_tensors_of_storages():
    x = torch.tensor([1.0, 2.0])
    assert torch.tensor(x.storage()).tolist() == [1, 2] and torch.tensor(x.storage()).data_ptr() == x.data_ptr()
    assert torch.tensor(x.untyped_storage()).untyped_storage() is x.untyped_storage()
    assert torch.tensor(x.untyped_storage(), dtype=torch.float32).tolist() == [1, 2]
    with pytest.raises(RuntimeError, match="Expected a Storage of type Long"):
        torch.tensor(x.storage(), dtype=torch.int64)


def test_elements_and_slices():
    s = torch.UntypedStorage([1, 2, 300])
    assert s.tolist() == [1, 2, 44]
    part = s[0:2]
    part[0] = 9
    assert s[0] == 9
    for index, error in ((50, IndexError), ("a", TypeError), (slice(0, 3, 2), RuntimeError)):
        with pytest.raises(error):
            s[index]
    for value in ("text", [1.5], torch.zeros(2), -1):
        with pytest.raises(RuntimeError):
            torch.UntypedStorage(value)
    typed = torch.FloatStorage([1, 2, 3])
    with pytest.raises(IndexError, match="out of range"):
        typed[3]
    with pytest.raises(RuntimeError, match="cannot set item"):
        typed.fill_(typed)
    typed.copy_(torch.IntStorage([4, 5, 6]))  # the bytes, whatever they mean
    assert typed.untyped().int().tolist()[:4] == [4, 0, 0, 0]
    with pytest.raises(RuntimeError, match="size does not match"):
        typed.copy_(torch.IntStorage(2))


def test_constructors_of_typed_storages_check_their_arguments():
    untyped = torch.UntypedStorage(4)
    for call, error, text in (
        (lambda: torch.FloatStorage(device="cpu"), RuntimeError, "'device' cannot be specified"),
        (lambda: torch.FloatStorage(dtype=torch.float), RuntimeError, "'dtype' cannot be specified"),
        (lambda: torch.FloatStorage(what=1), TypeError, "unexpected keyword"),
        (lambda: torch.FloatStorage(0, 0), RuntimeError, "Too many positional"),
        (lambda: torch.FloatStorage("text"), TypeError, "invalid data type"),
        (lambda: torch.FloatStorage(torch.zeros(1)), TypeError, "Argument type not recognized"),
        (lambda: torch.FloatStorage(0, wrap_storage=untyped), RuntimeError, "No positional arguments"),
        (lambda: torch.TypedStorage(wrap_storage=untyped), RuntimeError, "Argument 'dtype' must be specified"),
        (lambda: torch.TypedStorage(wrap_storage=untyped, dtype=0), TypeError, "must be torch.dtype"),
        (lambda: torch.TypedStorage(device="xla"), RuntimeError, "Storage device not recognized"),
        (lambda: torch.storage._LegacyStorage(), RuntimeError, "Only child classes"),
        (lambda: torch._C.StorageBase(), RuntimeError, "Cannot directly construct"),
        (lambda: torch.cuda.FloatStorage.from_buffer(), RuntimeError, "Not available for CUDA"),
    ):
        with pytest.raises(error, match=text):
            call()
    assert torch.QUInt8Storage([1, 2]).dtype is torch.quint8
    assert torch.storage._dtype_to_storage_type_map()[torch.float32] == "FloatStorage"


def test_storages_without_memory():
    s = torch.TypedStorage([1, 2, 3], device="meta", dtype=torch.int16)
    assert s.nbytes() == 6 and s.data_ptr() == 0 and not s.is_shared() and s.resize_(10).size() == 10
    for call, text in ((lambda: s[0], "Not available"), (s.tolist, "Not available"), (s.cpu, "Cannot copy out")):
        with pytest.raises(NotImplementedError, match=text):
            call()
    with pytest.raises(RuntimeError, match="only available on CPU"):
        s.share_memory_()
    with pytest.raises(NotImplementedError, match="Cannot copy out"):
        torch.ShortStorage(10).copy_(s)


def test_deepcopy_keeps_storages_and_tensors_together():
    import copy

    x = torch.arange(3.0)
    y, s = copy.deepcopy([x, x.storage()])
    y.add_(1)
    assert s.tolist() == [1, 2, 3] and x.tolist() == [0, 1, 2] and y.untyped_storage() is s.untyped()


def test_bytes_behind_the_last_element():
    x = torch.arange(3, dtype=torch.int16)
    words = torch.empty(0, dtype=torch.int32).set_(x.untyped_storage())
    assert words.storage().size() == 1 and words.storage().fill_(-1).tolist() == [-1] and x.tolist() == [-1, -1, 2]


def test_set_counts_from_where_a_tensor_begins():
    x = torch.arange(6)
    made = torch.empty(0, dtype=torch.int64)
    assert made.set_(x[1:], 1, (2,)).tolist() == [2, 3] and made.storage_offset() == 2
    assert made.set_(x[1:], 0, (2, 2), (1, 2)).tolist() == [[1, 3], [2, 4]]
    with pytest.raises(RuntimeError, match="must be contiguous"):
        made.set_(x.view(2, 3).T, 0, (2,))


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.set_(),
        lambda x: x.set_(torch.full((3,), 7.0)),
        lambda x: x.set_(torch.full((3,), 7.0).untyped_storage()),
        lambda x: torch.utils.swap_tensors(x, torch.full((3,), 7.0)),
    ],
)
def test_other_memory_under_what_a_backward_pass_needs_is_noticed(change):
    w, x = torch.ones(3, requires_grad=True), torch.arange(3.0)
    y = w * x
    change(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_a_tensor_with_views_is_not_swapped():
    a, b = torch.arange(3.0), torch.zeros(2)
    part = a[1:]
    for pair in ((a, b), (b, a)):
        with pytest.raises(RuntimeError, match="there are views of it"):
            torch.utils.swap_tensors(*pair)
    del part
    torch.utils.swap_tensors(a, b)
    assert a.tolist() == [0, 0] and b.tolist() == [0, 1, 2]


@pytest.mark.slow
def test_memory_of_others_does_not_grow():
    import numpy as np

    array = np.zeros(4)
    made = torch.empty(0, dtype=torch.float64)
    made.data = torch.from_numpy(array)
    own = torch.arange(4.0)
    shadow = own.data
    lent = shadow.numpy()
    for x in (
        torch.from_numpy(array).data,
        torch.ones(2, dtype=torch.float64).set_(torch.from_numpy(array)),
        torch.frombuffer(bytearray(16), dtype=torch.int32),
        torch.from_dlpack(array),
        made,
        own,
    ):
        size = x.untyped_storage().nbytes()
        for grow in (lambda x: x.resize_(100), lambda x: x.untyped_storage().resize_(1000)):
            with pytest.raises(RuntimeError, match="not resizable"):
                grow(x)
        assert x.untyped_storage().nbytes() == size
    own[0] = 5
    assert lent[0] == 5


@pytest.mark.filterwarnings("default:TypedStorage is deprecated")
def test_typed_storages_warn_once():
    torch.storage._reset_warn_typed_storage_removal()
    with pytest.warns(UserWarning, match="^TypedStorage is deprecated"):
        torch.FloatStorage()
    torch.storage._reset_warn_typed_storage_removal()
    with pytest.warns(UserWarning, match="^TypedStorage is deprecated") as seen:
        torch.zeros(1).storage()
    assert [w.filename for w in seen] == [__file__]  # the line of the program, not one of ours
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        torch.zeros(1).storage()
    torch.storage._set_always_warn_typed_storage_removal(True)
    try:
        with pytest.warns(UserWarning, match="^TypedStorage is deprecated"):
            len(torch.FloatStorage(_internal=True))
    finally:
        torch.storage._set_always_warn_typed_storage_removal(False)


def test_data_of_a_result_that_its_node_keeps():
    x = torch.ones(3, requires_grad=True)
    y = x.exp()
    y.data.mul_(2)
    assert torch.equal(y, x.exp() * 2) and y._version == 0


class Wrapper(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_storages_of_wrappers_have_no_address():
    storage = Wrapper(torch.ones(2)).untyped_storage()
    assert storage.nbytes() == 8
    for access in (storage.data_ptr, lambda: storage.resize_(4)):
        with pytest.raises(RuntimeError, match="invalid python storage"):
            access()
    assert torch.ones(2, device="meta").untyped_storage().data_ptr() == 0


def test_memory_that_was_set_counts_its_writes_apart():
    x = torch.zeros(3)
    y = torch.tensor([]).set_(x.untyped_storage())
    y.add_(1)
    assert (x._version, y._version) == (0, 2) and x.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "same", [lambda x: x, lambda x: x.data, lambda x: x.detach(), lambda x: torch.tensor([]).set_(x.untyped_storage())]
)
def test_memory_that_overlaps_in_part_is_noticed(same):
    x = torch.arange(6.0)
    for write in (
        lambda: x[1:].add_(same(x)[:-1]), lambda: torch.add(same(x)[1:], 1, out=x[:-1]), lambda: x[1:].mul_(same(x)[:-1]),
        lambda: torch.exp(same(x)[1:], out=x[:-1]),
    ):  # fmt: skip
        for _ in range(3):
            with pytest.raises(RuntimeError, match="refer to a single memory location"):
                write()
    assert x.tolist() == [0, 1, 2, 3, 4, 5]
    x.add_(same(x))
    assert x.tolist() == [0, 2, 4, 6, 8, 10]
