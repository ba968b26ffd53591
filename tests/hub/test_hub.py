"""Models from local repositories and from addresses (files, so that no network is needed)."""

import hashlib
import zipfile
from types import SimpleNamespace

import pytest

import flambeau as torch
from flambeau import hub

CONFIGURATION = '''
import flambeau as torch
from helper import SIZE
dependencies = ["numpy"]
def small(n=SIZE):
    """A small model."""
    return torch.nn.Linear(n, n)
def _hidden(): pass
'''


@pytest.fixture
def repository(tmp_path):
    (tmp_path / "hubconf.py").write_text(CONFIGURATION)
    (tmp_path / "helper.py").write_text("SIZE = 2\n")
    return str(tmp_path)


def test_local(repository):
    assert hub.load(repository, "small", source="local").in_features == 2
    assert hub.load(repository, "small", 5, source="local").in_features == 5
    assert hub.list(repository, source="local") == ["small"]
    assert hub.help(repository, "small", source="local") == "A small model."
    with pytest.raises(RuntimeError, match="Cannot find callable nothing"):
        hub.load(repository, "nothing", source="local")
    with pytest.raises(ValueError, match="Unknown source"):
        hub.load(repository, "small", source="elsewhere")


def test_missing_dependencies(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\ndef f(): pass\n")
    with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
        hub.load(str(tmp_path), "f", source="local")
    with pytest.raises(FileNotFoundError):
        hub.load(str(tmp_path / "nowhere"), "f", source="local")


def test_github_without_network(tmp_path, monkeypatch):
    from urllib.error import URLError

    def unreachable(*args, **kwargs):
        raise URLError("no route")

    monkeypatch.setattr(hub, "urlopen", unreachable)
    monkeypatch.setattr(hub, "_chosen", {"dir": str(tmp_path)})
    with pytest.raises(RuntimeError, match="no internet connection"):
        hub.load("owner/name", "model", verbose=False, trust_repo=True)
    with pytest.raises(ValueError, match="owner/name"):
        hub.load("name", "model")
    kept = tmp_path / "owner_name_main"
    kept.mkdir()
    (kept / "hubconf.py").write_text("def model(): return 3\n")
    assert hub.load("owner/name", "model", verbose=False) == 3


def test_state_dicts(tmp_path):
    source = tmp_path / "weights.pth"
    torch.save({"a": torch.ones(2)}, source)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:8]
    name = f"weights-{digest}.pth"
    found = hub.load_state_dict_from_url(
        source.as_uri(), str(tmp_path / "kept"), progress=False, check_hash=True, file_name=name
    )
    assert found["a"].tolist() == [1, 1] and (tmp_path / "kept" / name).exists()
    source.unlink()
    assert hub.load_state_dict_from_url(source.as_uri(), str(tmp_path / "kept"), file_name=name)["a"].tolist() == [1, 1]


def test_a_wrong_hash_leaves_nothing(tmp_path):
    source = tmp_path / "a.bin"
    source.write_bytes(b"abc")
    with pytest.raises(RuntimeError, match="invalid hash value"):
        hub.download_url_to_file(source.as_uri(), str(tmp_path / "b.bin"), "0000", progress=False)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin"]


def test_places(monkeypatch):
    monkeypatch.setattr(hub, "_chosen", {})
    monkeypatch.setenv("TORCH_HOME", "/somewhere")
    assert hub.get_dir() == "/somewhere/hub"


# -- trust -------------------------------------------------------------------------------------------------------


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A repository that can be downloaded, and the answers to questions about it."""
    hub.set_dir(tmp_path / "hub")
    asked, fetched = [], []

    def download(url, target, *args, **named):
        fetched.append(url)
        with zipfile.ZipFile(target, "w") as packed:
            packed.writestr("own-repo-abc/", "")
            packed.writestr("own-repo-abc/hubconf.py", "def net():\n    return 7\n")

    def answering(answer):
        def ask(question):
            asked.append(question)
            if answer is None:
                raise EOFError
            return answer

        monkeypatch.setattr("builtins.input", ask)

    monkeypatch.setattr(hub, "download_url_to_file", download)
    yield SimpleNamespace(asked=asked, fetched=fetched, answering=answering, listed=tmp_path / "hub" / "trusted_list")
    hub.set_dir("")


def net(trust, repo="own/repo:main"):
    return hub.load(repo, "net", trust_repo=trust, verbose=False)


@pytest.mark.parametrize("answer", ["", "n", "NO", None])
def test_strangers_are_asked_about(stranger, answer):
    stranger.answering(answer)
    for trust in (False, "check"):
        with pytest.raises(Exception, match="Untrusted repository"):
            net(trust)
        with pytest.raises(Exception, match="Untrusted repository"):
            hub.list("own/repo:main", trust_repo=trust)
        with pytest.raises(Exception, match="Untrusted repository"):
            hub.help("own/repo:main", "net", trust_repo=trust)
    assert len(stranger.asked) == 6 and not stranger.fetched and not stranger.listed.read_text()
    assert "own_repo does not belong to the list of trusted repositories" in stranger.asked[0]


def test_what_was_agreed_to_is_remembered(stranger):
    stranger.answering("Yes")
    assert net("check") == 7 and len(stranger.asked) == 1 and stranger.listed.read_text() == "own_repo\n"
    assert net("check") == 7 and len(stranger.asked) == 1
    assert net(False) == 7 and len(stranger.asked) == 2 and len(stranger.fetched) == 1
    stranger.answering("maybe")
    with pytest.raises(ValueError, match="Unrecognized response maybe"):
        net(False)


def test_trust_without_a_question(stranger):
    for trust in (True, None):
        assert net(trust) == 7
    assert net("check", "pytorch/repo:main") == 7
    assert not stranger.asked
    with pytest.raises(ValueError, match="trust_repo"):
        net("always")


@pytest.mark.parametrize("value", ["", "relative"])
def test_relative_caches_are_ignored(monkeypatch, value):
    """As the XDG rules have it: no code is looked for in the working directory."""
    hub.set_dir("")
    monkeypatch.setenv("XDG_CACHE_HOME", value)
    monkeypatch.setenv("TORCH_HOME", "")
    monkeypatch.setenv("HOME", "/somewhere")
    assert hub.get_dir() == "/somewhere/.cache/torch/hub"
