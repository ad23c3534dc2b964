"""The pytest plugin as its users meet it: each test here is a run of pytest in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = "rocketpy.testing.pytest_plugin"
_IS_INSTALLED = any(each.value == PLUGIN for each in entry_points(group="pytest11"))

SEND = """
from rocketpy.client import Message, open_producer

async def send(name_server, *bodies, topic="T"):
    async with open_producer(name_server) as producer:
        for body in bodies:
            await producer.send(Message(topic, body))
"""


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is found in this checkout, and no other one is loaded."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    pytester.makepyfile(text)
    return pytester.runpytest_subprocess("-p", PLUGIN, "--strict-markers", *options)


def test_a_plain_test_sends_and_looks(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        SEND + "import trio\n"
        "def test_it(rocketmq):\n"
        "    rocketmq.topic('T', queues=1)\n"
        "    trio.run(send, rocketmq.name_server, b'one', b'two')\n"
        "    assert [each.body for each in rocketmq.messages('T')] == [b'one', b'two']\n",
    )
    result.assert_outcomes(passed=1)


def test_a_test_under_pytest_trio_may_use_the_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        SEND + "import pytest\n"
        "@pytest.mark.trio\n"
        "async def test_it(rocketmq):\n"
        "    await send(rocketmq.name_server, b'one')\n"
        "    assert [each.body for each in rocketmq.messages('T')] == [b'one']\n",
        "-p",
        "pytest_trio.plugin",
    )
    result.assert_outcomes(passed=1)


def test_a_test_with_an_asyncio_program_may_use_the_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import asyncio\n"
        "from rocketpy.client import Message, aio\n"
        "def test_it(rocketmq):\n"
        "    async def main():\n"
        "        async with aio.open_producer(rocketmq.name_server) as producer:\n"
        "            await producer.send(Message('T', b'later', {'DELAY': '18'}))\n"
        "            rocketmq.advance(7201)\n"
        "            await producer.send(Message('T', b'one'))\n"
        "    asyncio.run(main())\n"
        "    assert [each.body for each in rocketmq.messages('T')] == [b'later', b'one']\n",
    )
    result.assert_outcomes(passed=1)


def test_threads_of_plain_code_may_use_the_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "from concurrent.futures import ThreadPoolExecutor\n"
        "from rocketpy.client import Message, blocking\n"
        "def test_it(rocketmq):\n"
        "    with blocking.open_producer(rocketmq.name_server) as producer, ThreadPoolExecutor(4) as pool:\n"
        "        list(pool.map(lambda number: producer.send(Message('T', b'%d' % number)), range(20)))\n"
        "        counts = list(pool.map(lambda _: len(rocketmq.messages('T')), range(4)))\n"
        "    assert counts == [20] * 4\n",
    )
    result.assert_outcomes(passed=1)


def test_a_unittest_case_may_use_the_fixture(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        SEND + "import unittest, pytest, trio\n"
        "class TestIt(unittest.TestCase):\n"
        "    @pytest.fixture(autouse=True)\n"
        "    def _broker(self, rocketmq):\n"
        "        self.broker = rocketmq\n"
        "    def test_it(self):\n"
        "        trio.run(send, self.broker.name_server, b'one')\n"
        "        self.assertEqual(len(self.broker.messages('T')), 1)\n",
    )
    result.assert_outcomes(passed=1)


def test_the_broker_of_a_session_is_one_and_that_of_a_test_its_own(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import pytest\n"
        "seen = set()\n"
        "@pytest.mark.parametrize('number', [1, 2])\n"
        "def test_it(number, rocketmq, rocketmq_session):\n"
        "    seen.add(rocketmq_session.address)\n"
        "    assert len(seen) == 1\n"
        "    assert rocketmq.messages('T') == []\n"
        "    rocketmq.topic('T')\n"
        "    assert rocketmq.address != rocketmq_session.address\n",
    )
    result.assert_outcomes(passed=2)


def test_settings_come_from_the_ini_file_and_the_marker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nrocketmq_settings =\n  brokerName=ini\n  brokerClusterName=C\n")
    result = run(
        pytester,
        "import pytest\n"
        "from rocketpy.client import open_admin_client\n"
        "import trio\n"
        "async def clusters(address):\n"
        "    async with open_admin_client(address) as admin:\n"
        "        return (await admin.cluster_info()).cluster_addr_table\n"
        "def found(broker):\n"
        "    return {name: set(each) for name, each in trio.run(clusters, broker.name_server).items()}\n"
        "def test_ini(rocketmq_session):\n"
        "    assert found(rocketmq_session) == {'C': {'ini'}}\n"
        "@pytest.mark.rocketmq(brokerName='marker', disk='simulated')\n"
        "def test_marker(rocketmq):\n"
        "    assert found(rocketmq) == {'C': {'marker'}}\n"
        "    rocketmq.lose_power()\n",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("marker", "sentence"),
    [
        ("brokerNam='x'", "*unknown key brokerNam has no effect; did you mean brokerName?*"),
        ("defaultTopicQueueNums=0", "*defaultTopicQueueNums = '0': expected*"),
        ("listenPort=1", "*listenPort: the fixture chooses it*"),
        ("disk='floppy'", "*disk = 'floppy': expected one of temporary, simulated*"),
    ],
)
@pytest.mark.parametrize("fixture", ["rocketmq", "rocketmq_process"])
def test_a_wrong_setting_fails_the_test_with_a_sentence(
    pytester: pytest.Pytester, fixture: str, marker: str, sentence: str
) -> None:
    text = f"import pytest\n@pytest.mark.rocketmq({marker})\ndef test_it({fixture}): pass\n"
    result = run(pytester, text)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([sentence])


def test_a_broker_that_dies_fails_the_test_with_its_reason(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import trio\n"
        "def test_it(rocketmq):\n"
        "    async def fail():\n"
        "        def raise_it(*_):\n"
        "            raise AssertionError('a planted failure')\n"
        "        rocketmq._faults.require_alive = raise_it\n"
        "        rocketmq._home.clock.skip(60)\n"
        "        await rocketmq._life.wait_ended()\n"
        "    rocketmq._home.call(fail)\n",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*BrokerDied: the broker of the fixture has died: AssertionError: a planted failure*"])


def test_a_process_that_dies_fails_the_test_with_its_output(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import os, signal, time\n"
        "def test_it(rocketmq_process):\n"
        "    os.kill(rocketmq_process.pid, signal.SIGKILL)\n"
        "    deadline = time.monotonic() + 60\n"
        "    while rocketmq_process._popen.poll() is None and time.monotonic() < deadline: time.sleep(0.01)\n",
    )
    result.assert_outcomes(failed=1)
    sentence = "*BrokerDied: the broker of the fixture has ended by SIGKILL: *"
    result.stdout.fnmatch_lines([sentence, "*boot success*"])


def test_a_failing_test_leaves_no_thread_no_process_no_file_and_no_descriptor(pytester: pytest.Pytester) -> None:
    folder = pytester.mkdir("temporary")
    result = run(
        pytester,
        "import os, tempfile, threading\n"
        f"tempfile.tempdir = {str(folder)!r}\n"
        "def descriptors():\n"
        "    return len(os.listdir('/proc/self/fd'))\n"
        "def test_warm(rocketmq, rocketmq_process): pass\n"
        "def test_before():\n"
        "    global before\n"
        "    before = descriptors()\n"
        "def test_fails(rocketmq, rocketmq_process):\n"
        "    global pid\n"
        "    pid = rocketmq_process.pid\n"
        "    rocketmq.pause()\n"
        "    rocketmq_process.pause()\n"
        "    assert False\n"
        "def test_after():\n"
        "    assert [each.name for each in threading.enumerate()] == ['MainThread']\n"
        "    assert descriptors() == before\n"
        f"    assert os.listdir({str(folder)!r}) == []\n"
        "    assert not os.path.exists(f'/proc/{pid}')\n",
    )
    result.assert_outcomes(passed=3, failed=1)


def test_the_plugin_loads_nothing_of_a_broker_until_a_test_asks_for_one(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        "import sys\n"
        "def test_it():\n"
        "    loaded = [name for name in sys.modules if name.partition('.')[0] in ('rocketpy', 'trio', 'attrs')]\n"
        "    assert sorted(loaded) == ['rocketpy', 'rocketpy.testing', 'rocketpy.testing.pytest_plugin']\n",
    )
    result.assert_outcomes(passed=1)


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
    pytester.runpytest_subprocess().assert_outcomes(passed=1)
