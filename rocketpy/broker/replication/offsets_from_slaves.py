"""Consumer offsets that a master takes from its slaves before it serves: those of the time when it was away.

Consumers that find no master commit to a slave. At its start a master asks the nameservers for the slaves of its name,
asks these for their offsets (43), and takes the higher ones, all within ``TAKE_SECONDS``. Its own offsets never fall by
that. Slaves of either make answer; a slave of this make also brings such offsets home by itself
(:mod:`.slave_synchronize`), later, and to a Java master too.

An offset stands for messages of a log. So nothing is taken from a slave whose log is not this one's beginning, or does
not go on where this one ends: an old master with a tail of its own, whose queue offsets belong to other messages here.
Nor from anybody who does not show a record of it, nor, with ``haAllowList``, from other addresses: whom a nameserver
names as a slave is not known to be one (:mod:`.common_log`). What is taken is logged, and why nothing is.

Of a slave that may be believed is not taken:

- an offset that a reset on this master has revoked (:mod:`rocketpy.broker.metadata.offset_resets`);
- where there was a reset, an offset that a client has committed to the slave, perhaps before it: the slave brings it
  home by itself, and says then how long ago that was;
- the part of an offset past the end of the queue here: the messages that will be there are not those that the group has
  consumed;
- offsets of the broker's own groups, which belong to records of this log that a loss of power may have taken;
- a new offset when there are too many.

Compatibility: RocketMQ (4.9.8) takes none, and its slaves overwrite theirs with the master's (rocketmq#1094).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice

import trio

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.groups import OWN_GROUPS
from rocketpy.broker.metadata.offset_resets import OffsetResets
from rocketpy.broker.metadata.offsets import ConsumerOffsetManager, split_key
from rocketpy.broker.replication.broker_tables import BrokerTables, SlaveOffsets
from rocketpy.broker.replication.common_log import CommonLog
from rocketpy.broker.replication.signed_requests import Requests
from rocketpy.containment import Contained
from rocketpy.errors import BrokerError, RemoteProtocolError, RemotingConnectError, RemotingError
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.codec import decode_peer_body
from rocketpy.protocol.bodies.route import MASTER_ID, ClusterInfo
from rocketpy.protocol.codes import RequestCode, ResponseCode
from rocketpy.protocol.command import make_request
from rocketpy.remoting.limits.allow_list import is_allowed, networks
from rocketpy.remoting.network import split_address
from rocketpy.runner import RunBlocking, run_decoder
from rocketpy.store.message_store import MessageStore

TAKE_SECONDS = 2.0
"""Time that a start of a master waits for nameservers and slaves, all together."""

SLAVES_ASKED_MAX = 16
"""Bound of the slaves that are asked."""

ADDRESSES_LOOKED_AT_MAX = 1_000
"""Bound of the addresses of this name in the answer of a nameserver."""

_LOGGED_MAX = 100
"""Offsets that are logged one by one when they are taken; of more only the number."""

_KEYS_PER_TURN = 500
_SHOWN_MAX = 300

_log = logging.getLogger("rocketpy.broker")


class OffsetsFromSlaves:
    """Taken once, by :meth:`take`. Only a master has it."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        namesrv_addresses: Sequence[str],
        broker_addr: str,
        client: Requests,
        tables: BrokerTables,
        offsets: ConsumerOffsetManager,
        resets: OffsetResets,
        store: MessageStore,
        common_log: CommonLog,
        run_blocking: RunBlocking,
    ) -> None:
        self._run_blocking = run_blocking
        self._common_log = common_log
        self._allowed = networks(config.ha_allow_list)
        self._logged_count = 0
        self._config = config
        self._namesrv_addresses = tuple(namesrv_addresses)
        self._broker_addr = broker_addr
        self._client = client
        self._tables = tables
        self._offsets = offsets
        self._resets = resets
        self._store = store
        self._asked: set[str] = set()

    async def take(self) -> int:
        """Return how many offsets were raised. Never fails for what a peer answers, nor takes longer than it may."""
        counts: list[int] = []
        with trio.move_on_after(TAKE_SECONDS):
            async with trio.open_nursery() as nursery:
                for address in self._namesrv_addresses:
                    nursery.start_soon(self._ask_nameserver, address, nursery, counts)
        return sum(counts)

    # ---- private --------------------------------------------------------------------------------------------------

    async def _ask_nameserver(self, address: str, nursery: trio.Nursery, counts: list[int]) -> None:
        """Ask the slaves that a nameserver knows; another one may know others."""
        with Contained(_log, "asking nameserver %s for the slaves of this broker", address):
            try:
                request = make_request(RequestCode.GET_BROKER_CLUSTER_INFO)
                answer = await self._client.request(address, request, TAKE_SECONDS)
                if answer.code != ResponseCode.SUCCESS:
                    raise BrokerError(answer.code, answer.remark, address)
                decode = partial(decode_peer_body, body_class=ClusterInfo)
                cluster = await run_decoder(decode, answer.body or b"", self._run_blocking)
                slaves = self._slaves_in(cluster)
            except (RemotingError, BrokerError, RemoteProtocolError) as failure:
                fields = event_fields(address=address, why=str(failure)[:_SHOWN_MAX])
                _log.warning("a nameserver did not name the slaves of this broker at its start", extra=fields)
                return
            for slave in slaves:
                if slave not in self._asked and len(self._asked) < SLAVES_ASKED_MAX:
                    self._asked.add(slave)
                    nursery.start_soon(self._ask_slave, slave, counts)

    def _slaves_in(self, cluster: ClusterInfo) -> list[str]:
        broker = cluster.broker_addr_table.get(self._config.broker_name)
        addresses = {} if broker is None else broker.broker_addrs
        return [
            address
            for broker_id, address in islice(addresses.items(), ADDRESSES_LOOKED_AT_MAX)
            if broker_id != MASTER_ID and address != self._broker_addr and self._may_be_asked(address)
        ]

    def _may_be_asked(self, address: str) -> bool:
        """Whether an address may replicate; a name is none of the addresses in ``haAllowList``."""
        try:
            return not self._allowed or is_allowed(split_address(address)[0], self._allowed)
        except (RemotingConnectError, ValueError):
            return False

    async def _ask_slave(self, address: str, counts: list[int]) -> None:
        with Contained(_log, "taking the offsets of slave %s", address):
            try:
                offsets = await self._tables.slave_offsets(address)
                difference = await self._common_log.difference(address)  # of a log that has what the offsets stand for
            except (RemotingError, BrokerError, RemoteProtocolError, OSError) as failure:
                fields = event_fields(slave=address, why=str(failure)[:_SHOWN_MAX])
                _log.warning("a slave did not tell its consumer offsets at this broker's start", extra=fields)
                return
            if difference:
                fields = event_fields(slave=address, why=difference, groups=len(offsets.table))
                _log.warning("no consumer offsets are taken from a slave", extra=fields)
                return
            count = await self._take_all(address, offsets)
            counts.append(count)
            _log.info("a slave told its consumer offsets", extra=event_fields(slave=address, taken=count))

    async def _take_all(self, address: str, told: SlaveOffsets) -> int:
        count = 0
        for number, (key, offsets) in enumerate(told.table.items()):
            if number % _KEYS_PER_TURN == _KEYS_PER_TURN - 1:
                await trio.lowlevel.checkpoint()
            topic, group = split_key(key)
            if group in OWN_GROUPS:
                continue
            committed = told.committed.get(key, {})
            for queue_id, offset in offsets.items():
                if queue_id in committed and self._resets.revoked_offset(key, queue_id) >= 0:
                    continue
                count += self._take_one(address, topic, group, queue_id, offset)
        return count

    def _take_one(self, address: str, topic: str, group: str, queue_id: int, offset: int) -> bool:
        """Take an offset if it is higher than ours and may count."""
        if self._resets.revokes(f"{topic}@{group}", queue_id, offset, None):
            return False
        taken = min(offset, self._store.max_offset_in_queue(topic, queue_id))
        before = self._offsets.query_offset(group, topic, queue_id)
        if taken <= max(before, 0):
            return False
        if not self._offsets.has_room_for(group, topic, queue_id):
            return False
        self._offsets.commit_offset(address, group, topic, queue_id, taken)
        self._logged_count += 1
        if self._logged_count <= _LOGGED_MAX:
            fields = event_fields(slave=address, topic=topic, group=group, queueId=queue_id, now=taken, was=before)
            _log.warning("a consumer offset is taken from a slave", extra=fields)
        return True
