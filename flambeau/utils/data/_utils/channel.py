"""The line between a loader and one of its workers: a socket for short messages and for descriptors of memory."""

from __future__ import annotations

import collections
import os
import select
import socket
import struct
import weakref
from typing import Any

import numpy as np

from ...._backend.segments import Segment, new_file

_HEADER = struct.Struct("<QII")  # bytes of the message, descriptors with it, whether it is in a file of its own
_LONG = 1 << 15  # messages above this go through shared memory, so that the socket's buffer never fills up
_CHUNK = 1 << 16
_MOST_DESCRIPTORS = 64
_ANCILLARY = socket.CMSG_SPACE(4 * _MOST_DESCRIPTORS)
_NOW = socket.MSG_DONTWAIT
_loader_ends: weakref.WeakSet[Any] = weakref.WeakSet()


class Channel:
    """Messages (bytes, with descriptors) over one end of a socket pair."""

    def __init__(self, sock: socket.socket):
        self.socket = sock
        self._received = bytearray()
        self._descriptors: list[int] = []
        self._ended = False
        self._outbox: collections.deque[tuple[bytes, list[int]]] = collections.deque()

    def fileno(self) -> int:
        return self.socket.fileno()

    def close(self) -> None:
        self.socket.close()
        for _, descriptors in self._outbox:
            _close(descriptors)
        self._outbox.clear()
        _close(self._descriptors)
        self._descriptors = []

    # -- sending -------------------------------------------------------------------------------------------------

    @staticmethod
    def _frame(message: bytes, descriptors: list[int]) -> tuple[bytes, list[int]]:
        if len(message) <= _LONG:
            return _HEADER.pack(len(message), len(descriptors), 0) + message, descriptors
        file = new_file(len(message))
        np.asarray(Segment(file, len(message)))[...] = np.frombuffer(message, np.uint8)
        return _HEADER.pack(len(message), len(descriptors), 1), [file, *descriptors]

    def send(self, message: bytes, descriptors: list[int]) -> None:
        """Sends a message, waiting until the other side has room for it; the descriptors are closed here."""
        data, descriptors = self._frame(message, descriptors)
        try:
            sent = self._put(data, descriptors, 0)
            while sent < len(data):
                sent += self._put(data[sent:], [], 0)
        finally:
            _close(descriptors)

    def post(self, message: bytes) -> None:
        """Sends a message as soon as the other side has room for it, without waiting: see `flush`."""
        self._outbox.append(self._frame(message, []))
        self.flush()

    def flush(self) -> bool:
        """Sends what was posted, as far as there is room; whether all of it went."""
        while self._outbox:
            data, descriptors = self._outbox[0]
            try:
                sent = self._put(data, descriptors, _NOW)
            except BlockingIOError:
                return False
            except OSError:  # the other side is gone, which reading will tell
                return True
            _close(descriptors)
            if sent < len(data):
                self._outbox[0] = data[sent:], []
            else:
                self._outbox.popleft()
        return True

    def _put(self, data: bytes, descriptors: list[int], flags: int) -> int:
        if not descriptors:
            return self.socket.send(data, flags)
        rights = struct.pack(f"{len(descriptors)}i", *descriptors)
        return self.socket.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], flags)

    # -- receiving -----------------------------------------------------------------------------------------------

    @property
    def ended(self) -> bool:
        """Whether the other side is gone and everything that it sent was read."""
        return self._ended

    def read(self) -> bool:
        """Takes in what has arrived, without waiting; whether there was anything (or the end)."""
        try:
            data, extra, _, _ = self.socket.recvmsg(_CHUNK, _ANCILLARY, _NOW)
        except BlockingIOError:
            return False
        except OSError:
            data, extra = b"", []
        for level, kind, rights in extra:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                count = len(rights) // 4
                self._descriptors += struct.unpack(f"{count}i", rights[: 4 * count])
        if not data:
            self._ended = True
        self._received += data
        return True

    def messages(self) -> list[tuple[bytes, list[int]]]:
        """The messages that have arrived whole."""
        received, found, at = self._received, [], 0
        while len(received) - at >= _HEADER.size:
            length, count, in_file = _HEADER.unpack_from(received, at)
            start = at + _HEADER.size
            if len(received) - start < (0 if in_file else length):
                break
            if in_file:
                file = self._descriptors.pop(0)
                message, at = np.asarray(Segment(file, length)).tobytes(), start
                os.close(file)
            else:
                message, at = bytes(received[start : start + length]), start + length
            found.append((message, self._descriptors[:count]))
            del self._descriptors[:count]
        del received[:at]
        return found

    def wait(self, seconds: float | None = None) -> bool:
        """Waits until something arrives; False if nothing did within so many seconds."""
        waiting = select.poll()
        waiting.register(self.socket, select.POLLIN)
        return bool(waiting.poll(None if seconds is None else seconds * 1000))


def pair() -> tuple[Channel, socket.socket]:
    """(the loader's end, the socket for the worker)"""
    ours, theirs = socket.socketpair()
    _loader_ends.add(ours)
    return Channel(ours), theirs


def _close(descriptors: list[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _close_in_child() -> None:
    """A worker learns that its loader is gone when the other end closes: no other process may hold it open."""
    for sock in list(_loader_ends):
        sock.close()


os.register_at_fork(after_in_child=_close_in_child)
