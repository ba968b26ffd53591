"""The version of torchvision whose interface this package has."""

__version__ = "0.28.0+flambeau"
cuda = None
git_version = "Unknown"
