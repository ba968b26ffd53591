"""New tensors: inferred dtypes, values, options, errors for bad data and sizes."""

import itertools

import numpy as np
import pytest

import flambeau as torch
from flambeau._core import devices


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (3, torch.int64), (True, torch.bool), (2.5, torch.float32), (1j, torch.complex64), ([], torch.float32),
        ([1, 2], torch.int64), ([1, 2.5], torch.float32), ([True, 2], torch.int64), ([1, 2.5, 1j], torch.complex64),
        ([[1], [2]], torch.int64), (range(3), torch.int64), ((1, 2), torch.int64), (np.float32(1), torch.float32),
        (np.float64(1), torch.float64), ([np.float16(1)], torch.float16), (np.zeros(2, np.int8), torch.int8),
        ([np.int32(1)], torch.int32), (bytearray(b"ab"), torch.int64),
    ],
)  # fmt: skip
def test_tensor_infers_the_dtype(data, dtype):
    made = torch.tensor(data)
    assert made.dtype is dtype
    assert made.tolist() == np.asarray(list(data) if isinstance(data, (range, bytearray)) else data).tolist()


def test_tensor_copies_and_as_tensor_shares():
    array = np.zeros(3)
    copied, shared = torch.tensor(array), torch.as_tensor(array)
    array[0] = 1
    assert copied.tolist() == [0, 0, 0] and shared.tolist() == [1, 0, 0]
    assert torch.as_tensor(shared) is shared and torch.as_tensor([1], dtype=torch.float32).dtype is torch.float32
    assert torch.asarray(array).data_ptr() == shared.data_ptr()
    assert torch.asarray(array, copy=True).data_ptr() != shared.data_ptr()
    with pytest.raises(ValueError, match="alias"):
        torch.asarray(array, dtype=torch.float32, copy=False)


def test_lists_of_tensors():
    assert torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]
    assert torch.tensor([torch.tensor(1), 2.5]).tolist() == [1, 2.5]
    with pytest.raises(ValueError, match="one element"):
        torch.tensor([torch.tensor([1.0, 2.0])])


def test_tensor_of_a_tensor_warns():
    with pytest.warns(UserWarning, match="copy construct"):
        assert torch.tensor(torch.tensor([1])).tolist() == [1]


@pytest.mark.parametrize(
    ("data", "dtype", "error"),
    [
        ([[1], [1, 2]], None, ValueError), ([1, [2]], None, TypeError), ([[1], 2], None, TypeError), ("a", None, TypeError),
        (["a"], None, ValueError), (None, None, RuntimeError), ([None], None, RuntimeError), ({}, None, RuntimeError),
        ({1}, None, RuntimeError), (2**63, None, ValueError), ([2**63], None, ValueError), ([300], torch.uint8, RuntimeError),
        ([1e20], torch.int64, RuntimeError), ([1j], torch.float32, TypeError), (np.array(["a"]), None, TypeError),
        (np.arange(3)[::-1], None, ValueError),
    ],
)  # fmt: skip
def test_bad_data(data, dtype, error):
    with pytest.raises(error):
        torch.tensor(data, dtype=dtype)


def test_numbers_that_wrap_or_overflow():
    assert torch.tensor([-1], dtype=torch.uint8).tolist() == [255]
    assert torch.tensor([1.9], dtype=torch.int64).tolist() == [1]
    assert torch.tensor([1e300]).tolist() == [float("inf")]
    assert torch.tensor(2**63, dtype=torch.uint64).item() == 2**63
    assert torch.tensor([1e6], dtype=torch.float16).tolist() == [float("inf")]


