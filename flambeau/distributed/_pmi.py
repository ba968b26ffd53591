"""The server that MPI's processes ask who they are (the text protocol PMI-1) and from which they hear who is gone.

Rank 0 runs it in a thread. MPI asks for sizes and names, leaves its addresses (`put`, `get`) and meets the others
(`barrier_in`). Besides, every process keeps a connection of its own open (`watch`): the system closes it when the
process ends, however it ends, and the server tells all the others. What comes in is text and stays text.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import threading

LONGEST = 1 << 16  # bytes of one line: a stranger must not make us keep more


def words(line: str) -> dict[str, str]:
    """The fields of a line such as `cmd=put kvsname=k key=a value=b c`; a value runs to the next field."""
    found: dict[str, str] = {}
    last = None
    for part in line.split(" "):
        name, equals, value = part.partition("=")
        if equals and name.isidentifier() and last != "value":
            found[last := name] = value
        elif last is not None:
            found[last] += " " + part
    return found


def mapping(hosts: list[int]) -> str:
    """Which rank is on which host, in PMI's words: (first host, number of hosts, ranks on each) for every run of ranks.

    >>> mapping([0, 0, 1, 1, 0])
    '(vector,(0,1,2),(1,1,2),(0,1,1))'
    """
    runs: list[list[int]] = []
    for host in hosts:
        if runs and runs[-1][0] == host:
            runs[-1][1] += 1
        else:
            runs.append([host, 1])
    return "(vector," + ",".join(f"({host},1,{count})" for host, count in runs) + ")"


def keep_alive(connection: socket.socket) -> None:
    """Lets the system find out within twenty seconds that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 5), ("TCP_KEEPCNT", 3), ("TCP_NODELAY", 1)):
        if hasattr(socket, name):
            connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def part(descriptor: int) -> None:
    """Puts a friendly end in the place of MPI's connection: MPI says goodbye to its server when the process exits, which
    may be gone by then, and waits for the answer."""
    ours, its = socket.socketpair()
    ours.sendall(b"cmd=finalize_ack rc=0\n")
    os.dup2(its.fileno(), descriptor)
    its.close()
    ours.detach()  # open until the process ends


class _Client:
    """A connection: one of MPI's own, or that of a process that watches."""

    def __init__(self, connection: socket.socket):
        self.connection = connection
        self.rest = b""
        self.watching: int | None = None  # the rank that watches through it

    def say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # it is gone: its end is read next
            self.connection.sendall(line.encode() + b"\n")


class Server:
    """Serves a world of `size` processes until `close`."""

    def __init__(self, size: int, address: str = ""):
        self.size, self.values = size, dict[str, str]()
        self.key = os.urandom(8).hex()  # tells worlds apart: MPI names its shared memory after it
        self.gone: dict[int, str] = {}  # ranks, and how they went
        self._listening = socket.create_server((address, 0), backlog=max(size, 128))
        self.port: int = self._listening.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._clients: dict[socket.socket, _Client] = {}
        self._waiting: list[_Client] = []
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._serve, name="flambeau-pmi", daemon=True)

    def start(self, hosts: list[int]) -> None:
        """Begins to answer, once it is known which rank is on which host."""
        self.values["PMI_process_mapping"] = mapping(hosts)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread and all connections."""
        self._wake.close()
        self._thread.join(1.0)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    for connection in (*self._clients, self._listening, self._woken):
                        connection.close()
                    return
                if key.fileobj is self._listening:
                    with contextlib.suppress(OSError):
                        self._welcome(self._listening.accept()[0])
                else:
                    self._read(self._clients[key.fileobj])  # type: ignore[index]

    def _welcome(self, connection: socket.socket) -> None:
        keep_alive(connection)
        self._clients[connection] = _Client(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _read(self, client: _Client) -> None:
        try:
            data = client.connection.recv(LONGEST)
        except OSError:
            data = b""
        *lines, client.rest = (client.rest + data).split(b"\n")
        try:
            for line in lines:
                self._answer(client, words(line.decode()))
            if data and len(client.rest) < LONGEST:
                return
        except (KeyError, ValueError):
            pass  # it does not speak this language
        self._selector.unregister(client.connection)
        client.connection.close()
        del self._clients[client.connection]
        if client.watching is not None and client.watching not in self.gone:
            self._lose(client.watching, "died")

    def _lose(self, rank: int, how: str) -> None:
        self.gone[rank] = how
        self._tell(f"cmd=gone rank={rank} how={how}")

    def _tell(self, line: str) -> None:
        for client in list(self._clients.values()):
            if client.watching is not None:
                client.say(line)

    def _answer(self, client: _Client, said: dict[str, str]) -> None:
        command = said["cmd"]
        if command == "init":
            client.say("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
        elif command == "get_maxes":
            client.say("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024")
        elif command == "get_appnum":
            client.say("cmd=appnum appnum=0")
        elif command == "get_universe_size":
            client.say(f"cmd=universe_size size={self.size}")
        elif command == "get_my_kvsname":
            client.say(f"cmd=my_kvsname kvsname=flambeau_{self.key}")
        elif command == "put":
            self.values[said["key"]] = said["value"]
            client.say("cmd=put_result rc=0 msg=success")
        elif command == "get":
            value = self.values.get(said["key"])
            client.say(f"cmd=get_result rc=0 msg=success value={value}" if value is not None
                       else "cmd=get_result rc=-1 msg=key_not_found value=unknown")  # fmt: skip
        elif command == "barrier_in":
            self._waiting.append(client)
            if len(self._waiting) == self.size:
                for waiting in self._waiting:
                    waiting.say("cmd=barrier_out rc=0")
                self._waiting.clear()
        elif command == "finalize":
            client.say("cmd=finalize_ack rc=0")
        elif command == "watch":
            client.watching = int(said["rank"])
            for rank, how in self.gone.items():
                client.say(f"cmd=gone rank={rank} how={how}")
        elif command == "leave":
            self._lose(int(said["rank"]), said["how"])
        elif command in ("where", "here"):  # a process asks all others what they do; they answer
            self._tell(" ".join(f"{name}={value}" for name, value in said.items()))
        else:
            raise ValueError(command)
