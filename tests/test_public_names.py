"""The names that programs write: ``rocketpy.client`` and ``rocketpy.errors``. A name that goes breaks its users."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator

import pytest

from rocketpy import client, errors

CLIENT_NAMES = {
    "AdminClient",
    "BrokerData",
    "Client",
    "ClientConfig",
    "ClientEnvironment",
    "ClusterInfo",
    "Message",
    "MessageExt",
    "MessageQueue",
    "MessageStream",
    "Producer",
    "ProducerConfig",
    "PullConfig",
    "PullConsumer",
    "PullResult",
    "PullStatus",
    "QueueData",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "TlsClientConfig",
    "TopicRouteData",
    "open_admin_client",
    "open_client",
    "open_producer",
    "open_pull_consumer",
}

ERROR_NAMES = {
    "BrokerError",
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


def test_the_errors_module_has_its_public_names() -> None:
    assert {name for name, value in vars(errors).items() if _is_error(value)} == ERROR_NAMES


@pytest.mark.parametrize("name", sorted(CLIENT_NAMES))
def test_public_calls_take_and_return_public_types(name: str) -> None:
    """Annotating the result of a call needs no internal module."""
    public = {getattr(client, each) for each in CLIENT_NAMES}
    internal = {
        each
        for function in _public_calls(getattr(client, name))
        for hint in typing.get_type_hints(function).values()
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
