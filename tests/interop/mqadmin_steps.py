"""What the replay of mqadmin does, step by step, and how two outputs of a command are compared.

The steps follow those in which the recording of ``tests/golden/mqadmin.jsonl.gz`` was made, with the same names of
topics and groups, and go through every command that RocketMQ 4.9.7 has but for :data:`NOT_RUN`.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from rocketpy.properties_text import read_properties
from rocketpy.settings import IN_FORCE, setting_rows
from tests.settings_table import CLASSES

GOLDEN = Path(__file__).resolve().parents[1] / "golden"

NOT_RUN = {
    "startMonitoring": "a monitor without end that prints nothing",
}
"""Commands that are not run, and why."""


@attrs.frozen
class Step:
    """One step: a command, or something that clients do."""

    kind: str  # run, send, consume, leave
    arguments: tuple[str, ...] = ()
    fields: dict[str, object] = attrs.field(factory=dict)
    until: str | None = None

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.arguments[0]

    @property
    def title(self) -> str:
        """The command as one would type it, without the nameserver."""
        return " ".join(each for each in self.arguments if each not in ("-n", "{namesrv}"))


def run(text: str, *, until: str | None = None) -> Step:
    """A command as one would type it; the nameserver is added. One without end ends with a line that has ``until``."""
    command, *rest = text.split(" ")
    words = ["" if each == "''" else each.replace("~", " ") for each in rest]
    return Step("run", (command, "-n", "{namesrv}", *words), until=until)


def send(topic: str, queue: int, body: str, *, tags: str, keys: str = "") -> Step:
    """A message to one queue."""
    return Step("send", fields={"topic": topic, "queue": queue, "body": body, "tags": tags, "keys": keys})


STEPS: Sequence[Step] = (
    run("updateTopic -b {broker} -t GoldTopic -r 2 -w 2"),
    run("updateTopic -c DefaultCluster -t GoldOrder -r 2 -w 2 -o true"),
    run("updateTopic -b {broker} -t %RETRY%GoldGroup -r 1 -w 1"),  # which the first heartbeat of the group would make
    *(
        send("GoldTopic", index % 2, f"hello {index}", tags="TagA" if index % 3 else "TagB", keys=f"key{index}")
        for index in range(8)
    ),
    Step("consume", fields={"group": "GoldGroup", "topic": "GoldTopic", "instance": "i7", "count": 8}),
    *(send("GoldOrder", index % 2, f"order {index}", tags="TagO") for index in range(3)),
    run("consumerConnection -g GoldGroup"),
    run("consumerProgress -g GoldGroup"),
    run("consumerProgress -g GoldGroup -s true"),
    run("consumerProgress"),
    run("consumerStatus -g GoldGroup"),
    run("consumerStatus -g GoldGroup -i 127.0.0.1@i7"),
    run("producerConnection -g GoldProducer2 -t GoldTopic"),
    run("producer -b {broker}"),
    run("resetOffsetByTime -g GoldGroup -t GoldTopic -s now"),
    run("cloneGroupOffset -s GoldGroup -d GoldClone -t GoldTopic -o false"),
    run("resetOffsetByTime -g GoldClone -t GoldTopic -s now"),
    run("skipAccumulatedMessage -g GoldGroup -t GoldTopic"),
    run("cloneGroupOffset -s GoldGroup -d GoldClone2 -t GoldTopic -o false"),
    run("brokerConsumeStats -b {broker}"),
    run("statsAll"),
    run("queryMsgById -i {id:3}"),
    run("queryMsgById -i {id:3} -g GoldGroup -d 127.0.0.1@i7"),
    run("queryMsgByKey -t GoldTopic -k key1"),
    run("queryMsgByUniqueKey -t GoldTopic -i {key:3}"),
    run("queryMsgByOffset -t GoldTopic -b broker-0 -i 0 -o 1"),
    run("queryMsgTraceById -i {key:3}"),
    run("printMsg -t GoldTopic -d true"),
    run("printMsgByQueue -t GoldTopic -a broker-0 -i 0 -p true -d true -f true"),
    run("queryCq -t GoldTopic -q 0 -i 0 -c 3"),
    run("queryCq -t GoldTopic -q 0 -i 0 -c 3 -g GoldGroup -b {broker}"),
    run("queryCq -t GoldTopic -q 0 -i 0 -c 3 -g Nobody -b {broker}"),
    run("consumeMessage -t GoldTopic -b broker-0 -i 0 -o 0 -c 2"),
    run("topicList"),
    run("topicList -c"),
    run("topicRoute -t GoldTopic"),
    run("topicRoute -t GoldTopic -l"),
    run("topicStatus -t GoldTopic"),
    run("topicClusterList -t GoldTopic"),
    run("updateTopic -b {broker} -t GoldMade -r 3 -w 3"),
    run("updateTopic -c DefaultCluster -t GoldMadeOrder -r 2 -w 2 -o true"),
    run("updateTopic -b {broker} -t GoldUnit -r 2 -w 2 -u true -s true"),
    run("updateTopicPerm -b {broker} -t GoldMade -p 4"),
    run("deleteTopic -c DefaultCluster -t GoldMade"),
    run("updateSubGroup -b {broker} -g GoldMadeGroup -d false -r 5"),
    run("deleteSubGroup -b {broker} -g GoldMadeGroup -r true"),
    run("getConsumerConfig -g GoldGroup"),
    run("clusterList"),
    run("clusterList -m"),
    run("brokerStatus -b {broker}"),
    run("brokerStatus -c DefaultCluster"),
    run("getBrokerConfig -b {broker}"),
    run("getBrokerConfig -c DefaultCluster"),
    run("updateBrokerConfig -b {broker} -k flushConsumerOffsetInterval -v 4000"),
    run("updateBrokerConfig -c DefaultCluster -k flushConsumerOffsetInterval -v 5001"),
    run("updateBrokerConfig -b {broker} -k maxMessageSize -v 4194303"),  # which counts from the next start of ours
    run("getBrokerConfig -b {broker}"),
    run("updateKvConfig -s GoldNs -k k2 -v v2"),
    run("deleteKvConfig -s GoldNs -k k2"),
    run("wipeWritePerm -b broker-0"),
    run("addWritePerm -b broker-0"),
    run("updateOrderConf -t GoldOrder2 -m put -v broker-0:4"),
    run("updateOrderConf -t GoldOrder2 -m get"),
    run("updateOrderConf -t GoldOrder2 -m delete"),
    run("cleanExpiredCQ -b {broker}"),
    run("deleteExpiredCommitLog -b {broker}"),
    run("cleanUnusedTopic -c DefaultCluster"),
    run("allocateMQ -t GoldTopic -i 10.0.0.1,10.0.0.2"),
    run("checkMsgSendRT -t GoldTopic -a 3 -s 16"),
    run("sendMsgStatus -b broker-0 -s 16 -c 2"),
    run("sendMessage -t GoldTopic -p from~mqadmin -k cli -c TagCli"),
    run("clusterRT -a 3 -s 16 -i 30 -c DefaultCluster", until="broker-0"),
    run("getNamesrvConfig"),
    run("updateNamesrvConfig -k orderMessageEnable -v true"),
    run("updateNamesrvConfig -k serverChannelMaxIdleTimeSeconds -v 119"),  # from the next start of ours
    run("getNamesrvConfig"),
    run("exportMetadata -c DefaultCluster -f {dir}/export"),
    run("exportMetadata -b {broker} -t -f {dir}/export"),
    run("exportMetadata -b {broker} -g -f {dir}/export"),
    run("exportConfigs -c DefaultCluster -f {dir}/export"),
    run("exportMetrics -c DefaultCluster -f {dir}/export"),
    run("noSuchCommand"),
    run("topicRoute -t NoSuchTopic"),
    run("topicStatus -t NoSuchTopic"),
    run("consumerProgress -g NoSuchGroup"),
    run("consumerConnection -g NoSuchGroup"),
    run("producerConnection -g NoSuchGroup -t GoldTopic"),
    run("getConsumerConfig -g NoSuchGroup"),
)
"""What is done with a broker without access control."""

ACL_STEPS: Sequence[Step] = (
    run(
        "updateAclConfig -b {broker} -a goldenCli -s cli12345678 -w 10.1.*.* -i DENY -u SUB "
        "-t GoldTopic=PUB,GoldOrder=SUB -g GoldGroup=SUB -m false"
    ),
    run("updateAclConfig -b {broker} -a goldenCli -s cli87654321"),
    run("clusterAclConfigVersion -b {broker}"),
    run("getAclConfig -b {broker}"),
    run("updateGlobalWhiteAddr -b {broker} -g 10.10.10.1,10.10.10.2"),
    run("deleteAclConfig -b {broker} -a goldenNobody"),
    run("deleteAclConfig -b {broker} -a goldenCli"),
    run("getAclConfig -b {broker}"),
)
"""What is done with a broker that asks for accounts."""


# ---- comparing ------------------------------------------------------------------------------------------------------

Comparable = Callable[[str], str]


def _as_set(text: str) -> str:
    """The lines without their order, which is that of a hash table."""
    return "\n".join(sorted(text.splitlines()))


def _without(*patterns: str) -> Comparable:
    """Figures that are measurements, by the patterns of what holds them."""

    def compared(text: str) -> str:
        for pattern in patterns:
            text = re.sub(pattern, lambda found: re.sub(r"[\d.]+", "N", found[0]), text)
        return re.sub(r" {2,}", " ", text)

    return compared


def _keys(text: str) -> str:
    """The names of figures or settings; their values are a broker's own."""
    names = {
        re.split(r" *[=:] ", line + " ", maxsplit=1)[0].removeprefix("BROKER").strip() for line in text.splitlines()
    }
    return "\n".join(sorted(names))


