"""One client, many roles: producers, consumers and administration share connections, routes and heartbeats.

::

    async with open_client("127.0.0.1:9876") as client:
        async with client.producer("g") as producer:
            await producer.send(Message("T", b"hello"))

A role ends with its block, and all of a client's with the client's. The shorthands (:func:`open_producer` and its like)
open a client with one role.

Compatibility: ``MQClientInstance`` and the roles that it registers (4.9.8). A group may have one producer and one
consumer in a client, as there.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from rocketpy.client.config import DEFAULT_ADMIN_TIMEOUT_MS, DEFAULT_NAME_SERVER, ClientConfig, client_config
from rocketpy.client.environment import ClientEnvironment
from rocketpy.client.hooks import (
    CheckForbiddenHook,
    ConsumeMessageHook,
    EndTransactionHook,
    FilterMessageHook,
    PropertiesHook,
    SendMessageHook,
)
from rocketpy.client.instance import ClientInstance, open_client_instance
from rocketpy.client.namespace import Namespace
from rocketpy.client.producer.config import ProducerConfig
from rocketpy.client.producer.producer import Producer, producer_role
from rocketpy.client.producer.transaction import Check, TransactionProducer, transaction_producer_role
from rocketpy.client.readiness import missing_name_server, missing_routes, wait_until_ready
from rocketpy.client.states import StateChange, StateChanges
from rocketpy.client.trace.tracing import consumer_traces, producer_traces
from rocketpy.protocol.bodies.heartbeat import SUB_ALL

if TYPE_CHECKING:  # most of the client's modules, which a program that only sends does not load
    from rocketpy.client.admin.admin_client import AdminClient
    from rocketpy.client.consumer.config import ConsumerConfig, PullConfig
    from rocketpy.client.consumer.consumer import Consumer
    from rocketpy.client.consumer.lite_pull.config import LitePullConfig
    from rocketpy.client.consumer.lite_pull.consumer import LitePullConsumer
    from rocketpy.client.consumer.message_selector import MessageSelector
    from rocketpy.client.consumer.pull_consumer import PullConsumer

DEFAULT_PRODUCER_GROUP = "rocketpy_producer"


@asynccontextmanager
async def open_client(
    name_servers: str | Sequence[str] = DEFAULT_NAME_SERVER,
    *,
    config: ClientConfig | None = None,
    environment: ClientEnvironment | None = None,
) -> AsyncIterator[Client]:
    """Open a client of these nameservers; its connections and tasks end with the block.

    NoNameServerError without a nameserver, SettingsError for a certificate file that cannot be used.
    """
    async with open_client_instance(client_config(name_servers, config), environment=environment) as instance:
        yield Client(instance)


class Client:
    """Opens roles. Created by :func:`open_client`; may be used by many tasks concurrently."""

    def __init__(self, instance: ClientInstance) -> None:
        self._instance = instance

    @property
    def client_id(self) -> str:
        """The name by which brokers know this client: ``address@instance_name``."""
        return self._instance.client_id

    async def wait_ready(self, timeout_s: float, *topics: str) -> None:
        """Return when a nameserver answers and these topics have queues; NotReadyError if that is not so in time.

        ``missing`` of the error says what is not there, and why.
        """

        async def missing() -> list[str]:
            names = map(Namespace(self._instance.namespace).wrap, topics)
            return await missing_name_server(self._instance) or await missing_routes(self._instance, names)

        await wait_until_ready(self._instance, timeout_s, missing)

    @property
    def troubles(self) -> list[StateChange]:
        """What the client depends on and does not work now, the longest first: nameservers, brokers, routes."""
        return self._instance.states.troubles

    def state_changes(self) -> StateChanges:
        """Iterate over what goes wrong and what works again, beginning with :attr:`troubles`; ends with the client.

        These are the changes that the log has: each once when it begins and once when it is over.
        """
        return self._instance.states.changes()

    def with_namespace(self, name: str) -> str:
        """Return a topic or group as brokers know it: for administration, which is of the whole cluster."""
        return Namespace(self._instance.namespace).wrap(name)

    def without_namespace(self, name: str) -> str:
        """Return a topic or group that administration names as this client's roles do."""
        return Namespace(self._instance.namespace).unwrap(name)

    @asynccontextmanager
    async def producer(
        self,
        group: str = DEFAULT_PRODUCER_GROUP,
        *,
        config: ProducerConfig | None = None,
        topics: Sequence[str] = (),
        send_hooks: Sequence[SendMessageHook] = (),
        check_forbidden_hooks: Sequence[CheckForbiddenHook] = (),
        properties_hooks: Sequence[PropertiesHook] = (),
    ) -> AsyncIterator[Producer]:
        """Open a producer of a group; at the end of the block it is unregistered from the brokers.

        The brokers of ``topics``, and those that create topics on their own, know the group before its first send.
        ClientError for an illegal group, or one that this client has a producer of.
        """
        config = config or ProducerConfig()
        async with (
            producer_traces(self._instance, group, config) as traces,
            producer_role(
                self._instance,
                group,
                config,
                topics=topics,
                send_hooks=(*send_hooks, *traces.send_hooks),
                check_forbidden_hooks=check_forbidden_hooks,
                properties_hooks=properties_hooks,
            ) as producer,
        ):
            yield producer

    @asynccontextmanager
    async def transaction_producer(
        self,
        group: str,
        *,
        check: Check,
        config: ProducerConfig | None = None,
        topics: Sequence[str] = (),
        send_hooks: Sequence[SendMessageHook] = (),
        check_forbidden_hooks: Sequence[CheckForbiddenHook] = (),
        properties_hooks: Sequence[PropertiesHook] = (),
        end_transaction_hooks: Sequence[EndTransactionHook] = (),
    ) -> AsyncIterator[TransactionProducer]:
        """Open a producer of transactions; ``check`` says what became of one that a broker asks about.

        Brokers may ask before its first send, about transactions of another process: those that create topics on their
        own, and those of ``topics``. Where no broker creates topics, name those of the group's transactions.
        ClientError for an illegal group, or one that this client has a producer of.
        """
        config = config or ProducerConfig()
        async with (
            producer_traces(self._instance, group, config) as traces,
            producer_role(
                self._instance,
                group,
                config,
                topics=topics,
                is_asked=True,
                send_hooks=(*send_hooks, *traces.send_hooks),
                check_forbidden_hooks=check_forbidden_hooks,
                properties_hooks=properties_hooks,
            ) as producer,
            transaction_producer_role(
                self._instance, group, producer, check, (*end_transaction_hooks, *traces.end_transaction_hooks)
            ) as opened,
        ):
            yield opened

    @asynccontextmanager
    async def pull_consumer(
        self, group: str, *topics: str, config: PullConfig | None = None
    ) -> AsyncIterator[PullConsumer]:
        """Open a consumer that pulls single queues; at the end of the block it is unregistered from the brokers.

        Of ``topics`` it has a share of the queues, as a member of the group; it may pull any other queue too.
        ClientError for an illegal group, or one that this client has a consumer of.
        """
        from rocketpy.client.consumer.config import PullConfig
        from rocketpy.client.consumer.pull_consumer import pull_consumer_role

        async with pull_consumer_role(self._instance, group, topics, config or PullConfig()) as consumer:
            yield consumer

    @asynccontextmanager
    async def lite_pull_consumer(
        self,
        group: str,
        *topics: str,
        subscriptions: Mapping[str, str | MessageSelector] | None = None,
        config: LitePullConfig | None = None,
        consume_hooks: Sequence[ConsumeMessageHook] = (),
    ) -> AsyncIterator[LitePullConsumer]:
        """Open a consumer whose messages are polled, see :mod:`rocketpy.client.consumer.lite_pull.consumer`.

        It subscribes to all of ``topics``, and of those in ``subscriptions`` to what a selector wants; without any, to
        what the program subscribes to later, or it is assigned queues. At the end of the block it leaves the group.
        Raises as :meth:`LitePullConsumer.subscribe`, and ClientError for an illegal group.
        """
        from rocketpy.client.consumer.lite_pull.config import LitePullConfig
        from rocketpy.client.consumer.lite_pull.consumer import lite_pull_consumer_role

        wanted = {**dict.fromkeys(topics, SUB_ALL), **(subscriptions or {})}
        config = config or LitePullConfig()
        async with (
            consumer_traces(self._instance, group, config) as trace_hooks,
            lite_pull_consumer_role(
                self._instance, group, wanted, config, consume_hooks=(*consume_hooks, *trace_hooks)
            ) as consumer,
        ):
            yield consumer

    def admin(self, *, timeout_ms: int = DEFAULT_ADMIN_TIMEOUT_MS) -> AdminClient:
        """Return an admin client; it needs no block of its own. ``timeout_ms`` bounds each of its requests."""
        from rocketpy.client.admin.admin_client import AdminClient

        return AdminClient(instance=self._instance, timeout_ms=timeout_ms)

    @asynccontextmanager
    async def consumer(
        self,
        group: str,
        *topics: str,
        subscriptions: Mapping[str, str | MessageSelector] | None = None,
        config: ConsumerConfig | None = None,
        consume_hooks: Sequence[ConsumeMessageHook] = (),
        filter_hooks: Sequence[FilterMessageHook] = (),
    ) -> AsyncIterator[Consumer]:
        """Open a consumer that is a member of a group, see :mod:`rocketpy.client.consumer.consumer`.

        It consumes all of ``topics``, and of those in ``subscriptions`` what a selector wants. At the end of the block
        it leaves the group. ClientError for an illegal group or selector.
        """
        from rocketpy.client.consumer.config import ConsumerConfig
        from rocketpy.client.consumer.consumer import consumer_role

        wanted = {**dict.fromkeys(topics, SUB_ALL), **(subscriptions or {})}
        config = config or ConsumerConfig()
        async with (
            consumer_traces(self._instance, group, config) as trace_hooks,
            consumer_role(
                self._instance,
                group,
                wanted,
                config,
                consume_hooks=(*consume_hooks, *trace_hooks),
                filter_hooks=filter_hooks,
            ) as consumer,
        ):
            yield consumer


