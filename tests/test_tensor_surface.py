"""Tensors as Python objects: construction, conversion, numbers, sequences, text, exchange, memory, hooks."""

import numpy as np
import pytest

import flambeau as torch


def test_tensor_constructor_takes_sizes_or_data():
    assert torch.Tensor(3).shape == (3,)
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor(torch.Size([2, 3])).shape == (2, 3)
    assert torch.Tensor([3]).tolist() == [3.0]
    assert torch.Tensor((2, 3)).tolist() == [2.0, 3.0]
    assert torch.Tensor().shape == (0,)
    assert torch.Tensor([1, 2]).dtype is torch.float32
    for bad in (2.5, True, None, "a"):
        with pytest.raises(TypeError):
            torch.Tensor(bad)
    with pytest.raises(RuntimeError, match="negative"):
        torch.Tensor(-1)


@pytest.mark.parametrize(
    ("name", "d"),
    [("FloatTensor", "float32"), ("DoubleTensor", "float64"), ("HalfTensor", "float16"), ("BFloat16Tensor", "bfloat16"),
     ("IntTensor", "int32"), ("LongTensor", "int64"), ("ShortTensor", "int16"), ("ByteTensor", "uint8"),
     ("CharTensor", "int8"), ("BoolTensor", "bool")],
)  # fmt: skip
def test_typed_classes(name, d):
    kind, d = getattr(torch, name), getattr(torch, d)
    made = kind([1, 0])
    assert type(made) is torch.Tensor
    assert made.dtype is d is kind.dtype
    assert isinstance(made, kind)
    assert not isinstance(made, torch.LongTensor if d is not torch.int64 else torch.FloatTensor)
    assert made.type() == "torch." + name
    assert torch.zeros(1).type(name if name.startswith("torch") else "torch." + name).dtype is d
    assert kind(2, 3).shape == (2, 3)


def test_to_in_all_forms():
    x = torch.zeros(2)
    assert x.to(torch.float32) is x
    assert x.to("cpu") is x
    assert x.to(torch.float64).dtype is torch.float64
    assert x.to("cpu", torch.int32).dtype is torch.int32
    assert x.to(torch.ones(1, dtype=torch.int8)).dtype is torch.int8
    assert x.to(device="cpu", dtype=torch.bool).dtype is torch.bool
    assert x.to(int).dtype is torch.int64
    copied = x.to(torch.float32, copy=True)
    assert copied is not x and copied.data_ptr() != x.data_ptr()
    assert x.to("meta").is_meta
    assert torch.zeros(2, 3, 4, 5).to(memory_format=torch.channels_last).stride() == (60, 1, 15, 3)
    with pytest.raises(TypeError):
        x.to(torch.int32, torch.device("cpu"))
    with pytest.raises(NotImplementedError, match="meta"):
        torch.zeros(2, device="meta").cpu()


def test_casts_follow_the_graph():
    x = torch.tensor([1.5, -2.5], requires_grad=True)
    (x.double() * 2).sum().backward()
    assert x.grad.dtype is torch.float32
    assert x.grad.tolist() == [2.0, 2.0]
    assert torch.tensor([300.7, -1.0]).to(torch.uint8).tolist() == [44, 255]
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert torch.tensor([1 + 2j]).float().tolist() == [1.0]


def test_half_casts_round_to_nearest():
    values = np.random.default_rng(0).standard_normal(10000).astype(np.float32)
    values[:4] = np.inf, -np.inf, np.nan, 65520.0
    with np.errstate(over="ignore"):
        expected = values.astype(np.float16)
    assert np.array_equal(torch.from_numpy(values).half().numpy(), expected, equal_nan=True)
    assert np.array_equal(torch.from_numpy(expected).float().numpy(), expected.astype(np.float32), equal_nan=True)


def test_copy_and_fill_with_history():
    source = torch.tensor([1.0, 2.0], requires_grad=True)
    target = torch.zeros(3, 2)
    target[1:].copy_(source * 3)
    target.sum().backward()
    assert source.grad.tolist() == [6.0, 6.0]
    y = torch.ones(3, requires_grad=True) * 2
    y[0].fill_(5)
    assert y.tolist() == [5.0, 2.0, 2.0]
    y.zero_()
    assert y.requires_grad
    with pytest.raises(RuntimeError, match="leaf"):
        source.fill_(1)
    with pytest.raises(RuntimeError, match="must match"):
        torch.zeros(2).copy_(torch.zeros(3))
    with pytest.raises(RuntimeError, match="overflow"):
        torch.zeros(2, dtype=torch.int8).fill_(300)
    with pytest.raises(RuntimeError, match="0-dimension"):
        torch.zeros(2).fill_(torch.ones(1))


def test_fill_diagonal():
    assert torch.zeros(3, 3).fill_diagonal_(2).tolist() == np.eye(3).__mul__(2).tolist()
    expected = np.zeros((7, 3))
    np.fill_diagonal(expected, 1, wrap=True)
    assert torch.zeros(7, 3).fill_diagonal_(1, wrap=True).tolist() == expected.tolist()


