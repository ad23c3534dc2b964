"""Access control with Java: its clients that sign against our broker, its tools, and our client against its broker."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

from rocketpy.client.admin import open_admin_client
from rocketpy.client.config import ClientConfig
from rocketpy.client.producer import open_producer
from rocketpy.client.pull_consumer import open_pull_consumer
from rocketpy.client.results import SendStatus
from rocketpy.errors import RocketpyError
from rocketpy.protocol.message import Message
from rocketpy.protocol.signature import SessionCredentials
from tests.interop.clients import Program, java_command
from tests.interop.cluster import Cluster, start_cluster

pytestmark = pytest.mark.java

REFUSED = "org.apache.rocketmq.acl.common.AclException: "
ACCOUNTS = """\
# Who may do what in these tests.
globalWhiteRemoteAddresses: []   # nobody
accounts:
  # of programs
  - accessKey: an-account   # its name
    secretKey: a-secret
    defaultGroupPerm: DENY
    topicPerms:
      - allowed=PUB|SUB   # both
      - read-only=SUB
    groupPerms: [a-group=SUB]
  - accessKey: white-account
    secretKey: a-secret
    whiteRemoteAddress: 127.0.0.*
  # of people
  - accessKey: the-admin
    secretKey: another-secret
    admin: true
"""
ADMIN = SessionCredentials("the-admin", "another-secret")


def with_accounts(directory: Path) -> dict[str, object]:
    """Write the accounts and return the settings of a broker that has them."""
    directory.mkdir(parents=True)
    (directory / "plain_acl.yml").write_text(ACCOUNTS)
    return {"aclEnable": "true", "aclDirectory": directory}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A rocketpy cluster whose broker has accounts and two topics."""
    directory = tmp_path_factory.mktemp("guarded")
    cluster = start_cluster("rocketpy", directory, settings=with_accounts(directory / "accounts"))
    try:
        trio.run(create_topics, cluster)
        yield cluster
    finally:
        cluster.stop()


async def create_topics(cluster: Cluster) -> None:
    async with open_admin_client(cluster.namesrv, config=ClientConfig(credentials=ADMIN)) as admin:
        for topic in ("allowed", "read-only", "denied"):
            await admin.create_topic(topic, queue_nums=1)


def outcomes(cluster: Cluster, directory: Path, *steps: dict[str, object], **who: str) -> list[str]:
    """Run a Java client through its steps and return what came of each."""
    given = {"namesrv": cluster.namesrv, "group": "a-group", **who}
    program = Program("java", "acl", directory, **given)
    lines = program.run(json.dumps(step) + "\n" for step in steps)
    return [str(line["outcome"]) for line in lines if line["event"] == "done"]


def test_an_account_may_do_what_it_may(guarded: Cluster, tmp_path: Path) -> None:
    who = {"access": "an-account", "secret": "a-secret"}
    sent, batch, read_only, denied, came, found, gone = outcomes(
        guarded,
        tmp_path,
        {"send": "allowed"},
        {"batch": "allowed"},
        {"send": "read-only"},
        {"send": "denied"},
        {"consume": "allowed", "count": 4, "within_s": 40},
        {"byKey": "allowed", "key": "akey"},
        {"byKey": "denied", "key": "akey"},
        **who,
    )
    assert len(sent) >= 32
    assert batch == "SEND_OK"
    assert f"{REFUSED}No default permission for topic:read-only" in read_only
    assert f"{REFUSED}No default permission for topic:denied" in denied
    assert came == "4", "with heartbeats, offsets and the list of the group, all signed"
    assert found == "1"
    assert "No default permission" in gone or "no message" in gone.lower()
    (by_id,) = outcomes(guarded, tmp_path, {"byId": "allowed", "id": sent}, token="a-token", **who)
    assert by_id == "found", "Java's own broker refuses a query by unique id"


@pytest.mark.parametrize(
    ("who", "why"),
    [
        ({}, "No accessKey is configured"),
        ({"access": "an-account", "secret": "wrong-secret"}, "Check signature failed for accessKey=an-account"),
        ({"access": "nobody-here", "secret": "a-secret"}, "No acl config for nobody-here"),
    ],
    ids=["unsigned", "wrong secret", "unknown"],
)
def test_whoever_is_not_known_may_do_nothing(guarded: Cluster, tmp_path: Path, who: dict[str, str], why: str) -> None:
    sent, batch = outcomes(guarded, tmp_path, {"send": "allowed"}, {"batch": "allowed"}, **who)
    assert f"CODE: 1  DESC: {REFUSED}{why}" in sent
    assert why in batch


def test_another_group_gets_nothing(guarded: Cluster, tmp_path: Path) -> None:
    who = {"access": "an-account", "secret": "a-secret", "group": "other-group"}
    assert outcomes(guarded, tmp_path, {"consume": "allowed", "count": 1, "within_s": 5}, **who) == ["0"]


