"""Numbers in order on a GPU that is none: what was made before is copied, never shared."""

import flambeau as torch
from flambeau._core.state import modes
from flambeau._ops.making import ranges

from .fake_gpu import back, on_gpu

CUDA = torch.device("cuda")


def test_what_comes_again_is_a_copy(gpu, monkeypatch):
    monkeypatch.setattr(modes, "inferring", None)  # nothing is copied while somebody is in inference mode
    made = []

    def made_there(start, end, step, d, k):
        made.append(k)
        return on_gpu(torch.tensor(list(range(start, end, step))))._array

    monkeypatch.setattr(ranges, "_range", made_there)
    first = torch.arange(3, 1237, 3, device=CUDA)
    first.add_(1)
    second, third = (torch.arange(3, 1237, 3, device=CUDA) for _ in range(2))
    second.mul_(0)
    wanted = list(range(3, 1237, 3))
    assert back(first).tolist() == [n + 1 for n in wanted] and back(third).tolist() == wanted
    assert len(made) == 1 and third.device.type == "cuda"


def test_places_in_order(gpu):
    bounds = torch.tensor([[1.0, 2.0, 2.0, 5.0], [-1.0, 0.0, 3.0, float("nan")]])
    values = torch.tensor([[2.0, 0.0, 9.0], [3.0, -4.0, float("nan")]])
    for right in (False, True):
        for row, value in ((bounds, values), (bounds[0], values), (bounds[0], values[0, 0])):
            found = torch.searchsorted(on_gpu(row), on_gpu(value), right=right)
            assert torch.equal(back(found), torch.searchsorted(row, value, right=right))
