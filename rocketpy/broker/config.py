"""Settings of a broker: every key of RocketMQ's BrokerConfig, with its default.

Keys without an effect here (thread counts, queue capacities) are accepted, each with its reason.

Compatibility: ``BrokerConfig`` of 4.9.8; thread counts have the default 1, which is the truth here. Names and addresses
that Java takes from the machine are empty by default and filled in by :mod:`rocketpy.remoting.local_address` at start.
"""

from __future__ import annotations

import attrs

from rocketpy.protocol.codes import PERM_READ_WRITE
from rocketpy.protocol.topic_name import TRACE_TOPIC
from rocketpy.remoting.limits import allow_list
from rocketpy.remoting.limits.targets import are_targets
from rocketpy.settings import Between, OneOf, setting
from rocketpy.store.plug_in import EXPECTED, split_names

BROKER_PORT = 10911
"""Default port of a broker; the VIP port is two below it, the HA port one above it."""

_ONE_THREAD = "one Trio thread serves every request"
_NO_QUEUE = "requests are served as they are read; the buffer of a connection is bounded instead"
_NOT_REFUSED = "answering a request takes no longer than refusing it"
_LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "OFF")
_LEVEL_OF_ONE = OneOf("", *_LEVELS)
_LEVEL_EXPECTED = "DEBUG, INFO, WARN, ERROR or OFF; empty: as logLevel says"
_UNUSED = "RocketMQ does not use it either"
_NO_STATISTICS = "only hooks count commercial statistics, as in RocketMQ"


