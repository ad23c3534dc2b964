"""``python -m rocketpy.nameserver`` as a process: what it prints, what it refuses, how it ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from rocketpy import BUILD
from rocketpy.compiled import find_build
from rocketpy.nameserver import __main__ as nameserver_main
from rocketpy.nameserver.__main__ import OPEN, main
from rocketpy.nameserver.config import NamesrvConfig, default_server_config
from rocketpy.protocol.codes import RequestCode
from rocketpy.protocol.command import make_request
from rocketpy.protocol.frame import encode_frame
from rocketpy.settings import format_settings
from tests.nameserver.test_logs import quiet_root
from tests.patience import PATIENCE_SECONDS

__all__ = ["quiet_root"]  # each run of ``main`` here sets the loggers of this process

ROOT = Path(__file__).parents[2]


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "namesrv.conf"
    path.write_text(f"listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath={tmp_path}/kvConfig.json\n")
    return path


@contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "rocketpy.nameserver", *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            if running.poll() is None:
                running.kill()


def test_the_ready_line_is_alone_on_standard_output(conf: Path) -> None:
    with process("-c", str(conf), "--ready-file", "-") as running:
        assert running.stdout is not None
        found = json.loads(running.stdout.readline())
        assert (found["pid"], found["role"], found["bindAddress"]) == (running.pid, "nameserver", "127.0.0.1")
        socket.create_connection(("127.0.0.1", found["listenPort"])).close()
        running.terminate()
        stdout, stderr = running.communicate(timeout=PATIENCE_SECONDS)
    assert (running.returncode, stdout) == (0, "")
    assert f"Listening on 127.0.0.1, port {found['listenPort']}" in stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_says_that_it_is_up_and_ends_cleanly(conf: Path, tmp_path: Path, number: signal.Signals) -> None:
    with process("-c", str(conf), "-n", "ignored:1", "--log-directory", str(tmp_path / "logs")) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "The Name Server boot success. serializeType=JSON\n"
        line = running.stdout.readline()
        assert line.startswith("Listening on 127.0.0.1, port ")
        with socket.create_connection(("127.0.0.1", int(line.split()[-1])), timeout=PATIENCE_SECONDS):
            running.send_signal(number)
            stdout, stderr = running.communicate(timeout=PATIENCE_SECONDS)
    assert (running.returncode, stdout) == (0, "")
    assert "Traceback" not in stderr
    assert f"build: {BUILD}\n" in (tmp_path / "logs" / "namesrv.log").read_text()


@pytest.mark.parametrize(
    ("text", "is_warned"),
    [
        ("", True),
        ("bindAddress=0.0.0.0\n", True),
        ("bindAddress=127.0.0.1\n", False),
        ("routeChangeAllowList=10.0.0.0/8\n", False),
    ],
)
def test_listening_on_every_address_is_said_in_one_line(
    conf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, text: str, is_warned: bool
) -> None:
    async def serve(*arguments: object) -> None:
        pass

    monkeypatch.setattr("rocketpy.nameserver.__main__.serve", serve)
    conf.write_text(conf.read_text().replace("bindAddress=127.0.0.1\n", text).replace("listenPort=0", "listenPort=7"))
    assert main(["-c", str(conf)]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines == [f"warning: listening on every address, port 7, {OPEN}"] * is_warned
    assert main([]) == 0
    assert capsys.readouterr().err == "", "without -c it listens on loopback"


def test_a_change_is_written_to_the_file_of_the_settings(conf: Path, tmp_path: Path) -> None:
    """With -c to that file, whatever it says of another; without -c to configStorePath."""
    other = tmp_path / "other.properties"
    with_file = attrs.evolve(NamesrvConfig(), config_store_path=str(other))
    assert with_file.config_store_file == str(other)
    conf.write_text(conf.read_text() + f"configStorePath={other}\n")
    with process("-c", str(conf)) as running:
        assert running.stdout is not None
        running.stdout.readline()
        port = int(running.stdout.readline().split()[-1])
        update = make_request(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"clusterTest=true")
        with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS) as sock:
            sock.sendall(encode_frame(update))
            assert b'"code":0,' in sock.recv(4096)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=PATIENCE_SECONDS)
    assert "clusterTest=true" in conf.read_text().splitlines()
    assert not other.exists()


def test_the_directory_of_logs_may_be_an_option(conf: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "--log-directory", "logs"]) == 0
    assert "logDirectory=logs" in capsys.readouterr().out.splitlines()
    (tmp_path / "file").write_text("")
    assert main(["-c", str(conf), "--log-directory", f"{tmp_path}/file/logs"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "expected a directory that can be written" in line


def test_a_port_in_use_is_one_sentence_and_status_2(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["-c", str(conf), "--port", str(port)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    in_use = f"cannot listen on 127.0.0.1, port {port}: another process uses it"
    assert captured.err == f"{in_use}; --port N moves the nameserver\n"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("\nlistenPort=high\n", "line 2: listenPort = 'high': expected "),
        ("clusterTest=maybe", "line 1: clusterTest = 'maybe': expected true or false"),
        ("x=\\u12", "line 1: expected four hexadecimal digits"),
    ],
)
def test_a_wrong_value_is_one_sentence_and_status_2(
    conf: Path, capsys: pytest.CaptureFixture[str], text: str, sentence: str
) -> None:
    conf.write_text(text)
    assert main(["-c", str(conf)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert captured.err.startswith(f"{conf} {sentence}")


def test_a_missing_file_and_a_damaged_kv_file_are_one_sentence(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-c", str(conf) + ".none"]) == 2
    assert "cannot be read: No such file or directory" in capsys.readouterr().err
    (conf.parent / "kvConfig.json").write_text("{")
    assert main(["-c", str(conf)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "kvConfig.json: the KV configuration cannot be read" in line


def test_p_prints_every_setting_with_the_file_applied(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text(conf.read_text() + "unknownKey=1\n")
    assert main(["-p", "-c", str(conf)]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert [line.split("=")[0] for line in lines] == [
        line.split("=")[0] for line in format_settings(NamesrvConfig(), default_server_config())
    ]
    assert {f"configStorePath={conf}", "listenPort=0", "bindAddress=127.0.0.1"} <= set(lines)
    assert captured.err == f"{conf} line 4: unknown key unknownKey has no effect\n"


def test_h_prints_help_and_an_unknown_option_is_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, status in ((["-h"], 0), (["--nonsense"], 2)):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == status
    assert "--configFile" in capsys.readouterr().out


@pytest.mark.parametrize("wish", ["banana", "0"])
def test_a_build_that_is_not_there_is_one_sentence_and_status_2(
    conf: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wish: str
) -> None:
    build = find_build(str(tmp_path), {"ROCKETPY_PURE": wish})
    monkeypatch.setattr(nameserver_main, "BUILD", build)
    assert main(["-c", str(conf)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", f"{build.fault}\n")
    assert build.fault.startswith("ROCKETPY_PURE")


def test_tls_is_read_from_the_same_file_and_not_printed(conf: Path, capsys: pytest.CaptureFixture[str]) -> None:
    conf.write_text(conf.read_text() + "tls.server.keyPassword=hidden\n")
    assert main(["-p", "-c", str(conf)]) == 0
    assert "hidden" not in capsys.readouterr().out
    conf.write_text(conf.read_text() + "tls.test.mode.enable=false\ntls.server.certPath=/no/such\n")
    assert main(["-c", str(conf)]) == 2
    expected = f"{conf} line 6: tls.server.certPath = '/no/such': expected a file, found: No such file or directory\n"
    assert capsys.readouterr().err == expected
