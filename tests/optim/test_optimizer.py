"""Groups, hooks, closures, saving and loading of optimizers."""

import copy
import pickle
import threading
import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

ALL = [
    "SGD",
    "Adam",
    "AdamW",
    "Adadelta",
    "Adagrad",
    "Adamax",
    "ASGD",
    "NAdam",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Adafactor",
    "Muon",
]


def parameter(*shape, seed=0):
    return torch.nn.Parameter(torch.tensor(np.random.default_rng(seed).standard_normal(shape)))


def gradient(p, number):
    return torch.tensor(np.random.default_rng(number).standard_normal(tuple(p.shape)))


def steps(optimizer, numbers):
    for number in numbers:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad = gradient(p, number)
        optimizer.step()


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("through", ["state_dict", "pickle"])
def test_resuming_is_going_on(name, through):
    p = parameter(3, 4)
    settings = {"momentum": 0.9} if name == "SGD" else {}
    optimizer = getattr(torch.optim, name)([p], lr=0.05, **settings)
    steps(optimizer, range(3))
    if through == "pickle":
        resumed = pickle.loads(pickle.dumps(optimizer))
        q = resumed.param_groups[0]["params"][0]
    else:
        q = torch.nn.Parameter(p.detach().clone())
        resumed = getattr(torch.optim, name)([q], lr=1.0)
        resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(optimizer, range(3, 6))
    steps(resumed, range(3, 6))
    if through == "state_dict" and name in ("ASGD", "NAdam"):  # loading gives their 0-d states the parameter's dtype
        np.testing.assert_allclose(p.tolist(), q.tolist(), rtol=1e-6)
    else:
        assert p.tolist() == q.tolist()


def test_groups():
    a, b = parameter(2), parameter(3)
    optimizer = torch.optim.SGD([{"params": a}, {"params": [b], "lr": 0.5}], lr=0.1)
    before = a.tolist(), b.tolist()
    a.grad, b.grad = torch.ones_like(a), torch.ones_like(b)
    optimizer.step()
    np.testing.assert_allclose(a.tolist(), np.array(before[0]) - 0.1)
    np.testing.assert_allclose(b.tolist(), np.array(before[1]) - 0.5)
    assert optimizer.state_dict()["param_groups"][1]["params"] == [1]


def test_names():
    a, b = parameter(2), parameter(3)
    optimizer = torch.optim.SGD([("a", a), ("b", b)], lr=0.1)
    assert optimizer.state_dict()["param_groups"][0]["param_names"] == ["a", "b"]
    with pytest.raises(ValueError, match="without names"):
        optimizer.add_param_group({"params": [parameter(1)]})


@pytest.mark.parametrize(
    "error, make",
    [
        (TypeError, lambda: torch.optim.SGD(parameter(2))),
        (ValueError, lambda: torch.optim.SGD([])),
        (TypeError, lambda: torch.optim.SGD([{"params": {parameter(1)}}])),
        (TypeError, lambda: torch.optim.SGD([1])),
        (ValueError, lambda: torch.optim.SGD([parameter(2) * 2])),
        (ValueError, lambda: torch.optim.SGD([("a", parameter(1)), parameter(1)])),
        (TypeError, lambda: torch.optim.SGD([parameter(1)]).add_param_group([parameter(1)])),
        (ValueError, lambda: torch.optim.SGD([parameter(1)], lr=-1.0)),
        (ValueError, lambda: torch.optim.SGD([parameter(1)], nesterov=True)),
        (ValueError, lambda: torch.optim.Adam([parameter(1)], betas=(0.9, 1.0))),
        (ValueError, lambda: torch.optim.Adam([parameter(1)], lr=torch.tensor([0.1, 0.2]))),
        (ValueError, lambda: torch.optim.Adam([parameter(1)], lr=torch.tensor(0.1), foreach=True)),
        (RuntimeError, lambda: torch.optim.Adam([parameter(1)], fused=True, differentiable=True)),
        (ValueError, lambda: torch.optim.Muon([parameter(1)])),
        (ValueError, lambda: torch.optim.LBFGS([{"params": parameter(1)}, {"params": parameter(1)}])),
    ],
)
def test_refusals(error, make):
    with pytest.raises(error):
        make()


