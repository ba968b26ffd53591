"""Sample calls of every operation, for tests of derivatives and for `tools/gpu_check.py`: expressions over the operands named in `operands`, by family.

An expression with `;` is a sequence of statements that leaves its result in `out`. `dev` is the device, `ones(…)` are
ones on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def operands(torch: Any, floats: str = "float32") -> dict[str, Any]:
    """The tensors that expressions may use, on the CPU; those of floating dtype require gradients."""
    random = np.random.default_rng(0)
    usual = getattr(torch, floats)

    def real(*shape: int, dtype: Any = usual, low: float = -2.0, high: float = 2.0) -> Any:
        return torch.from_numpy(random.uniform(low, high, shape)).to(dtype).requires_grad_()

    def whole(*shape: int, low: int = 0, high: int = 9, dtype: Any = torch.int64) -> Any:
        return torch.from_numpy(random.integers(low, high, shape)).to(dtype)

    return {
        "x": real(3, 4), "y": real(3, 4), "m": real(4, 5), "n": real(5, 4), "q": real(4, 4), "v": real(4), "w": real(4), "s": real(),
        "b": real(2, 3, 4), "c": real(2, 4, 5), "u": real(2, 3, 4, 5), "p": real(3, 4, low=0.1), "d": real(3, 4, dtype=torch.float64),
        "h": real(3, 4, dtype=torch.bfloat16), "hm": real(4, 5, dtype=torch.bfloat16), "f": real(3, 4, dtype=torch.float16),
        "z": torch.from_numpy(random.normal(size=(3, 4)) + 1j * random.normal(size=(3, 4))).to(torch.complex64).requires_grad_(),
        "e": real(1, 4), "o": real(0, 4), "r": real(3, 4, 2), "big": real(300, 1000),
        "k": whole(3, 4, low=-5), "l": whole(3, 4, high=4), "i": whole(5, high=3), "j": whole(5, high=4), "t": whole(6, high=3),
        "g": whole(3, 4, high=3), "ix": whole(2, 4, high=3), "mask": whole(3, 4, high=2).to(torch.bool),
        "row": torch.tensor([True, False, True]), "bytes8": whole(3, 4, high=200, dtype=torch.uint8),
        "twice": torch.tensor([[1.0, 2.0, 2.0, 1.0], [3.0, 2.0, 1.0, 1.0], [1.0, 2.0, 2.0, 1.0]]),
        "order": torch.tensor([[0.5, 1.0, 1.5], [0.2, 0.4, 0.9]]),
    }  # fmt: skip


SAMPLES: dict[str, list[str]] = {
    "conversion": [
        "x.to(torch.float64)", "x.to(torch.bfloat16)", "x.to(torch.float16)", "x.to(torch.int32)", "x.to(torch.complex64)", "x.bool()",
        "k.float()", "k.to(torch.uint8)", "k.to(torch.bfloat16)", "h.float()", "h.double()", "h.to(torch.int64)", "h.to(torch.float16)",
        "f.float()", "f.to(torch.bfloat16)", "z.to(torch.complex128)", "mask.to(torch.bfloat16)", "mask.int()", "bytes8.to(torch.int8)",
        "x.clone()", "x.t().clone()", "h.clone()", "x.detach()", "x.contiguous()", "x.t().contiguous()", "x.cpu() * 2", "x.type_as(d)",
        "u.clone(memory_format=torch.channels_last)", "u.contiguous(memory_format=torch.channels_last)",
        "out = torch.zeros_like(x); out.copy_(y)", "out = torch.zeros_like(d); out.copy_(x)", "out = torch.zeros_like(h); out.copy_(x)",
        "out = x.detach().clone(); out.fill_(2.5)", "out = x.detach().clone(); out.zero_()", "out = h.detach().clone(); out.fill_(2.5)",
        "torch.fill(x, 3)", "out = q.detach().clone(); out.fill_diagonal_(7)", "x.sum().item()", "x.tolist()", "h.tolist()",
        "x.is_floating_point()", "repr(x)", "repr(h)", "str(k)", "bool(s)", "x.get_device() >= -1", "torch.result_type(x, k)",
    ],
    "creation": [
        "torch.zeros(3, device=dev)", "torch.ones((2, 3), dtype=torch.bfloat16, device=dev)", "torch.full((2, 2), 7, device=dev)",
        "torch.arange(10, device=dev)", "torch.arange(0, 1, 0.1, device=dev)", "torch.linspace(0, 1, 7, device=dev)",
        "torch.logspace(0, 2, 5, device=dev)", "torch.eye(4, device=dev)", "torch.eye(3, 5, device=dev)", "torch.tensor([1.0, 2.0], device=dev)",
        "torch.tensor(3, device=dev)", "torch.tensor([1.5, 2], dtype=torch.bfloat16, device=dev)", "torch.zeros_like(x)", "torch.ones_like(k)",
        "torch.full_like(x, 2)", "torch.empty_like(x).shape", "x.new_zeros(2, 2)", "x.new_ones(3)", "x.new_full((2,), 4.0)", "x.new_tensor([1, 2])",
        "torch.tril_indices(4, 3, device=dev)", "torch.triu_indices(4, 3, device=dev)", "torch.empty((2, 3), device=dev).shape",
        "torch.empty_strided((2, 3), (1, 2), device=dev).stride()", "torch.scalar_tensor(3.5, device=dev)", "torch.complex(x, y)",
        "torch.polar(p, y)", "torch.vander(v)", "torch.asarray([1, 2], device=dev)", "torch.range(0, 4, device=dev)",
        "torch.empty_permuted((2, 3), (1, 0), device=dev).stride()", "torch.as_tensor([1.0], device=dev)",
    ],
    "views": [
        "x.view(2, 6)", "x.reshape(4, 3)", "x.t().reshape(12)", "x.t()", "x.permute(1, 0)", "b.transpose(0, 2)", "x.unsqueeze(1)",
        "e.squeeze(0)", "e.squeeze()", "e.expand(3, 4)", "x[1]", "x[:, 1:3]", "x[::2]", "x[..., -1]", "x[1, 2]", "x[None]", "x[1:, None, ::2]",
        "torch.select(x, 0, 1)", "torch.narrow(x, 1, 1, 2)", "q.diagonal()", "u.diagonal(1, 1, 2)", "v.unfold(0, 2, 1)", "x.split(2, 1)",
        "torch.split(x, [1, 3], 1)", "x.chunk(2, 1)", "x.unbind(0)", "torch.tensor_split(x, 3, 1)", "torch.view_as_real(z)",
        "torch.view_as_complex(r)", "x.as_strided((2, 2), (1, 2))", "torch.as_strided_scatter(x, x[:2, :2], (2, 2), (1, 2))", "x.flatten()",
        "x.unflatten(1, (2, 2))", "x.ravel()", "b.movedim(0, 2)", "b.moveaxis(0, -1)", "b.swapaxes(0, 1)", "z.real", "z.imag", "torch.conj(z)",
        "x.mT", "b.mT", "z.mH", "torch.atleast_2d(v)", "torch.atleast_3d(x)", "torch.broadcast_to(v, (3, 4))", "x.expand_as(b)",
        "torch.diagonal_scatter(q, v)", "torch.select_scatter(x, v, 0, 1)", "torch.slice_scatter(x, y[:, :2], 1, 0, 2)", "x.view(torch.int32)",
        "h.view(torch.int16)", "torch.squeeze_copy(e)", "torch.permute_copy(x, (1, 0))", "torch.view_copy(x, (12,))", "torch.t_copy(x)",
        "torch.unsqueeze(x, -1)", "x.resolve_conj()", "x.is_contiguous()", "x.t().is_contiguous()", "x.storage_offset()", "x[1:].storage_offset()",
        "torch.squeeze(e, (0, 1))", "torch.unsafe_split_with_sizes(x, [1, 3], 1)", "torch.hsplit(x, 2)", "torch.vsplit(x, 3)", "torch.dsplit(b, 2)", "torch.unsafe_chunk(x, 2, 1)", "torch.unsafe_split(x, 2, 1)",
        "out = x.detach().clone(); out.t_()", "out = x.detach().clone(); out = out.resize_(2, 2).shape", "torch.adjoint(z)",
    ],
    "joining": [
        "torch.cat([x, y])", "torch.cat([x, y], 1)", "torch.cat([x, k])", "torch.cat([h, h])", "torch.stack([x, y])", "torch.stack([x, y], -1)",
        "torch.hstack([x, y])", "torch.vstack([x, y])", "torch.dstack([x, y])", "torch.column_stack([v, w])", "torch.block_diag(x, q)",
        "x.repeat(2, 1)", "torch.tile(x, (1, 2))", "torch.repeat_interleave(x, 2, 1)", "torch.repeat_interleave(v, t.new_tensor([1, 0, 2, 1]))",
        "torch.flip(x, (0, 1))", "torch.fliplr(x)", "torch.flipud(x)", "torch.roll(x, 1, 0)", "torch.roll(x, 3)", "torch.rot90(x)",
        "torch.meshgrid(v, w, indexing='ij')", "torch.cartesian_prod(v, w)", "torch.combinations(v, 2)", "torch.tril(q)", "torch.triu(q, 1)",
        "torch.diag(v)", "torch.diag(q, 1)", "torch.diag_embed(x)", "torch.diagflat(v)", "torch.trace(q)", "torch.kron(x, q)",
        "torch.constant_pad_nd(x, (1, 2), 3.0)", "torch.nn.functional.pad(x, (1, 1), value=2.0)", "torch.broadcast_tensors(x, v)",
        "torch.nn.functional.pad(b, (1, 1), mode='reflect')", "torch.nn.functional.pad(b, (1, 1), mode='replicate')",
        "torch.nn.functional.pad(b, (1, 1), mode='circular')", "torch.nn.functional.one_hot(l)",
        "out = q.detach().clone(); out.tril_()", "torch.cat([o, x])",
    ],
    "reduction": [
        "x.sum()", "x.sum(0)", "x.sum((0, 1), keepdim=True)", "h.sum(1)", "f.sum()", "z.sum(0)", "k.sum()", "mask.sum()", "x.t().sum(0)", "big.sum(1)", "big.mean(0)",
        "x.mean()", "x.mean(1)", "h.mean()", "z.mean(0)", "x.prod()", "x.prod(1)", "k.prod(0)", "torch.nansum(x, 1)", "torch.nanmean(x, 1)", "x.amax(1)", "x.amin((0, 1))",
        "x.max()", "x.min()", "x.max(1)", "x.min(0)", "h.max()", "h.max(1)", "k.max(0)", "x.argmax()", "x.argmax(1)", "x.argmin(0, keepdim=True)", "h.argmax(1)",
        "torch.aminmax(x, dim=1)", "x.var()", "x.var(1)", "x.std(0, unbiased=False)", "torch.var_mean(x, 1)", "torch.std_mean(x)", "h.var(1)",
        "x.any()", "mask.any(1)", "mask.all(0)", "x.all()", "torch.count_nonzero(x, 1)", "torch.logsumexp(x, 1)", "torch.logsumexp(h, 1)",
        "torch.softmax(x, 1)", "torch.softmax(h, 1)", "torch.softmax(x, 0)", "torch.log_softmax(x, 1)", "torch.log_softmax(h, 0)", "torch.softmax(u, 2)",
        "x.norm()", "x.norm(1)", "x.norm(p=2, dim=1)", "x.norm(float('inf'), 1)", "x.norm(3, 0)", "z.norm()", "h.norm()", "torch.linalg.vector_norm(x, 0)",
        "torch.dist(x, y)", "torch.dist(x, y, 1)", "x.median()", "x.median(1)", "torch.nanmedian(x, 0)", "torch.mode(twice, 1)",
        "torch.quantile(x, 0.3)", "torch.quantile(x, 0.3, 1)", "torch.nanquantile(x, 0.5, 0)", "x.cov()", "x.corrcoef()", "o.sum(0)", "o.mean()",
        "torch.renorm(x, 2, 0, 1.5)", "torch.allclose(x, x)", "torch.equal(x, y)", "torch.equal(x, x)", "torch.nn.functional.normalize(x)",
        "torch.nn.functional.softmin(x, 1)", "torch.nn.functional.cosine_similarity(x, y)", "torch.nn.functional.pairwise_distance(x, y)",
    ],
    "cumulative": [
        "x.cumsum(0)", "x.cumsum(1)", "h.cumsum(1)", "k.cumsum(0)", "x.cumprod(1)", "torch.cummax(x, 1)", "torch.cummin(x, 0)", "torch.logcumsumexp(x, 1)",
        "torch.diff(x)", "torch.diff(x, 2, 0)", "torch.trapezoid(x)", "torch.cumulative_trapezoid(x, dim=1)", "torch.gradient(x)",
        "out = x.detach().clone(); out.cumsum_(1)", "z.cumsum(0)", "z.cumprod(1)",
    ],
    "indexing": [
        "x[i]", "x[i, j]", "x[:, j]", "x[mask]", "x[row]", "b[:, i]", "b[0, i, j]", "x[i[:, None], j]", "h[i]", "k[i]",
        "torch.index_select(x, 0, i)", "torch.index_select(x, 1, j)", "torch.index_select(h, 0, i)", "torch.gather(x, 1, l)", "torch.gather(x, 0, g)", "torch.gather(h, 1, l)",
        "torch.take(x, i)", "torch.take_along_dim(x, l, 1)", "torch.masked_select(x, mask)", "torch.masked_fill(x, mask, 2.0)", "torch.masked_fill(h, mask, 2.0)",
        "torch.masked_scatter(x, mask, y)", "torch.where(mask, x, y)", "torch.where(mask, x, 1.0)", "torch.where(mask)", "torch.where(mask, h, h * 2)",
        "torch.nonzero(mask)", "mask.nonzero(as_tuple=True)", "torch.argwhere(mask)", "torch.scatter(x, 1, l.argsort(1), y)", "torch.scatter(x, 0, g, 2.0)",
        "torch.scatter_add(x, 0, g, y)", "torch.scatter_add(h, 0, g, h)", "torch.scatter_reduce(x, 0, g, y, 'sum')", "torch.scatter_reduce(x, 0, g, y, 'prod')",
        "torch.scatter_reduce(x, 0, g, y, 'amax')", "torch.scatter_reduce(x, 0, g, y, 'mean')", "torch.scatter_add(k, 0, g, l)",
        "torch.index_add(x, 0, i, torch.cat([x, x[:2]]))", "torch.index_copy(x, 0, i[:1], y[:1])", "torch.index_fill(x, 0, i, 3.0)",
        "torch.index_reduce(x, 0, i, torch.cat([x, x[:2]]), 'amax')", "torch.index_put(x, (i, j), x[i, j] * 2, accumulate=True)",
        "torch.index_put(x, (i[:1], j[:1]), y[0, :1])", "torch.put(x, i, y[0, 0].expand(5), accumulate=True)",
        "out = x.detach().clone(); out[1] = 5.0", "out = x.detach().clone(); out[:, 1:3] = y[:, :2].detach()", "out = x.detach().clone(); out[mask] = 0.0",
        "out = x.detach().clone(); out[i, j] = 1.5", "out = x.clone(); out[0] = v; out = out * 2", "out = h.detach().clone(); out[1] = 5.0",
        "out = x.clone(); out[i[:1]] = y[:1]; out = out * 2", "out = x.detach().clone(); out.scatter_(1, l, 3.0)", "out = x.detach().clone(); out.index_add_(0, i, ones(5, 4))",
        "out = x.detach().clone(); out.masked_fill_(mask, 9)", "torch.nn.functional.embedding(i, x)", "torch.isin(k, l)", "torch.unravel_index(i, (2, 3))",
        "torch.nonzero_static(mask, size=4)",
    ],
    "sorting": [
        "torch.sort(x, 1)", "torch.sort(x, 0, descending=True)", "torch.sort(h, 1)", "torch.sort(k, stable=True)", "torch.argsort(x, 1)", "torch.msort(x)",
        "torch.topk(x, 2)", "torch.sort(mask, 1)", "torch.sort(bytes8, 0)", "torch.topk(x, 2, 0, largest=False)", "torch.topk(h, 2)", "torch.kthvalue(x, 2, 1)", "torch.unique(k)", "torch.unique(k, return_inverse=True, return_counts=True)",
        "torch.unique(twice, dim=0)", "torch.unique_consecutive(t)", "torch.searchsorted(order, order + 0.1)", "torch.searchsorted(v.sort()[0].detach(), w, right=True)", "torch.bucketize(x, v.sort()[0].detach())",
        "torch.bincount(t)", "torch.bincount(t, weights=ones(6))", "torch.histc(x.detach(), 5, -2, 2)", "torch.histc(x.detach(), 5)",
    ],
    "matmul": [
        "x @ m", "h @ hm", "x.to(torch.float16) @ m.to(torch.float16)", "z @ z.mH", "x @ v", "v @ w", "torch.mm(x, m)", "torch.bmm(b, c)", "torch.mv(x, v)", "torch.dot(v, w)", "torch.vdot(z[0], z[1])",
        "b @ m", "torch.matmul(u, ones(5, 2))", "x.t() @ y", "k @ k.t()", "torch.addmm(ones(3, 5), x, m)", "torch.addmm(ones(5), x, m, beta=0.5, alpha=2.0)",
        "torch.baddbmm(ones(2, 3, 5), b, c)", "torch.addbmm(ones(3, 5), b, c)", "torch.addmv(x[:, 0], x, v)", "torch.addr(x, x[:, 0], v)", "torch.outer(v, w)", "torch.ger(v, w)",
        "torch.inner(x, y)", "torch.einsum('ij,jk->ik', x, m)", "torch.einsum('bij,bjk->bk', b, c)", "torch.einsum('ii->i', q)", "torch.tensordot(b, c, dims=([2], [1]))", "torch.nn.functional.linear(x, n[:, :4])",
        "torch.nn.functional.linear(b, n, ones(5))", "torch.nn.functional.bilinear(x, y, ones(2, 4, 4))", "torch.chain_matmul(x, m, n)", "torch.linalg.multi_dot([x, m, n])",
        "torch.linalg.vecdot(x, y)", "torch.nn.functional.linear(h, hm.t())", "torch.addmm(hm[:3], h, hm)", "torch.cdist(x, y)", "d @ d.t()",
    ],
    "linalg": [
        "torch.linalg.inv(q)", "torch.linalg.det(q)", "torch.linalg.slogdet(q)", "torch.linalg.solve(q, v)", "torch.linalg.cholesky(q @ q.t() + 4 * torch.eye(4, device=dev))",
        "torch.linalg.qr(m)", "torch.linalg.matrix_exp(q)", "torch.linalg.lu_factor(q)[0]", "torch.cholesky_inverse(q.tril() + 4 * torch.eye(4, device=dev))", "torch.cholesky_solve(q, q.tril() + 4 * torch.eye(4, device=dev))", "torch.geqrf(m.detach())[0].abs()", "torch.linalg.eigvals(q.detach()).abs().sum()", "torch.linalg.svd(m)[1]", "torch.linalg.eig(q.detach())[0].abs().sum()", "torch.linalg.solve_triangular(q.triu() + 4 * torch.eye(4, device=dev), q, upper=True)", "torch.linalg.lu(q)", "torch.linalg.cond(q)", "torch.linalg.matrix_rank(q)", "torch.linalg.svdvals(m)", "torch.linalg.eigvalsh(q + q.t())", "torch.linalg.eigh(q + q.t())[0]", "torch.linalg.pinv(m)", "torch.linalg.matrix_norm(m)",
        "torch.linalg.matrix_power(q, 3)", "torch.linalg.norm(x)", "torch.linalg.lstsq(m.t().detach(), ones(5, 1))[0]", "torch.linalg.cross(b[..., :3], b[..., :3] + 1)",
        "torch.fft.fft(x)", "torch.fft.rfft(x)", "torch.fft.ifft(z)", "torch.fft.irfft(z)", "torch.fft.fft2(x)", "torch.fft.fftshift(x)",
    ],
    "networks": [
        "torch.nn.functional.cross_entropy(x, i[:3])", "torch.nn.functional.mse_loss(x, y)", "torch.nn.functional.l1_loss(x, y)", "torch.nn.functional.smooth_l1_loss(x, y)",
        "torch.nn.functional.nll_loss(torch.log_softmax(x, 1), i[:3])", "torch.nn.functional.binary_cross_entropy_with_logits(x, torch.sigmoid(y.detach()))", "torch.nn.functional.kl_div(torch.log_softmax(x, 1), torch.softmax(y, 1))",
        "torch.nn.functional.layer_norm(x, (4,))", "torch.nn.functional.layer_norm(h, (4,))", "torch.nn.functional.batch_norm(u, None, None, training=True)", "torch.nn.functional.group_norm(u, 3)", "torch.nn.functional.instance_norm(u)",
        "torch.nn.functional.conv2d(u, ones(2, 3, 2, 2))", "torch.nn.functional.conv1d(b, ones(2, 3, 2))", "torch.nn.functional.conv2d(u, ones(3, 1, 2, 2), groups=3)", "torch.nn.functional.conv_transpose2d(u, ones(3, 2, 2, 2))",
        "torch.nn.functional.max_pool2d(u, 2)", "torch.nn.functional.avg_pool2d(u, 2)", "torch.nn.functional.adaptive_avg_pool2d(u, 2)", "torch.nn.functional.max_pool1d(b, 2)", "torch.nn.functional.adaptive_max_pool2d(u, 2)",
        "torch.nn.functional.interpolate(u, scale_factor=2)", "torch.nn.functional.interpolate(u, size=(3, 3), mode='bilinear')", "torch.nn.functional.scaled_dot_product_attention(b, b, b)", "torch.nn.functional.glu(x)",
        "torch.nn.functional.gelu(x)", "torch.nn.functional.relu(h)", "torch.nn.functional.prelu(x, v[:1])", "torch.nn.functional.logsigmoid(x)", "torch.nn.functional.softplus(x)", "torch.nn.functional.unfold(u, 2)",
        "torch.nn.functional.dropout(x, 0.5, training=False)", "torch.nn.functional.rrelu(x)", "torch.nn.functional.celu(x)", "torch.nn.functional.embedding_bag(i.view(1, 5), x)",
    ],
    "layers": [
        "torch.nn.functional.ctc_loss(torch.log_softmax(u[0].permute(1, 0, 2), 2), ones(3, 2).long(), (4, 4, 4), (2, 2, 2))", "torch.nn.functional.local_response_norm(u, 3)",
        "torch.nn.functional.pixel_shuffle(u.reshape(2, 12, 1, 5), 2)", "torch.nn.functional.pixel_unshuffle(u[..., :4], 2)", "torch.nn.functional.channel_shuffle(u, 3)",
        "torch.nn.functional.grid_sample(u, torch.tanh(u[:, :2, :, :2]), align_corners=False)", "torch.nn.functional.embedding_bag(i.view(1, 5), x, mode='sum')",
        "torch.istft(torch.stft(big[0, :64], 8, window=ones(8), return_complex=True), 8, window=ones(8))", "torch.hash_tensor(x.detach())",
        "torch.gru(b, ones(1, 2, 4), [ones(12, 4) * 0.1, ones(12, 4) * 0.1, ones(12) * 0.1, ones(12) * 0.1], True, 1, 0.0, False, False, True)[0]",
        "torch.lstm(b, [ones(1, 2, 4), ones(1, 2, 4)], [ones(16, 4) * 0.1, ones(16, 4) * 0.1, ones(16), ones(16)], True, 1, 0.0, False, False, True)[0]",
        "torch.rnn_tanh(b, ones(1, 2, 4), [ones(4, 4) * 0.1, ones(4, 4) * 0.1, ones(4) * 0.1, ones(4) * 0.1], True, 1, 0.0, False, False, True)[0]",
        "torch.lstm_cell(x, (x, y), ones(16, 4) * 0.1, ones(16, 4) * 0.1, ones(16), ones(16))[0]", "torch.gru_cell(x, y, ones(12, 4) * 0.1, ones(12, 4) * 0.1)",
        "torch.nn.functional.interpolate(bytes8[None, None], scale_factor=2, mode='bilinear')", "(x * mask).cumprod(1)", "torch.nn.functional.nll_loss(torch.log_softmax(h, 1), i[:3])",
        "torch.nn.functional.cross_entropy(h, i[:3])", "torch.linalg.ldl_factor(q.detach() @ q.detach().t())[0]", "torch.linalg.eigvalsh(q @ q.t())", "torch.linalg.eigh(q @ q.t())[0]",
        "torch.linalg.ldl_solve(*torch.linalg.ldl_factor(q.detach() @ q.detach().t()), ones(4, 1))", "torch.linalg.eig(q)[0].abs()", "torch.linalg.eigvals(q).abs()", "torch.linalg.svd(m)[1]", "torch.linalg.svdvals(m)",
        "torch.histogramdd(x[:, :2].detach(), [2, 2])[0]", "torch.cdist(x, y, p=3.0)", "torch.cdist(x, y, compute_mode='use_mm_for_euclid_dist')", "torch.linalg.householder_product(m[:, :3], v[:3])",
    ],
    "second derivatives": [
        f"torch.autograd.grad(({expression}).square().sum(), x, create_graph=True)[0]"
        for expression in (
            "x * x", "torch.softmax(x, 1)", "torch.log_softmax(x, 1)", "x.exp().sum(0)", "x[i]", "x[i, j]", "x[1:] * x[1:]",
            "torch.gather(x, 1, l) * x", "x @ x.t()", "x.t().reshape(12)", "torch.where(mask, x * x, y)", "x.cumsum(1) * x", "x.norm()",
            "torch.cat([x, x * x])", "torch.max(x * x, 1)[0]", "x.prod(1)", "x.std(1)", "torch.tanh(x)", "x.as_strided((2, 2), (1, 2)) ** 3",
            "q.sum() * x", "x.diagonal() ** 3", "torch.logsumexp(x, 1)",
        )
    ],
    "random": [
        "torch.manual_seed(1); out = torch.rand(3, device=dev).shape", "torch.manual_seed(1); out = torch.randn(2, 3, device=dev).dtype", "torch.randint(0, 5, (4,), device=dev).shape",
        "torch.randperm(5, device=dev).sort()[0]", "out = torch.rand(1000, device=dev); out = (out.min() >= 0, out.max() < 1, (out.mean() - 0.5).abs() < 0.1)",
        "out = x.detach().clone(); out.bernoulli_(ones(3, 4))", "torch.bernoulli(torch.full((4,), 1.0, device=dev))", "torch.nn.functional.dropout(x.detach(), 0.5).shape", "out = x.detach().clone(); out.uniform_(2, 3); out = ((out >= 2) & (out <= 3)).all()",
        "out = x.detach().clone(); out = out.normal_().shape", "torch.multinomial(torch.tensor([0.0, 1.0, 0.0], device=dev), 1)", "torch.rand_like(x).shape", "torch.normal(x.detach(), 0.0)", "out = x.detach().clone(); out.exponential_(); out = (out > 0).all()",
    ],
    "in place": [
        "out = x.detach().clone(); out.add_(y.detach())", "out = x.detach().clone(); out += 1", "out = x.detach().clone(); out.mul_(2)", "out = x.clone(); out.mul_(y); out.exp_()", "out = x.clone(); out[0].add_(v); out = out.sin()",
        "out = k.clone(); out += 3", "out = h.detach().clone(); out.add_(1)", "out = x.detach().clone(); out.t().add_(1)", "out = x.detach().clone(); out.clamp_(-1, 1)", "out = torch.empty(3, 4, device=dev); torch.add(x.detach(), 1, out=out)",
        "out = torch.empty(0, device=dev); torch.sum(x.detach(), 0, out=out)", "out = x.detach().clone(); out.addcmul_(y.detach(), y.detach())", "out = d.detach().clone(); out.add_(x.detach())", "out = x.detach().clone(); out.lerp_(y.detach(), 0.3)", "out = x.detach().clone(); out.sub_(s.cpu())",
        "x * s.cpu()", "x + torch.tensor(2.0)", "2 ** x", "1 / x", "x ** 2", "k // 2", "k % 3", "-x", "~mask", "x > 0", "x + k", "h + x", "h * 2.5", "f * h", "x.t() + y.t()", "x + v", "u * u[:, :1]", "u.permute(0, 2, 3, 1) + 1", "u.permute(0, 2, 3, 1) * u[0, 0, 0, 0]", "big * big.mean(1, keepdim=True)", "o + 1",
        "x.clamp(-1, 1)", "torch.addcdiv(x, y, p, value=2.0)", "torch.float_power(p, 2)", "torch.isclose(x, y)", "torch.frexp(x)", "torch.ldexp(x, k)", "torch.bitwise_and(k, l)", "torch.polygamma(1, p)", "torch.mvlgamma(p + 2, 2)", "torch.nextafter(h, h + 1)", "torch.logit(torch.sigmoid(x), 1e-6)", "torch.round(x, decimals=1)", "torch.special.ndtri(torch.sigmoid(x))",
    ],
}  # fmt: skip

# Where the operands of an op may lie (default: -2 to 2); every operand the same, or one range for each.
DOMAIN = {
    "log": (0.1, 4), "log2": (0.1, 4), "log10": (0.1, 4), "log1p": (-0.8, 4), "sqrt": (0.1, 4), "rsqrt": (0.1, 4),
    "acosh": (1.1, 4), "atanh": (-0.9, 0.9), "asin": (-0.9, 0.9), "acos": (-0.9, 0.9), "erfinv": (-0.9, 0.9),
    "pow": [(0.1, 3), (-2, 2)], "xlogy": [(-2, 2), (0.1, 4)], "special_xlog1py": [(-2, 2), (-0.8, 4)],
    "reciprocal": (0.2, 3), "div": [(-2, 2), (0.3, 3)], "true_divide": [(-2, 2), (0.3, 3)], "addcdiv": [(-2, 2), (-2, 2), (0.3, 3)],
    "lgamma": (0.3, 4), "digamma": (0.3, 4), "trigamma": (0.3, 4), "polygamma_of": (0.3, 4), "logit_clamped": (0.1, 0.9), "special_ndtri": (0.1, 0.9), "ndtri": (0.1, 0.9),
    "entr": (0.1, 3), "special_entr": (0.1, 3), "floor_divide": [(-9, 9), (0.7, 3)], "div_floor": [(-9, 9), (0.7, 3)], "div_trunc": [(-9, 9), (0.7, 3)],
    "remainder": [(-9, 9), (0.7, 3)], "fmod": [(-9, 9), (0.7, 3)], "lerp": [(-2, 2), (-2, 2), (0.1, 0.9)],
    "binary_entropy": (0.1, 0.9), "igamma": (0.5, 3), "igammac": (0.5, 3), "zeta": (1.5, 4), "special_zeta": (1.5, 4),
    "linspace_points": (1, 3), "hypot": (0.2, 2), "div_number": (-2, 2), "clamp": [(-2, 2), (-1.5, -0.5), (0.5, 1.5)],
}  # fmt: skip
PARAMS = {
    "add_scaled": (1.5,), "sub_scaled": (1.5,), "mul_number": (1.5,), "div_number": (1.5,), "rdiv_number": (1.5,), "nan_to_num": (0.5, 3.0, -3.0),
    "polygamma_of": (2,), "addcmul": (0.7,), "addcdiv": (0.7,), "lerp_number": (0.3,), "is_within": (1e-5, 1e-8), "round_finer": (10.0,),
    "round_coarser": (10.0,), "logit_clamped": (1e-6,), "hardtanh": (-1.0, 1.0), "leaky_relu": (0.1,), "threshold": (0.3, -1.0),
    "elu": (1.2, 1.0, 1.0), "elu_in_place": (1.2, 1.0, 1.0), "softplus": (1.5, 20.0), "hardshrink": (0.5,), "softshrink": (0.5,),
    "smooth_absolute": (0.7,), "huber": (0.7,), "dropout_masked": (1.25,),
}  # fmt: skip


def params_of(op: Any) -> tuple[Any, ...]:
    """Values of a pointwise record's parameters: listed above, or ones."""
    return PARAMS.get(op.name, (1.0,) * len(op.params))


def domain_of(op: Any, index: int) -> tuple[float, float]:
    """Where an operand of a pointwise record may lie: what the record says, or what is listed above."""
    domain = op.samples or DOMAIN.get(op.name, (-2, 2))
    return domain[index] if isinstance(domain, list) else domain
