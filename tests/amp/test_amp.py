"""Mixed precision: which type each operation gets, nesting, decorators, the scale of the loss."""

import pickle
import threading

import pytest

import flambeau as torch

F = torch.nn.functional
BF16, F32, F16 = torch.bfloat16, torch.float32, torch.float16


@pytest.mark.slow
def test_products_are_lowered_and_losses_are_not():
    x, w = torch.randn(4, 8), torch.randn(3, 8)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
        assert y.dtype is BF16 and (x @ x.T).dtype is BF16 and torch.bmm(x[None], x.T[None]).dtype is BF16
        assert F.conv2d(torch.randn(1, 2, 5, 5), torch.randn(3, 2, 3, 3)).dtype is BF16
        assert F.mse_loss(y, y).dtype is F32
        assert F.cross_entropy(y, torch.tensor([0, 1, 2, 0])).dtype is F32
        assert torch.cat([y, x[:, :3]]).dtype is F32 and torch.stack([y, y]).dtype is BF16
        assert (x + x).dtype is F32 and torch.exp(y).dtype is BF16 and y.prod().dtype is F32
        assert (x.double() @ x.double().T).dtype is torch.float64
        assert torch.addmm(torch.zeros(4, 4), x, x.T).dtype is BF16
    assert (x @ x.T).dtype is F32


def test_values_are_those_of_the_cast_operands():
    x, w = torch.randn(5, 7), torch.randn(3, 7)
    with torch.autocast("cpu"):
        y = F.linear(x, w)
    assert torch.equal(y, F.linear(x.bfloat16(), w.bfloat16()))


def test_nesting_and_dtype():
    x = torch.randn(3, 3)
    with torch.autocast("cpu", dtype=F16):
        assert (x @ x).dtype is F16 and torch.get_autocast_dtype("cpu") is F16
        with torch.autocast("cpu", enabled=False):
            assert (x @ x).dtype is F32 and not torch.is_autocast_enabled("cpu")
            with torch.autocast("cpu", dtype=BF16):
                assert (x @ x).dtype is BF16
        assert (x @ x).dtype is F16
    assert torch.get_autocast_dtype("cpu") is BF16 and not torch.is_autocast_cpu_enabled()


def test_decorator_and_errors_leave_the_state_as_it_was():
    @torch.autocast("cpu")
    def f(x, fail=False):
        if fail:
            raise ValueError
        return x @ x

    assert f(torch.ones(2, 2)).dtype is BF16
    with pytest.raises(ValueError):
        f(torch.ones(2, 2), fail=True)
    assert not torch.is_autocast_enabled("cpu") and f(torch.ones(2, 2)).dtype is BF16


def test_other_threads_do_not_see_it():
    seen = []
    with torch.autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert seen == [F32]


def test_gradients_reach_float32_parameters_through_the_kept_copy():
    w = torch.nn.Parameter(torch.randn(4, 4))
    x = torch.randn(2, 4)
    with torch.autocast("cpu"):
        y = F.linear(F.linear(x, w), w)
        settings = torch._interception.autocast.settings()
        assert len(settings.copies) == 1
    assert not settings.copies
    y.float().sum().backward()
    assert w.grad.dtype is F32
    half = w.detach().bfloat16().requires_grad_()
    F.linear(F.linear(x.bfloat16(), half), half).float().sum().backward()
    torch_difference = (w.grad - half.grad.float()).abs().max()
    assert torch_difference < 0.02 * w.grad.abs().max()


def test_inside_a_function_autocast_is_off():
    """A function has its types; what it is made of runs in them, and afterwards autocast is as it was."""
    x, target = torch.randn(4, 3), torch.tensor([0, 1, 2, 0])
    with torch.autocast("cpu"):
        loss = F.cross_entropy(x.bfloat16(), target, label_smoothing=0.1)
        assert loss.dtype is F32
        assert F.scaled_dot_product_attention(x[None], x[None], x[None]).dtype is BF16
        assert torch.is_autocast_enabled("cpu") and (x @ x.T).dtype is BF16
        with pytest.raises(RuntimeError):
            torch.mm(x, x)
        assert torch.is_autocast_enabled("cpu") and (x @ x.T).dtype is BF16
        assert torch.relu(x @ x.T).dtype is BF16 and torch.relu(x).dtype is F32
    assert not torch.is_autocast_enabled("cpu") and (x @ x.T).dtype is F32


@pytest.mark.parametrize("name", ["layer_norm", "softmax", "dropout", "gelu", "embedding"])
def test_functions_without_a_policy_keep_types(name):
    x = torch.randn(4, 4)
    rest = {"layer_norm": ((4,),), "softmax": (-1,), "dropout": (0.5,), "gelu": (), "embedding": (x,)}[name]
    for d in (F32, BF16):
        first = torch.tensor([1, 2]) if name == "embedding" else x.to(d)
        with torch.autocast("cpu"):
            made = getattr(F, name)(first, *rest)
            assert made.dtype is (F32 if name == "embedding" else d) and torch.is_autocast_enabled("cpu")


def test_a_given_result_keeps_its_type():
    x, out = torch.randn(3, 3), torch.empty(3, 3)
    with torch.autocast("cpu"):
        assert torch.mm(x, x, out=out) is out and out.dtype is F32
        torch.testing.assert_close(out, (x.double() @ x.double()).float())
        with pytest.raises(RuntimeError):
            torch.mm(x, x.bfloat16(), out=out)


