"""What GradScaler is made of, and optimizers that scale by themselves."""

import pytest

import flambeau as torch


def test_unscaling_lists():
    found, inverse = torch.zeros(1), torch.tensor([0.5])
    grads = [torch.tensor([2.0, 4.0]), torch.tensor([6.0])]
    torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
    assert [g.tolist() for g in grads] == [[1, 2], [3]] and found.item() == 0
    torch._amp_foreach_non_finite_check_and_unscale_([torch.tensor([float("inf")])], found, inverse)
    assert found.item() == 1


def test_the_next_scale():
    scale, steps, found = torch.tensor([4.0]), torch.zeros(1, dtype=torch.int32), torch.zeros(1)
    seen = []
    for bad in (0, 0, 1):
        found.fill_(bad)
        torch._amp_update_scale_(scale, steps, found, 2.0, 0.25, 2)
        seen.append((scale.item(), steps.item()))
    assert seen == [(4, 1), (8, 0), (2, 0)]


def test_optimizers_that_scale_by_themselves():
    class Aware(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {})
            self._step_supports_amp_scaling = True

        def step(self, closure=None):
            self.seen = self.grad_scale.item(), self.found_inf.item()

    class Old(Aware):
        def step(self, closure=None, *, grad_scaler=None):
            self.seen = grad_scaler

    w = torch.nn.Parameter(torch.ones(2))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    aware, old = Aware([w]), Old([w])
    scaler.scale(w.sum()).backward()
    scaler.step(aware)
    assert aware.seen == (8, 0) and not hasattr(aware, "grad_scale") and w.grad.tolist() == [8, 8]
    with pytest.warns(FutureWarning, match="grad_scaler"):
        scaler.step(old)
    assert old.seen is scaler


def test_sparse_gradients_of_half_precision():
    index = torch.tensor([[0, 1, 1], [2, 0, 0]])
    p = torch.sparse_coo_tensor(index, torch.tensor([16.0, 32.0, 64.0]), (2, 3)).half()
    p.grad = p.clone()
    scaler = torch.amp.GradScaler("cpu")
    found = scaler._unscale_grads_(torch.optim.SGD([p], lr=1.0), torch.tensor([0.25]), torch.zeros(1), True)
    assert next(iter(found.values())).item() == 0
    assert p.grad.to_dense().tolist() == [[0, 0, 4], [24, 0, 0]]
