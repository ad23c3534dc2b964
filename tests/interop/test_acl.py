"""Access control with Java: its clients that sign against our broker, its tools, and our client against its broker."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Iterator
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.client.client import open_admin_client, open_producer
from rocketpy.client.config import ClientConfig
from rocketpy.client.results import SendStatus
from rocketpy.errors import BrokerError, RocketpyError
from rocketpy.protocol.bodies.acl import PlainAccessConfig
from rocketpy.protocol.message import Message
from rocketpy.protocol.signature import SessionCredentials
from tests.docs.example_programs import run_example
from tests.interop.clients import Program
from tests.interop.cluster import Cluster, start_cluster
from tests.interop.mqadmin_session import MqadminSession
from tests.patience import PATIENCE_SECONDS

pytestmark = pytest.mark.java

REFUSED = "org.apache.rocketmq.acl.common.AclException: "
ACCOUNTS = """\
# Who may do what in these tests.
globalWhiteRemoteAddresses: []   # no address
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
        {"consume": "allowed", "count": 4, "within_s": 150},
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
def test_an_unknown_account_may_do_nothing(guarded: Cluster, tmp_path: Path, who: dict[str, str], why: str) -> None:
    sent, batch = outcomes(guarded, tmp_path, {"send": "allowed"}, {"batch": "allowed"}, **who)
    assert f"CODE: 1  DESC: {REFUSED}{why}" in sent
    assert why in batch


OPERATOR = "accessKey: the-admin\nsecretKey: another-secret\n"


