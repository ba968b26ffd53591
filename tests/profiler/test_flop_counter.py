"""Counts of floating-point operations."""

import pytest

import flambeau as torch
from flambeau.ops import aten
from flambeau.utils.flop_counter import FlopCounterMode, register_flop_formula


def test_forward_and_backward_by_module():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)
    )
    with FlopCounterMode(display=False) as counter:
        model(torch.randn(2, 3, 8, 8)).sum().backward()
    convolution, linear = 2 * 2 * 36 * 4 * 27, 2 * 2 * 144 * 5
    assert counter.get_flop_counts() == {
        "Global": {
            aten.convolution: convolution, aten.addmm: linear, aten.mm: 2 * linear,
            aten.convolution_backward: convolution,
        },
        "Sequential": {
            aten.convolution: convolution, aten.addmm: linear, aten.mm: 2 * linear,
            aten.convolution_backward: convolution,
        },
        "Sequential.0": {aten.convolution: convolution, aten.convolution_backward: convolution},
        "Sequential.3": {aten.addmm: linear, aten.mm: 2 * linear},
    }  # fmt: skip
    assert (
        counter.get_total_flops() == 2 * convolution + 3 * linear
        and counter.flop_counts["Global"][aten.mm] == 2 * linear
    )
    assert "Sequential.0" in counter.get_table() and "Sequential.0" not in counter.get_table(depth=1)


def test_products():
    q = torch.randn(1, 2, 8, 4)
    with FlopCounterMode(display=False) as counter:
        torch.bmm(torch.randn(2, 3, 4), torch.randn(2, 4, 5))
        torch.nn.functional.scaled_dot_product_attention(q, q, q)
        torch.nn.functional.conv_transpose2d(torch.randn(1, 2, 4, 4), torch.randn(2, 3, 3, 3))
    counts = counter.get_flop_counts()["Global"]
    assert counts[aten.bmm] == 240 and counts[aten.convolution] == 1728
    assert sum(counts.values()) == 240 + 1728 + 2 * 2 * (2 * 8 * 8 * 4)


def test_own_formulas_and_nothing():
    with FlopCounterMode(display=False, custom_mapping={aten.exp: lambda x, out_shape: 7 * x[0]}) as counter:
        torch.ones(3).exp()
    assert counter.get_flop_counts() == {"Global": {aten.exp: 21}}
    with FlopCounterMode(display=False) as counter:
        torch.ones(3).sin()
    assert counter.get_flop_counts() == {} and counter.get_total_flops() == 0


def test_inside_a_profile():
    a = torch.ones(2, 2)
    with torch.profiler.profile() as prof, FlopCounterMode(display=False) as counter:
        a @ a
    assert counter.get_total_flops() == 16 and "aten::mm" in [e.name for e in prof.events()]


def test_modules_are_known_after_nodes_were_given_other_numbers():
    x = torch.ones(2, requires_grad=True)
    (x * 2).grad_fn._set_sequence_nr(100)  # from now on passes number their nodes anew
    model = torch.nn.Sequential(torch.nn.Linear(3, 5))
    with FlopCounterMode(display=False) as counter:
        model(torch.ones(2, 3)).sum().backward()
    assert counter.get_flop_counts()["Sequential.0"] == {aten.addmm: 60, aten.mm: 60}


def test_products_of_batches_and_gradients_outside_of_modules():
    def p(*shape):
        return torch.randn(*shape, requires_grad=True)

    for function, expected in (
        (lambda: p(2, 3, 4) @ p(4, 5), {aten.mm: 720}),
        (lambda: p(2, 3, 4) @ p(2, 4, 5), {aten.bmm: 720}),
        (lambda: torch.nn.functional.linear(p(2, 3, 4), p(5, 4), p(5)), {aten.addmm: 240, aten.mm: 480}),
        (
            lambda: torch.nn.functional.conv2d(p(1, 3, 8, 8), p(4, 3, 3, 3)),
            {aten.convolution: 7776, aten.convolution_backward: 15552},
        ),
    ):
        with FlopCounterMode(display=False) as counter:
            function().sum().backward()
        assert counter.flop_counts["Global"] == expected


def test_operators_of_libraries():
    @torch.library.custom_op("flops_here::foo", mutates_args=())
    def foo(x: torch.Tensor, y: float = 1.0) -> torch.Tensor:
        return x.sin() * y

    with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
        register_flop_formula(torch.ops.flops_here.foo.default)(len)
    register_flop_formula(torch.ops.flops_here.foo)(lambda x, out_shape: x[0] * out_shape[0])
    with pytest.raises(RuntimeError, match=r"duplicate registrations for flops_here\.foo"):
        register_flop_formula(torch.ops.flops_here.foo)(len)
    with FlopCounterMode(display=False) as counter, torch.profiler.profile() as prof:
        foo(torch.ones(3))
    assert counter.flop_counts["Global"] == {torch.ops.flops_here.foo: 9}
    assert "flops_here::foo" in [e.name for e in prof.events()]

    def count(x, y, out_val):
        return x.numel() + out_val.numel()

    count._get_raw = True
    with (
        pytest.warns(UserWarning, match="not needed"),
        FlopCounterMode(torch.nn.Linear(2, 2), display=False, custom_mapping={aten.add: count}) as counter,
    ):
        torch.ones(2, 3) + torch.ones(3)
    assert counter.get_flop_counts() == {"Global": {aten.add: 12}}
