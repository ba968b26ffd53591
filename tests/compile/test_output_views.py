"""Results that show the same memory: views of each other, of arguments, and forms without history."""

import gc
import weakref

import pytest

import flambeau as torch

X = torch.arange(6.0).view(2, 3)


def base_and_view(x):
    y = x * 2
    return y, y[0]


def two_views(x):
    y = x * 2
    return y[0], y.T


def base_and_detached(x):
    y = x * 2
    return y, y.detach()


def detached_first(x):
    y = x * 2
    return y.detach(), y


def without_history(x):
    y = x * 2
    with torch.no_grad():
        return y, y[0]


def nested(x):
    y = x * 2
    return {"a": y, "b": [y.view(-1), (y[0], y[1])]}


def of_argument(x):
    return x.view(-1), x * 2


def written(x):
    y = x * 2
    y[0].add_(5)
    return y, y[1:].mul_(2)


def first_times(k):
    return lambda a, b: (a.mul_(k), b.sum())[1]


def second_times(k):
    return lambda a, b: (b.mul_(k), a.sum())[1]


USES = {
    "write to a view": (base_and_view, second_times(3)),
    "write to the base": (base_and_view, first_times(3)),
    "write to one of two views": (two_views, first_times(3)),
    "gradients past a form without history": (base_and_detached, lambda a, b: (a * b).sum()),
    "write to a form without history": (base_and_detached, lambda a, b: (b.mul_(3), (a**2).sum())[1]),
    "a form without history comes first": (detached_first, lambda a, b: a.requires_grad + (a * b).sum()),
    "a view without history": (without_history, lambda a, b: b.requires_grad + (a[0] * b).sum()),
    "of an argument": (of_argument, lambda a, b: (a * 3).sum() + b.sum()),
    "written inside": (written, second_times(3)),
}


def gradient(function, use):
    x = X.clone().requires_grad_()
    loss = use(*function(x))
    loss.backward()
    return loss.detach(), x.grad


@pytest.mark.parametrize("name", USES)
def test_histories_know_of_writes_to_shared_memory(name):
    function, use = USES[name]
    wanted, compiled = gradient(function, use), torch.compile(function)
    for _ in range(4):
        assert all(map(torch.equal, gradient(compiled, use), wanted))


def test_views_of_arguments_write_into_their_history():
    compiled = torch.compile(lambda x: (x[0], x + 1))
    for _ in range(4):
        x = X.clone().requires_grad_()
        z = x * 2
        part, more = compiled(z)
        part.mul_(3)
        (z.sum() + more.sum()).backward()
        assert x.grad.tolist() == [[8.0] * 3, [4.0] * 3]


@pytest.mark.parametrize("history", [False, True])
def test_results_share_storages_as_eagerly(history):
    compiled = torch.compile(nested)
    for _ in range(4):
        made = compiled(X.clone().requires_grad_(history))
        whole, flat, (first, last) = made["a"], *made["b"]
        assert all(t._base is whole and t.requires_grad is history for t in (flat, first, last))
        assert last.storage_offset() == 3 and flat.stride() == (1,)
        with torch.no_grad():
            whole.add_(1)
        assert [t._version for t in (whole, flat, first, last)] == [1] * 4
        assert last.tolist() == [7.0, 9.0, 11.0]


def test_parts_of_what_nobody_has_share_a_storage():
    compiled = torch.compile(lambda x: (x * 2).chunk(3, 1))
    for _ in range(4):
        parts = compiled(X)
        assert len({p.untyped_storage().data_ptr() for p in parts}) == 1 and [p.storage_offset() for p in parts] == [
            0,
            1,
            2,
        ]


def test_parts_that_are_taken_together_have_one_node():
    compiled = torch.compile(lambda x: [*(x * 2).unbind(1), *x.split(1)])
    for _ in range(4):
        x = X.clone().requires_grad_()
        *columns, first, second = compiled(x)
        assert len({t.grad_fn for t in columns}) == len({first.grad_fn, second.grad_fn}) == 1
        (columns[0].sum() * 3 + first.sum() + columns[2][1]).backward()
        assert x.grad.tolist() == [[7.0, 1.0, 1.0], [6.0, 0.0, 2.0]]


def test_one_view_in_two_places_is_one_tensor():
    state = {"a": None, "b": None}

    def step(x):
        state["a"] = state["b"] = x[1:]
        return state["a"]

    compiled = torch.compile(step)
    for _ in range(4):
        out = compiled(X.clone())
        assert out is state["a"] is state["b"]


def test_tensors_of_the_recorded_run_are_not_kept():
    compiled = torch.compile(base_and_view)
    held = [weakref.ref(t._array) for t in compiled(X.clone().requires_grad_())]
    gc.collect()
    assert [one() for one in held] == [None, None]


def test_objects_that_a_run_keeps_are_views_too():
    class Kept(torch.nn.Module):
        def forward(self, x):
            y = x * 2
            self.row = y[0]
            return y

    model = Kept()
    compiled = torch.compile(model)
    for _ in range(4):
        x = X.clone().requires_grad_()
        y = compiled(x)
        model.row.mul_(3)
        y.sum().backward()
        assert x.grad.tolist() == [[6.0] * 3, [2.0] * 3]


def test_writes_to_results_that_a_backward_pass_needs_are_errors():
    def powers(x):
        y = x.exp()
        return y, (y * y).sum()

    compiled = torch.compile(powers)
    for _ in range(4):
        y, z = compiled(X.clone().requires_grad_())
        with torch.no_grad():
            y.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()
