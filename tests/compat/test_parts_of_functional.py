"""Names that copies of PyTorch's losses, attention and batch norms take from its insides."""

import warnings

import pytest

import flambeau as torch
from flambeau.nn import functional as F
from flambeau.nn.parallel import _functions as copies
from flambeau.nn.parallel import comm


def test_reductions_have_numbers():
    assert [F._Reduction.get_enum(name) for name in ("none", "mean", "sum")] == [0, 1, 2]
    with pytest.raises(ValueError, match="average is not a valid value for reduction"):
        F._Reduction.get_enum("average")
    with pytest.warns(UserWarning, match="use reduction='mean'"):
        assert F._Reduction.get_enum("elementwise_mean") == 1
    legacy = [F._Reduction.legacy_get_enum(a, b, False) for a in (True, False, None) for b in (True, False, None)]
    assert legacy == [1, 0, 1, 2, 0, 2, 1, 0, 1]
    with pytest.warns(UserWarning, match="please use reduction='none'"):
        assert F._Reduction.legacy_get_string(True, False) == "none"


def test_projections_of_attention():
    q, k = torch.arange(12.0).reshape(3, 1, 4), torch.ones(2, 1, 4)
    w, b = torch.arange(48.0).reshape(12, 4), torch.arange(12.0)
    for keys, values in ((q, q), (k, k), (k, k + 0)):
        packed = F._in_projection_packed(q, keys, values, w, b)
        single = F._in_projection(q, keys, values, *w.chunk(3), *b.chunk(3))
        assert all(one.equal(other) for one, other in zip(packed, single))
    with pytest.raises(AssertionError, match=r"expecting key weights shape of \(4, 4\), but got \(3, 4\)"):
        F._in_projection(q, k, k, w[:4], w[:3], w[:4])
    with pytest.raises(AssertionError, match=r"expecting query bias shape of \(4,\)"):
        F._in_projection(q, k, k, w[:4], w[:4], w[:4], b)
    assert F._mha_shape_check(q, q, q, None, None, 2) and not F._mha_shape_check(q[0], q[0], q[0], None, None, 2)


def test_masks_of_attention():
    mask = torch.tensor([True, False])
    assert F._canonical_mask(mask, "mask", torch.bool, "other", torch.float32).tolist() == [-torch.inf, 0.0]
    with pytest.warns(UserWarning, match="Support for mismatched mask and other is deprecated"):
        F._canonical_mask(mask, "mask", torch.float32, "other", torch.float32)
    assert F._none_or_dtype(None) is None and F._none_or_dtype(mask) is torch.bool
    with pytest.raises(RuntimeError, match="must be None or"):
        F._none_or_dtype(1)


def test_other_names_of_functional():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert [F._get_softmax_dim("softmax", n, 3) for n in range(5)] == [0, 0, 1, 0, 1]
    assert F._pair(2) == (2, 2) and not F.has_torch_function((torch.ones(1),)) and F.math.pi > 3
    with pytest.raises(AttributeError, match="no attribute '_unheard_of'"):
        F._unheard_of  # noqa: B018


def test_copies_for_several_gpus():
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    with pytest.raises(AssertionError, match="Broadcast function not implemented for CPU tensors"):
        copies.Broadcast.apply([0], x)
    with pytest.raises(AssertionError, match="expects all inputs to be on GPUs, but input 0 is on cpu"):
        comm.reduce_add([x, x])
    first, second = copies.Scatter.apply([-1, -1], [1, 2], 0, x)  # -1 is the CPU
    (first.sum() + 2 * second.sum()).backward()
    assert x.grad.tolist() == [[1.0, 1.0], [2.0, 2.0], [2.0, 2.0]]
    joined = comm.gather([first, second], 0, "cpu")
    assert joined.equal(x) and not joined.requires_grad
    out = torch.empty(6, 1)
    assert comm.gather([x[:, :1], x[:, 1:]], out=out) is out and out[4].item() == 3.0
    assert [t.shape[1] for t in comm.scatter(x, [-1, -1], dim=1)] == [1, 1]
    meta = torch.ones(2, device="meta")
    assert [t.device.type for t in comm.broadcast(x, ["meta", "cpu"])] == ["meta", "cpu"]
    assert copies.Gather.apply("meta", 0, meta, meta).shape == (4,)
    assert copies.Gather.apply("meta", 0, meta[0], meta[0]).shape == (2,)
    with pytest.raises(RuntimeError, match="Exactly one of 'devices' and 'out'"):
        comm.broadcast(x)


