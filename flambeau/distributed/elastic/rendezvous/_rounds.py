"""Where launchers of several machines meet: rounds in a store. Each round has members; a failure or a newcomer ends it and
the next one begins. The first member of a round closes it, when enough are there."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import Any

from ..._stores import Store
from .api import RendezvousClosedError, RendezvousTimeoutError

_LAST_CALL = 3.0  # seconds that the first member waits for more than the least number
_BEAT, _SILENT = 2.0, 30.0  # seconds between signs of life, and after how many without one a machine is gone


@dataclass
class Round:
    """What a launcher knows when a round is closed: its own number, and how many processes every machine runs."""

    number: int
    node: int
    sizes: list[int]
    restarts: int


class Meeting:
    """A machine's view of the meeting."""

    def __init__(self, store: Store, least: int, most: int, processes: int, node: int | None, timeout: float):
        self.store, self.least, self.most, self.processes = store, least, most, processes
        self._node, self._timeout = node, timeout  # a fixed number of this machine, if it has one
        self.round: Round | None = None
        self._next_beat = 0.0
        self._heard: dict[int, tuple[int, float]] = {}

    def _key(self, number: int, name: str) -> str:
        return f"round/{number}/{name}"

    def join(self) -> Round:
        """Takes part in the present round, or the next if that is closed; returns when it is closed."""
        store = self.store
        end = time.monotonic() + self._timeout
        while True:
            if self.closed():
                raise RendezvousClosedError(f"the job is over: {store.get('failed').decode()}")
            number = store.add("rounds", 0)
            if store.check([self._key(number, "sizes")]):  # it runs: ask its members to begin a new one
                store.add(self._key(number, "newcomers"), 1)
                while store.add("rounds", 0) == number:
                    if time.monotonic() > end:
                        raise RendezvousTimeoutError(
                            f"the job did not take this machine in within {self._timeout:g} seconds"
                        )
                    time.sleep(0.1)
                continue
            place = store.add(self._key(number, "members"), 1) - 1
            node = place if self._node is None else self._node
            if place >= self.most:
                raise RendezvousClosedError(f"the job has {self.most} machines already")
            store.set(self._key(number, f"node/{node}"), str(self.processes))
            if place == 0:
                self._close(number, end)
            sizes = json.loads(self._wait(number, end))
            self._heard, self._next_beat = {}, 0.0
            self.round = Round(number, node, sizes, store.add("restarts", 0))
            return self.round

    def _close(self, number: int, end: float) -> None:
        """The first member waits for the others and says who takes part."""
        key, last = self._key(number, "members"), None
        while (here := self.store.add(key, 0)) < self.most:
            now = time.monotonic()
            if here >= self.least:
                last = last or now + _LAST_CALL
                if now > last:
                    break
            elif now > end:
                raise RendezvousTimeoutError(
                    f"Timed out after {self._timeout:g} seconds waiting for machines. {here}/{self.least} joined"
                )
            time.sleep(0.05)
        here = min(self.store.add(key, self.most) - self.most, self.most)  # from now on nobody can join
        sizes = [int(self.store.get(self._key(number, f"node/{node}"))) for node in range(here)]
        self.store.set(self._key(number, "sizes"), json.dumps(sizes))

    def _wait(self, number: int, end: float) -> bytes:
        key = self._key(number, "sizes")
        while not self.store.check([key]):
            if time.monotonic() > end:
                raise RendezvousTimeoutError(f"the other machines did not come within {self._timeout:g} seconds")
            time.sleep(0.05)
        return self.store.get(key)

    def waiting(self) -> int:
        """How many machines came too late for the present round."""
        return self.store.add(self._key(self.store.add("rounds", 0), "newcomers"), 0)

    def closed(self) -> bool:
        """Whether the job has failed or was ended."""
        return self.store.check(["failed"])

    # -- while it runs --

    def fail(self) -> None:
        """Tells the others that a process failed here: the round ends, and counts as a restart."""
        self._end("restarts")

    def renew(self) -> None:
        """Ends the round for a newcomer."""
        self._end("renewals")

    def _end(self, counter: str) -> None:
        assert self.round is not None
        number = self.round.number
        if self.store.add(self._key(number, "ended"), 1) == 1:  # the first who says so
            self.store.add(counter, 1)
            self.store.add("rounds", 1)

    def give_up(self, why: str) -> None:
        """Tells the others that the job has failed."""
        self.store.set("failed", why)

    def news(self) -> str:
        """What happened elsewhere: "failed" (the job), "ended" (the round), or ""."""
        assert self.round is not None
        if self.store.check(["failed"]):
            return "failed"
        if self.store.add("rounds", 0) != self.round.number:
            return "ended"
        if len(self.round.sizes) > 1:
            self._watch()
        newcomers = self._key(self.round.number, "newcomers")
        if self.round.node == 0 and self.store.check([newcomers]) and self.store.add(newcomers, 0):
            self.renew()
            return "ended"
        return ""

    def _watch(self) -> None:
        """Gives a sign of life, and looks for those of the others."""
        assert self.round is not None
        now = time.monotonic()
        if now < self._next_beat:
            return
        self._next_beat = now + _BEAT
        number = self.round.number
        self.store.add(self._key(number, f"beat/{self.round.node}"), 1)
        for node in range(len(self.round.sizes)):
            count = self.store.add(self._key(number, f"beat/{node}"), 0)
            before, when = self._heard.get(node, (-1, now))
            if count != before:
                self._heard[node] = count, now
            elif now - when > _SILENT and count >= 0 and not self.store.check([self._key(number, f"done/{node}")]):
                self.fail()
                return

    def finish(self) -> None:
        """Says that all processes here have ended well, and waits until those of the others have; they may need the store."""
        assert self.round is not None
        number = self.round.number
        self.store.set(self._key(number, f"done/{self.round.node}"), "yes")

    def finished(self) -> bool:
        """Whether all machines are done."""
        assert self.round is not None
        keys = [self._key(self.round.number, f"done/{node}") for node in range(len(self.round.sizes))]
        return self.store.check(keys)


def endpoint(text: str, default: int) -> tuple[str, int]:
    """Host and port of "host:port" or "host"."""
    host, colon, port = text.strip().rpartition(":") if ":" in text else (text.strip(), "", "")
    try:
        return host or "localhost", int(port) if colon and port else default
    except ValueError:
        raise ValueError(f"the endpoint {text!r} is not of the form host:port") from None


def settings(text: str) -> dict[str, Any]:
    """The options "a=1,b=2" as a dict."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair]
    for name, equals, _ in pairs:
        if not equals:
            raise ValueError(f"the option {name!r} is not of the form name=value")
    return {name.strip(): value.strip() for name, _, value in pairs}
