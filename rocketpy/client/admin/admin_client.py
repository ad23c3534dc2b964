"""Administration of a cluster, by subject: ``client.admin().topics.create("T")``. For rocketpy and Java clusters alike.

Errors: :class:`~rocketpy.errors.BrokerError` with RocketMQ's code for what a server refuses,
:class:`~rocketpy.errors.ClientError` for what fails before or without that,
:class:`~rocketpy.errors.BrokersError` when some of several servers fail; transport errors are raised as they are.

Compatibility: ``DefaultMQAdminExt`` and ``MQAdmin`` (4.9.8), call by call in ``docs/compatibility.md``.
"""

from __future__ import annotations

from collections.abc import Iterable

from rocketpy.client.admin.accounts import AccountAdmin
from rocketpy.client.admin.brokers import BrokerAdmin
from rocketpy.client.admin.cleaning import CleaningAdmin
from rocketpy.client.admin.clients import ClientAdmin
from rocketpy.client.admin.groups import GroupAdmin
from rocketpy.client.admin.messages import MessageAdmin
from rocketpy.client.admin.name_servers import NameServerAdmin
from rocketpy.client.admin.offsets import OffsetAdmin
from rocketpy.client.admin.requests import DEFAULT_TIMEOUT_MS, AdminRequests
from rocketpy.client.admin.resets import ResetAdmin
from rocketpy.client.admin.topics import TopicAdmin
from rocketpy.client.admin.tracks import MessageTrack, MessageTracks
from rocketpy.client.instance import ClientInstance
from rocketpy.protocol.bodies.route import ClusterInfo, TopicRouteData
from rocketpy.protocol.codes import PERM_READ_WRITE
from rocketpy.protocol.message import MessageExt


class AdminClient:
    """Administrative requests. Created by :meth:`Client.admin`; may be used by many tasks concurrently."""

    def __init__(self, *, instance: ClientInstance, timeout_ms: int = DEFAULT_TIMEOUT_MS) -> None:
        requests = AdminRequests(instance, timeout_ms=timeout_ms)
        self.topics = TopicAdmin(requests)
        """Topics: settings, routes, queues."""
        self.groups = GroupAdmin(requests)
        """Consumer groups: settings and permissions."""
        self.clients = ClientAdmin(requests)
        """Producers and consumers that are online."""
        self.offsets = OffsetAdmin(requests)
        """Bounds of queues, and the progress of groups."""
        self.resets = ResetAdmin(requests, self.offsets)
        """Resets of offsets to a time."""
        self.messages = MessageAdmin(requests)
        """Messages by id or key."""
        self.brokers = BrokerAdmin(requests)
        """Figures, settings and statistics of brokers."""
        self.name_servers = NameServerAdmin(requests)
        """Settings and key-value configuration of nameservers."""
        self.accounts = AccountAdmin(requests)
        """Accounts of brokers with access control."""
        self.cleaning = CleaningAdmin(requests)
        """Deletions that brokers otherwise make on their own."""
        self._tracks = MessageTracks(requests, topics=self.topics, clients=self.clients, offsets=self.offsets)

    async def track(self, message: MessageExt) -> list[MessageTrack]:
        """Return how far each group that consumes the topic of a message has come with it."""
        return await self._tracks.of(message)

    async def route(self, topic: str) -> TopicRouteData | None:
        """Return the route of a topic, None when no broker has it."""
        return await self.topics.route(topic)

    async def routes(self, topics: Iterable[str]) -> dict[str, TopicRouteData]:
        """Return the routes of topics, in their order; unknown topics are left out."""
        return await self.topics.routes(topics)

    async def cluster_info(self) -> ClusterInfo:
        """Return clusters, brokers and their addresses."""
        return await self.brokers.clusters()

    async def create_topic(
        self, topic: str, *, queue_nums: int = 8, perm: int = PERM_READ_WRITE, cluster: str | None = None
    ) -> list[str]:
        """Create or update a topic on every master, see :meth:`TopicAdmin.create`."""
        return await self.topics.create(topic, queue_nums=queue_nums, perm=perm, cluster=cluster)
