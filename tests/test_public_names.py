"""The names that programs write: ``rocketpy.client`` and ``rocketpy.errors``. A name that goes breaks its users."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator

import pytest

from rocketpy import client, errors
from rocketpy.client import admin

CLIENT_NAMES = {
    "LitePullConfig",
    "LitePullConsumer",
    "LocalTransactionState",
    "ReplyMessage",
    "Transaction",
    "TransactionProducer",
    "TransactionSendResult",
    "reply_to",
    "BatchingProducer",
    "AdminClient",
    "AllocateAveragely",
    "AllocateByCircle",
    "AllocateByConfig",
    "AllocateByMachineRoom",
    "AllocateConsistentHash",
    "AllocateMachineRoomNearby",
    "AllocateMessageQueueStrategy",
    "AssignmentChange",
    "AssignmentIterator",
    "BatchIterator",
    "BrokerData",
    "CheckForbiddenHook",
    "Client",
    "ClientConfig",
    "ClientEnvironment",
    "ClusterInfo",
    "CommunicationMode",
    "CompressionType",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeMessageContext",
    "ConsumeMessageHook",
    "ConsumeReturnType",
    "EncodedBatch",
    "EndTransactionContext",
    "EndTransactionHook",
    "FilterMessageContext",
    "FilterMessageHook",
    "ConsumeOrderlyStatus",
    "Consumer",
    "ConsumerConfig",
    "Message",
    "MessageBatch",
    "MessageExt",
    "MessageModel",
    "MessageQueue",
    "MessageSelector",
    "MessageStream",
    "MessageType",
    "PendingSend",
    "Producer",
    "ProducerConfig",
    "PullConfig",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "QueueChanges",
    "QueueData",
    "QueueSelector",
    "SendMessageContext",
    "SendMessageHook",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "Start",
    "StartKind",
    "TlsClientConfig",
    "TopicRouteData",
    "open_admin_client",
    "open_client",
    "open_lite_pull_consumer",
    "open_producer",
    "open_pull_consumer",
    "queue_by_hash",
    "queue_by_random",
}

ADMIN_NAMES = {
    "TO_END",
    "AccountAdmin",
    "AdminClient",
    "BrokerAdmin",
    "BrokerStatsData",
    "BrokerStatsItem",
    "CMResult",
    "CleaningAdmin",
    "ClientAdmin",
    "ClusterAclVersionInfo",
    "Connection",
    "ConsumeMessageDirectlyResult",
    "ConsumeQueueData",
    "ConsumeStats",
    "ConsumeStatsList",
    "ConsumeStatus",
    "ConsumerConnection",
    "ConsumerRunningInfo",
    "DataVersion",
    "EndTransactionTrace",
    "GroupAdmin",
    "MessageAdmin",
    "MessageTrace",
    "MessageTrack",
    "NameServerAdmin",
    "OffsetAdmin",
    "OffsetWrapper",
    "PlainAccessConfig",
    "ProcessQueueInfo",
    "ProducerConnection",
    "ProducerInfo",
    "ProducerTableInfo",
    "PubTrace",
    "QueryConsumeQueueResponseBody",
    "QueryResult",
    "QueueTimeSpan",
    "ResetAdmin",
    "RollbackStats",
    "SubAfterTrace",
    "SubBeforeTrace",
    "SubscriptionData",
    "SubscriptionGroupConfig",
    "SubscriptionGroupWrapper",
    "TopicAdmin",
    "TopicConfig",
    "TopicConfigSerializeWrapper",
    "TopicFilterType",
    "TopicOffset",
    "TopicStatsTable",
    "TraceView",
    "TrackType",
}

ERROR_NAMES = {
    "BrokerError",
    "BrokersError",
    "ClientError",
    "DamagedStoreError",
    "DescriptorShortageError",
    "DiskFullError",
    "LocalProtocolError",
    "RemoteProtocolError",
    "RemotingConnectError",
    "RemotingError",
    "RemotingSendRequestError",
    "RemotingTimeoutError",
    "RemotingTooMuchRequestError",
    "RequestError",
    "RocketpyError",
    "SettingsError",
    "ShortageError",
    "StartError",
    "StoreError",
}


def test_the_client_package_has_its_public_names() -> None:
    assert set(client.__all__) == CLIENT_NAMES
    assert {name for name in CLIENT_NAMES if not hasattr(client, name)} == set()


def test_the_admin_package_has_its_public_names() -> None:
    assert set(admin.__all__) == ADMIN_NAMES
    assert {name for name in ADMIN_NAMES if not hasattr(admin, name)} == set()


def test_each_subject_of_the_admin_client_is_public() -> None:
    assert {value for name, value in _subjects().items() if value not in _public()} == set()


def test_the_errors_module_has_its_public_names() -> None:
    assert {name for name, value in vars(errors).items() if _is_error(value)} == ERROR_NAMES


@pytest.mark.parametrize("name", sorted(CLIENT_NAMES | (ADMIN_NAMES - {"TO_END"})))
def test_public_calls_take_and_return_public_types(name: str) -> None:
    """Annotating the result of a call needs no internal module."""
    public = _public()
    internal = {
        each
        for function in _public_calls(getattr(client, name, None) or getattr(admin, name))
        for hint in typing.get_type_hints(
            function, localns={name: getattr(client, name) for name in client.__all__}
        ).values()
        for each in _types_in(hint)
        if each.__module__.startswith("rocketpy.") and each not in public
    }
    assert internal == set()


def test_the_client_package_imports_neither_broker_nor_store_nor_spark() -> None:
    code = "import sys, rocketpy.client; print(*sys.modules)"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "rocketpy.client.producer.producer" in output
    foreign = ("rocketpy.broker", "rocketpy.nameserver", "rocketpy.store", "rocketpy.spark", "pyspark", "typer", "rich")
    assert [name for name in output if name.startswith(foreign)] == []


def _public() -> set[object]:
    return {
        *(getattr(client, each) for each in CLIENT_NAMES),
        *(getattr(admin, each) for each in ADMIN_NAMES),
        *(getattr(errors, each) for each in ERROR_NAMES),
    }


def _subjects() -> dict[str, type]:
    """The classes of the attributes of an admin client."""
    made = client.AdminClient(instance=typing.cast(typing.Any, None))
    return {name: type(value) for name, value in vars(made).items() if not name.startswith("_")}


def test_importing_the_client_loads_no_administration_no_consumer_no_server_and_no_converter() -> None:
    """They would take two thirds of the time of the import."""
    code = "import sys, rocketpy.client; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    unused = (
        "rocketpy.client.admin",
        "rocketpy.client.consumer",
        "rocketpy.remoting.server",
        "rocketpy.remoting.hub",
        "cattrs",
        "asyncio",
    )
    assert [name for name in loaded if name.startswith(unused)] == []


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, errors.RocketpyError)


def _public_calls(public: object) -> Iterator[Callable[..., object]]:
    """Yield a function, or the public methods of a class; clients are opened, so their constructors are internal."""
    if not isinstance(public, type):
        yield inspect.unwrap(typing.cast(Callable[..., object], public))
        return
    for name, member in vars(public).items():
        function = member.fget if isinstance(member, property) else inspect.unwrap(member) if callable(member) else None
        if not name.startswith("_") and inspect.isroutine(function):
            yield function


def _types_in(hint: object) -> Iterator[type]:
    if isinstance(hint, type) and not typing.get_args(hint):
        yield hint
    for argument in typing.get_args(hint):
        yield from _types_in(argument)
