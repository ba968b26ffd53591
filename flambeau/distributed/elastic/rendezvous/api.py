"""The interface of meetings: handlers, their parameters, their errors, and the registry of their makers."""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from ..._stores import Store

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
    "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters",
    "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError", "rendezvous_handler_registry",
]  # fmt: skip


class RendezvousError(Exception):
    """Machines could not meet."""


class RendezvousClosedError(RendezvousError):
    """The meeting is over: the job has ended, or has all the machines that it may have."""


class RendezvousTimeoutError(RendezvousError):
    """Too few machines came in time."""


class RendezvousConnectionError(RendezvousError):
    """The place of the meeting cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What the meeting has noted makes no sense."""


class RendezvousGracefulExitError(RendezvousError):
    """This machine is not needed and may leave."""


@dataclass
class RendezvousStoreInfo:
    """Where the processes of all machines find their first store."""

    MASTER_ADDR_KEY: ClassVar[str] = "MASTER_ADDR"
    MASTER_PORT_KEY: ClassVar[str] = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(rank: int, store: Store, local_addr: str | None, server_port: int | None = None) -> RendezvousStoreInfo:
        """Machine 0 says in the store where it is; all learn it from there."""
        if rank == 0:
            with socket.socket() as found:
                found.bind(("", 0))
                port = server_port or found.getsockname()[1]
            store.set("MASTER_ADDR", local_addr or socket.getfqdn())
            store.set("MASTER_PORT", str(port))
        return RendezvousStoreInfo(store.get("MASTER_ADDR").decode(), int(store.get("MASTER_PORT").decode()))


class RendezvousInfo:
    """What a machine knows when the machines have met: its number, how many they are, and a store that they share."""

    def __init__(self, store: Store, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo):
        self._store, self._rank, self._world_size, self._bootstrap = store, rank, world_size, bootstrap_store_info

    @property
    def store(self) -> Store:
        """The store of this meeting."""
        return self._store

    @property
    def rank(self) -> int:
        """The number of this machine."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many machines there are."""
        return self._world_size

    @property
    def bootstrap_store_info(self) -> RendezvousStoreInfo | None:
        """Where processes find their first store."""
        return self._bootstrap


class RendezvousHandler(ABC):
    """How a machine meets the others. A launcher calls `next_rendezvous` before it starts its processes, and again when they
    have to be started again."""

    @abstractmethod
    def get_backend(self) -> str:
        """The name of the backend."""

    @property
    def use_agent_store(self) -> bool:
        """Whether processes may use the launcher's own store."""
        return False

    @abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Meets the others; returns when all are there."""

    @abstractmethod
    def is_closed(self) -> bool:
        """Whether the meeting is over."""

    @abstractmethod
    def set_closed(self) -> None:
        """Ends the meeting for all."""

    @abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many machines wait for the next meeting."""

    @abstractmethod
    def get_run_id(self) -> str:
        """The name of the job."""

    @abstractmethod
    def shutdown(self) -> bool:
        """Ends the meeting; whether that worked."""


class RendezvousParameters:
    """Where and with whom to meet; more options by name, which handlers read by `get`.

    >>> from flambeau.distributed.elastic.rendezvous import RendezvousParameters
    >>> RendezvousParameters("c10d", "host:29400", "job", 1, 4, timeout="60").get_as_int("timeout")
    60
    """

    def __init__(
        self,
        backend: str,
        endpoint: str,
        run_id: str,
        min_nodes: int,
        max_nodes: int,
        local_addr: str | None = None,
        **kwargs: Any,
    ):
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero.")
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum number of "
                f"rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.config, self.local_addr = min_nodes, max_nodes, kwargs, local_addr

    def get(self, key: str, default: Any = None) -> Any:
        """An option as it was given."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """An option as a yes or no: true, t, yes, y, 1, or the opposites."""
        value = self.get(key, default)
        if value is None or isinstance(value, bool):
            return value
        text = str(value).lower()
        if text in ("1", "true", "t", "yes", "y"):
            return True
        if text in ("0", "false", "f", "no", "n"):
            return False
        raise ValueError(f"The rendezvous configuration option '{key}' does not represent a valid boolean value.")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """An option as a number."""
        value = self.get(key, default)
        try:
            return value if value is None else int(value)
        except ValueError as error:
            raise ValueError(
                f"The rendezvous configuration option '{key}' does not represent a valid integer value."
            ) from error


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Makers of handlers by the names of backends."""

    def __init__(self) -> None:
        self._registry: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Makes a backend known."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        known = self._registry.get(backend)
        if known is not None and known != creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered with "
                f"'{known}'."
            )
        self._registry[backend] = creator

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """The handler of a backend."""
        creator = self._registry.get(params.backend)
        if creator is None:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`? There are "
                f"{', '.join(self._registry)}; c10d needs no other program."
            )
        handler = creator(params)
        if handler.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{handler.get_backend()}' does not match the requested backend '{params.backend}'."
            )
        return handler


rendezvous_handler_registry = RendezvousHandlerRegistry()
