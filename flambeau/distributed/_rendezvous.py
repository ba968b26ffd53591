"""How processes find each other: an address becomes a store, a rank and a number of processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from ._file_store import FileStore
from ._stores import HashStore, PrefixStore, Store
from ._tcp_store import TCPStore
from .constants import default_pg_timeout

__all__ = ["register_rendezvous_handler", "rendezvous"]

Meeting = tuple[Store, int, int]


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Any:
    """Where processes meet: an iterator of (store, rank, world_size) for "env://", "tcp://host:port", "file://path"."""
    if not isinstance(url, (str, bytes)):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    if not isinstance(rank, int):
        raise RuntimeError(f"`rank` must be an integer. {rank}")
    if not isinstance(world_size, int):
        raise RuntimeError(f"`world_size` must be an integer. {world_size}")
    parts = urlsplit(str(url))
    options = {name: values[0] for name, values in parse_qs(parts.query).items()}
    rank = int(options.get("rank", rank)) if rank < 0 else rank
    world_size = int(options.get("world_size", world_size)) if world_size < 0 else world_size
    handler = _handlers.get(parts.scheme)
    if handler is None:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    return handler(url, rank, world_size, **kwargs)


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[Any]]) -> None:
    """Adds a way for processes to meet."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// is already registered")
    _handlers[scheme] = handler


def _missing(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _from_environment(name: str) -> str:
    if not os.environ.get(name):
        raise _missing("env", f"environment variable {name} expected, but not set")
    return os.environ[name]


def _tcp_store(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    """The store that rank 0 keeps, or the launcher for it."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        attempt = os.environ.get("TORCHELASTIC_ATTEMPT") or os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        return PrefixStore(
            f"/worker/attempt_{attempt}", TCPStore(host, port, world_size, False, timeout, _keeper="the launcher")
        )
    return TCPStore(host, port, world_size, rank == 0, timeout, wait_for_workers=False, _keeper="rank 0")


def _env(
    url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = default_pg_timeout, **kwargs: Any
) -> Iterator[Meeting]:
    rank = rank if rank >= 0 else int(_from_environment("RANK"))
    world_size = world_size if world_size >= 0 else int(_from_environment("WORLD_SIZE"))
    if world_size == 1 and "MASTER_ADDR" not in os.environ:
        yield HashStore(), rank, world_size  # nobody else will ask
        return
    host, port = _from_environment("MASTER_ADDR"), int(_from_environment("MASTER_PORT"))
    yield _tcp_store(host, port, rank, world_size, timeout), rank, world_size


def _tcp(
    url: str, rank: int, world_size: int, timeout: timedelta = default_pg_timeout, **kwargs: Any
) -> Iterator[Meeting]:
    parts = urlsplit(url)
    if parts.port is None:
        raise _missing("tcp", "port number missing")
    if rank < 0:
        raise _missing("tcp", "rank parameter missing")
    if world_size < 0:
        raise _missing("tcp", "world size parameter missing")
    if parts.hostname is None:
        raise _missing("tcp", "host missing")
    yield _tcp_store(parts.hostname, parts.port, rank, world_size, timeout), rank, world_size


def _file(
    url: str, rank: int, world_size: int, timeout: timedelta = default_pg_timeout, **kwargs: Any
) -> Iterator[Meeting]:
    path = urlsplit(url).path
    if not path:
        raise _missing("file", "path missing")
    if rank < 0:
        raise _missing("file", "rank parameter missing")
    if world_size < 0:
        raise _missing("file", "world size parameter missing")
    store = FileStore(path, world_size)
    store.set_timeout(timeout)
    yield store, rank, world_size


_handlers: dict[str, Callable[..., Iterator[Any]]] = {"env": _env, "file": _file, "tcp": _tcp}
