"""The version of the package, in one place: what the build found in git's tags, and in a checkout that was not built the next one."""

try:
    from ._built_version import version as _found
except ModuleNotFoundError:
    _found = "0.1.0"

__version__: str = _found
