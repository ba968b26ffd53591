"""Pipes that change the order of their items, under the path that programs import them from."""

from .pipes import SamplerIterDataPipe, ShufflerIterDataPipe

__all__ = ["SamplerIterDataPipe", "ShufflerIterDataPipe"]
