"""``python -m rocketpy.broker`` as a process: options, messages, exit statuses, signals, remaining files."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rocketpy import BUILD
from rocketpy.broker import __main__ as broker_main
from rocketpy.broker.app import BrokerAddress
from rocketpy.broker.start_settings import StartOptions, load_broker_settings
from rocketpy.errors import StartError, StoreError
from tests.blackbox.ports import free_ports, port_in_use
from tests.blackbox.processes import REPOSITORY, Process
from tests.blackbox.wire import Wire
from tests.broker.broker_processes import (
    broker_command,
    broker_environment,
    run_broker,
    start_broker,
    wait_log,
    wait_ready_file,
)
from tests.patience import PATIENCE_SECONDS, wait_until


def leave_the_process_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ``main`` run in the process of the tests without a change of its log and threads."""
    monkeypatch.setattr(broker_main, "configure_logging", lambda config: None)
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    processes: list[Process] = []

    def make(*arguments: str, namesrv_port: int | None = None) -> Process:
        processes.append(start_broker(tmp_path, *arguments, namesrv_port=namesrv_port))
        return processes[-1]

    yield make
    for process in processes:
        if process.is_running():
            process.kill()


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
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, env=broker_environment(), capture_output=True, text=True, check=True)
    is_enabled, threshold, count = ended.stderr.splitlines()[-1].split()
    assert (is_enabled, int(threshold)) == ("True", broker_main.GC_THRESHOLDS[0])
    assert int(count) < 40, "over a hundred by default"


@pytest.mark.parametrize(
    "arguments",
    [
        *(["--port", text] for text in ("x", "65535", "-1")),
        *(["--namesrv-port", text] for text in ("x", "65536", "0")),
        ["--nonsense"],
        ["-c"],
    ],
)
def test_a_wrong_option_is_status_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        broker_main.main(arguments)
    assert ended.value.code == 2
    assert arguments[0].lstrip("-") in capsys.readouterr().err


NOT_PRINTED = "-p and -m print the settings of one broker: expected no --cluster and no --groups"


