"""Datasets of images, read from their original files."""

from .cifar import CIFAR10, CIFAR100
from .fakedata import FakeData
from .folder import DatasetFolder, ImageFolder
from .mnist import EMNIST, KMNIST, MNIST, FashionMNIST
from .vision import VisionDataset

__all__ = [
    "CIFAR10", "CIFAR100", "EMNIST", "KMNIST", "MNIST", "DatasetFolder", "FakeData", "FashionMNIST", "ImageFolder",
    "VisionDataset",
]  # fmt: skip
