"""Blocks of a program's arena: those that are needed at one time lie apart."""

import gc
import random
import tracemalloc

import numpy as np
import pytest
from program_reference import agrees, captured

import flambeau as torch
from flambeau._compile.memory import MADE, Memory, overlay, placed
from flambeau._compile.program import Program
from flambeau.compiler._region import Region


def block(size, first, last):
    made = Memory(MADE, np.empty(size, np.uint8))
    made.first, made.last = first, last
    return made


def test_blocks_that_are_needed_at_one_time_lie_apart():
    draw = random.Random(0)
    for _ in range(50):
        blocks = []
        for _ in range(40):
            first = draw.randrange(50)
            blocks.append(block(draw.randrange(1, 5000), first, first + draw.randrange(10)))
        size = placed(blocks)
        for i, a in enumerate(blocks):
            assert a.offset % 64 == 0 and a.offset + a.nbytes <= size
            for b in blocks[:i]:
                apart = a.last < b.first or b.last < a.first
                assert apart or a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def test_blocks_lie_in_results_that_are_not_written_yet():
    draw = random.Random(1)
    for _ in range(50):
        hosts = [block(draw.randrange(4000, 9000), draw.randrange(10, 50), 50) for _ in range(4)]
        since = [draw.randrange(h.first) for h in hosts]
        written = {h: h.first for h in hosts}
        blocks = []
        for _ in range(40):
            first = draw.randrange(50)
            blocks.append(block(draw.randrange(1, 3000), first, first + draw.randrange(10)))
        without, size = placed(blocks), placed(blocks, [(h, s, h.first) for h, s in zip(hosts, since)])
        assert size <= without and any(b.host is not None for b in blocks)
        for i, a in enumerate(blocks):
            if a.host is not None:
                assert since[hosts.index(a.host)] <= a.first and a.last < written[a.host]
                assert a.offset + a.nbytes <= a.host.nbytes and a.host.first <= a.first
            for b in blocks[:i]:
                apart = a.host is not b.host or a.last < b.first or b.last < a.first
                assert apart or a.offset + a.nbytes <= b.offset or b.offset + b.nbytes <= a.offset


def test_a_program_computes_in_the_memory_of_its_last_results():
    def function(x, y):
        first = (x @ x).cumsum(0)  # as large as the result
        return first.sum(0), torch.cumsum(y, 0)

    def make(seed):
        torch.manual_seed(seed)
        return [torch.randn(300, 300), torch.randn(300, 300)]

    program = agrees(function, make)
    assert program._lowered.arena <= 300 * 300 * 4 + 64
    assert any(m.host is not None for m in program._lowered.temporary)


def test_results_take_the_places_of_operands_that_nobody_needs_any_more():
    a, b, c, d = block(1000, 0, 1), block(1000, 1, 2), block(1000, 1, 3), block(500, 3, 4)
    overlay([(1, a, b), (1, a, c), (3, c, d)], {})
    assert (b.instead, c.instead, d.instead) == (a, None, None)  # each place is taken once, and by a block of its size
    assert placed([a, b, c, d]) == 2 * 1024 and b.offset == a.offset != c.offset


def test_operands_lie_where_fresh_results_will():
    a, b, result, late = block(1000, 1, 2), block(1000, 2, 4), block(1000, 4, 9), block(1000, 4, 9)
    result.fresh = late.fresh = True
    overlay([(2, a, b), (4, b, late), (4, b, result)], {late: 2, result: 1})  # one of them is not there at step 1
    assert (b.instead, a.instead, late.first, result.first) == (a, result, 4, 1)
    assert placed([a, b]) == 0 and [(m.host, m.offset) for m in (a, b)] == [(result, 0)] * 2


def test_the_first_blocks_come_first_where_that_needs_less():
    spans = [(2, 0, 3), (1, 1, 6), (2, 2, 2), (3, 4, 8), (1, 5, 8), (2, 6, 7), (3, 7, 9)]
    blocks = [block(1024 * n, first, last) for n, first, last in spans]
    least = max(sum(b.nbytes for b in blocks if b.first <= i <= b.last) for i in range(10))
    assert placed(blocks) == least


def test_chains_of_loops_are_computed_in_one_place():
    def function(x):
        y = x @ x
        for _ in range(4):
            y = torch.cumsum(y.tanh() * 0.5, 0)
        return y.sum()

    x = torch.randn(128, 128)
    graph = captured(function, [x])
    program = Program(graph)
    for _ in range(2):
        (found,) = program.run([x])
    assert torch.equal(found, function(x))
    lowered = program._lowered
    assert any(m.instead is not None for m in lowered.temporary)


def test_memory_is_used_again():
    assert placed([block(1000, i, i + 1) for i in range(20)]) == 2 * 1024


def test_a_long_chain_needs_the_memory_of_a_few_values():
    def function(x):
        for _ in range(30):
            x = torch.cat([x[1:], x[:1]])
        return x

    x = torch.randn(1000)
    program = Program(captured(function, [x]))
    program.run([x])
    assert program._lowered.arena <= 3 * 4096


def _training_step():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(32, 96, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(96, 96, 3, padding=1)
    )
    optimizer, x = torch.optim.SGD(model.parameters(), lr=0.1), torch.randn(2, 32, 12, 12)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.slow
def test_a_compiled_step_keeps_nothing_of_the_runs_it_was_made_from():
    gradients = 4 * (96 * 32 * 9 + 96 * 96 * 9)
    step = _training_step()
    for _ in range(3):
        step()
    tracemalloc.start()
    try:
        region = Region(step)
        for _ in range(4):
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            region()
        peak = tracemalloc.get_traced_memory()[1]
        arrays = tracemalloc.take_snapshot().filter_traces([tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)])
    finally:
        tracemalloc.stop()
    arena = region.entries[0].program.forward_program._lowered.arena
    held = sum(found.size for found in arrays.statistics("filename"))
    assert arena < held < arena + 1.1 * gradients  # the present gradients
    assert peak - before < gradients / 2  # the last gradients are gone before new ones are made


def test_large_gradients_of_programs_become_those_of_leaves():
    """A gradient in memory of its own is kept as it is; one that is a part of other memory would be copied."""
    layer, x = torch.nn.Linear(600, 500), torch.randn(3, 600)
    region = Region(layer.forward)
    for _ in range(3):
        layer.zero_grad()
        region(x).sum().backward()
    assert region.problem is None and layer.weight.grad._array.base is None


def test_both_passes_of_a_function_compute_in_one_arena():
    x = torch.randn(200, 200, requires_grad=True)
    region = Region(lambda x: torch.cumsum((x @ x).cumsum(0), 1).sum())
    for _ in range(4):
        region(x).backward()
    pair = region.entries[0].program
    programs = (pair.forward_program, pair.backward_program)
    sizes = [p._lowered.arena for p in programs]
    assert min(sizes) > 0 and [[a.size for a in p._arenas] for p in programs] == [[max(sizes)]] * 2
