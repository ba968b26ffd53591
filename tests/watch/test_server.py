"""The server: nothing without the token, no other host, no path out of the folder, controls by POST only; kept runs as files."""

import http.client
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from flambeau._command.main import main
from flambeau.watch.control import Control
from flambeau.watch.export import to_csv
from flambeau.watch.page import page
from flambeau.watch.server import Server
from flambeau.watch.store import NAME, Writer, rows


@pytest.fixture
def server(tmp_path):
    runs = tmp_path / "runs"
    for name, loss in (("a", 1.0), ("b", 2.0)):
        writer = Writer(runs / name)
        writer.write({"run": {"program": f"{name}.py"}}, rows([1, 2], {"loss": [loss, loss / 2], "lr": [None, 0.1]}))
        writer.close()
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / NAME).write_text('{"run": {}}\n')
    made = Server(runs, "a", Control()).start()
    yield made
    made.close(0)


def ask(server, path, method="GET", host=None, token=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, f"/{server.token if token is None else token}{path}", skip_host=True)
    connection.putheader("Host", host or f"127.0.0.1:{server.port}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    found = answer.status, answer.read(), answer.headers
    connection.close()
    return found


def test_it_listens_on_this_machine_only(server):
    assert server.http.server_address[0] == "127.0.0.1" and server.token in server.address and len(server.token) >= 32


@pytest.mark.parametrize("token", ["", "x", "wrong" * 8])
@pytest.mark.parametrize("path", ["/", "/runs", "/data?run=a", "/../runs", "/pause"])
def test_nothing_without_the_token(server, token, path):
    for method in ("GET", "POST"):
        status, body, _ = ask(server, path, method, token=token)
        assert status == 404 and b"loss" not in body and server.token.encode() not in body
    assert not server.control.wanted


@pytest.mark.parametrize("host", ["example.org", "127.0.0.1", "127.0.0.1.example.org:80", ""])
def test_other_hosts_are_refused(server, host):
    assert ask(server, "/", host=host or " ")[0] == 403


def test_other_origins_are_refused(server):
    assert ask(server, "/pause", "POST", Origin="https://example.org")[0] == 403
    assert not server.control.wanted
    assert ask(server, "/pause", "POST", Origin=f"http://127.0.0.1:{server.port}")[0] == 200


@pytest.mark.parametrize(
    "run", ["../secret", "..%2Fsecret", "%2e%2e/secret", "/etc", "", ".", "a/../../secret", "a%00"]
)
def test_names_of_runs_are_no_paths(server, run):
    assert ask(server, f"/data?run={run}")[0] == 404
    assert ask(server, f"/tensorboard?run={run}", "POST")[0] == 404


@pytest.mark.parametrize("path", ["/../pyproject.toml", "/page.py", "/..%2f..%2fsecret", "//etc/passwd"])
def test_there_are_no_files_but_the_page(server, path):
    assert ask(server, path)[0] == 404


def test_controls_are_posted(server):
    for what in ("pause", "resume", "stop", "checkpoint"):
        assert ask(server, f"/{what}")[0] == 405
    assert not server.control.wanted
    assert ask(server, "/pause", "POST")[0] == 200 and server.control.paused
    assert ask(server, "/resume", "POST")[0] == 200 and not server.control.paused
    assert ask(server, "/runs", "POST")[0] == 405
    assert ask(server, "/", "PUT")[0] == 501
    assert ask(server, "/pause", "POST", **{"Content-Length": "999999999"})[0] == 413
    assert ask(server, "/pause", "POST", **{"Content-Length": "-1"})[0] == 413


def test_runs_and_their_data(server):
    status, body, headers = ask(server, "/runs")
    assert status == 200 and {r["name"]: r["live"] for r in json.loads(body)} == {"a": True, "b": False}
    status, body, headers = ask(server, "/data?run=b&from=0")
    assert status == 200 and b'"loss":[2,1]' in body
    position = int(headers["X-Position"])
    assert ask(server, f"/data?run=b&from={position}")[1] == b"" and ask(server, "/data?run=b&from=-5")[0] == 404


def test_the_page_loads_nothing_from_elsewhere(server):
    status, body, headers = ask(server, "/")
    assert status == 200 and headers["Content-Type"].startswith("text/html")
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "connect-src 'self'" in policy and headers["Cache-Control"] == "no-store"
    text = body.decode()
    assert (
        "http://" not in text.replace("http://www.w3.org/2000/svg", "")
        and "https://" not in text
        and "src=" not in text
    )


def test_without_a_program_there_is_nothing_to_control(tmp_path):
    server = Server(tmp_path).start()
    try:
        assert ask(server, "/pause", "POST")[0] == 409
    finally:
        server.close(0)


def test_a_page_of_its_own_cannot_be_broken_by_what_was_recorded(tmp_path):
    writer = Writer(tmp_path / "evil")
    writer.write({"run": {"program": "</script><script>alert(1)</script>"}})
    writer.close()
    text = page(runs=[tmp_path / "evil"], title="</title><b>")
    assert "</script><script>alert" not in text and "</title><b>" not in text


def test_csv(server):
    out = io.StringIO()
    to_csv(server.runs / "a" / NAME, out)
    assert out.getvalue() == "step,loss,lr\n1,1,\n2,0.5,0.1\n"


def test_event_files(server, tmp_path):
    pytest.importorskip("tensorboard", reason="event files need the tensorboard package")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer = Writer(server.runs / "a")
    writer.write({"h": 2, "n": "weights/head", "r": [0, 2], "c": [3, 1]})
    writer.close()
    status, body, _ = ask(server, "/tensorboard?run=a", "POST")
    assert status == 200
    events = EventAccumulator(json.loads(body)["path"])
    events.Reload()
    assert [(e.step, e.value) for e in events.Scalars("loss")] == [(1, 1.0), (2, 0.5)]
    assert events.Histograms("weights/head")[0].histogram_value.num == 4


def command(folder, *options):
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, "-m", "flambeau", *map(str, options)]
    return subprocess.run(line, capture_output=True, text=True, cwd=folder, timeout=120, env=environment)


