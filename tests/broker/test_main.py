"""``python -m rocketpy.broker`` as a process: options, messages, exit statuses, signals, remaining files."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from rocketpy import BUILD
from rocketpy.broker import __main__ as broker_main
from rocketpy.errors import StartError, StoreError
from tests.blackbox.ports import broker_port, free_ports, port_in_use
from tests.blackbox.processes import NEVER_BUSY, REPOSITORY, Process, python_command
from tests.blackbox.wire import Wire, WireError
from tests.patience import PATIENCE_SECONDS, wait_until

# The nameserver's port is RocketMQ's, so a test that starts the whole system moves it first.
MOVED = (
    "import sys, rocketpy.broker.start_settings as s; s.NAMESRV_PORT = int(sys.argv.pop(1));"
    "from rocketpy.broker.__main__ import main; sys.exit(main())"
)


@pytest.fixture
def started() -> Iterator[list[Process]]:
    processes: list[Process] = []
    yield processes
    for process in processes:
        if process.is_running():
            process.kill()


def start(started: list[Process], directory: Path, *arguments: str, namesrv_port: int | None = None) -> Process:
    command = python_command("rocketpy.broker", *arguments)
    if namesrv_port is not None:
        command = [sys.executable, "-c", MOVED, str(namesrv_port), *arguments]
    environment = {"PYTHONPATH": str(REPOSITORY), "NAMESRV_ADDR": ""}
    process = Process.start(command, directory / "broker.log", cwd=directory, env=environment)
    started.append(process)
    return process


def wait_ready(process: Process, text: str = "boot success") -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while text not in process.log():
        assert process.is_running(), process.log()
        assert time.monotonic() < deadline, process.log()
        time.sleep(0.01)


def run(
    directory: Path, *arguments: str, path: str = "", variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{path}",
        "NAMESRV_ADDR": "",
        **(variables or {}),
    }
    command = python_command("rocketpy.broker", *arguments)
    return subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )


# ---- without a broker running ------------------------------------------------------------------------------------


def test_p_prints_every_setting_and_m_the_important_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert broker_main.main(["-p", "-n", "ns:9876"]) == 0
    everything = capsys.readouterr().out.splitlines()
    assert broker_main.main(["-m", "-n", "ns:9876"]) == 0
    important = capsys.readouterr().out.splitlines()
    assert set(important) < set(everything)
    assert {"namesrvAddr=ns:9876", "listenPort=10911", "brokerIP1=127.0.0.1"} <= set(everything)
    assert "brokerClusterName=DefaultCluster" in important
    assert not any(line.startswith("maxDelayTime=") for line in important)


def test_help_names_every_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker_main.main(["-h"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert all(
        option in text for option in ("-c FILE", "-n ADDRESSES", "-p", "-m", "--store DIR", "--port N", "--cluster")
    )


def test_imports_are_rarely_searched_for_garbage(tmp_path: Path) -> None:
    """They make little, and by default looking for it is a tenth of their time."""
    program = (
        "import gc, runpy, sys\n"
        "sys.argv[1:] = ['-p']\n"
        "before = sum(each['collections'] for each in gc.get_stats())\n"
        "try:\n"
        "    runpy.run_module('rocketpy.broker', run_name='__main__')\n"
        "except SystemExit:\n"
        "    pass\n"
        "count = sum(each['collections'] for each in gc.get_stats()) - before\n"
        "print(gc.isenabled(), gc.get_threshold()[0], count, file=sys.stderr)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    is_enabled, threshold, count = ended.stderr.splitlines()[-1].split()
    assert (is_enabled, int(threshold)) == ("True", broker_main.GC_THRESHOLDS[0])
    assert int(count) < 40, "over a hundred by default"


@pytest.mark.parametrize("arguments", [["--port", "x"], ["--port", "65535"], ["--port", "-1"], ["--nonsense"], ["-c"]])
def test_a_wrong_option_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker_main.main(arguments)
    assert ended.value.code == 2
    assert arguments[0].lstrip("-") in capsys.readouterr().err


def test_a_wrong_value_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "b.conf").write_text("# mine\nflushDiskType=NEVER\n")
    ended = run(tmp_path, "-c", "b.conf")
    assert ended.returncode == 2
    assert ended.stderr == ("b.conf line 2: flushDiskType = 'NEVER': expected one of ASYNC_FLUSH, SYNC_FLUSH\n")
    assert [path.name for path in tmp_path.iterdir()] == ["b.conf"]


def test_a_missing_file_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    ended = run(tmp_path, "-c", "no.conf")
    assert (ended.returncode, ended.stderr) == (2, "no.conf: cannot be read: No such file or directory\n")


def test_a_build_that_is_not_there_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    for arguments in ((), ("-p",), ("--cluster", "2m-2s-sync")):
        ended = run(tmp_path, *arguments, variables={"ROCKETPY_PURE": "banana"})
        assert (ended.returncode, ended.stdout) == (2, "")
        assert ended.stderr == (
            "ROCKETPY_PURE: expected 1 (run the sources), 0 (compiled modules only) or nothing, found 'banana'\n"
        )
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_one_sentence_and_status_2_and_nothing_is_left(tmp_path: Path) -> None:
    with port_in_use() as port:
        ended = run(tmp_path, "-n", "127.0.0.1:1", "--port", str(port))
    assert ended.returncode == 2
    assert ended.stderr == f"cannot listen on 127.0.0.1, port {port}: another process uses it\n"
    assert list(tmp_path.iterdir()) == []


def test_a_store_path_that_is_a_file_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    ended = run(tmp_path, "-n", "127.0.0.1:1", "--port", "0", "--store", "store/below")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "store" in ended.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_the_rocket_simulator_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "site" / "rocketpy-1.10.0.dist-info").mkdir(parents=True)
    with port_in_use() as port:
        ended = run(tmp_path, "-n", "127.0.0.1:1", "--port", str(port), path=str(tmp_path / "site"))
    assert "shared with the rocket flight simulator" in ended.stderr


# ---- as a process ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_a_file_it_is_a_whole_system_until_a_signal(
    tmp_path: Path, started: list[Process], number: signal.Signals
) -> None:
    first = free_ports(6)
    process = start(started, tmp_path, "--port", str(first + 4), namesrv_port=first)
    wait_ready(process)
    with Wire(f"127.0.0.1:{first + 4}") as wire:
        assert wire.send("hello", 0, b"one").code == 0
    with Wire(f"127.0.0.1:{first}") as wire:
        assert wire.brokers_of("TBW102")
    assert (tmp_path / "store" / "abort").exists()
    process.popen.send_signal(number)
    assert process.wait(PATIENCE_SECONDS) == 0, process.log()
    assert not (tmp_path / "store" / "abort").exists()
    assert f"nameserver  127.0.0.1:{first} (in this process)" in process.log()
    assert f"INFO broker build: {BUILD}\n" in process.log()
    assert f"  build       {BUILD}\n" in process.log()


def test_a_cluster_to_try_replicates_and_ends_with_ctrl_c(tmp_path: Path, started: list[Process]) -> None:
    first = free_ports(40)
    arguments = ("--cluster", "2m-2s-sync", "--port", str(first + 4), "--store", "stores")
    process = start(started, tmp_path, *arguments, namesrv_port=first)
    wait_ready(process, "try it")
    with Wire(f"127.0.0.1:{first + 4}") as wire:
        codes: list[int] = []

        def is_on_the_slave() -> bool:
            codes.append(wire.send("hello", 0, b"one").code)
            return codes[-1] == 0  # SEND_OK of a SYNC_MASTER: its slave has the message, too

        wait_until(is_on_the_slave, lambda: f"{codes}\n{process.log()}")
    lines = process.log().splitlines()
    assert f"SLAVE        broker-b  1   127.0.0.1:{first + 34}  " in "\n".join(lines)
    assert len([line for line in lines if line.startswith(("SYNC_MASTER", "SLAVE", "nameserver"))]) == 5
    logs = [tmp_path / "stores" / name / "commitlog" / f"{0:020}" for name in ("broker-a", "broker-a-s")]
    assert logs[0].read_bytes() == logs[1].read_bytes()
    process.popen.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_SECONDS) == 0, process.log()
    assert {path.name[:6] for path in (tmp_path / "stores").iterdir()} <= {"broker", "namese"}
    assert list(tmp_path.glob("stores/*/abort")) == []


def test_a_cluster_takes_no_file(tmp_path: Path) -> None:
    ended = run(tmp_path, "--cluster", "2m-noslave", "-c", "b.conf")
    assert (ended.returncode, ended.stderr) == (
        2, "-c b.conf: expected no file with --cluster, which has its own settings\n"
    )  # fmt: skip


def test_after_kill_9_it_starts_again_with_what_was_acknowledged(tmp_path: Path, started: list[Process]) -> None:
    port = broker_port()
    settings = {"bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1", **NEVER_BUSY}
    (tmp_path / "b.conf").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    arguments = ("-c", "b.conf", "--store", "store", "-n", "127.0.0.1:1", "--port", str(port))
    process = start(started, tmp_path, *arguments)
    wait_ready(process)
    with Wire(f"127.0.0.1:{port}") as wire:
        for _ in range(10):
            assert wire.send("hello", 0, b"one").code == 0
        process.kill()
    (tmp_path / "broker.log").unlink()
    process = start(started, tmp_path, *arguments)
    wait_ready(process)
    with Wire(f"127.0.0.1:{port}") as wire:
        assert len(list(wire.pull_all("hello", 0, 0, 10))) == 10
    assert process.terminate() == 0


def test_with_a_file_it_warns_that_it_is_open(tmp_path: Path, started: list[Process]) -> None:
    (tmp_path / "b.conf").write_text("listenPort=0\nstorePathRootDir=store\nbrokerNane=x\nbrokerIP1=127.0.0.1\n")
    process = start(started, tmp_path, "-c", "b.conf")
    wait_ready(process)
    lines = process.log().splitlines()
    assert sum("listening on every address, port 0, without access control" in line for line in lines) == 1
    assert sum("did you mean brokerName?" in line for line in lines) == 1
    assert process.terminate() == 0


def test_no_connection_hinders_the_end(tmp_path: Path, started: list[Process]) -> None:
    port = broker_port()
    process = start(started, tmp_path, "-n", "127.0.0.1:1", "--port", str(port))
    wait_ready(process)
    with Wire(f"127.0.0.1:{port}") as idle:
        assert process.terminate() == 0
        with pytest.raises(WireError):
            idle.send("hello", 0, b"one")


# ---- inside ------------------------------------------------------------------------------------------------------


def test_a_failure_before_the_start_is_a_sentence_and_one_after_it_is_not(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    group = ExceptionGroup("", [ExceptionGroup("", [StartError("port 1 is taken")])])
    assert broker_main.report_failure(group, is_start=True) == 2
    assert capsys.readouterr().err == "port 1 is taken\n"
    group = ExceptionGroup("", [StoreError("the disk is gone", path="commitlog/0", position=7)])
    assert broker_main.report_failure(group, is_start=False) == 1
    assert "the broker has failed: the disk is gone (commitlog/0 at 7)" in caplog.text


# ---- the ready file ------------------------------------------------------------------------------------------------


def test_the_ready_file_has_the_addresses_of_a_broker_while_it_serves(started: list[Process], tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text("left by another process")
    process = start(started, tmp_path, "-n", "127.0.0.1:1", "--port", "0", "--ready-file", str(ready))
    found = wait_ready_file(process, ready)
    port = found["listenPort"]
    assert found == {
        "pid": process.pid,
        "role": "broker",
        "brokerName": found["brokerName"],
        "brokerId": 0,
        "brokerClusterName": "DefaultCluster",
        "brokerAddr": f"127.0.0.1:{port}",
        "namesrvAddr": "127.0.0.1:1",
        "listenPort": port,
        "vipPort": None,
        "haListenPort": found["haListenPort"],
        "storePathRootDir": str(tmp_path / "store"),
    }
    socket.create_connection(("127.0.0.1", port)).close()
    assert process.terminate() == 0
    assert not ready.exists()


def test_the_ready_file_of_a_sample_cluster_has_all_of_its_brokers(started: list[Process], tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    options = ("--cluster", "2m-noslave", "--port", "0", "-n", "127.0.0.1:1", "--ready-file", str(ready))
    process = start(started, tmp_path, *options)
    found = wait_ready_file(process, ready)
    assert (found["role"], found["namesrvAddr"]) == ("cluster", "127.0.0.1:1")
    assert [each["brokerName"] for each in found["brokers"]] == ["broker-a", "broker-b"]
    assert process.terminate() == 0


@pytest.mark.parametrize("role", ["broker", "cluster"])
def test_the_ready_line_is_alone_on_standard_output(tmp_path: Path, role: str) -> None:
    options = ("--cluster", "2m-noslave") if role == "cluster" else ()
    command = python_command("rocketpy.broker", *options, "-n", "127.0.0.1:1", "--port", "0", "--ready-file", "-")
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "NAMESRV_ADDR": ""}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = json.loads(process.stdout.readline())
            assert (found["pid"], found["role"]) == (process.pid, role)
            first = found["brokers"][0] if role == "cluster" else found
            socket.create_connection(("127.0.0.1", first["listenPort"])).close()
            process.terminate()
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, stdout) == (0, "")
    assert "boot success" in stderr or "try it" in stderr
    assert sorted(os.listdir(tmp_path)) == ["store"]


def test_a_ready_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    result = run(tmp_path, "-n", "127.0.0.1:1", "--port", "0", "--ready-file", str(tmp_path / "no" / "ready"))
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        f"--ready-file {tmp_path}/no/ready: expected a directory that can be written, {tmp_path}/no is not"
    ]


def wait_ready_file(process: Process, path: Path) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (path.exists() and path.read_text().startswith("{")):
        assert process.is_running(), process.log()
        assert time.monotonic() < deadline, process.log()
        time.sleep(0.01)
    found: dict[str, Any] = json.loads(path.read_text())
    return found
