"""Accounts by command: what Java recorded first, then what it does not answer."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rocketpy.broker.acl.plain_permission import PlainPermissionManager
from rocketpy.broker.admin.accounts import GET_BROKER_CLUSTER_ACL_CONFIG, AdminAclProcessor
from rocketpy.broker.config import BrokerConfig
from rocketpy.clock import ManualClock
from rocketpy.protocol.bodies.acl import AclConfig, PlainAccessConfig
from rocketpy.protocol.bodies.codec import decode_body
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import RemotingCommand
from rocketpy.protocol.frame import decode_frame, encode_frame
from rocketpy.protocol.signature import SessionCredentials
from rocketpy.remoting.dispatch import Dispatcher
from rocketpy.testing.sim.disk import SimDisk
from tests.broker.acl.accounts import ACCOUNTS, ADMIN, DEFAULT, DIRECTORY, make_manager, read_file, signed
from tests.broker.broker_on_bytes import Transport, connect_to, received

FRAMES = Path(__file__).parents[2] / "golden" / "frames.jsonl.gz"
ACL_CODES = (
    RequestCode.UPDATE_AND_CREATE_ACL_CONFIG,
    RequestCode.DELETE_ACL_CONFIG,
    RequestCode.GET_BROKER_CLUSTER_ACL_INFO,
    RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG,
    GET_BROKER_CLUSTER_ACL_CONFIG,
)
FAILED = {50: 209, 51: 210, 53: 211, 52: 1, 54: 1}
GOLDEN_ADMIN = SessionCredentials("goldenAdmin", "golden12345678")
UPDATE = {"accessKey": "newcomer", "secretKey": "secret-1", "admin": "false"}
JAVAS_FIRST_FILE = """\
globalWhiteRemoteAddresses:
- 10.10.103.*
accounts:
- accessKey: goldenAdmin
  secretKey: golden12345678
  admin: true
- accessKey: goldenUser
  secretKey: user12345678
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - GoldTopic=PUB|SUB
  - GoldDenied=DENY
  - GoldSubOnly=SUB
  groupPerms:
  - GoldGroup=PUB|SUB
  - GoldDeniedGroup=DENY