@pytest.mark.parametrize("make", [torch.zeros, torch.ones, torch.empty])
def test_sizes(make):
    assert make(2, 3).shape == make((2, 3)).shape == make([2, 3]).shape == make(size=(2, 3)).shape == (2, 3)
    assert make(torch.Size([2, 3])).shape == (2, 3) and make(()).shape == () and make(0).shape == (0,)
    assert make(np.int64(2)).shape == (2,) and make(2, dtype=torch.int8).dtype is torch.int8
    for bad in ((-1,), (2, -3)):
        with pytest.raises(RuntimeError, match="negative"):
            make(*bad)
    for bad in ((2.5,), ("a",), (), (True,)):
        with pytest.raises(TypeError):
            make(*bad)


def test_too_much_memory_is_a_runtime_error():
    for shape in ((2**62,), (2**40, 2**40), (2**47,)):
        for make in (torch.empty, torch.zeros):
            with pytest.raises(RuntimeError, match=r"alloc|overflow"):
                make(*shape)


def test_options():
    x = torch.zeros(2, requires_grad=True)
    assert x.requires_grad and x.is_leaf
    assert torch.zeros(2, dtype=float).dtype is torch.float64
    assert torch.empty(2, 3, 4, 5, memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    out = torch.empty(0)
    assert torch.ones(2, out=out) is out and out.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="floating point"):
        torch.zeros(2, dtype=torch.int64, requires_grad=True)
    with pytest.raises(TypeError, match="dtype"):
        torch.zeros(2, dtype="float")
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        torch.zeros(2, out=out, dtype=torch.int64)
    with pytest.raises(TypeError, match="unexpected keyword"):
        torch.zeros(2, shape=3)


def test_default_device_and_dtype():
    with torch.device("meta"):
        assert torch.zeros(2).is_meta and torch.arange(3).is_meta and torch.tensor([1.0]).is_meta
    assert not torch.zeros(2).is_meta
    assert devices._local.device is None  # as before: with one that is set, factories leave their short ways
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.zeros(2).dtype is torch.tensor(1.5).dtype is torch.full((1,), 0.5).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: torch.zeros(3, 10**6, device=d), lambda d: torch.full((2,), 3, device=d), lambda d: torch.arange(5, device=d),
        lambda d: torch.linspace(0, 1, 7, device=d), lambda d: torch.eye(3, device=d), lambda d: torch.logspace(0, 1, 4, device=d),
        lambda d: torch.empty_strided((2, 3), (1, 2), device=d), lambda d: torch.zeros_like(torch.zeros(2, 3).t(), device=d),
        lambda d: torch.tril_indices(3, 3, device=d),
    ],
)  # fmt: skip
def test_meta(make):
    made, real = make("meta"), make("cpu")
    assert made.is_meta and made.shape == real.shape and made.dtype is real.dtype and made.stride() == real.stride()


def test_devices_that_are_not_there():
    for name in ("xpu", "mps"):
        with pytest.raises((AssertionError, RuntimeError, NotImplementedError)):
            torch.zeros(2, device=name)


def test_full():
    assert torch.full((2,), True).dtype is torch.bool and torch.full((2,), 1).dtype is torch.int64
    assert torch.full((2,), 1.5, dtype=torch.int64).tolist() == [1, 1]
    assert torch.full((2,), torch.tensor(2.5)).tolist() == [2.5, 2.5]
    assert torch.full((2,), torch.tensor(2.5, dtype=torch.float64)).dtype is torch.float32  # a number, whatever held it
    assert torch.full((2,), torch.tensor(2, dtype=torch.int32)).dtype is torch.int64
    assert torch.full_like(torch.zeros(2, dtype=torch.int64), 1.5).tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="overflow"):
        torch.full((2,), 300, dtype=torch.uint8)
    with pytest.raises(TypeError):
        torch.full(2, 1)
    with pytest.raises(TypeError):
        torch.full((2,), "a")


def test_like_keeps_the_order_of_memory():
    x = torch.zeros(2, 3, 4).permute(2, 0, 1)
    assert torch.zeros_like(x).stride() == torch.empty_like(x).stride() == x.stride() == (1, 12, 4)
    assert torch.ones_like(x, memory_format=torch.contiguous_format).is_contiguous()
    assert torch.zeros_like(torch.zeros(1, 3).expand(2, 3)).stride() == (3, 1)
    assert torch.ones_like(x, dtype=torch.int32).dtype is torch.int32


