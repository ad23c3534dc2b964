"""Every file that a program reads says what it does not understand: an unknown key, a wrong type, an impossible number.

Each has a row in :data:`FILES`: a good text, and what is damaged in it. The reader that the program uses reads it, and
what it says, in the log or as the error that refuses the file, must name the file and the place. What RocketMQ writes
itself must not be remarked on. That no file is missing is found in the code: by the names that it has, and by the
modules that open files.
"""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import attrs
import pytest
import trio

from rocketpy.broker.acl.feature import load_accounts
from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.start_settings import StartOptions, load_broker_settings
from rocketpy.cli.credentials import load_credentials
from rocketpy.client.consumer.offsets.local_offset_store import LocalOffsetStore
from rocketpy.clock import ManualClock
from rocketpy.errors import RocketpyError
from rocketpy.nameserver.config import NamesrvConfig, default_server_config
from rocketpy.nameserver.kv_config import KVConfigManager
from rocketpy.remoting.config import TlsClientConfig, TlsServerConfig
from rocketpy.remoting.tls.contexts import with_config_file
from rocketpy.runner import run_inline
from rocketpy.settings import load_settings
from rocketpy.spark.pipelines.archive_log.file_system import LocalFileSystem
from rocketpy.spark.pipelines.archive_log.log import ArchiveLog
from rocketpy.spark.pipelines.replay_plan import ReplayWork
from rocketpy.store.disk.os_disk import OsDisk
from rocketpy.store.recovery.checkpoint import CHECKPOINT_SIZE, load_checkpoint
from tests.broker.tables_of_a_broker import GOLDEN_CONFIG, Tables, make_tables

ROOT = Path(__file__).parent.parent / "rocketpy"
INT64 = 1 << 63
DIGEST = "0" * 64


@attrs.frozen
class Damage:
    """A text in place of another, and all of what is said then."""

    old: str
    new: str
    said: tuple[str, ...]


@attrs.frozen
class File:
    """A file: how a program reads it from a directory, a text that is understood, and damages of each kind."""

    name: str
    read: Callable[[Path], object]
    text: str
    unknown_key: Damage | None
    """None for a file that has no keys."""
    wrong_type: Damage
    out_of_range: tuple[Damage, ...]

    def damages(self) -> list[Damage]:
        return [each for each in (self.unknown_key, self.wrong_type, *self.out_of_range) if each is not None]


def damage(old: str, new: str, *said: str) -> Damage:
    return Damage(old, new, said)


def table(load: Callable[[Tables], object]) -> Callable[[Path], object]:
    return lambda directory: load(make_tables(directory))


def read_kv_config(directory: Path) -> None:
    path = str(directory / "kvConfig.json")
    KVConfigManager(path=path, disk=OsDisk(), run_blocking=trio.to_thread.run_sync).load()


def read_local_offsets(directory: Path) -> None:
    async def load() -> None:
        await LocalOffsetStore(directory / "offsets.json").load()

    trio.run(load)


def warn(lines: object) -> None:
    """Write lines as the programs do that get them from the function that reads."""
    assert isinstance(lines, tuple)
    for line in lines:
        logging.getLogger("rocketpy").warning("%s", line)


def read_broker_settings(directory: Path) -> None:
    settings = load_broker_settings(StartOptions(config_file=str(directory / "broker.conf")))
    warn(settings.warnings)


def read_namesrv_settings(directory: Path) -> None:
    warn(load_settings(str(directory / "namesrv.properties"), NamesrvConfig(), default_server_config()).warnings)


def read_tls_settings(directory: Path) -> None:
    server = TlsServerConfig(config_file=str(directory / "tls.properties"))
    warn(with_config_file(server, TlsClientConfig())[2])


def read_accounts(directory: Path) -> None:
    config = BrokerConfig(
        broker_name="a", broker_ip1="127.0.0.1", broker_ip2="127.0.0.1", acl_enable=True, acl_directory=str(directory)
    )
    load_accounts(config, "", disk=OsDisk(), run_blocking=run_inline, clock=ManualClock())


def read_checkpoint(directory: Path) -> None:
    fault = load_checkpoint(OsDisk(), str(directory / "checkpoint")).fault
    warn((fault,) if fault else ())  # tests/broker/test_store_opening.py holds the broker to it