@asynccontextmanager
async def open_producer(
    name_servers: str | Sequence[str] = DEFAULT_NAME_SERVER,
    *,
    group: str = DEFAULT_PRODUCER_GROUP,
    config: ClientConfig | None = None,
    producer: ProducerConfig | None = None,
    send_hooks: Sequence[SendMessageHook] = (),
    check_forbidden_hooks: Sequence[CheckForbiddenHook] = (),
    properties_hooks: Sequence[PropertiesHook] = (),
    environment: ClientEnvironment | None = None,
) -> AsyncIterator[Producer]:
    """Open a client with one producer, see :meth:`Client.producer`."""
    async with (
        open_client(name_servers, config=config, environment=environment) as client,
        client.producer(
            group,
            config=producer,
            send_hooks=send_hooks,
            check_forbidden_hooks=check_forbidden_hooks,
            properties_hooks=properties_hooks,
        ) as opened,
    ):
        yield opened


@asynccontextmanager
async def open_pull_consumer(
    name_servers: str | Sequence[str] = DEFAULT_NAME_SERVER,
    *,
    group: str,
    topics: Sequence[str] = (),
    config: ClientConfig | None = None,
    consumer: PullConfig | None = None,
    environment: ClientEnvironment | None = None,
) -> AsyncIterator[PullConsumer]:
    """Open a client with one pull consumer, see :meth:`Client.pull_consumer`."""
    async with (
        open_client(name_servers, config=config, environment=environment) as client,
        client.pull_consumer(group, *topics, config=consumer) as opened,
    ):
        yield opened


@asynccontextmanager
async def open_lite_pull_consumer(
    name_servers: str | Sequence[str] = DEFAULT_NAME_SERVER,
    *,
    group: str,
    topics: Sequence[str] = (),
    config: ClientConfig | None = None,
    consumer: LitePullConfig | None = None,
    environment: ClientEnvironment | None = None,
) -> AsyncIterator[LitePullConsumer]:
    """Open a client with one lite pull consumer, see :meth:`Client.lite_pull_consumer`."""
    async with (
        open_client(name_servers, config=config, environment=environment) as client,
        client.lite_pull_consumer(group, *topics, config=consumer) as opened,
    ):
        yield opened


@asynccontextmanager
async def open_admin_client(
    name_servers: str | Sequence[str] = DEFAULT_NAME_SERVER,
    *,
    config: ClientConfig | None = None,
    environment: ClientEnvironment | None = None,
) -> AsyncIterator[AdminClient]:
    """Open a client for administration, see :meth:`Client.admin`."""
    async with open_client(name_servers, config=config, environment=environment) as client:
        yield client.admin()
