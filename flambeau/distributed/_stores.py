"""Stores: small values that processes leave for each other, in memory or in a file."""

from __future__ import annotations

import fcntl
import os
import pickle
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ._kinds import DistStoreError, QueueEmptyError

__all__ = ["FileStore", "HashStore", "PrefixStore", "Store", "TCPStore"]


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store:
    """Values by key; `get` and `wait` wait until a key is there."""

    def __init__(self) -> None:
        self._timeout = timedelta(seconds=300)

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> Any:
        """Runs a function on the table of values while nobody else does."""
        raise NotImplementedError("this store keeps nothing; use HashStore or FileStore")

    @property
    def timeout(self) -> timedelta:
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """How long `get` and `wait` wait."""
        self._timeout = timeout

    def set(self, key: str, value: Any) -> None:
        """Leaves a value."""
        self._change(lambda table: table.__setitem__(key, _bytes(value)))

    def get(self, key: str) -> bytes:
        """A value, once it is there."""
        self.wait([key])
        return self._change(lambda table: table[key])

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter; gives its value."""

        def change(table: dict[str, Any]) -> int:
            table[key] = str(int(table.get(key, b"0")) + amount).encode()
            return int(table[key])

        return self._change(change)

    def append(self, key: str, value: Any) -> None:
        """Adds to the end of a value."""
        self._change(lambda table: table.__setitem__(key, table.get(key, b"") + _bytes(value)))

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Leaves a value if the present one is as expected (or, expecting "", if there is none); gives what is there."""

        def change(table: dict[str, Any]) -> bytes:
            present = table.get(key)
            if (present is None and not expected_value) or present == _bytes(expected_value):
                table[key] = _bytes(desired_value)
            return table.get(key, _bytes(expected_value))

        return self._change(change)

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return self._change(lambda table: all(key in table for key in keys))

    def wait(self, keys: list[str], timeout: timedelta | None = None) -> None:
        """Waits until all keys are there."""
        end = time.monotonic() + (timeout or self._timeout).total_seconds()
        while not self.check(keys):
            if time.monotonic() > end:
                raise DistStoreError(f"wait timeout after {timeout or self._timeout}, keys: {', '.join(keys)}")
            time.sleep(0.01)

    def delete_key(self, key: str) -> bool:
        """Forgets a key; whether it was there."""
        return self._change(lambda table: table.pop(key, None) is not None)

    def num_keys(self) -> int:
        """How many keys there are."""
        return self._change(len)

    def list_keys(self) -> list[str]:
        """All keys."""
        return self._change(list)

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """Several values."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: list[str], values: list[Any]) -> None:
        """Leaves several values."""
        for key, value in zip(keys, values):
            self.set(key, value)

    def queue_push(self, key: str, value: Any) -> None:
        """Adds to a queue."""
        self._change(lambda table: table.setdefault("queue/" + key, []).append(_bytes(value)))

    def queue_pop(self, key: str, block: bool = True) -> bytes:
        """Takes the oldest value from a queue."""
        if block:
            self.wait(["queue/" + key])

        def change(table: dict[str, Any]) -> Any:
            queue = table.get("queue/" + key)
            value = queue.pop(0) if queue else None
            if queue is not None and not queue:
                del table["queue/" + key]
            return value

        value = self._change(change)
        if value is None:
            raise QueueEmptyError(f"the queue {key!r} is empty")
        return value

    def queue_len(self, key: str) -> int:
        """How many values a queue holds."""
        return self._change(lambda table: len(table.get("queue/" + key, ())))

    def has_extended_api(self) -> bool:
        """Whether `append`, `multi_get` and `multi_set` work."""
        return True

    def barrier(self, world_size: int = 1) -> None:
        """Waits until all processes are here."""
        if self.add("barrier", 1) % world_size == 0:
            self.set("barrier/done", "1")
        self.wait(["barrier/done"])


class HashStore(Store):
    """A store in the memory of this process.

    >>> import flambeau as torch
    >>> store = torch.distributed.HashStore()
    >>> store.set("a", "b"); store.get("a"), store.add("n", 2)
    (b'b', 2)
    """

    def __init__(self) -> None:
        super().__init__()
        self._table: dict[str, Any] = {}

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> Any:
        return change(self._table)

    def clone(self) -> HashStore:
        """The same store."""
        return self


class FileStore(Store):
    """A store in a file that several processes share."""

    def __init__(self, file_name: str, world_size: int = -1):
        super().__init__()
        self._path = file_name

    @property
    def path(self) -> str:
        return self._path

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> Any:
        with open(self._path, "a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            data = file.read()
            table = pickle.loads(data) if data else {}
            result = change(table)
            new = pickle.dumps(table)
            if new != data:
                file.truncate(0)
                file.write(new)
                file.flush()
                os.fsync(file.fileno())
            return result

    def clone(self) -> FileStore:
        """Another object for the same file."""
        return FileStore(self._path)


class PrefixStore(Store):
    """Another store, with a prefix before every key."""

    def __init__(self, prefix: str, store: Store):
        super().__init__()
        self._prefix, self.underlying_store = prefix, store

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> Any:
        start = self._prefix + "/"

        def inner(table: dict[str, Any]) -> Any:
            part = {key[len(start) :]: value for key, value in table.items() if key.startswith(start)}
            known = set(part)
            result = change(part)
            for gone in known - set(part):
                del table[start + gone]
            table.update({start + key: value for key, value in part.items()})
            return result

        return self.underlying_store._change(inner)

    def clone(self) -> PrefixStore:
        """Another object for the same values."""
        return PrefixStore(self._prefix, self.underlying_store)


class TCPStore(HashStore):
    """For a world of one process: a store in memory. Stores over a network are not implemented."""

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
    ):
        super().__init__()
        if not is_master or (world_size or 1) > 1:
            raise NotImplementedError(
                "TCPStore: only a world of one process is implemented (world_size=1, is_master=True); processes of one "
                "machine can share a FileStore"
            )
        self.host, self.port, self._timeout = host_name, port, timeout
