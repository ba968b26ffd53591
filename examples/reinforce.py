"""REINFORCE balances a pole on a cart; the physics are written here, for many carts at once.

An episode ends when the pole leans more than 12 degrees, the cart leaves the track, or after 200 steps. With the
default 60 updates of 32 episodes the mean length rises from about 25 to at least 190 (under ten seconds). Runs on
PyTorch, and unchanged on flambeau: `flambeau run examples/reinforce.py`.
"""

import argparse
import math

import torch
from torch import nn
from torch.distributions import Categorical

try:
    from tqdm import trange
except ImportError:
    trange = range

LIMIT = 200


class CartPoles:
    """`count` carts on a track, each with a pole; the state is place, speed, angle and its speed."""

    gravity, cart, pole, half_length, force, interval = 9.8, 1.0, 0.1, 0.5, 10.0, 0.02

    def __init__(self, count):
        self.state = torch.empty(count, 4).uniform_(-0.05, 0.05)
        self.time = 0

    def step(self, actions):
        """Pushes each cart to the left (0) or right (1); returns which poles still stand."""
        _, speed, angle, turning = self.state.unbind(1)
        push = self.force * (2.0 * actions - 1)
        sine, cosine = angle.sin(), angle.cos()
        total = self.cart + self.pole
        drag = (push + self.pole * self.half_length * turning**2 * sine) / total
        bend = (self.gravity * sine - cosine * drag) / (self.half_length * (4 / 3 - self.pole * cosine**2 / total))
        pull = drag - self.pole * self.half_length * bend * cosine / total
        change = torch.stack([speed, pull, turning, bend], 1)
        self.state = self.state + self.interval * change
        self.time += 1
        return (self.state[:, 0].abs() < 2.4) & (self.state[:, 2].abs() < math.radians(12))


class Policy(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2))
        self.register_buffer("scale", torch.tensor([0.4, 1.0, 5.0, 1.0]))

    def forward(self, state):
        return Categorical(logits=self.body(state * self.scale))


def episodes(policy, count):
    """Plays until all poles have fallen; returns states, actions and which carts were still in play, by time."""
    carts, standing = CartPoles(count), torch.ones(count, dtype=torch.bool)
    states, actions, playing = [], [], []
    with torch.no_grad():
        while standing.any() and carts.time < LIMIT:
            states.append(carts.state)
            playing.append(standing)
            actions.append(policy(carts.state).sample())
            standing = standing & carts.step(actions[-1])
    return torch.stack(states), torch.stack(actions), torch.stack(playing)


def returns_of(rewards, discount=0.99):
    """What is still to come at each time, discounted."""
    found, later = [], torch.zeros(rewards.shape[1])
    for reward in reversed(rewards.unbind(0)):
        later = reward + discount * later
        found.append(later)
    return torch.stack(found[::-1])


def main(steps=60, batch_size=32, seed=0):
    torch.manual_seed(seed)
    policy = Policy()
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    lengths = []
    for _ in trange(steps):
        states, actions, playing = episodes(policy, batch_size)  # (T, carts, ...)
        rewards = playing.float()
        to_come = returns_of(rewards)
        # The baseline is what other carts get at the same time of the episode.
        baseline = (to_come * rewards).sum(1, keepdim=True) / rewards.sum(1, keepdim=True)
        advantage = (to_come - baseline)[playing]
        advantage = advantage / (advantage.std() + 1e-6)
        choice = policy(states[playing])
        loss = -(choice.log_prob(actions[playing]) * advantage).mean() - 0.01 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        lengths.append(rewards.sum().item() / batch_size)
    final = sum(lengths[-5:]) / len(lengths[-5:])
    print(f"mean length of episodes: {lengths[0]:.0f} at first, {final:.0f} over the last updates")
    return final


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--steps", type=int, default=60, help="updates of the policy")
    parser.add_argument("--batch-size", type=int, default=32, help="episodes for each update")
    parser.add_argument("--seed", type=int, default=0)
    main(**vars(parser.parse_args()))
