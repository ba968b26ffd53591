"""Under autocast calls have plans of their own: they give what the same calls give without any, whatever autocast is told between them."""

import os
import sys
import threading

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._interception import autocast
from flambeau._kernel.native import site
from flambeau._ops.plans import sites

pytestmark = pytest.mark.skipif(not site.usable(), reason="there is no native entry")

x, y = torch.randn(6, 8), torch.randn(6, 8)
half = x.bfloat16()
weight, bias = torch.randn(8, 8, requires_grad=True), torch.randn(8, requires_grad=True)
image, kernel = torch.randn(2, 3, 9, 9), torch.randn(4, 3, 3, 3, requires_grad=True)
slope = torch.tensor([0.25])
CALLS = {
    "add": lambda: x + y,
    "mixed": lambda: x + half,
    "relu": lambda: F.relu(x),
    "gelu": lambda: F.gelu(x, approximate="tanh"),
    "prelu": lambda: F.prelu(x, slope),
    "exp": lambda: half.exp(),
    "pow": lambda: half.abs().pow(2.5),
    "linear": lambda: F.linear(x, weight, bias),
    "matmul": lambda: x @ y.t(),
    "product": lambda: half @ half.t(),
    "bmm": lambda: torch.bmm(x[None], y.t()[None]),
    "layer_norm": lambda: F.layer_norm(half, (8,), bias, bias),
    "softmax": lambda: half.softmax(1),
    "mse": lambda: F.mse_loss(half, y),
    "sum": lambda: half.sum(0),
    "view": lambda: x.view(8, 6),
    "split": lambda: x.split(2),
    "cat": lambda: torch.cat([x, half]),
    "conv": lambda: F.conv2d(image, kernel, padding=1),
    "pool": lambda: F.max_pool2d(image, 2),
    "named": lambda: torch.exp(x, out=None),
    "cross_entropy": lambda: F.cross_entropy(half, torch.arange(6)),
}
STATES = [{"dtype": torch.bfloat16}, {"dtype": torch.float16}, {"enabled": False}, {"cache_enabled": False}]


def parts(out):
    return list(out) if isinstance(out, (tuple, list)) else [out]


def result(call):
    """What a call gives, its gradients included."""
    weight.grad = bias.grad = kernel.grad = None
    outs = parts(call())
    found = [(t.dtype, t.stride(), t.detach().clone()) for t in outs]
    total = [t.double().sum() for t in outs if t.requires_grad]
    if total:
        sum(total).backward()
    return found, [(g.dtype, g) for g in (weight.grad, bias.grad, kernel.grad) if g is not None]


def same(one, other):
    assert [len(part) for part in one] == [len(part) for part in other]
    for a, b in zip([*one[0], *one[1]], [*other[0], *other[1]]):
        assert a[:-1] == b[:-1]
        torch.testing.assert_close(a[-1], b[-1], rtol=0, atol=0)


WITHOUT_HALF = [state for state in STATES if state.get("dtype") is not torch.float16]
BOTH = ("add", "mixed", "exp", "product", "softmax", "sum", "view", "cat")  # those of other calls are slow


@pytest.mark.parametrize(
    ("name", "states"),
    [(name, STATES if name in BOTH else WITHOUT_HALF) for name in CALLS]
    + [pytest.param(name, STATES, marks=pytest.mark.slow) for name in CALLS if name not in BOTH],
    ids=lambda v: v if isinstance(v, str) else f"{len(v)} states",
)
def test_results_are_those_without_plans(name, states):
    call = CALLS[name]
    for _ in range(2):
        for options in (*states, None):
            block = torch.autocast("cpu", **options) if options is not None else torch.autocast("cpu", enabled=False)
            with block, site.switched_off():
                wanted = result(call)
            for _ in range(4):
                with block:
                    same(result(call), wanted)


