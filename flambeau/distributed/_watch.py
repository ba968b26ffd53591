"""A process's own connection to the server of its world, by which it hears who is gone and says what it does."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable

from ._pmi import keep_alive, words

_watches: list[Watch] = []  # that of this process's world, once there is one


def lost() -> str:
    """Who of the world has died, for the end of an error: it may be why something did not come."""
    dead = [rank for watch in _watches for rank, (how, _) in list(watch.gone.items()) if how == "died"]
    return "".join(f"; rank {rank} died" for rank in dead)


class Watch:
    """Listens in a thread. `gone` has the ranks that ended, how, and when this was heard."""

    def __init__(self, host: str, port: int, rank: int, size: int, doing: Callable[[], str]):
        self.rank, self.size, self.gone = rank, size, dict[int, tuple[str, float]]()
        self._doing, self._answers, self._all_left = doing, dict[int, str](), threading.Event()
        self._connection = socket.create_connection((host, port), 30)
        self._connection.settimeout(None)
        keep_alive(self._connection)
        self._say(f"cmd=watch rank={rank}")
        _watches[:] = [self]
        threading.Thread(target=self._listen, name="flambeau-watch", daemon=True).start()

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._connection.sendall(line.encode() + b"\n")

    def _listen(self) -> None:
        rest = b""
        while True:
            try:
                data = self._connection.recv(1 << 16)
            except OSError:
                data = b""
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._hear(words(line.decode()))
        self._lose(0, "died")  # the server's process

    def _hear(self, said: dict[str, str]) -> None:
        if said["cmd"] == "gone":
            self._lose(int(said["rank"]), said["how"])
        elif said["cmd"] == "where":
            self._say(f"cmd=here rank={self.rank} asker={said['asker']} value={self._doing()}")
        elif said["cmd"] == "here" and int(said["asker"]) == self.rank:
            self._answers[int(said["rank"])] = said["value"]

    def _lose(self, rank: int, how: str) -> None:
        if how == "apart" or rank not in self.gone:
            self.gone[rank] = how, time.monotonic()
        if how != "left" or len(self.gone) == self.size:
            self._all_left.set()  # or will never

    def ask(self, seconds: float = 1.0) -> dict[int, str]:
        """What the other processes are doing; those that do not answer in time are not in it."""
        self._answers = {}
        self._say(f"cmd=where asker={self.rank}")
        end = time.monotonic() + seconds
        while time.monotonic() < end and len(self._answers) + len(self.gone) < self.size:
            time.sleep(0.01)
        return dict(self._answers)

    def leave(self, seconds: float) -> bool:
        """Says that this process ends; whether all others do so within some seconds, and MPI can end in all of them.

        Without time to wait, or if it was not enough, this process leaves apart from the others, and they hear of it.
        """
        if seconds:
            self._say(f"cmd=leave rank={self.rank} how=left")
            self._all_left.wait(seconds)
            if len(self.gone) == self.size and all(how == "left" for how, _ in self.gone.values()):
                return True
        self._say(f"cmd=leave rank={self.rank} how=apart")
        return False