def test_classes_take_over_operations():
    class Foreign:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return function.__name__

    x = torch.ones(2, 2)
    with torch.autocast("cpu"):
        assert torch.relu(Foreign()) == "relu" and torch.mm(x, Foreign()) == "mm"
        assert torch.cat([x, Foreign()]) == "cat"


def test_function_modes_run_with_autocast():
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(torch.is_autocast_enabled("cpu"))
            return function(*args, **(kwargs or {}))

    with torch.autocast("cpu"), Watch():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is BF16
    assert seen and all(seen)


def test_unknown_types_are_refused():
    with pytest.warns(UserWarning, match="Disabling"), torch.autocast("cpu", dtype=torch.float64):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is F32
    with pytest.raises(RuntimeError, match="available"):
        torch.autocast("nowhere")
    assert torch.amp.is_autocast_available("cpu") and not torch.amp.is_autocast_available("nowhere")


def test_custom_functions():
    class Square(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="cpu", cast_inputs=F32)
        def forward(ctx, x):
            ctx.save_for_backward(x)
            assert x.dtype is F32 and (x @ x).dtype is F32
            return x * x

        @staticmethod
        @torch.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            assert not torch.is_autocast_enabled("cpu")
            return 2 * g * ctx.saved_tensors[0]

    x = torch.ones(2, 2, dtype=BF16, requires_grad=True)
    with torch.autocast("cpu"):
        y = Square.apply(x)
    assert y.dtype is F32
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def _setup(scale=8.0, **options):
    w = torch.nn.Parameter(torch.ones(2))
    return w, torch.optim.SGD([w], lr=0.5), torch.amp.GradScaler("cpu", init_scale=scale, **options)


def test_scaler_steps_with_true_gradients():
    w, optimizer, scaler = _setup()
    scaler.scale((w * 2).sum()).backward()
    assert w.grad.tolist() == [16.0, 16.0]
    scaler.unscale_(optimizer)
    assert w.grad.tolist() == [2.0, 2.0]
    scaler.step(optimizer)
    scaler.update()
    assert w.tolist() == [0.0, 0.0] and scaler.get_scale() == 8.0


def test_scaler_leaves_bad_steps_out_and_adapts():
    w, optimizer, scaler = _setup(growth_interval=2)
    for factor, wanted in ((float("inf"), 4.0), (1.0, 4.0), (1.0, 8.0), (float("nan"), 4.0)):
        before = w.tolist()
        optimizer.zero_grad()
        scaler.scale((w * factor).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == wanted
        assert (w.tolist() == before) == (factor != 1.0)


def test_scaler_refuses_wrong_order():
    w, optimizer, scaler = _setup()
    with pytest.raises(AssertionError, match="scale"):
        scaler.step(optimizer)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="after"):
        scaler.unscale_(optimizer)


def test_scaler_state():
    w, optimizer, scaler = _setup(growth_interval=3)
    scaler.scale(w.sum()).backward()
    scaler.step(optimizer)
    scaler.update(32.0)
    other = torch.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 32.0 and other.get_growth_interval() == 3
    assert pickle.loads(pickle.dumps(scaler)).get_scale() == 32.0
    off = torch.amp.GradScaler("cpu", enabled=False)
    assert off.state_dict() == {} and off.get_scale() == 1.0 and off.scale(w) is w


@pytest.mark.filterwarnings("ignore")
def test_older_spellings():
    with torch.cpu.amp.autocast():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is BF16
    scaler = torch.cuda.amp.GradScaler()
    assert scaler.is_enabled() == torch.cuda.is_available()
    with torch.cuda.amp.autocast(enabled=False):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is F32


def test_devices_that_are_not_here_can_be_named():
    for kind in ("mps", "xpu", "hpu"):
        with torch.autocast(kind, enabled=False):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32
    assert torch.get_autocast_dtype("mps") is torch.float16 and torch.get_autocast_dtype("xla") is torch.bfloat16


@pytest.mark.parametrize(
    "name, args", [("relu_", ()), ("pow_", (3,)), ("exp_", ()), ("add_", (1.5,)), ("mul_", (0.3,))]
)
def test_writes_are_left_alone(name, args):
    """In place nothing is cast, and the memory is written to as without autocast."""
    x = torch.tensor([0.3, 1.7, 2.9], dtype=torch.bfloat16)
    wanted = getattr(x.clone(), name)(*args)
    with torch.autocast("cpu"):
        given = x.clone()
        place = given.data_ptr()
        made = getattr(given, name)(*args)
        leaf = x.clone().requires_grad_()
        getattr(leaf * 1, name)(*args).sum().backward()
    assert made is given and given.data_ptr() == place and made.dtype is torch.bfloat16 and made.equal(wanted)
    assert leaf.grad.dtype is torch.bfloat16


@pytest.mark.parametrize("wrap", [lambda f: f, torch.compile], ids=["eager", "compiled"])
def test_what_is_computed_in_single_precision_is_so_inside(wrap):
    """Of products within, too: they were in bfloat16 in recordings, and a solver took them for float32."""
    # From now on functions ask whether somebody takes them over.
    torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)
    type("Watched", (torch.Tensor,), {"__torch_dispatch__": classmethod(lambda cls, f, types, args=(), kwargs=None: f)})
    a = torch.tensor([[1.0, 2.0, 3.1], [2.7, 1.0, 5.0], [3.3, 5.0, 0.1]])
    solve = lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor(x), x)
    product = lambda x: torch.linalg.householder_product(x, x[0])
    for function in (solve, product):
        call = wrap(function)
        for _ in range(3):
            with torch.autocast("cpu", torch.bfloat16):
                found = call(a)
            torch.testing.assert_close(found, function(a), rtol=0, atol=0)
