"""Counts and integers at the edge of their range: errors or PyTorch's results, never an end of the interpreter."""

import numpy as np
import pytest

import flambeau as torch

LEAST, MOST = -(2**63), 2**63 - 1


@pytest.mark.parametrize("values", [[MOST], [MOST, 1], [MOST] * 20_000])
def test_bincount_of_the_largest_integer(values):
    for weights in (None, torch.ones(len(values))):
        with pytest.raises(RuntimeError, match="maximum value of input overflowed"):
            torch.bincount(torch.tensor(values), weights)


@pytest.mark.parametrize("value", [2**62, 2**60, MOST - 1])
def test_bincount_of_more_than_any_memory(value):
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.bincount(torch.tensor([value]))
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.bincount(torch.tensor([1]), minlength=value)


def test_bincount_of_bad_inputs():
    for values in ([-1, 2], [LEAST], [-1] * 20_000):
        with pytest.raises(RuntimeError, match="non-negative"):
            torch.bincount(torch.tensor(values))
    assert torch.bincount(torch.tensor([], dtype=torch.int64), minlength=2).tolist() == [0, 0]


@pytest.mark.parametrize("counts", [[2**62] * 4 + [5], [2**62, 2**62], [MOST, MOST], [2**61, 1], [MOST] * 3])
def test_repeat_interleave_of_counts_that_overflow(counts):
    counts = torch.tensor(counts)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.repeat_interleave(counts)
    with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
        torch.ones(len(counts)).repeat_interleave(counts)


def test_tensor_split_into_absurdly_many():
    for sections in (2**53, 2**62, MOST):
        with pytest.raises(RuntimeError):
            torch.ones(3).tensor_split(sections)


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_divisions_of_the_least_integer(dtype):
    """Its quotient by -1 does not fit; x86 processors trap at it."""
    info = np.iinfo(dtype)
    edges = np.array([info.min, info.min + 1, -7, -1, 0, 1, 5, info.max], dtype)
    x, y = (torch.from_numpy(part.reshape(-1).copy()) for part in np.meshgrid(edges, edges))
    wide, by = (part.numpy().astype(object) for part in (x, y))

    def wrapped(values):
        return np.array([(int(v) - int(info.min)) % 2**info.bits + int(info.min) for v in values], dtype)

    nonzero = np.array([v != 0 for v in by])
    divisor = torch.where(y == 0, torch.ones_like(y), y)
    for op, expected in (
        (torch.floor_divide, [a // (b or 1) for a, b in zip(wide, by)]),
        (torch.remainder, [a % (b or 1) for a, b in zip(wide, by)]),
        (torch.fmod, [abs(a) % abs(b or 1) * (-1 if a < 0 else 1) for a, b in zip(wide, by)]),
    ):
        assert op(x, divisor).numpy()[nonzero].tolist() == wrapped(expected)[nonzero].tolist()
    assert torch.lcm(x, y).shape == torch.gcd(x, y).shape == x.shape
    least = torch.tensor([info.min] * 4, dtype=x.dtype)
    assert torch.lcm(least, torch.tensor([-1] * 4, dtype=x.dtype)).tolist() == [info.min] * 4


def test_lcm_of_short_integers():
    """PyTorch computes the product of short integers in 32 bits."""
    x, y = torch.tensor([-126, 100, 12], dtype=torch.int8), torch.tensor([-127, 99, 18], dtype=torch.int8)
    assert torch.lcm(x, y).tolist() == [-126, -84, 36]
    assert torch.lcm(x.short(), torch.tensor([32767, 3, 5], dtype=torch.int16)).tolist() == [-18, 300, 60]


@pytest.mark.parametrize("offsets", [[0, -1], [0, -2, 1], [0, LEAST]])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_with_negative_offsets(offsets, mode):
    with pytest.raises(IndexError, match="index out of range in self"):
        torch.nn.functional.embedding_bag(torch.tensor([0, 1, 2]), torch.ones(3, 2), torch.tensor(offsets), mode=mode)


def test_embedding_bag_with_falling_offsets():
    with pytest.raises(RuntimeError, match="must not fall"):
        torch.nn.functional.embedding_bag(torch.tensor([0, 1, 2]), torch.ones(3, 2), torch.tensor([0, 2, 1]))


@pytest.mark.parametrize("name", ["set_num_threads", "set_num_interop_threads"])
def test_absurd_numbers_of_threads(name):
    before = torch.get_num_threads(), torch.get_num_interop_threads()
    for count, error in ((2**65, ValueError), (2**31, ValueError), (-(2**70), ValueError), (0, RuntimeError), (-1, RuntimeError),
                         ("a", RuntimeError), (1.0, RuntimeError), (True, RuntimeError), (None, RuntimeError)):  # fmt: skip
        with pytest.raises(error, match=r"Overflow when unpacking long|expects a"):
            getattr(torch, name)(count)
    assert (torch.get_num_threads(), torch.get_num_interop_threads()) == before
    assert float(torch.ones(1 << 20).sum()) == 1 << 20


def test_more_threads_than_are_ever_used():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2**31 - 1)
        assert torch.get_num_threads() == 256
        assert float((torch.ones(1 << 20) + 1).sum()) == 1 << 21
        assert float((torch.ones(64, 64) @ torch.ones(64, 64)).sum()) == 64**3
    finally:
        torch.set_num_threads(before)


def test_absurd_numbers_of_workers():
    with pytest.raises(ValueError, match="num_workers"):
        torch.utils.data.DataLoader([1, 2], num_workers=2**65)


def test_gcd_of_the_least_integer():
    least = torch.tensor([-128] * 4, dtype=torch.int8)
    assert torch.gcd(least, torch.tensor([-1, 5, 3, -128], dtype=torch.int8)).tolist() == [1, -1, 1, -128]


def test_combinations_of_more_than_there_are():
    v = torch.arange(4.0)
    assert torch.combinations(v, 5).shape == (0, 5) and torch.combinations(v, 2**31).shape == (0, 2**31)
    assert torch.combinations(v[:1], 3, True).tolist() == [[0.0, 0.0, 0.0]] and torch.combinations(
        v[:0], 3, True
    ).shape == (0, 3)
    for again in (False, True):
        with pytest.raises(RuntimeError, match="Storage size calculation overflowed"):
            torch.combinations(v, 2**61, again)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("count", [1, 5000])
def test_integers_beyond_half_precision(count):
    for dtype in (torch.uint16, torch.int32, torch.int64):
        x = torch.tensor([65535] * count, dtype=dtype)
        assert x.to(torch.float16).isinf().all() and torch.empty(count, dtype=torch.float16).copy_(x).isinf().all()
