"""The feature of replicated tables: a slave takes its master's, a master the offsets that its slaves have kept for it.

Composition only; no logic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rocketpy.broker.context import BrokerContext
from rocketpy.broker.feature import Feature
from rocketpy.broker.replication.broker_tables import BrokerTables
from rocketpy.broker.replication.common_log import CommonLog
from rocketpy.broker.replication.offsets_from_slaves import OffsetsFromSlaves
from rocketpy.broker.replication.signed_requests import with_account
from rocketpy.remoting.client import RemotingClient
from rocketpy.runner import RunBlocking

if TYPE_CHECKING:  # a broker that is no slave does not load it
    from rocketpy.broker.replication.slave_synchronize import KnownMaster, SlaveSynchronize


class ReplicatedTablesFeature(Feature):
    """The service of a slave, and what a master does before it serves."""

    def __init__(
        self,
        context: BrokerContext,
        *,
        client: RemotingClient,
        master: KnownMaster,
        is_following: Callable[[], bool],
        run_blocking: RunBlocking,
    ) -> None:
        config, tables = context.config, context.tables
        signed = with_account(client, accounts=tables.accounts, access_key=config.replication_account)
        others = BrokerTables(signed, run_blocking)
        self.slave_synchronize: SlaveSynchronize | None = None
        self.offsets_from_slaves: OffsetsFromSlaves | None = None
        if context.is_slave:
            from rocketpy.broker.metadata.topic_deletions import TopicDeletions
            from rocketpy.broker.replication.slave_synchronize import SlaveSynchronize

            self.slave_synchronize = SlaveSynchronize(
                master=master,
                tables=others,
                topics=tables.topics,
                groups=tables.groups,
                offsets=tables.offsets,
                delay_offsets=tables.delay_offsets,
                deletions=TopicDeletions(deleted=tables.deleted_topics, offsets=tables.offsets, store=context.store),
                differences=tables.offset_differences,
                store=context.store,
                is_following=is_following,
            )
            self.services = (self.slave_synchronize,)
        else:
            self.offsets_from_slaves = OffsetsFromSlaves(
                config=config,
                namesrv_addresses=config.namesrv_addresses,
                broker_addr=context.broker_addr,
                client=client,
                tables=others,
                offsets=tables.offsets,
                resets=tables.offset_resets,
                store=context.store,
                common_log=CommonLog(context.store.recorded_log, signed),
                run_blocking=run_blocking,
            )

    def figures(self) -> dict[str, str]:
        """Return the state of a slave's tables."""
        return {} if self.slave_synchronize is None else self.slave_synchronize.figures()

    async def before_serving(self) -> None:
        """Take the offsets that clients have committed to slaves, in bounded time."""
        if self.offsets_from_slaves is not None:
            await self.offsets_from_slaves.take()
