"""The handlers that there are from the start: rounds in a store that one of the machines keeps."""

from __future__ import annotations

import socket
from datetime import timedelta

from ..._kinds import DistNetworkError
from ..._stores import PrefixStore
from ..._tcp_store import TCPStore
from ._rounds import Meeting, endpoint
from .api import (
    RendezvousConnectionError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)

__all__ = ["get_rendezvous_handler"]

_PORTS = {"c10d": 29400, "static": 29500}  # of addresses without one
_TIMEOUT = 600  # seconds


class MeetingHandler(RendezvousHandler):
    """Rounds in a store (`Meeting`), in which machines have the numbers that they are given, or come to."""

    def __init__(self, backend: str, run_id: str, store: TCPStore, meeting: Meeting):
        self._backend, self._run_id, self.store, self.meeting = backend, run_id, store, meeting

    def get_backend(self) -> str:
        return self._backend

    @property
    def use_agent_store(self) -> bool:
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        found = self.meeting.join()
        place = RendezvousStoreInfo(self.store.host, self.store.port)
        own = PrefixStore(f"round/{found.number}/own", self.meeting.store)
        return RendezvousInfo(own, found.node, len(found.sizes), place)

    def is_closed(self) -> bool:
        return self.meeting.closed()

    def set_closed(self) -> None:
        self.meeting.give_up("the meeting was closed")

    def num_nodes_waiting(self) -> int:
        return self.meeting.waiting()

    def get_run_id(self) -> str:
        return self._run_id

    def shutdown(self) -> bool:
        self.set_closed()
        return True


def _own(host: str) -> bool:
    """Whether a name is this machine's."""
    if host in ("localhost", "127.0.0.1", "::1", socket.gethostname()):
        return True
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((socket.gethostbyname(host), 0))  # only an address of this machine can be bound
        return True
    except OSError:
        return False


def _create_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler of a job: one of this machine's launchers keeps the store, if the endpoint is this machine's."""
    host, port = endpoint(params.endpoint or "localhost", _PORTS[params.backend])
    static = params.backend == "static"
    node = params.get_as_int("rank") if static else None
    if static and node is None:
        raise ValueError("rank is absent in RendezvousParameters: static machines have numbers")
    if static and params.min_nodes != params.max_nodes:
        raise ValueError(
            "machines that meet statically have numbers: give one number of machines, or use the backend c10d"
        )
    seconds = float(params.get("timeout", params.get("join_timeout", _TIMEOUT)))
    keeps = params.get_as_bool("is_host", node == 0 if static else _own(host))
    store = _store(host, port, bool(keeps), node is None and port != 0, timedelta(seconds=seconds))
    keys = PrefixStore(f"agents/{params.run_id}", store)
    meeting = Meeting(keys, params.min_nodes, params.max_nodes, 1, node, seconds)
    return MeetingHandler(params.backend, params.run_id, store, meeting)


def _store(host: str, port: int, keeps: bool, shared: bool, limit: timedelta) -> TCPStore:
    """The store of a meeting, kept here or elsewhere; `shared`: another launcher of this machine may keep it."""
    if keeps:
        try:
            return TCPStore(host, port, None, True, limit)
        except DistNetworkError:
            if not shared:
                raise
    try:
        return TCPStore(host, port, None, False, limit)
    except DistNetworkError as error:
        raise RendezvousConnectionError(
            f"The connection to the store of the meeting at {host}:{port} has failed: {error}"
        ) from error


def _register_default_handlers() -> None:
    for backend in _PORTS:
        rendezvous_handler_registry.register(backend, _create_handler)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler of a backend, "c10d", "static" or one that a program registered."""
    return rendezvous_handler_registry.create_handler(params)