def test_mqadmin_changes_accounts_and_keeps_the_comments(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("edited")
    cluster = start_cluster("rocketpy", directory, settings=with_accounts(directory / "accounts"))
    try:
        trio.run(create_topics, cluster)
        with MqadminSession(cluster, tmp_path / "tool", tools_yml=OPERATOR) as session:
            change_accounts(session, tmp_path, directory / "accounts" / "plain_acl.yml")
    finally:
        cluster.stop()
    text = (directory / "accounts" / "plain_acl.yml").read_text()
    for line in ACCOUNTS.splitlines():
        if "#" in line:
            assert line[line.index("#") :] in text
    assert "newcomer" not in text


def change_accounts(session: MqadminSession, directory: Path, file: Path) -> None:
    """Let the administrator change accounts, and see what becomes of those who have them."""
    cluster = session.cluster
    newcomer = {"access": "newcomer", "secret": "new-secret"}

    def mqadmin(*arguments: str) -> str:
        return session.run([*arguments, "-b", "{broker}", "-n", "{namesrv}"]).text

    added = mqadmin(
        "updateAclConfig", "-a", "newcomer", "-s", "new-secret", "-t", "allowed=PUB,denied=DENY", "-m", "false"
    )
    assert f"create or update plain access config to {cluster.brokers['broker-0']} success." in added
    (sent,) = outcomes(cluster, directory / "a", {"send": "allowed"}, **newcomer)
    assert len(sent) >= 32, "it counts at once"
    assert "success" in mqadmin("updateAclConfig", "-a", "an-account", "-s", "changed-secret")
    assert "success" in mqadmin("updateGlobalWhiteAddr", "-g", "10.10.10.1,10.10.10.2")
    shown = mqadmin("getAclConfig")
    assert "globalWhiteRemoteAddresses: [10.10.10.1, 10.10.10.2]" in shown
    assert "newcomer" in shown
    assert "secret" not in shown.replace("secretKey", ""), "no request reads a secret key"
    assert "topicPerms        : [allowed=PUB, denied=DENY]" in shown
    assert re.search(rf"{re.escape(str(file))}\s+3\s", mqadmin("clusterAclConfigVersion"))
    assert "success" in mqadmin("deleteAclConfig", "-a", "newcomer")
    (gone,) = outcomes(cluster, directory / "b", {"send": "allowed"}, **newcomer)
    assert "No acl config for newcomer" in gone
    session.sign_as("accessKey: an-account\nsecretKey: changed-secret\n")
    assert "Need admin permission for request code=50" in mqadmin("updateAclConfig", "-a", "thief-1", "-s", "stolen-1")


@pytest.fixture(scope="module")
def guarded_java(tmp_path_factory: pytest.TempPathFactory, java_jars: Path) -> Iterator[Cluster]:
    """A Java cluster whose broker has the same accounts and topics; ``java_jars`` skips its tests without them."""
    assert java_jars
    directory = tmp_path_factory.mktemp("guarded-java")
    conf = directory / "broker-0-home" / "conf"
    conf.mkdir(parents=True)
    (conf / "plain_acl.yml").write_text(ACCOUNTS)
    cluster = start_cluster("java", directory, settings={"aclEnable": "true"})
    try:
        trio.run(create_topics, cluster)
        yield cluster
    finally:
        cluster.stop()


def test_the_example_is_refused_without_a_signature_only(guarded_java: Cluster, tmp_path: Path) -> None:
    printed = run_example("acl", guarded_java.namesrv, ADMIN.access_key, ADMIN.secret_key, home=tmp_path)
    refusal, message = printed.splitlines()
    assert "No accessKey is configured" in refusal
    assert message == "signed"


async def outcome_of(call: Awaitable[object]) -> object:
    """Return what a call returns, or the code and remark of its refusal, without secrets and the line of Java."""
    try:
        return await call
    except BrokerError as failure:
        remark = str(failure.remark).partition(", org.apache.rocketmq")[0]
        return failure.response_code, re.sub("secretKey=[^ ]+", "secretKey=******", remark)


async def administer_accounts(cluster: Cluster) -> list[object]:
    """Make each call about accounts; return what came of them and what the account could do then."""
    (broker,) = cluster.brokers.values()
    newcomer = SessionCredentials("newcomer", "new-secret")
    account = PlainAccessConfig(
        newcomer.access_key,
        newcomer.secret_key,
        default_topic_perm="DENY",
        default_group_perm="SUB",
        topic_perms=["allowed=PUB|SUB", "denied=DENY"],
        group_perms=["a-group=SUB"],
    )
    found: list[object] = []

    async def may_send(topic: str, *, signed: bool = True) -> bool:
        config = ClientConfig(credentials=newcomer if signed else None)
        async with open_producer(cluster.namesrv, group="a-group", config=config) as producer:
            try:
                return (await producer.send(Message(topic, b"sent"))).status is SendStatus.SEND_OK
            except RocketpyError:
                return False

    async with (
        open_admin_client(cluster.namesrv, config=ClientConfig(credentials=ADMIN)) as admin,
        open_admin_client(cluster.namesrv, config=ClientConfig(credentials=newcomer)) as admin_of_newcomer,
    ):

        async def note(*calls: Awaitable[object]) -> None:
            """Note what comes of calls, and which state of the accounts that has led to."""
            found.append([await outcome_of(call) for call in calls])
            info = await admin.accounts.version(broker)
            assert info.broker_addr == broker
            versions = (info.all_acl_config_data_version or {}).items()
            found.append(
                (info.broker_name, info.cluster_name, {Path(path).name: each.counter for path, each in versions})
            )

        accounts, accounts_of_newcomer = admin.accounts, admin_of_newcomer.accounts
        await note(accounts.update(broker, account))
        await note(may_send("allowed"), may_send("denied"), may_send("allowed", signed=False))
        await note(accounts.update(broker, attrs.evolve(account, topic_perms=["denied=PUB"])))
        await note(may_send("allowed"), may_send("denied"))
        await note(accounts.update(broker, PlainAccessConfig("short", "x")))
        await note(accounts.delete(broker, newcomer.access_key), accounts.delete(broker, newcomer.access_key))
        await note(accounts_of_newcomer.version(broker), may_send("allowed"))
        await note(accounts.update_global_white_addresses(broker, ["127.0.0.1", "10.10.10.*"]))
        with trio.fail_after(PATIENCE_SECONDS):  # Java's broker looks at its files every five seconds
            while not await may_send("denied", signed=False):
                await trio.sleep(0.05)
        await note(accounts.update_global_white_addresses(broker, ["10.10.10.1"]))
    return found


def test_our_admin_changes_accounts_of_both_brokers_alike(guarded_java: Cluster, guarded: Cluster) -> None:
    of_java, of_ours = trio.run(administer_accounts, guarded_java), trio.run(administer_accounts, guarded)
    assert of_ours == of_java
    assert of_ours[0] == [None]
