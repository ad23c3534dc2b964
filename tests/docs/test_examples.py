"""The programs of ``docs/examples`` run against our broker, and print what they say.

``tests/interop/test_examples.py`` runs them against Java's.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

from rocketpy.client import open_admin_client
from rocketpy.testing.fixture.in_thread import BrokerInThread, open_broker_in_thread
from rocketpy.testing.fixture.options import BrokerOptions
from tests.client.real_cluster import open_real_cluster
from tests.docs.example_programs import (
    ACCESS_KEY,
    ACCOUNTS,
    BROKER_SETTINGS,
    EXAMPLES,
    PRINTED,
    SECRET_KEY,
    run_example,
)
from tests.patience import PATIENCE_SECONDS

CLIENT_PAGE = (EXAMPLES.parent / "client.md").read_text()


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerInThread]:
    with open_broker_in_thread(BrokerOptions(settings=BROKER_SETTINGS)) as broker:
        yield broker


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_says(broker: BrokerInThread, tmp_path: Path, name: str) -> None:
    printed = run_example(name, broker.name_server, home=tmp_path)
    assert re.fullmatch(PRINTED[name], printed), printed


def test_simple_sends_all_that_it_says(broker: BrokerInThread, tmp_path: Path) -> None:
    broker.topic("Simple")
    before = len(broker.messages("Simple"))
    run_example("simple", broker.name_server, home=tmp_path)
    bodies = sorted(message.body.decode() for message in broker.messages("Simple")[before:])
    assert bodies[:10] == [f"message {number}" for number in range(10)]
    assert bodies[10:] in ([], ["stored or not"])


async def test_administer_serves_a_nameserver_of_two_clusters(tmp_path: Path) -> None:
    """A group, and the progress of a queue, are of one broker each."""
    other: dict[str, object] = {"broker_cluster_name": "Other", "broker_name": "other"}
    for directory in ("first", "second"):
        (tmp_path / directory).mkdir()
    async with (
        open_real_cluster(tmp_path / "first") as first,
        open_real_cluster(tmp_path / "second", namesrv_addr=first.address, **other),
        open_admin_client(first.address) as admin,
    ):
        with trio.fail_after(PATIENCE_SECONDS):
            while len((await admin.cluster_info()).cluster_addr_table) < 2:
                await trio.sleep(0.01)
        printed = await trio.to_thread.run_sync(partial(run_example, "administer", first.address, home=tmp_path))
    assert re.fullmatch(PRINTED["administer"], printed), printed


def test_pull_goes_on_where_it_has_ended(broker: BrokerInThread, tmp_path: Path) -> None:
    broker.topic("Simple")
    run_example("simple", broker.name_server, home=tmp_path)
    count = len(broker.messages("Simple"))
    *lines, last = run_example("pull", broker.name_server, "Simple", home=tmp_path).splitlines()
    assert (len(lines), last) == (count + 1, f"{count + 1} messages")
    assert all(re.fullmatch(r"\d+ \d+ (message \d|stored or not|one more)", line) for line in lines), lines
    again = run_example("pull", broker.name_server, "Simple", home=tmp_path)
    assert re.fullmatch(r"\d+ \d+ one more\n1 messages\n", again), again


def test_acl_is_refused_without_a_signature_only(tmp_path: Path) -> None:
    (tmp_path / "plain_acl.yml").write_text(ACCOUNTS)
    settings = {"aclEnable": "true", "aclDirectory": str(tmp_path)}
    with open_broker_in_thread(BrokerOptions(settings=settings)) as broker:
        printed = run_example("acl", broker.name_server, ACCESS_KEY, SECRET_KEY, home=tmp_path)
    refusal, message = printed.splitlines()
    assert refusal.startswith("refused: ")
    assert "No accessKey is configured" in refusal
    assert message == "signed"


def test_each_example_has_a_test_says_how_to_run_it_and_is_on_the_page_of_the_client() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(PRINTED)
    for name in PRINTED:
        assert f"(examples/{name}.py)" in CLIENT_PAGE, name
        text = (EXAMPLES / f"{name}.py").read_text()
        assert f"python {name}.py 127.0.0.1:9876" in text, name
        assert re.search(r"\bPrints\s", text), name


def test_an_example_is_a_program(broker: BrokerInThread, tmp_path: Path) -> None:
    """With a process of its own, in which every warning is an error."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / "group.py"), broker.name_server]
    environment = {"HOME": str(tmp_path), "PYTHONPATH": str(EXAMPLES.parents[1])}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "10 messages\n", "")