def test_numbers():
    assert torch.tensor([2.5]).item() == 2.5
    assert isinstance(torch.tensor(3, dtype=torch.bfloat16).item(), float)
    assert int(torch.tensor(2.7)) == 2
    assert complex(torch.tensor(2.5)) == 2.5 + 0j
    assert [10, 20][torch.tensor(1)] == 20
    assert f"{torch.tensor(1.5):.3f}" == "1.500"
    assert bool(torch.tensor([[1]])) is True
    for error, use in [
        (RuntimeError, lambda: torch.zeros(2).item()), (RuntimeError, lambda: bool(torch.zeros(2))),
        (RuntimeError, lambda: bool(torch.zeros(0))), (ValueError, lambda: int(torch.zeros(2))),
        (TypeError, lambda: torch.tensor(1.5).__index__()), (TypeError, lambda: len(torch.tensor(1))),
        (TypeError, lambda: iter(torch.tensor(1))), (TypeError, lambda: f"{torch.zeros(2):.2f}"),
    ]:  # fmt: skip
        with pytest.raises(error):
            use()
    with pytest.warns(UserWarning, match="scalar"):
        float(torch.tensor(1.0, requires_grad=True))


def test_sequences():
    x = torch.tensor([[1, 2], [3, 4]])
    assert len(x) == 2
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert [row.tolist() for row in reversed(x)] == [[3, 4], [1, 2]]
    assert 3 in x and 7 not in x
    assert hash(x) != hash(x.clone())
    assert (x == None) is False  # noqa: E711
    assert x.tolist() == [[1, 2], [3, 4]]
    with pytest.raises(RuntimeError):
        "a" in x  # noqa: B015


def test_operators_leave_unknown_operands_to_their_class():
    class Other:
        def __radd__(self, left):
            return "other"

    assert torch.ones(2) + Other() == "other"
    with pytest.raises(TypeError, match="unsupported operand"):
        torch.ones(2) + object()


def test_text():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert repr(x) == "tensor([1., 2.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], grad_fn=<MulBackward0>)"
    assert str(torch.nn.Parameter(x.detach())) == "Parameter containing:\ntensor([1., 2.], requires_grad=True)"
    assert repr(torch.zeros(2, device="meta")) == "tensor(..., device='meta', size=(2,))"


def test_numpy_exchange():
    x = torch.arange(4.0)
    array = x.numpy()
    array[0] = 9
    assert x[0] == 9
    assert type(np.sin(x)) is torch.Tensor
    assert np.asarray(x, dtype=np.int32).dtype == np.int32
    assert (np.float64(2) * x).dtype is torch.float32
    y = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="detach"):
        y.numpy()
    assert y.numpy(force=True).tolist() == [1.0, 1.0]
    with pytest.raises(TypeError):
        torch.zeros(1, dtype=torch.bfloat16).numpy()
    assert not hasattr(x, "__cuda_array_interface__")


def test_dlpack_shares_memory_both_ways():
    x = torch.arange(3)
    seen = np.from_dlpack(x)
    x[0] = 7
    assert seen[0] == 7
    source = np.arange(3.0)
    y = torch.from_dlpack(source)
    source[1] = 5
    assert y[1] == 5
    assert torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).tolist() == [7, 1, 2]
    assert x.__dlpack_device__() == (1, 0)
    with pytest.raises(BufferError):
        torch.ones(1, requires_grad=True).__dlpack__()


def test_data_is_detached_memory_with_its_own_count():
    x = torch.ones(2, requires_grad=True)
    x.data.mul_(3)
    assert x.tolist() == [3.0, 3.0]
    assert x._version == 0
    x.detach().mul_(2)
    assert x._version == 1
    x.data = torch.zeros(3)
    assert x.shape == (3,) and x.requires_grad and x._version == 1
    with pytest.raises(RuntimeError, match="floating"):
        x.data = torch.zeros(3, dtype=torch.int64)


def test_storages():
    x = torch.arange(6.0)
    part = x[2:4]
    assert part.untyped_storage().nbytes() == 24
    assert part.untyped_storage().data_ptr() == x.data_ptr()
    assert part.storage_offset() == 2
    assert x.storage().tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    assert isinstance(x.storage(), torch.FloatStorage)
    assert x.storage_type() is torch.FloatStorage and torch.zeros(2, dtype=torch.uint16).storage_type() is None
    part.storage()[0] = 8.0
    assert x[0] == 8
    y = torch.zeros(0).set_(x.untyped_storage(), 1, (2, 2), (2, 1))
    assert y.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    y[0, 0] = 5
    assert x[1] == 5
    assert x.is_set_to(x.view(6)) and not x.is_set_to(part)
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.zeros(7).set_(x.untyped_storage(), 0, (7,), (1,))
    grown = torch.zeros(0).set_(x.untyped_storage(), 0, (7,), (1,))  # another size: the storage grows
    assert x.untyped_storage().nbytes() == 28 and grown[:6].tolist() == x.tolist() and grown.is_set_to(grown)
    assert torch.is_storage(x.storage())


