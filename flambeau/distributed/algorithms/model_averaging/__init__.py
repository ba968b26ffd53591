"""Parameters that are averaged now and then, instead of gradients at every step."""