def test_new_forms():
    x = torch.zeros(2, dtype=torch.int64)
    assert x.new_zeros(2, 3).dtype is torch.int64 and x.new_ones((2,)).tolist() == [1, 1]
    assert x.new_full((2,), 3.5).tolist() == [3, 3] and x.new_tensor([1.5]).tolist() == [1]
    assert x.new_empty(3, dtype=torch.float32).dtype is torch.float32
    assert x.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_arange():
    assert torch.arange(5).tolist() == [0, 1, 2, 3, 4] and torch.arange(5).dtype is torch.int64
    assert torch.arange(1, 4, 0.5).tolist() == [1, 1.5, 2, 2.5, 3, 3.5] and torch.arange(3.0).dtype is torch.float32
    assert torch.arange(3, 0, -1).tolist() == [3, 2, 1] and torch.arange(0).shape == (0,)
    assert torch.arange(1.5, 5, dtype=torch.int64).tolist() == [1, 2, 3, 4]
    assert torch.arange(2**62, 2**62 + 2).tolist() == [2**62, 2**62 + 1]
    assert torch.arange(start=1, end=3).tolist() == [1, 2] and torch.arange(torch.tensor(3)).tolist() == [0, 1, 2]
    assert np.array_equal(torch.arange(0, 1e5, 0.1).numpy(), (np.arange(10**6) * 0.1).astype(np.float32))
    for bad in ((0, 3, 0), (3, 0), (0, 3, -1), (float("inf"),), (float("nan"),)):
        with pytest.raises(RuntimeError):
            torch.arange(*bad)
    with pytest.raises(NotImplementedError):
        torch.arange(3, dtype=torch.bool)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_linspace_hits_both_ends(dtype):
    for steps in (2, 3, 50, 1001):
        x = torch.linspace(-0.3, 0.7, steps, dtype=dtype)
        assert x[0] == torch.tensor(-0.3, dtype=dtype) and x[-1] == torch.tensor(0.7, dtype=dtype)
        assert np.allclose(
            x.double().numpy(), np.linspace(-0.3, 0.7, steps), atol=4e-3 if dtype is torch.bfloat16 else 1e-6
        )
    assert torch.linspace(3, 10, 1).tolist() == [3] and torch.linspace(3, 10, 0).shape == (0,)
    assert torch.linspace(0, 10, 4, dtype=torch.int64).tolist() == [0, 3, 6, 10]
    assert torch.linspace(0, 1j, 3).tolist() == [0, 0.5j, 1j]
    assert torch.logspace(0, 3, 4, base=2).tolist() == [1, 2, 4, 8]
    with pytest.raises(RuntimeError, match="non-negative"):
        torch.linspace(0, 1, -1)
    with pytest.raises(TypeError):
        torch.linspace(0, 1)


def test_frombuffer_shares_memory():
    buffer = bytearray(b"\x01\x00\x02\x00")
    x = torch.frombuffer(buffer, dtype=torch.int16)
    assert x.tolist() == [1, 2]
    x[0] = 7
    assert buffer[0] == 7 and torch.frombuffer(buffer, dtype=torch.int16, offset=2).tolist() == [2]
    for named in ({"count": 5}, {"offset": 4}, {"offset": 1}):
        with pytest.raises(ValueError):
            torch.frombuffer(buffer, dtype=torch.int16, **named)
    with pytest.warns(UserWarning, match="not writable"):
        torch.frombuffer(b"ab", dtype=torch.uint8)


