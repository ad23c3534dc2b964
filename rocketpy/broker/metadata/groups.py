"""Table of consumer groups, persisted in ``subscriptionGroup.json``.

It maps a group to its :class:`SubscriptionGroupConfig`. A group is created by its first heartbeat or pull while
``autoCreateSubscriptionGroup`` is on and the table is below its bounds in entries and bytes. Every change increments
the data version.

Compatibility: ``SubscriptionGroupManager`` and ``LmqSubscriptionGroupManager`` (4.9.8). Where
automatic creation is off, RocketMQ still creates every group whose name begins with ``CID_RMQ_SYS_``; here only the
broker's own groups are created then, or when the table is full.
"""

from __future__ import annotations

import logging

import attrs

from rocketpy.broker.config import BrokerConfig
from rocketpy.broker.metadata.auto_create_bounds import AutoCreateBounds
from rocketpy.broker.metadata.config_text import config_text, log_put
from rocketpy.broker.metadata.stored_table import StoredTable
from rocketpy.broker.metadata.topics import QUEUE_NUMS_MAX, queue_nums_in
from rocketpy.clock import Clock
from rocketpy.log_files import event_fields
from rocketpy.protocol.bodies.codec import decode_value
from rocketpy.protocol.bodies.group import SubscriptionGroupConfig, SubscriptionGroupWrapper
from rocketpy.protocol.bodies.topic import DataVersion
from rocketpy.protocol.fastjson.file_notes import FileNotes, path_in
from rocketpy.protocol.topic_name import LMQ_PREFIX
from rocketpy.runner import RunBlocking
from rocketpy.store.disk.interface import Disk

PREDEFINED_GROUPS = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
)
CHECK_GROUP = "CID_RMQ_SYS_TRANS"
"""The consumer group whose offsets mark how far the half and op queues of transactions are processed."""

OWN_GROUPS = frozenset((CHECK_GROUP,))
"""The broker's own groups, which are created whatever the settings are."""

NAME_LENGTH_MAX = 255
"""Longer names of groups and clients are refused; RocketMQ's clients refuse to send them too."""

_ENTRY_BYTES = 280
"""Largest size of a group in the table's JSON without its name, which occurs twice."""

_log = logging.getLogger("rocketpy.broker")


class SubscriptionGroupManager:
    """The groups of one broker."""

    def __init__(
        self,
        *,
        config: BrokerConfig,
        path: str,
        disk: Disk,
        run_blocking: RunBlocking,
        clock: Clock,
        enable_lmq: bool = False,
    ) -> None:
        self._config = config
        self._enable_lmq = enable_lmq
        self._clock = clock
        self.subscription_group_table = {
            group: SubscriptionGroupConfig(group_name=group) for group in PREDEFINED_GROUPS
        }
        """Read freely; change it only through the methods."""
        self._bounds = AutoCreateBounds(
            entry_bytes=_ENTRY_BYTES,
            count_max=lambda: config.auto_create_subscription_group_max,
            count_key="autoCreateSubscriptionGroupMax",
            bytes_max=lambda: config.auto_create_table_bytes_max,
        )
        self._bounds.recount(self.subscription_group_table)
        self.data_version = DataVersion(timestamp=clock.timestamp_ms(), counter=0)
        self.stored = StoredTable(path=path, disk=disk, run_blocking=run_blocking, snapshot=self._snapshot)

    def load(self) -> None:
        """Load the file over the predefined groups; StartError when file and backup are malformed."""
        loaded = self.stored.load(_decode_file)
        if loaded is None:
            return
        table = dict(loaded.subscription_group_table)
        for group, group_config in self.subscription_group_table.items():
            table.setdefault(group, group_config)
        self.subscription_group_table = table
        self._bounds.recount(table)
        self.data_version = loaded.data_version
        if self.full_because is not None:
            _log.warning("%s is large: %s; no group is created automatically", self.stored.path, self.full_because)

    def find_subscription_group_config(self, group: str) -> SubscriptionGroupConfig | None:
        """Return the configuration of a group, creating the group if that is allowed; None otherwise.

        Groups of light queues are not in the table and share one fixed configuration.
        """
        if self._enable_lmq and group.startswith(LMQ_PREFIX):
            return SubscriptionGroupConfig(group_name=group)
        group_config = self.subscription_group_table.get(group)
        if (
            group_config is None
            and len(group) <= NAME_LENGTH_MAX
            and ((self._config.auto_create_subscription_group and self.full_because is None) or group in OWN_GROUPS)
        ):
            group_config = SubscriptionGroupConfig(group_name=group)
            self._put(group_config)
            log_put(_log, "group", group_config, None)
            self._changed()
        return group_config

    def is_known(self, group: str) -> bool:
        """Whether a group has a configuration, or is the broker's own; unlike a look-up, this creates none."""
        is_light = self._enable_lmq and group.startswith(LMQ_PREFIX)
        return is_light or group in self.subscription_group_table or group in OWN_GROUPS

    @property
    def full_because(self) -> str | None:
        """The bound that stops automatic creation, for remarks and logs; None while there is room."""
        return self._bounds.full_because(len(self.subscription_group_table))

    def update_subscription_group_config(self, group_config: SubscriptionGroupConfig) -> None:
        """Create or replace a group for an administrator; groups of light queues cannot be changed."""
        if self._enable_lmq and group_config.group_name.startswith(LMQ_PREFIX):
            return
        old = self.subscription_group_table.get(group_config.group_name)
        self._put(group_config)
        log_put(_log, "group", group_config, old)
        self._changed()

    def take(self, wrapper: SubscriptionGroupWrapper) -> bool:
        """Replace the table by a master's, with its data version; False when both are equal already.

        Compatibility: RocketMQ's slave compares versions.
        """
        table = dict(wrapper.subscription_group_table)
        if self.data_version == wrapper.data_version and self.subscription_group_table == table:
            return False
        self.subscription_group_table = table
        self._bounds.recount(table)
        self.data_version = wrapper.data_version
        self.stored.changed()
        return True

    def disable_consume(self, group: str) -> None:
        """Disable consumption for a group, if it exists."""
        old = self.subscription_group_table.get(group)
        if old is not None and old.consume_enable:
            self.subscription_group_table[group] = attrs.evolve(old, consume_enable=False)
            self._changed()

    def delete_subscription_group_config(self, group: str) -> bool:
        """Delete a group; False when it does not exist. Its offsets are in another table and stay."""
        old = self.subscription_group_table.pop(group, None)
        if old is None:
            return False
        self._bounds.removed(group)
        _log.info("group deleted", extra=event_fields(group=group, was=config_text(old)))
        self._changed()
        return True

    def wrapper(self) -> SubscriptionGroupWrapper:
        """Return the whole table in its wire form."""
        return SubscriptionGroupWrapper(
            data_version=self.data_version, subscription_group_table=dict(self.subscription_group_table)
        )

    def _put(self, group_config: SubscriptionGroupConfig) -> None:
        group = group_config.group_name
        if group not in self.subscription_group_table:
            self._bounds.added(group)
        self.subscription_group_table[group] = group_config

    def _changed(self) -> None:
        self.data_version = self.data_version.next_version(self._clock.timestamp_ms())
        self.stored.changed()

    def _snapshot(self) -> object:
        return self.wrapper()