def read_plan(directory: Path) -> None:
    work = ReplayWork(str(directory), files=LocalFileSystem())
    plan = work.plan()
    assert plan is not None


TOPICS = (
    '{"dataVersion":{"counter":1,"timestamp":2},"topicConfigTable":{"A":{"order":false,"perm":6,"readQueueNums":4,'
    '"topicFilterType":"SINGLE_TAG","topicName":"A","topicSysFlag":0,"writeQueueNums":4}}}'
)
GROUPS = (
    '{"dataVersion":{"counter":1,"timestamp":2},"subscriptionGroupTable":{"G":{"brokerId":0,"consumeEnable":true,'
    '"groupName":"G","retryMaxTimes":16,"retryQueueNums":1,"whichBrokerWhenConsumeSlowly":1}}}'
)
FILTERS = (
    '{"filterDataByTopic":{"T":{"groupFilterData":{"G":{"bloomFilterData":{"bitNum":112,"bitPos":[13,98,71]},'
    '"bornTime":1795251972001,"clientVersion":1795251972021,"consumerGroup":"G","dead":true,"deadTime":1795252005401,'
    '"expression":"a > 1","expressionType":"SQL92","topic":"T"}},"topic":"T"}}}'
)
MARK = f'{{"digest":"{DIGEST}","offset":374,"size":187}}'