def test_complex_and_polar():
    z = torch.complex(torch.tensor([1.0, 2.0]), torch.tensor(3.0))
    assert z.tolist() == [1 + 3j, 2 + 3j] and z.dtype is torch.complex64
    assert torch.allclose(torch.polar(torch.tensor([2.0]), torch.tensor([0.0])), torch.tensor([2 + 0j]))
    with pytest.raises(RuntimeError, match="Expected object of scalar type"):
        torch.complex(torch.tensor(1.0), torch.tensor(2.0, dtype=torch.float64))


def test_tables():
    assert torch.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]] and torch.eye(3, 0).shape == (3, 0)
    assert torch.tril_indices(2, 3, 1).tolist() == [[0, 0, 1, 1, 1], [0, 1, 0, 1, 2]]
    for rows, columns, offset in itertools.product(range(5), range(5), range(-6, 7)):
        for mine, theirs in (torch.tril_indices, np.tril_indices), (torch.triu_indices, np.triu_indices):
            made = mine(rows, columns, offset, dtype=torch.int32)
            np.testing.assert_array_equal(made.numpy(), np.stack(theirs(rows, offset, columns)))
            assert mine(rows, columns, offset, device="meta").shape == made.shape
    assert torch.tril_indices(10**7, 10**7, device="meta").shape == (2, 50_000_005_000_000)
    assert torch.triu_indices(3, 2, -1).tolist() == [[0, 0, 1, 1, 2], [0, 1, 0, 1, 1]]
    assert torch.vander(torch.tensor([1, 2, 3])).tolist() == [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    assert torch.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    assert torch.scalar_tensor(3).dtype is torch.float32
    with pytest.raises(RuntimeError):
        torch.eye(-1)


def test_tensors_in_a_nest_are_numbers_or_rows():
    assert torch.tensor([[torch.tensor(3)], [2.5]]).tolist() == [[3.0], [2.5]]
    with pytest.warns(UserWarning, match="list of numpy"):
        assert torch.tensor([np.array([1.5, 2.5]), torch.tensor([3, 4])]).tolist() == [[1.5, 2.5], [3.0, 4.0]]
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([torch.zeros(2), torch.zeros(2)])


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy")
@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1, np.float64(1)], torch.float64), ([np.float32(1), 1.0], torch.float32), ([1.0, np.zeros(())], torch.float64),
        ([[1.0, 2.0], np.zeros(2)], torch.float64), ([np.zeros(2, np.int32), np.zeros(2, np.float16)], torch.float16),
        ([np.zeros(2, np.int32), [1.5, 2]], torch.float32), ([[], np.zeros(0)], torch.float64),
        ([1j, np.float64(1)], torch.complex128), ([np.complex64(1j), 1.0], torch.complex64),
        ([torch.tensor(1.0).double(), 2.0], torch.float64), ([2, torch.tensor(1.0).half()], torch.float16),
        ([torch.tensor(3).bfloat16(), torch.tensor(2.0).half()], torch.float32), ([1.0, torch.zeros(1)], torch.float32),
        ([torch.tensor(1).int(), torch.tensor(1.0).half()], torch.float16), ([np.zeros(2), range(2)], torch.float64),
    ],
)  # fmt: skip
def test_arrays_and_tensors_keep_their_dtype_in_a_nest(data, dtype):
    assert torch.tensor(data).dtype is torch.as_tensor(data).dtype is dtype