PROGRAM = """import sys, torch
from torch import nn
torch.manual_seed(0)
net = nn.Linear(2, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(5):
    opt.zero_grad(); loss = net(torch.ones(3, 2)).pow(2).mean(); loss.backward(); opt.step()
    print(f"mine: {i}")
print(sys.argv[1:], net.weight.tolist())
"""


@pytest.mark.slow
def test_the_command(tmp_path, monkeypatch, capsys):
    (tmp_path / "train.py").write_text(PROGRAM)
    live = command(tmp_path, "run", "--watch", "train.py", "--x")
    assert live.returncode == 0 and live.stdout.startswith("mine: 0\n") and "['--x']" in live.stdout, live.stderr
    assert "flambeau watch: http://127.0.0.1:" in live.stderr and "kept in runs/train-" in live.stderr
    (run,) = (tmp_path / "runs").iterdir()
    done = command(tmp_path, "run", "--doctor", "--compile", "--watch=page.html", "train.py", "--x")
    assert done.returncode == 0 and done.stdout == live.stdout and "nothing found" in done.stderr
    assert "steps are not compiled" in done.stderr
    text = (tmp_path / "page.html").read_text()
    assert '"metric/mine"' in text and len(list((tmp_path / "runs").iterdir())) == 1
    monkeypatch.chdir(tmp_path)
    assert main(["watch", "--csv", "run.csv", "--html", "all.html"]) == 0
    assert (tmp_path / "run.csv").read_text().startswith("step,") and run.name in (tmp_path / "all.html").read_text()
    assert main(["watch", "nowhere"]) == 2 and "there are no runs" in capsys.readouterr().err


def test_nothing_of_it_is_loaded_without_being_asked_for(tmp_path):
    (tmp_path / "p.py").write_text(
        "import sys, torch\nprint([m for m in sys.modules if 'flambeau.watch' in m or '_observe' in m])\n"
    )
    assert command(tmp_path, "run", "p.py").stdout == "[]\n"