def test_same_parameter_twice():
    p = parameter(1)
    with pytest.warns(UserWarning, match="duplicate parameters"):
        torch.optim.SGD([p, p])
    with pytest.raises(ValueError, match="more than one parameter group"):
        torch.optim.SGD([{"params": p}, {"params": p}])


def test_loading_another_shape():
    one, two = torch.optim.SGD([parameter(1)]), torch.optim.SGD([parameter(1), parameter(2)])
    with pytest.raises(ValueError, match="doesn't match the size"):
        one.load_state_dict(two.state_dict())


def test_loaded_states_follow_the_parameter():
    p, q = torch.nn.Parameter(torch.ones(2)), parameter(2)
    source = torch.optim.Adam([p])

    p.grad = torch.ones(2)
    source.step()
    target = torch.optim.Adam([q])
    target.load_state_dict(source.state_dict())
    assert target.state[q]["exp_avg"].dtype is torch.float64 and target.state[q]["step"].dtype is torch.float32


def test_old_checkpoints():
    """Steps that are numbers become tensors, settings that did not exist get their defaults."""
    p = parameter(2)
    optimizer = torch.optim.Adam([p])
    state = {"step": 5, "exp_avg": torch.ones(2), "exp_avg_sq": torch.ones(2)}
    group = {"lr": 0.1, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "params": [0]}
    optimizer.load_state_dict({"state": {0: state}, "param_groups": [group]})
    steps(optimizer, [1])
    assert optimizer.state[p]["step"].item() == 6 and optimizer.param_groups[0]["amsgrad"] is False


@pytest.mark.parametrize("name", [n for n in ALL if n != "Muon"])
def test_checkpoints_from_before_steps_were_tensors(name):
    first, second = parameter(3), parameter(3)
    kept = getattr(torch.optim, name)([first])
    steps(kept, [1, 2])
    with torch.no_grad():
        second.copy_(first)
    old = copy.deepcopy(kept.state_dict())
    for key in ("foreach", "differentiable", "capturable", "fused"):
        old["param_groups"][0].pop(key, None)
    for state in old["state"].values():
        if "step" in state:
            state["step"] = float(state["step"])
    resumed = getattr(torch.optim, name)([second])
    resumed.load_state_dict(old)
    assert all(torch.is_tensor(state["step"]) for state in resumed.state.values() if "step" in state)
    steps(kept, [3])
    steps(resumed, [3])
    assert torch.equal(first, second)


@pytest.mark.parametrize("fused", [True, False])
def test_steps_of_loaded_states(fused):
    """Fused steps are counted in float32, others in what was saved."""
    p = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.Adam([p], fused=fused)
    p.grad = torch.ones(2)
    optimizer.step()
    state = optimizer.state_dict()
    state["state"][0]["step"] = state["state"][0]["step"].double()
    optimizer.load_state_dict(state)
    assert optimizer.state[p]["step"].dtype is (torch.float32 if fused else torch.float64)


def test_hooks_and_their_order():
    p, seen = parameter(2), []
    optimizer = torch.optim.SGD([p], lr=0.1)
    handles = [
        register_optimizer_step_pre_hook(lambda o, args, kwargs: seen.append("all before")),
        register_optimizer_step_post_hook(lambda o, args, kwargs: seen.append("all after")),
        optimizer.register_step_pre_hook(lambda o, args, kwargs: seen.append("before")),
        optimizer.register_step_post_hook(lambda o, args, kwargs: seen.append("after")),
    ]
    assert optimizer.step(lambda: seen.append("closure") or 3) == 3
    assert seen == ["all before", "before", "closure", "after", "all after"]
    for handle in handles:
        handle.remove()
    optimizer.step()
    assert len(seen) == 5
    optimizer.register_step_pre_hook(lambda o, args, kwargs: ((args[0], lambda: 7), {}))
    assert optimizer.step() == 7
    optimizer.register_step_pre_hook(lambda o, args, kwargs: 5)
    with pytest.raises(RuntimeError, match="must return None or a tuple"):
        optimizer.step()


