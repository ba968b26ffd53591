"""Chromium without a window, driven over the WebDriver protocol by a few lines: needs `chromium` and `chromedriver`, no library."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.request

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = None if CHROMIUM and DRIVER else "needs Chromium and chromedriver (apt install chromium chromium-driver)"
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
)  # fmt: skip


class Browser:
    """One session: `open`, `run` (JavaScript), `wait`, `key`, `size`, `media`, `shot`."""

    def __init__(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.process = subprocess.Popen(
            [DRIVER, f"--port={port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.base = f"http://127.0.0.1:{port}"
        options = {"binary": CHROMIUM, "args": list(FLAGS)}
        logging = {"browser": "ALL"}
        wanted = {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options, "goog:loggingPrefs": logging}}}
        for _ in range(100):
            try:
                made = self._ask("POST", "/session", wanted)
                break
            except OSError:
                time.sleep(0.2)
        self.base += f"/session/{made['sessionId']}"

    def _ask(self, method, path, body=None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(json.load(error)["value"]["message"]) from None

    def open(self, address):
        self._ask("POST", "/url", {"url": address})

    def run(self, script, *arguments):
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, condition, seconds=30.0):
        """Until a JavaScript expression is true; gives its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = self.run(f"return {condition}")
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{condition}: not within {seconds} s")

    def key(self, key):
        down = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._ask("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": down}]})

    def devtools(self, command, **parameters):
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def size(self, width, height, scale=1):
        self.devtools(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def media(self, scheme):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def problems(self):
        """What the page's console complains about, but for a server that has ended."""
        found = [e["message"] for e in self._ask("POST", "/se/log", {"type": "browser"}) if e["level"] == "SEVERE"]
        return [text for text in found if "ERR_CONNECTION" not in text]

    def shot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self._ask("GET", "/screenshot")))

    def close(self):
        try:
            self._ask("DELETE", "")
        finally:
            self.process.terminate()
            self.process.wait(10)
