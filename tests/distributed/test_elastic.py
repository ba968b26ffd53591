"""What the launcher stands on: processes with their logs, and meetings of machines."""

import os
import pathlib
import signal
import sys
import threading

import pytest

from flambeau.distributed import HashStore, launch, run
from flambeau.distributed.elastic import rendezvous
from flambeau.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsDest, Std, start_processes, to_map
from flambeau.distributed.elastic.utils import macros
from flambeau.distributed.launcher.api import LaunchConfig, elastic_launch


def test_streams_by_rank():
    assert Std.from_str("2") is Std.ERR and Std.from_str("0:1,1:3") == {0: Std.OUT, 1: Std.ALL}
    for wrong in ("x", "4", "0:1:2"):
        with pytest.raises(ValueError, match="does not match"):
            Std.from_str(wrong)
    assert to_map(Std.OUT, 2) == {0: Std.OUT, 1: Std.OUT} and to_map({1: Std.ERR}, 2) == {0: Std.NONE, 1: Std.ERR}


def test_files_of_processes(tmp_path):
    envs = {rank: {"TORCHELASTIC_RUN_ID": "job", "TORCHELASTIC_RESTART_COUNT": "2"} for rank in (0, 1)}
    found = DefaultLogsSpecs(str(tmp_path), Std.OUT, {0: Std.ERR}, {0}).reify(envs)
    folder = pathlib.Path(found.stdouts[0]).parent
    assert folder.parent.name == "attempt_2" and folder.parent.parent.name.startswith("job_")
    assert found.stderrs == {0: str(folder / "stderr.log"), 1: "/dev/null"}  # rank 1 is not to be seen
    assert found.tee_stderrs == {0: found.stderrs[0]} and found.tee_stdouts == {}
    assert found.error_files[0] == str(folder / "error.json")


def test_programs_with_logs_and_words_to_look_for(tmp_path, capfd):
    program = "import os, sys; print('rank', os.environ['NUMBER'], sys.argv[1]); print('word', file=sys.stderr)"
    context = start_processes(
        "trainer", sys.executable, {0: ("-c", program, "a"), 1: ("-c", program, "b")}, {0: {"NUMBER": "7"}, 1: {"NUMBER": "8"}},
        DefaultLogsSpecs(str(tmp_path), tee=Std.ALL), {0: "<", 1: ">"}, duplicate_stderr_filters=["wor"],
    )  # fmt: skip
    found = context.wait(60, 0.05)
    assert not found.is_failed() and found.return_values == {0: None, 1: None}
    assert pathlib.Path(found.stdouts[1]).read_text() == "rank 8 b\n"
    assert sorted(capfd.readouterr().out.splitlines()) == ["<rank 7 a", ">rank 8 b"]
    [filtered] = tmp_path.glob("*/attempt_0/filtered_stderr.log")
    assert sorted(filtered.read_text().splitlines()) == ["<word", ">word"]


def test_a_program_that_fails_ends_the_others():
    waits, fails = "import time; time.sleep(60)", "import sys; sys.exit(3)"
    context = start_processes(
        "t", sys.executable, {0: ("-c", waits), 1: ("-c", fails)}, {0: {}, 1: {}}, DefaultLogsSpecs()
    )
    assert sorted(context.pids()) == [0, 1]
    found = context.wait(60, 0.02)
    assert found.is_failed() and found.failures[1].exitcode == 3
    assert not context.running() and context.failures()[0].exitcode == -signal.SIGTERM
    with pytest.raises(RuntimeError, match="local rank mapping mismatch"):
        start_processes("t", sys.executable, {1: ()}, {1: {}}, DefaultLogsSpecs())


def long_text(count):
    os.write(1, b"hello\n")  # pytest has taken sys.stdout
    return "x" * count


def test_functions_give_results_of_any_length(tmp_path):
    logs = DefaultLogsSpecs(str(tmp_path), Std.OUT)
    context = start_processes("f", long_text, {0: (1_000_000,)}, {0: {}}, logs, start_method="fork")
    found = context.wait(60, 0.02)
    assert len(found.return_values[0]) == 1_000_000 and pathlib.Path(found.stdouts[0]).read_text() == "hello\n"


def test_parameters_of_a_meeting():
    made = rendezvous.RendezvousParameters("c10d", "h:1", "id", 1, 2, timeout="7", flag="yes")
    assert made.get("timeout") == "7" and made.get_as_int("timeout") == 7 and made.get_as_bool("flag") is True
    for name, read in (("integer", lambda: made.get_as_int("flag")), ("boolean", lambda: made.get_as_bool("timeout"))):
        with pytest.raises(ValueError, match=f"does not represent a valid {name} value"):
            read()
    for wrong in (("", "h", "id", 1, 2), ("c10d", "h", "id", 0, 2), ("c10d", "h", "id", 3, 2)):
        with pytest.raises(ValueError, match=r"The (rendezvous backend name|m..imum number) "):
            rendezvous.RendezvousParameters(*wrong)
    with pytest.raises(ValueError, match="'etcd' is not registered"):
        rendezvous.rendezvous_handler_registry.create_handler(rendezvous.RendezvousParameters("etcd", "h", "id", 1, 1))


