"""Distributions, a variational model, random numbers."""

import flambeau as torch
import flambeau.distributions as dist
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau.distributions import Independent, Normal, kl_divergence


class VAE(nn.Module):
    def __init__(self, inputs: int, latent: int) -> None:
        super().__init__()
        self.encoder = nn.Linear(inputs, 2 * latent)
        self.decoder = nn.Linear(latent, inputs)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, dim=-1)
        posterior = Normal(mean, torch.exp(0.5 * log_variance))
        prior = Normal(torch.zeros_like(mean), torch.ones_like(mean))
        z = posterior.rsample()
        return self.decoder(z), kl_divergence(posterior, prior).sum(-1).mean()


torch.manual_seed(0)
model = VAE(6, 2)
x = torch.bernoulli(torch.full((8, 6), 0.5))
logits, kl = model(x)
reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(-1).mean()
(reconstruction + 0.5 * kl).backward()
mixture = dist.MixtureSameFamily(
    dist.Categorical(torch.ones(3)), Independent(Normal(torch.randn(3, 2), torch.rand(3, 2) + 0.5), 1)
)
samples = mixture.sample((100,))
density = mixture.log_prob(samples)
beta = dist.Beta(torch.tensor([0.5]), torch.tensor([0.5]))
flow = dist.TransformedDistribution(Normal(0.0, 1.0), [dist.AffineTransform(1.0, 2.0), dist.ExpTransform()])
g = torch.Generator().manual_seed(7)
noise = torch.normal(0.0, 1.0, size=(3,), generator=g)
order = torch.randperm(5, generator=g)
choice = torch.multinomial(torch.tensor([0.2, 0.8]), 4, replacement=True)
print(
    kl.item(),
    density.mean(),
    beta.mean,
    flow.sample((2,)).shape,
    noise.std(unbiased=False),
    order.tolist(),
    choice.dtype,
)
counts = torch.bincount(choice, minlength=2)
quantiles = torch.quantile(samples, torch.tensor([0.1, 0.9]), dim=0)
values, indices = torch.sort(density, descending=True)
print(counts, quantiles.shape, values[0] >= values[-1], indices[:3], samples.var(0), samples.mean().item())