def _decode_file(content: object, notes: FileNotes) -> SubscriptionGroupWrapper:
    wrapper = decode_value(content, SubscriptionGroupWrapper, notes)
    table = wrapper.subscription_group_table
    for name, group_config in list(table.items()):
        if not name.strip():
            # No client can be of it, and a slave refuses a table that has it.
            notes.value(path_in("subscriptionGroupTable", name), name, "the name of a group", "it is left out")
            del table[name]
        elif group_config.group_name != name or not _is_in_range(group_config):
            table[name] = _fitted(group_config, name, path_in("subscriptionGroupTable", name), notes)
    return wrapper


def _is_in_range(group_config: SubscriptionGroupConfig) -> bool:
    return (
        0 <= group_config.retry_queue_nums <= QUEUE_NUMS_MAX
        and group_config.retry_max_times >= 0
        and group_config.broker_id >= 0
        and group_config.which_broker_when_consume_slowly >= 0
    )


def _fitted(group_config: SubscriptionGroupConfig, name: str, path: str, notes: FileNotes) -> SubscriptionGroupConfig:
    """Return a group of the file as RocketMQ would act on it, so that slaves take it, too."""
    if group_config.group_name != name:
        # An entry that was copied by hand: everything looks a group up by its key.
        found, expected = group_config.group_name, f"the entry's key {name!r:.100}"
        notes.value(path_in(path, "groupName"), found, expected, "the key counts")
        group_config = attrs.evolve(group_config, group_name=name)
    queue_nums = queue_nums_in(
        group_config.retry_queue_nums,
        path_in(path, "retryQueueNums"),
        notes,
        "0 counts, as in RocketMQ: messages that are sent back are dropped",
    )
    group_config = attrs.evolve(group_config, retry_queue_nums=queue_nums)
    if group_config.retry_max_times < 0:
        # Kept as it is: RocketMQ means nothing else by it than by 0, and a client may bring its own number.
        expected, what_counts = "0 or more", "it counts as 0: what fails once is a dead letter"
        notes.value(path_in(path, "retryMaxTimes"), group_config.retry_max_times, expected, what_counts)
    if group_config.broker_id < 0:
        notes.value(path_in(path, "brokerId"), group_config.broker_id, "0 or more", "0, the master, counts")
        group_config = attrs.evolve(group_config, broker_id=0)
    if group_config.which_broker_when_consume_slowly < 0:
        found_id = group_config.which_broker_when_consume_slowly
        notes.value(path_in(path, "whichBrokerWhenConsumeSlowly"), found_id, "0 or more", "1, the default, counts")
        group_config = attrs.evolve(group_config, which_broker_when_consume_slowly=1)
    return group_config
