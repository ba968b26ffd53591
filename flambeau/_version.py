"""The version of the package, in one place: what the build found in git's tags, and in a checkout that was not built the next one."""

try:
    from ._built_version import version as __version__
except ModuleNotFoundError:
    __version__ = "0.1.0"