def test_two_machines_meet_and_part():
    create = rendezvous.rendezvous_handler_registry.create_handler
    first = create(rendezvous.RendezvousParameters("c10d", "localhost:0", "job", 2, 2, timeout=20))
    place = f"localhost:{first.store.port}"
    second = create(rendezvous.RendezvousParameters("c10d", place, "job", 2, 2, timeout=20, is_host=False))
    found = []
    thread = threading.Thread(target=lambda: found.append(second.next_rendezvous()))
    thread.start()
    found.append(first.next_rendezvous())
    thread.join()
    assert sorted(info.rank for info in found) == [0, 1] and {info.world_size for info in found} == {2}
    found[0].store.set("word", "x")
    assert found[1].store.get("word") == b"x"
    assert found[0].bootstrap_store_info == rendezvous.RendezvousStoreInfo("localhost", first.store.port)
    assert not second.is_closed() and first.num_nodes_waiting() == 0 and first.get_backend() == "c10d"
    assert first.shutdown() and second.is_closed()
    with pytest.raises(rendezvous.RendezvousClosedError, match="closed"):
        second.next_rendezvous()


def test_a_lonely_machine_gives_up():
    handler = rendezvous.rendezvous_handler_registry.create_handler(
        rendezvous.RendezvousParameters("static", "localhost:0", "job", 2, 2, rank=0, timeout=0.2)
    )
    with pytest.raises(rendezvous.RendezvousTimeoutError, match="1/2 joined"):
        handler.next_rendezvous()


class Own(rendezvous.RendezvousHandler):
    """A meeting of one machine, as a program may bring it."""

    def get_backend(self):
        return "own"

    def next_rendezvous(self):
        return rendezvous.RendezvousInfo(HashStore(), 0, 1, rendezvous.RendezvousStoreInfo("127.0.0.1", 12345))

    def is_closed(self):
        return False

    def set_closed(self):
        pass

    def num_nodes_waiting(self):
        return 0

    def get_run_id(self):
        return "own"

    def shutdown(self):
        return True


def port_and_rank(word):
    return word + os.environ["MASTER_PORT"] + os.environ["RANK"]


def test_a_launcher_with_a_meeting_of_the_programs_own():
    rendezvous.rendezvous_handler_registry.register("own", lambda params: Own())
    config = LaunchConfig(
        1,
        1,
        2,
        rdzv_backend="own",
        rdzv_endpoint="anywhere",
        max_restarts=0,
        start_method="fork",
        monitor_interval=0.02,
    )
    assert elastic_launch(config, port_and_rank)("p") == {0: "p123450", 1: "p123451"}


def test_options_become_a_configuration(monkeypatch):
    monkeypatch.setenv("PET_MAX_RESTARTS", "5")
    monkeypatch.setenv("PET_STANDALONE", "0")
    args = run.parse_args(
        ["--nnodes=1:2", "--nproc_per_node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=h:1", "--rdzv-conf=timeout=9", "-t", "1", "s.py", "x"]
    )  # fmt: skip
    config, command, arguments = run.config_from_args(args)
    assert (config.min_nodes, config.max_nodes, config.nproc_per_node, config.max_restarts) == (1, 2, 2, 5)
    assert (config.rdzv_backend, config.rdzv_endpoint, config.rdzv_configs) == ("c10d", "h:1", {"timeout": "9"})
    assert command == sys.executable and arguments == ["-u", "s.py", "x"] and run.get_use_env(args)
    static = run.parse_args(["--nnodes=2", "--node-rank=1", "--master-addr=m", "s.py"])
    assert run.get_rdzv_endpoint(static) == "m:29500" and run.config_from_args(static)[0].rdzv_configs == {"rank": 1}
    older = launch.parse_args(["s.py", "x"])
    assert run.config_from_args(older)[2] == ["-u", "s.py", "--local-rank=${local_rank}", "x"]
    assert macros.substitute(["--local-rank=${local_rank}", "$other"], "3") == ["--local-rank=3", "$other"]
    function, arguments = run.config_from_args(run.parse_args(["--run-path", "s.py", "x"]))[1:]
    assert function is run.run_script_path and arguments == ["s.py", "x"]


def test_a_program_run_by_its_path(tmp_path, monkeypatch, capsys):
    (tmp_path / "s.py").write_text("import sys; print(__name__, sys.argv[1:])")
    monkeypatch.setattr(sys, "argv", ["kept"])
    run.run_script_path(str(tmp_path / "s.py"), "a", "b")
    assert capsys.readouterr().out == "__main__ ['a', 'b']\n"


def test_files_have_a_default():
    assert LogsDest().stdouts == {} and LogsDest().filtered_stdout == ""