def test_shared_memory_is_seen_after_a_fork():
    import os

    x = torch.zeros(2).share_memory_()
    assert x.is_shared() and not torch.zeros(1).is_shared()
    child = os.fork()
    if not child:
        x[0] = 4
        os._exit(0)
    os.waitpid(child, 0)
    assert x[0] == 4


def test_hooks_and_retained_gradients():
    x = torch.ones(2, requires_grad=True)
    y = x * 2
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()) or g * 2)
    y.retain_grad()
    y.register_hook(lambda g: g * 3)
    (y * y).sum().backward()
    assert seen == [[4.0, 4.0]]
    assert y.grad.tolist() == [24.0, 24.0]  # after all hooks, also those added later
    assert x.grad.tolist() == [48.0, 48.0]
    z = x * 2
    z.retain_grad()
    z.mul_(3)
    (z * 5).sum().backward()
    assert z.grad.tolist() == [5.0, 5.0]  # of the value after the write
    with pytest.raises(RuntimeError):
        torch.ones(1).register_hook(print)
    with pytest.raises(RuntimeError, match="non-leaf"):
        y.register_post_accumulate_grad_hook(print)


def test_removed_hooks_are_silent():
    x = torch.ones(1, requires_grad=True)
    handle = x.register_hook(lambda g: g * 10)
    handle.remove()
    after = []
    x.register_post_accumulate_grad_hook(lambda t: after.append(t.grad.item()))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert after == [2.0, 4.0]


def test_what_dtype():
    assert torch.result_type(torch.zeros(2, dtype=torch.int8), 1) is torch.int8
    assert torch.result_type(torch.tensor([1]), torch.tensor(1.0)) is torch.float32
    assert torch.result_type(1, 2.0) is torch.float32
    assert not torch.can_cast(torch.float32, torch.int64)
    assert torch.is_floating_point(torch.zeros(1, dtype=torch.float16))
    assert torch.zeros(1).is_signed() and not torch.zeros(1, dtype=torch.uint8).is_signed()
    with pytest.raises(TypeError):
        torch.numel(3)


def test_limits():
    info = torch.finfo(torch.float32)
    assert (info.max, info.eps, info.bits, info.dtype) == (3.4028234663852886e38, 2.0**-23, 32, "float32")
    assert repr(torch.finfo(torch.bfloat16)) == (
        "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, "
        "tiny=1.17549e-38, dtype=bfloat16)"
    )
    assert repr(torch.iinfo(torch.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    assert torch.iinfo(torch.uint64).max == 2**64 - 1
    assert torch.finfo(float) == torch.finfo(complex) == torch.finfo(torch.float64)
    assert torch.iinfo(int) == torch.iinfo(torch.int64)
    for info, kind in ((torch.finfo, int), (torch.iinfo, float), (torch.iinfo, bool), (torch.finfo, str)):
        with pytest.raises(TypeError):
            info(kind)
    with pytest.raises(TypeError):
        torch.iinfo(torch.float32)
    with pytest.raises(TypeError):
        torch.finfo(torch.int32)


def test_default_tensor_type():
    with pytest.warns(UserWarning, match="is deprecated as of PyTorch 2.1"):
        torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert torch.Tensor([1]).dtype is torch.float64
    finally:
        with pytest.warns(UserWarning, match="is deprecated as of PyTorch 2.1"):
            torch.set_default_tensor_type(torch.FloatTensor)
    assert torch.Tensor([1]).dtype is torch.float32


class Marked(torch.Tensor):
    def __repr__(self):
        return super().__repr__(tensor_contents="...")


def test_classes_say_what_stands_for_their_values():
    assert repr(torch.ones(2).as_subclass(Marked)) == "Marked(...)"
    assert repr(torch.nn.Parameter(torch.ones(2).as_subclass(Marked))) == "Parameter(Marked(..., requires_grad=True))"
    assert torch.ones(2, dtype=torch.float64).__repr__(tensor_contents="hi") == "tensor(hi, dtype=torch.float64)"


def test_operators_leave_what_they_do_not_know_to_its_class():
    class Unit:
        def __radd__(self, other):
            return "added"

    x = torch.ones(2)
    for name in ("__add__", "__iadd__", "__imul__", "__itruediv__", "__ipow__", "__ifloordiv__"):
        assert getattr(x, name)(object()) is NotImplemented
    y = x
    y += Unit()
    assert y == "added" and x.tolist() == [1, 1]
    with pytest.raises(TypeError, match=r"unsupported operand type\(s\) for \+="):
        x += [1, 2]
    x += 1
    assert x.tolist() == [2, 2]
