"""`TCPStore`: a store in one process that others reach over the network.

A message is a list of byte strings, each with its length before it: a request names an operation and its arguments,
an answer holds the result. Nothing that is received is executed or unpickled.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ._kinds import DistNetworkError, DistStoreError
from ._stores import HashStore, Store, _bytes, milliseconds
from ._watch import lost

LARGEST = 1 << 30  # bytes of one message: a stranger's bytes must not make us allocate more


def _send(connection: socket.socket, fields: Sequence[bytes]) -> None:
    connection.sendall(
        struct.pack(">I", len(fields)) + b"".join(struct.pack(">I", len(field)) + field for field in fields)
    )


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(min(count, 1 << 20))
        if not part:
            raise ConnectionError("the connection was closed")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _receive(connection: socket.socket) -> list[bytes]:
    (count,) = struct.unpack(">I", _exactly(connection, 4))
    fields, total = [], 4 * count
    if total > LARGEST:
        raise ConnectionError("a message is too long")
    for _ in range(count):
        (length,) = struct.unpack(">I", _exactly(connection, 4))
        total += length
        if total > LARGEST:
            raise ConnectionError("a message is too long")
        fields.append(_exactly(connection, length))
    return fields


# What the server does for each operation: the table's store and the fields of the request, to the fields of the answer.
_OPERATIONS = {
    b"set": lambda store, key, value: store.set(key.decode(), value) or [],
    b"value": lambda store, key: [store._value(key.decode())],
    b"add": lambda store, key, amount: [b"%d" % store.add(key.decode(), int(amount))],
    b"append": lambda store, key, value: store.append(key.decode(), value) or [],
    b"compare": lambda store, key, expected, value: [store.compare_set(key.decode(), expected, value)],
    b"check": lambda store, *keys: [b"%d" % store.check([key.decode() for key in keys])],
    b"delete": lambda store, key: [b"%d" % store.delete_key(key.decode())],
    b"keys": lambda store: [key.encode() for key in store.list_keys()],
    b"push": lambda store, key, value: store.queue_push(key.decode(), value) or [],
    b"pop": lambda store, key: [value] if (value := store._pop(key.decode())) is not None else [],
    b"length": lambda store, key: [b"%d" % store.queue_len(key.decode())],
}


class _Server:
    """Listens, and serves every connection in a thread of its own, until the last reference to its owner goes."""

    def __init__(self, port: int, listening: int | None):
        self.store = HashStore()
        try:
            if listening is not None:
                self.socket = socket.socket(fileno=listening)
            else:
                self.socket = socket.create_server(("", port))
        except OSError as error:
            raise DistNetworkError(f"the server cannot listen on port {port}: {error}") from error
        threading.Thread(target=_accept, args=(self.socket, self.store), daemon=True).start()

    def __del__(self) -> None:
        if hasattr(self, "socket"):
            with contextlib.suppress(OSError):
                self.socket.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self.socket.close()


def _accept(listening: socket.socket, store: HashStore) -> None:
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return  # closed
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        threading.Thread(target=_serve, args=(connection, store), daemon=True).start()


def _serve(connection: socket.socket, store: HashStore) -> None:
    with connection:
        while True:
            try:
                name, *fields = _receive(connection)
                try:
                    answer = [b"ok", *_OPERATIONS[name](store, *fields)]
                except Exception as error:
                    answer = [b"error", str(error).encode()]
                _send(connection, answer)
            except (OSError, ValueError):
                return  # the other side has gone, or does not speak this language


class TCPStore(Store):
    """A store that the process with `is_master` keeps and the others reach by its host and port (0: a free one).

    >>> import flambeau as torch
    >>> kept = torch.distributed.TCPStore("127.0.0.1", 0, is_master=True)
    >>> other = torch.distributed.TCPStore("127.0.0.1", kept.port)
    >>> other.set("a", "b"); kept.get("a")
    b'b'
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = timedelta(seconds=300),
        wait_for_workers: bool = True,
        multi_tenant: bool = False,
        master_listen_fd: int | None = None,
        use_libuv: bool = True,
        _keeper: str = "",  # who keeps it, for errors
    ):
        super().__init__()
        self._timeout, self._lock, self.keeper = timeout, threading.Lock(), _keeper
        self._server = _Server(port, master_listen_fd) if is_master else None
        self.host = host_name
        self.port: int = self._server.socket.getsockname()[1] if self._server else port
        self._connection = self._connect()
        self.add("init/", 1)
        if is_master and wait_for_workers and (world_size or 1) > 1:
            self._wait_for(world_size or 1)

    def _connect(self) -> socket.socket:
        """A connection; the server may start later than this process."""
        end = time.monotonic() + self._timeout.total_seconds()
        while True:
            try:
                connection = socket.create_connection((self.host, self.port), max(end - time.monotonic(), 0.01))
            except OSError as error:
                if time.monotonic() > end:
                    raise DistNetworkError(
                        f"The client socket has timed out after {milliseconds(self._timeout)} while trying to connect to "
                        f"({self.host}, {self.port}): no store answered"
                        f"{f', {self.keeper} is missing' if self.keeper else ''}: {error}"
                    ) from error
                time.sleep(0.05)
                continue
            connection.settimeout(None)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return connection

    def _wait_for(self, world_size: int) -> None:
        """Waits until all processes have connected."""
        end = time.monotonic() + self._timeout.total_seconds()
        while (here := self.add("init/", 0)) < world_size:
            if time.monotonic() > end:
                raise DistStoreError(f"{here} of {world_size} processes joined within {self._timeout}")
            time.sleep(0.01)

    def _ask(self, name: bytes, *fields: Any) -> list[bytes]:
        try:
            with self._lock:
                _send(self._connection, [name, *map(_bytes, fields)])
                state, *answer = _receive(self._connection)
        except OSError as error:
            raise DistNetworkError(
                f"the store at {self.host}:{self.port} is gone{f', {self.keeper} died' if self.keeper else ''}: {error}{lost()}"
            ) from error
        if state != b"ok":
            raise DistStoreError(answer[0].decode())
        return answer

    def set(self, key: str, value: Any) -> None:
        """Leaves a value."""
        self._ask(b"set", key, value)

    def _value(self, key: str) -> bytes:
        return self._ask(b"value", key)[0]

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter; gives its value."""
        return int(self._ask(b"add", key, b"%d" % amount)[0])

    def append(self, key: str, value: Any) -> None:
        """Adds to the end of a value."""
        self._ask(b"append", key, value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Leaves a value if the present one is as expected (or, expecting "", if there is none); gives what is there."""
        return self._ask(b"compare", key, expected_value, desired_value)[0]

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return self._ask(b"check", *keys)[0] == b"1"

    def delete_key(self, key: str) -> bool:
        """Forgets a key; whether it was there."""
        return self._ask(b"delete", key)[0] == b"1"

    def num_keys(self) -> int:
        """How many keys there are, with one of the store's own."""
        return len(self._ask(b"keys"))

    def list_keys(self) -> list[str]:
        """All keys."""
        return [key.decode() for key in self._ask(b"keys") if key != b"init/"]

    def queue_push(self, key: str, value: Any) -> None:
        """Adds to a queue."""
        self._ask(b"push", key, value)

    def _pop(self, key: str) -> bytes | None:
        answer = self._ask(b"pop", key)
        return answer[0] if answer else None

    def queue_len(self, key: str) -> int:
        """How many values a queue holds."""
        return int(self._ask(b"length", key)[0])

    def clone(self) -> TCPStore:
        """Another connection to the same values."""
        return TCPStore(self.host, self.port, timeout=self._timeout)
