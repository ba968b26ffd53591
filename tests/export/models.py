"""Small models of many kinds, each with example arguments, for any module that looks like `torch`."""

import math


def zoo(torch):
    """name -> (module, args, kwargs); evaluation mode unless the name says otherwise."""
    nn, functional = torch.nn, torch.nn.functional
    found = {}

    def model(*args, train=False, **kwargs):
        def add(make):
            torch.manual_seed(0)
            module = make()
            found[make.__name__] = (module.train(train), args, kwargs)
            return make

        return add

    torch.manual_seed(1)
    rows, image, words = torch.randn(4, 6), torch.randn(2, 3, 8, 8), torch.tensor([[1, 2, 3], [4, 0, 2]])
    steps = torch.randn(5, 2, 6)

    @model(rows)
    def mlp():
        return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3), nn.Softmax(-1))

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3, padding=1)
            self.norm = nn.BatchNorm2d(4)
            self.head = nn.Linear(4 * 16, 5)

        def forward(self, x):
            x = functional.max_pool2d(functional.relu(self.norm(self.conv(x))), 2)
            return self.head(x.flatten(1))

    @model(image)
    def cnn():
        return Norms()

    @model(image, train=True)
    def cnn_in_training():
        return Norms()

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.Conv2d(3, 3, 3, padding=1, bias=False)
            self.first, self.second = nn.BatchNorm2d(3), nn.BatchNorm2d(3)
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x):
            out = self.second(self.two(self.relu(self.first(self.one(x)))))
            out += x
            return self.relu(out)

    @model(image)
    def resnet_block():
        return Block()

    @model(image, train=True)
    def resnet_block_in_training():
        return Block()

    @model(steps)
    def lstm():
        return nn.LSTM(6, 4, num_layers=2, bidirectional=True)

    @model(steps)
    def gru():
        return nn.GRU(6, 4)

    @model(steps, torch.zeros(1, 2, 4))
    def rnn_with_state():
        return nn.RNN(6, 4)

    @model(steps, train=True)
    def encoder_layer():
        return nn.TransformerEncoderLayer(6, 2, 12, dropout=0.0)

    class Gpt(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(10, 8), nn.Embedding(7, 8)
            self.norm, self.other = nn.LayerNorm(8), nn.LayerNorm(8)
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)
            self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)
            self.register_buffer("mask", torch.tril(torch.ones(7, 7)).view(1, 1, 7, 7), persistent=False)

        def forward(self, idx):
            b, t = idx.size()
            x = self.words(idx) + self.places(torch.arange(0, t, dtype=torch.long))
            q, k, v = self.qkv(self.norm(x)).split(8, dim=2)
            q, k, v = (p.view(b, t, 2, 4).transpose(1, 2) for p in (q, k, v))
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
            y = (functional.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, 8)
            x = x + self.out(y)
            return x + self.down(functional.gelu(self.up(self.other(x)), approximate="tanh"))

    @model(words)
    def gpt_block():
        return Gpt()

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(6, 18)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    @model(steps)
    def causal_attention():
        return Attention()

    @model(torch.tensor([1, 2, 4, 5]), torch.tensor([0, 2]))
    def embedding_bag():
        return nn.EmbeddingBag(8, 3, mode="mean")

    @model(image)
    def conv_transpose():
        return nn.ConvTranspose2d(3, 2, 3, stride=2, padding=1, output_padding=1)

    class Unet(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.middle = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.Conv2d(4, 4, 3, padding=1)
            self.up, self.last = nn.Conv2d(4, 3, 3, padding=1), nn.Conv2d(6, 1, 1)

        def forward(self, x):
            low = functional.silu(self.middle(functional.silu(self.down(x))))
            high = self.up(functional.interpolate(low, scale_factor=2, mode="nearest"))
            return torch.sigmoid(self.last(torch.cat([high, x], dim=1)))

    @model(image)
    def unet():
        return Unet()

    @model(rows)
    def autoencoder():
        return nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 6), nn.Sigmoid())

    class Containers(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(6, 6)

        def forward(self, x, more, *, scale=None, flag=True):
            y = self.layer(x) + more["a"] * more["b"][0]
            y = y * scale if flag else y
            return {"y": y, "pair": (y.sum(), [y.mean(-1)]), "none": None, "n": 3}

    @model(rows, {"a": rows + 1, "b": [torch.ones(1)]}, scale=torch.tensor(2.0), flag=True)
    def containers():
        return Containers()

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("mean", torch.zeros(6))
            self.k = torch.arange(6.0)

        def forward(self, x):
            self.count += 1
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return x - self.mean + self.k * torch.tensor([1.0, -1.0] * 3) + self.count

    @model(rows)
    def written_buffers():
        return Counting()

    class Several(nn.Module):
        def forward(self, x):
            values, places = x.max(1)
            top = x.topk(2, dim=1)
            low, high = x[:, :3], x[..., 3:]
            return (
                values,
                places,
                top.values,
                torch.stack([low, high]),
                x.sort(-1, descending=True)[0],
                torch.where(x > 0, x, 0.0),
            )

    @model(rows)
    def several_outputs():
        return Several()

    class Arithmetic(nn.Module):
        def forward(self, x, y):
            a = (x - 2 * y) / (y.abs() + 1) ** 2
            b = torch.clamp(a, -1, 1).pow(2).sum(-1, keepdim=True).sqrt()
            mask = (x > y) & (y < 1) | (x == 0)
            return (
                1 - a,
                b,
                mask,
                a.masked_fill(mask, -1.0),
                torch.einsum("ij,kj->ik", x, y),
                x.t() @ y,
                a.std(0),
                2 / b,
            )

    @model(rows, rows.flip(0) + 0.5)
    def arithmetic():
        return Arithmetic()

    class Indexing(nn.Module):
        def forward(self, x, i):
            out = x.clone()
            out[:, 1] = 0.0
            out[0, 2:4] = x[1, :2]
            return (
                out,
                x[i],
                x[:, i],
                x[None, ..., 0],
                x.gather(1, i[:4].unsqueeze(1)),
                x.index_select(0, i[:2]),
                x.cumsum(1),
            )

    @model(rows, torch.tensor([1, 0, 2, 3]))
    def indexing():
        return Indexing()

    class Losses(nn.Module):
        def forward(self, x, target):
            return (
                functional.cross_entropy(x, target), functional.mse_loss(x, x * 0.5), functional.nll_loss(x.log_softmax(1), target),
                functional.smooth_l1_loss(x, x * 0), functional.binary_cross_entropy_with_logits(x, torch.sigmoid(x)),
            )  # fmt: skip

    @model(rows, torch.tensor([1, 0, 2, 5]))
    def losses():
        return Losses()

    @model(image)
    def group_norm():
        return nn.Sequential(nn.GroupNorm(3, 3), nn.Conv2d(3, 6, 3, groups=3), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    @model(torch.randn(2, 3, 10))
    def conv1d():
        return nn.Sequential(nn.Conv1d(3, 4, 3, dilation=2), nn.LeakyReLU(0.1), nn.AvgPool1d(2), nn.InstanceNorm1d(4))

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.out = nn.Embedding(10, 6), nn.Linear(6, 10, bias=False)
            self.out.weight = self.table.weight

        def forward(self, x):
            return self.out(self.table(x))

    @model(words)
    def tied_weights():
        return Tied()

    class Shapes(nn.Module):
        def forward(self, x):
            b, c, h, w = x.shape
            y = x.permute(0, 2, 3, 1).reshape(b, h * w, c)
            z = y.unfold(1, 4, 4).flatten(2).repeat(1, 2, 1).unsqueeze(-1).expand(-1, -1, -1, 2)
            return (
                y.unbind(0)[0],
                z,
                functional.pad(x, (1, 1, 0, 2)),
                x.squeeze().roll(1, 2),
                torch.zeros(b, c).new_full((b, 2), 3.0),
            )

    @model(image)
    def shapes():
        return Shapes()

    class Casts(nn.Module):
        def forward(self, x):
            h = x.to(torch.bfloat16).float() + x.double().to(x.dtype)
            return (
                h,
                x.long(),
                torch.ones_like(x, dtype=torch.int32),
                x.new_zeros(2),
                torch.full((2, 3), 1.5),
                torch.eye(3),
                x.bool(),
            )

    @model(rows)
    def casts():
        return Casts()

    @model(torch.randn(2, 4, 6), torch.randn(2, 3, 6))
    def decoder_layer():
        return nn.TransformerDecoderLayer(6, 2, 12, dropout=0.0, batch_first=True, norm_first=True).train()

    class Heads(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

        def forward(self, x):
            return self.attention(x, x, x)

    @model(torch.randn(2, 4, 6))
    def multihead_attention():
        return Heads()

    class Cells(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.gru = nn.LSTMCell(6, 3), nn.GRUCell(6, 3)

        def forward(self, x):
            h, c = self.lstm(x)
            return h, c, self.gru(x, h)

    @model(rows)
    def cells():
        return Cells()

    class UpAndDown(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.norm = nn.Conv2d(3, 4, 3, stride=2, padding=1), nn.GroupNorm(2, 4)
            self.up, self.out = nn.ConvTranspose2d(4, 4, 2, stride=2), nn.Conv2d(11, 2, 1)

        def forward(self, x):
            h = functional.silu(self.norm(self.down(x)))
            large = functional.interpolate(h, scale_factor=2.0, mode="bilinear", align_corners=False)
            return self.out(torch.cat([x, self.up(h), large], 1)).argmax(1), functional.avg_pool2d(h, 2)

    @model(image)
    def up_and_down():
        return UpAndDown()

    return found