NO_NAMESERVER = "--namesrv-port 7: no nameserver runs in this process, because one is named or -c is given"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("-c b.conf", "b.conf line 2: flushDiskType = 'NEVER': expected one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("-c no.conf", "no.conf: cannot be read: No such file or directory"),
        ("--groups 2 -c b.conf", "b.conf line 2: flushDiskType = 'NEVER': expected one of ASYNC_FLUSH, SYNC_FLUSH"),
        ("--cluster 2m-noslave -c b.conf", "-c b.conf: expected no file with --cluster, which has its own settings"),
        ("-p --cluster 2m-noslave", NOT_PRINTED),
        ("-p --groups 2", NOT_PRINTED),
        ("-n a:1 --namesrv-port 7", NO_NAMESERVER),
        ("-n a:1 --namesrv-port 7 --groups 2", NO_NAMESERVER),
        ("-n a:1 --namesrv-port 7 --cluster 2m-noslave", NO_NAMESERVER),
    ],
)
def test_what_is_not_started_is_said_in_one_sentence_with_status_2(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: str, sentence: str
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.conf").write_text("# mine\nflushDiskType=NEVER\n")
    assert broker_main.main(arguments.split()) == 2
    assert capsys.readouterr().err == f"{sentence}\n"
    assert names_in(tmp_path) == ["b.conf"]


def test_a_build_that_is_not_there_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    ended = run_broker(tmp_path, "--cluster", "2m-2s-sync", variables={"ROCKETPY_PURE": "banana"})
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr == (
        "ROCKETPY_PURE: expected 1 (run the sources), 0 (compiled modules only) or nothing, found 'banana'\n"
    )
    assert names_in(tmp_path) == []


def test_a_store_path_that_is_a_file_is_one_sentence_and_status_2(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    ended = run_broker(tmp_path, "-n", "127.0.0.1:1", "--port", "0", "--store", "store/below")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert "store" in ended.stderr
    assert names_in(tmp_path) == ["store"]


def test_the_rocket_simulator_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "site" / "rocketpy-1.10.0.dist-info").mkdir(parents=True)
    path = {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{tmp_path / 'site'}"}
    with port_in_use() as port:
        ended = run_broker(tmp_path, "-n", "127.0.0.1:1", "--port", str(port), variables=path)
    assert "shared with the rocket flight simulator" in ended.stderr


# ---- as a process ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_without_a_file_it_is_a_whole_system_until_a_signal(
    tmp_path: Path, start: Callable[..., Process], number: signal.Signals
) -> None:
    first = free_ports(6)
    process = start("--port", str(first + 4), namesrv_port=first)
    wait_log(process)
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


def test_a_port_in_use_is_one_sentence_that_names_the_option_which_moves_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    leave_the_process_alone(monkeypatch)
    monkeypatch.chdir(tmp_path)
    with port_in_use() as port:
        in_use = f"cannot listen on 127.0.0.1, port {port}: another process uses it"
        assert broker_main.main(["--port", "0", "--namesrv-port", str(port)]) == 2
        remedy = "--namesrv-port N moves this broker's nameserver, -n HOST:PORT names one that runs"
        assert capsys.readouterr().err == f"{in_use}; {remedy}\n"
        for moved, suffix in ((0, ""), (-1, " (the port for slaves, one above listenPort)"), (2, "")):
            assert broker_main.main(["-n", "127.0.0.1:1", "--port", str(port + moved)]) == 2
            assert capsys.readouterr().err == f"{in_use}{suffix}; --port N moves the broker\n"


def test_a_cluster_to_try_replicates_and_ends_with_ctrl_c(tmp_path: Path, start: Callable[..., Process]) -> None:
    first = free_ports(40)
    arguments = ("--cluster", "2m-2s-sync", "--port", str(first + 4), "--store", "stores")
    process = start(*arguments, namesrv_port=first)
    wait_log(process, "try it")
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


def test_with_a_file_it_warns_that_it_is_open(tmp_path: Path, start: Callable[..., Process]) -> None:
    (tmp_path / "b.conf").write_text("listenPort=0\nstorePathRootDir=store\nbrokerNane=x\nbrokerIP1=127.0.0.1\n")
    process = start("-c", "b.conf")
    wait_log(process)
    lines = process.log().splitlines()
    assert sum("listening on every address, port 0, without access control" in line for line in lines) == 1
    assert sum("did you mean brokerName?" in line for line in lines) == 1
    assert process.terminate() == 0


# ---- inside ------------------------------------------------------------------------------------------------------


def test_the_start_says_where_its_files_are_and_which_line_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.conf").write_text("brokerIP1=127.0.0.1\nstorePathRootDir=s\nstorePathCommitLog=log\n")
    settings = load_broker_settings(StartOptions(config_file="b.conf", log_directory="logs"))
    broker_main.say_ready_to_people(settings, BrokerAddress("127.0.0.1:1", 1, None, 2), sys.stdout)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    for each in (["store", f"{tmp_path}/s"], ["commitlog", f"{tmp_path}/log"], ["logs", f"{tmp_path}/logs"]):
        assert each in lines
    (tmp_path / "b.conf").write_text("brokerIP1=127.0.0.1\nlogDirectory=/proc/none\nlistenPort=0\nnamesrvAddr=a:1\n")
    assert broker_main.main(["-c", "b.conf"]) == 2
    assert "\nb.conf line 2: logDirectory = '/proc/none': expected" in "\n" + capsys.readouterr().err


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


def test_the_ready_file_has_the_addresses_of_a_broker_while_it_serves(
    start: Callable[..., Process], tmp_path: Path
) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text("left by another process")
    process = start("-n", "127.0.0.1:1", "--port", "0", "--ready-file", str(ready))
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


@pytest.mark.parametrize("role", ["broker", "cluster"])
def test_the_ready_line_is_alone_on_standard_output(tmp_path: Path, role: str) -> None:
    options = ("--cluster", "2m-noslave") if role == "cluster" else ()
    command = broker_command(*options, "-n", "127.0.0.1:1", "--port", "0", "--ready-file", "-")
    with subprocess.Popen(
        command, cwd=tmp_path, env=broker_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            found = json.loads(process.stdout.readline())
            assert (found["pid"], found["role"]) == (process.pid, role)
            brokers = found["brokers"] if role == "cluster" else [found]
            assert role == "broker" or [each["brokerName"] for each in brokers] == ["broker-a", "broker-b"]
            for each in brokers:
                socket.create_connection(("127.0.0.1", each["listenPort"])).close()
            process.terminate()
            stdout, stderr = process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            process.kill()
    assert (process.returncode, stdout) == (0, "")
    assert "boot success" in stderr or "try it" in stderr
    assert names_in(tmp_path) == ["store"]


def test_a_ready_file_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    result = run_broker(tmp_path, "-n", "127.0.0.1:1", "--port", "0", "--ready-file", str(tmp_path / "no" / "ready"))
    assert result.returncode == 2
    assert result.stderr.splitlines() == [
        f"--ready-file {tmp_path}/no/ready: expected a directory that can be written, {tmp_path}/no is not"
    ]


def names_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())
