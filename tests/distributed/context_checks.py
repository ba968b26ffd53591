"""Checks for `context_parallel` that run in every process of a world: the sequence is divided, the results are those of one."""

import flambeau as torch
import flambeau.distributed as dist
import flambeau.nn.functional as F
from flambeau.distributed.tensor import DTensor, Shard, distribute_tensor, init_device_mesh
from flambeau.distributed.tensor.experimental import context_parallel, local_map
from flambeau.distributed.tensor.experimental._attention import _cp_options, context_parallel_unshard, set_rotate_method


def attention(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    for dtype, shared, causal, balance, rotate, keys in [
        (torch.float64, 1, True, True, "allgather", 8 * size), (torch.float64, 2, True, True, "alltoall", 8 * size),
        (torch.float64, 1, True, False, "alltoall", 8 * size), (torch.float64, 1, False, True, "alltoall", 3 * size),
        (torch.bfloat16, 2, True, True, "allgather", 8 * size),
    ]:  # fmt: skip
        _cp_options.enable_load_balance = balance
        set_rotate_method(rotate)
        torch.manual_seed(1)
        q, grad = torch.randn(2, 4, 8 * size, 8, dtype=dtype), torch.randn(2, 4, 8 * size, 8, dtype=dtype)
        k, v = (torch.randn(2, 4 // shared, keys, 8, dtype=dtype) for _ in range(2))
        wide = [x.double().clone().requires_grad_() for x in (q, k, v)]
        whole = F.scaled_dot_product_attention(*wide, is_causal=causal, enable_gqa=shared > 1)
        whole.backward(grad.double())
        with context_parallel(mesh, buffers=[q, k, v, grad], buffer_seq_dims=[2] * 4):
            assert q.shape[2] == 8
            parts = [x.clone().requires_grad_() for x in (q, k, v)]
            out = F.scaled_dot_product_attention(*parts, is_causal=causal, enable_gqa=shared > 1)
            out.backward(grad)
        assert q.shape[2] == 8 * size and out.dtype is dtype
        found = context_parallel_unshard(mesh, [out, *[x.grad for x in parts]], [2] * 4)
        near = 1e-12 if dtype is torch.float64 else 0.05
        for got, expected in zip(found, [whole, *[x.grad for x in wide]]):
            torch.testing.assert_close(got.double(), expected, rtol=near, atol=near)
    _cp_options.enable_load_balance = True


def buffers(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    x, lasting, odd = torch.arange(4.0 * size), torch.arange(4.0 * size), torch.arange(2.0 * size - 1)
    with context_parallel(mesh, buffers=[x, lasting, odd], buffer_seq_dims=[0] * 3, no_restore_buffers={lasting}):
        late = 2 * (2 * size - 1 - rank)
        assert x.tolist() == [2 * rank, 2 * rank + 1, late, late + 1]  # an early and a late piece
        assert odd.tolist() == list(range(2 * rank, min(2 * rank + 2, 2 * size - 1)))  # which cannot be cut so
        assert context_parallel_unshard(mesh, [odd], [0])[0].tolist() == list(range(2 * size - 1))
    assert x.tolist() == list(range(4 * size)) and lasting.shape == (4,)


def wrong_uses(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    q = torch.randn(1, 2, 2 * size, 4)
    for call, kind, text in [
        (
            lambda: F.scaled_dot_product_attention(q, q, q, attn_mask=torch.zeros(2, 2)),
            NotImplementedError,
            "attn_mask",
        ),
        (lambda: F.scaled_dot_product_attention(q, q, q, dropout_p=0.5), NotImplementedError, "dropout_p"),
        (lambda: F.scaled_dot_product_attention(q[0], q[0], q[0]), ValueError, "four dimensions"),
        (lambda: F.scaled_dot_product_attention(q, q[:, :1], q[:, :1]), RuntimeError, "Number of heads"),
        (lambda: set_rotate_method("post"), NotImplementedError, "does not support using post"),
    ]:
        try:
            with context_parallel(mesh, buffers=[q], buffer_seq_dims=[2]):
                call()
        except kind as error:
            assert text in str(error), error
        else:
            raise AssertionError(text)
        assert q.shape[2] == 2 * size  # whole again after an error


def on_parts(rank, size):
    mesh = init_device_mesh("cpu", (size,))
    x = distribute_tensor(torch.arange(4.0 * size).requires_grad_(), mesh, [Shard(0)])
    out = local_map(lambda part, factor: (part * factor, part.sum()), ([Shard(0)], None))(x, 3.0)
    assert isinstance(out[0], DTensor) and not isinstance(out[1], DTensor)
    assert out[0].full_tensor().tolist() == [3.0 * i for i in range(4 * size)]
    pairs = distribute_tensor(torch.arange(8.0 * size).view(2 * size, 2, 2), mesh, [Shard(0)])
    numbers = torch.view_as_complex(pairs)
    assert numbers.shape == (2 * size, 2) and numbers.placements == (Shard(0),)
    assert torch.equal(torch.view_as_real(numbers).full_tensor(), pairs.full_tensor())
    assert pairs.double().type_as(pairs).dtype is torch.float32
    try:
        local_map(lambda part: part, [Shard(0)], in_placements=([dist.tensor.Replicate()],))(x)
    except ValueError as error:
        assert "redistribute_inputs=True" in str(error)
    else:
        raise AssertionError("an input that lies otherwise")
