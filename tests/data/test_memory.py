"""Batches in shared memory, with the worker's side and the loader's side in one process."""

import gc

import numpy as np
import pytest

import flambeau as torch
from flambeau.utils.data._utils import memory
from flambeau.utils.data._utils.memory import Arena, Reader

LARGE = 5000  # elements: more than travels in a message, and than is copied


@pytest.fixture
def sides():
    return Arena(), Reader()


def sent(arena, reader, data):
    message, descriptors = arena.pack("head", data)
    assert len(message) < 40_000  # large arrays do not travel in it
    head, made = reader.unpack(message, descriptors)
    assert head == "head"
    return made, len(descriptors)


def tensors():
    x = torch.arange(float(LARGE))
    yield x
    yield x[:10]
    yield x[:0]
    yield torch.tensor(3.5)
    yield x.view(50, 100).t()
    yield x.view(5, 10, 10, 10).to(memory_format=torch.channels_last)
    yield x.view(50, 100)[::2, ::5]
    yield x[::2]
    yield x[:1].expand(LARGE)
    yield x.to(torch.bfloat16)
    yield (x > 7).view(10, -1)
    yield x.to(torch.complex64)
    yield x.long().requires_grad_(False)
    yield x.clone().requires_grad_()
    yield x.view(2, 50, 50).permute(2, 0, 1)


@pytest.mark.parametrize("number", range(15))
def test_tensors_arrive_as_they_were(sides, number):
    x = list(tensors())[number]
    made, _ = sent(*sides, [x, {"again": x}, "text", 3])
    for y in (made[0], made[1]["again"]):
        assert y.dtype is x.dtype and y.shape == x.shape and y.requires_grad == x.requires_grad and torch.equal(x, y)
        dense = sum(n * s for n, s in zip((m - 1 for m in x.shape), x.stride())) == x.numel() - 1
        assert y.stride() == (x.stride() if dense and x.numel() else y.contiguous().stride())
    assert made[2:] == ["text", 3]


def test_memory_is_cut_into_pieces_that_do_not_meet(sides):
    arena, reader = sides
    sizes = [1, 64, 65, 5000, 70_000, 200, 1 << 18, 3]
    pieces = [arena.allocate(n) for n in sizes]
    for i, piece in enumerate(pieces):
        piece[...] = i + 1
        assert piece.size == sizes[i] and memory.address(piece) % 64 == 0
    assert [(p == i + 1).all() for i, p in enumerate(pieces)] == [True] * len(sizes)
    made, _ = sent(arena, reader, [torch.from_numpy(p) for p in pieces])
    assert [t.unique().tolist() for t in made] == [[i + 1] for i in range(len(sizes))]


def test_what_was_collated_in_shared_memory_is_not_copied(monkeypatch, sides):
    arena, reader = sides
    assert memory.shared_empty((LARGE,), np.dtype(np.float32)) is None
    monkeypatch.setattr(memory, "arena", arena)
    assert memory.shared_empty((256,), np.dtype(np.float32)) is None  # little data
    array = memory.shared_empty((50, 100), np.dtype(np.float32))
    assert array.shape == (50, 100) and array.dtype == np.float32
    array[...] = 1
    used = arena._at
    message, descriptors = arena.pack(None, torch.from_numpy(array))
    assert used == 20_032  # whole lines of the cache, nothing beside them
    array[0, 0] = 9  # both sides look at the same bytes
    made = reader.unpack(message, descriptors)[1]
    assert made[0, 0] == 9 and made[1, 1] == 1


def test_segments_are_used_again_when_nobody_looks_at_them(sides):
    arena, reader = sides
    x = torch.arange(float(LARGE))
    made, fresh = sent(arena, reader, x)
    assert fresh == 1 and reader.returned() == ([], [])
    second, fresh = sent(arena, reader, x + 1)
    assert fresh == 1  # the first is still in use
    del made
    gc.collect()
    free, lost = reader.returned()
    assert len(free) == 1 and lost == [] and reader.returned() == ([], [])
    arena.free(free, lost)
    third, fresh = sent(arena, reader, x + 2)
    assert fresh == 0 and torch.equal(third, x + 2) and torch.equal(second, x + 1)


@pytest.mark.slow
def test_segments_that_are_too_small_make_room_for_larger_ones(sides):
    arena, reader = sides
    for size, expected in ((LARGE, 1), (LARGE, 0), (40 * LARGE, 1), (LARGE, 0)):
        made, fresh = sent(arena, reader, torch.arange(float(size)))
        assert fresh == expected and made[-1] == size - 1
        del made
        gc.collect()
        arena.free(*reader.returned())
    assert len(arena._segments) == len(reader._segments) == 1


def test_little_batches_are_copied_at_once(sides):
    arena, reader = sides
    for size, copied in ((300, True), (1 << 12, True), ((1 << 12) + 1, False)):
        made, _ = sent(arena, reader, torch.ones(size))
        free, _ = reader.returned()
        assert bool(free) is copied and made.sum() == size
        arena.free(free, [])


def test_only_so_many_batches_stay_in_shared_memory(sides):
    arena, reader = sides
    held = []
    for i in range(memory._MOST_HELD + 3):
        held.append(sent(arena, reader, torch.full((LARGE,), float(i)))[0])
        free, lost = reader.returned()
        assert len(free) == (i >= memory._MOST_HELD) and not lost
        arena.free(free, lost)
    assert [t[0].item() for t in held] == [float(i) for i in range(len(held))]
    held.clear()
    gc.collect()
    free, _ = reader.returned()
    assert len(free) == memory._MOST_HELD
    arena.free(free, [])
    assert len(arena._free) == memory._MOST_FREE == len(arena._segments)
    sent(arena, reader, torch.ones(LARGE))  # tells which were dropped
    assert len(reader._segments) == memory._MOST_FREE


def test_segments_that_another_process_will_see_are_given_up(sides):
    arena, reader = sides
    made, _ = sent(arena, reader, torch.ones(LARGE))
    reader.keep_held()
    free, lost = reader.returned()
    assert free == [] and len(lost) == 1 and not reader._segments
    arena.free(free, lost)
    again, fresh = sent(arena, reader, torch.zeros(LARGE))
    assert fresh == 1 and made.sum() == LARGE and again.sum() == 0
    del made
    gc.collect()
    assert reader.returned() == ([], [])


def test_tensors_with_a_history_are_not_sent(sides):
    with pytest.raises(RuntimeError, match="detach it"):
        sides[0].pack(None, torch.ones(2, requires_grad=True) * 2)
