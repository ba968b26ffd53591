"""Two networks against each other, with spectral norms and gradient penalties."""

import flambeau as torch
from flambeau import nn, optim
from flambeau.nn.utils import parametrizations

latent = 8


def weights_init(m: nn.Module) -> None:
    if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d)):
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif isinstance(m, nn.BatchNorm2d):
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


generator = nn.Sequential(
    nn.ConvTranspose2d(latent, 16, 4, 1, 0, bias=False),
    nn.BatchNorm2d(16),
    nn.ReLU(True),
    nn.ConvTranspose2d(16, 1, 4, 2, 1, bias=False),
    nn.Tanh(),
)
critic = nn.Sequential(
    parametrizations.spectral_norm(nn.Conv2d(1, 16, 4, 2, 1)),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Flatten(),
    nn.Linear(256, 1),
)
generator.apply(weights_init)
criterion = nn.BCEWithLogitsLoss()
optimizers = [optim.Adam(net.parameters(), lr=2e-4, betas=(0.5, 0.999)) for net in (generator, critic)]
fixed = torch.randn(4, latent, 1, 1)


def penalty(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
    alpha = torch.rand(real.size(0), 1, 1, 1, device=real.device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(mixed)
    gradients = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True, retain_graph=True)[0]
    return ((gradients.view(gradients.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()


for step in range(2):
    real = torch.rand(4, 1, 8, 8) * 2 - 1
    noise = torch.randn(real.size(0), latent, 1, 1)
    fake = generator(noise)
    optimizers[1].zero_grad()
    labels = torch.full((real.size(0), 1), 1.0, dtype=torch.float)
    loss_real = criterion(critic(real), labels)
    loss_fake = criterion(critic(fake.detach()), torch.zeros_like(labels))
    loss_critic = loss_real + loss_fake + 10 * penalty(real, fake.detach())
    loss_critic.backward()
    optimizers[1].step()
    optimizers[0].zero_grad()
    loss = criterion(critic(fake), torch.ones(real.size(0), 1))
    loss.backward()
    optimizers[0].step()
    print(f"[{step}] {loss_critic.item():.3f} {loss.item():.3f} {torch.sigmoid(critic(fake)).mean():.3f}")
with torch.no_grad():
    images = generator(fixed).detach().cpu().numpy()
print(images.shape, images.min() >= -1)
