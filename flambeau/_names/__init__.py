"""What the top namespace has besides operations and tensors: names that few programs use, loaded when they are asked for."""