def ours_in(call):
    """Files of ours whose functions a call runs."""
    seen = []
    sys.setprofile(lambda frame, event, arg: seen.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [file for file in seen if file.startswith(os.path.join(os.path.dirname(torch.__file__), ""))]


def test_calls_under_autocast_are_planned():
    """After some calls nothing of ours runs in Python."""
    site.wait()
    for name in ("add", "layer_norm", "softmax", "product", "sum", "view", "cat", "named"):
        call = CALLS[name]
        with torch.autocast("cpu"):
            for _ in range(5):  # a call that others were seen beside comes again until it is planned
                for _ in range(6):
                    call()
                if not (ours := ours_in(call)):
                    break
        assert not ours, (name, ours)


def test_switches_between_calls():
    with torch.autocast("cpu"):
        for _ in range(6):
            assert (x @ y.t()).dtype is torch.bfloat16
        torch.set_autocast_dtype("cpu", torch.float16)
        assert [(x @ y.t()).dtype for _ in range(6)] == [torch.float16] * 6
        torch.set_autocast_dtype("cpu", torch.bfloat16)
        assert (x @ y.t()).dtype is torch.bfloat16
        with torch.autocast("cpu", enabled=False):
            assert [(x @ y.t()).dtype for _ in range(6)] == [torch.float32] * 6
        torch.set_autocast_enabled("cpu", False)
        assert (x @ y.t()).dtype is torch.float32
        torch.set_autocast_enabled("cpu", True)
    assert [(x @ y.t()).dtype for _ in range(6)] == [torch.float32] * 6


def test_a_copy_of_a_parameter_is_shared_until_the_block_ends():
    """So that its gradients are added in the short type, and it is converted once."""
    made = []
    for _ in range(6):
        with torch.autocast("cpu"):
            a, b = F.linear(x, weight), F.linear(y, weight)
        made.append((a, b))
        ends = [[e[0] for e in t.grad_fn.next_functions if e[0] is not None] for t in (a, b)]
        assert {type(n).__name__ for n in ends[0]} == {type(n).__name__ for n in ends[1]}
        assert any(m is n for m in ends[0] for n in ends[1])
    with torch.no_grad():
        weight.mul_(2.0)
    with torch.autocast("cpu"):
        changed = F.linear(x, weight)
    torch.testing.assert_close(changed, 2 * made[0][0])


def test_a_copy_is_kept_where_nothing_is_recorded(monkeypatch):
    """A loop of inference in one block converts its weights once."""
    asked = []
    before = autocast.Settings.cast

    def cast(self, t, dtype):
        asked.append((t, before(self, t, dtype)))
        return asked[-1][1]

    monkeypatch.setattr(autocast.Settings, "cast", cast)
    with torch.no_grad(), torch.autocast("cpu"):
        outs = [F.linear(half, weight) for _ in range(8)]
    copies = [copy for t, copy in asked if t is weight]
    assert len(copies) == 8 and all(copy is copies[0] for copy in copies)  # a plan would convert it each time, unseen
    assert all(torch.equal(out, outs[0]) and out.dtype is torch.bfloat16 for out in outs)


def test_threads_without_autocast_are_left_alone():
    stop, wrong = threading.Event(), []

    def others():
        while not stop.is_set():
            if (x @ y.t()).dtype is not torch.float32 or (x + y).dtype is not torch.float32:
                wrong.append(1)

    threads = [threading.Thread(target=others) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        for _ in range(200):
            with torch.autocast("cpu"):
                if (x @ y.t()).dtype is not torch.bfloat16 or F.layer_norm(x, (8,)).dtype is not torch.float32:
                    wrong.append(2)
    finally:
        stop.set()
        for t in threads:
            t.join()
    assert not wrong


def test_states_have_numbers_of_their_own():
    assert sites.local.casting == 0
    with torch.autocast("cpu"):
        one = sites.local.casting
        with torch.autocast("cpu", dtype=torch.float16):
            assert sites.local.casting not in (0, one)
        with torch.autocast("cpu", enabled=False):
            assert sites.local.casting == 0
        assert sites.local.casting == one > 0
    assert sites.local.casting == 0