"""


class AclBroker:
    """The processor with its own authorization, over bytes."""

    def __init__(self, manager: PlainPermissionManager | None) -> None:
        self.dispatcher = Dispatcher(authorize=None if manager is None else manager.authorize)
        config = BrokerConfig(broker_name="broker-0", broker_cluster_name="DefaultCluster")
        AdminAclProcessor(manager=manager, config=config, broker_addr="127.0.0.1:22911").register(self.dispatcher)
        self.transport = Transport(lambda connection: None)

    async def ask(self, request: RemotingCommand) -> RemotingCommand:
        connection = connect_to(self.dispatcher, self.transport, ("10.0.0.1", 1234))
        connection.receive(encode_frame(request))
        connection.serve(1)
        while self.transport.tasks:
            function, arguments = self.transport.tasks.pop()
            await function(*arguments)
        (answer,) = received(connection)
        return answer


def recorded(run: str) -> Iterator[tuple[RemotingCommand, RemotingCommand]]:
    """Requests and answers about accounts, in the order in which Java got them."""
    waiting: dict[tuple[str, int], RemotingCommand] = {}
    with gzip.open(FRAMES, "rt") as lines:
        for frame in map(json.loads, lines):
            if frame["run"] == run and frame["request_code"] in ACL_CODES:
                command = decode_frame(bytes.fromhex(frame["frame_hex"]))
                key = (frame["connection"], command.opaque)
                if frame["kind"] == "request":
                    waiting[key] = command
                else:
                    yield waiting.pop(key), command


def without_times(fields: dict[str, str] | None) -> dict[str, object]:
    """The fields of an answer; of versions only the counters, of paths only the name."""
    shown: dict[str, object] = dict(fields or {})
    shown.pop("version", None)  # RocketMQ's is that of its last reload, ours that of the file
    if "allAclFileVersion" in shown:
        versions = json.loads(str(shown["allAclFileVersion"]))
        shown["allAclFileVersion"] = {path.rpartition("/")[2]: each["counter"] for path, each in versions.items()}
    return shown


@pytest.mark.parametrize("run", ["acl", "acl-json"])
async def test_the_requests_that_java_recorded_are_answered_alike(run: str) -> None:
    disk = SimDisk()
    broker = AclBroker(make_manager(JAVAS_FIRST_FILE, disk=disk, clock=ManualClock()))
    asked = []
    for request, wanted in recorded(run):
        answer = await broker.ask(request)
        assert (answer.code, answer.remark) == (wanted.code, wanted.remark), request
        assert without_times(answer.ext_fields) == without_times(wanted.ext_fields), request
        if wanted.body:  # without the secret keys
            assert answer.body == re.sub(rb',"secretKey":"[^"]*"', b"", wanted.body)
        asked.append(request.code)
    assert sorted(set(asked)) == [50, 51, 52, 53, 54]
    java = (Path(__file__).parents[2] / "golden" / "config" / "plain_acl.yml").read_text()
    await broker.ask(signed(51, {"accessKey": "goldenMade"}, by=GOLDEN_ADMIN))
    ours = make_manager(None, disk=disk).config()
    other = SimDisk()
    assert ours == make_manager(java, disk=other).config(), "the file that Java wrote says the same"


async def test_an_account_counts_when_the_answer_comes() -> None:
    disk = SimDisk()
    broker = AclBroker(make_manager(disk=disk))
    fields = UPDATE | {"whiteRemoteAddress": "10.1.*.*", "topicPerms": "a=PUB,b=SUB,", "groupPerms": "g=SUB"}
    assert (await broker.ask(signed(50, fields, by=ADMIN))).code == ResponseCode.SUCCESS
    answer = await broker.ask(signed(54, by=ADMIN))
    accounts = decode_body(answer.body or b"", AclConfig).plain_access_configs or ()
    assert accounts[-1] == PlainAccessConfig(
        "newcomer", None, "10.1.*.*", topic_perms=["a=PUB", "b=SUB"], group_perms=["g=SUB"]
    )
    assert read_file(disk, DEFAULT).startswith(ACCOUNTS)
    assert (await broker.ask(signed(51, {"accessKey": "newcomer"}, by=ADMIN))).code == ResponseCode.SUCCESS
    again = await broker.ask(signed(51, {"accessKey": "newcomer"}, by=ADMIN))
    assert again.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
    assert again.remark == "The accesskey[newcomer] corresponding to accessConfig has been deleted failed."


async def test_the_global_white_list_is_replaced() -> None:
    broker = AclBroker(make_manager())
    answer = await broker.ask(signed(53, {"globalWhiteAddrs": "1.1.1.1,10.0.0.1"}, by=ADMIN))
    assert answer.code == ResponseCode.SUCCESS
    assert (await broker.ask(RemotingCommand(52))).code == ResponseCode.SUCCESS, "we are on the list now"


@pytest.mark.parametrize("path", ["/etc/passwd", f"{DIRECTORY}/acl/new.yml", "plain_acl.yml", f"{DIRECTORY}/../x.yml"])
async def test_no_request_writes_another_file(path: str) -> None:
    disk = SimDisk()
    broker = AclBroker(make_manager(disk=disk))
    fields = {"globalWhiteAddrs": "1.1.1.1", "aclFileFullPath": path}
    answer = await broker.ask(signed(53, fields, by=ADMIN))
    assert answer.code == ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED
    assert answer.remark is not None
    assert answer.remark.startswith("The globalWhiteAddresses[1.1.1.1] has been updated failed.")
    assert path in answer.remark
    assert not disk.exists(path)


@pytest.mark.parametrize(
    ("code", "fields", "remark"),
    [
        (50, UPDATE | {"topicPerms": "GoldTopic"}, "Parse Resource format error for GoldTopic."),
        (50, UPDATE | {"groupPerms": ""}, "Parse Resource format error for ."),
        (50, UPDATE | {"secretKey": "short"}, "The accessKey=newcomer and secretKey=****** cannot be null"),
        (50, {"accessKey": "newcomer", "admin": "true"}, "The accessKey=newcomer and secretKey=null cannot be null"),
        (50, UPDATE | {"whiteRemoteAddress": "here"}, "/conf/plain_acl.yml: Netaddress examine Exception"),
        (53, {"globalWhiteAddrs": "here"}, "Netaddress examine Exception netaddress is here"),
    ],
)
async def test_invalid_accounts_are_refused_in_rocketmqs_words(code: int, fields: dict[str, str], remark: str) -> None:
    disk = SimDisk()
    answer = await AclBroker(make_manager(disk=disk)).ask(signed(code, fields, by=ADMIN))
    assert answer.code == FAILED[code]
    assert answer.remark is not None
    assert answer.remark.startswith(remark.removeprefix("/conf/plain_acl.yml: "))
    assert read_file(disk, DEFAULT) == ACCOUNTS


@pytest.mark.parametrize(
    ("code", "fields"), [(50, UPDATE), (51, {"accessKey": "RocketMQ"}), (53, {"globalWhiteAddrs": "1.1.1.1"})]
)
async def test_a_full_disk_is_an_answer(code: int, fields: dict[str, str]) -> None:
    disk = SimDisk()
    broker = AclBroker(make_manager(disk=disk))
    disk.capacity_bytes = 0
    answer = await broker.ask(signed(code, fields, by=ADMIN))
    assert answer.code == FAILED[code]
    assert answer.remark is not None
    assert "no space" in answer.remark


@pytest.mark.parametrize("code", ACL_CODES)
async def test_a_missing_field_is_named(code: int) -> None:
    missing = {50: "CreateAccessConfigRequestHeader.accessKey", 51: "DeleteAccessConfigRequestHeader.accessKey"}
    missing[53] = "UpdateGlobalWhiteAddrsConfigRequestHeader.globalWhiteAddrs"
    answer = await AclBroker(make_manager()).ask(signed(code, by=ADMIN))
    if code in missing:
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert (answer.remark or "").startswith(missing[code])
    else:
        assert answer.code == ResponseCode.SUCCESS


@pytest.mark.parametrize("code", ACL_CODES)
async def test_without_access_control_there_is_an_answer_too(code: int) -> None:
    """RocketMQ leaves the caller of 52 and 54 waiting."""
    answer = await AclBroker(None).ask(RemotingCommand(code, UPDATE | {"globalWhiteAddrs": "*"}))
    assert answer.code == FAILED[code]
    assert answer.remark == "access control is not enabled: the broker runs with aclEnable=false"