def _are_factories(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    split_names(str(value))


def _is_name(instance: object, attribute: attrs.Attribute[object], value: object) -> None:
    """Raise ``ValueError`` for a name that is none: in a path, or between the fields of an answer, it would be another.

    Compatibility: RocketMQ (4.9.8) takes any text.
    """
    text = str(value)
    if not text.isprintable() or "/" in text or text != text.strip():
        raise ValueError(f"{attribute.name} is {text!r}, expected a name without / and control characters")


# Each start would compile a repr of this many fields, and no use of it could be read: settings_values shows them.
@attrs.frozen(kw_only=True, repr=False)
class BrokerConfig:
    """The keys of RocketMQ's BrokerConfig."""

    # Identity of this broker
    namesrv_addr: str = setting("", expected="HOST:PORT, several separated by ;", important=True, fixed=True)
    broker_ip1: str = setting(
        "",
        key="brokerIP1",
        expected="an address that clients can reach; empty: this machine's",
        important=True,
        fixed=True,
    )
    broker_ip2: str = setting(
        "", key="brokerIP2", expected="an address that slaves can reach; empty: this machine's", fixed=True
    )
    broker_name: str = setting("", expected="a name; empty: this machine's", important=True, validator=_is_name)
    broker_cluster_name: str = setting("DefaultCluster", expected="a name", important=True, validator=_is_name)
    broker_id: int = setting(
        0,
        expected="an integer: above 0 for a slave, another one for each of a brokerName; a master has 0",
        important=True,
        fixed=True,
    )
    broker_permission: int = setting(
        PERM_READ_WRITE, expected="a sum of 4 (read) and 2 (write)", validator=Between(0, 7), live=True
    )
    region_id: str = setting("DefaultRegion", expected="a name", validator=_is_name)
    start_accept_send_request_time_stamp: int = setting(0, unit="ms since the epoch", validator=Between(0), live=True)
    trace_on: bool = setting(True, live=True)

    ha_allow_list: str = setting("", expected=allow_list.EXPECTED, fixed=True, validator=allow_list.are_networks)

    # Topics and groups
    default_topic_queue_nums: int = setting(8, unit="queues", validator=Between(1, 65_535))
    auto_create_topic_enable: bool = setting(True, important=True, live=True)
    cluster_topic_enable: bool = setting(True)
    broker_topic_enable: bool = setting(True)
    auto_create_subscription_group: bool = setting(True, important=True, live=True)
    msg_trace_topic_name: str = setting(TRACE_TOPIC, expected="a topic name", important=True)
    trace_topic_enable: bool = setting(False, important=True)

    # Consumers
    flush_consumer_offset_interval: int = setting(5000, unit="ms", validator=Between(1), live=True)
    long_polling_enable: bool = setting(True, live=True)
    short_polling_time_mills: int = setting(1000, unit="ms", validator=Between(0), live=True)
    held_pull_bytes_max: int = setting(512 << 20, unit="bytes", validator=Between(0), live=True)
    connection_held_pull_bytes_max: int = setting(128 << 20, unit="bytes", validator=Between(0), live=True)
    notify_consumer_ids_changed_enable: bool = setting(True, live=True)
    slave_read_enable: bool = setting(False, live=True)
    disable_consume_if_consumer_read_slowly: bool = setting(False, live=True)
    consumer_fallbehind_threshold: int = setting(17_179_869_184, unit="bytes", validator=Between(0), live=True)
    lock_max_live_time: int = setting(
        30_000, key="rocketmq.broker.rebalance.lockMaxLiveTime", unit="ms", validator=Between(1), live=True
    )

    client_body_bytes_max: int = setting(131_072, unit="bytes", validator=Between(1024), live=True)
    """Bound of the body of a heartbeat or a lock request."""
    connection_client_bytes_max: int = setting(8 << 20, unit="bytes", validator=Between(0), live=True)
    client_bytes_max: int = setting(256 << 20, unit="bytes", validator=Between(0), live=True)
    """Bounds of the groups and subscriptions from the heartbeats of one connection, and of all."""
    consumer_offsets_max: int = setting(1_000_000, unit="offsets", validator=Between(0), live=True)

    # Filters
    enable_property_filter: bool = setting(False, live=True)
    filter_support_retry: bool = setting(False, live=True)
    filter_data_clean_time_span: int = setting(86_400_000, unit="ms", validator=Between(0), live=True)
    enable_calc_filter_bit_map: bool = setting(False)
    expect_consumer_num_use_filter: int = setting(32, unit="filters", validator=Between(1, 1_000_000))
    max_error_rate_of_bloom_filter: int = setting(20, unit="percent", validator=Between(1, 99))

    # Sends
    store_reply_message_enable: bool = setting(True, live=True)
    broker_fast_failure_enable: bool = setting(True)
    wait_time_mills_in_send_queue: int = setting(200, unit="ms", validator=Between(0))
    sends_waiting_for_disk_max: int = setting(262_144, unit="sends", validator=Between(1), live=True)
    batch_messages_max: int = setting(10_000, unit="messages", validator=Between(1, 20_000), live=True)
    auto_create_topic_max: int = setting(50_000, unit="topics", validator=Between(0), live=True)
    auto_create_subscription_group_max: int = setting(50_000, unit="groups", validator=Between(0), live=True)
    auto_create_table_bytes_max: int = setting(14 << 20, unit="bytes", validator=Between(0), live=True)
    """Bound of the JSON size of the topic table, and of the group table, for automatic creation."""

    # Transactions
    reject_transaction_message: bool = setting(False, important=True, live=True)
    transaction_time_out: int = setting(6000, unit="ms", validator=Between(0), important=True, live=True)
    transaction_check_max: int = setting(15, unit="checks", validator=Between(0), important=True, live=True)
    transaction_check_interval: int = setting(60_000, unit="ms", validator=Between(1), important=True, live=True)

    # Registration
    register_broker_timeout_mills: int = setting(6000, unit="ms", validator=Between(1), live=True)
    register_name_server_period: int = setting(
        30_000, unit="ms", expected="an integer; 10000 to 60000 counts", live=True
    )
    compressed_register: bool = setting(False, live=True)
    force_register: bool = setting(True, live=True)

    # Plug-ins and hooks
    message_store_plug_in: str = setting("", expected=EXPECTED, fixed=True, validator=_are_factories)
    send_message_hooks: str = setting("", expected=EXPECTED, fixed=True, validator=_are_factories)
    consume_message_hooks: str = setting("", expected=EXPECTED, fixed=True, validator=_are_factories)

    # Access control
    acl_enable: bool = setting(False, important=True, fixed=True)
    acl_directory: str = setting(
        "", expected="a directory; empty: conf in rocketmqHome, or beside this file", fixed=True
    )
    acl_strict: bool = setting(False, fixed=True)
    acl_targets: str = setting(
        "",
        expected="ADDRESS:PORT of tunnels and load balancers before this broker, with , between them; * for any",
        fixed=True,
        validator=are_targets,
    )
    """Ours: addresses for which a client of rocketpy may sign a request, beside those of this broker."""
    replication_account: str = setting(
        "", expected="the access key of an account in plain_acl.yml; empty: requests are not signed", fixed=True
    )
    """Signs the requests for tables to the other brokers of this name."""
    rocketmq_home: str | None = setting(None, expected="a directory", fixed=True)

    # Not served yet
    fetch_namesrv_addr_by_address_server: bool = setting(
        False, ignored="nameservers are named by namesrvAddr", important=True, fixed=True
    )

    # Without effect here
    broker_config_path: str | None = setting(None, ignored="it is the file given with -c", fixed=True)
    config_black_list: str = setting("configBlackList;brokerConfigPath", expected="keys separated by ;", fixed=True)
    send_message_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    put_message_future_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    pull_message_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    process_reply_message_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    query_message_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    admin_broker_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    client_manage_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    consumer_manage_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    heartbeat_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    end_transaction_thread_pool_nums: int = setting(1, ignored=_ONE_THREAD)
    send_thread_pool_queue_capacity: int = setting(10_000, ignored=_NO_QUEUE)
    put_thread_pool_queue_capacity: int = setting(10_000, ignored=_NO_QUEUE)
    pull_thread_pool_queue_capacity: int = setting(100_000, ignored=_NO_QUEUE)
    reply_thread_pool_queue_capacity: int = setting(10_000, ignored=_NO_QUEUE)
    query_thread_pool_queue_capacity: int = setting(20_000, ignored=_NO_QUEUE)
    client_manager_thread_pool_queue_capacity: int = setting(1_000_000, ignored=_NO_QUEUE)
    consumer_manager_thread_pool_queue_capacity: int = setting(1_000_000, ignored=_NO_QUEUE)
    heartbeat_thread_pool_queue_capacity: int = setting(50_000, ignored=_NO_QUEUE)
    end_transaction_pool_queue_capacity: int = setting(100_000, ignored=_NO_QUEUE)
    wait_time_mills_in_pull_queue: int = setting(5000, ignored=_NOT_REFUSED)
    wait_time_mills_in_heartbeat_queue: int = setting(31_000, ignored=_NOT_REFUSED)
    wait_time_mills_in_transaction_queue: int = setting(3000, ignored=_NOT_REFUSED)
    transfer_msg_by_heap: bool = setting(True, ignored="records are read once and sent unchanged")
    flush_consumer_offset_history_interval: int = setting(60_000, ignored=_UNUSED)
    filter_server_nums: int = setting(0, ignored=_UNUSED, fixed=True)
    high_speed_mode: bool = setting(False, ignored=_UNUSED)
    max_delay_time: int = setting(40, ignored=_UNUSED)
    commercial_enable: bool = setting(True, ignored=_NO_STATISTICS)
    commercial_timer_count: int = setting(1, ignored=_NO_STATISTICS)
    commercial_trans_count: int = setting(1, ignored=_NO_STATISTICS)
    commercial_big_count: int = setting(1, ignored=_NO_STATISTICS)
    commercial_base_count: int = setting(1, unit="messages", validator=Between(0))
    enable_detail_stat: bool = setting(True)
    auto_delete_unused_stats: bool = setting(True, live=True)

    # Logs
    log_directory: str = setting("", expected="a directory; empty: standard error", fixed=True)
    isolate_log_enable: bool = setting(False)
    log_level: str = setting("INFO", validator=OneOf(*_LEVELS), live=True)
    log_level_broker: str = setting(
        "", key="logLevel.broker", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_protection: str = setting(
        "", key="logLevel.protection", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_watermark: str = setting(
        "", key="logLevel.watermark", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_store: str = setting(
        "", key="logLevel.store", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_store_error: str = setting(
        "", key="logLevel.storeError", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_remoting: str = setting(
        "", key="logLevel.remoting", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_transaction: str = setting(
        "", key="logLevel.transaction", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_lock: str = setting("", key="logLevel.lock", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True)
    log_level_filter: str = setting(
        "", key="logLevel.filter", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_stats: str = setting(
        "", key="logLevel.stats", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_commercial: str = setting(
        "", key="logLevel.commercial", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_namesrv: str = setting(
        "", key="logLevel.namesrv", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )
    log_level_default: str = setting(
        "", key="logLevel.default", expected=_LEVEL_EXPECTED, validator=_LEVEL_OF_ONE, live=True
    )

    @property
    def namesrv_addresses(self) -> tuple[str, ...]:
        """The nameservers, in the order given."""
        return tuple(address.strip() for address in self.namesrv_addr.split(";") if address.strip())

    @property
    def registration_period_seconds(self) -> float:
        """``registerNameServerPeriod`` within RocketMQ's bounds of 10 and 60 seconds."""
        return max(10_000, min(self.register_name_server_period, 60_000)) / 1000