FILES = [
    File(
        "topics.json",
        table(lambda tables: tables.topics.load()),
        TOPICS,
        damage('"perm":6', '"perm":6,"prem":4', "unknown keys", "not kept", "'topicConfigTable.A.prem'"),
        damage('"order":false', '"order":"flase"', "TopicConfig.order: expected true or false, found 'flase'"),
        (
            damage('"perm":6', '"perm":77', "topicConfigTable.A.perm: expected a sum of", "found 77; 5 counts"),
            damage('"perm":6', '"perm":-1', "topicConfigTable.A.perm: expected a sum of", "found -1; 7 counts"),
            damage('"readQueueNums":4', '"readQueueNums":-4', "A.readQueueNums: expected 0 to 65535", "-4; 0 counts"),
            damage('"writeQueueNums":4', '"writeQueueNums":-4', "A.writeQueueNums: expected 0", "-4; 0 counts"),
            damage('"writeQueueNums":4', '"writeQueueNums":65536', "A.writeQueueNums: expected 0 to 65535", "65536"),
            damage('"writeQueueNums":4', '"writeQueueNums":2147483648', "writeQueueNums: expected int32"),
            damage('"writeQueueNums":4', '"writeQueueNums":1.5', "A.writeQueueNums: expected a whole", "1.5; 1 counts"),
            damage(
                '"topicName":"A"', '"topicName":"B"', "A.topicName: expected the entry's key 'A', found 'B'; the key"
            ),
            damage("SINGLE_TAG", "SINGEL_TAG", "A.topicFilterType: expected SINGLE_TAG or MULTI_TAG", "left out"),
            damage('"perm":6', '"perm":null', "A.perm: expected a value, found None; it counts as left out"),
            damage('"perm":6', '"perm":6,"PERM":2', "'PERM' comes twice"),
        ),
    ),
    File(
        "subscriptionGroup.json",
        table(lambda tables: tables.groups.load()),
        GROUPS,
        damage(
            '"groupName"', '"retryTimesMax":1,"groupName"', "unknown keys", "'subscriptionGroupTable.G.retryTimesMax'"
        ),
        damage('"retryMaxTimes":16', '"retryMaxTimes":"many"', "retryMaxTimes: expected int32, found 'many'"),
        (
            damage(
                '"retryQueueNums":1',
                '"retryQueueNums":-5',
                "G.retryQueueNums: expected 0 to",
                "-5; 0 counts",
                "dropped",
            ),
            damage(
                '"retryQueueNums":1', '"retryQueueNums":65536', "G.retryQueueNums: expected 0 to 65535, found 65536"
            ),
            damage(
                '"retryMaxTimes":16', '"retryMaxTimes":-1', "G.retryMaxTimes: expected 0 or more", "-1; it counts as 0"
            ),
            damage('"brokerId":0', '"brokerId":-1', "G.brokerId: expected 0 or more, found -1; 0, the master, counts"),
            damage(
                'Slowly":1', 'Slowly":-1', "G.whichBrokerWhenConsumeSlowly: expected 0 or more", "-1; 1, the default"
            ),
            damage('"groupName":"G"', '"groupName":"H"', "G.groupName: expected the entry's key 'G', found 'H'"),
        ),
    ),
    File(
        "consumerOffset.json",
        table(lambda tables: tables.offsets.load()),
        '{"offsetTable":{"T@G":{0:5,1:6}}}',
        damage('{"offsetTable"', '{"offsetTabel":{},"offsetTable"', "unknown keys", "'offsetTabel'"),
        damage("0:5", '0:"five"', "offsetTable.T@G: expected an integer of 64 bits, found 'five'"),
        (
            damage("0:5", "0:-5", "offsetTable.T@G: expected offsets of 0 or more, found -5; it counts as no offset"),
            damage("0:5", f"0:{INT64}", "offsetTable.T@G: expected an integer of 64 bits", str(INT64)),
            damage("0:5", "2147483648:5", "offsetTable.T@G: expected an integer of 32 bits", "2147483648"),
            damage("0:5", "-1:5", "offsetTable.T@G: expected the numbers of queues, found -1; negative ones"),
            damage("T@G", "T", "offsetTable.T: expected topic@group, found 'T'; it is left out"),
        ),
    ),
    File(
        "lmqConsumerOffset.json",
        lambda directory: make_tables(directory, enable_lmq=True).offsets.load(),
        '{"lmqOffsetTable":{"%LMQ%a@%LMQ%g":4},"offsetTable":{}}',
        damage('"offsetTable"', '"offsetTabel":{},"offsetTable"', "unknown keys", "'offsetTabel'"),
        damage(":4", ":true", "lmqOffsetTable.%LMQ%a@%LMQ%g: expected an integer of 64 bits, found True"),
        (
            damage(":4", f":{INT64}", "lmqOffsetTable.%LMQ%a@%LMQ%g: expected an integer of 64 bits", str(INT64)),
            damage(":4", ":-4", "lmqOffsetTable.%LMQ%a@%LMQ%g: expected offsets of 0 or more, found -4"),
            damage("%LMQ%a@%LMQ%g", "%LMQ%a", "lmqOffsetTable.%LMQ%a: expected topic@group, found '%LMQ%a'"),
        ),
    ),
    File(
        "delayOffset.json",
        table(lambda tables: tables.delay_offsets.load()),
        '{"offsetTable":{1:4,2:1},"physicalOffset":7}',
        damage('"physicalOffset"', '"physicaloffset":8,"physicalOffset"', "unknown keys", "'physicaloffset'"),
        damage("1:4", '1:"four"', "offsetTable: expected a number from 0", "'four'"),
        (
            damage("1:4", "1:-4", "offsetTable: expected a number from 0 to 9223372036854775807, found -4"),
            damage("1:4", f"1:{INT64}", "offsetTable: expected a number", str(INT64)),
            damage("1:4", "2147483648:4", "offsetTable: expected a number from 0 to 2147483647"),
            damage(":7", f":{INT64}", "physicalOffset: expected a number", str(INT64)),
        ),
    ),
    File(
        "consumerFilter.json",
        table(lambda tables: tables.filters.load()),
        FILTERS,
        damage('"dead":', '"died":', "unknown keys", "'filterDataByTopic.T.groupFilterData.G.died'"),
        damage(
            '"bornTime":1795251972001', '"bornTime":"then"', "ConsumerFilterData.bornTime: expected int64, found 'then'"
        ),
        (
            damage(
                "1795251972001", "-1", "T.groupFilterData.G.bornTime: expected milliseconds", "found -1", "left out"
            ),
            damage("1795252005401", str(INT64 - 1), "G.deadTime: expected milliseconds", "left out"),
            damage("[13,98,71]", "[13,98,112]", "has bit maps of another size"),
            damage('"consumerGroup":"G"', '"consumerGroup":"H"', "G: expected the filter of its keys, found 'T H'"),
            damage('"expression":"a > 1"', '"expression":5', "G.expression: expected a text, found 5"),
        ),
    ),
    File(
        "offsetResets.json",
        table(lambda tables: tables.offset_resets.load()),
        '{"offsetResets":{"T@G":{0:5}},"resetTimestamps":{"T@G":{0:1700000000000}}}',
        damage('{"offsetResets"', '{"x":1,"offsetResets"', "unknown keys", "'x'"),
        damage("0:5", "0:[5]", "offsetResets.T@G: expected an integer of 64 bits, found [5]"),
        (damage("0:5", f"0:{INT64}", "offsetResets.T@G: expected an integer of 64 bits", str(INT64)),),
    ),
    File(
        "slaveOffsets.json",
        table(lambda tables: tables.offset_differences.load()),
        '{"committedOffsets":{"T@G":{0:5}},"masterBootTimestamp":3,"masterOffsets":{"T@G":{0:4}}}',
        damage('"masterOffsets"', '"x":1,"masterOffsets"', "unknown keys", "'x'"),
        damage(
            '"masterBootTimestamp":3',
            '"masterBootTimestamp":true',
            "masterBootTimestamp: expected a number, found True",
        ),
        (damage("0:4", f"0:{INT64}", "masterOffsets.T@G: expected an integer of 64 bits", str(INT64)),),
    ),
    File(
        "deletedTopics.json",
        table(lambda tables: tables.deleted_topics.load()),
        f'{{"deletedTopics":{{"T":{MARK}}}}}',
        damage('"size"', '"x":1,"size"', "unknown keys", "'deletedTopics.T.x'"),
        damage('"size":187', '"size":"187"', "deletedTopics: T: expected offset, size and digest"),
        (damage('"offset":374', '"offset":-1', "deletedTopics: T: expected the end of a record", "-1"),),
    ),
    File(
        "tableMarks.json",
        table(lambda tables: tables.marks.load()),
        f'{{"tableMarks":{{"topics.json":{MARK}}}}}',
        damage('{"tableMarks"', '{"marks":{},"tableMarks"', "unknown keys", "'marks'"),
        damage(f'"{DIGEST}"', "0", "tableMarks: topics.json: expected offset, size and digest"),
        (
            damage(
                '"offset":374', f'"offset":{INT64}', "tableMarks: topics.json: expected the end of a record", str(INT64)
            ),
        ),
    ),
    File(
        "kvConfig.json",
        read_kv_config,
        '{"configTable":{"ns":{"k":"v"}}}',
        damage('{"configTable"', '{"configtable":{},"configTable"', "unknown keys", "'configtable'"),
        damage('"v"', '{"a":true}', "configTable.ns.k: expected a text, found {'a': True}", "'{\"a\":true}' counts"),
        (
            damage('"v"', "5", "configTable.ns.k: expected a text, found 5; '5' counts"),
            damage('"v"', "null", "configTable.ns.k: expected a text, found None; the key is left out"),
        ),
    ),
    File(
        "offsets.json",
        read_local_offsets,
        '{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"T"}:7}}',
        damage('"queueId":1', '"queueId":1,"queue":2', "unknown keys", "'offsetTable.queue'"),
        damage(":7", ':"seven"', "expected int64, found 'seven'"),
        (
            damage(
                ":7", ":-7", "offsetTable.T b 1: expected a queue and an offset of 0 or more, found -7; it is left out"
            ),
            damage('"queueId":1', '"queueId":-1', "offsetTable.T b -1: expected a queue"),
            damage(":7", f":{INT64}", "expected int64"),
        ),
    ),
    File(
        "broker.conf",
        read_broker_settings,
        "brokerName=a\nbrokerIP1=127.0.0.1\nnamesrvAddr=127.0.0.1:9876\nflushConsumerOffsetInterval=5000\nbindAddress=127.0.0.1\n",
        damage("brokerName", "brokerNmae=b\nbrokerName", "line 1: unknown key brokerNmae has no effect", "brokerName"),
        damage("=5000", "=often", "line 4: flushConsumerOffsetInterval = 'often': expected an integer"),
        (damage("=5000", "=0", "flushConsumerOffsetInterval = '0': expected an integer, at least 1"),),
    ),
    File(
        "namesrv.properties",
        read_namesrv_settings,
        "listenPort=9876\n",
        damage("listenPort", "listenPrt=1\nlistenPort", "line 1: unknown key listenPrt has no effect"),
        damage("=9876", "=here", "listenPort = 'here': expected"),
        (damage("=9876", "=65536", "listenPort = '65536': expected"),),
    ),
    File(
        "tls.properties",
        read_tls_settings,
        "tls.test.mode.enable=true\ntls.server.mode=permissive\n",
        damage("tls.test", "tls.tset.mode.enable=false\ntls.test", "line 1: unknown key tls.tset.mode.enable"),
        damage("enable=true", "enable=ture", "tls.test.mode.enable = 'ture': expected"),
        (damage("permissive", "lenient", "tls.server.mode = 'lenient': expected"),),
    ),
    File(
        "plain_acl.yml",
        read_accounts,
        "accounts:\n- accessKey: RocketMQ\n  secretKey: 12345678\n  admin: false\n  defaultTopicPerm: SUB\n",
        damage("  admin", "  adnim: true\n  admin", "line 4: adnim"),
        damage("admin: false", "admin: flase", "line 4: admin is 'flase', expected true or false: it counts as false"),
        (damage("SUB", "SUBB", "line 5: defaultTopicPerm is 'SUBB'", "it counts as DENY"),),
    ),
    File(
        "tools.yml",
        lambda directory: load_credentials(str(directory / "tools.yml")),
        "accessKey: RocketMQ\nsecretKey: 12345678\n",
        damage("accessKey", "accesskey: x\naccessKey", "line 1: expected accessKey, secretKey, securityToken"),
        damage("RocketMQ", "[RocketMQ]", "line 1: expected a text for accessKey"),
        (damage("12345678", "1" * 70_000, "expected at most 65536 bytes"),),
    ),
    File(
        "checkpoint",
        read_checkpoint,
        "\0" * CHECKPOINT_SIZE,
        None,
        damage("\0" * 8, "tomorrow", "expected times from 0 to", "physicMsgTimestamp"),
        (
            damage(
                "\0" * 16, "\0" * 8 + "\x7f" * 8, "expected times from 0 to", "logicsMsgTimestamp 9187201950435737471"
            ),
        ),
    ),
    File(
        "_archive/runs/00000000000000000001.json",
        lambda directory: ArchiveLog(str(directory), files=LocalFileSystem()).state(),
        '{"version":1,"run":1,"id":"x","time":"2026-01-31T12:00:00+00:00","replaced":[],'
        '"ranges":[{"topic":"T","broker_name":"b","queue_id":0,"start":0,"end":10}],'
        '"files":[{"path":"topic=T/a.parquet","rows":4}]}',
        damage(
            '"run":1', '"run":1,"ran":2', "ran: expected only version, run, id, time, ranges, files, replaced, found 2"
        ),
        damage('"run":1', '"run":"1"', "run: expected a whole number from 1 to 9223372036854775807, found '1'"),
        (
            damage('"rows":4', '"rows":"x"', "files[0].rows: expected a whole number from 0", "found 'x'"),
            damage('"rows":4', '"rows":-4', "files[0].rows: expected a whole number from 0", "found -4"),
            damage(
                '"queue_id":0',
                '"queue_id":2147483648',
                "ranges[0].queue_id: expected a whole number from 0 to 2147483647",
            ),
            damage('"start":0', '"start":-1', "ranges[0].start: expected a whole number from 0"),
            damage('"end":10', '"end":0', "ranges[0].end: expected a whole number from 1"),
            damage("+00:00", "", "time: expected a time like 2026-01-31T12:00:00+00:00, found '2026-01-31T12:00:00'"),
            damage('"run":1', '"run":2', "that its name says, found run 2"),
        ),
    ),
    File(
        "plan.json",
        read_plan,
        '{"id":"x","target":{"topics":null,"keeps_queues":false},"read":12,"skipped":{"empty body":2},'
        '"shares":[0.5,0.5],"slices":[4,6]}',
        damage('"id"', '"di":"y","id"', "di: expected only id, target, read, skipped, shares, slices, found 'y'"),
        damage('"read":12', '"read":"12"', "read: expected a whole number from 0", "found '12'"),
        (
            damage("[0.5,0.5]", "[0.5,0]", "shares[1]: expected a number above 0, at most 1, found 0"),
            damage("[4,6]", "[4,-6]", "slices[1]: expected a whole number of 0 or more, found -6"),
            damage('"empty body":2', '"empty body":-2', "skipped.empty body: expected a whole number from 0"),
            damage('"topics"', '"topic"', "target.topic: expected only topics, keeps_queues"),
        ),
    ),
]