@pytest.mark.parametrize("call", [
    lambda out: torch.arange(4, out=out), lambda out: torch.range(0, 3, out=out), lambda out: torch.linspace(0, 3, 4, out=out),
    lambda out: torch.logspace(0, 3, 4, base=2, out=out).log2_(),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore:torch.range is deprecated")
def test_numbers_into_views(call):
    """An `out=` with as many elements keeps its shape and strides; what lies between them stays."""
    room = torch.full((10,), -1.0)
    call(room[1:9:2])
    assert room.tolist() == [-1, 0, -1, 1, -1, 2, -1, 3, -1, -1]
    room = torch.full((10,), -1.0)
    view = room.view(2, 5)[:, :2].t()
    call(view)
    assert view.stride() == (1, 5) and room.tolist() == [0, 2, -1, -1, -1, 1, 3, -1, -1, -1]
    with pytest.raises(RuntimeError, match="unsupported operation"):
        call(room[:1].expand(4))


@pytest.mark.parametrize("data", [[2**63, -1], [[1, 2**63]], [True, 2**63]])
def test_integers_that_only_a_float_could_hold_are_refused(data):
    for make in (torch.tensor, torch.as_tensor):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            make(data)


def test_large_integers_among_floats():
    assert torch.tensor([2**63, 1.5]).tolist() == [2.0**63, 1.5] and torch.tensor([1, 0.5]).tolist() == [1, 0.5]


def test_ranges_up_to_the_last_integer():
    last, most = (1 << 63) - 1, 3 << 60
    for args in [
        (most, last, most),
        (last - 9, last, 4),
        (-most, -last - 1, -most),
        (last - 1, last),
        (-last, -last + 3, 2),
        (0, last, last),
    ]:
        assert torch.arange(*args).tolist() == list(range(*args))
        assert torch.arange(*args, out=torch.empty(0, dtype=torch.int64)).tolist() == list(range(*args))


def test_too_much_memory_is_the_cpus_error():
    for make in (torch.empty, torch.zeros, torch.ones, torch.rand):
        with pytest.raises(RuntimeError, match="DefaultCPUAllocator") as found:
            make(1 << 46)
        assert found.type is RuntimeError  # not that of a GPU


def test_asarray_of_a_tensor_is_the_tensor():
    x = torch.arange(3.0, requires_grad=True)
    y = x * 2
    assert torch.asarray(x) is x and torch.asarray(y) is y and x.requires_grad and y.requires_grad
    assert torch.asarray(x, dtype=torch.float64, requires_grad=True).grad_fn is not None
    plain = torch.asarray(y, requires_grad=False)
    assert not plain.requires_grad and y.requires_grad and plain.data_ptr() == y.data_ptr()
    assert torch.asarray(x, requires_grad=False) is x and not x.requires_grad
    assert torch.asarray(x, requires_grad=True) is x and x.requires_grad


def test_asarray_copies_only_if_it_must_or_should():
    x = torch.arange(3.0)
    assert torch.asarray(x, copy=False).data_ptr() == x.data_ptr() == torch.asarray(x).data_ptr()
    assert torch.asarray(x, dtype=torch.float32, copy=False).data_ptr() == x.data_ptr()
    assert torch.asarray(x, copy=True).data_ptr() != x.data_ptr()
    for copy in (None, True):
        made = torch.asarray(x, dtype=torch.int64, copy=copy)
        assert made.tolist() == [0, 1, 2] and made.dtype is torch.int64
    with pytest.raises(ValueError, match="can't alias tensor with dtype"):
        torch.asarray(x, dtype=torch.int64, copy=False)
    with pytest.raises(ValueError, match="can't alias"):
        torch.asarray([1.0], copy=False)
    with pytest.raises(ValueError, match="can't alias tensor from device"):
        torch.asarray(x, device="meta", copy=False)
    assert torch.asarray(x, device="meta").is_meta


def test_new_tensors_like_sparse_ones():
    s = torch.tensor([[0.0, 2.0]]).to_sparse()
    for function in (torch.zeros_like, torch.empty_like):
        made = function(s)
        assert made.layout is torch.sparse_coo and made.shape == (1, 2) and made._nnz() == 0
        assert made.to_dense().tolist() == [[0, 0]]
        assert function(s, dtype=torch.float64).dtype is torch.float64
        dense = function(s, layout=torch.strided)
        assert dense.layout is torch.strided and dense.shape == (1, 2)
        with pytest.raises(RuntimeError, match="memory format option is only supported by strided tensors"):
            function(s, memory_format=torch.contiguous_format)
    assert torch.zeros_like(s, layout=torch.strided).tolist() == [[0, 0]]
    for function in (torch.ones_like, lambda s: torch.full_like(s, 2)):
        with pytest.raises(NotImplementedError):
            function(s)


@pytest.mark.parametrize(
    ("count", "dtype", "text"),
    [
        (1 << 60, torch.float64, "Storage size calculation overflowed"), (1 << 62, torch.int16, "Storage size calculation overflowed"),
        (1 << 61, torch.int32, "Storage size calculation overflowed"), (1 << 59, torch.float64, "you tried to allocate 4611686018427387904 bytes"),
        ((1 << 63) - 1, torch.uint8, "you tried to allocate 9223372036854775807 bytes"),
    ],
)  # fmt: skip
def test_sizes_beyond_all_memory(count, dtype, text):
    for make in (torch.empty, torch.zeros):
        with pytest.raises(RuntimeError, match=text):
            make(count, dtype=dtype)


@pytest.mark.parametrize(
    "text",
    [
        "linspace(0, 1, 5)", "linspace(0.0, 1.0, 5)", "linspace(-0.0, 1.0, 5)", "linspace(0, 1, steps=5)", "logspace(0, 1, 4)", "arange(3)",
        "arange(0, 3)", "arange(0.0, 3)", "arange(start=0, end=3)", "arange(start=0.0, end=3)", "arange(2, 9, 3)", "arange(0, 1, 0.25)",
        "arange(4, dtype=torch.float32)", "arange(4, dtype=torch.int32)", "eye(3)", "eye(2, 3)", "eye(3, dtype=torch.int64)",
        "eye(3, requires_grad=True)", "tril_indices(3, 3)", "triu_indices(3, 4, 1)", "arange(3, device='meta')",
    ],
)  # fmt: skip
def test_what_was_made_before_is_a_copy(text):
    first = eval(f"torch.{text}")
    for _ in range(3):
        made = eval(f"torch.{text}")
        assert made.dtype is first.dtype and made.shape == first.shape and made.requires_grad == first.requires_grad
        if made.device.type == "meta":
            continue
        assert made.data_ptr() != first.data_ptr() and made.tolist() == first.tolist()
        assert torch.signbit(made.detach()).equal(torch.signbit(first.detach()))
        made.detach().add_(1)  # is nobody else's
    torch.set_default_dtype(torch.float64)
    try:
        assert torch.linspace(0, 1, 5).dtype is torch.float64 and torch.eye(3).dtype is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    with torch.device("meta"):
        assert torch.eye(3).device.type == "meta"


@pytest.mark.parametrize(
    "data, error", [([[1], [[6, 2]]], "interpreted as an integer"), ([[[1]], [2]], "not a sequence")]
)
def test_lists_of_unequal_depth(data, error):
    with pytest.raises(TypeError, match=error):
        torch.tensor(data)


@pytest.mark.filterwarnings("ignore:Creating a tensor from a list of numpy.ndarrays")
@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([np.zeros((3, 3)), np.zeros((3, 0))], "expected sequence of length 3 at dim 2 (got 0)"),
        ([[np.zeros((3, 3)), np.zeros((3, 2))]], "expected sequence of length 3 at dim 3 (got 2)"),
        ([[[1, 2], [1, 2]], [[1], [1]]], "expected sequence of length 2 at dim 2 (got 1)"),
        ([[1, 2], [3]], "expected sequence of length 2 at dim 1 (got 1)"),
    ],
)
def test_uneven_sequences_are_named_with_their_dimension(data, message):
    with pytest.raises(ValueError, match=message.replace("(", r"\(").replace(")", r"\)")):
        torch.tensor(data)


