"""Configuration of the message store: RocketMQ's MessageStoreConfig with its keys and defaults.

Rule: every key of RocketMQ 4.9.8 is accepted; a key without effect here says why. Sizes apply to new files only: a
store opens with whatever file sizes it was written with.
"""

from __future__ import annotations

import enum
import os.path

import attrs

from rocketpy.protocol.delay_level import parse_delay_levels
from rocketpy.settings import Between, setting
from rocketpy.store import layout
from rocketpy.store.ha.protocol import FRAME_BODY_MAX

_NO_LOCK = "append runs in one thread and needs no lock"
_HOUR_MS = 3_600_000


_NO_WAIT = "delivery never waits for a flush"
_NO_DLEDGER = "DLedger is not supported"
_UNLINKED = "a deleted file is unlinked at once; its space is freed when the last reader closes it"


class FlushDiskType(enum.Enum):
    """Time of the answer to a producer: once the message is in the page cache, or once it is on disk."""

    ASYNC_FLUSH = "ASYNC_FLUSH"
    SYNC_FLUSH = "SYNC_FLUSH"


class BrokerRole(enum.Enum):
    """The broker's role within its replication group."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


def _check_hours(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    """Raise ``ValueError`` unless a value is a list of hours of the day; an empty one is valid."""
    for hour in str(value).split(";") if value else ():
        if not hour.strip().isdecimal() or int(hour) > 23:
            raise ValueError(f"{attribute.name} is {value!r}, expected hours from 0 to 23 with ; between them")


def _check_delay_levels(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    parse_delay_levels(str(value))


@attrs.frozen(kw_only=True, repr=False)  # as BrokerConfig: each start would compile it for nothing
class MessageStoreConfig:
    """The keys of RocketMQ's MessageStoreConfig. Paths may begin with ``~``."""

    store_path_root_dir: str = setting("~/store", expected="a directory", important=True, fixed=True)
    store_path_commit_log: str | None = setting(
        None, expected="directories with , between them; none: commitlog in storePathRootDir", fixed=True
    )
    read_only_commit_log_store_paths: str | None = setting(
        None, expected="directories of the log that get no new files, with , between them", fixed=True
    )
    broker_role: BrokerRole = setting(BrokerRole.ASYNC_MASTER, important=True, fixed=True)
    flush_disk_type: FlushDiskType = setting(FlushDiskType.ASYNC_FLUSH, important=True)

    mapped_file_size_commit_log: int = setting(1 << 30, unit="bytes", validator=Between(4096, 1 << 31))
    mapped_file_size_consume_queue: int = setting(6_000_000, unit="bytes", validator=Between(20, 1 << 31))
    enable_consume_queue_ext: bool = setting(False)
    mapped_file_size_consume_queue_ext: int = setting(48 << 20, unit="bytes", validator=Between(64, 1 << 31))
    max_message_size: int = setting(4 << 20, unit="bytes", validator=Between(1, 16 << 20))
    check_crc_on_recover: bool = setting(True, key="checkCRCOnRecover")
    consume_queue_files_open_max: int = setting(
        512, unit="files", expected="how many idle files keep a descriptor", validator=Between(8)
    )

    flush_interval_commit_log: int = setting(500, unit="ms", validator=Between(1))
    flush_commit_log_timed: bool = setting(True)
    flush_commit_log_least_pages: int = setting(4, unit="pages of 4096 bytes", validator=Between(0))
    flush_commit_log_thorough_interval: int = setting(10_000, unit="ms", validator=Between(1))
    flush_interval_consume_queue: int = setting(1_000, unit="ms", validator=Between(1))
    flush_consume_queue_least_pages: int = setting(2, unit="pages of 4096 bytes", validator=Between(0))
    flush_consume_queue_thorough_interval: int = setting(60_000, unit="ms", validator=Between(1))
    transient_store_pool_enable: bool = setting(False)
    transient_store_pool_size: int = setting(5, unit="CommitLog files", validator=Between(1))
    fast_fail_if_no_buffer_in_store_pool: bool = setting(False)
    commit_interval_commit_log: int = setting(200, unit="ms", validator=Between(1))
    commit_commit_log_least_pages: int = setting(4, unit="pages of 4096 bytes", validator=Between(0))
    commit_commit_log_thorough_interval: int = setting(200, unit="ms", validator=Between(1))
    warm_maped_file_enable: bool = setting(False)
    warm_ahead_enable: bool = setting(True)
    """Ours: whether pages ahead of the log are brought into the page cache where memory is slow at its first use."""
    flush_least_pages_when_warm_maped_file: int = setting(4096, unit="pages of 4096 bytes", validator=Between(1))
    sync_flush_timeout: int = setting(5_000, unit="ms", expected="a number; negative: every answer is a timeout")
    slave_timeout: int = setting(3_000, unit="ms", validator=Between(0), live=True)
    ha_slave_fallbehind_max: int = setting(256 << 20, unit="bytes", validator=Between(0), live=True)

    max_transfer_bytes_on_message_in_memory: int = setting(262_144, unit="bytes", validator=Between(1), live=True)
    max_transfer_count_on_message_in_memory: int = setting(32, unit="messages", validator=Between(1), live=True)
    max_transfer_bytes_on_message_in_disk: int = setting(65_536, unit="bytes", validator=Between(1), live=True)
    max_transfer_count_on_message_in_disk: int = setting(8, unit="messages", validator=Between(1), live=True)
    access_message_in_memory_max_ratio: int = setting(40, unit="% of memory", validator=Between(0, 100))
    default_query_max_num: int = setting(32, unit="messages", validator=Between(1))
    offset_check_in_slave: bool = setting(False)
    disk_fall_recorded: bool = setting(True)

    message_index_enable: bool = setting(True)
    max_hash_slot_num: int = setting(5_000_000, unit="slots", validator=Between(1, 500_000_000))  # positions: 31 bits
    max_index_num: int = setting(20_000_000, unit="entries", validator=Between(2, 100_000_000))
    max_msgs_num_batch: int = setting(64, unit="messages", validator=Between(1))
    message_index_safe: bool = setting(
        False, ignored="after a crash the index is always built again, from its last durable file on"
    )

    file_reserved_time: int = setting(72, unit="hours", validator=Between(0), live=True)
    delete_when: str = setting(
        "04", expected="hours of the day, 0 to 23, with ; between them", validator=_check_hours, live=True
    )
    disk_max_used_space_ratio: int = setting(
        75, unit="% of the disk", expected="a number, counted as at least 10 and at most 95", live=True
    )
    disk_space_clean_forcibly_ratio: int = setting(85, unit="% of the disk", validator=Between(30, 100), live=True)
    disk_space_warning_level_ratio: int = setting(90, unit="% of the disk", validator=Between(35, 100), live=True)
    clean_file_forcibly_enable: bool = setting(True, live=True)
    clean_resource_interval: int = setting(10_000, unit="ms", validator=Between(1))
    delete_commit_log_files_interval: int = setting(100, unit="ms", validator=Between(0))
    delete_consume_queue_files_interval: int = setting(100, unit="ms", validator=Between(0))

    enable_multi_dispatch: bool = setting(False)
    enable_lmq: bool = setting(False)
    max_lmq_consume_queue_num: int = setting(20_000, unit="queues", validator=Between(0))

    message_delay_level: str = setting(
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h",
        expected="delays in s, m, h or d with blanks between them",
        validator=_check_delay_levels,
    )

    ha_send_heartbeat_interval: int = setting(5_000, unit="ms", validator=Between(1, _HOUR_MS), live=True)
    ha_housekeeping_interval: int = setting(20_000, unit="ms", validator=Between(1, _HOUR_MS), live=True)
    ha_transfer_batch_size: int = setting(32_768, unit="bytes", validator=Between(1, FRAME_BODY_MAX), live=True)
    ha_master_address: str | None = setting(
        None, expected="HOST:PORT of a master's replication port; empty: as the nameservers answer", fixed=True
    )
    ha_truncate_diverged_log: bool = setting(False)
    """Ours: a slave whose log parts from its master's keeps what only it has in files, and cuts its log there."""

    flush_delay_offset_interval: int = setting(10_000, unit="ms", validator=Between(1))
    enable_schedule_message_stats: bool = setting(True)

    # Accepted without effect, settings for Java's memory management among them.
    store_path_d_ledger_commit_log: str | None = setting(
        None, key="storePathDLedgerCommitLog", ignored=_NO_DLEDGER, fixed=True
    )
    bit_map_length_consume_queue_ext: int = setting(64, ignored="a bit map is as long as its filter, in RocketMQ too")
    use_reentrant_lock_when_put_message: bool = setting(True, ignored=_NO_LOCK)
    os_page_cache_busy_time_out_mills: int = setting(1000, unit="ms", validator=Between(1))
    debug_lock_enable: bool = setting(False, ignored=_NO_LOCK)
    put_msg_index_hight_water: int = setting(600_000, ignored="RocketMQ does not use it either")
    destroy_maped_file_interval_forcibly: int = setting(120_000, ignored=_UNLINKED)
    redelete_hanged_file_interval: int = setting(120_000, ignored=_UNLINKED)
    ha_listen_port: int = setting(10912, ignored="it is listenPort plus one, in RocketMQ too", fixed=True)
    duplication_enable: bool = setting(False, ignored="RocketMQ's own recovery without dispatch is never wanted")
    enable_d_leger_commit_log: bool = setting(False, key="enableDLegerCommitLog", ignored=_NO_DLEDGER)
    d_leger_group: str | None = setting(None, key="dLegerGroup", ignored=_NO_DLEDGER)
    d_leger_peers: str | None = setting(None, key="dLegerPeers", ignored=_NO_DLEDGER, fixed=True)
    d_leger_self_id: str | None = setting(None, key="dLegerSelfId", ignored=_NO_DLEDGER)
    preferred_leader_id: str | None = setting(None, ignored=_NO_DLEDGER)
    enable_batch_push: bool = setting(False, ignored=_NO_DLEDGER)
    enable_schedule_async_deliver: bool = setting(False, ignored=_NO_WAIT)
    schedule_async_deliver_max_pending_limit: int = setting(2_000, ignored=_NO_WAIT)
    schedule_async_deliver_max_resend_num2_blocked: int = setting(
        3, key="scheduleAsyncDeliverMaxResendNum2Blocked", ignored=_NO_WAIT
    )

    @property
    def root(self) -> str:
        """The store's directory, with ``~`` resolved."""
        return os.path.expanduser(self.store_path_root_dir)

    @property
    def commit_log_path(self) -> str:
        """The directory of the CommitLog files, the first of them if there are several."""
        return self.commit_log_paths[0]

    @property
    def commit_log_paths(self) -> tuple[str, ...]:
        """The directories over which the files of the CommitLog are distributed."""
        default = os.path.join(self.root, layout.COMMIT_LOG_DIRECTORY)
        return _directories(self.store_path_commit_log) or (default,)

    @property
    def read_only_commit_log_paths(self) -> tuple[str, ...]:
        """Directories with CommitLog files in which no new files are created."""
        return _directories(self.read_only_commit_log_store_paths)

    @property
    def delete_hours(self) -> frozenset[int]:
        """The hours of the day, in local time, in which expired files are deleted."""
        return frozenset(int(hour) for hour in self.delete_when.split(";") if hour)

    @property
    def consume_queue_path(self) -> str:
        """The parent directory of the topics' ConsumeQueue directories."""
        return os.path.join(self.root, layout.CONSUME_QUEUE_DIRECTORY)

    @property
    def consume_queue_ext_path(self) -> str:
        """The parent directory of the topics' ConsumeQueueExt directories."""
        return os.path.join(self.root, layout.CONSUME_QUEUE_EXT_DIRECTORY)

    @property
    def index_path(self) -> str:
        """The directory of the index files."""
        return os.path.join(self.root, layout.INDEX_DIRECTORY)

    @property
    def consume_queue_file_size(self) -> int:
        """The length of a new ConsumeQueue file: the configured one, rounded up to whole units."""
        return -(-self.mapped_file_size_consume_queue // layout.UNIT_SIZE) * layout.UNIT_SIZE

    @property
    def is_sync_flush(self) -> bool:
        """Whether a producer is answered only when its message is durable."""
        return self.flush_disk_type is FlushDiskType.SYNC_FLUSH

    @property
    def is_sync_master(self) -> bool:
        """Whether a producer is answered only when a slave has its message."""
        return self.broker_role is BrokerRole.SYNC_MASTER

    @property
    def has_transient_store_pool(self) -> bool:
        """Whether messages are collected in memory before they are written: never under SYNC_FLUSH or on a slave."""
        return self.transient_store_pool_enable and not self.is_sync_flush and self.broker_role is not BrokerRole.SLAVE

    @property
    def warm_sync_bytes(self) -> int | None:
        """Bytes per sync while a file is filled in advance; None for one sync at the end."""
        is_synced = self.warm_maped_file_enable and self.is_sync_flush
        return self.flush_least_pages_when_warm_maped_file * 4096 if is_synced else None

    @property
    def is_zero_filled(self) -> bool:
        """Whether new files of the log are filled with zeros."""
        return self.is_sync_flush or self.warm_maped_file_enable

    @property
    def warms_ahead(self) -> bool:
        """Whether pages ahead of the log are warmed: not if files are filled, which brings them into the page cache."""
        return self.warm_ahead_enable and not self.is_zero_filled

    @property
    def transient_store_pool_bytes(self) -> int:
        """The capacity of the transient store pool."""
        return self.transient_store_pool_size * self.mapped_file_size_commit_log


def _directories(paths: str | None) -> tuple[str, ...]:
    """Return the directories of a comma-separated list, without duplicates."""
    named = [path.strip() for path in (paths or "").split(",")]
    return tuple(dict.fromkeys(os.path.expanduser(path).rstrip("/") or "/" for path in named if path))