def said_of(file: File, directory: Path, caplog: pytest.LogCaptureFixture, text: str, level: int) -> str:
    """Return the lines that a program writes about a file with this text, and the error that refuses it."""
    path = directory / file.name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    caplog.clear()
    with caplog.at_level(logging.INFO):
        try:
            file.read(directory)
        except RocketpyError as refusal:
            return str(refusal)
    return "\n".join(record.getMessage() for record in caplog.records if record.levelno >= level)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_file_that_is_understood_is_not_remarked_on(
    file: File, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert said_of(file, tmp_path, caplog, file.text, logging.WARNING) == ""


@pytest.mark.parametrize(
    ("file", "damage"),
    [pytest.param(file, damage, id=f"{file.name} {damage.new:.40}") for file in FILES for damage in file.damages()],
)
def test_what_is_not_understood_is_said_with_file_and_place(
    file: File, damage: Damage, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert damage.old in file.text
    said = said_of(file, tmp_path, caplog, file.text.replace(damage.old, damage.new, 1), logging.WARNING)
    assert str(tmp_path / file.name) in said
    for part in damage.said:
        assert part in said


GOLDEN_NAMES = {
    "topics.json": ("topics.json", "cluster-topics.json"),
    "subscriptionGroup.json": ("subscriptionGroup.json", "cluster-subscriptionGroup.json"),
    "consumerOffset.json": ("consumerOffset.json", "cluster-consumerOffset.json"),
    "lmqConsumerOffset.json": ("lmqConsumerOffset.json",),
    "delayOffset.json": ("delayOffset.json", "slave-delayOffset.json"),
    "consumerFilter.json": ("consumerFilter.json",),
    "kvConfig.json": ("kvConfig.json",),
    "offsets.json": ("client-offsets.json",),
}
FILES_OF_JAVA = [(file, name) for file in FILES for name in GOLDEN_NAMES.get(file.name, ())]


@pytest.mark.parametrize(("file", "name"), FILES_OF_JAVA, ids=[name for _, name in FILES_OF_JAVA])
def test_a_file_that_java_has_written_is_not_remarked_on(
    file: File, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = (GOLDEN_CONFIG / name).read_text()
    assert said_of(file, tmp_path, caplog, text, logging.WARNING) == ""


def test_all_recorded_files_of_java_are_read() -> None:
    recorded = {path.name for path in GOLDEN_CONFIG.glob("*.json")}
    assert recorded == {name for _, name in FILES_OF_JAVA}


LATER = {
    "topics.json": TOPICS.replace('"counter"', '"stateVersion":0,"counter"').replace(
        '"order"', '"attributes":{},"order"'
    ),
    "subscriptionGroup.json": GROUPS.replace('"counter"', '"stateVersion":0,"counter"')
    .replace('"subscriptionGroupTable"', '"forbiddenTable":{},"subscriptionGroupTable"')
    .replace(
        '"groupName"',
        '"attributes":{},"consumeMessageOrderly":false,"consumeTimeoutMinute":15,"groupSysFlag":0,'
        '"groupRetryPolicy":{"type":"CUSTOMIZED"},"groupName"',
    ),
    "consumerOffset.json": '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"groupTopicMap":{"G":["T"]},'
    '"offsetTable":{"T@G":{0:5}}}',
    "delayOffset.json": '{"dataVersion":{"counter":1,"stateVersion":0,"timestamp":2},"offsetTable":{1:4}}',
}
"""As RocketMQ 5.3.3 writes them for settings that nobody has changed."""


@pytest.mark.parametrize("name", LATER)
def test_a_file_of_rocketmq_5_is_not_remarked_on(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (file,) = (file for file in FILES if file.name == name)
    said = said_of(file, tmp_path, caplog, LATER[name], logging.INFO)
    assert "later RocketMQ" not in said
    assert "unknown" not in said


def test_a_setting_of_rocketmq_5_that_says_something_has_a_line_that_is_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = TOPICS.replace('"order"', '"attributes":{"+message.type":"FIFO"},"order"')
    assert said_of(FILES[0], tmp_path, caplog, text, logging.WARNING) == ""
    assert "later RocketMQ" in said_of(FILES[0], tmp_path, caplog, text, logging.INFO)
    assert "'topicConfigTable.A.attributes'" in caplog.text


NAMED = {
    "broker.properties": "broker.conf, as requests have changed it, in the same form and read by the same function",
    "compiled.txt": "written by the build; what does not fit is the reason why the sources run, which --version shows",
    "launch.json": "of one process of the pytest plugin for the next",
    "ready.json": "written by the program that the pytest plugin has started",
    "test-mode.pem": "written and read at once, in test mode",
    "what-was-where.txt": "written for people, and not read",
}
"""Names of files in the code that are no row, and why not."""

NAME = re.compile(r"[\w-][\w.-]*\.(json|properties|ya?ml|conf|txt|pem|ini|toml)")


@cache
def trees() -> dict[str, ast.Module]:
    """Return what the modules have, by their paths."""
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text()) for path in ROOT.rglob("*.py")}


def names_in(tree: ast.Module) -> Iterator[str]:
    """Yield texts that are the name of a file, at the end of a path or alone, but for docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            name = node.value.rsplit("/", 1)[-1]
            if NAME.fullmatch(name):
                yield name


def test_each_file_that_the_code_names_has_a_row_or_a_reason() -> None:
    found = {name for tree in trees().values() for name in names_in(tree)}
    rows = {file.name for file in FILES}
    assert found - rows == NAMED.keys()


STORE_BYTES = "records, units, entries: every field is checked by its own reader, and verify says what is wrong"
ANYTHING = "the disk: what is read is the caller's"
FIXTURE = "files of the pytest plugin's own processes"
READERS = {
    "broker/acl/acl_files.py": "plain_acl.yml",
    "broker/acl/plain_permission.py": "plain_acl.yml",
    "broker/metadata/stored_table.py": "topics.json",
    "broker/start_settings.py": "broker.conf",
    "cli/credentials.py": "tools.yml",
    "client/consumer/offsets/local_offset_store.py": "offsets.json",
    "compiled.py": NAMED["compiled.txt"],
    "nameserver/__main__.py": "namesrv.properties",
    "nameserver/kv_config.py": "kvConfig.json",
    "ready_file.py": "only compared with what this process has written",
    "remoting/local_address.py": "the kernel's list of addresses",
    "remoting/tls/contexts.py": "tls.properties",
    "settings.py": "broker.conf",
    "spark/files/unit_plan.py": "checkpoint",
    "spark/pipelines/archive_log/file_system.py": "_archive/runs/00000000000000000001.json",
    "spark/pipelines/audit/queue_units.py": STORE_BYTES,
    "spark/pipelines/audit/store_files.py": "what the broker refuses is a finding: tests/spark/pipelines/audit",
    "store/disk/os_disk.py": "the kernel's list of mounts",
    "store/disk/text_files.py": ANYTHING,
    "store/ha/tail_cut.py": "an order of one line; another one is removed with a line: tests/store/ha/test_tail_cut.py",
    "store/index/file.py": STORE_BYTES,
    "store/index/file_list.py": STORE_BYTES,
    "store/inspection/plain_files_disk.py": ANYTHING,
    "store/inspection/repair/kept_pieces.py": STORE_BYTES,
    "store/inspection/repair/steps.py": "tables, which are copied as they are",
    "store/inspection/verify/read_only_files.py": ANYTHING,
    "store/recovery/checkpoint.py": "checkpoint",
    "store/recovery/marker_files.py": "a note of one line; without it a start reads more, and verify says so",
    "store/recovery/recovery_note.py": "a note of one line with a check sum; a start says why it is not believed",
    "testing/fixture/disk.py": ANYTHING,
    "testing/fixture/fork_server.py": FIXTURE,
    "testing/fixture/in_process.py": FIXTURE,
    "testing/fixture/options.py": FIXTURE,
    "testing/fixture/spawner.py": FIXTURE,
    "testing/replica.py": STORE_BYTES,
}
"""Modules that read files: the row of one that they read, or why there is none."""


def reads_files(tree: ast.Module) -> bool:
    """Whether a module opens a file, or has one read as a whole."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function, keywords = node.func, {each.arg for each in node.keywords}
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if name in ("read_text", "read_bytes", "loads_file", "load_settings"):
                return True
            if name == "open" and (isinstance(function, ast.Name) or "read_only" in keywords):
                return True
    return False


def test_each_module_that_reads_files_has_a_row_or_a_reason() -> None:
    modules = {module for module, tree in trees().items() if reads_files(tree)}
    assert modules - {"protocol/kernels/batch.py"} == READERS.keys()  # its read_text reads a text of a frame
    rows = {file.name for file in FILES}
    assert {reason for reason in READERS.values() if " " not in reason} <= rows