def test_lists_that_hold_themselves_are_refused():
    inner = [0]
    inner.append(inner)
    for data in (inner, [[1, 2], inner]):
        with pytest.raises(TypeError, match="self-referential lists are incompatible"):
            torch.tensor(data)
        with torch.overrides.BaseTorchFunctionMode(), pytest.raises(TypeError, match="self-referential lists"):
            torch.tensor(data)


def test_arrays_are_refused_by_their_dtype_first():
    for dtype in (str, object):  # an array of empty words has elements of no bytes
        with pytest.raises(TypeError, match=r"can't convert np\.ndarray of type numpy"):
            torch.from_numpy(np.ndarray((3, 3), dtype))


class _Sequence:
    def __init__(self, items, readable=True):
        self.items, self.readable = items, readable

    def __len__(self):
        return len(self.items)

    def __getitem__(self, place):
        if not self.readable:
            raise KeyError(place)
        return self.items[place]


def test_objects_with_lengths_are_sequences():
    assert torch.tensor(_Sequence([1.0, 2.0])).tolist() == [1, 2]
    with pytest.raises(ValueError, match="could not determine the shape of object type '_Sequence'"):
        torch.tensor(_Sequence([1.0, 2.0], readable=False))


class _Exchanging:
    """Something that only gives its memory by DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __dlpack__(self, **options):
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def test_tensor_copies_what_speaks_dlpack():
    source = torch.arange(3.0)
    made = torch.tensor(_Exchanging(source))
    whole = torch.tensor(_Exchanging(source), dtype=torch.int64)
    source[0] = 7
    assert made.tolist() == [0, 1, 2] and whole.dtype is torch.int64 and whole.tolist() == [0, 1, 2]


def test_asarray_does_not_alias_numbers_of_numpy():
    assert torch.asarray(np.float64(0.5)).dtype is torch.float64
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        torch.asarray(np.float64(0.5), copy=False)


def test_comparisons_by_numpy_give_bytes():
    assert np.greater_equal(torch.tensor([1, 2, 3]), 2).dtype is torch.uint8


def test_strides_beyond_all_numbers_and_negative_sizes():
    with pytest.raises(RuntimeError, match="Stride calculation overflowed"):
        torch.empty([0, 4, 2**61])
    with pytest.raises(RuntimeError, match="zeros: Dimension size must be non-negative"):
        torch.zeros(-3)


def test_frombuffer_says_what_is_out_of_place():
    buffer = bytearray(20)
    with pytest.raises(ValueError, match=r"offset \(-4 bytes\) must be non-negative"):
        torch.frombuffer(buffer, dtype=torch.float32, offset=-4)
    with pytest.raises(ValueError, match=r"requested buffer length \(2 \* 4 bytes\) after offset \(16 bytes\)"):
        torch.frombuffer(buffer, dtype=torch.float32, count=2, offset=16)


def test_many_points_between_ends():
    """Calls that come again are copies of what is kept, which nobody writes to; there is room for a few large ones."""
    for steps in (4097, 16_000, 70_001):
        for dtype in (torch.float32, torch.float64):
            made = [torch.linspace(-1, 1, steps, dtype=dtype) for _ in range(3)]
            place = torch.arange(steps, dtype=torch.float64)
            torch.testing.assert_close(made[0], (place * (2 / (steps - 1)) - 1).to(dtype), rtol=0, atol=2e-7)
            assert (
                made[0][0] == -1
                and made[0][-1] == 1
                and torch.equal(made[0][: steps // 2], -made[0].flip(0)[: steps // 2])
            )
            made[0].zero_()
            assert torch.equal(made[1], made[2]) and torch.equal(torch.linspace(-1, 1, steps, dtype=dtype), made[1])
    kept = [torch.linspace(0, n, 16_000) for n in range(80)]
    assert all(torch.equal(torch.linspace(0, n, 16_000), x) for n, x in enumerate(kept))


def test_triangles_of_indices_take_the_options_of_new_tensors():
    for make in (torch.tril_indices, torch.triu_indices):
        assert make(2, 2, pin_memory=False, requires_grad=False).shape == (2, 3)
        with pytest.raises(RuntimeError, match="floating point and complex dtype can require gradients"):
            make(2, 2, requires_grad=True)