def test_a_white_address_needs_no_signature(guarded: Cluster, tmp_path: Path) -> None:
    who = {"access": "white-account", "secret": "wrong-secret"}
    sent, batch = outcomes(guarded, tmp_path, {"send": "denied"}, {"batch": "denied"}, **who)
    assert len(sent) >= 32
    assert batch == "SEND_OK"


Mqadmin = Callable[..., str]


@pytest.fixture
def mqadmin(tmp_path: Path) -> Mqadmin:
    """Return a function that runs ``mqadmin`` as an administrator."""
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "logback_tools.xml").write_text('<configuration><root level="OFF"/></configuration>\n')
    (conf / "tools.yml").write_text("accessKey: the-admin\nsecretKey: another-secret\n")
    start = [*java_command(tmp_path), "org.apache.rocketmq.tools.command.MQAdminStartup"]
    start[1:1] = [f"-Drocketmq.home.dir={tmp_path}"]

    def run(*arguments: str) -> str:
        done = subprocess.run([*start, *arguments], capture_output=True, timeout=60, check=False, cwd=tmp_path)
        printed = done.stdout.decode() + done.stderr.decode()
        return "\n".join(line for line in printed.splitlines() if "|-" not in line).strip()

    return run


def test_mqadmin_changes_accounts_and_keeps_the_comments(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, mqadmin: Mqadmin
) -> None:
    directory = tmp_path_factory.mktemp("edited")
    cluster = start_cluster("rocketpy", directory, settings=with_accounts(directory / "accounts"))
    file = directory / "accounts" / "plain_acl.yml"
    at = ["-b", cluster.brokers["broker-0"], "-n", cluster.namesrv]
    try:
        trio.run(create_topics, cluster)
        perms = ["-t", "allowed=PUB,denied=DENY", "-m", "false"]
        added = mqadmin("updateAclConfig", *at, "-a", "newcomer", "-s", "new-secret", *perms)
        assert f"create or update plain access config to {cluster.brokers['broker-0']} success." in added
        (sent,) = outcomes(cluster, tmp_path / "a", {"send": "allowed"}, access="newcomer", secret="new-secret")
        assert len(sent) >= 32, "it counts at once"
        assert "success" in mqadmin("updateAclConfig", *at, "-a", "an-account", "-s", "changed-secret")
        assert "success" in mqadmin("updateGlobalWhiteAddr", *at, "-g", "10.10.10.1,10.10.10.2")
        shown = mqadmin("getAclConfig", *at)
        assert "globalWhiteRemoteAddresses: [10.10.10.1, 10.10.10.2]" in shown
        assert "changed-secret" in shown
        assert "topicPerms        : [allowed=PUB, denied=DENY]" in shown
        assert re.search(rf"{re.escape(str(file))}\s+3\s", mqadmin("clusterAclConfigVersion", *at))
        assert "success" in mqadmin("deleteAclConfig", *at, "-a", "newcomer")
        (gone,) = outcomes(cluster, tmp_path / "b", {"send": "allowed"}, access="newcomer", secret="new-secret")
        assert "No acl config for newcomer" in gone
        (tmp_path / "conf" / "tools.yml").write_text("accessKey: an-account\nsecretKey: changed-secret\n")
        stolen = mqadmin("updateAclConfig", *at, "-a", "thief-1", "-s", "stolen-1")
        assert "Need admin permission for request code=50" in stolen
    finally:
        cluster.stop()
    text = file.read_text()
    for line in ACCOUNTS.splitlines():
        if "#" in line:
            assert line[line.index("#") :] in text
    assert "newcomer" not in text


def test_our_client_signs_for_javas_broker(tmp_path: Path, java_jars: Path) -> None:
    """``java_jars`` is there so that the test is skipped without them."""
    assert java_jars
    conf = tmp_path / "cluster" / "broker-0-home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    cluster = start_cluster("java", tmp_path / "cluster", settings={"aclEnable": "true"})
    try:
        trio.run(_use, cluster)
    finally:
        cluster.stop()


async def _use(cluster: Cluster) -> None:
    config = ClientConfig(credentials=ADMIN)
    await create_topics(cluster)
    async with open_producer(cluster.namesrv, group="a-group", config=config) as producer:
        result = await producer.send(Message("allowed", b"signed"))
        assert result.status is SendStatus.SEND_OK
    async with open_producer(cluster.namesrv, group="a-group") as producer:
        with pytest.raises(RocketpyError, match="No accessKey is configured"):
            await producer.send(Message("allowed", b"unsigned"))
    async with open_pull_consumer(cluster.namesrv, group="a-group", config=config) as consumer:
        (queue,) = await consumer.queues("allowed")
        pulled = await consumer.pull(queue, 0)
        assert [each.body for each in pulled.messages] == [b"signed"]
