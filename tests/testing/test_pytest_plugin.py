"""The pytest plugin as its users meet it: each test here is a run of pytest, most of them in this process."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "rocketpy.testing.pytest_plugin"
_IS_INSTALLED = any(each.value == PLUGIN for each in entry_points(group="pytest11"))

PRELUDE = """
import asyncio, os, signal, sys, tempfile, threading, time, unittest
from concurrent.futures import ThreadPoolExecutor

import pytest
import trio

from rocketpy.client import Message, aio, blocking, open_admin_client, open_producer

async def send(broker, *bodies):
    async with open_producer(broker.name_server) as producer:
        for body in bodies:
            await producer.send(Message("T", body))

def bodies(broker):
    return [message.body for message in broker.messages("T")]
"""
"""Before each scene; what a user would write."""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is found in this checkout, and no other one is loaded."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, scene: str) -> pytest.RunResult:
    """Run a file of tests; the scene may be indented."""
    pytester.makepyfile(PRELUDE + textwrap.dedent(scene))
    return pytester.runpytest_inprocess("-p", PLUGIN, "--strict-markers")


def run_alone(pytester: pytest.Pytester, scene: str) -> pytest.RunResult:
    """Run a file of tests in a process of its own."""
    pytester.makepyfile(textwrap.dedent(scene))
    return pytester.runpytest_subprocess("-p", PLUGIN, "--strict-markers")


USES = {
    "a plain test": """
        def test_it(rocketmq):
            rocketmq.topic("T", queues=1)
            trio.run(send, rocketmq, b"one", b"two")
            assert bodies(rocketmq) == [b"one", b"two"]
        """,
    "a test under pytest-trio": """
        @pytest.mark.trio
        async def test_it(rocketmq):
            await send(rocketmq, b"one")
            assert bodies(rocketmq) == [b"one"]
        """,
    "a program with asyncio, in time that jumps": """
        def test_it(rocketmq):
            async def main():
                async with aio.open_producer(rocketmq.name_server) as producer:
                    await producer.send(Message("T", b"later", {"DELAY": "18"}))
                    rocketmq.advance(7201)
                    await producer.send(Message("T", b"one"))

            asyncio.run(main())
            assert bodies(rocketmq) == [b"later", b"one"]
        """,
    "plain code with threads": """
        def test_it(rocketmq):
            with blocking.open_producer(rocketmq.name_server) as producer, ThreadPoolExecutor(4) as pool:
                list(pool.map(lambda number: producer.send(Message("T", b"%d" % number)), range(20)))
                counts = list(pool.map(lambda _: len(bodies(rocketmq)), range(4)))
            assert counts == [20] * 4
        """,
    "a broker with the store of another": """
        from rocketpy.testing.fixture.start import start_broker

        STORE = tempfile.mkdtemp() + "/store"
        saved = start_broker()
        trio.run(send, saved, b"one")
        saved.copy_store(STORE)
        saved.stop()

        @pytest.mark.rocketmq(store=STORE)
        def test_it(rocketmq):
            assert bodies(rocketmq) == [b"one"]
        """,
    "a case of unittest": """
        class TestIt(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def _broker(self, rocketmq):
                self.broker = rocketmq

            def test_it(self):
                trio.run(send, self.broker, b"one")
                self.assertEqual(bodies(self.broker), [b"one"])
        """,
}


def test_tests_of_every_kind_may_use_the_fixture(pytester: pytest.Pytester) -> None:
    """Each in a file of its own, in one run of pytest."""
    for number, scene in enumerate(USES.values()):
        pytester.makepyfile(**{f"test_use_{number}": PRELUDE + textwrap.dedent(scene)})
    result = pytester.runpytest_inprocess("-p", PLUGIN, "-p", "pytest_trio.plugin", "--strict-markers")
    result.assert_outcomes(passed=len(USES))


def test_the_broker_of_a_session_is_one_and_that_of_a_test_its_own(pytester: pytest.Pytester) -> None:
    scene = """
        seen = set()

        @pytest.mark.parametrize("number", [1, 2])
        def test_it(number, rocketmq, rocketmq_session):
            seen.add(rocketmq_session.address)
            assert len(seen) == 1
            assert bodies(rocketmq) == []
            rocketmq.topic("T")
            assert rocketmq.address != rocketmq_session.address
        """
    run(pytester, scene).assert_outcomes(passed=2)


def test_settings_come_from_the_ini_file_and_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_settings =\n  brokerName=ini\n  brokerClusterName=C\n")
    scene = """
        def clusters(broker):
            async def ask():
                async with open_admin_client(broker.name_server) as admin:
                    return (await admin.cluster_info()).cluster_addr_table

            return {name: set(brokers) for name, brokers in trio.run(ask).items()}

        def test_ini(rocketmq_session):
            assert clusters(rocketmq_session) == {"C": {"ini"}}

        @pytest.mark.rocketmq(brokerName="marker", disk="simulated")
        def test_marker(rocketmq):
            assert clusters(rocketmq) == {"C": {"marker"}}
            rocketmq.lose_power()
        """
    run(pytester, scene).assert_outcomes(passed=2)


WRONG = {
    "brokerNam='x'": "unknown key brokerNam has no effect; did you mean brokerName?",
    "defaultTopicQueueNums=0": "defaultTopicQueueNums = '0': expected",
    "listenPort=1": "listenPort: the fixture chooses it",
    "disk='floppy'": "disk = 'floppy': expected one of temporary, simulated",
}
"""Arguments of the marker, and what the error of the test says."""


def test_a_wrong_setting_fails_the_test_with_a_sentence(pytester: pytest.Pytester) -> None:
    tests = [
        f"@pytest.mark.rocketmq({marker})\ndef test_{number}_{fixture}({fixture}): pass\n"
        for number, marker in enumerate(WRONG)
        for fixture in ("rocketmq", "rocketmq_process")
    ]
    result = run(pytester, "".join(tests))
    result.assert_outcomes(errors=len(tests))
    errors = [line for line in result.outlines if line.startswith("E ")]
    for sentence in WRONG.values():
        assert len([line for line in errors if sentence in line]) == 2, (sentence, errors)


def test_a_broker_that_dies_fails_the_test_with_its_reason(pytester: pytest.Pytester) -> None:
    scene = """
        def test_it(rocketmq):
            async def fail():
                def raise_it(*_):
                    raise AssertionError("a planted failure")

                rocketmq._faults.require_alive = raise_it
                rocketmq._home.clock.skip(60)
                await rocketmq._life.wait_ended()

            rocketmq._home.call(fail)
        """
    result = run(pytester, scene)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BrokerDied: the broker of the fixture has died: AssertionError: a planted failure*"])


def test_a_process_that_dies_fails_the_test_with_its_output(pytester: pytest.Pytester) -> None:
    scene = """
        def test_it(rocketmq_process):
            os.kill(rocketmq_process.pid, signal.SIGKILL)
            deadline = time.monotonic() + 150
            while rocketmq_process._process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
        """
    result = run(pytester, scene)
    result.assert_outcomes(failed=1)
    sentence = "*BrokerDied: the broker of the fixture has ended by SIGKILL: *"
    result.stdout.fnmatch_lines([sentence, "*boot success*"])


def test_a_failing_test_leaves_no_thread_no_process_no_file_and_no_descriptor(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("temporary")
    scene = f"""
        tempfile.tempdir = {str(folder)!r}

        def descriptors():
            return len(os.listdir("/proc/self/fd"))

        def test_warm(rocketmq, rocketmq_process):
            pass

        def test_before():
            global before
            before = descriptors()

        def test_fails(rocketmq, rocketmq_process):
            global pid
            pid = rocketmq_process.pid
            rocketmq.pause()
            rocketmq_process.pause()
            assert False

        def test_after():
            assert [each.name for each in threading.enumerate()] == ["MainThread"]
            assert descriptors() == before
            assert os.listdir(tempfile.tempdir) == []
            assert not os.path.exists(f"/proc/{{pid}}")
        """
    run_alone(pytester, PRELUDE + textwrap.dedent(scene)).assert_outcomes(passed=3, failed=1)


def test_the_plugin_loads_nothing_of_a_broker_until_a_test_asks_for_one(pytester: pytest.Pytester) -> None:
    scene = """
        import sys

        def test_it():
            loaded = [name for name in sys.modules if name.partition(".")[0] in ("rocketpy", "trio", "attrs")]
            beside = ["rocketpy.testing", "rocketpy.testing.pytest_plugin"]
            assert sorted(loaded) == ["rocketpy", "rocketpy.compiled", *beside]
        """
    run_alone(pytester, scene).assert_outcomes(passed=1)


def test_no_module_waits_until_pytest_has_rewritten_its_asserts(pytester: pytest.Pytester) -> None:
    """Pytest marks every module of a distribution with a plugin, as the conftest does here: that took four seconds."""
    pytester.makeconftest("import pytest\npytest.register_assert_rewrite('rocketpy')\nimport rocketpy.client\n")
    scene = """
        import sys

        def test_it(rocketmq):
            loaders = {name: type(module.__spec__.loader).__module__ for name, module in list(sys.modules.items())
                       if name.startswith("rocketpy.") and module.__spec__}
            assert len(loaders) > 200
            rewritten = {name for name, loader in loaders.items() if loader.startswith("_pytest")}
            assert rewritten == {"rocketpy.testing.pytest_plugin"}
        """
    run_alone(pytester, scene).assert_outcomes(passed=1)


def test_imports_are_as_they_were_after_a_run(pytester: pytest.Pytester) -> None:
    before = list(sys.meta_path)
    run(pytester, "def test_it(): pass").assert_outcomes(passed=1)
    assert sys.meta_path == before


def test_programs_do_not_load_pytest() -> None:
    code = (
        "import sys, rocketpy.client, rocketpy.broker.app, rocketpy.nameserver.app, rocketpy.cli.__main__\n"
        "print('pytest' in sys.modules, '_pytest' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env={**os.environ}
    ).stdout
    assert output.split() == ["False", "False"]


@pytest.mark.skipif(not _IS_INSTALLED, reason="the checkout was installed before it had the entry point")
def test_pytest_finds_the_plugin_by_its_entry_point(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    pytester.makepyfile("def test_it(rocketmq): pass")
    pytester.runpytest_inprocess().assert_outcomes(passed=1)
