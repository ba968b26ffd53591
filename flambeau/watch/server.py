"""The server of the page: bound to this machine, and silent to whoever does not know the token in its address."""

from __future__ import annotations

import hmac
import json
import secrets
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .control import Control
from .export import to_tensorboard
from .page import page
from .store import NAME, lines, runs_in

_MOST = 4 << 20  # bytes of one answer
_CONTROLS = ("pause", "resume", "stop", "checkpoint")


class Server:
    """Serves the runs of a folder; with a control, one of them is live."""

    def __init__(self, runs: Path, live: str | None = None, control: Control | None = None, port: int = 0) -> None:
        self.runs, self.live, self.control = runs, live, control
        self.token = secrets.token_urlsafe(24)
        self.page = page(live=live)
        self.asked = 0.0  # when the page last asked for data
        self.behind = True  # whether it has not got all of them
        server = self

        class Handler(_Handler):
            owner = server

        self.http = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.http.daemon_threads = True
        self.port = self.http.server_address[1]
        self.address = f"http://127.0.0.1:{self.port}/{self.token}/"
        self.thread = threading.Thread(
            target=self.http.serve_forever, args=(0.1,), name="flambeau watch server", daemon=True
        )

    def start(self) -> Server:
        self.thread.start()
        return self

    def close(self, patience: float = 3.0) -> None:
        """Ends the server; a page that is open gets the last lines before."""
        end = time.monotonic() + patience
        while time.monotonic() < end and self.behind and time.monotonic() - self.asked < 3:
            time.sleep(0.05)
        self.http.shutdown()
        self.http.server_close()

    def run(self, name: str) -> Path | None:
        """The file of a run. Names come from others: they are compared with those that are there, and never made into paths."""
        return next((path / NAME for path in runs_in(self.runs) if path.name == name), None)


class _Handler(BaseHTTPRequestHandler):
    owner: Server
    server_version = "flambeau"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 30

    def do_GET(self) -> None:
        self._answer(
            {"": self._page, "runs": self._runs, "data": self._data}, ("pause", "resume", "stop", "checkpoint", "tensorboard")
        )  # fmt: skip

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > 1 << 16:
            self.close_connection = True
            return self._send(413, b"too much")
        self.rfile.read(int(length))
        routes: dict[str, Any] = {name: self._control for name in _CONTROLS}
        self._answer({**routes, "tensorboard": self._tensorboard}, ("", "runs", "data"))

    def _answer(self, routes: dict[str, Any], others: tuple[str, ...]) -> None:
        """Finds the route of a request, after its host and its token were checked."""
        if self.headers.get("Host", "") not in (f"127.0.0.1:{self.owner.port}", f"localhost:{self.owner.port}"):
            return self._send(403, b"this address is for 127.0.0.1 only")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in (
            f"http://127.0.0.1:{self.owner.port}",
            f"http://localhost:{self.owner.port}",
        ):
            return self._send(403, b"not from there")
        asked = urlsplit(self.path)
        token, slash, route = asked.path.lstrip("/").partition("/")
        if not hmac.compare_digest(token.encode(), self.owner.token.encode()) or not slash:
            return self._send(404, b"not found: the address has a token, which flambeau printed")
        if route in others:
            return self._send(405, b"the other method")
        if route not in routes:
            return self._send(404, b"not found")
        self.query = {name: values[-1] for name, values in parse_qs(asked.query).items()}
        self.route = route
        try:
            routes[route]()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _page(self) -> None:
        self._send(200, self.owner.page.encode(), "text/html; charset=utf-8")

    def _runs(self) -> None:
        found = [{"name": path.name, "live": path.name == self.owner.live} for path in runs_in(self.owner.runs)[:200]]
        self._send(200, json.dumps(found).encode(), "application/json")

    def _data(self) -> None:
        path = self.owner.run(self.query.get("run", ""))
        start = self.query.get("from", "0")
        if path is None or not start.isdigit():
            return self._send(404, b"no such run")
        data, position = lines(path, int(start), _MOST)
        if path.parent.name == self.owner.live:
            self.owner.asked = time.monotonic()
            self.owner.behind = bool(data)
        self._send(200, data, "application/x-ndjson", {"X-Position": str(position)})

    def _control(self) -> None:
        if self.owner.control is None:
            return self._send(409, b"no program runs here")
        self.owner.control.ask(self.route)
        self._send(200, b"{}", "application/json")

    def _tensorboard(self) -> None:
        path = self.owner.run(self.query.get("run", ""))
        if path is None:
            return self._send(404, b"no such run")
        try:
            answer = {"path": str(to_tensorboard(path, path.parent / "tensorboard"))}
        except (ImportError, OSError) as error:
            answer = {"error": str(error)}
        self._send(200, json.dumps(answer).encode(), "application/json")

    def _send(
        self, status: int, body: bytes, kind: str = "text/plain; charset=utf-8", more: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        own = {
            "Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
            "Content-Security-Policy": "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
            "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            **(more or {}),
        }  # fmt: skip
        for name, value in own.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed into the program's output."""