def test_the_first_tensor_is_found():
    from flambeau.nn.parallel.parallel_apply import get_a_var

    x = torch.ones(1)
    assert get_a_var([1, {"a": (None, x)}]) is x and get_a_var({"a": 1}) is None
    assert torch.functional.Tensor is torch.Tensor


def test_sums_of_several_devices():
    x = [torch.full((2,), float(i), requires_grad=True) for i in range(4)]
    total = comm.added(x, torch.device("cpu"))
    total.sum().backward()
    assert total.tolist() == [6.0, 6.0] and x[3].grad.tolist() == [1.0, 1.0]


def test_numbers_of_gpus():
    index = torch.cuda._utils._get_device_index
    assert index("cuda:1") == 1 and index(3) == 3 and index(None, optional=True) is None
    assert index("cpu", allow_cpu=True) == -1
    with pytest.raises(ValueError, match="Expected a cuda device, but got: cpu"):
        index(torch.device("cpu"))


def test_checkpoints_ask_what_runs():
    told = []

    class Asks(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            told.append(torch.autograd._is_checkpoint_valid())
            return g

    x = torch.ones(2, requires_grad=True)
    Asks.apply(x).sum().backward()
    torch.autograd.grad(Asks.apply(x).sum(), x)
    assert told == [True, False] and torch.autograd._is_checkpoint_valid()


def test_odds_and_ends():
    from flambeau._jit_internal import List, Optional
    from flambeau.jit import _trace, quantized
    from flambeau.utils.data.dataloader import ExceptionWrapper
    from flambeau.utils.mobile_optimizer import optimize_for_mobile

    assert torch.legacy_contiguous_format is torch.contiguous_format
    assert List[int] and Optional[int] and ExceptionWrapper and _trace.TracerWarning is torch.jit.TracerWarning
    assert torch.jit._unwrap_optional(3) == 3
    with pytest.raises(AssertionError, match="Unwrapping null optional"):
        torch.jit._unwrap_optional(None)
    with pytest.raises(RuntimeError, match="QuantizedLSTM is no longer supported"):
        quantized.QuantizedLSTM(1, 2)
    with pytest.raises(RuntimeError, match="quantize_rnn_modules is no longer supported"):
        quantized.quantize_rnn_modules(torch.nn.LSTM(1, 1))
    with pytest.raises(TypeError, match="ScriptModule is expected"):
        optimize_for_mobile(torch.nn.ReLU())
    with pytest.raises(TypeError, match="Unknown backend 'vulkan'"):
        optimize_for_mobile(torch.jit.script(torch.nn.ReLU()), backend="vulkan")
    write = torch._tensor_str._Formatter
    assert (
        write(torch.tensor([1, 200])).format(3) == "  3"
        and write(torch.tensor([1e-9, 3.0])).format(1e-9) == "1.0000e-09"
    )
    assert write(torch.tensor([0.01])).width() == 6


def test_a_baton_is_waited_for(tmp_path, monkeypatch):
    from flambeau.utils import file_baton

    one = file_baton.FileBaton(str(tmp_path / "lock"))
    two = file_baton.FileBaton(str(tmp_path / "lock"), wait_seconds=0.0, warn_after_seconds=0)
    assert one.try_acquire() and not two.try_acquire()
    slept = []
    monkeypatch.setattr(file_baton.time, "sleep", lambda s: slept.append(s) or (len(slept) > 2 and one.release()))
    with pytest.warns(UserWarning, match="to be released"):
        two.wait()
    assert len(slept) == 3 and two.try_acquire()
    two.release()