def test_hooks_of_own_optimizers():
    class Own(torch.optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        def step(self, closure=None):
            return "made"

    seen = []
    optimizer = Own([parameter(1)])
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    assert optimizer.step() == "made" and seen == [1]


def test_state_dict_hooks():
    optimizer, seen = torch.optim.SGD([parameter(1)]), []
    optimizer.register_state_dict_pre_hook(lambda o: seen.append("before saving"))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append(state["more"]))
    optimizer.register_load_state_dict_pre_hook(lambda o, state: seen.append("first"), prepend=True)
    optimizer.register_load_state_dict_post_hook(lambda o: seen.append("loaded"))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == ["before saving", "first", 1, "loaded"]


def test_closure_records_and_the_step_does_not():
    p = parameter(2)
    optimizer = torch.optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = (p * p).sum()
        loss.backward()
        return loss

    with torch.no_grad():
        loss = optimizer.step(closure)
    assert loss.requires_grad and p.is_leaf and torch.is_grad_enabled()


def test_changed_parameters_are_noticed():
    """A graph that kept a parameter's old value refuses to go backward after a step."""
    p = parameter(2)
    loss = (p * p).sum()
    p.grad = torch.ones_like(p)
    torch.optim.Adam([p]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_zero_grad():
    p = parameter(2)
    optimizer = torch.optim.SGD([p])
    p.grad = torch.ones_like(p)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad.tolist() == [0, 0]
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.filterwarnings("ignore:Using backward")
def test_zeroed_gradients_have_no_history():
    p = parameter(2)
    optimizer = torch.optim.SGD([p])
    (p**3).sum().backward(create_graph=True)
    for g in (p.grad, torch.ones_like(p).requires_grad_()):
        p.grad = g
        assert g.requires_grad
        optimizer.zero_grad(set_to_none=False)
        assert p.grad is g and g.tolist() == [0, 0] and g.grad_fn is None and not g.requires_grad


def test_tensor_rate_is_read_at_each_step():
    p = torch.nn.Parameter(torch.zeros(1))
    lr = torch.tensor(0.5)
    optimizer = torch.optim.SGD([p], lr=lr)
    p.grad = torch.ones(1)
    optimizer.step()
    lr.fill_(0.25)
    optimizer.step()
    assert p.item() == -0.75


def test_replaced_memory_is_used():
    """States and parameters may get new memory between steps."""
    p, q = parameter(3), parameter(3)
    one, two = torch.optim.Adam([p]), torch.optim.Adam([q])
    for number in range(4):
        steps(one, [number])
        steps(two, [number])
        q.data = q.data.clone()
        two.state[q]["exp_avg"] = two.state[q]["exp_avg"].clone()
    assert p.tolist() == q.tolist()
    two.state.clear()
    steps(two, [9])
    assert two.state[q]["step"].item() == 1


def test_wrong_state_is_refused():
    """A state of another size is never read beyond its end."""
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.Adam([p])
    p.grad = torch.ones(4)
    optimizer.step()
    optimizer.state[p]["exp_avg"] = torch.ones(3)
    with pytest.raises(RuntimeError):
        optimizer.step()


def test_read_only_memory_is_refused():
    array = np.ones(3, np.float32)
    array.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the array is read-only
        p = torch.from_numpy(array)
    p.grad = torch.ones(3)
    with pytest.raises(RuntimeError):
        torch.optim.SGD([p], lr=0.1).step()
    assert array.tolist() == [1, 1, 1]


def test_repr():
    optimizer = torch.optim.SGD([{"params": parameter(1)}, {"params": parameter(1), "lr": 0.5}], lr=0.1)
    lines = repr(optimizer).split("\n")
    assert lines[0] == "SGD (" and lines[1] == "Parameter Group 0" and lines[-1] == ")"
    assert "    lr: 0.1" in lines and "    lr: 0.5" in lines and "Parameter Group 1" in lines


def test_deepcopy_is_apart():
    p = parameter(2)
    optimizer = torch.optim.SGD([p], lr=0.1, momentum=0.9)
    steps(optimizer, range(2))
    other = copy.deepcopy(optimizer)
    (q,) = other.param_groups[0]["params"]
    assert q is not p and q.tolist() == p.tolist()
    steps(other, [3])
    assert q.tolist() != p.tolist()
    steps(optimizer, [3])
    assert q.tolist() == p.tolist()


def test_swapped_in():
    p, q = parameter(2), torch.zeros(2, dtype=torch.float64)
    optimizer = torch.optim.Adam([p], lr=0.1)
    with (
        pytest.raises(RuntimeError, match="initialized"),
        torch.optim.swap_in_optimizer_params_and_state(optimizer, {}, {}),
    ):
        pass
    steps(optimizer, [0])
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["lr"] = 0.5
    before, q.grad = p.tolist(), torch.ones(2, dtype=torch.float64)
    with torch.optim.swap_in_optimizer_params_and_state(optimizer, {"q": q}, state):
        assert optimizer.param_groups[0]["lr"] == 0.5
        optimizer.step()
    assert q.tolist() != [0, 0] and p.tolist() == before and optimizer.param_groups[0]["lr"] == 0.1
    assert optimizer.state[p]["step"].item() == 1 and state["state"][0]["step"].item() == 2


# -- the native step reads parameters, gradients and states as they are now -------------------------------------------


def _trained(sizes, steps=3, change=None):
    generator = np.random.default_rng(5)
    params = [torch.nn.Parameter(torch.tensor(generator.standard_normal(n), dtype=torch.float32)) for n in sizes]
    optimizer = torch.optim.AdamW(params, lr=0.1)
    for step in range(steps):
        for p in params:
            p.grad = torch.tensor(generator.standard_normal(p.numel()), dtype=torch.float32)
        if change is not None:
            change(optimizer, params, step)
        optimizer.step()
    return [p.detach().numpy() for p in params]


def test_many_elements_change_like_few():
    """More elements than one thread takes, together and one parameter at a time."""
    together = _trained([20_000, 30_000, 7])

    def apart(optimizer, params, step):
        if not step:
            group = optimizer.param_groups.pop()
            for p in group["params"]:
                optimizer.add_param_group({**group, "params": [p]})

    for a, b in zip(together, _trained([20_000, 30_000, 7], change=apart)):
        np.testing.assert_array_equal(a, b)


def test_replaced_states_and_memory_are_used():
    def change(optimizer, params, step):
        if step == 1:
            state = optimizer.state[params[0]]
            state["exp_avg"] = state["exp_avg"].clone()  # another tensor with the same values
            params[1].data = params[1].data.clone()
            optimizer.load_state_dict(optimizer.state_dict())

    for a, b in zip(_trained([5, 9]), _trained([5, 9], change=change)):
        np.testing.assert_array_equal(a, b)


def test_states_that_do_not_lie_like_the_parameter():
    """A state with strides, a parameter without a gradient, one of another dtype: those are changed apart."""
    usual = _trained([6, 6, 6])

    def change(optimizer, params, step):
        if step == 1:
            state = optimizer.state[params[0]]
            state["exp_avg"] = state["exp_avg"].repeat_interleave(2)[::2]
            optimizer.state[params[2]]["step"] = optimizer.state[params[2]]["step"].double()

    for a, b in zip(usual, _trained([6, 6, 6], change=change)):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_missing_state_is_an_error():
    params = [torch.nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizer = torch.optim.Adam(params)
    for p in params:
        p.grad = torch.ones(3)
    optimizer.step()
    del optimizer.state[params[0]]["exp_avg"]
    with pytest.raises(KeyError):
        optimizer.step()


def test_settings_that_are_no_numbers():
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([p])
    p.grad = torch.ones(3)
    optimizer.step()
    optimizer.param_groups[0]["eps"] = "small"
    before = p.tolist()
    with pytest.raises(TypeError):
        optimizer.step()
    assert p.tolist() == before
    optimizer.param_groups[0]["eps"] = torch.tensor(1e-8)
    optimizer.step()
    assert p.tolist() != before


def test_arrays_stay_while_threads_change_them():
    """Gradients that are replaced during a long step live until its end."""
    params = [torch.nn.Parameter(torch.zeros(1 << 18)) for _ in range(4)]
    for p in params:
        p.grad = torch.ones(1 << 18)
    optimizer = torch.optim.SGD(params, lr=1.0)
    going = True

    def replace():
        while going:
            for p in params:
                p.grad = torch.ones(1 << 18)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(30):
            optimizer.step()
    finally:
        going = False
        thread.join()
    for p in params:
        assert p.detach().unique().tolist() == [-30.0]


@pytest.mark.parametrize(("most", "calls"), [(1, 2), (2, 3), (5, 6), (30, 31)])
def test_line_searches_keep_to_the_evaluations_that_are_left(most, calls):
    p, counted = torch.ones(3, requires_grad=True), []

    def slope():  # goes down for ever
        p.grad = None
        loss = p.sum()
        loss.backward()
        counted.append(loss)
        return loss

    torch.optim.LBFGS([p], max_iter=1, max_eval=most, line_search_fn="strong_wolfe").step(slope)
    assert len(counted) == calls


@pytest.mark.parametrize(
    ("options", "calls", "found"),
    [
        ({"tolerance_change": 1.0}, 2, 1.0), ({"tolerance_change": 0.99}, 3, 0.0), ({"tolerance_change": 1.5}, 2, 1.0),
        ({"tolerance_grad": 1.0}, 2, 1.0), ({"tolerance_grad": 0.99}, 3, 0.0), ({"tolerance_grad": 2.0}, 1, 2.0),
        ({"max_iter": 1}, 1, 1.0), ({"max_eval": 2}, 2, 1.0), ({"tolerance_change": 4.1}, 1, 2.0),
    ],
)  # fmt: skip
def test_where_lbfgs_stops(options, calls, found):
    """Half a square, from 2 on: the first step goes to 1, the second to 0."""
    p, seen = torch.nn.Parameter(torch.tensor([2.0])), []
    optimizer = torch.optim.LBFGS([p], **{"max_iter": 10, **options})

    def closure():
        seen.append(1)
        optimizer.zero_grad()
        loss = (p * p).sum() / 2
        loss.backward()
        return loss

    optimizer.step(closure)
    assert (len(seen), p.item()) == (calls, found)


def test_lbfgs_takes_a_rate_of_any_rank():
    found = []
    for rate in (0.5, torch.tensor([[0.5]])):
        p = torch.tensor([1.0, -2.0], requires_grad=True)
        optimizer = torch.optim.LBFGS([p], lr=rate, max_iter=4)

        def closure(p=p, optimizer=optimizer):
            optimizer.zero_grad()
            loss = (p**4).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        found.append(p.tolist())
    assert found[0] == pytest.approx(found[1], rel=1e-6)


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
def test_fused_steps_know_scales_and_overflows(kind):
    p, q = torch.ones(2), torch.ones(2)
    p.grad, q.grad = torch.full((2,), 8.0), torch.full((2,), 2.0)
    optimizer = kind([p], lr=0.1, fused=True)
    optimizer.grad_scale, optimizer.found_inf = torch.tensor([4.0]), torch.tensor(1.0)
    optimizer.step()
    assert p.tolist() == [1, 1] and float(optimizer.state[p].get("step", 0)) == 0
    optimizer.found_inf = torch.tensor(0.0)
    optimizer.step()
    kind([q], lr=0.1).step()
    assert torch.equal(p, q) and p.grad.tolist() == [2, 2]


def test_fused_steps_need_memory():
    p = torch.nn.Parameter(torch.ones(2, device="meta"))
    p.grad = torch.ones(2, device="meta")
    with pytest.raises(RuntimeError, match="`fused=True` requires all the params to be floating point Tensors"):
        torch.optim.Adam([p], fused=True).step()


def test_nesterovs_momentum_needs_one_and_no_dampening():
    for options in ({}, {"momentum": 0.5, "dampening": 0.1}, {"momentum": 0.0, "dampening": 0.0}):
        with pytest.raises(ValueError, match="Nesterov momentum requires a momentum and zero dampening"):
            torch.optim.SGD([torch.ones(1)], lr=1, nesterov=True, **options)
    torch.optim.SGD([torch.ones(1)], lr=1, nesterov=True, momentum=0.5)


def test_adafactor_of_a_vector():
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
    optimizer = torch.optim.Adafactor([p], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (p**2).sum().backward()
        optimizer.step()
    assert p.tolist() == pytest.approx([0.46959835, -1.43555403, 2.42579436], rel=1e-5)
    assert sorted(optimizer.state[p]) == ["step", "variance"]