def recorded_outputs(command: str) -> list[str]:
    """What Java printed for a command when the golden data were recorded."""
    with gzip.open(GOLDEN / "mqadmin.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["stdout"] for row in rows if row["args"][0] == command]


def _figures(text: str) -> str:
    """The names of the figures that RocketMQ has; ours come on top."""
    names = frozenset("\n".join(map(_keys, recorded_outputs("brokerStatus"))).splitlines())
    of_directories = "commitLogDiskRatio_"
    return "\n".join(name for name in _keys(text).splitlines() if name in names or name.startswith(of_directories))


def _settings(text: str) -> str:
    """Settings and their values in the order of their names, without what only one of the two brokers can have."""
    values = dict(re.findall(r"^(\S+) += *(.*)$", text, re.MULTILINE))
    return "\n".join(
        f"{key} = {'N' if key in DIFFERENT_VALUES else value}"
        for key, value in sorted(values.items())
        if key not in OWN_SETTINGS | JAVA_SETTINGS and not key.endswith(IN_FORCE)
    )


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


def _own_settings() -> frozenset[str]:
    """What we show and a Java broker or nameserver did not write into its file."""
    written = "".join((GOLDEN / "config" / name).read_text() for name in ("broker.properties", "namesrv.properties"))
    rows = [row.key for settings_class in CLASSES.values() for row in setting_rows(settings_class)]
    return frozenset(rows) - {line.key for line in read_properties(written)}


OWN_SETTINGS = _own_settings()

JAVA_SETTINGS = frozenset({"isEnableBatchPush", "rocketmqHome"})
"""What Java shows under the name of a field (its setting is called enableBatchPush), and what has no value here."""

DIFFERENT_VALUES = _names(
    "listenPort haListenPort storePathRootDir storePathCommitLog kvConfigPath configStorePath "
    # As many threads as there are processors, or as there are tasks; here one does everything.
    "adminBrokerThreadPoolNums clientManageThreadPoolNums consumerManageThreadPoolNums "
    "endTransactionThreadPoolNums heartbeatThreadPoolNums processReplyMessageThreadPoolNums pullMessageThreadPoolNums "
    "putMessageFutureThreadPoolNums queryMessageThreadPoolNums sendMessageThreadPoolNums "
    # A JVM also counts what a control group gives it of a processor.
    "clientCallbackExecutorThreads "
    # Statistics go with their topic and group here.
    "autoDeleteUnusedStats"
)

COMPARABLE: dict[str, Comparable] = {
    "brokerStatus": _figures,
    "checkMsgSendRT": _without(r"(?m)^broker-0 .*$", r"Avg RT.*"),
    "cleanUnusedTopic": str,
    # Java's falls back for half a second when its file watcher has read the file before the last edit.
    "clusterAclConfigVersion": _without(r"plain_acl\.yml +\d+"),
    "clusterList": _without(r"VERSION .*"),
    "clusterRT": _without(r"broker-0 +[\d.]+"),
    "consumerProgress": _without(r"Consume TPS.*"),
    "consumerStatus": lambda text: _as_set(re.sub(r"messageListener.*", "", text)),
    "exportMetrics": _without(r"Tps\":.*", r"DiskRatio\":.*", r"cpuNum\":.*"),
    "getBrokerConfig": _settings,
    "getNamesrvConfig": _settings,
    "producer": _as_set,
    "queryMsgById": _without(r"spentTimeMills=\d+"),
    "sendMessage": _without(r"(?m)^broker-0 +\d"),
    "statsAll": lambda text: _as_set(_without(r"(?m)[\d.]+ +[\d.]+ .*$")(text)),
    "topicList": _as_set,
}
"""How the output of a command is made comparable; of the others the text itself is compared."""


def comparable(command: str, text: str) -> str:
    """Return what two outputs of a command must have in common."""
    return COMPARABLE.get(command, str)(text)
