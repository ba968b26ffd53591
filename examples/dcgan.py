"""A convolutional GAN learns to draw coloured discs on a dark ground, 16x16 pixels.

The figure is the sliced distance of generated and real pictures: how far apart their sorted projections lie, over many
random directions. Two sets of real pictures are about 0.7 apart, an untrained generator 20; with the default 400 steps it
comes below 5 (about half a minute on two cores). Runs on PyTorch, and unchanged on flambeau:
`flambeau run examples/dcgan.py`.
"""

import argparse

import torch
import torch.nn.functional as F
from torch import nn

try:
    from tqdm import trange
except ImportError:
    trange = range

LATENT = 32


def discs(count):
    """Pictures (N, 3, 16, 16) with values in -1 … 1."""
    line = torch.linspace(-1, 1, 16)
    between = lambda low, high: torch.empty(count, 1, 1).uniform_(low, high)
    far = ((line - between(-0.3, 0.3)) ** 2 + (line.view(16, 1) - between(-0.3, 0.3)) ** 2).sqrt()
    mask = torch.sigmoid(12 * (between(0.4, 0.7) - far)).unsqueeze(1)
    colour = torch.rand(count, 3, 1, 1)
    return 2 * mask * colour / colour.amax(1, keepdim=True) - 1


class Generator(nn.Sequential):
    def __init__(self, width=32):
        super().__init__(
            nn.ConvTranspose2d(LATENT, 2 * width, 4, bias=False),  # 4x4
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1, bias=False),  # 8x8
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1),  # 16x16
            nn.Tanh(),
        )


class Discriminator(nn.Sequential):
    def __init__(self, width=32):
        super().__init__(
            nn.utils.spectral_norm(nn.Conv2d(3, width, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            nn.utils.spectral_norm(nn.Conv2d(width, 2 * width, 4, stride=2, padding=1)),
            nn.LeakyReLU(0.2),
            nn.utils.spectral_norm(nn.Conv2d(2 * width, 1, 4)),
            nn.Flatten(0),
        )


def start(module):
    if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(getattr(module, "weight_orig", module.weight), 0.0, 0.02)


@torch.no_grad()
def sliced_distance(a, b, directions=200):
    """Mean distance of the sorted projections of two sets of pictures onto random directions."""
    generator = torch.Generator().manual_seed(1)
    lines = torch.randn(a[0].numel(), directions, generator=generator)
    a, b = ((x.flatten(1) @ lines).sort(0).values for x in (a, b))
    return (a - b).abs().mean().item()


@torch.no_grad()
def drawn(generator, count):
    generator.eval()
    images = generator(torch.randn(count, LATENT, 1, 1))
    generator.train()
    return images


def main(steps=400, batch_size=64, seed=0):
    torch.manual_seed(seed)
    real, test = discs(4000), discs(1000)
    generator, discriminator = Generator().apply(start), Discriminator().apply(start)
    of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    of_discriminator = torch.optim.Adam(discriminator.parameters(), lr=1e-3, betas=(0.5, 0.999))
    averaged = torch.optim.swa_utils.AveragedModel(
        generator, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.98), use_buffers=True
    )
    print(
        f"real to real {sliced_distance(discs(1000), test):.2f}, before {sliced_distance(drawn(generator, 1000), test):.2f}"
    )
    for _ in trange(steps):
        fake = generator(torch.randn(batch_size, LATENT, 1, 1))
        judged = discriminator(real[torch.randint(len(real), (batch_size,))])
        # Hinge losses: the discriminator wants margins, the generator a high mark.
        loss = F.relu(1 - judged).mean() + F.relu(1 + discriminator(fake.detach())).mean()
        of_discriminator.zero_grad()
        loss.backward()
        of_discriminator.step()
        fooled = -discriminator(fake).mean()
        of_generator.zero_grad()
        fooled.backward()
        of_generator.step()
        averaged.update_parameters(generator)
    distance = sliced_distance(drawn(averaged, 1000), test)
    print(f"losses {loss.item():.2f} {fooled.item():.2f}   generated to real {distance:.2f}")
    return distance


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
