"""Random numbers and reproducibility."""

import random

import numpy as np

import flambeau as torch
from flambeau import nn

Data = torch.utils.data


def everything():
    torch.manual_seed(42)
    torch.cuda.manual_seed_all(42)
    order = [int(x) for (x,) in Data.DataLoader(Data.TensorDataset(torch.arange(10)), shuffle=True)]
    return nn.Linear(10, 5).weight, nn.Dropout()(torch.ones(20)), torch.randn(3), torch.tensor(order)


def test_equal_seeds_give_equal_results():
    assert all(torch.equal(a, b) for a, b in zip(everything(), everything()))
    torch.manual_seed(42)
    assert torch.initial_seed() == 42


def test_states_are_apart():
    random.seed(0)
    np.random.seed(0)
    before = random.getstate(), np.random.get_state()[1].tolist()
    torch.rand(100)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


def test_restored_state_replays():
    state = torch.get_rng_state()
    first = torch.rand(5)
    torch.set_rng_state(state)
    assert torch.equal(torch.rand(5), first)


def test_generators_do_not_follow_the_global_seed():
    def drawn(seed):
        torch.manual_seed(seed)
        g = torch.Generator().manual_seed(7)
        order = torch.randperm(20, generator=g).tolist()
        parts = [p.indices for p in Data.random_split(range(20), [15, 5], generator=g)]
        batches = [b.tolist() for b in Data.DataLoader(range(20), 5, shuffle=True, generator=g)]
        return order, parts, batches

    assert drawn(0) == drawn(1)


class Draws(Data.Dataset):
    """Every sample is a fresh random number of the worker that makes it."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.randint(0, 2**40, ()).item(), np.random.randint(2**31), Data.get_worker_info().id


def seed_worker(worker_id):
    seed = torch.initial_seed() % 2**32
    np.random.seed(seed)
    random.seed(seed)


def drawn_in_workers():
    g = torch.Generator().manual_seed(42)
    loader = Data.DataLoader(Draws(), batch_size=None, num_workers=2, worker_init_fn=seed_worker, generator=g)
    return [tuple(sample) for sample in loader]


def test_workers_draw_different_numbers_the_same_in_every_run():
    first = drawn_in_workers()
    assert first == drawn_in_workers()
    assert len({s[0] for s in first}) == 4 and {s[2] for s in first} == {0, 1}
    assert first[0][1] != first[1][1]  # the two workers were seeded apart


def test_cudnn_switches():
    old = torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark
    try:
        x, weight = torch.rand(1, 2, 8, 8), torch.rand(3, 2, 3, 3)
        plain = nn.functional.conv2d(x, weight)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, True
        assert torch.backends.cudnn.deterministic and torch.backends.cudnn.benchmark
        assert torch.equal(nn.functional.conv2d(x, weight), plain)
    finally:
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = old
