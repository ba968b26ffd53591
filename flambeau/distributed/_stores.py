"""Stores: small values that threads leave for each other (`_file_store.py`: processes, `_tcp_store.py`: over a network)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from ._kinds import DistStoreError, QueueEmptyError
from ._watch import lost

__all__ = ["HashStore", "PrefixStore", "Store"]


def _bytes(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"set(): incompatible function arguments. A store keeps str or bytes, got {type(value).__name__}"
        )
    return bytes(value)


def milliseconds(time: timedelta) -> str:
    """A time as errors name it."""
    return f"{time.total_seconds() * 1000:g}ms"


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
        return self._value(key)

    def _value(self, key: str) -> bytes:
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
                limit = milliseconds(timeout or self._timeout)
                raise DistStoreError(f"wait timeout after {limit}, keys: {', '.join(keys)}{lost()}")
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
        end = time.monotonic() + self._timeout.total_seconds()
        while (value := self._pop(key)) is None:
            if not block:
                raise QueueEmptyError(f"queue is empty: {key!r}")
            if time.monotonic() > end:
                raise DistStoreError(f"nothing came into the queue {key!r} within {self._timeout}")
            time.sleep(0.01)
        return value

    def _pop(self, key: str) -> bytes | None:
        def change(table: dict[str, Any]) -> Any:
            queue = table.get("queue/" + key)
            value = queue.pop(0) if queue else None
            if queue is not None and not queue:
                del table["queue/" + key]
            return value

        return self._change(change)

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
        self._lock = threading.Lock()

    def _change(self, change: Callable[[dict[str, Any]], Any]) -> Any:
        with self._lock:
            return change(self._table)

    def clone(self) -> HashStore:
        """The same store."""
        return self


class PrefixStore(Store):
    """Another store, with a prefix before every key."""

    def __init__(self, prefix: str, store: Store):
        super().__init__()
        self._prefix, self.underlying_store, self._timeout = prefix + "/", store, store.timeout

    def set(self, key: str, value: Any) -> None:
        """Leaves a value."""
        self.underlying_store.set(self._prefix + key, value)

    def _value(self, key: str) -> bytes:
        return self.underlying_store._value(self._prefix + key)

    def add(self, key: str, amount: int) -> int:
        """Adds to a counter; gives its value."""
        return self.underlying_store.add(self._prefix + key, amount)

    def append(self, key: str, value: Any) -> None:
        """Adds to the end of a value."""
        self.underlying_store.append(self._prefix + key, value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Leaves a value if the present one is as expected (or, expecting "", if there is none); gives what is there."""
        return self.underlying_store.compare_set(self._prefix + key, expected_value, desired_value)

    def check(self, keys: list[str]) -> bool:
        """Whether all keys are there."""
        return self.underlying_store.check([self._prefix + key for key in keys])

    def delete_key(self, key: str) -> bool:
        """Forgets a key; whether it was there."""
        return self.underlying_store.delete_key(self._prefix + key)

    def num_keys(self) -> int:
        """How many keys the other store has."""
        return self.underlying_store.num_keys()

    def list_keys(self) -> list[str]:
        """All keys with the prefix, without it."""
        keys = self.underlying_store.list_keys()
        return [key[len(self._prefix) :] for key in keys if key.startswith(self._prefix)]

    def queue_push(self, key: str, value: Any) -> None:
        """Adds to a queue."""
        self.underlying_store.queue_push(self._prefix + key, value)

    def _pop(self, key: str) -> bytes | None:
        return self.underlying_store._pop(self._prefix + key)

    def queue_len(self, key: str) -> int:
        """How many values a queue holds."""
        return self.underlying_store.queue_len(self._prefix + key)

    def clone(self) -> PrefixStore:
        """Another object for the same values."""
        return PrefixStore(self._prefix[:-1], self.underlying_store)
